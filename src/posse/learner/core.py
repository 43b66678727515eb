"""The learner's core: numbers in, a decision out; events in, new numbers out.

It keeps nothing between calls. Whoever holds the numbers, in memory or in a database, feeds them to it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from posse.compile import bind_all
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
    what: str,
    index: Callable[..., Any],
    contribution: Callable[..., Any] | None,
    summary: Callable[..., Any] | None,
    refresh: Refresh,
    randomised: bool,
) -> Kernels:
    names: dict[str, Any] = {
        "index": index,
        "contribution": contribution or kernel.contribution,
        "summary": summary or kernel.summary,
        "OWN_SUMS": contribution is not None,
        "SUMMARISED": summary is not None,
        "REFRESH_AT_OWN_PULL": refresh is Refresh.OWN_PULL,
        "RANDOMISED": randomised,
    }
    return Kernels(*bind_all([getattr(kernel, name) for name in Kernels._fields], what=what, **names))


class Tally(NamedTuple):
    """Counts and reward sums, exact integers, sums in steps of the reward grid; and what is shared of them."""

    pulls: np.ndarray  # int64 [player, arm]
    sums: np.ndarray  # int64 [player, arm]
    squares: np.ndarray  # int64 [player, arm], sums of squared rewards
    own_pulls: np.ndarray  # int64 [player, arm], counts and sums in a player's indices, where the policy has a summary
    own_sums: np.ndarray  # int64 [player, arm]
    all_pulls: np.ndarray  # int64 [arm]
    all_sums: np.ndarray  # int64 [arm]
    shared: np.ndarray  # float64 [2, arm], N and S
    seen: np.ndarray  # float64 [2, player, arm], N and S as the player last saw them
    of_arm: np.ndarray  # float64 [arm, number], what the policy's summary says of an arm
    of_player: np.ndarray  # float64 [player, number], what it says of a player
    summed: np.ndarray  # int64 [2], pulls of everybody in all, and at the last summary


OBSERVED = ("pulls", "sums", "squares")  # what follows from nothing else,
KEPT = ("seen", "own_pulls", "own_sums", "of_arm", "of_player", "summed")  # and what follows from these and the past


class Numbers(NamedTuple):
    """All that a player's decision rests on, one entry an arm."""

    pulls: np.ndarray  # int64, the player's own
    sums: np.ndarray  # int64, its rewards in grid steps
    waiting: np.ndarray  # int64, its pulls whose reward has not come
    all_waiting: np.ndarray  # int64, those of all players whose data it follows
    N: np.ndarray  # float64, everybody's, as the player sees them
    S: np.ndarray  # float64
    of_arm: np.ndarray  # float64 [arm, number], of the policy's summary
    of_player: np.ndarray  # float64 [number], of the policy's summary, the player's


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
        functions = policy.index, policy.contribution, policy.summary
        self.kernels = _kernels(type(policy).__name__, *functions, policy.refresh, policy.randomised)

    def empty(self, players: int, arms: int) -> Tally:
        """Nothing seen yet."""
        tally = Tally(
            pulls=np.zeros((players, arms), np.int64),
            sums=np.zeros((players, arms), np.int64),
            squares=np.zeros((players, arms), np.int64),
            own_pulls=np.zeros((players, arms), np.int64),
            own_sums=np.zeros((players, arms), np.int64),
            all_pulls=np.zeros(arms, np.int64),
            all_sums=np.zeros(arms, np.int64),
            shared=np.zeros((2, arms)),
            seen=np.zeros((2, players, arms)),
            of_arm=np.zeros((arms, self.policy.arm_numbers)),
            of_player=np.zeros((players, self.policy.player_numbers)),
            summed=np.zeros(2, np.int64),
        )
        self.share_all(tally)
        tally.seen[:] = tally.shared[:, None, :]
        return tally

    def grown(self, tally: Tally, players: int, arms: int, knows_others: bool) -> Tally:
        """The same with room for more players and arms; new players have seen what the others know, or nothing."""
        new = self.empty(players, arms)
        m, k = tally.pulls.shape
        for name in OBSERVED:
            getattr(new, name)[:m, :k] = getattr(tally, name)
        new.all_pulls[:k], new.all_sums[:k], new.summed[0] = tally.all_pulls, tally.all_sums, tally.summed[0]
        new.of_arm[:k], new.of_player[:m] = tally.of_arm, tally.of_player
        self.share_all(new)
        if knows_others:
            new.seen[:, m:] = new.shared[:, None, :]
        new.seen[:, :m, :k] = tally.seen
        return new

    def restored(self, players: int, arms: int, numbers: Mapping[str, Any]) -> Tally:
        """The tally with these numbers, its arrays by name; those that follow from others are formed anew."""
        tally = self.empty(players, arms)
        for name in OBSERVED:
            getattr(tally, name)[:] = np.array(numbers[name], np.int64).reshape(players, arms)
        tally.all_pulls[:], tally.all_sums[:] = tally.pulls.sum(axis=0), tally.sums.sum(axis=0)
        self.share_all(tally)
        for name in KEPT:
            array = getattr(tally, name)
            array[:] = np.array(numbers[name], array.dtype).reshape(array.shape)
        return tally

    def numbers(self, tally: Tally, player: int, waiting: np.ndarray, all_waiting: np.ndarray) -> Numbers:
        """A player's numbers: others' data as last seen by it, or as it is now, as the policy's refresh says."""
        follows = waiting[player] if self.own_pull else all_waiting
        N, S = (tally.seen[0, player], tally.seen[1, player]) if self.own_pull else (tally.shared[0], tally.shared[1])
        own = tally.pulls[player], tally.sums[player], waiting[player]
        if self.policy.summary is not None:
            own = tally.own_pulls[player], tally.own_sums[player], waiting[player]
        return Numbers(*own, follows, N, S, tally.of_arm, tally.of_player[player])

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
        if math.isnan(np.add.reduce(out[: kernel.WEIGHT], axis=None)):
            raise ValueError(f"{self.policy.label} gives no usable index: centers and scales {out[:2].tolist()}")
        return Choice(arm, probabilities[arm], probabilities, float(out[kernel.WEIGHT, arm]), held_out)

    def absorb(self, tally: Tally, players: list[int], arms: list[int], steps: list[int]) -> None:
        """Take in one round's rewards."""
        events = np.array((players, arms, steps), np.int64)
        self.kernels.absorb(events, tally, self._tables(tally), self.constants)

    def share_all(self, tally: Tally) -> None:
        """Form every arm's shared sums, or the policy's summary, as when players have come."""
        self.kernels.share_all(tally, self._tables(tally), self.constants)

    def _tables(self, tally: Tally) -> np.ndarray:
        """Scratch for the policy's summary."""
        return np.empty((self.policy.work_tables, *tally.pulls.shape[::-1]))


def to_steps(reward: float, low: float, high: float) -> int:
    """A reward in [low, high] in steps of the grid on [0, 1]."""
    return round((reward - low) / (high - low) * GRID)


def log_horizon(horizon: int | None, round_: int) -> float:
    """What round `round_` takes for ln T: ln max(T, t) with a horizon, ln max(t, 2) without."""
    return math.log(max(round_, 2) if horizon is None else max(round_, horizon))
