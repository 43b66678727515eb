"""The learner's core: what is known and a player in, a decision out; rewards in, what is then known out.

The core keeps nothing between calls. The caller holds the state, in memory or in a database, and passes it in.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from posse.compile import bind_all
from posse.learner import kernel
from posse.policies import state as policy_state
from posse.policies.base import Law, Policy
from posse.policies.beta_propensity import BETA_SCRATCH
from posse.policies.bindings import bindings, class_of
from posse.policies.propensity import SCRATCH
from posse.policies.refresh import Refresh
from posse.policies.state import State, state_shapes
from posse.policies.statistics import COUNT, SUM
from posse.rewards import GRID


class LearnerKernels(NamedTuple):
    """The compiled functions of a policy class."""

    choose: Callable[..., tuple[int, bool]]
    observe: Callable[..., None]
    evaluate: Callable[..., None]
    weigh: Callable[..., int]
    believe: Callable[..., None]
    share_everything: Callable[..., None]


@functools.cache
def kernels(policy: Any) -> LearnerKernels:
    """The kernels of a policy class, compiled at their first call or taken from the disk cache."""
    functions = [getattr(kernel, name, None) or getattr(policy_state, name) for name in LearnerKernels._fields]
    names = bindings(policy, policy.statistics)
    return LearnerKernels(*bind_all(functions, what=policy.name or policy.__name__, **names))


class CoreChoice(NamedTuple):
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
        self.kernels = kernels(class_of(policy))
        self.kept = kept_arrays(policy)
        self._scratch = 3 + (BETA_SCRATCH if policy.law is Law.BETA else SCRATCH)

    def empty(self, players: int, arms: int) -> State:
        """Nothing observed yet."""
        state = self._zero(players, arms)
        self._share(state)
        return state

    def _zero(self, players: int, arms: int) -> State:
        shapes = state_shapes(self.policy, self.policy.statistics, players, arms)
        arrays: dict[str, np.ndarray] = {name: np.zeros(shape, dtype) for name, (dtype, shape) in shapes.items()}
        return State(**{"indexed": arrays["statistics"]} | arrays)

    def grown(self, state: State, players: int, arms: int, knows_others: bool) -> State:
        """The same with room for more players and arms; new players have seen what the others know, or nothing."""
        new = self._zero(players, arms)
        _, k, m = state.statistics.shape
        unseen = self.empty(players, arms).seen
        new.statistics[:, :k, :m] = state.statistics
        new.totals[:, :k], new.of_arm[:k], new.of_player[:m] = state.totals, state.of_arm, state.of_player
        new.summed[0] = state.summed[0]
        self._share(new)
        if not knows_others:
            new.seen[:, :, m:] = unseen[:, :, m:]
        new.seen[:, k:, :m] = unseen[:, k:, :m]
        new.seen[:, :k, :m] = state.seen
        return new

    def restored(self, players: int, arms: int, arrays: Mapping[str, Any]) -> State:
        """The state with these arrays, those named by `kept`; the others are formed from them."""
        state = self._zero(players, arms)
        for name in self.kept:
            array = getattr(state, name)
            array[:] = np.array(arrays[name], array.dtype).reshape(array.shape)
        if state.totals.size:
            state.totals[:] = state.statistics[: SUM + 1].sum(axis=2)
        if self.policy.contribution is not None:
            self.kernels.share_everything(state, self.constants)
        return state

    def _share(self, state: State) -> None:
        """Form everything that is shared, and let every player see it."""
        self.kernels.share_everything(state, self.constants)
        if state.seen.size:
            shared = state.of_arm.T if state.of_arm.size else state.totals * np.array([[1.0], [1.0 / GRID]])
            state.seen[:] = shared[:, :, None]

    def evaluate(
        self, state: State, player: int, waiting: np.ndarray, all_waiting: np.ndarray, players: int, log_T: float
    ) -> np.ndarray:
        """Rows of centers, scales and weights of other players' data, one column an arm; a fourth for probabilities."""
        out = np.empty((4, all_waiting.size))
        self.kernels.evaluate(state, player, waiting, all_waiting, players, log_T, self.constants, out)
        return out

    def beliefs(self, state: State, players: int, log_T: float) -> tuple[np.ndarray, np.ndarray]:
        """Centers and scales of what the policy believes, [player, arm]; `policy.reward_of` turns them into rewards."""
        centers, scales = (np.empty(state.statistics.shape[:0:-1]) for _ in range(2))
        self.kernels.believe(state, players, log_T, self.constants, centers, scales)
        return centers, scales

    def probabilities(
        self, evaluated: np.ndarray, available: np.ndarray, floor: float = 0.0, holdout: float = 0.0
    ) -> np.ndarray:
        """The probability of each arm, from what `evaluate` gave."""
        self.kernels.weigh(available, floor, holdout, evaluated, np.empty((self._scratch, available.size)))
        return evaluated[kernel.PROBABILITY]

    def choose(
        self,
        state: State,
        player: int,
        waiting: np.ndarray,
        all_waiting: np.ndarray,
        players: int,
        log_T: float,
        available: np.ndarray,
        key: tuple[int, int],
        serial: int,
        floor: float = 0.0,
        holdout: float = 0.0,
    ) -> CoreChoice:
        """The decision with this serial number, which is the counter of its draw."""
        out = np.empty((4, available.size))
        work = np.empty((self._scratch, available.size))
        numbers = (state, player, waiting, all_waiting, players, log_T, self.constants)
        arm, held_out = self.kernels.choose(*numbers, available, floor, holdout, serial, key, out, work)
        probabilities = out[kernel.PROBABILITY].tolist()
        if math.isnan(np.add.reduce(out[: kernel.WEIGHT], axis=None)):
            raise self._no_usable_index(state, player, out)
        return CoreChoice(arm, probabilities[arm], probabilities, float(out[kernel.WEIGHT, arm]), held_out)

    def _no_usable_index(self, state: State, player: int, out: np.ndarray) -> ValueError:
        arm = int(np.isnan(out[: kernel.WEIGHT]).any(axis=0).argmax())
        own = zip(self.policy.statistics, state.indexed[:, arm, player].tolist(), strict=True)
        shown = ", ".join(f"{statistic.name}={value * statistic.unit:g}" for statistic, value in own)
        return ValueError(
            f"{self.policy.label} gives no usable index for player {player}, arm {arm} with {shown}: "
            f"centers and scales {out[: kernel.WEIGHT].tolist()}"
        )

    def observe(self, state: State, players: list[int], arms: list[int], steps: list[int], event: int) -> None:
        """Take in one round's rewards, in steps of the grid."""
        rows = np.array((players, arms, steps), np.int64)
        self.kernels.observe(state, rows[0], rows[1], rows[2], event, self.constants)

    def last_seen(self, state: State, player: int, arm: int) -> tuple[float, float]:
        """Everybody's count and sum for an arm as a player sees them; zeros where something else is shared."""
        if self.policy.shared != Policy.shared:
            return 0.0, 0.0
        if state.seen.size:
            count, total = state.seen[:, arm, player].tolist()
        elif state.of_arm.size:
            count, total = state.of_arm[arm].tolist()
        else:
            count, total = float(state.totals[COUNT, arm]), float(state.totals[SUM, arm] / GRID)
        return count, total


def kept_arrays(policy: Policy) -> tuple[str, ...]:
    """The arrays of a state that follow from nothing else in it."""
    if policy.refresh is Refresh.SCHEDULE:
        return "statistics", "indexed", "of_arm", "of_player", "summed"
    return ("statistics", "seen") if policy.refresh is Refresh.OWN_PULL else ("statistics",)


def to_steps(reward: float, low: float, high: float) -> int:
    """A reward in [low, high] in steps of the grid on [0, 1]."""
    return round((reward - low) / (high - low) * GRID)


def log_horizon(horizon: int | None, round_: int) -> float:
    """What round `round_` takes for ln T: ln max(T, t) with a horizon, ln max(t, 2) without."""
    return math.log(max(round_, 2) if horizon is None else max(round_, horizon))
