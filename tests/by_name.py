"""A policy's functions, called with numbers by name as the contract has it: each takes what it names."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

import posse
from posse.attributes import Coded
from posse.compile.cpu import bind
from posse.policies.bound import ALONE
from posse.policies.posse_ts import expect
from posse.rewards import GRID


def call(policy, function="index", **numbers):
    """What one of a policy's functions gives; the policy's constants are known."""
    numbers |= {"lane": ALONE} | dict(zip(policy.constant_names(), policy.constants(), strict=True))
    for name in [name for name in numbers if " " in name]:  # several numbers of one name
        numbers.setdefault(name.split()[0], []).append(numbers[name])
    return getattr(policy, function)(*(numbers[name] for name in policy.named_by(function)))


@functools.cache
def compiled_summary():
    """PosseTS' summary, compiled as in simulations."""
    return bind(posse.PosseTS.summary, what="PosseTS' summary")


class Said(NamedTuple):
    """What PosseTS' summary says."""

    of_arm: Any  # [arm, number]
    of_player: Any  # [player, number]
    newcomer: Any  # [number], of a player that joins
    of_pair: Any  # [number, arm, player]
    of_value: Any  # [number, arm, column]


def nothing_known(players):
    """The attributes of players about whom nothing is known."""
    return Coded(np.zeros((players, 0), np.int64), np.zeros((players, 0)), np.zeros(0, np.int64))


def summarise(n, s, q=None, before=None, left=0.0, coded=None, log_T=1.0, epsilon=math.inf):
    """What PosseTS' summary says, for tables [player, arm]; rewards of 0 and 1 without q.

    It may go on from what an earlier summary said of fewer players, arms and columns. `left` is what scratch holds from
    other work.
    """
    policy, (players, arms) = posse.PosseTS, np.shape(n)
    sums, squares = (np.rint(np.array(table) * GRID).astype(np.int64).T.copy() for table in (s, s if q is None else q))
    coded = coded or nothing_known(players)
    width = coded.part_of.size
    of_arm, of_player = np.zeros((arms, len(policy.shared))), np.zeros((players + 1, len(policy.of_player)))
    of_pair, of_value = np.zeros((len(policy.of_pair), arms, players)), np.zeros((len(policy.of_value), arms, width))
    if before is not None:
        for array, old in zip((of_arm, of_player, of_pair, of_value), (*before[:2], *before[3:]), strict=True):
            array[tuple(map(slice, old.shape))] = old
    rows = policy.work_tables * arms + policy.work_rows + policy.work_columns * arms
    work = np.full((rows, max(players, arms, width, 16)), left)
    tables = np.array(n, np.int64).T.copy(), sums, squares, of_arm, of_player, of_pair, of_value
    compiled_summary()(*tables, *coded, work, log_T, ALONE, epsilon)
    return Said(of_arm, of_player[:-1], of_player[-1], of_pair, of_value)


def expected_of(of_arm, of_player, players, epsilon=math.inf):
    """What PosseTS expects of one of so many players on one arm, from what is said of both: mean, variance and φ."""
    of_pair = np.zeros((len(posse.PosseTS.of_pair), 1, 1))
    known = np.tile(of_player, (min(players, 2) + 1, 1))  # nobody looks at the others
    expect(0, np.array([of_arm]), known, of_pair, np.zeros((2, 1, 0)), *nothing_known(1)[:2], epsilon)
    return tuple(of_pair[:, 0, 0])


def of_summary(of_arm, of_player, function="index", epsilon=None, M=2, **more):
    """PosseTS' index, or another of its functions, for what its summary says of one arm and one of M players."""
    policy = posse.PosseTS(epsilon)
    found = expected_of(of_arm, of_player, M, *policy.constants())
    return call(policy, function, **dict(zip(policy.of_pair, found, strict=True)), **more)
