"""What historical data says of the players: a model of their means, and draws from its posterior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from posse.learner import Counts
from posse.problem import Problem
from posse.rewards import Bernoulli, Beta, Family

LEAST_DISPERSION = 1e-4  # rewards that do not vary at all would leave nothing to weigh
GRID = 25  # values that a standard deviation may take, over a factor of REACH
REACH = 300.0
FREEDOMS = (1.0, 4.0, 30.0)  # degrees of freedom that own deviations may have: odd players, some, none
LEAST = -200.0  # of logarithms of probabilities: products of two stay far from what computers are slow with
BURN_IN, THIN = 100, 4  # sweeps before the first draw, and from one draw to the next


@dataclass(frozen=True, eq=False)
class Population:
    """What historical data says of the players, on the scale [0, 1].

    The model: a player's mean for an arm is the arm's mean + the player's level + the player's own deviation for the
    arm. Levels are normal with standard deviation τ; they make players differ, but change nobody's best arm. Own
    deviations have Student's t distribution with scale σ_k and ν_k degrees of freedom for arm k, so that a single
    player may be odd; that is, they are normal with a standard deviation σ_pk of their own. None of this is taken as
    known: σ_k has the half-Cauchy distribution with scale s, so that arms are alike unless their data says otherwise
    (Gelman, Bayesian Analysis 2006), ν_k is any of `FREEDOMS`, τ and s are uniform in their logarithms, arm means are
    uniform.
    """

    observed: np.ndarray
    """Mean rewards in the data, [player, arm]; 0 where there are none."""
    noise: np.ndarray
    """Variance of the observed means about the true ones, [player, arm]; infinite where there are none."""
    dispersion: float
    """The rewards' variance as a share of mean · (1 − mean); 1 for rewards of 0 and 1."""

    @property
    def rewards(self) -> Family:
        """The family of rewards with that dispersion: Bernoulli, or Beta if they vary less."""
        return Bernoulli() if self.dispersion > 1 - 1e-9 else Beta(1 / self.dispersion - 1)

    @property
    def grid(self) -> np.ndarray:
        """The values that standard deviations may take, up to what the data could possibly show."""
        seen = np.isfinite(self.noise)
        rewards = np.sqrt(self.noise[seen].max())  # at least the noise of the cell that knows least
        top = min(0.5, max(float(rewards), float(np.ptp(self.observed[seen]))))
        return np.geomspace(top / REACH, top, GRID)

    def problems(self, *, count: int, seed: int) -> list[Problem]:
        """Problems drawn from the posterior by Gibbs sampling: what is known of a player stays, the rest varies.

        Means are clipped to [0, 1]; a problem's ε is its own range. The first problems do not depend on how many.
        """
        states = islice(_chain(self, np.random.default_rng(seed)), BURN_IN, BURN_IN + count * THIN, THIN)
        return [Problem(np.clip(s.means, 0, 1), rewards=self.rewards, stream=k) for k, s in enumerate(states)]


def population_of(counts: Counts, dispersion: float = 1.0) -> Population:
    """The data, scaled to [0, 1], with a reward's variance taken as dispersion · m (1 − m), m the arm's mean.

    >>> counts = Counts(("a", "b"), ("x", "y"), np.full((2, 2), 100), np.array([[20.0, 50.0], [20.0, 50.0]]))
    >>> means = np.array([problem.means for problem in population_of(counts).problems(count=100, seed=0)])
    >>> means.mean(axis=(0, 1)).round(1).tolist()
    [0.2, 0.5]
    """
    pulls = np.asarray(counts.pulls, float)
    unit = counts.high - counts.low
    sums = (np.asarray(counts.sums, float) - counts.low * pulls) / unit
    observed = np.divide(sums, pulls, out=np.zeros(pulls.shape), where=pulls > 0)
    pooled = (sums.sum(axis=0) + 0.5) / (pulls.sum(axis=0) + 1)  # never 0 or 1
    variance = np.broadcast_to(max(dispersion, LEAST_DISPERSION) * pooled * (1 - pooled), pulls.shape)
    noise = np.divide(variance, pulls, out=np.full(pulls.shape, np.inf), where=pulls > 0)
    return Population(observed, noise, dispersion)


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
class _State:
    """One state of the chain: standard deviations, and the means they were last used for."""

    level: float
    scale: np.ndarray  # of own deviations, [arm]
    own: np.ndarray  # standard deviations of own deviations, [player, arm]
    means: np.ndarray  # the players' means, [player, arm]


def _chain(population: Population, random: np.random.Generator) -> Iterator[_State]:
    """Gibbs sampling: (τ, arm means, levels) given σ_pk, then (ν_k, σ_k, σ_pk) and s given arm means and levels.

    Own deviations, levels where τ is drawn, and σ_pk where (ν_k, σ_k) is drawn are integrated out, so that the chain
    moves freely also near 0.
    """
    observed, noise, grid = population.observed, population.noise, population.grid
    shape = observed.shape
    of_arm, chances = scale_priors(grid)
    constant, halves = _own_likelihood(noise, grid)
    common = GRID // 2
    scale = np.full(shape[1], common)
    own = np.full(shape, grid[common])
    arms = _arm_covariance(noise, 0.0, own)[1] @ (_weights(noise, own) * observed).sum(axis=0)
    while True:
        level = float(grid[_pick(_level_scores(observed - arms, _weights(noise, own), grid), random)])
        arms, levels, means = draw_means(observed, noise, level, own, random)
        yield _State(level, grid[scale], own, means)
        squares = (observed - arms - levels[:, None]) ** 2
        scores = constant - squares * halves  # of each σ_pk, own deviations integrated out
        likelihood = np.exp(np.maximum(scores - scores.max(axis=0), LEAST))
        # Of each (ν_k, σ_k); not by @, whose threads take ten times as long for matrices this small on a busy machine.
        of_kind = np.log(np.einsum("ij,jpk->ipk", chances, likelihood)).sum(axis=1)
        kind = _pick(of_kind + np.tile(of_arm[common], len(FREEDOMS))[:, None], random)
        heaped = np.cumsum(likelihood * chances.T[:, kind][:, None, :], axis=0)
        own = grid[(heaped < heaped[-1] * random.random(shape)).sum(axis=0)]
        scale = kind % GRID
        common = int(_pick(of_arm[:, scale].sum(axis=1), random))


def scale_priors(grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the probabilities of σ_k (columns) given s (rows); probabilities of σ_pk given (ν_k, σ_k)."""
    apart = np.log(grid) - np.log(grid)[:, None]
    of_cell = np.concatenate([-freedom * (apart + np.exp(-2 * apart) / 2) for freedom in FREEDOMS])
    return _normalised(-np.log(np.cosh(apart))), np.exp(np.maximum(_normalised(of_cell), LEAST))


def _normalised(scores: np.ndarray) -> np.ndarray:
    """Logarithms of the probabilities in each row that are proportional to exp(score)."""
    scores = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))


def draw_means(
    observed: np.ndarray, noise: np.ndarray, level: float, own: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arm means, then levels given those, then the players' means given both, for given standard deviations."""
    weights = _weights(noise, own)
    factor, covariance = _arm_covariance(noise, level, own)
    pooled = (weights * observed).sum(axis=0) - weights.T @ (factor * (weights * observed).sum(axis=1))
    arms = covariance @ pooled + np.linalg.cholesky(covariance) @ random.standard_normal(len(pooled))
    levels = factor * (weights * (observed - arms)).sum(axis=1)
    levels += np.sqrt(factor) * random.standard_normal(len(levels))
    centres = arms + levels[:, None]
    shrink = own**2 * weights  # how much of a cell's remaining deviation is the player's own
    known = np.isfinite(noise)
    spread = np.sqrt(np.where(known, shrink * np.where(known, noise, 0), own**2))
    return arms, levels, centres + shrink * (observed - centres) + spread * random.standard_normal(centres.shape)


def _weights(noise: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Of each cell's observed mean, [player, arm]; 0 where there is no data."""
    return np.asarray(1 / (own**2 + noise))


def _arm_covariance(noise: np.ndarray, level: float, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variance of each player's level given the arm means, and the covariance of the arm means.

    A player's observed means have covariance D + τ² 11ᵀ with D = diag(σ² + noise), whose inverse Sherman and
    Morrison's formula gives.
    """
    weights = _weights(noise, own)
    factor = level**2 / (1 + level**2 * weights.sum(axis=1))
    return factor, np.linalg.inv(np.diag(weights.sum(axis=0)) - (weights * factor[:, None]).T @ weights)


def _level_scores(residuals: np.ndarray, weights: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Log-likelihood of each τ, levels and own deviations integrated out, up to a constant."""
    totals = 1 + grid[:, None] ** 2 * weights.sum(axis=1)
    squares = grid[:, None] ** 2 / totals * (weights * residuals).sum(axis=1) ** 2
    return np.asarray(0.5 * (squares - np.log(totals)).sum(axis=1))


def _own_likelihood(noise: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the log-likelihood of each σ_pk is made of, [σ, player, arm]: a constant, and what a squared residual costs.

    Both are 0 where there is no data.
    """
    known = np.isfinite(noise)
    variance = grid[:, None, None] ** 2 + np.where(known, noise, 1.0)
    return -0.5 * known * np.log(variance), 0.5 * known / variance


def _pick(scores: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A number along the first axis with probability proportional to exp(score) (Gumbel's maximum)."""
    return np.asarray((scores + random.gumbel(size=scores.shape)).argmax(axis=0))
