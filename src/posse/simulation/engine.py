"""One run: a policy on a problem, compiled, advanced in pieces."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from posse.compile import bind_all, source_digest
from posse.policies.base import Law, Policy
from posse.policies.beta_draw import LAWS, is_law
from posse.policies.bindings import bindings, class_of, used_statistics
from posse.policies.state import State, state_shapes
from posse.policies.statistics import SUM
from posse.problem import Problem
from posse.schedule import Schedule
from posse.simulation import kernel
from posse.simulation.feedback import AT_ONCE, Feedback
from posse.simulation.pick import DRAW_LANES, LANES, LOWEST, WIDTH, even_arms, whole_vectors
from posse.streams import MAX_ROUND
from posse.streams import key as run_key


class RunKernels(NamedTuple):
    """The compiled functions of a policy class."""

    advance: Callable[..., int]
    refresh_all: Callable[..., None]


@functools.cache
def kernels(policy: Any, timed: bool = False) -> RunKernels:
    """The kernels of a policy class, compiled at their first call or taken from the disk cache.

    Those of runs in which means change, rewards are late or the policy forgets are compiled apart, so that they cost
    other runs nothing.
    """
    found: list[Callable[..., Any]] = [kernel.advance, kernel.refresh_all]
    what = f"{policy.name or policy.__name__}{' with late rewards or changing means' if timed else ''}"
    return RunKernels(*bind_all(found, what=what, **_names(policy), TIMED=timed))


def _names(policy: Any) -> dict[str, Any]:
    return bindings(policy, used_statistics(policy))


def code_digest_of(policy: Policy) -> str:
    """A digest of all code that makes the numbers of a simulation: the policy's and the kernel's."""
    return _code_digest(class_of(policy))


@functools.cache
def _code_digest(policy: Any) -> str:
    return source_digest(kernel.advance, **_names(policy))


Shapes = dict[str, tuple[type, tuple[int, ...]]]


def run_shapes(policy: Policy, players: int, arms: int, delay: int, batch: int) -> Shapes:
    """Type and shape of what a run has beside what the policy knows."""
    unsigned = np.uint64  # for what looks up others: a signed number might count from the end, which takes a check
    slots = whole_vectors(max(players, WIDTH), LANES)
    blocks = (arms + 9) // 8 if policy.randomised and policy.law is not Law.BETA else 1  # of four random words
    rows = 2 * even_arms(arms) * WIDTH if policy.law is not Law.IMED else 0
    return {
        "center": (np.float64, (arms, players)),
        "scale": (np.float64, (arms, players)),
        "refreshed_at": (np.int64, (players,)),
        "active": (unsigned, (slots,)),
        "rounds": (np.int64, (slots,)),
        "reward_words": (np.int64, (slots,)),
        "begins": (np.int64, (WIDTH + 1,)),
        "arms": (unsigned, (players,)),
        "rewards": (np.int64, (players,)),
        "words": (np.uint32, (4 * blocks * WIDTH,)),
        "beta_words": (np.uint32, (2 * arms * WIDTH + DRAW_LANES if policy.law is Law.BETA else 0,)),
        "bounds": (np.float32, (rows + DRAW_LANES,)),
        "rough": (np.float32, ((-(-players // WIDTH) + 1) * rows,)),
        "top": (np.float32, (4 * WIDTH,)),
        "uncounted": (np.int64, (2, arms, players)),
        "offset": (np.float64, (players,)),
        "late_count": (np.int64, (delay + batch,)),
        "late_players": (unsigned, (delay + batch, players)),
        "late_arms": (unsigned, (delay + batch, players)),
        "late_rewards": (np.int64, (delay + batch, players)),
        "arrived_players": (unsigned, (batch * players,)),
        "arrived_arms": (unsigned, (batch * players,)),
    }


def _allocate(shapes: Shapes) -> dict[str, np.ndarray]:
    """Arrays, all zero, in one block of whole cache lines, so that no two threads ever share a line."""
    sizes = [math.prod(shape) * np.dtype(dtype).itemsize for dtype, shape in shapes.values()]
    starts = np.cumsum([0] + [-(-size // LINE) * LINE for size in sizes])
    block = np.zeros(int(starts[-1]) + LINE, np.uint8)
    first = -block.ctypes.data % LINE
    return {
        name: block[first + start : first + start + size].view(dtype).reshape(shape)
        for (name, (dtype, shape)), start, size in zip(shapes.items(), starts, sizes, strict=False)
    }


LINE = 128  # bytes, at least a cache line

NO_MEASURES = kernel.Measures(np.zeros(0, np.int64), np.zeros(0))


class PolicyRun:
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
        told_horizon: int | None = None,
        feedback: Feedback = AT_ONCE,
    ) -> None:
        self.policy = policy
        timed = bool(problem.changes or policy.forget or feedback != AT_ONCE)
        self.kernels = kernels(class_of(policy), timed)
        self.constants = policy.constants()
        self.key = run_key(seed, problem.stream, replication)
        later = [segment for _, segment in problem.segments[1:]]
        shape = len(later), *problem.means.shape
        self.environment = kernel.Environment(
            problem.means.copy(),
            problem.rewards.code,
            problem.rewards.parameter,
            problem.gaps.copy(),
            np.array([first for first, _ in problem.changes], np.int64),
            np.array([segment.means for segment in later], np.float64).reshape(shape),
            np.array([segment.gaps for segment in later], np.float64).reshape(shape),
        )
        participation = schedule.participation(problem.players, horizon)
        delay, batch = feedback.within(horizon)
        self.clock = kernel.Clock(math.log(told_horizon or horizon), anytime, policy.forget or 0, delay, batch)
        coded = problem.coded()
        sizes = problem.players, problem.arms, coded.columns.shape[1], coded.part_of.size
        known = state_shapes(policy, used_statistics(type(policy)), *sizes)
        arrays = _allocate(known | run_shapes(policy, problem.players, problem.arms, delay, batch))
        if policy.law is Law.BETA:
            arrays["rough"][:] = 1.0  # lanes that are not in use are computed too, without warnings or slow numbers
        else:
            arrays["rough"].reshape(-1, 2, WIDTH)[:, 0] = LOWEST  # an arm that is there only to make pairs never wins
        arrays = {"indexed": arrays["statistics"]} | arrays
        self.state = State(**{name: arrays[name] for name in State._fields})
        self.run = kernel.Run(**{name: arrays[name] for name in kernel.Run._fields})
        if policy.of_value:
            for name, given in coded._asdict().items():
                arrays[name][:] = given
        self.arguments = (self.state, self.run, self.environment, participation, self.constants, self.key, self.clock)
        self.round = -1  # rounds done; −1 before the indices are formed

    def advance(self, to: int, measures: kernel.Measures = NO_MEASURES) -> int:
        """Play on until `to` rounds are done; return how many players were active in the last one.

        With 0 rounds, form the indices of the first one.
        """
        if to >= MAX_ROUND:
            raise ValueError(f"round {to}, but random numbers are laid out for rounds below {MAX_ROUND}")
        is_new, first = self.round < 0, max(self.round, 0) + 1
        count = self.kernels.advance(*self.arguments, measures, is_new, first, to)
        if count < 0:
            raise wrong_index(self.policy, self.state.indexed, self.run.center.T, self.run.scale.T)
        self.round = to
        return count

    def pulled_and_earned(self) -> np.ndarray:
        """Pulls and sums of rewards so far in grid steps, int64 [2, arm, player], with late and forgotten ones."""
        return self.state.statistics[: SUM + 1] + self.run.uncounted

    def refresh_all(self) -> None:
        """Bring every center and scale up to date with all rounds done, as the next round will use them."""
        self.kernels.refresh_all(self.state, self.run, self.clock, self.round + 1, self.constants)


def wrong_index(
    policy: Policy, indexed: Sequence[np.ndarray] | np.ndarray, center: np.ndarray, scale: np.ndarray
) -> ValueError:
    """The error of a policy whose index is NaN or no Beta law, with the first player and arm, and their numbers."""
    is_beta = policy.law is Law.BETA
    usable = is_law(center, scale) if is_beta else ~(np.isnan(center) | np.isnan(scale))
    player, arm = np.argwhere(~usable)[0].tolist()
    first, second, pair = center[player, arm], scale[player, arm], _pair(policy, indexed, player, arm)
    if is_beta:
        return ValueError(
            f"{policy.label} gives a={first:g}, b={second:g} of a Beta law for {pair}, but expected {LAWS}"
        )
    return ValueError(
        f"{policy.label} gives an index that is not a number: center {first:g}, scale {second:g} for {pair}; see what "
        f"{type(policy).__name__}.index divides by, and what it takes roots and logarithms of"
    )


def check_scale(policy: Policy, indexed: Sequence[np.ndarray] | np.ndarray, scale: np.ndarray) -> None:
    """An error if a scale at the end of a run, [player, arm], is one that no normal law has."""
    wrong = (scale < 0) | np.isinf(scale)
    if policy.law is Law.NORMAL and wrong.any():
        player, arm = np.argwhere(wrong)[0].tolist()
        raise ValueError(
            f"{policy.label} gives the scale {scale[player, arm]:g} for {_pair(policy, indexed, player, arm)}, but "
            "expected a number that is finite and not negative"
        )


def _pair(policy: Policy, indexed: Sequence[np.ndarray] | np.ndarray, player: int, arm: int) -> str:
    """A player and an arm, with what the policy's index took of them."""
    own = {each.name: indexed[k][arm, player] * each.unit for k, each in enumerate(used_statistics(type(policy)))}
    return f"player {player}, arm {arm} with {', '.join(f'{name}={value:g}' for name, value in own.items())}"
