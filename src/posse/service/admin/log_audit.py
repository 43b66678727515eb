"""An audit of one experiment's log: reads it row by row, checks the digests, and replays it."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import sqlalchemy as sql
from sqlalchemy import exc
from sqlalchemy.engine import Connection

from posse.service.storage import schema as tables
from posse.service.storage.live_experiment import LiveExperiment, first_state
from posse.service.storage.log_chain import Values, row_digest

TIMES = {"decisions": "decided_at", "rewards": "observed_at", "changes": "at"}


@dataclass(frozen=True)
class AuditFinding:
    """Something in the database that is not as it should be."""

    experiment: str
    """Its name; empty where it is not about one."""
    where: str
    """The table, and which row of it."""
    what: str
    """What was found, and what was expected."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.experiment and repr(self.experiment), self.where, self.what) if part)


AddFinding = Callable[[str, str], None]
"""Takes where something is wrong, and what."""


class LogAudit:
    """Goes through one experiment's log once."""

    def __init__(self, connection: Connection, row: Values, report: AddFinding) -> None:
        self.links = 0
        self.head: bytes = row["origin"]
        self.time: float = row["created_at"]
        self.whole = True  # so far
        self.live: LiveExperiment | None = None
        self._other = self.head  # what the last row's digest should be, where it is not
        self._connection = connection
        self._row = row
        self._report = report

    def run(self) -> None:
        """Go through the log; `live` is the experiment that it leads to, None if the log is damaged."""
        row, names = self._row, {}
        try:
            if row_digest("experiments", row) != row["origin"]:
                self._damaged("experiments", "name, setup, created_at, first_players, first_arms do not match origin")
        except (struct.error, TypeError, AttributeError) as error:
            self._damaged("experiments", f"a column of the set-up is not of its kind: {error}")
        for table in (tables.players, tables.arms):
            found = stored_rows(self._connection, table.name, row["id"], "place")
            names[table.name] = [one["name"] for one in found]
        rows = self._checked()
        try:
            start = {"links": 0, "head": row["origin"], "time": row["created_at"], "paused": 0}
            live = LiveExperiment({**row, **start}, first_state(row, names["arms"], names["players"]))
            live.replay(rows, lambda table, place: names[table.name][place])
        except exc.SQLAlchemyError:
            raise
        except Exception as error:  # a damaged log may fail anywhere; the digests then say why
            for _ in rows:
                pass
            if self.whole:
                self._damaged("log", f"cannot be replayed: {type(error).__name__}: {error}")
            return
        live.links, live.head, live.time = self.links, self.head, self.time
        self.live = live if self.whole else None

    def _damaged(self, where: str, what: str) -> None:
        self.whole = False
        self._report(where, what)

    def _checked(self) -> Iterator[tuple[str, Values]]:
        """The rows in order, each checked against the one before."""
        streams = [self._stream(table) for table in TIMES]
        for _, table, row in heapq.merge(*streams, key=lambda entry: entry[0]):
            self._check(table, row)
            yield table, row

    def _stream(self, table: str) -> Iterator[tuple[int, str, Values]]:
        order = "serial" if table == "decisions" else "link"  # which is the same order, but has an index
        for row in stored_rows(self._connection, table, self._row["id"], order):
            if not isinstance(row["link"], int):
                self._damaged(_place(table, row), f"link is {row['link']!r}, but expected a whole number")
            else:
                yield row["link"], table, row

    def _check(self, table: str, row: Values) -> None:
        place, link = _place(table, row), row["link"]
        follows = link == self.links + 1
        if link <= self.links:
            self._damaged(place, f"has link {link}, which another row has, or which is out of order")
        elif not follows:
            missing = f"row {link - 1} is" if link == self.links + 2 else f"rows {self.links + 1} to {link - 1} are"
            self._damaged("log", f"{missing} missing")
        try:
            expected = row_digest(table, row, self.head)
            given = bytes(row["digest"])
            if follows and expected != given and row_digest(table, row, self._other) != given:
                self._damaged(place, f"does not match its digest {given.hex()[:12]}…, expected {expected.hex()[:12]}…")
        except (struct.error, TypeError, AttributeError) as error:
            self._damaged(place, f"a column is not of its kind: {error}")
            expected = given = row["digest"] if isinstance(row["digest"], bytes) else b""
        self.head, self._other, self.links = given, expected, max(link, self.links)
        at = row[TIMES[table]]
        if isinstance(at, (int, float)):
            if at < self.time:
                self._damaged(place, f"{TIMES[table]} is {at!r}, before the row before it, {self.time!r}")
            self.time = max(at, self.time)


def stored_rows(connection: Connection, table: str, experiment: int | None, order: str) -> Iterator[Values]:
    """Rows as they are stored, a few at a time; no column type converts a wrong value into a right one."""
    where = "" if experiment is None else "WHERE experiment = :experiment"
    query = sql.text(f"SELECT * FROM {table} {where} ORDER BY {order}")
    options = {} if experiment is None else {"experiment": experiment}
    yield from connection.execute(query, options, execution_options={"yield_per": 1000}).mappings()


def _place(table: str, row: Values) -> str:
    key = "link" if table == "changes" else "serial"
    return f"{table}, {key} {row[key]}"


def first_few(findings: list[str], most: int = 10) -> list[str]:
    """The first few of many."""
    return findings if len(findings) <= most else [*findings[:most], f"and {len(findings) - most:,} more like these"]
