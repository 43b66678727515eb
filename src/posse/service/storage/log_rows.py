"""Rows of the log, of players and of arms: how they are read, found and written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.learner.ledger import Row
from posse.service.storage import schema as tables
from posse.service.storage.errors import Damaged
from posse.service.storage.log_chain import Values, row_digest

PLAYER_CHANGES, ARM_CHANGES = ("join", "retire"), ("add arm", "retire arm")

INSERTS = {name: sql.insert(tables.metadata.tables[name]) for name in ("decisions", "rewards", "changes")}
NEXT_DECISION = (
    sql.select(tables.decisions.c.serial, tables.decisions.c.decided_at, tables.decisions.c.link)
    .where(
        tables.decisions.c.experiment == sql.bindparam("experiment"),
        tables.decisions.c.serial >= sql.bindparam("serial"),
    )
    .order_by(tables.decisions.c.serial)
    .limit(1)
)
KNOWN_KEYS = sql.select(tables.decisions.c.request_key).where(
    tables.decisions.c.experiment == sql.bindparam("experiment"),
    tables.decisions.c.request_key.in_(sql.bindparam("keys", expanding=True)),
)
SAME_DECISION = sql.and_(
    tables.rewards.c.experiment == tables.decisions.c.experiment,
    tables.rewards.c.serial == tables.decisions.c.serial,
)
MADE_BEFORE = (  # bounded by serial numbers: times have no index, and the query would read all that are not yet due
    sql.select(
        *(tables.decisions.c[name] for name in Row._fields),
        sql.select(tables.rewards.c.serial).where(SAME_DECISION).scalar_subquery().label("answered"),
    )
    .where(
        tables.decisions.c.experiment == sql.bindparam("experiment"),
        tables.decisions.c.serial >= sql.bindparam("serial"),
        tables.decisions.c.serial < sql.bindparam("until"),
        tables.decisions.c.decided_at < sql.bindparam("time"),
    )
    .order_by(tables.decisions.c.serial)
)
WITH_REWARDS = (
    sql.select(
        *(tables.decisions.c[name] for name in Row._fields),
        tables.rewards.c.reward.label("given"),
        tables.rewards.c.defaulted,
    )
    .select_from(tables.decisions.outerjoin(tables.rewards, SAME_DECISION))
    .where(
        tables.decisions.c.experiment == sql.bindparam("experiment"),
        tables.decisions.c.serial.in_(sql.bindparam("serials", expanding=True)),
    )
)


def decision_row(values: Values) -> Row:
    """A decision as the learner has it, from a row of the table."""
    plain = {name: values[name] for name in Row._fields}
    return Row(**{**plain, "holdout": bool(values["holdout"])})


def past_row(values: Values, serial: int = -1) -> Row:
    """What the learner needs to observe a reward, from a row of rewards."""
    return Row(serial, 0, values["round"], values["player"], values["arm"], 0.0, False, 0.0, values["observed_at"])


def name_row(table: str, experiment: int, place: int, name: str, here: bool) -> dict[str, Any]:
    """A row of players or arms."""
    row: dict[str, Any] = {"experiment": experiment, "place": place, "name": name, "here": int(here)}
    row["digest"] = row_digest(table, row)
    return row


def read_names(connection: Connection, table: sql.Table, experiment: int) -> list[tuple[str, bool]]:
    """Names, and whether each is here, by place."""
    query = sql.select(table.c.name, table.c.here).where(table.c.experiment == experiment).order_by(table.c.place)
    return [(name, bool(here)) for name, here in connection.execute(query)]


def read_name(connection: Connection, table: sql.Table, experiment: int, place: int) -> str:
    """The name at a place."""
    query = sql.select(table.c.name).where(table.c.experiment == experiment, table.c.place == place)
    name = connection.execute(query).scalar()
    if name is None:
        raise Damaged(f"{table.name} of experiment {experiment} has nobody at place {place}")
    return str(name)


def read_log(connection: Connection, experiment: int, after: int, serial: int) -> list[tuple[str, Values]]:
    """The rows of the log after one of them, in order, each with its table; `serial` is the first new decision's."""
    found: list[tuple[str, Values]] = []
    for table, start in (
        (tables.decisions, tables.decisions.c.serial >= serial),
        (tables.rewards, tables.rewards.c.link > after),
        (tables.changes, tables.changes.c.link > after),
    ):
        query = sql.select(table).where(table.c.experiment == experiment, start)
        found += [(table.name, row) for row in connection.execute(query).mappings()]
    return sorted(found, key=lambda entry: entry[1]["link"])


def first_decision(connection: Connection, experiment: int, decisions: int, passes: Callable[[Any], bool]) -> int:
    """The serial number from which on decisions pass, found by halving the range.

    Both times and places in the log grow with the serial number, so neither needs an index.
    """
    low, high = 0, decisions
    while low < high:
        middle = (low + high) // 2
        found = connection.execute(NEXT_DECISION, {"experiment": experiment, "serial": middle}).first()
        if found is None or passes(found):
            high = middle
        else:
            low = found.serial + 1
    return low
