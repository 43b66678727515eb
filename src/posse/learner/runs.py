"""Summaries among many players of whom few have data: players without any, next to each other, are one column.

That is for policies with `alike_without_data`. Such players get one row of `of_player`, and what is expected of them is
looked up when it is asked for. All numbers have the same bits as with a column for each player.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

TIMES = 3  # where `summed`, which stands for the lane, has how many players each column stands for
MANY = 256  # players; among fewer, each has its own column
LOOP = 8  # so many additions are made one by one


def players_of(lane: Any, columns: int) -> int:
    """How many players the columns of a summary's tables stand for."""
    players: int = lane[2] if lane.size > TIMES else columns
    return players


def plus(total: float, value: float, lane: Any, column: int) -> float:
    """A sum over players with the value of one column more."""
    return add_times(total, value, lane[TIMES + column]) if lane.size > TIMES else total + value


LANE = "state.summed"  # where a summary finds it
BOUND = {"players_of": players_of, "plus": plus}


def add_times(total: float, value: float, times: int) -> float:
    """The total with a value added so many times, rounded each time: what a loop gives, but sooner.

    As long as the total stays between the same powers of 2, every addition but the first moves it by the same step.

    >>> add_times(0.0, 0.1, 10) == sum([0.1] * 10), add_times(1.0, 1e-17, 10**9)
    (True, 1.0)
    """
    while times > 0:
        if times <= LOOP:
            for _ in range(times):
                total += value
            return total
        first = total + value
        second = first + value
        step = second - first
        times -= 2
        if step == 0.0:
            return second
        _, power = math.frexp(second)
        if math.frexp(total)[1] == power and math.frexp(first)[1] == power and (total < 0.0) == (second < 0.0):
            end = math.ldexp(1.0 if (step > 0.0) == (second > 0.0) else 0.5, power)
            jump = min(times, int(abs(end - abs(second)) / abs(step)) - 1)
            if jump > 0:
                second += jump * step
                times -= jump
        total = second
    return total


class Runs(NamedTuple):
    """Players as the columns of a small table: each that may have data, and each run of those that have none."""

    last: np.ndarray  # the last player of each column
    times: np.ndarray  # how many it stands for
    some: np.ndarray  # which columns are players that may have data


def runs_of(has_data: np.ndarray) -> Runs | None:
    """The columns of these players; None if that saves too little."""
    players = has_data.size
    if players < MANY or 4 * np.count_nonzero(has_data) > players:
        return None
    ends = has_data.copy()  # a column ends with each player that has data, and before it
    ends[:-1] |= has_data[1:]
    ends[-1] = True
    last = np.flatnonzero(ends)
    return Runs(last, np.diff(last, prepend=-1), has_data[last])


def fill_small(small: Any, state: Any, runs: Runs) -> None:
    """Fill the tables of a small state with columns of a large one."""
    for name in ("statistics", "indexed"):
        getattr(small, name)[:] = getattr(state, name)[:, :, runs.last]
    for name in ("columns", "weights"):
        getattr(small, name)[:] = getattr(state, name)[runs.last]
    for name in ("of_arm", "of_value", "part_of"):
        getattr(small, name)[:] = getattr(state, name)
    small.of_player[:-1], small.of_player[-1] = state.of_player[runs.last], state.of_player[-1]
