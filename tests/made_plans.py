"""Small plans, and a log to plan from."""

from __future__ import annotations

import functools

import numpy as np
import pyarrow

from posse.insight import Plan, plan

SMALL = {"players": 4, "arms": 2, "decisions": 300, "epsilon": 0.05, "effect": 0.2, "problems": 8}


@functools.cache
def small_plan() -> Plan:
    return plan(**SMALL, seed=3)


def table(rewards: np.ndarray, seed: int = 0):
    random = np.random.default_rng(seed)
    names = np.array(["a", "b", "c", "d"])[random.integers(0, 4, len(rewards))]
    arms = np.array(["x", "y"])[random.integers(0, 2, len(rewards))]
    return pyarrow.table({"player": names, "arm": arms, "sales": rewards})
