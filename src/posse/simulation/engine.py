"""One run: a policy on a problem, compiled, advanced in pieces."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from posse.compile import bind_all
from posse.policies.base import Policy, Refresh
from posse.problem import Problem
from posse.schedule import Schedule
from posse.simulation import kernel
from posse.streams import MAX_ROUND
from posse.streams import key as run_key


class Kernels(NamedTuple):
    """The compiled functions of a policy class."""

    advance: Callable[..., int]
    begin: Callable[..., None]
    settle: Callable[..., None]


def kernels(policy: Policy) -> Kernels:
    """The kernels of a policy's class, compiled at their first call or taken from the disk cache."""
    names = bindings(policy)
    return _kernels(type(policy).__name__, tuple(names), tuple(names.values()))


def bindings(policy: Policy) -> dict[str, Any]:
    """What the policy provides for the names in capitals and the functions of `posse.simulation.kernel`."""
    sample = sampler(policy)
    return {
        "index": policy.index,
        "contribution": policy.contribution or kernel.contribution,
        "summary": policy.summary or kernel.summary,
        "sample": sample or kernel.sample,
        "OWN_SUMS": policy.contribution is not None,
        "SUMMARISED": policy.summary is not None,
        "SAMPLED": sample is not None,
        "REFRESH_AT_OWN_PULL": policy.refresh is not Refresh.ANY_PULL,
        "RANDOMISED": policy.randomised,
    }


def sampler(policy: Policy) -> Callable[..., Any] | None:
    """The function by which a policy samples its indices itself, like `posse.simulation.kernel.sample`, if it does.

    Such a policy is a baseline for the simulator alone, so it is not part of what a policy is.
    """
    return getattr(policy, "sample", None)


@functools.cache
def _kernels(what: str, names: tuple[str, ...], values: tuple[Any, ...]) -> Kernels:
    bound = dict(zip(names, values, strict=True))
    return Kernels(*bind_all((kernel.advance, kernel.begin, kernel.settle), what=what, **bound))


def new_state(policy: Policy, players: int, arms: int) -> kernel.State:
    """The state before the first round, without its indices."""
    halves = 8 * ((arms + 9) // 8) if policy.randomised else 0
    place = np.uint64  # looks up others: a signed number might count from the end, which every look-up would pay for
    shares = (2, arms, players) if policy.contribution is not None else (2, 0, 0)
    summarised = policy.summary is not None
    return _allocate(
        pulls=(np.int64, (arms, players)),
        sums=(np.int64, (arms, players)),
        all_pulls=(np.int64, (arms,)),
        all_sums=(np.int64, (arms,)),
        shares=(np.float64, shares),
        shared=(np.float64, (2, arms)),
        seen=(np.float64, (2, arms, players)),
        squares=(np.int64, (arms, players) if summarised else (0, 0)),
        own_pulls=(np.int64, (arms, players) if summarised else (0, 0)),
        own_sums=(np.int64, (arms, players) if summarised else (0, 0)),
        successes=(np.int64, (arms, players) if sampler(policy) else (0, 0)),
        words=(np.int64, (4, arms if sampler(policy) else 0)),
        of_arm=(np.float64, (arms, policy.arm_numbers)),
        of_player=(np.float64, (players, policy.player_numbers)),
        summed=(np.int64, (2,)),
        tables=(np.float64, (policy.work_tables, arms, players)),
        pulled_at=(np.int64, (arms,)),
        looked_at=(np.int64, (players,)),
        center=(np.float64, (players, arms)),
        scale=(np.float64, (players, arms)),
        active=(place, (players,)),
        arms=(place, (players,)),
        rewards=(np.int64, (players,)),
        halves=(np.int64, (halves, min(players, kernel.TILE))),
        work=(np.float64, (2, players)),
    )


def _allocate(**arrays: tuple[type, tuple[int, ...]]) -> kernel.State:
    """The state's arrays, all zero, in one block of whole cache lines, so that no two threads ever share a line."""
    starts = np.cumsum([0] + [-(-math.prod(shape) // 16) * 16 for _, shape in arrays.values()])
    block = np.zeros(int(starts[-1]) + 16, np.int64)
    first = -block.ctypes.data // 8 % 16
    return kernel.State(
        **{
            name: block[first + start : first + start + math.prod(shape)].view(dtype).reshape(shape)
            for (name, (dtype, shape)), start in zip(arrays.items(), starts, strict=False)
        }
    )


NOTHING = kernel.Measures(np.zeros(0, np.int64), np.zeros((0, 0)), np.zeros(0))


class Run:
    """A policy on a problem in one replication, from before its first round to wherever it was advanced."""

    def __init__(
        self,
        problem: Problem,
        policy: Policy,
        schedule: Schedule,
        horizon: int,
        *,
        seed: int,
        replication: int = 0,
        anytime: bool = False,
    ) -> None:
        self.kernels = kernels(policy)
        self.constants = policy.constants()
        self.key = run_key(seed, problem.stream, replication)
        self.environment = kernel.Environment(problem.means.copy(), problem.rewards.code, problem.rewards.parameter)
        self.participation = schedule.participation(problem.players, horizon)
        self.log_horizon = -1.0 if anytime else math.log(horizon)
        self.state = new_state(policy, problem.players, problem.arms)
        self.round = 0
        self.kernels.begin(self.state, self.constants, self.log_of_next_round())

    def advance(self, to: int, measures: kernel.Measures = NOTHING) -> int:
        """Play on until `to` rounds are done; return how many players were active in the last one."""
        if to >= MAX_ROUND:
            raise ValueError(f"round {to}, but random numbers are laid out for rounds below {MAX_ROUND}")
        count = self.kernels.advance(
            self.state,
            self.environment,
            self.participation,
            self.constants,
            self.key,
            self.log_horizon,
            measures,
            self.round + 1,
            to,
        )
        self.round = to
        return count

    def settle(self) -> None:
        """Bring every center and scale up to date with all rounds done, as the next round will use them."""
        self.kernels.settle(self.state, self.constants, self.log_of_next_round(), self.log_horizon < 0)

    def log_of_next_round(self) -> float:
        """What the next round takes for ln T."""
        return self.log_horizon if self.log_horizon >= 0 else math.log(max(self.round + 1, 2))
