"""Commands: everything that changes the database, each as one small frozen record that says what it does.

A command names the experiment that it is about. The writer groups the commands that wait, a transaction applies them
in order, and each has its own result. Each is checked before it changes anything, so a refused one leaves no trace
among the others. Commands about tokens are in auth.py; those that import or rebuild are in admin/.

A command may have an idempotency key. Then it is carried out once, and the same command with the same key has the same
result again (storage/keyed_requests.py).
"""

import json
import math
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from posse.attributes import Attributes
from posse.checks import number, value_range
from posse.decision import ConflictingReward, Decision, Report, UnknownDecision, as_reports, write_id
from posse.learner.frames import given_players
from posse.learner.reports import Reports
from posse.learner.setup import PLAYER_LIMIT, Setup, check_names
from posse.learner.shares import check_shares
from posse.outcomes import declared
from posse.policies.base import Policy
from posse.service.settings import LONGEST_SECONDS, SHORTEST_PATIENCE
from posse.service.storage import audit, database, errors, keyed_requests, lifecycle, log_rows, queries
from posse.service.storage.live_experiment import LiveExperiment
from posse.service.storage.transaction import Transaction, check_new_names
from posse.text import plural

NO_LIMIT = 10**15  # decisions wait in the database for as long as it takes


# ---------------------------------------------------------------- decisions


class Choose(NamedTuple):
    """Choose an arm for each of the players, as one round. Result: a `Decision` for each.

    A combination of attributes is a player that joins when it is first seen.
    """

    experiment: str
    players: Sequence[str | Mapping[str, Any]]  # names, or combinations {attribute: value}
    available: Sequence[str] | None = None
    key: str | None = None

    def apply(self, transaction: Transaction) -> list[Decision]:
        live = transaction.live(self.experiment)
        names, new = live.state.named(self.players)
        if not names:
            raise ValueError("players=[], but expected at least one")
        available = None if self.available is None else check_names("arm", self.available)
        request = transaction.requests.ask(live.id, self.key, "choose", names, available and sorted(available))
        if request.before is not None:
            return _made_before(transaction, live, *request.before[:2])
        check_decides(live)
        roster, offered = live.state.player_roster, live.state.offered(available)
        places = [roster.current(name) for name in names if name not in new]
        now = transaction.now(live)
        if new:
            for name, values in new.items():
                live.change("join", name, now, values=values)
            places = [roster.place(name) for name in names]
        made = live.choose(places, offered, available is not None, now)
        request.remember(f"[{live.state.decisions - len(made)}, {live.state.decisions}]", places)
        return made


def check_decides(live: LiveExperiment) -> None:
    """An error unless the experiment makes decisions."""
    if live.life.status == "paused":
        raise errors.Paused(f"experiment {live.name!r} is paused: it takes rewards, but makes no decisions")
    if live.life.status == "finished" and live.life.shipment is None:
        raise errors.Finished(f"experiment {live.name!r} is finished: it takes late rewards, but makes no decisions")
    _check_open(live)


def _check_open(live: LiveExperiment) -> None:
    """An error if the experiment can only be read."""
    if live.life.status == "archived":
        raise errors.Archived(
            f"experiment {live.name!r} is archived: it can be read, but takes no decisions, rewards or changes"
        )


def _made_before(transaction: Transaction, live: LiveExperiment, first: int, end: int) -> list[Decision]:
    """Decisions that were made before, from one serial number to another."""
    live.write_log(transaction.connection)
    players, arms = live.state.player_roster.names, live.state.arm_roster.names
    decisions = []
    wanted = {"experiment": live.id, "serial": first, "end": end}
    for row in transaction.connection.execute(log_rows.MADE_IN, wanted).mappings():
        id_, player, arm = write_id(row["serial"], row["tag"]), players[row["player"]], arms[row["arm"]]
        values = np.frombuffer(row["probabilities"], "<f8").tolist()
        offered = np.unpackbits(np.frombuffer(row["offered"], np.uint8)).tolist()
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
    """`taken`; `known`, the same came before; `conflict`, another did; `unknown` decision; `invalid` value."""
    detail: str | None = None


class Observe(NamedTuple):
    """Observe rewards and outcomes of decisions. Result: a `RewardOutcome` for each report.

    A report is taken as a whole or not at all; one that is refused does not stop the others.
    """

    experiment: str
    reports: Sequence[tuple[str, float] | Report]
    """A decision's id, its reward or None, and {outcome: value} if there are any."""

    def apply(self, transaction: Transaction) -> list[RewardOutcome]:
        live = transaction.live(self.experiment)
        _check_open(live)
        reports = as_reports(self.reports, None)
        now = transaction.now(live)
        transaction.look_up_decisions(live, [identity for identity, _, _ in reports])
        fresh = Reports(live.state, live.recent)
        results = [check_report(fresh, *report) for report in reports]
        live.observe([(live.recent.waiting[serial], value) for serial, value in fresh.rewards.items()], now)
        if fresh.outcomes:
            transaction.alarms += live.observe_outcomes(fresh.outcomes.values(), now)
        return results


def check_report(fresh: Reports, identity: str, reward: Any, outcomes: Mapping[str, Any]) -> RewardOutcome:
    """What becomes of a report, given those before it."""
    try:
        return RewardOutcome(identity, "taken" if fresh.take(identity, reward, outcomes) else "known")
    except UnknownDecision as error:
        return RewardOutcome(str(identity)[:60], "unknown", str(error))
    except ConflictingReward as error:
        return RewardOutcome(identity, "conflict", str(error))
    except (TypeError, ValueError) as error:
        return RewardOutcome(identity, "invalid", str(error))


class Record(NamedTuple):
    """Observe rewards of the past, which were not decided here, as one round. Result: how many."""

    experiment: str
    rewards: Sequence[tuple[str, str, float]]  # player, arm and reward
    key: str | None = None
    by: str = audit.COMMAND_LINE

    def apply(self, transaction: Transaction) -> int:
        live = transaction.live(self.experiment)
        asked = self.key and keyed_requests.as_json({"rewards": self.rewards})
        request = transaction.requests.ask(live.id, self.key, "record", asked)
        if request.before is not None:
            return int(request.before)
        _check_open(live)
        checked = live.state.check_records(self.rewards)
        if not checked:
            raise ValueError("rewards=[], but expected at least one")
        now = transaction.now(live)
        past = live.state.record(checked, now)
        live.observe(past, now)
        transaction.note(self.by, "record", live.name, plural(len(checked), "reward"))
        request.remember(json.dumps(len(checked)), {row.player for row, _ in past})
        return len(checked)


class TakeDefaults(NamedTuple):
    """Take the default reward for every decision that has waited too long. Result: seconds until one may be due."""

    experiment: str

    def apply(self, transaction: Transaction) -> float:
        live = transaction.live(self.experiment)
        now, patience = transaction.now(live), live.state.setup.patience
        return math.inf if patience is None else live.oldest + patience - now


# ---------------------------------------------------------------- experiments


class Create(NamedTuple):
    """Begin an experiment; the arguments are those of `posse.Learner`. Result: the `Experiment`."""

    experiment: str
    policy: Policy
    arms: Sequence[str]
    players: Sequence[str] | Mapping[str, Mapping[str, Any]] = ()
    horizon: int | None = None
    seed: int | None = None  # drawn at random if None
    reward_range: Sequence[float] = (0.0, 1.0)
    floor: float = 0.0
    holdout: float = 0.0
    default_reward: float | None = None
    patience: float | None = None
    attributes: Mapping[str, Any] | None = None
    player_limit: int = PLAYER_LIMIT
    shares: Mapping[str, Any] = {}
    control: str | None = None
    burn_in: int = 0
    outcomes: Mapping[str, Any] = {}
    description: str = ""
    key: str | None = None  # keys of requests that create are apart from those of any experiment
    by: str = audit.COMMAND_LINE  # for the audit trail

    def apply(self, transaction: Transaction) -> queries.Experiment:
        request = transaction.ask_outside(self.key, "create", _asked(self))
        if request.before is not None:
            return _as_it_was(transaction.live(self.experiment), request.before)
        if self.patience is not None:
            number("patience in seconds", self.patience, least=SHORTEST_PATIENCE, most=LONGEST_SECONDS)
        seed = secrets.randbits(53) if self.seed is None else self.seed
        ends = value_range("reward_range", self.reward_range, "reward")
        fixed = self.floor, self.holdout, self.default_reward, self.patience, NO_LIMIT, True
        known = Attributes(self.attributes), self.player_limit, declared(self.outcomes), check_shares(self.shares)
        setup = Setup(*(self.policy, self.horizon, seed, *ends, *fixed, *known, self.control, self.burn_in))
        first = {"arms": check_names("arm", self.arms), **given_players(setup, self.players)}
        check_new_names("arm", first["arms"])
        check_new_names("player", first["players"])
        said = lifecycle.Life().moves(None, None, self.description)
        live = transaction.create(self.experiment, setup, first, float(transaction.clock()))
        live.move(said, live.time)
        made = transaction.describe(self.experiment)
        counted = plural(len(first["arms"]), "arm"), plural(len(first["players"]), "player")
        transaction.note(self.by, "create", live.name, ", ".join((self.policy.label, *counted)))
        request.remember(_to_remember(live, made), range(len(first["players"])), created=live.id)
        return made


def _to_remember(live: LiveExperiment, made: queries.Experiment) -> str:
    """What it takes to describe an experiment again as it is now, without any name."""
    here = ["".join("01"[here] for _, here in names) for names in (made.players, made.arms)]
    progress = {name: getattr(made, name) for name in ("player_count", *queries.PROGRESS, "shares")}
    return json.dumps({**progress, **live.life.columns(), "here": here})


def _as_it_was(live: LiveExperiment, remembered: dict[str, Any]) -> queries.Experiment:
    """The description of an experiment as it was; who was erased since has the name of now."""
    rosters = live.state.player_roster.names, live.state.arm_roster.names
    players, arms = (
        [(name, flag == "1") for name, flag in zip(names, here, strict=False)]
        for names, here in zip(rosters, remembered["here"], strict=True)
    )
    if "paused" in remembered:  # before version 5
        remembered |= {"status": "paused" if remembered["paused"] else "running", "description": "", "shipped": None}
        remembered["shares"] = {}
    progress = {name: remembered[name] for name in ("player_count", *queries.PROGRESS)}
    progress["shares"] = check_shares(remembered["shares"])
    found = queries.Experiment(live.name, live.state.setup, players=players, arms=arms, **progress)
    return found.shipping(lifecycle.Shipment.parse(remembered["shipped"]), live.state.player_roster.names)


class Change(NamedTuple):
    """Change who plays, the arms, their shares, the status or the description: all of it or nothing.

    Result: the `Experiment`.
    """

    experiment: str
    join: Sequence[str] | Mapping[str, Mapping[str, Any]] = ()  # names, or {name: {attribute: value}}
    retire: Sequence[str] = ()
    add_arms: Sequence[str] = ()
    retire_arms: Sequence[str] = ()
    status: lifecycle.Status | None = None
    ship: str | None = None  # with the status "finished": the arm that every decision is from now on
    ship_for: Mapping[str, str] | None = None  # other arms for some players
    description: str | None = None
    knows_others: bool = True
    shares: Mapping[str, Any] | None = None  # replaces all limits on arms' shares
    key: str | None = None
    by: str = audit.COMMAND_LINE

    def apply(self, transaction: Transaction) -> queries.Experiment:
        live = transaction.live(self.experiment)
        request = transaction.requests.ask(live.id, self.key, "change", _asked(self))
        if request.before is not None:
            return _as_it_was(live, request.before)
        given = {name for name, value in self._asdict().items() if value or value == ""}
        given -= {"experiment", "status", "knows_others", "key", "by"}
        if self.status != "finished" and (given or self.shares is not None):
            _check_open(live)
        steps = [("add arm", arm) for arm in check_names("arm", self.add_arms)]
        steps += [("retire arm", arm) for arm in check_names("arm", self.retire_arms)]
        joins = given_players(live.state.setup, self.join)
        values = dict(zip(joins["players"], map(tuple, joins.get("attributes", ())), strict=False))
        steps += [("join", player) for player in joins["players"]]
        steps += [("retire", player) for player in check_names("player", self.retire)]
        rosters = {"add arm": live.state.arm_roster, "join": live.state.player_roster}
        check_new_names("name", (who for kind, who in steps if kind in rosters and who not in rosters[kind]))
        live.check_changes(steps, values, self.shares)
        shipment = lifecycle.parse_shipment(self.ship, self.ship_for, live.state.player_roster, live.state.arm_roster)
        if gone := {self.ship, *(self.ship_for or {}).values()} & set(self.retire_arms):
            raise ValueError(f"ship={min(map(str, gone))!r}, but retire_arms has it too; expected an arm that stays")
        moves = live.life.moves(self.status, shipment, self.description)
        now = transaction.now(live)
        for kind, who in steps:
            live.change(kind, who, now, self.knows_others, values.get(who) if kind == "join" else None)
        if self.shares is not None:
            live.set_shares(self.shares, now)
        live.move(moves, now)
        if ("restore", None) in moves:
            transaction.now(live)  # takes the defaults that came due while it was archived
        made = transaction.describe(live.name)
        if said := self._said(steps, [kind for kind, _ in moves]):
            transaction.note(self.by, "change", live.name, said)
        about = [*(who for kind, who in steps if kind in log_rows.PLAYER_CHANGES), *(self.ship_for or ())]
        request.remember(_to_remember(live, made), set(map(live.state.player_roster.place, about)))
        return made

    def _said(self, steps: list[tuple[str, str]], moves: list[str]) -> str:
        """What changes, without names of players; nothing if nothing does."""
        players = Counter(kind for kind, _ in steps if kind in log_rows.PLAYER_CHANGES)
        said = [f"{kind} {plural(count, 'player')}" for kind, count in players.items()]
        said += [f"{kind} {arm!r}" for kind, arm in steps if kind not in log_rows.PLAYER_CHANGES]
        said += [] if self.shares is None else ["shares"]
        said += [f"finish and ship {self.ship!r}" if kind == "finish" and self.ship else kind for kind in moves]
        return ", ".join(said)


LATER = ("status", "ship", "ship_for", "description", "shares", "control", "burn_in", "outcomes", "by")
"""Fields of requests that came with version 5."""


def _asked(command: Create | Change) -> str | None:
    """What a request with a key asks for, as a text that was the same before there were the fields in LATER."""
    fields, defaults = command._replace(key=None, by=audit.COMMAND_LINE)._asdict(), command._field_defaults
    fields = {name: said for name, said in fields.items() if name not in LATER or said != defaults[name]}
    return command.key and keyed_requests.as_json(fields | ({"paused": None} if isinstance(command, Change) else {}))


class Probe(NamedTuple):
    """Write something that changes nothing: its result comes only if the database can be written."""

    experiment: None = None

    def apply(self, transaction: Transaction) -> None:
        database.write_probe(transaction.connection)


class Erase(NamedTuple):
    """Retire a player, replace its name for good, and forget its attributes and the keys of requests about it.

    Result: the name that is there now. The key of the erasure itself is remembered, as a digest like any other.
    """

    experiment: str
    player: str
    key: str | None = None
    by: str = audit.COMMAND_LINE

    def apply(self, transaction: Transaction) -> str:
        live = transaction.live(self.experiment)
        request = transaction.requests.ask(live.id, self.key, "erase", self.player)
        if request.before is not None:
            return str(request.before)
        place = live.state.player_roster.place(self.player)
        now = transaction.now(live)
        if live.state.player_roster.here[place]:
            live.change("retire", self.player, now)
        replacement = f"erased-{secrets.token_hex(8)}"
        live.erase(self.player, replacement, now)
        transaction.requests.forget(live.id, place)
        transaction.erased = True
        transaction.note(self.by, "erase", live.name, "1 player")
        request.remember(json.dumps(replacement), [])
        return replacement
