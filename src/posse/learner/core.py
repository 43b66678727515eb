"""The learner's core: a policy's compiled functions, and the arrays of what it knows: new, grown or restored."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from posse.attributes import Attributes, Coder, Value
from posse.learner import kernel
from posse.learner.runs import BOUND, LANE, Runs, fill_small, runs_of
from posse.policies.base import Law, Policy
from posse.policies.beta_propensity import BETA_SCRATCH
from posse.policies.bindings import bindings, class_of
from posse.policies.propensity import SCRATCH
from posse.policies.refresh import Refresh
from posse.policies.state import State, expect_players, fade, state_shapes, welcome
from posse.policies.statistics import COUNT, SUM
from posse.rewards import GRID

KERNELS = (
    *(kernel.choose, kernel.observe, kernel.evaluate, kernel.weigh, kernel.believe),
    *(expect_players, welcome, fade),
)
KEPT_TOO = {
    Refresh.SCHEDULE: ("indexed", "of_arm", "of_player", "of_value", "summed"),
    Refresh.OWN_PULL: ("seen",),
}
OF_SUMMARY = {"of_arm", "of_player", "of_value"}
BY_PLAYER = ("statistics", "contributions", "of_pair", "indexed", "seen")  # [number, arm, player]
NO_PULLS = np.zeros((3, 0), np.int64)
ROOM = 16  # players, and columns of attributes, that arrays have room for at first


@functools.cache
def kernels(policy: Any) -> SimpleNamespace:
    """The KERNELS of a policy class by name, compiled at their first call or taken from the disk cache."""
    from posse.compile import bind_all

    statistics = policy.statistics
    with_runs = policy.alike_without_data
    names = bindings(policy, statistics, lane=LANE) | BOUND if with_runs else bindings(policy, statistics)
    bound = bind_all(KERNELS, what=policy.name or policy.__name__, **names)
    return SimpleNamespace(**{function.__name__: each for function, each in zip(KERNELS, bound, strict=True)})


def roomy(size: int) -> int:
    """How many places an array gets that has so many now: more, so that the next ones seldom move it."""
    return ROOM + size + size // 2


class Core:
    """A policy as the learner runs it, for rewards mapped to [0, 1].

    Its arrays have room for players that may come, so that a join costs little; a state is a view of them.
    """

    def __init__(self, policy: Policy, attributes: Attributes) -> None:
        self.policy = policy
        self.constants = policy.constants()
        self.kernels = kernels(class_of(policy))
        # The arrays of a state that follow from nothing else in it:
        self.kept: tuple[str, ...] = ("statistics", *KEPT_TOO.get(policy.refresh, ()))
        if policy.of_pair and policy.welcome is None:
            self.kept += ("of_pair",)
        self.scratch = BETA_SCRATCH if policy.law is Law.BETA else SCRATCH  # numbers for each arm
        self.coder = Coder(attributes)
        self._arrays: dict[str, np.ndarray] = {}
        self.has_data = np.zeros(0, np.bool_)  # of each player: whether it may have any; of `alike_without_data`
        self.any_late = False  # whether what a summary says of some players has yet to be looked up,
        self._late = np.zeros(0, np.bool_)  # and of which:
        self._said_of_late = np.zeros(len(policy.of_player))  # the row of `of_player` of all these

    def empty(self, players: Sequence[Sequence[Value]], arms: int, log_T: float) -> State:
        """Nothing observed yet; players are given by their attributes."""
        state = self._new(players, arms)
        self._share(state, log_T)
        return state

    def _new(self, players: Sequence[Sequence[Value]], arms: int) -> State:
        """A state of zeros for players with these attributes."""
        coded = self.coder.coded(players)
        self._make_room(len(players), arms)
        state = self._cut(self._arrays, len(players), arms)
        if self.policy.of_value:
            state.columns[:], state.weights[:], state.part_of[:] = coded
        return state

    def _make_room(self, players: int, arms: int) -> None:
        self._arrays = self._room(players, arms)
        for array in self._cut(self._arrays, players, arms)[:-1]:  # all but scratch
            array[:] = 0  # written to now, so that no decision has to wait for memory
        more = np.zeros(roomy(players) - self.has_data.size, np.bool_)
        self.has_data, self._late = np.append(self.has_data, more), np.append(self._late, more)

    def _room(self, players: int, arms: int) -> dict[str, np.ndarray]:
        """Arrays of zeros for so many players and some more."""
        room, columns = roomy(players), roomy(len(self.coder.part_of))
        shapes = state_shapes(self.policy, self.policy.statistics, room, arms, self.coder.parts, columns)
        return {name: np.zeros(shape, dtype) for name, (dtype, shape) in shapes.items()}

    def _cut(self, arrays: dict[str, np.ndarray], players: int, arms: int) -> State:
        """Arrays, cut to so many players and the columns that there are."""
        arrays = dict(arrays)
        for name in BY_PLAYER:
            if name in arrays and arrays[name].size:
                arrays[name] = arrays[name][:, :, :players]
        columns = len(self.coder.part_of) if self.policy.of_value else 0
        arrays["of_player"] = arrays["of_player"][: players + 1]
        arrays["columns"], arrays["weights"] = arrays["columns"][:players], arrays["weights"][:players]
        arrays["of_value"], arrays["part_of"] = arrays["of_value"][:, :, :columns], arrays["part_of"][:columns]
        return State(**{"indexed": arrays["statistics"]} | arrays)

    def grown(self, state: State, arms: int, log_T: float) -> State:
        """The same with more arms, which everybody has yet to see."""
        _, k, m = state.statistics.shape
        old, unseen = state, np.zeros(0)
        self._make_room(m, arms)
        new = self._cut(self._arrays, m, arms)
        if new.seen.size:
            self._share(new, log_T)
            unseen = new.seen[:, k:].copy()
        self._copy(old, new)
        new.summed[0] = old.summed[0]
        self._share(new, log_T)
        if new.seen.size:
            new.seen[:, :k], new.seen[:, k:] = old.seen, unseen
        return new

    def joined(self, state: State, values: Sequence[Value], log_T: float, knows_others: bool) -> State:
        """The same with a player more; it has seen what the others know, or nothing."""
        _, arms, player = state.statistics.shape
        before = len(self.coder.part_of)
        columns, weights = self.coder.code(values)
        new = self._with_room(state, player + 1, arms)
        if self.policy.of_value:
            new.columns[player], new.weights[player] = columns, weights
            for column in range(before, len(self.coder.part_of)):
                new.part_of[column] = self.coder.part_of[column]
                new.of_value[:, :, column] = new.of_value[:, :, new.part_of[column]]  # as a value not seen before
        if self.policy.summary is not None and player > 0:
            if not self.kernels.welcome(new, player, log_T, self.constants):
                self.share_everything(new, log_T)
        elif new.of_arm.size or self.policy.summary is not None:
            self.share_everything(new, log_T)
        if new.seen.size:
            new.seen[:, :, player] = self._shared(new) if knows_others else self._shared_by_nobody(new, log_T)
        return new

    def _with_room(self, state: State, players: int, arms: int) -> State:
        """The same, cut for so many players; moved if there is no room. There is always a place to spare."""
        fits = players < self._arrays["of_player"].shape[0] - 1
        if self.policy.of_value:
            fits = fits and len(self.coder.part_of) < self._arrays["part_of"].size
        if fits:
            return self._cut(self._arrays, players, arms)
        self._make_room(players, arms)
        new = self._cut(self._arrays, players, arms)
        self._copy(state, new)
        return new

    @staticmethod
    def _copy(old: State, new: State) -> None:
        """Copy everything into arrays that are at least as large, but for scratch."""
        for name in set(State._fields) - {"work"}:
            source, target = getattr(old, name), getattr(new, name)
            if source.size:
                target[tuple(map(slice, source.shape))] = source

    def restored(self, players: Sequence[Sequence[Value]], arms: int, arrays: Mapping[str, Any], log_T: float) -> State:
        """The state with these arrays, those named by `kept`; the others are formed from them.

        A summary with other numbers than the policy's, as another version may have kept, is made anew. One that lacks
        the last columns of attributes is from before their values came.
        """
        state = self._new(players, arms)
        kept = {name: np.array(arrays.get(name, ()), getattr(state, name).dtype) for name in self.kept}
        if 0 < kept.get("of_value", np.zeros(0)).size < state.of_value.size:
            known = kept["of_value"].reshape(*state.of_value.shape[:2], -1)
            kept["of_value"] = np.append(known, known[:, :, state.part_of[known.shape[2] :]], axis=2)
        if "summed" in kept and kept["summed"].size < 3:  # of a version that made a summary whenever somebody joined
            kept["summed"] = np.append(kept["summed"], 0)  # nobody: so the next join makes one
            if not self.policy.of_pair:
                kept["of_player"] = np.append(kept["of_player"], state.of_player[-1])
        other = {name for name in OF_SUMMARY if name in kept and kept[name].size != getattr(state, name).size}
        for name in kept.keys() - (OF_SUMMARY if other else set()):
            array = getattr(state, name)
            array[:] = kept[name].reshape(array.shape)
        self.has_data[: len(players)] = state.statistics[COUNT].any(axis=0)
        if state.totals.size:
            state.totals[:] = state.statistics[: SUM + 1].sum(axis=2)
        if players and (self.policy.contribution is not None or other):
            self.share_everything(state, log_T)
        elif players and self.policy.welcome is not None:
            self.kernels.expect_players(state, np.arange(len(players)), log_T, self.constants)
        return state

    def share_everything(self, state: State, log_T: float) -> None:
        """Form everything that is shared anew."""
        players = state.statistics.shape[2]
        runs = runs_of(self.has_data[:players]) if self.policy.alike_without_data else None
        if runs is not None:
            self._summarize(runs, state, log_T)
        else:
            self.look_up_all(state, log_T)
            self.kernels.observe(tuple(state), NO_PULLS, 0, log_T, self.constants)

    def _summarize(self, runs: Runs, state: State, log_T: float) -> None:
        """Make a summary from the players that have data; what it says of others is looked up when it is needed."""
        _, arms, players = state.statistics.shape
        columns = runs.last.size
        small = self._cut(self._room(columns, arms), columns, arms)
        small = small._replace(summed=np.concatenate([state.summed[:2], [players], runs.times]))
        if small.work.size <= state.work.size:  # which is there already
            small = small._replace(work=state.work.ravel()[: small.work.size].reshape(small.work.shape))
        fill_small(small, state, runs)
        small.of_player[:-1][self._late[runs.last]] = self._said_of_late
        new = self.kernels.observe(tuple(small), NO_PULLS, 0, log_T, self.constants)
        who = runs.last[runs.some]
        state.indexed[:, :, who] = small.indexed[:, :, runs.some]
        state.summed[1:] = state.summed[0], players
        if new:
            state.of_arm[:], state.of_value[:] = small.of_arm, small.of_value
            state.of_player[who], state.of_player[players] = small.of_player[:-1][runs.some], small.of_player[-1]
            self._said_of_late = small.of_player[:-1][~runs.some][0]
            np.logical_not(self.has_data[:players], out=self._late[:players])
            self.any_late = True
            self.kernels.expect_players(state, who, log_T, self.constants)

    def look_up(self, state: State, players: list[int], log_T: float) -> None:
        """Write down what the last summary says of these players, where that is still to be done."""
        late = [player for player in players if self._late[player]]
        if late:
            self._write_down(state, np.array(late), log_T)

    def look_up_all(self, state: State, log_T: float) -> None:
        """The same of all players."""
        late = np.flatnonzero(self._late)
        if late.size:
            self._write_down(state, late, log_T)
        self.any_late = False

    def _write_down(self, state: State, late: np.ndarray, log_T: float) -> None:
        state.of_player[late] = self._said_of_late
        self.kernels.expect_players(state, late, log_T, self.constants)
        self._late[late] = False  # last, in case another thread reads

    def _share(self, state: State, log_T: float) -> None:
        """Form everything that is shared, and let every player see it."""
        if state.columns.shape[0]:  # nothing is shared by nobody
            self.share_everything(state, log_T)
        if state.seen.size:
            state.seen[:] = self._shared(state)[:, :, None]

    @staticmethod
    def _shared(state: State) -> np.ndarray:
        """What is shared of each arm, [number, arm], where it is everybody's sums or made of contributions."""
        shared: np.ndarray = state.of_arm.T if state.of_arm.size else state.totals * np.array([[1.0], [1.0 / GRID]])
        return shared

    def _shared_by_nobody(self, state: State, log_T: float) -> np.ndarray:
        """What would be shared of each arm if nothing had been observed, [number, arm]."""
        if state.totals.size:
            return np.zeros_like(state.seen[:, :, 0])
        _, arms, players = state.statistics.shape
        return self._shared(Core(self.policy, Attributes()).empty([()] * players, arms, log_T))

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
