"""Check a database against its logs."""

import heapq
import json
import logging
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import sqlalchemy as sql
from sqlalchemy import exc
from sqlalchemy.engine import Connection

from posse.learner.setup import Setup
from posse.learner.state import LearnerState
from posse.service.storage import database, errors, log_rows, pair_statistics
from posse.service.storage.keyed_requests import NO_EXPERIMENT, checksum
from posse.service.storage.lifecycle import Life
from posse.service.storage.live_experiment import LiveExperiment
from posse.service.storage.log_replay import replay
from posse.service.storage.schema import metadata
from posse.service.storage.store import ServiceStore

TIMES = {"decisions": "decided_at", "rewards": "observed_at", "changes": "at", "outcomes": "observed_at"}
NOT_OF_ITS_KIND = (struct.error, TypeError, AttributeError)  # what a digest says of a wrong value in a column
LOGGER = logging.getLogger("posse.service")
TELL_SECONDS = 5  # after which the log of the service says how far a long log is read
MOST_LISTED = 10  # findings that are alike


@dataclass(frozen=True)
class AuditFinding:
    """Something in the database that is not as it should be."""

    experiment: str  # its name; empty where it is not about one
    where: str  # the table, and which row of it
    what: str  # what was found, and what was expected

    def __str__(self) -> str:
        return ": ".join(part for part in (self.experiment and repr(self.experiment), self.where, self.what) if part)


AddFinding = Callable[[str, str], None]  # takes where something is wrong, and what


def verify(store: ServiceStore, name: str | None = None) -> list[AuditFinding]:
    """Replay the log of one experiment or of all, check its digests, and compare with everything beside it."""
    findings: list[AuditFinding] = []

    def about(experiment: str) -> AddFinding:
        return lambda where, what: findings.append(AuditFinding(experiment, where, what))

    try:
        with database.reading(store.engine) as connection:
            _check_file(connection, about(""))
            for row in stored_experiments(connection, name):
                _verify(LogAudit(connection, row, about(str(row["name"]))))
            if name is None:
                _check_orphans(connection, about(""))
                for table in ("tokens", "audit"):
                    _check_digests(connection, table, None, "id", about(""))
                _check_digests(connection, "requests", NO_EXPERIMENT, "key", about(""))
    except errors.UnknownExperiment:
        raise
    except Exception as error:  # a damaged file may fail anywhere
        about("")("database", f"cannot be read: {error}")
    return findings


def _stored_rows(
    connection: Connection, table: str, experiment: int | None, order: str, after: int | None = None
) -> Iterator[log_rows.Values]:
    """Rows as they are stored, a few at a time; no column type converts a wrong value into a right one."""
    where = {"experiment =": experiment, f"{order} >": after}
    given = {f"value{number}": value for number, value in enumerate(where.values()) if value is not None}
    terms = [f"{what} :value{number}" for number, what in enumerate(where) if f"value{number}" in given]
    query = sql.text(f"SELECT * FROM {table} {'WHERE' if terms else ''} {' AND '.join(terms)} ORDER BY {order}")
    yield from connection.execute(query, given, execution_options={"yield_per": 1000}).mappings()


def stored_experiments(connection: Connection, name: str | None) -> list[log_rows.Values]:
    rows: list[log_rows.Values] = [dict(row) for row in _stored_rows(connection, "experiments", None, "id")]
    chosen = [row for row in rows if name in (None, row["name"])]
    if name is not None and not chosen:
        raise errors.UnknownExperiment(f"no experiment {name!r}")
    return chosen


# ---------------------------------------------------------------- the log


class LogAudit:
    """One experiment's log: reads it row by row, checks the digests, and replays it."""

    def __init__(self, connection: Connection, row: log_rows.Values, report: AddFinding) -> None:
        self.row, self.report = row, report
        self.links = 0
        self.head: bytes = row["origin"]
        self.time: float = row["created_at"]
        self.whole = True  # so far
        self.live: LiveExperiment | None = None
        self._other = self.head  # what the last row's digest should be, where it is not
        self._look(connection)

    def _look(self, connection: Connection) -> None:
        self.connection = connection
        tables = ("players", "arms")
        self.names = {table: list(_stored_rows(connection, table, self.row["id"], "place")) for table in tables}

    def run(self) -> LiveExperiment | None:
        """Go through the log; return the experiment that it leads to, None if the log is damaged."""
        row = self.row
        try:
            if log_rows.row_digest("experiments", row) != row["origin"]:
                self._damaged("experiments", "name, setup, created_at, first_players, first_arms do not match origin")
        except NOT_OF_ITS_KIND as error:
            self._damaged("experiments", f"a column of the set-up is not of its kind: {error}")
        return self._replay(self._begin)

    def go_on(self, connection: Connection) -> LiveExperiment | None:
        """Go through the rows that have come since, on another connection."""
        self._look(connection)
        return self._replay(lambda: self.live)

    def _begin(self) -> LiveExperiment:
        """The experiment before the first row of the log, with those arms and players that were there then."""
        row, setup = self.row, Setup.from_dict(json.loads(self.row["setup"]))
        players, arms = self.names["players"][: row["first_players"]], self.names["arms"][: row["first_arms"]]
        values = [log_rows.parse_values(setup.attributes, player["attributes"]) for player in players]
        state = LearnerState(setup, [arm["name"] for arm in arms], [player["name"] for player in players], values)
        start = {"links": 0, "rewards": 0, "head": row["origin"], "time": row["created_at"], **Life().columns()}
        return LiveExperiment({**row, **start}, state)

    def _replay(self, begin: Callable[[], LiveExperiment | None]) -> LiveExperiment | None:
        rows = self._checked()
        try:
            live = begin()
            assert live is not None
            replay(live, rows, lambda table, place: self.names[table][place])
        except exc.SQLAlchemyError:
            raise
        except Exception as error:  # a damaged log may fail anywhere; the digests then say why
            for _ in rows:
                pass
            if self.whole:
                self._damaged("log", f"cannot be replayed: {type(error).__name__}: {error}")
            return None
        live.links, live.head, live.time = self.links, self.head, self.time
        self.live = live if self.whole else None
        return self.live

    def _damaged(self, where: str, what: str) -> None:
        self.whole = False
        self.report(where, what)

    def _checked(self) -> Iterator[tuple[str, log_rows.Values]]:
        """The rows in order, each checked against the one before."""
        tell_at = time.monotonic() + TELL_SECONDS
        for _, table, row in heapq.merge(*map(self._stream, TIMES), key=lambda entry: entry[0]):
            self._check(table, row)
            yield table, row
            if self.links % 1000 == 0 and time.monotonic() > tell_at:
                tell_at += TELL_SECONDS
                LOGGER.info("experiment %r: row %d of %s of its log", self.row["name"], self.links, self.row["links"])

    def _stream(self, table: str) -> Iterator[tuple[int, str, log_rows.Values]]:
        order, after = "link", None if self.live is None else self.links
        if table == "decisions":  # which have no index of links, but serial numbers have the same order
            order, after = "serial", None if self.live is None else self.live.state.decisions - 1
        for row in _stored_rows(self.connection, table, self.row["id"], order, after):
            if not isinstance(row["link"], int):
                self._damaged(_place(table, row), f"link is {row['link']!r}, but expected a whole number")
            else:
                yield row["link"], table, row

    def _check(self, table: str, row: log_rows.Values) -> None:
        place, link = _place(table, row), row["link"]
        follows = link == self.links + 1
        if link <= self.links:
            self._damaged(place, f"has link {link}, which another row has, or which is out of order")
        elif not follows:
            missing = f"row {link - 1} is" if link == self.links + 2 else f"rows {self.links + 1} to {link - 1} are"
            self._damaged("log", f"{missing} missing")
        try:
            expected = log_rows.row_digest(table, row, self.head)
            given = bytes(row["digest"])
            if row.get("request_key") == "":  # erased, so that only the rows after it can be checked
                expected = given
            if follows and expected != given and log_rows.row_digest(table, row, self._other) != given:
                self._damaged(place, f"does not match its digest {given.hex()[:12]}…, expected {expected.hex()[:12]}…")
        except NOT_OF_ITS_KIND as error:
            self._damaged(place, f"a column is not of its kind: {error}")
            expected = given = row["digest"] if isinstance(row["digest"], bytes) else b""
        self.head, self._other, self.links = given, expected, max(link, self.links)
        at = row[TIMES[table]]
        if isinstance(at, (int, float)):
            if at < self.time:
                self._damaged(place, f"{TIMES[table]} is {at!r}, before the row before it, {self.time!r}")
            self.time = max(at, self.time)


def _place(table: str, row: log_rows.Values) -> str:
    key = "link" if table == "changes" else "serial"
    return f"{table}, {key} {row[key]}"


# ---------------------------------------------------------------- what stands beside it


def _verify(audit: LogAudit) -> None:
    row, report = audit.row, audit.report
    _check_names(audit)
    _check_digests(audit.connection, "requests", row["id"], "key", report)
    live = audit.run()
    if audit.links != row["links"] or audit.head != row["head"]:
        head = row["head"].hex()[:12] if isinstance(row["head"], bytes) else repr(row["head"])
        ends = f"ends with row {audit.links}, digest {audit.head.hex()[:12]}…"
        expected = f"but its head is row {row['links']}, digest {head}…"
        report("log", f"{ends}, {expected}" + (" (its end is missing)" if audit.links < row["links"] else ""))
    for table in ("rewards", "outcomes"):
        _report_first(table, _wrong_answers(audit, table), report)
    if live is None:
        report("stats", "not compared, because the log is damaged")
        return
    for column, wanted in live.progress().items():
        if row[column] != wanted and column not in ("links", "head"):
            report("experiments", f"{column} is {_shown(row[column])}, but the log says {_shown(wanted)}")
    for table, roster in (("players", live.state.player_roster), ("arms", live.state.arm_roster)):
        found = {one["place"]: one["here"] for one in audit.names[table]}
        if len(found) != len(roster.names):
            report(table, f"there are {len(found)}, but the log speaks of {len(roster.names)}")
        for place, here in enumerate(roster.here.tolist()):
            if place in found and found[place] != int(here):
                report(f"{table}, place {place}", f"here is {found[place]!r}, but the log says {int(here)}")
    _report_first("stats", _wrong_rows(audit, "stats", pair_statistics.all_rows(live.id, live.state)), report)
    _check_summary(audit, live)
    tallies = pair_statistics.tally_rows(live.id, live.state.guard)
    _report_first("outcome_stats", _wrong_rows(audit, "outcome_stats", tallies), report)


def _report_first(where: str, wrong: list[str], report: AddFinding) -> None:
    """Report the first few of many findings."""
    for what in wrong[:MOST_LISTED]:
        report(where, what)
    if len(wrong) > MOST_LISTED:
        report(where, f"and {len(wrong) - MOST_LISTED:,} more like these")


def _check_names(audit: LogAudit) -> None:
    for table, rows in audit.names.items():
        for row in rows:
            if not _matches(table, row):
                audit.report(f"{table}, place {row['place']}", f"the name {row['name']!r} does not match its digest")
        places = [row["place"] for row in rows]
        if places != list(range(len(places))):
            audit.report(table, f"places {places[:20]}, but expected 0 to {len(places) - 1}")


def _wrong_answers(audit: LogAudit, table: str) -> list[str]:
    """Rewards or outcomes of decisions that were not made, or for another player or arm."""
    query = sql.text(
        f"SELECT r.serial, r.player, r.arm, d.player AS its_player, d.arm AS its_arm FROM {table} r LEFT JOIN "
        "decisions d ON d.experiment = r.experiment AND d.serial = r.serial WHERE r.experiment = :experiment AND "
        "r.serial >= 0 AND (d.serial IS NULL OR d.player <> r.player OR d.arm <> r.arm) ORDER BY r.serial"
    )
    return [
        f"serial {one.serial} is for player {one.player} and arm {one.arm}, but "
        + ("there is no such decision" if one.its_player is None else f"decided was {one.its_player}, {one.its_arm}")
        for one in audit.connection.execute(query, {"experiment": audit.row["id"]})
    ]


def _wrong_rows(audit: LogAudit, table: str, wanted: list[dict[str, Any]]) -> list[str]:
    """Where a table beside the log differs from the rows that the log leads to."""
    key = [column.name for column in metadata.tables[table].primary_key if column.name != "experiment"]
    expected = {", ".join(f"{name} {row[name]}" for name in key): row for row in wanted}
    wrong = []
    for row in _stored_rows(audit.connection, table, audit.row["id"], ", ".join(key)):
        place = ", ".join(f"{name} {row[name]}" for name in key)
        right = expected.pop(place, None)
        if right is None:
            wrong.append(f"{place}: there is a row, but the log speaks of no such pair, or of one without data")
            continue
        for name in (name for name in right if row[name] != right[name]):
            wrong.append(f"{place}: {name} is {_shown(row[name])}, but the log says {_shown(right[name])}")
    return wrong + [f"{place}: the row is missing" for place in expected]


def _check_summary(audit: LogAudit, live: LiveExperiment) -> None:
    found, joined = None, 0
    for row in _stored_rows(audit.connection, "summaries", live.id, "experiment"):
        found, joined = row["content"], live.state.waiting.shape[1] - row["players"]
    wanted = pair_statistics.summary_of(live.state, joined) or None
    if joined < 0:
        audit.report("summaries", f"there are {-joined} players more than the log speaks of")
    if found != wanted:
        audit.report("summaries", f"content is {_shown(found)}, but the log says {_shown(wanted)}")


def _shown(value: Any) -> str:
    """A value of a column; of bytes, how many and their digest."""
    return f"{len(value)} bytes, {sha256(value).hexdigest()[:12]}…" if isinstance(value, bytes) else repr(value)


def _matches(table: str, row: log_rows.Values) -> bool:
    """Whether a row has the digest that it should have; no, if a column is not of its kind."""
    try:
        if table == "requests":
            return checksum(**{name: row[name] for name in row if name != "checksum"}) == row["checksum"]
        return bool(log_rows.row_digest(table, row) == row["digest"])
    except NOT_OF_ITS_KIND:
        return False


# ---------------------------------------------------------------- what belongs to no experiment


def _check_file(connection: Connection, report: AddFinding) -> None:
    """SQLite's own look at its pages and indexes."""
    if connection.dialect.name != "sqlite":
        return
    for (line,) in connection.exec_driver_sql("PRAGMA integrity_check(20)"):
        if line != "ok":
            report("database file", str(line).replace("\n", " "))


def _check_orphans(connection: Connection, report: AddFinding) -> None:
    for table in [table.name for table in metadata.sorted_tables if "experiment" in table.c and table.name != "audit"]:
        query = sql.text(
            f"SELECT experiment, count(*) AS rows FROM {table} "
            "WHERE experiment IS NOT NULL AND experiment NOT IN (SELECT id FROM experiments) "
            f"AND ({NO_EXPERIMENT}, 'requests') <> (experiment, '{table}') GROUP BY experiment ORDER BY experiment"
        )
        for one in connection.execute(query).mappings():
            report(table, f"{one['rows']} rows belong to experiment {one['experiment']!r}, which there is not")


def _check_digests(connection: Connection, table: str, experiment: int | None, key: str, report: AddFinding) -> None:
    for row in _stored_rows(connection, table, experiment, key):
        if not _matches(table, row):
            report(f"{table}, {key} {row[key]}", "does not match its digest or checksum")
