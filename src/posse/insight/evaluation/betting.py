"""Intervals by betting, which hold for any number of rows, any weights and any rewards in [0, 1].

Against the claim that a value is ν, bet on terms whose mean, given everything before, is the row's value: 1 + λ (T − ν)
is ≥ 0 and has mean ≤ 1 if the value is at most ν, so the product over the rows exceeds 2/level with probability level/2
at most (Markov). The lower end is the largest ν that is refuted; the upper end is the lower end for 1 − r, mirrored
(Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2024). λ is fixed before any reward
is seen, so for values that differ between rows the same is true of their mean: Π (1 + λ d) ≤ exp(λ Σ d). The product is
averaged over a range of λ; leaving some of them out makes the interval wider, never wrong.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

_CLOSE = 1e-6  # how accurately ends are found; the error makes the interval wider
_ACCURATE = 4e-3  # the same as a share of the interval
_SMALL = 4096  # rows whose logarithms cost less than what saves them
_BLOCK = 16 * 4096  # rows that are multiplied at a time, so that they stay in the processor's cache
_STEPS = np.arange(-1, 8)  # a bet that suits rewards of 0 and 1 is halved once and doubled up to seven times
_PRIOR = 1 / (1 + np.abs(_STEPS))
_PRIOR /= _PRIOR.sum()
_ROW_STEPS = np.arange(-5, 5)  # and a bet that suits rows which vary by 1/2 is halved or doubled
_ROW_PRIOR = 1 / (1 + np.abs(_ROW_STEPS)) ** 1.5
_ROW_PRIOR /= _ROW_PRIOR.sum()
_USED = 4  # how many of the bets on rows are followed: those near the best
_MOST = 0.9  # of what a bet may lose


def design_interval(weights: np.ndarray, rewards: np.ndarray, level: float) -> tuple[float, float]:
    """An interval for the mean of w r if the weights are not random and have mean exactly 1: it bets on w (r − ν).

    >>> low, high = design_interval(np.ones(40), np.repeat([0.0, 1.0], 20), 0.05)
    >>> round(low, 3), round(high, 3)
    (0.269, 0.731)
    """
    return _design_end(weights, rewards, level / 2), 1 - _design_end(weights, 1 - rewards, level / 2)


def _design_end(weights: np.ndarray, rewards: np.ndarray, level: float) -> float:
    gains, stakes, rows = _distinct(weights * rewards, weights)
    square, most = float(rows @ stakes**2), float(stakes.max())

    def wealth(value: float) -> float:
        variance = square * value * (1 - value)  # of rewards of 0 and 1, the largest there can be
        best = math.sqrt(2 * math.log(1 / level) / variance) if variance > 0 else math.inf
        bets = np.minimum(best * 2.0**_STEPS, _MOST / (most * value))
        return float(np.logaddexp.reduce(np.log1p(np.outer(bets, gains - stakes * value)) @ rows + np.log(_PRIOR)))

    # λ changes with ν in such a way that every factor falls as ν grows, so everything up to one point is refuted.
    return _crossing(wealth, math.log(1 / level), min(float(rows @ gains) / weights.size, 1.0))


@dataclass(frozen=True, eq=False)
class BetTerms:
    """What each row says about a policy: its weight, its reward, and a guess of rewards that can steady the bets."""

    weights: np.ndarray  # π(a|p) / e of the arm that was played
    rewards: np.ndarray
    arms: "Sequence[ArmGuess]" = ()  # for each arm that the policy may play, if its propensities are known

    def mirrored(self) -> "BetTerms":
        """The same about 1 − r."""
        arms = [replace(arm, model=1 - arm.model) for arm in self.arms]
        return BetTerms(self.weights, 1 - self.rewards, arms)

    def at(self, least: float) -> np.ndarray:
        """w (r − c) + Σ_a π(a) c(a), which has the row's value as its mean whatever c is, and is at least −`least`.

        c is the guess q, or less where the propensity e is so small that w c would exceed `least` (Waudby-Smith, Wu,
        Ramdas, Karampatziakis and Mineiro, "Anytime-valid off-policy inference for contextual bandits", 2022), or 0
        where e is unknown. Where an arm is not on offer, the mean is smaller, so a lower bound still holds.
        """
        terms = self.weights * self.rewards
        for arm in self.arms:
            guess = arm.model * arm.plays
            np.minimum(guess, least * arm.chances, out=guess)
            guess *= arm.balance
            terms += guess
        return terms


@dataclass(frozen=True, eq=False)
class ArmGuess:
    """What each row's reward would be with one arm."""

    plays: np.ndarray  # the policy's probability π of the arm
    chances: np.ndarray  # the arm's propensity e, 0 where unknown
    balance: np.ndarray  # 1 − 1/e where the arm was played, and 1 elsewhere, which has mean 0
    model: np.ndarray  # the guess q, from the rows before


def martingale_interval(terms: BetTerms, level: float) -> tuple[float, float]:
    """An interval for a policy's value, whatever the log's choices depended on."""
    low = martingale_end([terms], level / 2)
    return low, 1 - martingale_end([terms.mirrored()], level / 2)


def martingale_difference(one: BetTerms, other: BetTerms, level: float) -> tuple[float, float]:
    """An interval for the difference of two values by one bet: the sum of v and 1 − v′ is 1 more than v − v′."""
    low = martingale_end([one, other.mirrored()], level / 2) - 1
    return low, 1 - martingale_end([one.mirrored(), other], level / 2)


def martingale_end(parts: Sequence[BetTerms], level: float) -> float:
    """The lower end for the sum of the parts' values."""
    size, most, enough = parts[0].rewards.size, len(parts), math.log(1 / level)
    bets = np.minimum(math.sqrt(2 * enough / size) * 2.0 ** (_ROW_STEPS + 1 - most), _MOST / most)
    guessed = any(part.arms for part in parts)

    @cache
    def terms(bet: float) -> np.ndarray:
        return np.asarray(sum(part.at(_MOST / bet - most) for part in parts))

    middle = float(bets[len(bets) // 2])
    for _ in range(1 + guessed):  # find which bets suit these rows: near √(2 ln(1/level) / Σ (T − T̄)²)
        found = terms(middle)
        best = math.sqrt(2 * enough / max(float(found.var()) * size, 1e-12))
        near = np.argsort(np.abs(np.log(bets / best)), kind="stable")[:_USED]
        middle = float(bets[near[0]])
    followed = [
        (float(bets[place]), terms(float(bets[place]) if guessed else middle), math.log(_ROW_PRIOR[place]))
        for place in near
    ]

    def wealth(value: float) -> float:
        return float(np.logaddexp.reduce([_log_product(bet, rows, value) + prior for bet, rows, prior in followed]))

    top = min(max(float(rows.mean()) for _, rows, _ in followed), float(most))
    best, rows, prior = followed[0]  # alone, to the second order, it refutes this value:
    return _crossing(wealth, enough, top, top - (enough - prior) / (best * size) - best * float(rows.var()) / 2)


def _log_product(bet: float, terms: np.ndarray, value: float) -> float:
    """Σ ln(1 + bet (T − value)), from products of 16 factors, each in [0.1, 10¹⁵], which a float can hold."""
    if terms.size < _SMALL:
        return float(np.log1p(bet * (terms - value)).sum())
    total = 0.0
    for start in range(0, terms.size, _BLOCK):
        factors = bet * terms[start : start + _BLOCK]
        factors += 1 - bet * value
        np.minimum(factors, 1e15, out=factors)
        even = factors.size - factors.size % 16
        total += float(np.log(factors[:even].reshape(16, -1).prod(axis=0)).sum() + np.log(factors[even:]).sum())
    return total


def _crossing(wealth: Callable[[float], float], enough: float, high: float, guess: float | None = None) -> float:
    """The largest value up to which the logarithm of the wealth, which falls as the value grows, is at least `enough`.

    It is nearly a straight line, so false position (in its Illinois form) takes few steps from around a good guess.
    """
    if high <= _CLOSE:
        return 0.0
    top, low, at_low = high, 0.0, math.nan
    guess = high if guess is None else max(guess, 0.0)
    step = (high - guess) / 8 if guess < high else high / 64
    middle = min(guess + step, high)
    at_high = wealth(middle) - enough
    if at_high > 0 and middle < high:  # refuted beyond the guess
        low, at_low, middle = middle, at_high, high
        at_high = wealth(high) - enough
    if at_high > 0:
        return top
    high, step = middle, 2 * step
    while math.isnan(at_low) and high - step > 0:  # go down until it is refuted
        found = wealth(high - step) - enough
        if found > 0:
            low, at_low = high - step, found
        else:
            high, at_high, step = high - step, found, 2 * step
    while high - low > max(_CLOSE, _ACCURATE * (top - low)):
        middle = (low + high) / 2 if math.isnan(at_low) else low + (high - low) * at_low / (at_low - at_high)
        margin = max(0.02 * (high - low), _ACCURATE * (top - low) / 4)
        middle = min(max(middle, low + margin), high - margin) if 2 * margin < high - low else (low + high) / 2
        found = wealth(middle) - enough
        if found > 0:
            low, at_low, at_high = middle, found, at_high / 2
        else:
            high, at_high, at_low = middle, found, at_low / 2
    return low


def _distinct(gains: np.ndarray, stakes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct pairs of gain and stake, and in how many rows each occurs.

    Gains are rounded down to 12 bits, which is on the safe side and leaves few distinct ones.
    """
    mantissa, exponent = np.frexp(gains)
    gains = np.ldexp(np.floor(mantissa * 4096), exponent - 12)
    pairs, rows = np.unique(gains + 1j * stakes, return_counts=True)
    return pairs.real, pairs.imag, rows.astype(float)
