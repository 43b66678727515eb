"""Questions about experiments, asked of one moment of the database.

Only `log_table`, the whole log, costs more as the log grows.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.checks import whole
from posse.learner.ledger import Answer, Row, write_id
from posse.learner.log import Past, to_arrow
from posse.learner.setup import Setup, check_name
from posse.learner.state import LearnerState
from posse.service.settings import LARGEST_BATCH, LARGEST_PAGE
from posse.service.storage import log_rows
from posse.service.storage import schema as tables
from posse.service.storage.errors import UnknownExperiment
from posse.service.storage.live_experiment import LiveExperiment
from posse.service.storage.log_rows import Values


@dataclass(frozen=True)
class Experiment:
    """An experiment, and how far it is."""

    name: str
    setup: Setup
    players: list[tuple[str, bool]]
    """The names of the first `LARGEST_BATCH`, and whether each is here, in the order in which they came.

    Empty in a list of experiments.
    """
    player_count: int
    """Of all that are here."""
    arms: list[tuple[str, bool]]
    paused: bool
    rounds: int
    decisions: int
    events: int
    rewards: int
    """Rewards taken, those of the past included."""
    waiting: int
    """Decisions without a reward."""
    created_at: float
    time: float
    """When something happened last."""


class Indices(NamedTuple):
    """What the next decision of each player would rest on, float64 [player, arm], for rewards mapped to [0, 1].

    Centers are no estimates of means: some policies add a bonus to them, and those of PosseTS and Ind-TS-V are on the
    scale x^¼ − (1−x)^¼.
    """

    centers: np.ndarray
    scales: np.ndarray
    weights: np.ndarray
    """How much each index rests on other players' data, from 0 to 1."""
    probabilities: np.ndarray
    """0 for arms that have retired."""


def experiments(
    connection: Connection,
    *,
    only: str | None = None,
    search: str = "",
    after: str = "",
    skip: int = 0,
    limit: int | None = None,
) -> list[Experiment]:
    """Experiments by name, without their players' names.

    Args:
        only: the name of the only one that may be seen.
        search: a part of the name; the letters a to z are the same in small and capital.
        after: only those whose names come after this one.
        skip: leave out so many more.
        limit: so many at most.
    """
    table = tables.experiments
    page = _matching(sql.select(table), only, search, after).order_by(table.c.name).offset(skip).limit(limit)
    ids = page.with_only_columns(table.c.id)
    everybody, arms = tables.players, tables.arms
    query = sql.select(arms).where(arms.c.experiment.in_(ids)).order_by(arms.c.experiment, arms.c.place)
    names: defaultdict[int, list[tuple[str, bool]]] = defaultdict(list)
    for row in connection.execute(query):
        names[row.experiment].append((row.name, bool(row.here)))
    query = sql.select(everybody.c.experiment, sql.func.sum(everybody.c.here)).where(everybody.c.experiment.in_(ids))
    here = {row[0]: int(row[1]) for row in connection.execute(query.group_by(everybody.c.experiment))}
    found = []
    for row in connection.execute(page):
        setup = Setup.from_dict(json.loads(row.setup))
        found.append(_described(row._mapping, setup, [], here.get(row.id, 0), names[row.id]))
    return found


def count_experiments(connection: Connection, *, only: str | None = None, search: str = "") -> int:
    """How many experiments match."""
    return connection.execute(_matching(sql.select(sql.func.count()), only, search)).scalar_one()


def _matching(query: sql.Select[Any], only: str | None, search: str, after: str = "") -> sql.Select[Any]:
    name = tables.experiments.c.name
    query = query.select_from(tables.experiments)
    if "\0" in search + after:  # which no name has, and PostgreSQL takes in no text
        return query.where(sql.false())
    query = query.where(name.icontains(search, autoescape=True), name > after)
    return query if only is None else query.where(name == only)


def _described(
    row: Values, setup: Setup, players: list[tuple[str, bool]], player_count: int, arms: list[tuple[str, bool]]
) -> Experiment:
    counts = (row[name] for name in ("rounds", "decisions", "events", "rewards", "waiting", "created_at", "time"))
    return Experiment(row["name"], setup, players, player_count, arms, bool(row["paused"]), *counts)


def experiment(connection: Connection, name: str) -> Experiment:
    number, table = find(connection, name)["id"], tables.players
    query = sql.select(table).where(table.c.experiment == number, table.c.place < LARGEST_BATCH).order_by(table.c.place)
    first = [(row.name, bool(row.here)) for row in connection.execute(query)]
    return replace(experiments(connection, only=name)[0], players=first)


def players(
    connection: Connection, name: str, after: int = 0, limit: int = LARGEST_PAGE
) -> list[tuple[str, bool, dict[str, str]]]:
    """At most so many players after the first few, in the order in which they came.

    Each has its name, whether it is here, and its attributes as people read them.
    """
    row, table = find(connection, name), tables.players
    declared = Setup.from_dict(json.loads(row["setup"])).attributes
    query = sql.select(table).where(table.c.experiment == row["id"], table.c.place >= after).order_by(table.c.place)
    return [
        (each.name, bool(each.here), declared.shown(log_rows.parse_values(declared, each.attributes)))
        for each in connection.execute(query.limit(limit))
    ]


def described(connection: Connection, live: LiveExperiment) -> Experiment:
    """An experiment from memory, all of which has been written; no more is read for many players than for few."""
    state = live.state
    first = zip(state.player_roster.names, state.player_roster.here[:LARGEST_BATCH].tolist(), strict=False)
    who = list(first), state.player_roster.count, list(state.arm_roster)
    return _described(find(connection, live.name), state.setup, *who)


def with_patience(connection: Connection) -> list[str]:
    """Names of experiments whose decisions take the default after a while; their policy need not be known here."""
    table = tables.experiments
    found = []
    for name, setup in connection.execute(sql.select(table.c.name, table.c.setup).order_by(table.c.id)):
        try:
            patience = json.loads(setup)["patience"]
        except (ValueError, KeyError, TypeError) as error:  # the command that opens it says what is wrong with it
            patience = error
        if patience is not None:
            found.append(name)
    return found


def find(connection: Connection, name: str) -> Values:
    table = tables.experiments
    query = sql.select(table).where(table.c.name == check_name("experiment", name))
    row = connection.execute(query).mappings().first()
    if row is None:
        raise UnknownExperiment(f"no experiment {name!r}")
    return row


def live_experiment(connection: Connection, name: str) -> LiveExperiment:
    """An experiment with the learner's state, from the statistics beside the log."""
    return LiveExperiment.load(connection, find(connection, name))


def has_last_row(connection: Connection, live: LiveExperiment) -> bool:
    """Whether the database has the last row of an experiment's log."""
    table = tables.experiments
    query = sql.select(table).where(table.c.id == live.id).with_for_update()  # waits for whoever may still write it
    row = connection.execute(query).mappings().first()
    if row is None or row["head"] == live.head:
        return row is not None
    rows = log_rows.read_log(connection, live.id, live.links - 1, live.state.decisions - 1)
    return any(entry["digest"] == live.head for _, entry in rows)


def indices(state: LearnerState, players: Sequence[int] | np.ndarray | None = None) -> Indices:
    """Centers, scales, weights and probabilities of all, or of the players at these places."""
    chosen = range(len(state.player_roster.names)) if players is None else players
    table = np.zeros((4, len(chosen), len(state.arm_roster.names)))
    for row, player in enumerate(chosen):
        evaluated = state.evaluate(player)
        state.probabilities(evaluated, state.arm_roster.here)
        table[:, row] = evaluated
    return Indices(*table)


# ---------------------------------------------------------------- the log


def log(connection: Connection, name: str, after: int = 0, limit: int = 1000) -> list[dict[str, Any]]:
    """Rows of the log after row number `after`: decisions, rewards and changes in the order in which they happened.

    Each has its number as `event`, its `kind`, and those of the learner's columns that it says something about.
    """
    whole("after", after, least=0)
    whole("limit", limit, least=1, most=LARGEST_PAGE)
    row = find(connection, name)
    serial = log_rows.first_decision(connection, row["id"], row["decisions"], lambda found: found.link > after)
    rows = sorted(log_rows.read_log(connection, row["id"], after, serial, limit), key=log_rows.by_link)
    arms = [arm for arm, _ in log_rows.read_names(connection, tables.arms, row["id"])]
    # A change of an arm, or of none, has a place too; a name too many does no harm.
    named = {one["place"] if table == "changes" else one["player"] for table, one in rows}
    table = tables.players
    query = sql.select(table.c.place, table.c.name).where(table.c.experiment == row["id"], table.c.place.in_(named))
    players = dict(connection.execute(query).all())
    return [_log_entry(table, one, players, arms) for table, one in rows]


def _log_entry(table: str, row: Values, players: Mapping[int, str], arms: list[str]) -> dict[str, Any]:
    """A row of the log in the learner's words."""
    if table == "changes":
        change = {"event": row["link"], "kind": row["kind"], "observed_at": row["at"]}
        if row["kind"] in (*log_rows.PLAYER_CHANGES, "erase"):
            change["player"] = players[row["place"]]
        elif row["kind"] in log_rows.ARM_CHANGES:
            change["arm"] = arms[row["place"]]
        return change
    past = row["serial"] < 0
    kind = "decision" if table == "decisions" else "record" if past else "reward"
    entry: dict[str, Any] = {"event": row["link"], "kind": kind}
    entry["decision"] = None if past else write_id(row["serial"], row["tag"])
    entry["round"] = row["decided_in"] if kind == "reward" else row["round"]
    entry.update(player=players[row["player"]], arm=arms[row["arm"]])
    if table == "decisions":
        entry.update(propensity=row["propensity"], holdout=bool(row["holdout"]))
        entry.update(shared=row["shared"], decided_at=row["decided_at"])
    else:
        entry.update(reward=row["reward"], observed=row["event"])
        entry.update(defaulted=bool(row["defaulted"]), observed_at=row["observed_at"])
    return entry


def log_table(connection: Connection, name: str) -> Any:
    """The whole log as an Arrow table, as the learner gives it."""
    row = find(connection, name)
    live = LiveExperiment.load(connection, row)
    players, arms = live.state.player_roster.names, live.state.arm_roster.names
    rows: dict[int, tuple[Row, Answer | None]] = {}
    changes = []
    for table, one in log_rows.read_log(connection, live.id):
        if table == "decisions":
            decision = log_rows.with_availability(log_rows.decision_row(one), one["offered"])
            rows[one["serial"]] = (decision, None)
        elif table == "rewards":
            made = rows[one["serial"]][0] if one["serial"] >= 0 else log_rows.past_row(one)
            answer = Answer(one["reward"], one["event"], one["observed_at"], bool(one["defaulted"]))
            rows[one["serial"]] = (made, answer)
        elif one["event"] > 0:
            who = (arms if one["kind"] in log_rows.ARM_CHANGES else players)[one["place"]]
            change = {
                "event": one["event"],
                "kind": one["kind"],
                "name": who,
                "knows_others": bool(one["knows_others"]),
            }
            if one["kind"] == "join" and live.state.setup.attributes:
                change["attributes"] = list(live.state.values[one["place"]])
            changes.append(change)
    first: dict[str, list[Any]] = {"arms": arms[: row["first_arms"]], "players": players[: row["first_players"]]}
    if live.state.setup.attributes:
        first["attributes"] = [list(values) for values in live.state.values[: row["first_players"]]]
    given_up = live.state.decisions - sum(serial >= 0 for serial in rows)
    in_order = sorted(rows.values(), key=lambda pair: (pair[0].round, pair[0].serial))
    return to_arrow(live.state, Past(first, changes, given_up, live.time), in_order)
