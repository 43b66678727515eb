"""The grid of (σ, τ), the standard deviations of levels and contrasts: its evidence, and draws from its posterior."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from posse.insight.hierarchy.propagation import Cells

SCALE = 0.5  # of the half-Cauchy priors
LARGEST = 4.0  # of σ and τ: the odds of one player are fifty times those of another
ZERO = {"low": 0.75, "middle": 0.25, "high": 0.0}  # the prior probability that σ (and τ) is 0, for each end
GRID = 9  # values of σ and of τ
NEGLIGIBLE = 8.0  # a logarithm of a likelihood ratio
MANY = 20_000  # from so many cells on, the normal likelihoods at the best (σ, τ) serve the whole grid


class ScaleGrid:
    """The grid of (σ, τ): its evidence, and draws from what it leaves possible."""

    def __init__(self, cells: Cells, tells_contrasts: bool) -> None:
        self.cells, self.tells_contrasts = cells, tells_contrasts
        self.many = cells.pulls.size > MANY  # so that one set of sites serves the whole grid: it spans little
        self.sites = cells.first_sites()
        self.best = 0.5, 0.3 if tells_contrasts else 0.0
        coarse = np.concatenate([[0.0], np.geomspace(0.01, LARGEST, 12)])
        self.coarse = coarse, coarse if tells_contrasts else np.zeros(1)
        self._search()
        if self.best[1] > 0:  # estimate λ_a, and search again
            for _ in range(2):
                cells.factors = cells.estimated_factors(self.sites, *self.best)
                _, self.sites = cells.converged(*self.best, self.sites)
            self._search()
        self._zoom()

    def _search(self) -> None:
        """Find the best (σ, τ) on the coarse grid, and the sites there."""
        prior = _log_prior(self.coarse[0])[:, None] + _log_prior(self.coarse[1])
        for _ in range(6):
            _, self.sites = self.cells.converged(*self.best, self.sites)
            table = prior + self.cells.evidence(self.sites, *self.coarse)
            self.apart = table - table.max()
            last, self.best = self.best, _best(table, self.coarse)
            if self.best == last:
                break

    def _zoom(self) -> None:
        """Evaluate a grid; move and scale it until it holds all that is not negligible, and resolves it."""
        profiles = self.apart.max(axis=1), self.apart.max(axis=0)
        self.axes = [_first_axis(*pair) for pair in zip(self.coarse, profiles, strict=True)]
        for _ in range(6):
            self._evaluate()
            last, self.best = self.best, _best(self.evidence, self.values)
            apart = self.evidence - self.evidence.max()
            profiles = apart.max(axis=1), apart.max(axis=0)
            better = [_zoomed(axis, profile[-len(axis) :]) for axis, profile in zip(self.axes, profiles, strict=True)]
            same = all(np.array_equal(new, old) for new, old in zip(better, self.axes, strict=True))
            if same and (self.best == last or not self.many):
                break
            if not same:
                self.axes = better
            _, self.sites = self.cells.converged(*self.best, self.sites)

    def _evaluate(self) -> None:
        """The evidence at every (σ, τ) of the grid, and at 0 in front of each axis."""
        self.values = [np.concatenate([[0.0], axis]) for axis in self.axes]
        sites = self.sites
        self.evidence = self.cells.evidence(sites, *self.values)
        self.nodes = dict.fromkeys(np.ndindex(self.evidence.shape), sites)
        if self.many:
            return
        for row, level in enumerate(self.values[0]):
            for column in range(len(self.values[1]))[:: 1 if row % 2 == 0 else -1]:  # start from a neighbor's sites
                self.evidence[row, column], sites = self.cells.converged(level, self.values[1][column], sites)
                self.nodes[row, column] = sites

    def likelihood_ratios(self) -> tuple[float, float, float]:
        """Twice the logarithms of the likelihood ratios against σ = 0, against τ = 0, and against σ = τ = 0."""
        nulls = self.evidence[0].max(), self.evidence[:, 0].max(), self.evidence[0, 0]
        level, contrast, both = (2 * float(self.evidence.max() - null) for null in nulls)
        return level, contrast, both

    def noise(self) -> float:
        """The typical sampling variance of a cell on the logit scale (Higgins and Thompson, 2002)."""
        t = self.sites.t[self.sites.t > 0]
        return float((len(t) - 1) * t.sum() / (t.sum() ** 2 - (t**2).sum())) if len(t) > 1 else math.inf

    def draw(self, count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Draws of the means on [0, 1], of (σ, τ), and the draws' weights under each prior."""
        posteriors = {}  # of the grid, by the prior
        for name, zero in ZERO.items():
            priors = [_prior_weights(axis, zero) for axis in self.axes]
            weights = priors[0][:, None] * priors[1] * np.exp(self.evidence - self.evidence.max())
            posteriors[name] = (weights / weights.sum()).ravel()
        proposal = np.mean(list(posteriors.values()), axis=0)
        places = (np.arange(count) + random.random()) / count
        chosen = np.minimum(np.searchsorted(np.cumsum(proposal), places), proposal.size - 1)
        draws, scales = np.empty((count, *self.cells.pulls.shape)), np.empty((count, 2))
        for node in np.unique(chosen):
            place = np.unravel_index(node, self.evidence.shape)
            which = chosen == node
            level, contrast = (float(axis[at]) for axis, at in zip(self.values, place, strict=True))
            scales[which] = level, contrast
            draws[which] = self.cells.draw(self.nodes[place], level, contrast, int(which.sum()), random)
        for column, axis in enumerate(self.axes):  # anywhere between the values of the grid; 0 stays 0
            width = axis[1] - axis[0] if len(axis) else 0.0
            scales[:, column] += (scales[:, column] > 0) * width * (random.random(count) - 0.5)
        return draws, scales, {name: each[chosen] / proposal[chosen] for name, each in posteriors.items()}


def _best(table: np.ndarray, values: Sequence[np.ndarray]) -> tuple[float, float]:
    """The (σ, τ) with the largest entry in a table."""
    row, column = np.unravel_index(table.argmax(), table.shape)
    return float(values[0][row]), float(values[1][column])


def _first_axis(coarse: np.ndarray, profile: np.ndarray) -> np.ndarray:
    """An axis from just below to just above the coarse values that are not negligible; empty if there is only 0."""
    if len(coarse) == 1:
        return np.zeros(0)
    kept = np.flatnonzero(profile > -NEGLIGIBLE)
    return np.linspace(coarse[max(kept[0] - 1, 0)], coarse[min(kept[-1] + 1, len(coarse) - 1)], GRID)


def _zoomed(axis: np.ndarray, profile: np.ndarray) -> np.ndarray:
    """The axis, or a better one if it cuts off what is not negligible or resolves it too coarsely."""
    if len(axis) == 0:
        return axis
    kept = np.flatnonzero(profile > -NEGLIGIBLE)
    step = axis[1] - axis[0]
    if len(kept) == 0:  # all is at 0
        return np.linspace(0, max(axis[0], step), GRID) if axis[0] > 0 or step > 1e-3 else axis
    cut_low, cut_high = kept[0] == 0 and axis[0] > 0, kept[-1] == len(axis) - 1 and axis[-1] < LARGEST
    if len(kept) >= GRID // 2 and not (cut_low or cut_high):
        return axis
    low = axis[kept[0]] - step * (3 if cut_low else 1)
    high = axis[kept[-1]] + step * (GRID / 2 if cut_high else 1)
    return np.linspace(max(low, 0.0), min(high, LARGEST), GRID)


def _log_prior(scale: np.ndarray) -> np.ndarray:
    return -np.log1p((scale / SCALE) ** 2)


def _prior_weights(axis: np.ndarray, zero: float) -> np.ndarray:
    """The prior of 0 and of the values on the axis (trapezoids under the half-Cauchy density)."""
    if len(axis) == 0:
        return np.ones(1)
    inner = np.full(len(axis), axis[1] - axis[0])
    inner[[0, -1]] /= 2
    return np.concatenate([[zero], (1 - zero) * inner * np.exp(_log_prior(axis)) * 2 / (math.pi * SCALE)])
