"""What a (player, arm) pair remembers of its rewards: named statistics, each with its update from one reward."""

import inspect
from collections.abc import Callable
from typing import NamedTuple

from posse.rewards import GRID

STEP = 1.0 / GRID


class Statistic(NamedTuple):
    """One whole number that every pair remembers, kept in 64 bits so that it is exact.

    >>> def count_high(value, reward):
    ...     return value + (2 * reward > GRID)
    >>> Statistic("high", count_high).unit
    1.0
    """

    name: str
    """What the policy's functions call it."""
    update: Callable[[int, int], int]
    """The new value, from the old one and a reward in steps of the grid: 0 … 2²⁴ for rewards 0 … 1. It is compiled."""
    unit: float = 1.0
    """What 1 stands for where the policy's `index` takes it: `STEP` for sums of rewards, 1 for counts."""

    def is_update(self) -> bool:
        """Whether `update` can be called with a value and a reward."""
        try:
            inspect.signature(self.update).bind(0, 0)
        except ValueError:
            return True  # one of Python's own, such as max
        except TypeError:
            return False
        return True


def count(value, reward):
    """One more."""
    return value + 1


def add(value, reward):
    """The sum with one more reward."""
    return value + reward


def add_square(value, reward):
    """The sum of squares with one more, in steps of the grid like the reward."""
    return value + (reward * reward + GRID // 2) // GRID


STEPS = 8  # in which a half-life passes
WHOLE, KEPT = 1 << 16, 60097  # what is left after a step is KEPT / WHOLE = 2^(−1/8), to 5 digits


def part_of(value, kept, n):
    """value · kept / n, rounded to the nearest whole number; exact for n below 2³¹. Of nothing it is 0."""
    return value // n * kept + (value % n * kept + n // 2) // n if n > 0 else 0


BASIC = (Statistic("n", count), Statistic("s", add, STEP), Statistic("q", add_square, STEP))
COUNT, SUM, SQUARES = 0, 1, 2  # their places in tables of statistics
