"""What there is to see of experiments, read from one moment of the database. No question costs more as the log grows,
but for the whole log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.checks import whole
from posse.learner.ledger import Answer, Row, write_id
from posse.learner.log import Past, to_arrow
from posse.learner.setup import Setup, check_name
from posse.learner.state import State
from posse.service.storage import schema as tables
from posse.service.storage.errors import UnknownExperiment
from posse.service.storage.live_experiment import ARM_CHANGES, PLAYER_CHANGES, Book, as_row, first_decision, read_names
from posse.service.storage.log_chain import Values

MOST_ROWS = 10_000  # of one page of the log
SAMPLE = 5_000  # decisions that the activity is drawn from


@dataclass(frozen=True)
class Experiment:
    """An experiment, and how far it is."""

    name: str
    setup: Setup
    players: list[tuple[str, bool]]
    """Names, and whether each is here, in the order in which they came."""
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


@dataclass(frozen=True, eq=False)
class Indices:
    """What the next decision of each player would rest on, float64 [player, arm], for rewards mapped to [0, 1].

    Centers are no estimates of means: they have the bonus of policies that explore by one, and those of PosseTS and
    Ind-TS-V are on the scale x^¼ − (1−x)^¼.
    """

    players: list[tuple[str, bool]]
    arms: list[tuple[str, bool]]
    centers: np.ndarray
    scales: np.ndarray
    weights: np.ndarray
    """How much each index rests on other players' data, from 0 to 1."""
    probabilities: np.ndarray
    """0 for arms that have retired."""


@dataclass(frozen=True, eq=False)
class Activity:
    """What happened when, from at most a few thousand decisions, evenly spread over all."""

    ends: np.ndarray
    """When each span of time ends, in seconds; float64 [span]."""
    arms: list[str]
    decisions: np.ndarray
    """Decisions in each span, int64 [span]."""
    rewards: np.ndarray
    """Rewards that came in each span, int64 [span]."""
    pulls: np.ndarray
    """Decisions for each arm, int64 [span, arm]."""
    step: int
    """Every so many-th decision was looked at, and stands for as many; 1 if all were."""


def experiments(connection: Connection) -> list[Experiment]:
    """All of them, by name."""
    found = connection.execute(sql.select(tables.experiments).order_by(tables.experiments.c.name)).mappings().all()
    names = {table.name: _all_names(connection, table) for table in (tables.players, tables.arms)}
    stats = tables.stats
    query = sql.select(stats.c.experiment, sql.func.sum(stats.c.pulls), sql.func.sum(stats.c.waiting))
    sums = {row[0]: (int(row[1]), int(row[2])) for row in connection.execute(query.group_by(stats.c.experiment))}
    return [
        _experiment(
            row, names["players"].get(row["id"], []), names["arms"].get(row["id"], []), *sums.get(row["id"], (0, 0))
        )
        for row in found
    ]


def impatient(connection: Connection) -> list[str]:
    """The names of those whose decisions take the default after a while, whether or not their policy is known here."""
    table = tables.experiments
    found = connection.execute(sql.select(table.c.name, table.c.setup).order_by(table.c.id))
    return [name for name, setup in found if _is_impatient(setup)]


def _is_impatient(setup: str) -> bool:
    try:
        return json.loads(setup)["patience"] is not None
    except (ValueError, KeyError, TypeError):  # whoever opens it says what is wrong with it
        return True


def _all_names(connection: Connection, table: sql.Table) -> dict[int, list[tuple[str, bool]]]:
    names: dict[int, list[tuple[str, bool]]] = {}
    for row in connection.execute(sql.select(table).order_by(table.c.experiment, table.c.place)):
        names.setdefault(row.experiment, []).append((row.name, bool(row.here)))
    return names


def experiment(connection: Connection, name: str) -> Experiment:
    """One of them."""
    row = find(connection, name)
    players, arms = (read_names(connection, table, row["id"]) for table in (tables.players, tables.arms))
    stats = tables.stats
    query = sql.select(sql.func.sum(stats.c.pulls), sql.func.sum(stats.c.waiting))
    pulls, waiting = connection.execute(query.where(stats.c.experiment == row["id"])).one()
    return _experiment(row, players, arms, int(pulls or 0), int(waiting or 0))


def _experiment(
    row: Values, players: list[tuple[str, bool]], arms: list[tuple[str, bool]], rewards: int, waiting: int
) -> Experiment:
    return Experiment(
        row["name"],
        Setup.from_dict(json.loads(row["setup"])),
        players,
        arms,
        bool(row["paused"]),
        row["rounds"],
        row["decisions"],
        row["events"],
        rewards,
        waiting,
        row["created_at"],
        row["time"],
    )


def find(connection: Connection, name: str) -> Values:
    """An experiment's row."""
    table = tables.experiments
    query = sql.select(table).where(table.c.name == check_name("experiment", name))
    row = connection.execute(query).mappings().first()
    if row is None:
        raise UnknownExperiment(f"no experiment {name!r}")
    return row


def book(connection: Connection, name: str) -> Book:
    """An experiment's book, from the numbers beside the log."""
    return Book.load(connection, find(connection, name))


def has_row(connection: Connection, book: Book) -> bool:
    """Whether the database has the last row of a book."""
    table = tables.experiments
    query = sql.select(table).where(table.c.id == book.id).with_for_update()  # waits for whoever may still write it
    row = connection.execute(query).mappings().first()
    if row is None or row["head"] == book.head:
        return row is not None
    last = book.state.decisions - 1
    for logged, same in (
        (tables.decisions, tables.decisions.c.serial == last),
        (tables.rewards, tables.rewards.c.link == book.links),
        (tables.changes, tables.changes.c.link == book.links),
    ):
        found = connection.execute(sql.select(logged.c.digest).where(logged.c.experiment == book.id, same)).scalar()
        if found == book.head:
            return True
    return False


def indices(state: State) -> Indices:
    """Centers, scales, weights and probabilities of all."""
    players, arms = len(state.player_roster.names), len(state.arm_roster.names)
    table = np.zeros((4, players, arms))
    for player in range(players):
        evaluated = state.evaluate(player)
        state.probabilities(evaluated, state.arm_roster.here)
        table[:, player] = evaluated
    return Indices(list(state.player_roster), list(state.arm_roster), *table)


# ---------------------------------------------------------------- the log


def log(connection: Connection, name: str, after: int = 0, limit: int = 1000) -> list[dict[str, Any]]:
    """Rows of the log after row number `after`: decisions, rewards and changes in the order in which they happened.

    Each has its number as `event`, its `kind`, and those of the learner's columns that it says something about.
    """
    whole("after", after, least=0)
    whole("limit", limit, least=1, most=MOST_ROWS)
    row = find(connection, name)
    names = {
        table.name: [one for one, _ in read_names(connection, table, row["id"])]
        for table in (tables.players, tables.arms)
    }
    made = tables.decisions
    serial = first_decision(connection, row["id"], row["decisions"], lambda found: found.link > after)
    last = after + limit
    found: list[dict[str, Any]] = []
    query = sql.select(made).where(made.c.experiment == row["id"], made.c.serial >= serial)
    some = connection.execute(query.order_by(made.c.serial).limit(limit)).mappings()
    found += [_decision_row(one, names) for one in some if one["link"] <= last]
    known = tables.rewards
    query = (
        sql.select(known, made.c.tag, made.c.round.label("decided_in"))
        .select_from(known.outerjoin(made, _same(known, made)))
        .where(known.c.experiment == row["id"], known.c.link > after, known.c.link <= last)
    )
    found += [_reward_row(one, names) for one in connection.execute(query).mappings()]
    table = tables.changes
    query = sql.select(table).where(table.c.experiment == row["id"], table.c.link > after, table.c.link <= last)
    found += [_change_row(one, names) for one in connection.execute(query).mappings()]
    return sorted(found, key=lambda one: one["event"])


def _same(known: sql.Table, made: sql.Table) -> sql.ColumnElement[bool]:
    return sql.and_(known.c.experiment == made.c.experiment, known.c.serial == made.c.serial)


def _decision_row(row: Values, names: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "event": row["link"],
        "kind": "decision",
        "decision": write_id(row["serial"], row["tag"]),
        "round": row["round"],
        "player": names["players"][row["player"]],
        "arm": names["arms"][row["arm"]],
        "propensity": row["propensity"],
        "holdout": bool(row["holdout"]),
        "shared": row["shared"],
        "decided_at": row["decided_at"],
    }


def _reward_row(row: Values, names: dict[str, list[str]]) -> dict[str, Any]:
    past = row["serial"] < 0
    return {
        "event": row["link"],
        "kind": "record" if past else "reward",
        "decision": None if past else write_id(row["serial"], row["tag"]),
        "round": row["round"] if past else row["decided_in"],
        "player": names["players"][row["player"]],
        "arm": names["arms"][row["arm"]],
        "reward": row["reward"],
        "observed": row["event"],
        "defaulted": bool(row["defaulted"]),
        "observed_at": row["observed_at"],
    }


def _change_row(row: Values, names: dict[str, list[str]]) -> dict[str, Any]:
    change: dict[str, Any] = {"event": row["link"], "kind": row["kind"], "observed_at": row["at"]}
    if row["kind"] in (*PLAYER_CHANGES, "erase"):
        change["player"] = names["players"][row["place"]]
    elif row["kind"] in ARM_CHANGES:
        change["arm"] = names["arms"][row["place"]]
    return change


def log_table(connection: Connection, name: str) -> Any:
    """The whole log as an Arrow table, as the learner gives it."""
    row = find(connection, name)
    book = Book.load(connection, row)
    made, known, changed = tables.decisions, tables.rewards, tables.changes
    answers: dict[int, Answer] = {}
    rows: list[tuple[Row, Answer | None]] = []
    query = sql.select(known).where(known.c.experiment == book.id).order_by(known.c.link)
    for one in connection.execute(query).mappings():
        answer = Answer(one["reward"], one["event"], one["observed_at"], bool(one["defaulted"]))
        if one["serial"] >= 0:
            answers[one["serial"]] = answer
        else:
            past = Row(-1, 0, one["round"], one["player"], one["arm"], 0.0, False, 0.0, one["observed_at"])
            rows.append((past, answer))
    query = sql.select(made).where(made.c.experiment == book.id).order_by(made.c.serial)
    rows += [(as_row(one), answers.get(one["serial"])) for one in connection.execute(query).mappings()]
    rows.sort(key=lambda pair: (pair[0].round, pair[0].serial))
    players, arms = book.state.player_roster.names, book.state.arm_roster.names
    first = {"arms": arms[: row["first_arms"]], "players": players[: row["first_players"]]}
    query = sql.select(changed).where(changed.c.experiment == book.id, changed.c.event > 0).order_by(changed.c.link)
    changes = [
        {
            "event": one["event"],
            "kind": one["kind"],
            "name": (players if one["kind"] in PLAYER_CHANGES else arms)[one["place"]],
            "knows_others": bool(one["knows_others"]),
        }
        for one in connection.execute(query).mappings()
    ]
    given_up = book.state.decisions - sum(pair[0].serial >= 0 for pair in rows)
    return to_arrow(book.state, Past(first, changes, given_up, book.time), rows)


# ---------------------------------------------------------------- over time


def activity(connection: Connection, name: str, points: int = 100) -> Activity:
    """Decisions, rewards and pulls over time, in so many spans of equal length."""
    whole("points", points, least=1, most=1000)
    row = find(connection, name)
    arms = [one for one, _ in read_names(connection, tables.arms, row["id"])]
    step = max(1, -(-row["decisions"] // SAMPLE))
    found = _sampled(connection, row["id"], row["decisions"], step)
    if not found:
        none = np.zeros(0, np.int64)
        return Activity(np.zeros(0), arms, none, none, np.zeros((0, len(arms)), np.int64), step)
    arm, decided, observed = (np.array(column, np.float64) for column in zip(*found, strict=True))
    start, end = decided[0], max(row["time"], decided[0] + 1e-3)
    edges = np.linspace(start, end, points + 1)
    pulls = np.histogram2d(decided, arm, bins=(edges, np.arange(len(arms) + 1)))[0].astype(np.int64) * step
    rewards = np.histogram(observed[~np.isnan(observed)], bins=edges)[0].astype(np.int64) * step
    return Activity(edges[1:], arms, pulls.sum(axis=1), rewards, pulls, step)


def _sampled(connection: Connection, experiment: int, decisions: int, step: int) -> list[Any]:
    """Arm, time of the decision and of its reward, of every so many-th decision."""
    if decisions == 0:
        return []
    made, known = tables.decisions, tables.rewards
    serials = sql.select(sql.literal(0, sql.BigInteger).label("serial")).cte(recursive=True)
    serials = serials.union_all(sql.select(serials.c.serial + step).where(serials.c.serial + step < decisions))
    query = (
        sql.select(made.c.arm, made.c.decided_at, known.c.observed_at)
        .select_from(serials.join(made, made.c.serial == serials.c.serial).outerjoin(known, _same(known, made)))
        .where(made.c.experiment == experiment)
        .order_by(made.c.serial)
    )
    return list(connection.execute(query))
