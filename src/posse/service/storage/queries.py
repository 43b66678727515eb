"""Questions about experiments, asked of one moment of the database.

Only `log_table` and `log_tables`, the whole log, cost more as the log grows.
"""

import contextlib
import heapq
import itertools
import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.decision import write_id
from posse.learner.ledger import Answer, Row, RowLog, unpack
from posse.learner.log import Past, arrow_rows, describe, metadata
from posse.learner.setup import Setup, check_name
from posse.learner.shares import Shares
from posse.learner.state import LearnerState
from posse.service.metrics import MOST_NAMED, OTHERS, ExperimentCounts
from posse.service.settings import LARGEST_BATCH, LARGEST_PAGE
from posse.service.storage import errors, lifecycle, log_rows
from posse.service.storage import schema as tables
from posse.service.storage.live_experiment import LiveExperiment

PROGRESS = ("status", "description", "rounds", "decisions", "events", "rewards", "waiting", "created_at", "time")
TABLE_ROWS = 50_000  # rows of the log that are in memory at once


@dataclass(frozen=True)
class Experiment:
    """An experiment, and how far it is."""

    name: str
    setup: Setup
    players: list[tuple[str, bool]]
    """The names of the first `LARGEST_BATCH`, and whether each is here, in the order in which they came.

    Empty in a list of experiments.
    """
    player_count: int  # of all that are here
    arms: list[tuple[str, bool]]
    status: lifecycle.Status
    description: str
    rounds: int
    decisions: int
    events: int
    rewards: int  # rewards taken, those of the past included
    waiting: int  # decisions without a reward
    created_at: float
    time: float  # when something happened last
    ship: str | None = None  # the arm that every decision is since it is finished
    ship_for: Mapping[str, str] = field(default_factory=dict)
    """Other arms for some players; empty in a list of experiments."""
    shares: Shares = field(default_factory=dict)  # the limits on arms' shares as they are now

    def shipping(self, shipment: lifecycle.Shipment | None, players: Mapping[int, str] | Sequence[str]) -> Self:
        """The same, with the arms that it ships, and for whom if there are names of players."""
        named = shipment and shipment.named(players, [name for name, _ in self.arms])
        return replace(self, **named) if named else self


class Indices(NamedTuple):
    """What the next decision of each player would rest on, float64 [player, arm], for rewards mapped to [0, 1].

    Centers are no estimates of means: some policies add a bonus to them, and those of PosseTS and Ind-TS-V are on the
    scale x^¼ − (1−x)^¼.
    """

    centers: np.ndarray
    scales: np.ndarray
    weights: np.ndarray  # how much each index rests on other players' data, from 0 to 1
    probabilities: np.ndarray  # 0 for arms that have retired


def experiments(
    connection: Connection,
    *,
    only: str | None = None,
    search: str = "",
    archived: bool | None = False,
    after: str = "",
    skip: int = 0,
    limit: int | None = None,
) -> list[Experiment]:
    """Experiments by name, without their players' names.

    Args:
        only: the name of the only one that may be seen.
        search: a part of the name; the letters a to z are the same in small and capital.
        archived: only those that are archived, or that are not; None for both.
        after: only those whose names come after this one.
        skip: leave out so many more.
        limit: so many at most.
    """
    table = tables.experiments
    page = _matching(sql.select(table), only, search, archived, after).order_by(table.c.name).offset(skip).limit(limit)
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
        shares = setup.shares
        if row.shares is not None:
            shares = log_rows.parse_shares(row.shares, [name for name, _ in names[row.id]])
        rest = {**_progress(row._mapping), "shares": shares}
        one = Experiment(row.name, setup, [], here.get(row.id, 0), names[row.id], **rest)
        found.append(one.shipping(lifecycle.Shipment.parse(row.shipped), ()))
    return found


def guard_alarms(connection: Connection, names: Collection[str]) -> dict[str, tuple[int, bool]]:
    """The id of each experiment of these names, and whether an arm of it was shown to cross the bound of an outcome."""
    table, told = tables.experiments, tables.outcome_stats.c
    raised = sql.exists().where(told.experiment == table.c.id, told.alarm > 0)
    found = connection.execute(sql.select(table.c.name, table.c.id, raised).where(table.c.name.in_(names)))
    return {name: (number, bool(alarm)) for name, number, alarm in found}


def count_experiments(
    connection: Connection, *, only: str | None = None, search: str = "", archived: bool | None = False
) -> int:
    return connection.execute(_matching(sql.select(sql.func.count()), only, search, archived)).scalar_one()


def _matching(
    query: sql.Select[Any], only: str | None, search: str, archived: bool | None, after: str = ""
) -> sql.Select[Any]:
    name = tables.experiments.c.name
    query = query.select_from(tables.experiments)
    if "\0" in search + after:  # which no name has, and PostgreSQL takes in no text
        return query.where(sql.false())
    query = query.where(name.icontains(search, autoescape=True), name > after)
    if archived is not None:
        query = query.where((tables.experiments.c.status == "archived") == archived)
    return query if only is None else query.where(name == only)


def _progress(row: log_rows.Values) -> dict[str, Any]:
    return {name: row[name] for name in PROGRESS}


def experiment(connection: Connection, name: str) -> Experiment:
    found, table = find(connection, name), tables.players
    query = sql.select(table).where(table.c.experiment == found["id"], table.c.place < LARGEST_BATCH)
    query = query.order_by(table.c.place)
    first = [(row.name, bool(row.here)) for row in connection.execute(query)]
    shipment = lifecycle.Shipment.parse(found["shipped"])
    own = log_rows.read_some(connection, tables.players, found["id"], shipment.players if shipment else ())
    return replace(experiments(connection, only=name, archived=None)[0], players=first).shipping(shipment, own)


def players(
    connection: Connection, name: str, after: int = 0, limit: int = LARGEST_PAGE, search: str = ""
) -> list[tuple[str, bool, dict[str, str]]]:
    """At most so many players after the first few, in the order in which they came; `search` is a part of their names.

    Each has its name, whether it is here, and its attributes as people read them.
    """
    row, table = find(connection, name), tables.players
    declared = Setup.from_dict(json.loads(row["setup"])).attributes
    query = sql.select(table).where(table.c.experiment == row["id"], table.c.place >= after).order_by(table.c.place)
    if search:  # PostgreSQL takes no "\0" in a text, and no name has one
        query = query.where(sql.false() if "\0" in search else table.c.name.icontains(search, autoescape=True))
    return [
        (each.name, bool(each.here), declared.shown(log_rows.parse_values(declared, each.attributes)))
        for each in connection.execute(query.limit(limit))
    ]


def described(connection: Connection, live: LiveExperiment) -> Experiment:
    """An experiment from memory, all of which has been written; no more is read for many players than for few."""
    state = live.state
    first = zip(state.player_roster.names, state.player_roster.here[:LARGEST_BATCH].tolist(), strict=False)
    who, done = (list(first), state.player_roster.count, list(state.arm_roster)), _progress(find(connection, live.name))
    found = Experiment(live.name, state.setup, *who, **done, shares=state.shares)
    return found.shipping(live.life.shipment, state.player_roster.names)


def where_decisions_wait(connection: Connection) -> dict[int, str]:
    """Names of the experiments with decisions that wait for their rewards, by id."""
    column = tables.experiments.c
    query = sql.select(column.id, column.name).where(column.waiting > 0, column.status != "archived")
    query = query.order_by(column.id)
    return dict(connection.execute(query).all())


def without_patience(connection: Connection, ids: Collection[int]) -> list[int]:
    """Those of these experiments whose decisions never take a default; their policy need not be known here."""
    found, column = [], tables.experiments.c
    query = sql.select(column.id, column.setup).where(column.id.in_(ids))
    for number, setup in connection.execute(query):
        with contextlib.suppress(ValueError, KeyError, TypeError):  # the command that opens it says what is wrong
            if json.loads(setup)["patience"] is None:
                found.append(number)
    return found


def last_time(connection: Connection) -> float | None:
    """The time of the last row of all logs; None if there is no experiment."""
    found: float | None = connection.execute(sql.select(sql.func.max(tables.experiments.c.time))).scalar()
    return found


def experiment_counts(connection: Connection) -> list[ExperimentCounts]:
    """How far the experiments with the most decisions are, then all others together if there are more."""
    table = tables.experiments
    told = tables.outcome_stats.c
    alarms = sql.select(sql.func.coalesce(sql.func.sum(told.alarm), 0)).where(told.experiment == table.c.id)
    counts = table.c.name, table.c.decisions, table.c.rewards, table.c.waiting, alarms.scalar_subquery()
    query = sql.select(*counts)
    query = query.order_by(table.c.name == OTHERS, table.c.decisions.desc(), table.c.id)
    found = [ExperimentCounts(*row) for row in connection.execute(query)]
    named = [each for each in found[:MOST_NAMED] if each.experiment != OTHERS]
    _, *others = zip(*found[len(named) :], strict=True) if len(named) < len(found) else ((),)
    return [*named, ExperimentCounts(OTHERS, *map(sum, others))] if others else named


def find(connection: Connection, name: str) -> log_rows.Values:
    table = tables.experiments
    query = sql.select(table).where(table.c.name == check_name("experiment", name))
    row = connection.execute(query).mappings().first()
    if row is None:
        raise errors.UnknownExperiment(f"no experiment {name!r}")
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
    row = find(connection, name)
    serial = log_rows.first_row(connection, row["id"], range(row["decisions"]), lambda found: found.link > after)
    rows = sorted(log_rows.read_log(connection, row["id"], after, serial, limit), key=log_rows.by_link)
    arms = [arm for arm, _ in log_rows.read_names(connection, tables.arms, row["id"])]
    # A change of an arm, or of none, has a place too; a name too many does no harm.
    named = {one["place"] if table == "changes" else one["player"] for table, one in rows}
    outcomes = [name for name, _ in json.loads(row["setup"]).get("outcomes", ())]
    for table, one in rows:
        if table == "changes" and one["kind"] == "finish" and (shipment := lifecycle.Shipment.parse(one["detail"])):
            named |= shipment.players.keys()
    players = log_rows.read_some(connection, tables.players, row["id"], named)
    return [_log_entry(table, one, players, arms, outcomes) for table, one in rows]


def _log_entry(
    table: str, row: log_rows.Values, players: Mapping[int, str], arms: list[str], outcomes: list[str]
) -> dict[str, Any]:
    """A row of the log in the learner's words."""
    if table == "changes":
        change = {"event": row["link"], "kind": row["kind"], "observed_at": row["at"]}
        if row["kind"] in (*log_rows.PLAYER_CHANGES, "erase"):
            change["player"] = players[row["place"]]
        elif row["kind"] in log_rows.ARM_CHANGES:
            change["arm"] = arms[row["place"]]
        elif row["kind"] == "alarm":
            change |= {"arm": arms[row["place"]], "outcome": outcomes[json.loads(row["detail"])["outcome"]]}
        elif row["kind"] == "shares":
            change["shares"] = log_rows.parse_shares(row["detail"], arms)
        elif row["kind"] == "finish":
            shipment = lifecycle.Shipment.parse(row["detail"])
            change |= shipment.named(players, arms) if shipment else {"ship": None, "ship_for": {}}
        elif row["kind"] == "describe":
            change["description"] = json.loads(row["detail"])
        return change
    past = row["serial"] < 0
    kind = "record" if past else table.removesuffix("s")
    entry: dict[str, Any] = {"event": row["link"], "kind": kind}
    entry["decision"] = None if past else write_id(row["serial"], row["tag"])
    entry["round"] = row["decided_in"] if kind in ("reward", "outcome") else row["round"]
    entry.update(player=players[row["player"]], arm=arms[row["arm"]])
    if table == "decisions":
        entry.update(propensity=row["propensity"], holdout=bool(row["holdout"]))
        entry.update(shared=row["shared"], decided_at=row["decided_at"])
    elif table == "outcomes":
        entry.update(outcome=outcomes[row["outcome"]], value=row["value"], observed_at=row["observed_at"])
    else:
        entry.update(reward=row["reward"], observed=row["event"])
        entry.update(defaulted=bool(row["defaulted"]), observed_at=row["observed_at"])
    return entry


def log_table(connection: Connection, name: str) -> Any:
    """The whole log as an Arrow table, as the learner gives it."""
    import pyarrow

    return pyarrow.concat_tables(log_tables(connection, name))


def log_tables(connection: Connection, name: str) -> Iterator[Any]:
    """The whole log as Arrow tables of at most `TABLE_ROWS` rows each, at least one."""
    row, by_parts = find(connection, name), {"yield_per": min(TABLE_ROWS, 1000)}
    live = LiveExperiment.load(connection, row)
    here = {"experiment": live.id}
    decisions, recorded = (
        connection.execute(sql.select(sql.func.count()).select_from(each.subquery()), here).scalar_one()
        for each in (log_rows.DECISIONS, log_rows.PAST_REWARDS)
    )
    about = describe(live.state, _past(connection, row, live, live.state.decisions - decisions))
    attributes, said = live.state.attributes(), metadata(about, decisions + recorded, recorded)
    made = connection.execute(log_rows.DECISIONS, here, execution_options=by_parts).mappings()
    past = connection.execute(log_rows.PAST_REWARDS, here, execution_options=by_parts).mappings()
    recorded_rows = ((log_rows.past_row(each), _answer(each)) for each in past)
    rows = heapq.merge(map(_decision, made), recorded_rows, key=lambda pair: (pair[0].round, pair[0].serial))
    for _ in range(0, max(decisions + recorded, 1), TABLE_ROWS):
        columns, probabilities = unpack(RowLog(itertools.islice(rows, TABLE_ROWS)).parts())
        made_in = columns["serial"][columns["serial"] >= 0].tolist()  # −1 is that of a reward of the past
        found = {}
        if live.state.setup.outcomes and made_in:
            ends = here | {"first": min(made_in), "last": max(made_in)}
            found = log_rows.known_outcomes(connection, log_rows.OUTCOMES_BETWEEN, ends)
        table = arrow_rows(about, columns, probabilities, attributes, found.items())
        yield table.replace_schema_metadata(said)


def _decision(row: log_rows.Values) -> tuple[Row, Answer | None]:
    made = log_rows.with_availability(log_rows.decision_row(row), row["offered"])
    return made, None if row["reward"] is None else _answer(row)


def _answer(row: log_rows.Values) -> Answer:
    return Answer(row["reward"], row["event"], row["observed_at"], bool(row["defaulted"]))


def _past(connection: Connection, row: log_rows.Values, live: LiveExperiment, given_up: int) -> Past:
    """What the log tells beside decisions and rewards."""
    state, changes, table = live.state, [], tables.changes
    players, arms = state.player_roster.names, state.arm_roster.names
    query = sql.select(table).where(table.c.experiment == live.id, table.c.event > 0).order_by(table.c.link)
    for one in connection.execute(query):
        if one.kind == "shares":
            shares = {arm: list(pair) for arm, pair in log_rows.parse_shares(one.detail, arms).items()}
            changes.append({"event": one.event, "kind": one.kind, "shares": shares, "rounds": one.place})
            continue
        who = (arms if one.kind in (*log_rows.ARM_CHANGES, "alarm") else players)[one.place]
        change = {"event": one.event, "kind": one.kind, "name": who, "knows_others": bool(one.knows_others)}
        if one.kind == "join" and state.setup.attributes:
            change["attributes"] = list(state.values[one.place])
        if one.kind == "alarm":
            change["outcome"] = list(state.setup.outcomes)[json.loads(one.detail)["outcome"]]
        changes.append(change)
    first: dict[str, list[Any]] = {"arms": arms[: row["first_arms"]], "players": players[: row["first_players"]]}
    if state.setup.attributes:
        first["attributes"] = [list(values) for values in state.values[: row["first_players"]]]
    return Past(first, changes, given_up, live.time)
