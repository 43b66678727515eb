"""Confidence intervals for means that hold at all times at once, from counts and sums alone.

For rewards in [0, 1] whose mean, given everything before, is μ, and any θ in (0, 1), the factor

    (θ/μ)^X ((1−θ)/(1−μ))^(1−X)

is convex in the reward X, so it lies below its chord (1−X)(1−θ)/(1−μ) + Xθ/μ, whose expectation is 1. The product over
n rewards that sum to s is therefore a nonnegative supermartingale that starts at 1, and so is its average over θ ~
Beta(½, ½), the mixture of Krichevsky and Trofimov (IEEE Transactions on Information Theory 27, 1981):

    W(μ) = B(s + ½, n − s + ½) / B(½, ½) / (μ^s (1−μ)^(n−s)).

By Ville's inequality W(μ) ever reaches 1/α with probability at most α. The interval is every μ with W(μ) < 1/α: after
each reward, for ever, whatever rule says when to pull or to look, because the rule sees only the past. This
is the confidence sequence of Robbins (Annals of Mathematical Statistics 41, 1970) with the beta-binomial mixture of
Howard, Ramdas, McAuliffe and Sekhon (Annals of Statistics 49, 2021). A sub-Gaussian one assumes the variance 1/4; this
one is narrower where means are near 0 or 1.
"""

from __future__ import annotations

import math

import numpy as np

EARLY = 10  # the level falls slowly over about this many players (and arms), then as 1/number²
HALVINGS = 50  # of an interval of length 1 at most: finer than a double near 1 can be

_lgamma = np.vectorize(math.lgamma, otypes=[np.float64])


def shares(count: int, early: int = EARLY) -> np.ndarray:
    """The shares of a level for the first `count` players (or arms), if any number may join: c/((i+c−1)(i+c)).

    They sum to 1 over i = 1, 2, …, so those who join later take nothing from those who are there. With c = `early` =
    10, number 20 gets 1/87 of the level; equal shares among 20 known in advance would be 1/20. That costs little, since
    an interval's width grows only with the root of the logarithm of 1/share.

    >>> shares(3).round(3).tolist()
    [0.091, 0.076, 0.064]
    """
    number = np.arange(1, count + 1)
    return early / ((number + early - 1) * (number + early))


def interval(pulls: np.ndarray, sums: np.ndarray, level: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends for the mean of rewards in [0, 1]; with probability 1 − level they are never wrong.

    The three arrays broadcast. −s ln μ − (n−s) ln(1−μ) is convex in μ, so each end is a single crossing, found by
    bisection and rounded outwards.

    >>> low, high = interval(np.array([0, 100]), np.array([0.0, 30.0]), 0.05)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.166], [1.0, 0.463])
    """
    pulls, sums, level = np.broadcast_arrays(pulls, sums, level)
    a, b = sums + 0.5, pulls - sums + 0.5
    log_beta = _lgamma(a) + _lgamma(b) - _lgamma(a + b)
    target = math.log(math.pi) - log_beta - np.log(level)  # B(½, ½) = π
    mean = np.divide(sums, pulls, out=np.full(pulls.shape, 0.5), where=pulls > 0)
    return _crossing(pulls, sums, target, mean, 0.0), _crossing(pulls, sums, target, mean, 1.0)


def _crossing(pulls: np.ndarray, sums: np.ndarray, target: np.ndarray, inside: np.ndarray, end: float) -> np.ndarray:
    """Where −s ln μ − (n−s) ln(1−μ) passes the target between the mean and an end of [0, 1]."""
    outside = np.full(inside.shape, end)
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        within = _log_loss(pulls, sums, middle) < target
        inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
    # An end of [0, 1] is in the interval if no reward speaks against it.
    return np.where(_log_loss(pulls, sums, np.full(inside.shape, end)) < target, end, outside)


def _log_loss(pulls: np.ndarray, sums: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """−s ln μ − (n−s) ln(1−μ), with 0 ln 0 = 0."""
    rest = pulls - sums
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sums > 0, -sums * np.log(mean), 0.0) + np.where(rest > 0, -rest * np.log1p(-mean), 0.0)
