"""Problems to plan for: drawn from a guess, or from the posterior of a model of the players' means, given data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from posse.learner import Counts
from posse.problem import Problem
from posse.rewards import Bernoulli, Beta, Family

LEAST_DISPERSION = 1e-4  # rewards that do not vary at all would have infinite weights
GRID = 25  # values that a standard deviation may take, over a factor of REACH
REACH = 300.0
FREEDOMS = (1.0, 4.0, 30.0)  # degrees of freedom that own deviations may have: very odd players, some, none
LEAST = -200.0  # logarithm of a probability: products of two stay far from denormal numbers, which are slow
BURN_IN, THIN = 100, 4  # sweeps before the first draw, and from one draw to the next


def guessed_problems(
    players: int, arms: int, epsilon: float, effect: float, base: float, *, count: int, seed: int
) -> list[Problem]:
    """Problems whose best arm has center base + effect and all others base; players are uniform within ε/2 around it.

    Where that would leave [0, 1], the interval is narrower on both sides, so that the center stays the mean over
    players. The best arm is another one from problem to problem; problem k depends only on the seed and k.

    >>> problem = guessed_problems(4, 3, epsilon=0.0, effect=0.1, base=0.2, count=1, seed=0)[0]
    >>> problem.means[0].round(2).tolist(), problem.epsilon
    ([0.3, 0.2, 0.2], 0.0)
    """
    problems = []
    for k in range(count):
        random = np.random.default_rng([seed, k])
        centers = np.full(arms, base)
        centers[k % arms] += effect
        half = np.minimum(epsilon / 2, np.minimum(centers, 1 - centers))
        means = np.clip(centers + half * (2 * random.random((players, arms)) - 1), 0, 1)  # clipped: rounding
        problems.append(Problem(means, epsilon, stream=k))  # the stream tells them apart: ε = 0 draws equal means
    return problems


@dataclass(frozen=True, eq=False)
class Population:
    """What historical data says about the players, on the scale [0, 1].

    The model: a player's mean for an arm is the arm's mean + the player's level + the player's own deviation for the
    arm. Levels are normal with standard deviation τ; they make players differ, but change nobody's best arm. Own
    deviations have Student's t distribution with scale σ_k and ν_k degrees of freedom for arm k, so that a single
    player may be odd; that is, they are normal with a standard deviation σ_pk of their own. None of this is assumed
    known: σ_k has the half-Cauchy distribution with scale s, so that arms are alike unless their data says otherwise
    (Gelman, Bayesian Analysis 2006), ν_k is any of `FREEDOMS`, τ and s are uniform in their logarithms, and arm means
    are uniform.
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
        """The values that standard deviations may take, up to the largest that the data could show."""
        seen = np.isfinite(self.noise)
        rewards = np.sqrt(self.noise[seen].max())  # at least the noise of the cell that knows least
        top = min(0.5, max(float(rewards), float(np.ptp(self.observed[seen]))))
        return np.geomspace(top / REACH, top, GRID)

    def problems(self, *, count: int, seed: int) -> list[Problem]:
        """Problems drawn from the posterior by Gibbs sampling: what the data says of a player stays, the rest varies.

        Means are clipped to [0, 1]. A problem's ε is its own range. The first problems do not depend on `count`.
        """
        states = islice(_chain(self, np.random.default_rng(seed)), BURN_IN, BURN_IN + count * THIN, THIN)
        return [Problem(np.clip(s.means, 0, 1), rewards=self.rewards, stream=k) for k, s in enumerate(states)]


def population_of(counts: Counts, dispersion: float = 1.0) -> Population:
    """The data, scaled to [0, 1]; a reward's variance is taken as dispersion · m (1 − m), where m is the arm's mean.

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
    """The rewards' variance within (player, arm) as a share of mean · (1 − mean), both unbiased; at most 1.

    Rewards of 0 and 1 give exactly 1, even from few rows; so do rewards that say nothing about their variance.

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
class _ChainState:
    """One state of the chain: standard deviations, and the means drawn with them."""

    level: float
    scale: np.ndarray  # of own deviations, [arm]
    own: np.ndarray  # standard deviations of own deviations, [player, arm]
    means: np.ndarray  # the players' means, [player, arm]


def _chain(population: Population, random: np.random.Generator) -> Iterator[_ChainState]:
    """Gibbs sampling: (τ, arm means, levels) given σ_pk, then (ν_k, σ_k, σ_pk) and s given arm means and levels.

    Own deviations are integrated out; so are levels where τ is drawn, and σ_pk where (ν_k, σ_k) is drawn. So the chain
    moves freely near 0 too.
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
        level = float(grid[_draw_place(_level_scores(observed - arms, _weights(noise, own), grid), random)])
        arms, levels, means = draw_means(observed, noise, level, own, random)
        yield _ChainState(level, grid[scale], own, means)
        squares = (observed - arms - levels[:, None]) ** 2
        scores = constant - squares * halves  # for each σ_pk, own deviations integrated out
        likelihood = np.exp(np.maximum(scores - scores.max(axis=0), LEAST))
        # For each (ν_k, σ_k). Not by @: its threads take ten times as long for small matrices on a busy machine.
        of_kind = np.log(np.einsum("ij,jpk->ipk", chances, likelihood)).sum(axis=1)
        kind = _draw_place(of_kind + np.tile(of_arm[common], len(FREEDOMS))[:, None], random)
        heaped = np.cumsum(likelihood * chances.T[:, kind][:, None, :], axis=0)
        own = grid[(heaped < heaped[-1] * random.random(shape)).sum(axis=0)]
        scale = kind % GRID
        common = int(_draw_place(of_arm[:, scale].sum(axis=1), random))


def scale_priors(grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of σ_k (columns) given s (rows), and probabilities of σ_pk given (ν_k, σ_k)."""
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
    centers = arms + levels[:, None]
    shrink = own**2 * weights  # how much of a cell's remaining deviation is the player's own
    known = np.isfinite(noise)
    spread = np.sqrt(np.where(known, shrink * np.where(known, noise, 0), own**2))
    return arms, levels, centers + shrink * (observed - centers) + spread * random.standard_normal(centers.shape)


def _weights(noise: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The weight of each cell's observed mean, [player, arm]; 0 where there is no data."""
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
    """The parts of the log-likelihood of each σ_pk, [σ, player, arm]: a constant, and a factor of squared residuals.

    Both are 0 where there is no data.
    """
    known = np.isfinite(noise)
    variance = grid[:, None, None] ** 2 + np.where(known, noise, 1.0)
    return -0.5 * known * np.log(variance), 0.5 * known / variance


def _draw_place(scores: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A place along the first axis, drawn with probability proportional to exp(score) (Gumbel's maximum)."""
    return np.asarray((scores + random.gumbel(size=scores.shape)).argmax(axis=0))


def level_and_own(means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviations over players of levels and of own deviations, for means [problem, player, arm].

    By analysis of variance: own² is the mean square of the interaction, level² the variance of the players' averages
    less own²/(number of arms).

    >>> level_and_own(np.array([[[0.1, 0.2], [0.3, 0.4]]]))[1].round(9).tolist()
    [0.0]
    """
    _, players, arms = means.shape
    averages = means.mean(axis=2)
    rest = means - averages[:, :, None] - means.mean(axis=1, keepdims=True) + means.mean(axis=(1, 2), keepdims=True)
    own = (rest**2).sum(axis=(1, 2)) / ((players - 1) * (arms - 1))
    return np.sqrt(np.maximum(averages.var(axis=1, ddof=1) - own / arms, 0)), np.sqrt(own)


def interaction_freedom(known: np.ndarray) -> int:
    """Degrees of freedom for own deviations, beside levels and arms, if only the cells known[player, arm] have data.

    That is cells − players − arms + connected parts of the graph in which each cell joins its player and its arm.

    >>> interaction_freedom(np.ones((2, 2), bool)), interaction_freedom(np.eye(2, dtype=bool))
    (1, 0)
    """
    players = known.any(axis=1)
    part = np.arange(len(known))  # the least player known to be in the same part
    for _ in range(len(known)):
        of_arm = np.where(known, part[:, None], len(known)).min(axis=0)
        lower = np.where(known, of_arm, len(known)).min(axis=1)
        if (lower == part)[players].all():
            break
        part = np.where(players, lower, part)
    return int(known.sum() - players.sum() - known.any(axis=0).sum()) + len(np.unique(part[players]))
