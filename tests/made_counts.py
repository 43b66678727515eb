"""Counts made from tables of pulls and sums, those at the edge of what makes sense, and a small log."""

from __future__ import annotations

import numpy as np
import pyarrow

from posse.learner import Counts


def names(letter: str, count: int) -> tuple[str, ...]:
    return tuple(f"{letter}{number}" for number in range(1, count + 1))


def counts(pulls, sums, epsilon=None, low=0.0, high=1.0) -> Counts:
    pulls, sums = np.asarray(pulls, np.int64), np.asarray(sums, float)
    return Counts(names("p", pulls.shape[0]), names("a", pulls.shape[1]), pulls, sums, low, high, epsilon)


EDGES = {
    "one player": counts([[100, 20]], [[40, 10]], 0.1),
    "one arm": counts([[100], [20]], [[40], [10]], 0.1),
    "one of each, no rewards": counts([[0]], [[0]], 0.1),
    "nothing yet": counts(np.zeros((3, 2)), np.zeros((3, 2)), 0.0),
    "an arm that nobody pulled": counts([[100, 0], [20, 0]], [[40, 0], [10, 0]]),
    "an arm that one player pulled": counts([[100, 9], [20, 0]], [[40, 3], [10, 0]], 0.1),
    "only zeros": counts(np.full((3, 2), 50), np.zeros((3, 2)), 0.1),
    "only ones": counts(np.full((3, 2), 50), np.full((3, 2), 50), 0.1),
    "one reward each": counts(np.ones((3, 2)), [[0, 1], [1, 1], [0, 0]], 0.1),
    "very much data": counts(np.full((2, 1), 10**12), [[2e11], [8e11]], 0.1),
    "a wide range": counts(np.full((2, 1), 1000), [[2e8], [8e8]], 1e5, 0, 1e6),
}


LOG = pyarrow.table(
    {
        "player": ["south", "north", "south", "north", "south"],
        "arm": ["b", "a", "a", "a", "b"],
        "reward": [1.0, 0.0, None, 1.0, 0.5],
        "shared": [0.5, 0.2, 0.7, None, 0.6],
    }
)
