"""Commands: everything that changes the database, each as one small frozen record that says what it does.

A command names the experiment that it is about. The writer groups the commands that wait, a transaction applies them
in order, and each has its own result. Each is checked before it changes anything, so a refused one leaves no trace
among the others. Commands about tokens are in auth/tokens.py; those that import or rebuild are in admin/.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from posse.attributes import LONGEST_NAME, Attributes
from posse.decision import Decision, UnknownDecision, as_reports, parse_id, write_id
from posse.learner.frames import given_players
from posse.learner.setup import PLAYER_LIMIT, Setup, check_names
from posse.policies.base import Policy
from posse.service.storage.errors import ConflictingKey, Damaged, Paused
from posse.service.storage.live_experiment import LiveExperiment
from posse.service.storage.log_rows import Values
from posse.service.storage.queries import Experiment
from posse.service.storage.transaction import Transaction

NO_LIMIT = 10**15  # decisions wait in the database for as long as it takes


# ---------------------------------------------------------------- decisions


class Choose(NamedTuple):
    """Choose an arm for each of the players, as one round. Result: a `Decision` for each.

    A combination of attributes is a player that joins when it is first seen. The same key again gives the same
    decisions again.
    """

    experiment: str
    players: Sequence[str | Mapping[str, Any]]
    """Names, or combinations {attribute: value}."""
    available: Sequence[str] | None = None
    key: str | None = None

    def apply(self, transaction: Transaction) -> list[Decision]:
        live = transaction.live(self.experiment)
        names, new = live.state.named(self.players)
        if not names:
            raise ValueError("players=[], but expected at least one")
        available = None if self.available is None else check_names("arm", self.available)
        if self.key is not None:
            made = transaction.made_for(live, _check_key(self.key))
            if made:
                return _repeated(live, made, names, available, self.key)
        if live.paused:
            raise Paused(f"experiment {live.name!r} is paused: it takes rewards, but makes no decisions")
        roster, offered = live.state.player_roster, live.state.offered(available)
        places = [roster.current(name) for name in names if name not in new]
        now = transaction.now(live)
        if new:
            for name, values in new.items():
                live.change("join", name, now, values=values)
            places = [roster.place(name) for name in names]
        return live.choose(places, offered, available is not None, now, self.key)


def _check_key(key: Any) -> str:
    if not isinstance(key, str) or not (0 < len(key) <= LONGEST_NAME and key.isprintable()):
        raise ValueError(f"idempotency key {str(key)[:30]!r}, but expected 1 to {LONGEST_NAME} printable characters")
    return key


def _repeated(
    live: LiveExperiment, made: list[Values], names: list[str], available: list[str] | None, key: str
) -> list[Decision]:
    """Decisions that were made before, if the request is the one that they were made for."""
    players, arms = live.state.player_roster.names, live.state.arm_roster.names
    if made[0]["offered"] is None:
        raise Damaged("a decision with an idempotency key does not say which arms were offered")
    offered = np.unpackbits(np.frombuffer(made[0]["offered"], np.uint8)).tolist()
    same = [players[row["player"]] for row in made] == names and bool(made[0]["restricted"]) == (available is not None)
    if same and available is not None:
        same = {arm for arm, open_ in zip(arms, offered, strict=False) if open_} == set(available)
    if not same:
        raise ConflictingKey(
            f"the idempotency key {key!r} came before with another request; use a new key for a new one"
        )
    decisions = []
    for row in made:
        id_, player, arm = write_id(row["serial"], row["tag"]), players[row["player"]], arms[row["arm"]]
        values = np.frombuffer(row["probabilities"], "<f8").tolist()
        probabilities = {arms[place]: p for place, p in enumerate(values) if offered[place]}
        rest = row["round"], row["shared"], bool(row["holdout"])
        decisions.append(Decision(id_, player, arm, row["propensity"], probabilities, *rest))
    return decisions


# ---------------------------------------------------------------- rewards


@dataclass(frozen=True, slots=True)
class RewardOutcome:
    """What came of a reward report."""

    decision: str
    status: Literal["taken", "known", "conflict", "unknown", "invalid"]
    """`taken`; `known`, the same reward came before; `conflict`, another did; `unknown` decision; `invalid` reward."""
    detail: str | None = None


class Observe(NamedTuple):
    """Observe the rewards of decisions. Result: a `RewardOutcome` for each; a refused one does not stop the others."""

    experiment: str
    reports: Sequence[tuple[str, float]]
    """Pairs of a decision's id and its reward."""

    def apply(self, transaction: Transaction) -> list[RewardOutcome]:
        live = transaction.live(self.experiment)
        reports = as_reports(self.reports, None)
        now = transaction.now(live)
        transaction.look_up_decisions(live, [identity for identity, _ in reports])
        fresh: dict[int, float] = {}
        outcomes = [check_report(live, identity, value, fresh) for identity, value in reports]
        live.observe([(live.waiting[serial], value) for serial, value in fresh.items()], now)
        return outcomes


def check_report(live: LiveExperiment, identity: str, value: Any, fresh: dict[int, float]) -> RewardOutcome:
    """What becomes of a report; a new reward is added to `fresh`, by the serial number of its decision."""
    state = live.state
    try:
        serial, tag = parse_id(identity)
    except UnknownDecision as error:
        return RewardOutcome(str(identity)[:60], "unknown", str(error))
    try:
        reward = state.setup.check_reward(f"reward of decision {identity}", value)
    except (TypeError, ValueError) as error:
        return RewardOutcome(identity, "invalid", str(error))
    row = live.waiting.get(serial)
    if row is not None and row.tag == tag:
        if serial not in fresh:
            fresh[serial] = reward
            return RewardOutcome(identity, "taken")
        known, conflict = fresh[serial], f"given two rewards, {fresh[serial]:g} and {reward:g}"
    else:
        known_tag, known, defaulted = live.answers.get(serial, (None, 0.0, False))
        if known_tag != tag:
            return RewardOutcome(identity, "unknown", f"decision {identity} was not made in experiment {live.name!r}")
        how = f", taken by default after {state.setup.patience:g} s" if defaulted else ""
        conflict = f"it already has the reward {known:g}{how}; {reward:g} is refused"
    if state.steps(known) == state.steps(reward):
        return RewardOutcome(identity, "known")
    return RewardOutcome(identity, "conflict", conflict)


class Record(NamedTuple):
    """Observe rewards of the past, which were not decided here, as one round. Result: how many."""

    experiment: str
    rewards: Sequence[tuple[str, str, float]]
    """Player, arm and reward."""

    def apply(self, transaction: Transaction) -> int:
        live = transaction.live(self.experiment)
        checked = live.state.check_records(self.rewards)
        if not checked:
            raise ValueError("rewards=[], but expected at least one")
        now = transaction.now(live)
        live.observe(live.state.record(checked, now), now)
        return len(checked)


class TakeDefaults(NamedTuple):
    """Take the default reward for every decision that has waited too long."""

    experiment: str

    def apply(self, transaction: Transaction) -> None:
        transaction.now(transaction.live(self.experiment))


# ---------------------------------------------------------------- experiments


class Create(NamedTuple):
    """Begin an experiment; the arguments are those of `posse.Learner`. Result: the `Experiment`."""

    experiment: str
    policy: Policy
    arms: Sequence[str]
    players: Sequence[str] | Mapping[str, Mapping[str, Any]] = ()
    horizon: int | None = None
    seed: int | None = None
    """Drawn at random if None."""
    reward_range: Sequence[float] = (0.0, 1.0)
    floor: float = 0.0
    holdout: float = 0.0
    default_reward: float | None = None
    patience: float | None = None
    attributes: Mapping[str, Any] | None = None
    player_limit: int = PLAYER_LIMIT

    def apply(self, transaction: Transaction) -> Experiment:
        try:
            low, high = self.reward_range
        except (TypeError, ValueError):
            raise TypeError(f"reward_range={self.reward_range!r}, but expected (lowest, highest)") from None
        seed = secrets.randbits(53) if self.seed is None else self.seed
        fixed = self.floor, self.holdout, self.default_reward, self.patience, NO_LIMIT, True
        attributes = Attributes(self.attributes)
        setup = Setup(self.policy, self.horizon, seed, low, high, *fixed, attributes, self.player_limit)
        first = {"arms": check_names("arm", self.arms), **given_players(setup, self.players)}
        transaction.create(self.experiment, setup, first, float(transaction.clock()))
        return transaction.describe(self.experiment)


class Change(NamedTuple):
    """Let players and arms come and go, pause and resume: all of it or nothing. Result: the `Experiment`."""

    experiment: str
    join: Sequence[str] | Mapping[str, Mapping[str, Any]] = ()
    """Names, or {name: {attribute: value}}."""
    retire: Sequence[str] = ()
    add_arms: Sequence[str] = ()
    retire_arms: Sequence[str] = ()
    paused: bool | None = None
    knows_others: bool = True

    def apply(self, transaction: Transaction) -> Experiment:
        for flag, value in (("paused", self.paused), ("knows_others", self.knows_others)):
            if not (isinstance(value, bool) or (value is None and flag == "paused")):
                raise TypeError(f"{flag}={value!r}, but expected True or False")
        live = transaction.live(self.experiment)
        steps = [("add arm", arm) for arm in check_names("arm", self.add_arms)]
        steps += [("retire arm", arm) for arm in check_names("arm", self.retire_arms)]
        joins = given_players(live.state.setup, self.join)
        values = dict(zip(joins["players"], map(tuple, joins.get("attributes", ())), strict=False))
        steps += [("join", player) for player in joins["players"]]
        steps += [("retire", player) for player in check_names("player", self.retire)]
        live.check_changes(steps, values)
        now = transaction.now(live)
        for kind, who in steps:
            live.change(kind, who, now, self.knows_others, values.get(who) if kind == "join" else None)
        if self.paused is not None and self.paused != live.paused:
            live.append_change("pause" if self.paused else "resume", 0, now)
            live.paused = self.paused
        return transaction.describe(live.name)


class Erase(NamedTuple):
    """Retire a player, replace its name for good and forget its attributes. Result: the name that is there now."""

    experiment: str
    player: str

    def apply(self, transaction: Transaction) -> str:
        live = transaction.live(self.experiment)
        place = live.state.player_roster.place(self.player)
        now = transaction.now(live)
        if live.state.player_roster.here[place]:
            live.change("retire", self.player, now)
        replacement = f"erased-{secrets.token_hex(8)}"
        live.erase(self.player, replacement, now)
        transaction.erased = True
        return replacement
