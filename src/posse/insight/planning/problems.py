"""The problems of a plan: drawn from a guess, or from what historical data leaves possible."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posse.learner import Counts
from posse.problem import Problem
from posse.rewards import Bernoulli, Beta, Family

LEAST_DISPERSION = 1e-4  # rewards that do not vary at all would leave nothing to weigh


def guessed_problems(
    players: int, arms: int, epsilon: float, effect: float, base: float, *, count: int, seed: int
) -> list[Problem]:
    """Problems whose best arm has centre base + effect and all others base, players uniform within ε/2 of the centre.

    Where that would leave [0, 1], the interval is narrower, on both sides, so that the centre stays the mean over
    players. The best arm's place goes round from problem to problem; problem k depends on the seed and k alone.

    >>> problem = guessed_problems(4, 3, epsilon=0.0, effect=0.1, base=0.2, count=1, seed=0)[0]
    >>> problem.means[0].round(2).tolist(), problem.epsilon
    ([0.3, 0.2, 0.2], 0.0)
    """
    problems = []
    for k, random in _generators(count, seed):
        centres = np.full(arms, base)
        centres[k % arms] += effect
        half = np.minimum(epsilon / 2, np.minimum(centres, 1 - centres))
        means = np.clip(centres + half * (2 * random.random((players, arms)) - 1), 0, 1)  # clipped: rounding
        problems.append(Problem(means, epsilon, stream=k))  # told apart by number: ε = 0 draws the same means again
    return problems


@dataclass(frozen=True, eq=False)
class Population:
    """What historical data says of the players, on the scale [0, 1], noise taken out.

    The model: a player's mean for an arm is the arm's mean + the player's level + the player's own deviation for the
    arm, the last two normal with mean 0. Levels lift all arms of a player alike: they make players differ, but change
    nobody's best arm.
    """

    arm_means: np.ndarray
    """Each arm's mean over players, [arm]."""
    level: float
    """Standard deviation of the players' levels."""
    own: float
    """Standard deviation of a player's own deviations."""
    dispersion: float
    """The rewards' variance as a share of mean · (1 − mean); 1 for rewards of 0 and 1."""
    observed: np.ndarray
    """Mean rewards in the data, [player, arm]; 0 where there are none."""
    noise: np.ndarray
    """Variance of the observed means about the true ones, [player, arm]; infinite where there are none."""

    @property
    def rewards(self) -> Family:
        """The family of rewards with that dispersion: Bernoulli, or Beta if they vary less."""
        return Bernoulli() if self.dispersion > 1 - 1e-9 else Beta(1 / self.dispersion - 1)

    def problems(self, *, count: int, seed: int) -> list[Problem]:
        """Problems drawn from the model's posterior: what is known of a player stays, what is unknown varies.

        Each draw takes the arms' means, then the levels given those, then the own deviations given both. Means are
        clipped to [0, 1]; a problem's ε is its own range.
        """
        fit = _fit(self.observed, self.noise, self.level, self.own)
        root = np.linalg.cholesky(np.linalg.inv(fit.precision))
        weights = 1 / (self.own**2 + self.noise)  # of a cell, for its player's level
        shrink = self.own**2 * weights  # how much of a cell's remaining deviation is the player's own
        spread = np.sqrt(np.where(np.isinf(self.noise), self.own**2, shrink * np.where(shrink > 0, self.noise, 0)))
        problems = []
        for k, random in _generators(count, seed):
            arms = fit.arm_means + root @ random.standard_normal(len(fit.arm_means))
            variance = self.level**2 / (1 + self.level**2 * weights.sum(axis=1))
            levels = variance * (weights * (self.observed - arms)).sum(axis=1)
            levels += np.sqrt(variance) * random.standard_normal(len(levels))
            centres = arms + levels[:, None]
            own = shrink * (self.observed - centres) + spread * random.standard_normal(centres.shape)
            problems.append(Problem(np.clip(centres + own, 0, 1), rewards=self.rewards, stream=k))
        return problems


def fit_population(counts: Counts, dispersion: float = 1.0) -> Population:
    """Estimate the model of `Population` by restricted maximum likelihood (Patterson and Thompson, 1971).

    A reward's variance is taken as dispersion · m (1 − m), m the arm's mean over all players. The two standard
    deviations are sought on a grid of [0, 1/2] and refined.

    >>> counts = Counts(("a", "b"), ("x", "y"), np.full((2, 2), 100), np.array([[20.0, 50.0], [20.0, 50.0]]))
    >>> population = fit_population(counts)
    >>> population.arm_means.round(3).tolist(), population.level, population.own
    ([0.2, 0.5], 0.0, 0.0)
    """
    pulls = np.asarray(counts.pulls, float)
    unit = counts.high - counts.low
    sums = (np.asarray(counts.sums, float) - counts.low * pulls) / unit
    observed = np.divide(sums, pulls, out=np.zeros(pulls.shape), where=pulls > 0)
    pooled = (sums.sum(axis=0) + 0.5) / (pulls.sum(axis=0) + 1)  # never 0 or 1
    variance = np.broadcast_to(max(dispersion, LEAST_DISPERSION) * pooled * (1 - pooled), pulls.shape)
    noise = np.divide(variance, pulls, out=np.full(pulls.shape, np.inf), where=pulls > 0)
    level, own = _most_likely(observed, noise)
    return Population(_fit(observed, noise, level, own).arm_means, level, own, dispersion, observed, noise)


def reward_dispersion(player: np.ndarray, arm: np.ndarray, reward: np.ndarray) -> float:
    """The rewards' variance within (player, arm) as a share of mean · (1 − mean), both without bias; at most 1.

    Rewards of 0 and 1 give exactly 1, also from few rows; so do rewards that say nothing of their variance.

    >>> cell = np.zeros(4, int)
    >>> reward_dispersion(cell, cell, np.array([0.0, 1.0, 1.0, 0.0]))
    1.0
    >>> reward_dispersion(cell, cell, np.array([0.4, 0.6, 0.6, 0.4])) < 0.1
    True
    """
    _, cell = np.unique(np.stack([player, arm]), axis=1, return_inverse=True)
    cell = cell.reshape(-1)
    pulls = np.bincount(cell)
    means = np.bincount(cell, weights=reward) / pulls
    freedom = len(reward) - len(pulls)
    if freedom == 0:
        return 1.0
    variance = float(((reward - means[cell]) ** 2).sum()) / freedom
    # An observed mean m̂ has E[n m̂ (1 − m̂)] = n m (1 − m) − variance.
    greatest = (float((pulls * means * (1 - means)).sum()) + len(pulls) * variance) / len(reward)
    return min(1.0, max(variance / greatest, LEAST_DISPERSION)) if greatest > 0 else 1.0


@dataclass(frozen=True, eq=False)
class _Fit:
    arm_means: np.ndarray
    precision: np.ndarray  # of the arms' means, [arm, arm]
    log_likelihood: float  # restricted, up to a constant


def _fit(observed: np.ndarray, noise: np.ndarray, level: float, own: float) -> _Fit:
    """The arms' means by generalised least squares, for given standard deviations.

    A player's observed means have covariance D + level² 11ᵀ with D = diag(own² + noise), whose inverse and
    determinant Sherman and Morrison's formula gives; a cell without data has weight 0.
    """
    weights = 1 / (own**2 + noise)
    totals = 1 + level**2 * weights.sum(axis=1)
    factor = level**2 / totals
    precision = np.diag(weights.sum(axis=0)) - (weights * factor[:, None]).T @ weights
    pooled = (weights * observed).sum(axis=0) - weights.T @ (factor * (weights * observed).sum(axis=1))
    arm_means = np.linalg.solve(precision, pooled)
    residuals = observed - arm_means
    square = (weights * residuals**2).sum() - (factor * (weights * residuals).sum(axis=1) ** 2).sum()
    determinant = np.log(totals).sum() - np.log(weights[weights > 0]).sum() + np.linalg.slogdet(precision)[1]
    return _Fit(arm_means, precision, -0.5 * float(determinant + square))


def _most_likely(observed: np.ndarray, noise: np.ndarray) -> tuple[float, float]:
    """The standard deviations of levels and own deviations with the greatest restricted likelihood."""

    def score(pair: tuple[float, float]) -> float:
        return _fit(observed, noise, *pair).log_likelihood

    grid = [0.0, *np.geomspace(0.001, 0.5, 13).tolist()]
    best = max(((level, own) for level in grid for own in grid), key=score)
    step = math.sqrt(1.7)  # the grid's ratio is about 1.68
    while step > 1.001:
        level, own = best
        around = [best, (level * step, own), (level / step, own), (level, own * step), (level, own / step)]
        best = max(around, key=score)
        if best == around[0]:
            step = math.sqrt(step)
    return best


def _generators(count: int, seed: int) -> Iterator[tuple[int, np.random.Generator]]:
    return ((k, np.random.default_rng([seed, k])) for k in range(count))
