"""Intervals for logs of a policy that learns, from rows weighted by how freely it could choose.

In row t an arm of propensity e has the doubly robust score Γ = q + 1{played} (r − q)/e, whose mean given the past is
the arm's mean μ, and whose variance grows as 1/e. Its mean over the rows need not be normal, because e depends on
earlier rewards. With weights h = √e all rows vary alike, whatever was learned, so the weighted mean Σ h Γ / Σ h is
normal for many rows (Hadad, Hirshberg, Zhan, Wager and Athey, "Confidence intervals for policy evaluation in adaptive
experiments", PNAS 118, 2021). Each player and arm has a weighted mean of its own, so players count as often as in the
log, and a value is a sum of means. An arm's mean for a player must stay the same over time, since weights do not.

Three corrections are for logs that are not long. Where e is less than c = `RARE`/n, with n rows of the player, the
weight is e/√c, so that no row decides alone. Each player counts as if it had a little more noise than was seen. And Σ h
depends on the rewards too, which biases a mean by a tenth of its standard error or more. That does not average out over
players, so it is added to the interval. The constants were found by measuring (docs/research-log.md).
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from posse.insight.evaluation.estimators import skew_corrected

RARE = 20  # expected pulls: an arm whose propensity promises a player fewer of them weighs less
FREE = 0.2  # of what weights √e would make of the rows' variance; with less, it depends on what was learned
ENOUGH = 0.5  # how often the largest squared deviation of one row the squared deviations must add up to
SPARE = 0.5  # rows that each player has more than it has, as far off as can be
BIAS = 0.1  # of each player's standard error, and more where weights are not √e


@dataclass(frozen=True, eq=False)
class ArmRows:
    """What the rows say about one arm."""

    chances: np.ndarray  # its propensity e in each row, whether or not it was played
    played: np.ndarray  # whether it was
    model: np.ndarray  # the guess q of its reward, from the rows before
    stakes: np.ndarray  # how much of the arm's mean is in the value, [player]


def weighted_interval(
    arms: list[ArmRows], player: np.ndarray, reward: np.ndarray, level: float
) -> tuple[float, float, float, float] | None:
    """The value, its ends and its standard error; None if a bet is the better interval."""
    players = arms[0].stakes.size
    rows = np.bincount(player, minlength=players)
    rare = np.minimum(RARE / np.maximum(rows, 1), 0.5)[player]
    value, free, deviations, largest = 0.0, 1.0, np.zeros(reward.size), np.zeros(rows.size)
    for arm in arms:
        steady = np.maximum(arm.chances, rare)
        free = min(free, float((arm.chances / steady).mean()))
        if free < FREE:
            return None
        root = np.sqrt(steady)
        weights = arm.chances / root
        scores = weights * arm.model + arm.played * (reward - arm.model) / root
        totals, sums = (np.bincount(player, each, players) for each in (weights, scores))
        if ((totals <= 0) & (arm.stakes != 0) & (rows > 0)).any():
            return None
        totals[totals <= 0] = 1
        means, shares = sums / totals, arm.stakes / totals
        value += float(arm.stakes @ means)
        deviations += (scores - weights * means[player]) * shares[player]
        least = np.full(rows.size, np.inf)
        np.minimum.at(least, player, root)
        largest = np.maximum(largest, np.abs(shares) / least)
    squares = np.bincount(player, deviations**2, players)
    if float(squares.sum()) < ENOUGH * float(largest.max()) ** 2:
        return None
    errors = np.sqrt(squares + SPARE * largest**2)
    error = math.sqrt(float((errors**2).sum()))
    skewness = float((deviations**3).sum()) / error**3
    z = NormalDist().inv_cdf(1 - level / 2)
    bias = BIAS / free * float(errors.sum())
    if bias > z * error:  # many players with few rows each: a bet is narrower
        return None
    low, high = (value - error * skew_corrected(each, skewness) for each in (z, -z))
    return value, low - bias, high + bias, error
