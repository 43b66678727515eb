"""How far players differ, with the sampling noise taken out: an estimate, from counts and sums alone.

The largest mean reward minus the smallest, taken as they are, grows with the noise: twenty players that are alike
differ by 0.3 after fifty coin flips each. So a model says how much of it is noise. For player p and arm a, on [0, 1],

    observed mean x ~ Normal(θ, v / n),   θ ~ a shape around μ_a with deviation τ_a,   τ_a ~ half-normal of scale τ,

with v the variance within the cell, and μ_a and τ flat. The shape is one of three, each as likely before the data, the
same for all arms (`shapes.py`). Arms that were pulled often tell the others, through τ, what spread to expect; an arm
that is unlike the others can still have its own τ_a. The scales live on a grid, so draws need no Markov chains. Of the
draws of θ we take what ε is: the largest minus the smallest over the players.

The likelihood does not care how pulls were chosen, if they were chosen by the past (Rubin, Biometrika 63, 1976). What
remains of the bias of adaptively gathered means, docs/diagnosis.md has measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from posse.insight.diagnosis.shapes import Ends, Normal, Window

GRID = 180
DRAWS = 1000
SHAPES = (Normal, Window, Ends)
FEW = 3  # players that are no population to learn from

_STEPS = (np.arange(GRID) + 0.5) / GRID
_SCALES = 0.5 * _STEPS**2  # τ; no variable on [0, 1] has a larger standard deviation than ½
_WEIGHTS = _STEPS / _STEPS.sum()  # a flat density on that grid


@dataclass(frozen=True, eq=False)
class Spread:
    """Estimates by arm, then over all arms; NaN where fewer than two players have enough data."""

    deviations: np.ndarray
    """Standard deviation between the players, [arm]."""
    ranges: np.ndarray
    """Largest minus smallest mean over the players, [arm]."""
    lows: np.ndarray
    """Lower ends for the ranges, [arm]; 0 where players that are alike explain the data nearly as well."""
    highs: np.ndarray
    """Upper ends, [arm]."""
    deviation: float
    """Standard deviation between players, root mean square over the arms."""
    range: float
    """The largest of the arms' ranges."""
    low: float
    """Lower end for the largest range over the arms; 0 where players that are alike in all explain the data as well."""
    high: float
    """Upper end for the largest range over the arms."""


def estimate_spread(
    pulls: np.ndarray, sums: np.ndarray, squares: np.ndarray | None, bounds: np.ndarray, level: float, seed: int
) -> Spread:
    """Medians and 1 − level intervals of the spread, nowhere below `bounds` [arm], which are known to hold.

    >>> pulls = np.full((4, 2), 400)
    >>> sums = np.array([[80.0, 200], [84, 190], [76, 320], [82, 196]])
    >>> spread = estimate_spread(pulls, sums, None, np.zeros(2), 0.05, seed=0)
    >>> spread.ranges.round(1).tolist()
    [0.0, 0.3]
    """
    ranges, deviations = np.full((2, len(bounds), DRAWS), np.nan)
    informed = _informed(pulls, sums)
    compared = np.flatnonzero(informed.sum(axis=0) >= 2)
    if compared.size == 0:
        nothing = np.full(len(bounds), np.nan)
        return Spread(nothing, nothing, nothing, nothing, math.nan, math.nan, math.nan, math.nan)
    random = np.random.Generator(np.random.PCG64(seed))
    observed, noise = observations(pulls, sums, squares)
    arms = [_Arm.of(observed[informed[:, a], a], noise[informed[:, a], a]) for a in compared]
    prior = _half_normals()
    with np.errstate(divide="ignore"):  # a τ that is far too small explains nothing
        together = np.sum([np.log(np.exp(arm.evidence) @ prior.T) for arm in arms], axis=0)
    together -= together.max()
    posterior = (_WEIGHTS * np.exp(together)).ravel()
    shape, scale = np.divmod(random.choice(posterior.size, DRAWS, p=posterior / posterior.sum()), GRID)
    for number, arm in zip(compared, arms, strict=True):
        means = arm.draw(shape, prior[scale], random)
        ranges[number] = np.maximum(np.ptp(means, axis=1), bounds[number])
        deviations[number] = means.std(axis=1, ddof=1)
    lows, middles, highs = np.quantile(ranges, [level / 2, 0.5, 1 - level / 2], axis=1)
    highest = np.quantile(ranges[compared].max(axis=0), 1 - level / 2)
    z = NormalDist().inv_cdf(1 - level / 2)
    for number, arm in zip(compared, arms, strict=True):
        highs[number] = max(highs[number], arm.without_population(z))
    # Players that are alike are not excluded while twice the logarithm of the likelihood ratio is within χ²(1).
    slack = z**2 / 2
    alike = np.array([arm.evidence[0, 0] > -slack for arm in arms])
    lows[compared] = np.where(alike, bounds[compared], lows[compared])
    lowest = 0.0
    if together[0, 0] <= -slack:  # the largest of many lower ends is right only if each is right more often
        lowest = np.quantile(ranges[compared], level / 2 / len(arms), axis=1).max()
    deviation = np.median(np.sqrt((deviations[compared] ** 2).mean(axis=0)))
    overall = [
        float(max(value, bounds.max()))
        for value in (middles[compared].max(), lowest, max(highest, highs[compared].max()))
    ]
    return Spread(np.median(deviations, axis=1), middles, lows, highs, float(deviation), *overall)


def observations(pulls: np.ndarray, sums: np.ndarray, squares: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean rewards on [0, 1] and the variances of their noise, [player, arm].

    One pull with the arm's mean reward is added to each cell, so that a few equal rewards are not taken for certainty.
    A reward of mean μ then has at most the variance μ(1−μ), that of a Bernoulli one; a cell's is not taken to be less
    than the average over the arm. Sums of squares, where there are any, tell by how much rewards vary less.

    >>> mean, noise = observations(np.array([[5], [5]]), np.array([[0.0], [5.0]]), None)
    >>> mean.ravel().round(3).tolist(), np.sqrt(noise).ravel().round(3).tolist()
    ([0.083, 0.917], [0.124, 0.124])
    """
    total = pulls.sum(axis=0)
    mean = np.divide(sums.sum(axis=0), total, out=np.zeros(total.shape), where=total > 0)
    shrunk = (sums + mean) / (pulls + 1)
    own = shrunk * (1 - shrunk)
    average = ((pulls + 1) * own * (pulls > 0)).sum(axis=0) / np.maximum(total, 1)
    variance = np.maximum(own, average)
    if squares is not None:
        squared_means = np.divide(sums**2, pulls, out=np.zeros(sums.shape), where=pulls > 0)
        around = [np.maximum(part - squared_means, 0).sum(axis=0) + 0.25 for part in (squares, sums)]
        variance = variance * np.minimum(around[0] / around[1], 1)
    return shrunk, variance / (pulls + 1)


def _informed(pulls: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Whether a cell has enough pulls for its mean to be taken for normal: n m(1−m) ≥ 1, with m the arm's mean."""
    total = pulls.sum(axis=0)
    mean = np.divide(sums.sum(axis=0), total, out=np.zeros(total.shape), where=total > 0)
    return np.asarray(pulls * mean * (1 - mean) >= 1)


@dataclass(frozen=True, eq=False)
class _Arm:
    """One arm's players with data, and what they say at each τ_a of the grid."""

    shapes: tuple[Normal | Window | Ends, ...]
    evidence: np.ndarray
    """Logarithm of the marginal likelihood, [shape, grid], its largest 0."""
    observed: np.ndarray
    noise: np.ndarray

    @staticmethod
    def of(observed: np.ndarray, noise: np.ndarray) -> _Arm:
        shapes = tuple(shape(observed, noise, _SCALES) for shape in SHAPES)
        evidence = np.array([shape.evidence for shape in shapes])
        return _Arm(shapes, evidence - evidence.max(), observed, noise)

    def draw(self, shape: np.ndarray, prior: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Players' means, [draw, player], given each draw's shape and the probabilities of its τ_a, [draw, grid]."""
        cumulative = np.cumsum(prior * np.exp(self.evidence[shape]), axis=1)
        own = (cumulative < random.random((len(shape), 1)) * cumulative[:, -1:]).sum(axis=1)
        means = np.empty((len(shape), len(self.observed)))
        for number, one in enumerate(self.shapes):
            means[shape == number] = one.draw(own[shape == number], random)
        return np.asarray(np.clip(means, 0, 1))

    def without_population(self, z: float) -> float:
        """The most by which a pair of a few players can differ if nothing is known of a population; 0 for many."""
        if len(self.observed) > FEW:
            return 0.0
        apart = self.observed[:, None] - self.observed + z * np.sqrt(self.noise[:, None] + self.noise)
        return float(min(apart[~np.eye(len(apart), dtype=bool)].max(), 1.0))


def _half_normals() -> np.ndarray:
    """The probability of each τ_a, in columns, for each τ, in rows."""
    density = _WEIGHTS * np.exp(-0.5 * (_SCALES / _SCALES[:, None]) ** 2)
    return np.asarray(density / density.sum(axis=1, keepdims=True))
