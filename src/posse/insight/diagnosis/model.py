"""How far players differ, without the sampling noise: an estimate from counts and sums alone.

The largest observed mean minus the smallest grows with the noise: twenty players that are alike differ by 0.3 after
fifty coin flips each. So a model says how much of the difference is noise. For player p and arm a, on [0, 1],

    observed mean x ~ Normal(θ, v / n),   θ ~ a shape around μ_a with deviation τ_a,   τ_a ~ half-normal of scale τ,

where v is the variance within the cell, and μ_a and τ are flat. The shape of the population of players is one of three,
the same for all arms, each equally likely before the data:

    two points   θ = μ ± τ, each with probability ½
    uniform      θ uniform in μ ± √3 τ
    normal       θ ~ Normal(μ, τ²)

The range of many normal players grows with their number, that of uniform players does not. With few players or much
noise the data cannot tell the shapes apart, and an estimate that trusts one of them is too sure. μ is integrated out:
in closed form for the normal shape (Gelman and others, "Bayesian Data Analysis", 3rd edition, section 5.4), on nodes
for the others. Arms that were pulled often tell the others, through τ, what spread to expect; an arm that is unlike
the others can still have its own τ_a. The scales live on a grid, so draws need no Markov chains. From each draw of θ we
take what ε bounds: the largest minus the smallest over the players.

How pulls were chosen does not change the likelihood, if they were chosen by the past (Rubin, Biometrika 63, 1976).
docs/diagnosis.md has measured the bias that remains in adaptively gathered means.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

GRID = 180
DRAWS = 1000
FEW = 3  # so few players are no population to learn from
COARSE, FINE = 8, 24  # nodes for μ: first to find where it can be, then to integrate there
NEGLIGIBLE = 15.0  # a logarithm of a likelihood ratio
REACH = 6.0  # standard deviations beyond which noise explains nothing

_STEPS = (np.arange(GRID) + 0.5) / GRID
_SCALES = 0.5 * _STEPS**2  # τ; no variable on [0, 1] has a larger standard deviation than ½
_WEIGHTS = _STEPS / _STEPS.sum()  # a flat density on that grid
_Z = np.linspace(-8.5, 8.5, 17_001)
_CDF = np.array([NormalDist().cdf(z) for z in _Z])


@dataclass(frozen=True, eq=False)
class SpreadEstimate:
    """Estimates for each arm, then over all arms; NaN where fewer than two players have enough data."""

    deviations: np.ndarray
    """Standard deviation between the players, [arm]."""
    ranges: np.ndarray
    """Largest minus smallest mean over the players, [arm]."""
    lows: np.ndarray
    """Lower ends for the ranges, [arm]; 0 where equal players explain the data nearly as well."""
    highs: np.ndarray
    """Upper ends, [arm]."""
    deviation: float
    """Standard deviation between players, root mean square over the arms."""
    range: float
    """The largest of the arms' ranges."""
    low: float
    """Lower end for the largest range over the arms; 0 where players equal on all arms explain the data as well."""
    high: float
    """Upper end for the largest range over the arms."""


def estimate_spread(
    pulls: np.ndarray, sums: np.ndarray, squares: np.ndarray | None, bounds: np.ndarray, level: float, seed: int
) -> SpreadEstimate:
    """Medians and 1 − level intervals of the spread; none is below the proven `bounds`, [arm].

    >>> pulls = np.full((4, 2), 400)
    >>> sums = np.array([[80.0, 200], [84, 190], [76, 320], [82, 196]])
    >>> spread = estimate_spread(pulls, sums, None, np.zeros(2), 0.05, seed=0)
    >>> spread.ranges.round(1).tolist()
    [0.0, 0.3]
    """
    ranges, deviations = np.full((2, len(bounds), DRAWS), np.nan)
    arm_means = _arm_means(pulls, sums)
    informed = pulls * arm_means * (1 - arm_means) >= 1  # enough pulls to treat a cell's mean as normal
    compared = np.flatnonzero(informed.sum(axis=0) >= 2)
    if compared.size == 0:
        nothing = np.full(len(bounds), np.nan)
        return SpreadEstimate(nothing, nothing, nothing, nothing, math.nan, math.nan, math.nan, math.nan)
    random = np.random.Generator(np.random.PCG64(seed))
    observed, noise = observations(pulls, sums, squares)
    arms = [_Arm(observed[informed[:, a], a], noise[informed[:, a], a]) for a in compared]
    prior = _WEIGHTS * np.exp(-0.5 * (_SCALES / _SCALES[:, None]) ** 2)  # of each τ_a, in columns, for each τ, in rows
    prior /= prior.sum(axis=1, keepdims=True)
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
    # Equal players are not excluded while twice the logarithm of the likelihood ratio is within χ²(1).
    slack = z**2 / 2
    alike = np.array([arm.evidence[0, 0] > -slack for arm in arms])
    lows[compared] = np.where(alike, bounds[compared], lows[compared])
    lowest = 0.0
    if together[0, 0] <= -slack:  # the largest of many lower ends is right only if each is right more often
        lowest = np.quantile(ranges[compared], level / 2 / len(arms), axis=1).max()
    deviation = np.median(np.sqrt((deviations[compared] ** 2).mean(axis=0)))
    ends = middles[compared].max(), lowest, max(highest, highs[compared].max())
    overall = [float(max(value, bounds.max())) for value in ends]
    return SpreadEstimate(np.median(deviations, axis=1), middles, lows, highs, float(deviation), *overall)


def observations(pulls: np.ndarray, sums: np.ndarray, squares: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean rewards on [0, 1] and the variances of their noise, [player, arm].

    Each cell gets one more pull with the arm's mean reward, so that a few equal rewards do not count as certainty.
    A reward of mean μ has at most the variance μ(1−μ) of a Bernoulli reward. A cell's variance is taken to be at least
    the average over the arm. Sums of squares, if given, say by how much rewards vary less.

    >>> mean, noise = observations(np.array([[5], [5]]), np.array([[0.0], [5.0]]), None)
    >>> mean.ravel().round(3).tolist(), np.sqrt(noise).ravel().round(3).tolist()
    ([0.083, 0.917], [0.124, 0.124])
    """
    total, mean = pulls.sum(axis=0), _arm_means(pulls, sums)
    shrunk = (sums + mean) / (pulls + 1)
    own = shrunk * (1 - shrunk)
    average = ((pulls + 1) * own * (pulls > 0)).sum(axis=0) / np.maximum(total, 1)
    variance = np.maximum(own, average)
    if squares is not None:
        squared_means = np.divide(sums**2, pulls, out=np.zeros(sums.shape), where=pulls > 0)
        around = [np.maximum(part - squared_means, 0).sum(axis=0) + 0.25 for part in (squares, sums)]
        variance = variance * np.minimum(around[0] / around[1], 1)
    return shrunk, variance / (pulls + 1)


def _arm_means(pulls: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """The mean reward of each arm over all players, 0 without pulls."""
    total = pulls.sum(axis=0)
    return np.divide(sums.sum(axis=0), total, out=np.zeros(total.shape), where=total > 0)


class _Arm:
    """One arm: its players with data, and how well each τ_a of the grid explains them."""

    def __init__(self, observed: np.ndarray, noise: np.ndarray) -> None:
        self.observed, self.noise = observed, noise
        self.shapes = [shape(observed, noise, _SCALES) for shape in SHAPES]
        evidence = np.array([shape.evidence for shape in self.shapes])
        self.evidence = evidence - evidence.max()  # logarithm of the marginal likelihood, [shape, grid]

    def draw(self, shape: np.ndarray, prior: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Players' means, [draw, player], given each draw's shape and the probabilities of its τ_a, [draw, grid]."""
        cumulative = np.cumsum(prior * np.exp(self.evidence[shape]), axis=1)
        own = (cumulative < random.random((len(shape), 1)) * cumulative[:, -1:]).sum(axis=1)
        means = np.empty((len(shape), len(self.observed)))
        for number, one in enumerate(self.shapes):
            means[shape == number] = one.draw(own[shape == number], random)
        return np.asarray(np.clip(means, 0, 1))

    def without_population(self, z: float) -> float:
        """For a few players, the largest plausible difference between two without a model of them; 0 for many."""
        if len(self.observed) > FEW:
            return 0.0
        apart = self.observed[:, None] - self.observed + z * np.sqrt(self.noise[:, None] + self.noise)
        return float(min(apart[~np.eye(len(apart), dtype=bool)].max(), 1.0))


class NormalShape:
    """θ ~ Normal(μ, τ²)."""

    def __init__(self, observed: np.ndarray, noise: np.ndarray, scales: np.ndarray) -> None:
        self.observed, self.noise, self.scales = observed, noise, scales
        weight = 1 / (scales[:, None] ** 2 + noise)
        self.precision = weight.sum(axis=1)
        self.center = weight @ observed / self.precision
        distance = (weight * (observed - self.center[:, None]) ** 2).sum(axis=1)
        constant = (len(observed) - 1) * math.log(2 * math.pi)
        self.evidence = (np.log(weight).sum(axis=1) - np.log(self.precision) - distance - constant) / 2

    def draw(self, own: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Players' means, [draw, player], given the number of each draw's τ."""
        center = self.center[own] + random.standard_normal(len(own)) / np.sqrt(self.precision[own])
        between = self.scales[own, None] ** 2
        trust = between / (between + self.noise)
        shrunk = center[:, None] + trust * (self.observed - center[:, None])
        return np.asarray(shrunk + np.sqrt(trust * self.noise) * random.standard_normal(shrunk.shape))


class _BoundedShape(ABC):
    """A shape that ends `reach` standard deviations from μ."""

    reach: float

    def __init__(self, observed: np.ndarray, noise: np.ndarray, scales: np.ndarray) -> None:
        self.observed, self.deviation, self.half = observed, np.sqrt(noise), self.reach * scales
        margin = REACH * self.deviation
        first, last = (observed - margin).max() - self.half, (observed + margin).min() + self.half
        kept = np.flatnonzero(first < last)
        for count in (COARSE, FINE):
            width = (last[kept] - first[kept]) / count
            places = first[kept, None] + width[:, None] * (np.arange(count) + 0.5)
            low, high = ((places + sign * self.half[kept, None])[..., None] for sign in (-1, 1))
            density = np.log(np.maximum(self._density(low, high), 1e-300)).sum(axis=-1)  # of all observed means
            top = density.max(axis=1)
            if count == COARSE:
                likely = density > top[:, None] - NEGLIGIBLE
                first[kept] = places[np.arange(len(kept)), likely.argmax(axis=1)] - width
                last[kept] = places[np.arange(len(kept)), count - 1 - likely[:, ::-1].argmax(axis=1)] + width
                kept = kept[top > top.max(initial=-np.inf) - 2 * NEGLIGIBLE]
        weight = np.exp(density - top[:, None])
        self.evidence = np.full(len(scales), -np.inf)
        self.evidence[kept] = top + np.log(weight.sum(axis=1) * width)
        self.places, self.cumulative = np.zeros((2, len(scales), FINE))
        self.places[kept], self.cumulative[kept] = places, np.cumsum(weight, axis=1)

    def draw(self, own: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Players' means, [draw, player], given the number of each draw's τ."""
        cumulative = self.cumulative[own]
        node = (cumulative < random.random((len(own), 1)) * cumulative[:, -1:]).sum(axis=1)
        place, half = self.places[own, node][:, None], self.half[own, None]
        return self._draw(place - half, place + half, random.random((len(own), len(self.observed))))

    @abstractmethod
    def _density(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Density of each observed mean, given the ends."""

    @abstractmethod
    def _draw(self, low: np.ndarray, high: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """Players' means, given the ends."""


class UniformShape(_BoundedShape):
    """θ uniform in μ ± √3 τ."""

    reach = math.sqrt(3)

    def _density(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.asarray((self._below(high) - self._below(low)) / (high - low))

    def _draw(self, low: np.ndarray, high: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        first, last = self._below(low), self._below(high)
        z = np.interp(first + uniform * (last - first), _CDF, _Z)
        return np.asarray(np.clip(self.observed + z * self.deviation, low, high))

    def _below(self, value: np.ndarray) -> np.ndarray:
        return np.asarray(np.interp((value - self.observed) / self.deviation, _Z, _CDF))


class TwoPointShape(_BoundedShape):
    """θ = μ ± τ, each with probability ½."""

    reach = 1.0

    def _density(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.asarray((self._at(low) + self._at(high)) / 2)

    def _draw(self, low: np.ndarray, high: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        first, last = self._at(low), self._at(high)
        return np.where(uniform * (first + last) < first, low, high)

    def _at(self, value: np.ndarray) -> np.ndarray:
        z = (value - self.observed) / self.deviation
        return np.asarray(np.exp(-(z**2) / 2) / (math.sqrt(2 * math.pi) * self.deviation))


SHAPES = (NormalShape, UniformShape, TwoPointShape)
