"""How far players differ, with the sampling noise taken out: an estimate, from counts and sums alone.

The largest mean reward minus the smallest, taken as they are, grows with the noise: twenty players that are alike
differ by 0.3 after fifty coin flips each. So a model says how much of it is noise. For player p and arm a, on [0, 1],

    observed mean x ~ Normal(θ, v_a / n),   θ ~ Normal(μ_a, τ_a²),   τ_a ~ half-normal of scale τ,   μ_a and τ flat,

with v_a the variance within cells. Arms that were pulled often tell the others, through τ, what spread to expect; an
arm that is unlike the others can still have its own τ_a. Given τ_a all is normal and in closed form (Gelman and others,
"Bayesian Data Analysis", 3rd edition, section 5.4), so the two scales live on a grid and draws are exact, without
Markov chains. Of the draws of θ we take what ε is: the largest minus the smallest over the players.

The likelihood does not care how pulls were chosen, if they were chosen by the past (Rubin, Biometrika 63, 1976). What
remains of the bias of adaptively gathered means, docs/diagnosis.md has measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

GRID = 200
DRAWS = 1000

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
    """The largest of the arms' lower ends; 0 where players that are alike in all arms explain the data as well."""
    high: float
    """Upper end for the largest range over the arms."""


def estimate_spread(
    pulls: np.ndarray, sums: np.ndarray, variances: np.ndarray, bounds: np.ndarray, level: float, seed: int
) -> Spread:
    """Medians and 1 − level intervals of the spread, nowhere below `bounds` [arm], which are known to hold.

    >>> pulls = np.full((4, 2), 400)
    >>> sums = np.array([[80.0, 200], [84, 190], [76, 320], [82, 196]])
    >>> spread = estimate_spread(pulls, sums, variances_within(pulls, sums), np.zeros(2), 0.05, seed=0)
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
    arms = [_Arm.of(pulls[informed[:, a], a], sums[informed[:, a], a], variances[a]) for a in compared]
    prior = _half_normals()
    with np.errstate(divide="ignore"):  # a τ that is far too small explains nothing
        together = np.sum([np.log(prior @ np.exp(arm.evidence)) for arm in arms], axis=0)
    together -= together.max()
    posterior = _WEIGHTS * np.exp(together)
    scales = random.choice(GRID, DRAWS, p=posterior / posterior.sum())
    for number, arm in zip(compared, arms, strict=True):
        means = arm.draw(prior[scales], random)
        ranges[number] = np.maximum(np.ptp(means, axis=1), bounds[number])
        deviations[number] = means.std(axis=1, ddof=1)
    lows, middles, highs = np.quantile(ranges, [level / 2, 0.5, 1 - level / 2], axis=1)
    highest = np.quantile(ranges[compared].max(axis=0), 1 - level / 2)
    # Players that are alike are not excluded while twice the logarithm of the likelihood ratio is within χ²(1).
    slack = NormalDist().inv_cdf(1 - level / 2) ** 2 / 2
    alike = np.array([arm.evidence[0] > -slack for arm in arms])
    lows[compared] = np.where(alike, bounds[compared], lows[compared])
    lowest = 0.0 if together[0] > -slack else lows[compared].max()
    deviation = np.median(np.sqrt((deviations[compared] ** 2).mean(axis=0)))
    overall = [float(max(value, bounds.max())) for value in (middles[compared].max(), lowest, highest)]
    return Spread(np.median(deviations, axis=1), middles, lows, highs, float(deviation), *overall)


def variances_within(pulls: np.ndarray, sums: np.ndarray, squares: np.ndarray | None = None) -> np.ndarray:
    """The variance of rewards on [0, 1] around their player's mean, by arm.

    From the sums of squares where there are any. Otherwise a reward of mean μ has at most the variance μ(1−μ), that of
    a Bernoulli one, and Σ s(1 − s/n) / Σ (n−1) is on average no less than the variance. One reward of variance ¼ is
    added, so that a few equal rewards are not taken for certainty.

    >>> variances_within(np.array([[100], [100]]), np.array([[50.0], [50.0]])).round(3).tolist()
    [0.253]
    """
    squared_means = np.divide(sums**2, pulls, out=np.zeros(sums.shape), where=pulls > 0)
    around = np.maximum((sums if squares is None else squares) - squared_means, 0).sum(axis=0)
    return (around + 0.25) / (np.maximum(pulls - 1, 0).sum(axis=0) + 1)


def _informed(pulls: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Whether a cell has enough pulls for its mean to be taken for normal: n m(1−m) ≥ 1, with m the arm's mean."""
    total = pulls.sum(axis=0)
    mean = np.divide(sums.sum(axis=0), total, out=np.zeros(total.shape), where=total > 0)
    return np.asarray(pulls * mean * (1 - mean) >= 1)


@dataclass(frozen=True, eq=False)
class _Arm:
    """One arm's players with data, and what they say at each τ_a of the grid."""

    observed: np.ndarray
    noise: np.ndarray
    """Variances of the observed means, [player]."""
    evidence: np.ndarray
    """Logarithm of the marginal likelihood, [grid], its largest 0."""
    centre: np.ndarray
    """Mean of μ_a given τ_a, [grid]."""
    precision: np.ndarray
    """1/variance of μ_a given τ_a, [grid]."""

    @staticmethod
    def of(pulls: np.ndarray, sums: np.ndarray, variance: float) -> _Arm:
        observed, noise = sums / pulls, variance / pulls
        weight = 1 / (_SCALES[:, None] ** 2 + noise)
        precision = weight.sum(axis=1)
        centre = weight @ observed / precision
        distance = (weight * (observed - centre[:, None]) ** 2).sum(axis=1)
        evidence = (np.log(weight).sum(axis=1) - np.log(precision) - distance) / 2
        return _Arm(observed, noise, evidence - evidence.max(), centre, precision)

    def draw(self, prior: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Players' means, [draw, player], given the probabilities of each τ_a, [draw, grid]."""
        cumulative = np.cumsum(prior * np.exp(self.evidence), axis=1)
        reached = random.random((DRAWS, 1)) * cumulative[:, -1:]
        own = (cumulative < reached).sum(axis=1)
        centre = self.centre[own] + random.standard_normal(DRAWS) / np.sqrt(self.precision[own])
        between = _SCALES[own, None] ** 2
        trust = between / (between + self.noise)
        shrunk = centre[:, None] + trust * (self.observed - centre[:, None])
        draws = shrunk + np.sqrt(trust * self.noise) * random.standard_normal(shrunk.shape)
        return np.asarray(np.clip(draws, 0, 1))


def _half_normals() -> np.ndarray:
    """The probability of each τ_a, in columns, for each τ, in rows."""
    density = _WEIGHTS * np.exp(-0.5 * (_SCALES / _SCALES[:, None]) ** 2)
    return np.asarray(density / density.sum(axis=1, keepdims=True))
