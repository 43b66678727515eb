"""Estimators of a fixed policy's value from logged rewards, and intervals for them. Rewards are in [0, 1] throughout.

A row's weight is w = π(a|p) / e: the probability with which the judged policy plays the arm that was played, over the
probability with which it was played. Every estimator here is the mean of one score for each row.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from posse.insight.logs import by_cell

FOLDS = 5
PRIOR = 10.0  # how many rows the model's prior means are worth: an arm's mean for a cell, one half for an arm
_CLOSE = 1e-5  # how accurately the ends of a betting interval are found; the error makes the interval wider
_BETS = 2.0 ** np.arange(-6, 5)
_PRIOR_OF_BETS = 1 / (1 + np.abs(np.arange(-6, 5))) ** 2
_PRIOR_OF_BETS /= _PRIOR_OF_BETS.sum()


def ips_scores(weights: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """w r: inverse propensity scoring (Horvitz and Thompson, 1952). Unbiased, noisy where weights are large.

    >>> ips_scores(np.array([2.0, 0.0, 2.0, 0.0]), np.array([1.0, 1.0, 0.0, 0.0])).mean()
    np.float64(0.5)
    """
    return weights * rewards


def snips_scores(weights: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """v + w (r − v) / w̄ with v = Σ w r / Σ w: self-normalised IPS (Hájek, 1971; Swaminathan and Joachims, 2015).

    Their mean is v, and their spread gives its error by the delta method; all NaN where no weight is positive.

    >>> snips_scores(np.array([4.0, 0.0, 2.0, 0.0]), np.array([1.0, 1.0, 0.0, 0.0])).mean().round(4)
    np.float64(0.6667)
    """
    total = weights.sum()
    if total == 0:
        return np.full(rewards.shape, np.nan)
    value = (weights * rewards).sum() / total
    return np.asarray(value + weights * (rewards - value) / (total / rewards.size))


def dr_scores(weights: np.ndarray, rewards: np.ndarray, expected: np.ndarray, modelled: np.ndarray) -> np.ndarray:
    """Σ_a π(a|p) q(p, a) + w (r − q(p, a)): doubly robust (Robins, Rotnitzky and Zhao, 1994; Dudík and others, 2011).

    `expected` is the first sum and `modelled` is q of the arm that was played. Unbiased whatever q is, as long as q
    does not rest on the row's own reward; the better q, the less noise.
    """
    return expected + weights * (rewards - modelled)


def cross_fitted(player: np.ndarray, arm: np.ndarray, reward: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """A model of rewards, [row, arm], that did not see the row: cell means of the other four fifths of the log.

    The rows of each (player, arm) are dealt to the folds in turn, so that every fold has its share of each cell.
    """
    cell = player * shape[1] + arm
    order = np.argsort(cell, kind="stable")
    starts = np.searchsorted(cell[order], cell[order])
    fold = np.empty(cell.size, np.int64)
    fold[order] = (np.arange(cell.size) - starts) % FOLDS
    cells = fold * shape[0] + player, arm, (FOLDS * shape[0], shape[1])
    pulls, sums = (by_cell(*cells, weights).reshape(FOLDS, *shape) for weights in (None, reward))
    pulls, sums = pulls.sum(axis=0) - pulls, sums.sum(axis=0) - sums
    model = _shrunken(pulls, sums, pulls.sum(axis=1, keepdims=True), sums.sum(axis=1, keepdims=True))
    return np.asarray(model[fold, player])


def from_the_past(player: np.ndarray, arm: np.ndarray, reward: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """A model of rewards, [row, arm], from the rows before, so that scores are fair if choices depend on the past."""
    played = (arm[:, None] == np.arange(shape[1])).astype(float)
    order = np.argsort(player, kind="stable")
    starts = np.searchsorted(player[order], player[order])
    before = []
    for quantity in (played, played * reward[:, None]):
        own = np.empty_like(quantity)
        sorted_before = _before(quantity[order])
        own[order] = sorted_before - sorted_before[starts]
        before += [own, _before(quantity)]
    pulls, arm_pulls, sums, arm_sums = before
    return _shrunken(pulls, sums, arm_pulls, arm_sums)


def _before(quantity: np.ndarray) -> np.ndarray:
    """The sums of the rows before each row."""
    return np.cumsum(quantity, axis=0) - quantity


def _shrunken(pulls: np.ndarray, sums: np.ndarray, arm_pulls: np.ndarray, arm_sums: np.ndarray) -> np.ndarray:
    """(s + k q) / (n + k): a cell's mean, shrunk to the arm's mean q, itself shrunk to one half in the same way."""
    arm_means = (arm_sums + PRIOR / 2) / (arm_pulls + PRIOR)
    return np.asarray((sums + PRIOR * arm_means) / (pulls + PRIOR))


def effective_rows(weights: np.ndarray) -> float:
    """(Σ w)² / Σ w²: how many equally weighted rows would be as precise (Kish, 1965).

    >>> effective_rows(np.array([1.0, 1.0, 1.0, 0.0]))
    3.0
    """
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


def normal_interval(scores: np.ndarray, level: float) -> tuple[float, float]:
    """The mean of the scores ± z s / √n; infinite for a single score."""
    if scores.size < 2:
        return -math.inf, math.inf
    half = NormalDist().inv_cdf(1 - level / 2) * float(scores.std(ddof=1)) / math.sqrt(scores.size)
    return float(scores.mean()) - half, float(scores.mean()) + half


def hoeffding_interval(rewards: np.ndarray, level: float) -> tuple[float, float]:
    """Mean ± √(ln(2/level) / 2n), for bounded rewards whose means may depend on the past (Azuma, 1967)."""
    half = math.sqrt(math.log(2 / level) / (2 * rewards.size))
    return float(rewards.mean()) - half, float(rewards.mean()) + half


def betting_interval(weights: np.ndarray, rewards: np.ndarray, level: float, *, by_design: bool) -> tuple[float, float]:
    """An interval that holds for any number of rows and any weights, by betting (Waudby-Smith and Ramdas, 2024).

    Against the claim that the value is ν, bet on w r − ν: 1 + λ (w r − ν) is ≥ 0 and has mean ≤ 1 if the value is
    at most ν, so its product over the rows exceeds 2/level with probability level/2 at most. The lower end is the
    largest ν that is refuted; the upper end is the lower end of 1 − r. Weights need no bound (Waudby-Smith and others,
    "Anytime-valid off-policy inference for contextual bandits", 2022), only mean 1 given the past. λ is fixed before
    any reward is seen, so for values that differ between rows the same is true of their mean: Π (1 + λ d) ≤ exp(λ Σ d).
    The product is averaged over a range of λ, with most weight near the best one for rewards of 0 and 1.

    `by_design` says that the weights are not random and have mean exactly 1; then it bets on w (r − ν).

    >>> low, high = betting_interval(np.ones(40), np.repeat([0.0, 1.0], 20), 0.05, by_design=True)
    >>> round(low, 3), round(high, 3)
    (0.28, 0.72)
    """
    low = _lower_end(weights, rewards, level / 2, by_design)
    return low, 1 - _lower_end(weights, 1 - rewards, level / 2, by_design)


def _lower_end(weights: np.ndarray, rewards: np.ndarray, level: float, by_design: bool) -> float:
    gains, stakes, rows = _distinct(weights, rewards, by_design)
    square = float(rows @ stakes**2) / weights.size if by_design else 2.0
    most = float(stakes.max())

    def refuted(value: float) -> bool:
        variance = square * value * (1 - value) if by_design else square * value - value**2
        best = math.sqrt(2 * math.log(1 / level) / (weights.size * variance)) if variance > 0 else math.inf
        bets = np.minimum(best * _BETS, 0.9 / (most * value))
        wealth = np.log1p(np.outer(bets, gains - stakes * value)) @ rows
        return bool(wealth.max() + math.log(_PRIOR_OF_BETS @ np.exp(wealth - wealth.max())) > math.log(1 / level))

    # λ changes with ν in such a way that every factor falls as ν grows, so everything up to one point is refuted.
    low, high = 0.0, min(float(rows @ gains) / weights.size, 1.0)
    if high > _CLOSE and refuted(high):
        return high
    while high - low > _CLOSE:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _distinct(weights: np.ndarray, rewards: np.ndarray, by_design: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct pairs of gain w r and stake, and in how many rows each occurs.

    Gains are rounded down to 12 bits, which is on the safe side and leaves few distinct ones.
    """
    stakes = weights if by_design else np.ones(weights.size)
    mantissa, exponent = np.frexp(weights * rewards)
    gains = np.ldexp(np.floor(mantissa * 4096), exponent - 12)
    pairs, rows = np.unique(gains + 1j * stakes, return_counts=True)
    return pairs.real, pairs.imag, rows.astype(float)
