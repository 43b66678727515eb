"""Rows of the log, of players and of arms: how they are read, found and written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.learner.ledger import Row
from posse.service.storage import schema as tables
from posse.service.storage.errors import Damaged
from posse.service.storage.log_chain import Values, row_digest

PLAYER_CHANGES, ARM_CHANGES = ("join", "retire"), ("add arm", "retire arm")

INSERTS = {name: sql.insert(tables.metadata.tables[name]) for name in ("decisions", "rewards", "changes")}

_MADE, _GIVEN = tables.decisions.c, tables.rewards.c
_HERE = _MADE.experiment == sql.bindparam("experiment")
_FROM_SERIAL = sql.and_(_HERE, _MADE.serial >= sql.bindparam("serial"))
_ROW = [_MADE[name] for name in Row._fields]
SAME_DECISION = sql.and_(_GIVEN.experiment == _MADE.experiment, _GIVEN.serial == _MADE.serial)
_ANSWERED = sql.select(_GIVEN.serial).where(SAME_DECISION).scalar_subquery().label("answered")

NEXT_DECISION = (
    sql.select(_MADE.serial, _MADE.decided_at, _MADE.link).where(_FROM_SERIAL).order_by(_MADE.serial).limit(1)
)
KNOWN_KEYS = sql.select(_MADE.request_key).where(_HERE, _MADE.request_key.in_(sql.bindparam("keys", expanding=True)))
MADE_BEFORE = (  # bounded by serial numbers: times have no index, and the query would read all that are not yet due
    sql.select(*_ROW, _ANSWERED)
    .where(_FROM_SERIAL, _MADE.serial < sql.bindparam("until"), _MADE.decided_at < sql.bindparam("time"))
    .order_by(_MADE.serial)
)
WITH_REWARDS = (
    sql.select(*_ROW, _GIVEN.reward.label("given"), _GIVEN.defaulted)
    .select_from(tables.decisions.outerjoin(tables.rewards, SAME_DECISION))
    .where(_HERE, _MADE.serial.in_(sql.bindparam("serials", expanding=True)))
)


def decision_row(values: Values) -> Row:
    """A decision as the learner has it, from a row of the table."""
    row = Row(*(values[name] for name in Row._fields))
    return row._replace(holdout=bool(row.holdout), probabilities=values["probabilities"] or b"")


def with_availability(row: Row, offered: bytes | None) -> Row:
    """A decision whose probabilities are NaN for arms that were not offered, as the learner's log has it."""
    if offered is None:
        return row._replace(probabilities=b"")
    probabilities = np.frombuffer(row.probabilities, "<f8")
    available = np.unpackbits(np.frombuffer(offered, np.uint8), count=probabilities.size)
    return row._replace(probabilities=np.where(available, probabilities, np.nan).tobytes())


def stored_probabilities(row: Row) -> dict[str, bytes | None]:
    """The columns of the table for the probabilities of a row of the learner's log."""
    probabilities = np.frombuffer(row.probabilities, "<f8")
    offered = ~np.isnan(probabilities)
    stored = np.where(offered, probabilities, 0.0).tobytes(), np.packbits(offered).tobytes()
    return dict(zip(("probabilities", "offered"), stored if row.probabilities else (None, None), strict=True))


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
    for table in (tables.decisions, tables.rewards, tables.changes):
        is_new = table.c.serial >= serial if table is tables.decisions else table.c.link > after
        query = sql.select(table).where(table.c.experiment == experiment, is_new)
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
