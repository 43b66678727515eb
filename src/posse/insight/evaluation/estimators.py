"""Estimators of a fixed policy's value from logged rewards, and intervals for them. Rewards are in [0, 1] throughout.

A row's weight is w = π(a|p) / e: the probability with which the judged policy plays the arm that was played, over the
probability with which it was played. Every estimator here is the mean of one score for each row.
"""

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from posse.confidence import running_low
from posse.insight.logs import by_cell

FOLDS = 5
PRIOR = 10.0  # how many rows the model's prior means are worth: an arm's mean for a cell, one half for an arm
STEADY = 100  # how many rows a variance that all players share is worth
TAUS = np.concatenate([[0.0], np.geomspace(0.02, 4, 48)])  # how far values may vary between players, in their scale
ENOUGH = 10  # how often the largest possible squared deviation the scores' squared deviations must add up to


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


def dr_scores(weights: np.ndarray, rewards: np.ndarray, expected: Any = 0.0, modelled: Any = 0.0) -> np.ndarray:
    """Σ_a π(a|p) q(p, a) + w (r − q(p, a)): doubly robust (Robins, Rotnitzky and Zhao, 1994; Dudík and others, 2011).

    `expected` is the first sum and `modelled` is q of the arm that was played. Unbiased whatever q is, as long as q
    does not rest on the row's own reward; the better q, the less noise. Without a model, q = 0, it is w r: inverse
    propensity scoring (Horvitz and Thompson, 1952), noisy where weights are large.

    >>> dr_scores(np.array([2.0, 0.0, 2.0, 0.0]), np.array([1.0, 1.0, 0.0, 0.0])).mean()
    np.float64(0.5)
    """
    return expected + weights * (rewards - modelled)


def cross_fitted(player: np.ndarray, arm: np.ndarray, reward: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """A model of rewards, [row, arm], that did not see the row: cell means of the other four fifths of the log."""
    fold = deal(player, arm, shape)
    pulls, sums, _ = by_fold(fold, player, arm, reward, shape)
    pulls, sums = pulls.sum(axis=0) - pulls, sums.sum(axis=0) - sums
    model = shrunken(pulls, sums, pulls.sum(axis=1, keepdims=True), sums.sum(axis=1, keepdims=True))
    return np.asarray(model[fold, player])


def deal(player: np.ndarray, arm: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """A fold for each row. The rows of each (player, arm) are dealt in turn, so every fold has its share of them."""
    cell = player * shape[1] + arm
    order = np.argsort(cell, kind="stable")
    starts = np.searchsorted(cell[order], np.arange(shape[0] * shape[1]))
    fold = np.empty(cell.size, np.int64)
    fold[order] = (np.arange(cell.size) - starts[cell[order]]) % FOLDS
    return fold


def by_fold(
    fold: np.ndarray, player: np.ndarray, arm: np.ndarray, reward: np.ndarray, shape: tuple[int, int]
) -> list[np.ndarray]:
    """Rows of each player and arm in each fold, and their sums of rewards and of squares, [fold, player, arm]."""
    cells = fold * shape[0] + player, arm, (FOLDS * shape[0], shape[1])
    return [by_cell(*cells, weights).reshape(FOLDS, *shape) for weights in (None, reward, reward**2)]


def from_the_past(player: np.ndarray, arm: np.ndarray, reward: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """A model of rewards, [row, arm], from the rows before, so that scores are fair if choices depend on the past."""
    order = np.argsort(player, kind="stable")
    starts = np.searchsorted(player[order], np.arange(shape[0]))[player[order]]
    model = np.empty((player.size, shape[1]))
    for number in range(shape[1]):
        before = []
        for quantity in ((arm == number) * 1.0, (arm == number) * reward):
            own, sorted_before = np.empty_like(quantity), _before(quantity[order])
            own[order] = sorted_before - sorted_before[starts]
            before += [own, _before(quantity)]
        pulls, arm_pulls, sums, arm_sums = before
        model[:, number] = shrunken(pulls, sums, arm_pulls, arm_sums)
    return model


def _before(quantity: np.ndarray) -> np.ndarray:
    """The sums of the rows before each row."""
    return np.cumsum(quantity) - quantity


def shrunken(pulls: np.ndarray, sums: np.ndarray, arm_pulls: np.ndarray, arm_sums: np.ndarray) -> np.ndarray:
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


def varies_enough(scores: np.ndarray, largest: float) -> bool:
    """Whether a normal interval holds: Σ (s − s̄)² ≥ 10 B², where no score can be further than B from its mean.

    By the theorem of Berry and Esseen the error of the normal law is at most a constant times B/√Σ (s − s̄)². B comes
    from the rewards' range and the weights, not from the rewards that were seen: a rare large one may be missing. For
    rewards of 0 and 1 with weights of 1 the rule is n v (1 − v) ≥ 10.

    >>> varies_enough(np.repeat([0.0, 1.0], 30), 1), varies_enough(np.repeat([0.2, 1.0], [200, 1]), 1)
    (True, False)
    """
    return scores.size > 1 and float(np.square(scores - scores.mean()).sum()) >= ENOUGH * largest**2


def normal_interval(scores: np.ndarray, level: float) -> tuple[float, float]:
    """The mean of the scores ± z s / √n, corrected for their skewness (Hall, 1992); infinite for a single score.

    Hall's cubic t + a t²/3 + a² t³/27 + a/6, with a = skewness/√n, makes Student's ratio normal to order 1/n.
    """
    if scores.size < 2:
        return -math.inf, math.inf
    mean, deviation = float(scores.mean()), float(scores.std(ddof=1))
    if deviation == 0:
        return mean, mean
    error = deviation / math.sqrt(scores.size)
    scaled = (scores - mean) / deviation
    skewness = float(np.mean(scaled * scaled * scaled)) / math.sqrt(scores.size)
    z = NormalDist().inv_cdf(1 - level / 2)
    return mean - error * skew_corrected(z, skewness), mean - error * skew_corrected(-z, skewness)


def skew_corrected(z: float, skewness: float) -> float:
    """Which value Student's ratio has where Hall's cubic of it is z; `skewness` is that of the mean."""
    return z if abs(skewness) < 1e-9 else 3 / skewness * (math.cbrt(1 + skewness * (z - skewness / 6)) - 1)


def martingale_interval(rewards: np.ndarray, level: float) -> tuple[float, float]:
    """For bounded rewards whose means may depend on the past: what two bounds say together, each at half the level.

    One is the mean ± √(ln(4/level) / 2n) (Azuma, 1967). The other (`posse.confidence.running_low`) goes by how far
    rewards are from the mean of those before, so it is narrow for rare ones.

    >>> low, high = martingale_interval(np.repeat([1.0, 0.0], [5, 7995]), 0.05)  # of which Azuma's is ± 0.0166
    >>> round(low, 4), round(high, 4)
    (-0.0011, 0.0024)
    """
    size, total = rewards.size, float(rewards.sum())
    half = math.sqrt(math.log(4 / level) / (2 * size))
    before = (np.cumsum(rewards) - rewards + 0.5) / np.arange(1, size + 1)
    spread = np.square(rewards - before).sum()
    low, rest = running_low(np.array(size), np.array([total, size - total]), spread, level / 4, 1.0).tolist()
    return max(total / size - half, low), min(total / size + half, 1 - rest)


def steadied(errors: np.ndarray, rows: np.ndarray, variance: float) -> np.ndarray:
    """Standard errors of means of few rows, as if each had 100 more rows with the given variance.

    >>> steadied(np.array([0.0, 0.01]), np.array([4, 10_000]), 1.0).round(3).tolist()
    [0.49, 0.01]
    """
    return np.sqrt((errors**2 * rows**2 + STEADY * variance) / (rows * (rows + STEADY)))


def shrink(values: np.ndarray, errors: np.ndarray, rows: np.ndarray, overall: float) -> tuple[np.ndarray, np.ndarray]:
    """Values pulled together by how unsure each is, and their standard errors; `overall` is the value of all rows.

    If players' true values vary by τ, each keeps the share k = τ²/(τ² + error²) of its distance from a common target.
    The target is such that the mean of the shrunken values over the rows is the overall value. With the usual target,
    the mean with weights 1/(τ² + error²), players for whom two policies agree would have nearly all the weight: their
    differences are small, and so are their errors. τ is not estimated, which would often give 0 and errors that are far
    too small: results are averaged over τ, each by its likelihood (all τ are equally likely before).

    >>> values, errors = shrink(np.array([0.0, 0.1, 0.5]), np.full(3, 0.1), np.full(3, 400), 0.2)
    >>> values.round(3).tolist(), errors.round(3).tolist()
    ([0.034, 0.117, 0.449], [0.1, 0.096, 0.106])
    """
    share = rows / rows.sum()
    scale = np.sqrt(share @ ((values - overall) ** 2 + errors**2))
    tau, error = np.square(scale * TAUS)[:, None], errors**2  # as variances; [τ, value] below
    keep = tau / (tau + error)
    weights = (1 - keep) * share  # of the values in the target, if these average the overall value
    rest = np.maximum(weights.sum(axis=1, keepdims=True), 1e-12)
    target = (overall - (keep * share) @ values[:, None]) / rest
    shrunk = target + keep * (values - target)
    likelihood = -0.5 * (np.log(tau + error) + (values - target) ** 2 / (tau + error)).sum(axis=1)
    likely = np.exp(likelihood - likelihood.max()) * np.gradient(TAUS)
    likely /= likely.sum()
    mean = likely @ shrunk
    of_target = ((weights / rest) ** 2 * (tau + error)).sum(axis=1, keepdims=True)
    return mean, np.sqrt(likely @ (keep * error + (1 - keep) ** 2 * of_target + (shrunk - mean) ** 2))
