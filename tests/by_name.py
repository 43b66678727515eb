"""A policy's functions, called with numbers by name as the contract has it: each takes what it names."""

from __future__ import annotations

import functools

import numpy as np

import posse
from posse.compile.cpu import bind
from posse.rewards import GRID


def call(policy, function="index", **numbers):
    """What one of a policy's functions gives; the policy's constants are known."""
    numbers |= dict(zip(policy.constant_names(), policy.constants(), strict=True))
    for name in [name for name in numbers if " " in name]:  # several numbers of one name
        numbers.setdefault(name.split()[0], []).append(numbers[name])
    return getattr(policy, function)(*(numbers[name] for name in policy.named_by(function)))


@functools.cache
def compiled_summary():
    """PosseTS' summary, compiled as in simulations."""
    return bind(posse.PosseTS.summary, what="PosseTS' summary")


def summarise(n, s, q=None, of_arm=None, of_player=None, left=0.0):
    """What PosseTS' summary says of arms and of players, for tables [player, arm]; rewards of 0 and 1 without q.

    It may go on from what an earlier summary said. `left` is what scratch holds from other work.
    """
    policy, (players, arms) = posse.PosseTS, np.shape(n)
    sums, squares = (np.rint(np.array(table) * GRID).astype(np.int64).T.copy() for table in (s, s if q is None else q))
    of_arm = np.zeros((arms, len(policy.shared))) if of_arm is None else of_arm.copy()
    of_player = np.zeros((players, len(policy.of_player))) if of_player is None else of_player.copy()
    work = np.full((policy.work_tables * arms + policy.work_rows, max(players, arms, 16)), left)
    compiled_summary()(np.array(n, np.int64).T.copy(), sums, squares, of_arm, of_player, work)
    return of_arm, of_player


def of_summary(of_arm, of_player, function="index", epsilon=None, **more):
    """PosseTS' index, or another of its functions, for what its summary says of one arm and one player."""
    policy = posse.PosseTS(epsilon)
    known = dict(zip(policy.shared, of_arm, strict=True)) | dict(zip(policy.of_player, of_player, strict=True))
    return call(policy, function, **known, **more)
