"""Confidence intervals and evidence that hold at all times at once: one may look after every reward, and stop at any.

`interval` and `evidence_above` need counts and sums alone.

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

`evidence_above` is against the claim that no mean, given everything before, is above a bound b: the same factor with
μ = b and θ > b, whose expectation is then at most 1, averaged over a few θ. It allows means that differ from reward to
reward, as those of different players do.

`running_evidence` and `running_low` are for terms X of any size that are at least some −c below a guess g made before
each (weighted rewards, say). For 0 ≤ λ < 1/c,

    exp(λ (X − μ) − ψ(λ) (X − g)²),   ψ(λ) = (−ln(1 − cλ) − cλ)/c²,

has an expectation of at most 1 if the mean of X, given everything before, is μ (Fan, Grama and Liu, Electronic Journal
of Probability 20, 2015; used so by Howard and others, above). The product over the terms depends on the means only
through their sum, so it speaks about their average up to now, however they differ. It is averaged over a range of λ.
"""

import math

import numpy as np

EARLY = 10  # the level falls slowly over about this many players (and arms), then as 1/number²
STEPS = 2.0 ** np.arange(-10, 4)  # of the odds' logarithm between a bound and the means that are bet on
BETS = 0.9 * 2.0 ** -np.arange(18)  # λ c: the bets on a running mean
BET_WEIGHTS = 1 / np.arange(1, BETS.size + 1) / np.arange(2, BETS.size + 2)
BET_WEIGHTS /= BET_WEIGHTS.sum()
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


def reward_interval(
    pulls: np.ndarray, sums: np.ndarray, level: np.ndarray | float, low: float, high: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean of rewards in [low, high], and the ends of its `interval`; without any, NaN and the whole range."""
    least, most = interval(pulls, np.clip((sums - low * pulls) / (high - low), 0, pulls), level)
    means = np.divide(sums, pulls, out=np.full(pulls.shape, np.nan), where=pulls > 0)
    return means, low + (high - low) * least, low + (high - low) * most


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


# ---------------------------------------------------------------- evidence


def log_sum(logs: np.ndarray) -> np.ndarray:
    """ln Σ exp(logs) along the last axis, several times as fast as NumPy's logaddexp; one of them must be finite.

    >>> float(log_sum(np.log([0.25, 0.5])).round(4)), float(log_sum(np.array([-np.inf, 1000.0])))
    (-0.2877, 1000.0)
    """
    top = logs.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.exp(logs - top).sum(axis=-1)) + top.squeeze(-1))


def evidence_above(counts: np.ndarray, sums: np.ndarray, bound: np.ndarray | float) -> np.ndarray:
    """ln of the evidence that values in [0, 1] have means above a bound; the three arrays broadcast.

    If no mean is above the bound, it ever reaches ln(1/level) with probability at most `level`. To ask whether means
    are below a bound, give counts − sums and 1 − bound.

    >>> evidence_above(np.array([0, 100, 100]), np.array([0.0, 9, 20]), 0.1).round(1).tolist()
    [0.0, -0.5, 2.2]
    """
    counts, sums, bound = (each[..., None] for each in np.broadcast_arrays(counts, sums, bound))
    inside = np.clip(bound, 1e-300, 1 - 1e-16)
    odds = np.log(inside) - np.log1p(-inside) + STEPS
    gain, loss = -np.logaddexp(0, -odds) - np.log(inside), -np.logaddexp(0, odds) - np.log1p(-inside)
    return log_sum(sums * gain + (counts - sums) * loss - math.log(STEPS.size))


def running_evidence(
    counts: np.ndarray, sums: np.ndarray, spreads: np.ndarray, value: np.ndarray | float, reach: np.ndarray | float
) -> np.ndarray:
    """ln of the evidence that the average of the terms' means is above a value; all arrays broadcast.

    If it is not, this ever reaches ln(1/level) with probability at most `level`.

    Args:
        counts: how many terms there were.
        sums: their sum.
        spreads: Σ (X − g)², where g is any guess of a term made before it, such as the mean of those before.
        value: what the average may be at most.
        reach: c, by which a term can be below its guess at most.
    """
    counts, sums, spreads, value, reach = (
        each[..., None] for each in np.broadcast_arrays(counts, sums, spreads, value, reach)
    )
    bets, cost = BETS / reach, (-np.log1p(-BETS) - BETS) / reach**2
    return log_sum(bets * (sums - counts * value) - cost * spreads + np.log(BET_WEIGHTS))


def running_low(
    counts: np.ndarray, sums: np.ndarray, spreads: np.ndarray, level: np.ndarray | float, reach: np.ndarray | float
) -> np.ndarray:
    """A lower end for the average of the terms' means: with probability 1 − level it is never wrong.

    The arguments are those of `running_evidence`; −∞ before the first term.

    >>> running_low(np.array([0, 100, 10_000]), np.array([0.0, 30, 3000]), np.array([0.0, 21, 2100]), 0.05, 1).round(3)
    array([ -inf, 0.129, 0.283])
    """
    counts, sums, spreads, level, reach = np.broadcast_arrays(counts, sums, spreads, level, reach)
    enough = np.log(1 / level)[..., None]
    some = np.maximum(counts, 1)[..., None]
    bets, cost = BETS / reach[..., None], (-np.log1p(-BETS) - BETS) / reach[..., None] ** 2
    alone = (sums[..., None] - (enough - np.log(BET_WEIGHTS) + cost * spreads[..., None]) / bets) / some
    low = alone.max(axis=-1)  # what the best bet alone refutes; all together refute a little more
    high = low + np.log(1 / BET_WEIGHTS.min()) / (some * bets).min(axis=-1)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        refuted = running_evidence(counts, sums, spreads, middle, reach) >= enough[..., 0]
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
    return np.where(counts > 0, low, -np.inf)
