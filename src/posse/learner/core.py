"""The learner's core: numbers in, a decision out; events in, new numbers out.

It keeps nothing between calls. Whoever holds the numbers, in memory or in a database, feeds them to it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from posse.compile import bind
from posse.learner import kernel
from posse.policies.base import Policy, Refresh
from posse.policies.propensity import SCRATCH
from posse.rewards import GRID


class Kernels(NamedTuple):
    """The compiled functions of a policy class."""

    evaluate: Callable[..., None]
    decide: Callable[..., tuple[int, bool]]
    weigh: Callable[..., int]
    absorb: Callable[..., None]
    share_all: Callable[..., None]


@functools.cache
def _kernels(
    index: Callable[..., Any], contribution: Callable[..., Any] | None, refresh: Refresh, randomised: bool
) -> Kernels:
    names = {
        "index": index,
        "contribution": contribution or kernel.contribution,
        "OWN_SUMS": contribution is not None,
        "REFRESH_AT_OWN_PULL": refresh is Refresh.OWN_PULL,
        "RANDOMISED": randomised,
    }
    return Kernels(*(bind(getattr(kernel, name), **names) for name in Kernels._fields))


@dataclass(eq=False)
class Tally:
    """Counts and reward sums, exact integers, sums in steps of the reward grid; and what each player has seen."""

    pulls: np.ndarray  # int64 [player, arm]
    sums: np.ndarray  # int64 [player, arm]
    all_pulls: np.ndarray  # int64 [arm]
    all_sums: np.ndarray  # int64 [arm]
    shared: np.ndarray  # float64 [2, arm], N and S
    seen: np.ndarray  # float64 [2, player, arm], N and S as the player last saw them

    @classmethod
    def empty(cls, players: int, arms: int) -> Tally:
        """Nothing seen yet."""
        return cls(
            np.zeros((players, arms), np.int64),
            np.zeros((players, arms), np.int64),
            np.zeros(arms, np.int64),
            np.zeros(arms, np.int64),
            np.zeros((2, arms)),
            np.zeros((2, players, arms)),
        )

    def grown(self, players: int, arms: int) -> Tally:
        """The same with room for more players and arms."""
        new = Tally.empty(players, arms)
        m, k = self.pulls.shape
        new.pulls[:m, :k], new.sums[:m, :k] = self.pulls, self.sums
        new.all_pulls[:k], new.all_sums[:k] = self.all_pulls, self.all_sums
        new.shared[:, :k], new.seen[:, :m, :k] = self.shared, self.seen
        return new


class Numbers(NamedTuple):
    """All that a player's decision rests on, one entry an arm."""

    pulls: np.ndarray  # int64, the player's own
    sums: np.ndarray  # int64, its rewards in grid steps
    waiting: np.ndarray  # int64, its pulls whose reward has not come
    all_waiting: np.ndarray  # int64, those of all players whose data it follows
    N: np.ndarray  # float64, everybody's, as the player sees them
    S: np.ndarray  # float64


class Choice(NamedTuple):
    """What the core decided."""

    arm: int
    propensity: float
    probabilities: list[float]
    shared: float
    holdout: bool


class Core:
    """A policy as the learner runs it, for rewards mapped to [0, 1]."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.constants = policy.constants()
        self.own_pull = policy.refresh is Refresh.OWN_PULL
        self.kernels = _kernels(policy.index, policy.contribution, policy.refresh, policy.randomised)

    def numbers(self, tally: Tally, player: int, waiting: np.ndarray, all_waiting: np.ndarray) -> Numbers:
        """A player's numbers: others' data as last seen by it, or as it is now, as the policy's refresh says."""
        follows = waiting[player] if self.own_pull else all_waiting
        N, S = (tally.seen[0, player], tally.seen[1, player]) if self.own_pull else (tally.shared[0], tally.shared[1])
        return Numbers(tally.pulls[player], tally.sums[player], waiting[player], follows, N, S)

    def evaluate(self, numbers: Numbers, players: int, log_T: float) -> np.ndarray:
        """Rows of centers, scales and weights of other players' data, one column an arm; a fourth for probabilities."""
        out = np.empty((4, numbers.pulls.size))
        self.kernels.evaluate(*numbers, players, log_T, self.constants, out)
        return out

    def probabilities(
        self, evaluated: np.ndarray, available: np.ndarray, floor: float = 0.0, holdout: float = 0.0
    ) -> np.ndarray:
        """The probability of each arm, from what `evaluate` gave."""
        self.kernels.weigh(available, floor, holdout, evaluated, np.empty((3 + SCRATCH, available.size)))
        return evaluated[kernel.PROBABILITY]

    def decide(
        self,
        numbers: Numbers,
        players: int,
        log_T: float,
        available: np.ndarray,
        key: tuple[int, int],
        serial: int,
        floor: float = 0.0,
        holdout: float = 0.0,
    ) -> Choice:
        """The decision with this serial number, which is the counter of its draw."""
        out = np.empty((4, available.size))
        work = np.empty((3 + SCRATCH, available.size))
        arm, held_out = self.kernels.decide(
            *numbers, players, log_T, self.constants, available, floor, holdout, serial, key, out, work
        )
        probabilities = out[kernel.PROBABILITY].tolist()
        if math.isnan(out[: kernel.WEIGHT].sum()):
            raise ValueError(f"{self.policy.label} gives no usable index: centers and scales {out[:2].tolist()}")
        return Choice(arm, probabilities[arm], probabilities, float(out[kernel.WEIGHT, arm]), held_out)

    def absorb(self, tally: Tally, players: list[int], arms: list[int], steps: list[int]) -> None:
        """Take in one round's rewards."""
        self.kernels.absorb(
            np.array(players, np.int64),
            np.array(arms, np.int64),
            np.array(steps, np.int64),
            tally.pulls,
            tally.sums,
            tally.all_pulls,
            tally.all_sums,
            tally.shared,
            tally.seen,
            self.constants,
        )

    def share_all(self, tally: Tally) -> None:
        """Form every arm's shared sums, as when players have come."""
        self.kernels.share_all(tally.pulls, tally.sums, tally.all_pulls, tally.all_sums, tally.shared, self.constants)


def to_steps(reward: float, low: float, high: float) -> int:
    """A reward in [low, high] in steps of the grid on [0, 1]."""
    return round((reward - low) / (high - low) * GRID)


def log_horizon(horizon: int | None, round_: int) -> float:
    """What round `round_` takes for ln T: ln max(T, t) with a horizon, ln max(t, 2) without."""
    return math.log(max(round_, 2) if horizon is None else max(round_, horizon))
