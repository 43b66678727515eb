"""Reward families on [0, 1], each with a given mean, and the function that draws from them.

Rewards live on a grid of 2⁻²⁴ (`GRID` steps to 1), so that sums of rewards are exact integers in any order.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from posse.checks import number
from posse.compile import out_of_line
from posse.normal import normal
from posse.streams import REWARD, block

__all__ = ["Bernoulli", "Beta", "Deterministic", "Family", "Jackpot", "OneNoisy", "Uniform", "family"]

GRID = 1 << 24

BERNOULLI, BETA, UNIFORM, DETERMINISTIC, ONE_NOISY, JACKPOT = range(6)


@dataclass(frozen=True)
class Family:
    """How a reward with a given mean is drawn. Use one of the families below."""

    code: ClassVar[int]
    limits: ClassVar[dict[str, float]] = {}
    """Of the family's one number."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            number(name, value, **self.limits)

    @property
    def parameter(self) -> float:
        """The family's one number, for the kernels; 0 if it has none."""
        return float(next(iter(vars(self).values()), 0.0))


@dataclass(frozen=True)
class Bernoulli(Family):
    """0 or 1. Means 0 and 1 are exact; others to 2⁻³²."""

    code = BERNOULLI


@dataclass(frozen=True)
class Beta(Family):
    """Beta(μκ, (1−μ)κ) with concentration κ >= 1e-300: the variance is μ(1−μ)/(κ+1)."""

    concentration: float
    code, limits = BETA, {"least": 1e-300}


@dataclass(frozen=True)
class Uniform(Family):
    """Uniform on an interval around the mean, `width` wide or as wide as [0, 1] lets it be symmetric."""

    width: float = 1.0
    code, limits = UNIFORM, {"least": 0, "most": 1}


@dataclass(frozen=True)
class Deterministic(Family):
    """Always the mean, rounded to the grid."""

    code = DETERMINISTIC


@dataclass(frozen=True)
class OneNoisy(Beta):
    """Beta with this concentration for all players but player 0, whose rewards are noisier: 0 or 1."""

    code = ONE_NOISY


@dataclass(frozen=True)
class Jackpot(Family):
    """`usual` nearly always, or 1 with the probability that gives the mean. A mean below `usual` is always paid."""

    usual: float
    code, limits = JACKPOT, {"least": 0, "most": 0.999}


def family(rewards: Family | str) -> Family:
    """A family given by itself or by name: "bernoulli", "uniform" or "deterministic"."""
    by_name = {"bernoulli": Bernoulli(), "uniform": Uniform(), "deterministic": Deterministic()}
    if isinstance(rewards, Family):
        return rewards
    if isinstance(rewards, str) and rewards.lower() in by_name:
        return by_name[rewards.lower()]
    allowed = ", ".join(map(repr, by_name))
    raise ValueError(f"rewards={rewards!r}, but expected {allowed} or a family such as posse.rewards.Beta(10)")


def draw_reward(code, parameter, mean, first, player, round_, key):
    """A reward in grid steps, from the round's first word and, for Beta, further words of its own."""
    if code == BERNOULLI:
        return draw_bernoulli(mean, first)
    return draw_other(code, parameter, mean, first, player, round_, key)


def draw_bernoulli(mean, first):
    """0 or 1 in grid steps, from the round's first word."""
    return int(first < mean * 4294967296.0) * GRID


@out_of_line
def draw_other(code, parameter, mean, first, player, round_, key):
    """A reward of any family but Bernoulli."""
    if code == DETERMINISTIC or mean <= 0.0 or mean >= 1.0:
        return int(mean * GRID + 0.5)
    if code == UNIFORM:
        half = min(0.5 * parameter, min(mean, 1.0 - mean))
        return int((mean + half * ((first + 0.5) * 2.0**-31 - 1.0)) * GRID + 0.5)
    if code == JACKPOT:
        usual = min(parameter, mean)
        return GRID if first < (mean - usual) / (1.0 - usual) * 4294967296.0 else int(usual * GRID + 0.5)
    if code == ONE_NOISY and player == 0:
        return draw_bernoulli(mean, first)
    success = log_gamma_draw(mean * parameter, 0, player, round_, key)
    failure = log_gamma_draw((1.0 - mean) * parameter, 1, player, round_, key)
    return int(GRID / (1.0 + math.exp(min(failure - success, 700.0))) + 0.5)


@out_of_line
def log_gamma_draw(shape, which, player, round_, key):
    """The logarithm of a Gamma(shape, 1) draw.

    Marsaglia and Tsang (ACM TOMS 26, 2000) at shape + 1, brought down by U^(1/shape). The logarithm keeps tiny
    shapes exact. `which` keeps the two draws of one reward apart.
    """
    d = shape + 1.0 - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    attempt = which << 20
    high, low, _, _ = block(attempt, player, round_, REWARD, key)
    boost = math.log((high * 4294967296.0 + low + 0.5) * 2.0**-64) / shape
    while True:
        attempt += 1
        first, second, third, fourth = block(attempt, player, round_, REWARD, key)
        x = normal(first >> 16, second, (first & 0xFFFF) << 16)
        root = 1.0 + c * x
        v = root * root * root
        if v > 0.0:
            u = (third * 4294967296.0 + fourth + 0.5) * 2.0**-64
            if math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
                return math.log(d * v) + boost
