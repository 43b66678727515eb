"""How much of the way players differ each attribute explains: crossed random effects, by Gibbs sampling.

On the logit scale, player p's mean on arm a is θ_a + u_p + c_pa, as in `model.py`. Here levels and contrasts are sums:

    c_pa = Σ_k β_k[v, a] + e_pa,   u_p = m + Σ_k γ_k[v] + w_p,   v the player's value of attribute k.

Each attribute's effects are normal with a scale of their own, and so is what is left, e and w. Scales have the priors
of `model.py`: half-Cauchy, or exactly 0 with some probability. The cells' likelihoods are the normal ones that the
model of the players has found, so every step of the sampler is a closed form. A scale is drawn from a grid with its
effects and the arms integrated out; otherwise chains would stick at 0.

The level of a player is its mean over the arms, and its contrasts are what is left; so effects β count in both. The
share of an attribute is the variance of its effects among the players at hand, over the sum of the variances of all
parts. It is about these values and players, not about others that might have been (Gelman, "Analysis of variance",
Annals of Statistics 33, 2005), so an attribute with two values is nothing special.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from posse.insight.hierarchy.grid import LARGEST, SCALE, ZERO
from posse.insight.hierarchy.model import CELLS, PlayerModel, PosteriorInterval, posterior_interval
from posse.insight.hierarchy.propagation import VAGUE
from posse.learner import Counts

SCALES = np.geomspace(0.01, LARGEST, 40)
STEP = math.log(SCALES[1] / SCALES[0])
LOG_PRIOR = np.log(SCALES * STEP * 2 / (math.pi * SCALE)) - np.log1p((SCALES / SCALE) ** 2)
SQUARES = np.concatenate([[0.0], SCALES**2])
WARM_UP, MOST_SWEEPS, FEWEST_SWEEPS = 100, 1000, 300
WORK = 400_000_000  # cells × scales × sweeps, at most, unless that leaves too few sweeps

CAREFUL = 0.5  # of the level, because the cells' normal likelihoods and the factors are taken as known
DENSE = 10_000_000  # cells × squared values; with more, effects of all attributes are drawn at once less often


class Part:
    """Players' levels or contrasts as a sum: a mean for each column, effects of attributes, and what is left."""

    def __init__(self, codes: list[np.ndarray], factors: np.ndarray) -> None:
        self.members = [np.eye(code.max() + 2)[code + 1] for code in codes]  # [player, value]; the first is missing
        self.factors, self.means = factors**2, np.zeros(factors.size)
        self.effects = [np.zeros((each.shape[1], factors.size)) for each in self.members]
        self.scales = np.full(len(codes) + 1, 0.1)  # of each attribute's effects, and of what is left

    @property
    def explained(self) -> np.ndarray:
        """Means and effects of attributes, [player, column]."""
        return self.means + sum(m @ e for m, e in zip(self.members, self.effects, strict=True))

    @property
    def own(self) -> np.ndarray:
        """The variance of what is left, [column]."""
        return np.asarray(self.scales[-1] ** 2 * self.factors)

    def update(self, t: np.ndarray, h: np.ndarray, center: float, random: np.random.Generator) -> None:
        """Draw everything but what is left, given normal likelihoods of the sums, [player, column]."""
        precision, weighted = t / (1 + self.own * t), h / (1 + self.own * t)
        for number, (members, effects) in enumerate(zip(self.members, self.effects, strict=True)):
            rest = self.explained - self.means - members @ effects
            d, x = members.T @ precision, members.T @ (weighted - precision * rest)  # [value, column]
            variance = SQUARES[:, None, None] * self.factors * (np.arange(len(d)) > 0)[:, None]  # missing: no effect
            shrink = 1 + variance * d
            total, sums = (d / shrink).sum(axis=1) + VAGUE**-2, (x / shrink).sum(axis=1) + center * VAGUE**-2
            found = (variance * x**2 / shrink - np.log(shrink)).sum(axis=(1, 2)) / 2
            found += (sums**2 / total - np.log(total)).sum(axis=1) / 2
            chosen, self.scales[number] = _draw_scale(found, random)
            self.means = sums[chosen] / total[chosen] + random.standard_normal(self.means.size) / np.sqrt(total[chosen])
            variance, shrink = variance[chosen] / shrink[chosen], shrink[chosen]
            effects[:] = variance * (x - d * self.means) + np.sqrt(variance) * random.standard_normal(d.shape)
        g = h - t * self.explained
        variance = SQUARES[:, None, None] * self.factors
        shrink = 1 + variance * t
        _, self.scales[-1] = _draw_scale((variance * g**2 / shrink - np.log(shrink)).sum(axis=(1, 2)) / 2, random)

    def exchange(self, t: np.ndarray, h: np.ndarray, center: float, random: np.random.Generator) -> None:
        """Perhaps exchange the scales of two attributes, and draw the effects of all attributes at once.

        Otherwise chains would stick if the same players share a value of both attributes.
        """
        first, second = random.choice(len(self.members), 2, replace=False)
        design = np.hstack([np.ones((len(t), 1)), *(members[:, 1:] for members in self.members)])
        of = np.repeat(np.arange(len(self.members)), [members.shape[1] - 1 for members in self.members])
        d, x = (each / (1 + self.own * t) for each in (t, h - t * center))
        matrix, vector = design.T @ (d.T[:, :, None] * design), (design.T @ x).T  # [arm, effect, effect], [arm, effect]
        swapped = self.scales.copy()
        swapped[[first, second]] = self.scales[[second, first]]
        tried = []
        for scales in (self.scales, swapped):
            unit = np.hstack([np.full((self.means.size, 1), VAGUE), np.sqrt(self.factors)[:, None] * scales[of]])
            root = np.linalg.cholesky(np.eye(len(of) + 1) + unit[:, :, None] * matrix * unit[:, None, :])
            mean = np.linalg.solve(root, (unit * vector)[:, :, None])
            evidence = (mean**2).sum() / 2 - np.log(np.diagonal(root, axis1=1, axis2=2)).sum()
            tried.append((evidence, scales, unit, root, mean))
        accept = math.log(random.random() + 1e-300) < tried[1][0] - tried[0][0]
        _, self.scales, unit, root, mean = tried[int(accept)]
        drawn = np.linalg.solve(root.transpose(0, 2, 1), mean + random.standard_normal(mean.shape))[:, :, 0] * unit
        self.means = center + drawn[:, 0]
        for number, effects in enumerate(self.effects):
            effects[1:] = drawn[:, 1:][:, of == number].T

    def draw(self, t: np.ndarray, h: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """What is left, drawn given normal likelihoods of the sums, [player, column]."""
        shrink = 1 + self.own * t
        mean = self.own * (h - t * self.explained) / shrink
        return np.asarray(mean + np.sqrt(self.own / shrink) * random.standard_normal(t.shape))


def sum_of_squares(effects: np.ndarray, counts: np.ndarray) -> float:
    """The sum of squares around the columns' means, and around the rows' means if there are several columns."""
    apart = effects - counts @ effects / counts.sum()
    apart = apart - apart.mean(axis=1, keepdims=True) if effects.shape[1] > 1 else apart
    return float(counts @ (apart**2).sum(axis=1))


def _draw_scale(evidence: np.ndarray, random: np.random.Generator) -> tuple[int, float]:
    """A place in SQUARES, and a scale near it."""
    zero = ZERO["middle"]
    found = evidence + np.concatenate([[math.log(zero)], math.log(1 - zero) + LOG_PRIOR])
    heaped = np.cumsum(np.exp(found - found.max()))
    chosen = int(np.searchsorted(heaped, random.random() * heaped[-1]))
    return chosen, math.sqrt(SQUARES[chosen]) * math.exp(STEP * (random.random() - 0.5))


class ShareDraws(NamedTuple):
    """Draws of what each attribute explains, and last of what none explains."""

    squares: np.ndarray  # sums of squares between players, [draw, part]
    nothing: np.ndarray  # which of a part's standard deviations are 0, [draw, part, deviation]

    def interval(self, level: float = 0.05) -> PosteriorInterval:
        """The share of each part, [part], given that players differ."""
        differ = self.squares.sum(axis=1) > 0
        shares = self.squares[differ] / self.squares[differ].sum(axis=1, keepdims=True)
        found = []
        for share, nothing in zip(shares.T, self.nothing[differ].swapaxes(0, 1), strict=True):
            weights = {  # the draws have the middle's prior
                name: np.where(nothing, zero / ZERO["middle"], (1 - zero) / (1 - ZERO["middle"])).prod(axis=1)
                for name, zero in ZERO.items()
            }
            weights["high"] += 1e-9  # all draws may be 0
            found.append(posterior_interval(share, weights, CAREFUL * level))
        return PosteriorInterval(*np.array(found).T)


@dataclass(frozen=True, eq=False)
class AttributeShares:
    """What each attribute explains of how players differ, and what its values do."""

    values: dict[str, tuple[str, ...]]  # the values of each attribute that players with data have
    players: dict[str, np.ndarray]  # how many players have each of them, [value]
    levels: ShareDraws
    """Of the variance of levels, which are means over the arms, on the logit scale; parts are the attributes in their
    order, then the rest."""
    contrasts: ShareDraws | None  # the same of contrasts; None where the data cannot tell them from levels
    means: dict[str, np.ndarray]
    """Draws of the mean reward of the players with each value, [draw, value, arm]; NaN for arms without data."""
    draws: np.ndarray  # the players' means, [draw, player, arm], of the players and arms that have data


def attribute_shares(counts: Counts, model: PlayerModel, seed: int = 0) -> AttributeShares:
    """Sample what the attributes of these players explain.

    >>> pulls, region = np.full((8, 2), 900), ("north", "south") * 4
    >>> sums = np.where(np.array(region)[:, None] == "north", (180.0, 270.0), (270.0, 180.0)) + np.arange(8)[:, None]
    >>> from posse.insight.hierarchy.model import fit
    >>> counts = Counts(tuple("abcdefgh"), ("x", "y"), pulls, sums, attributes={"region": region})
    >>> found = attribute_shares(counts, fit(counts)).contrasts.interval()
    >>> bool(found.low[0] > 0.5)
    True
    """
    there, arms = (np.flatnonzero(each) for each in model.there)
    attributes = {name: [values[player] for player in there] for name, values in (counts.attributes or {}).items()}
    values = {name: tuple(sorted({value for value in each if value is not None})) for name, each in attributes.items()}
    codes = [
        np.array([-1 if value is None else values[name].index(value) for value in each])
        for name, each in attributes.items()
    ]
    levels, contrasts, means, draws = _sample(model, counts.low, codes, np.random.default_rng(seed))
    filled = {}
    for name, drawn in zip(values, means, strict=True):
        filled[name] = np.full((*drawn.shape[:2], len(counts.arms)), np.nan)
        filled[name][:, :, arms] = drawn
    sizes = {name: np.bincount(code + 1)[1:] for name, code in zip(values, codes, strict=True)}
    return AttributeShares(values, sizes, levels, contrasts if model.tells_contrasts else None, filled, draws)


def _sample(
    model: PlayerModel, low: float, codes: list[np.ndarray], random: np.random.Generator
) -> tuple[ShareDraws, ShareDraws, list[np.ndarray], np.ndarray]:
    """Draws for levels and for contrasts, of means by value for each attribute, and of means by player."""
    t, h = (each[np.ix_(*model.there)] for each in model.cells.sites)
    contrasts = Part(codes, model.cells.factors[model.there[1]] * model.tells_contrasts)  # factors of 0: there are none
    levels = Part(codes, np.ones(1))
    sweeps = int(np.clip(WORK // (SQUARES.size * t.size), FEWEST_SWEEPS, MOST_SWEEPS))
    often = max(4, t.size * sum(each.shape[1] for each in levels.members) ** 2 // DENSE)
    thin = max(1, sweeps * t.size // CELLS)
    level, kept, draws = np.zeros((len(t), 1)), [], []
    for sweep in range(WARM_UP + sweeps):
        contrasts.update(t, h - t * level, model.cells.center, random)
        mix = len(codes) > 1 and sweep % often == 0
        if mix:
            contrasts.exchange(t, h - t * level, model.cells.center, random)
        shrink = 1 + contrasts.own * t
        of_level = [each.sum(axis=1, keepdims=True) for each in (t / shrink, (h - t * contrasts.explained) / shrink)]
        levels.update(of_level[0], of_level[1], 0.0, random)
        if mix:
            levels.exchange(of_level[0], of_level[1], 0.0, random)
        own_level = levels.draw(of_level[0], of_level[1], random)
        level = levels.explained + own_level
        if sweep >= WARM_UP:
            own = contrasts.draw(t, h - t * level, random)
            means = low + model.unit / (1 + np.exp(-contrasts.explained - level - own))
            draws += [means] if sweep % thin == 0 else []
            by_value = [(m.T @ means)[1:] / m.sum(axis=0)[1:, None] for m in contrasts.members]
            kept.append((*_squares(contrasts, own, levels, own_level), by_value))
    of_levels, of_contrasts, of_values = zip(*kept, strict=True)
    found = [ShareDraws(*map(np.array, zip(*each, strict=True))) for each in (of_levels, of_contrasts)]
    return found[0], found[1], [np.array(each) for each in zip(*of_values, strict=True)], np.array(draws)


def _squares(contrasts: Part, own: np.ndarray, levels: Part, own_level: np.ndarray) -> tuple[tuple[Any, Any], ...]:
    """Sums of squares and which scales are 0, of levels and of contrasts; `own` is what attributes do not explain."""
    sizes = [*(members.sum(axis=0) for members in levels.members), np.ones(len(own))]
    effects, shifts = [*contrasts.effects, own], [*levels.effects, own_level]
    over_arms = [e.mean(axis=1, keepdims=True) + shift for e, shift in zip(effects, shifts, strict=True)]
    nothing = np.stack([contrasts.scales == 0, levels.scales == 0], axis=1)
    squares = [
        np.array([sum_of_squares(*each) for each in zip(which, sizes, strict=True)]) for which in (over_arms, effects)
    ]
    return (squares[0], nothing), (squares[1], nothing[:, :1])
