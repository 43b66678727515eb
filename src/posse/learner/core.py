"""The learner's core: a policy's compiled functions, and the arrays of what it knows: new, grown or restored."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from posse.compile import bind_all
from posse.learner import kernel
from posse.policies.base import Law, Policy
from posse.policies.beta_propensity import BETA_SCRATCH
from posse.policies.bindings import bindings, class_of
from posse.policies.propensity import SCRATCH
from posse.policies.refresh import Refresh
from posse.policies.state import State, fade, share_everything, state_shapes
from posse.policies.statistics import COUNT, SUM
from posse.rewards import GRID

KERNELS = (kernel.choose, kernel.observe, kernel.evaluate, kernel.weigh, kernel.believe, share_everything, fade)
KEPT_TOO = {Refresh.SCHEDULE: ("indexed", "of_arm", "of_player", "summed"), Refresh.OWN_PULL: ("seen",)}
OF_SUMMARY = {"of_arm", "of_player"}


@functools.cache
def kernels(policy: Any) -> SimpleNamespace:
    """The KERNELS of a policy class by name, compiled at their first call or taken from the disk cache."""
    bound = bind_all(KERNELS, what=policy.name or policy.__name__, **bindings(policy, policy.statistics))
    return SimpleNamespace(**{function.__name__: each for function, each in zip(KERNELS, bound, strict=True)})


class Core:
    """A policy as the learner runs it, for rewards mapped to [0, 1]."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.constants = policy.constants()
        self.kernels = kernels(class_of(policy))
        # The arrays of a state that follow from nothing else in it:
        self.kept = ("statistics", *KEPT_TOO.get(policy.refresh, ()))
        self.scratch = 3 + (BETA_SCRATCH if policy.law is Law.BETA else SCRATCH)

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
        unseen = self.empty(players, arms).seen if new.seen.size else new.seen
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
        """The state with these arrays, those named by `kept`; the others are formed from them.

        A summary with other numbers than the policy's, as another version may have kept, is made anew.
        """
        state = self._zero(players, arms)
        kept = {name: np.array(arrays[name], getattr(state, name).dtype) for name in self.kept}
        other = {name for name in OF_SUMMARY if name in kept and kept[name].size != getattr(state, name).size}
        for name in kept.keys() - (OF_SUMMARY if other else set()):
            array = getattr(state, name)
            array[:] = kept[name].reshape(array.shape)
        if state.totals.size:
            state.totals[:] = state.statistics[: SUM + 1].sum(axis=2)
        if self.policy.contribution is not None or other:
            self.kernels.share_everything(state, self.constants)
        return state

    def _share(self, state: State) -> None:
        """Form everything that is shared, and let every player see it."""
        self.kernels.share_everything(state, self.constants)
        if state.seen.size:
            shared = state.of_arm.T if state.of_arm.size else state.totals * np.array([[1.0], [1.0 / GRID]])
            state.seen[:] = shared[:, :, None]

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
