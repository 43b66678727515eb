"""Check a database against its logs, and rebuild everything that follows from the logs."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.service.admin.log_audit import AddFinding, AuditFinding, LogAudit, first_few, stored_rows
from posse.service.storage import database
from posse.service.storage import schema as tables
from posse.service.storage.errors import Damaged, UnknownExperiment
from posse.service.storage.live_experiment import LiveExperiment
from posse.service.storage.log_chain import Values, row_digest
from posse.service.storage.pair_statistics import PairStatistics, all_rows, number_names, summary_of
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import Transaction, commit, handle


def verify(store: ServiceStore, name: str | None = None) -> list[AuditFinding]:
    """Replay the log of one experiment or of all, check its digests, and compare with everything beside it."""
    findings: list[AuditFinding] = []

    def about(experiment: str) -> AddFinding:
        return lambda where, what: findings.append(AuditFinding(experiment, where, what))

    try:
        with database.reading(store.engine) as connection:
            _check_file(connection, about(""))
            for row in _experiments(connection, name):
                _verify(connection, row, about(str(row["name"])))
            if name is None:
                _check_orphans(connection, about(""))
                _check_tokens(connection, about(""))
    except UnknownExperiment:
        raise
    except Exception as error:  # a damaged file may fail anywhere
        about("")("database", f"cannot be read: {error}")
    return findings


def _experiments(connection: Connection, name: str | None) -> list[Values]:
    rows: list[Values] = [dict(row) for row in stored_rows(connection, "experiments", None, "id")]
    if name is None:
        return rows
    chosen = [row for row in rows if row["name"] == name]
    if not chosen:
        raise UnknownExperiment(f"no experiment {name!r}")
    return chosen


def _check_file(connection: Connection, report: AddFinding) -> None:
    """SQLite's own look at its pages and indexes."""
    if connection.dialect.name != "sqlite":
        return
    for (line,) in connection.exec_driver_sql("PRAGMA integrity_check(20)"):
        if line != "ok":
            report("database file", str(line).replace("\n", " "))


def _verify(connection: Connection, row: Values, report: AddFinding) -> None:
    """One experiment."""
    _check_names(connection, row, report)
    audit = LogAudit(connection, row, report)
    audit.run()
    if audit.links != row["links"] or audit.head != row["head"]:
        ends = f"ends with row {audit.links}, digest {audit.head.hex()[:12]}…"
        expected = f"but its head is row {row['links']}, digest {_hex(row['head'])}…"
        report("log", f"{ends}, {expected}" + (" (its end is missing)" if audit.links < row["links"] else ""))
    _check_answers(connection, row, report)
    if audit.live is None:
        report("stats", "not compared, because the log is damaged")
        return
    _compare(connection, row, audit.live, report)


def _compare(connection: Connection, row: Values, live: LiveExperiment, report: AddFinding) -> None:
    """What stands beside the log, against what the log leads to."""
    state = live.state
    for column, expected in (live.progress() | {"summary": summary_of(state)}).items():
        if row[column] != expected and column not in ("links", "head"):
            report("experiments", f"{column} is {_shown(row[column])}, but the log says {_shown(expected)}")
    for table, roster in (("players", state.player_roster), ("arms", state.arm_roster)):
        found = {one["place"]: one["here"] for one in stored_rows(connection, table, row["id"], "place")}
        if len(found) != len(roster.names):
            report(table, f"there are {len(found)}, but the log speaks of {len(roster.names)}")
        for place, here in enumerate(roster.here.tolist()):
            if place in found and found[place] != int(here):
                report(f"{table}, place {place}", f"here is {found[place]!r}, but the log says {int(here)}")
    for what in first_few(_wrong_pairs(connection, row["id"], live)):
        report("stats", what)


def _wrong_pairs(connection: Connection, experiment: int, live: LiveExperiment) -> list[str]:
    """Where the stats differ from what the log leads to."""
    wanted = {(pair["player"], pair["arm"]): pair for pair in all_rows(experiment, live.state)}
    wrong, names = [], number_names(live.state)
    for row in stored_rows(connection, "stats", experiment, "player, arm"):
        pair = wanted.pop((row["player"], row["arm"]), None)
        place = f"player {row['player']}, arm {row['arm']}"
        if pair is None:
            wrong.append(f"{place}: there is a row, but the log speaks of no such pair")
            continue
        for column in ("pulls", "waiting"):
            if row[column] != pair[column]:
                wrong.append(f"{place}: {column} is {row[column]!r}, but the log says {pair[column]!r}")
        if row["numbers"] != pair["numbers"]:
            wrong.append(f"{place}: {_first_difference(row['numbers'], pair['numbers'], names)}")
    return wrong + [f"player {player}, arm {arm}: the row is missing" for player, arm in wanted]


def _first_difference(stored: Any, expected: bytes, names: list[str]) -> str:
    """Which number of a pair is not what the log says."""
    if not isinstance(stored, bytes) or len(stored) != len(expected):
        return f"there are {_shown(stored)} of numbers, but {', '.join(names)} take {len(expected)} bytes"
    for place, name in enumerate(names):
        kind = "<d" if name.startswith("seen ") else "<q"
        (found,), (wanted,) = (struct.unpack_from(kind, numbers, 8 * place) for numbers in (stored, expected))
        if stored[8 * place : 8 * place + 8] != expected[8 * place : 8 * place + 8]:
            return f"{name} is {found!r}, but the log says {wanted!r}"
    return "the same"


def _check_names(connection: Connection, row: Values, report: AddFinding) -> None:
    for table in ("players", "arms"):
        places = []
        for one in stored_rows(connection, table, row["id"], "place"):
            places.append(one["place"])
            if not _matches(table, one):
                report(f"{table}, place {one['place']}", f"the name {one['name']!r} does not match its digest")
        if places != list(range(len(places))):
            report(table, f"places {places[:20]}, but expected 0 to {len(places) - 1}")


def _check_answers(connection: Connection, row: Values, report: AddFinding) -> None:
    """Every reward of a decision belongs to one that was made, for the same player and arm."""
    query = sql.text(
        "SELECT r.serial, r.player, r.arm, d.player AS its_player, d.arm AS its_arm FROM rewards r LEFT JOIN "
        "decisions d ON d.experiment = r.experiment AND d.serial = r.serial WHERE r.experiment = :experiment AND "
        "r.serial >= 0 AND (d.serial IS NULL OR d.player <> r.player OR d.arm <> r.arm) ORDER BY r.serial"
    )
    wrong = [
        f"serial {one.serial} is for player {one.player} and arm {one.arm}, but "
        + ("there is no such decision" if one.its_player is None else f"decided was {one.its_player}, {one.its_arm}")
        for one in connection.execute(query, {"experiment": row["id"]})
    ]
    for what in first_few(wrong):
        report("rewards", what)


def _check_orphans(connection: Connection, report: AddFinding) -> None:
    for table in ("players", "arms", "decisions", "rewards", "changes", "stats"):
        query = sql.text(
            f"SELECT experiment, count(*) AS rows FROM {table} WHERE experiment NOT IN (SELECT id FROM experiments) "
            "GROUP BY experiment ORDER BY experiment"
        )
        for one in connection.execute(query).mappings():
            report(table, f"{one['rows']} rows belong to experiment {one['experiment']!r}, which there is not")


def _check_tokens(connection: Connection, report: AddFinding) -> None:
    for row in stored_rows(connection, "tokens", None, "id"):
        if not _matches("tokens", row):
            report(f"tokens, id {row['id']}", "does not match its digest")


def _matches(table: str, row: Values) -> bool:
    """Whether a row has the digest that it should have; no, if a column is not of its kind."""
    try:
        return bool(row_digest(table, row) == row["digest"])
    except (struct.error, TypeError, AttributeError):
        return False


def _hex(value: Any) -> str:
    return value.hex()[:12] if isinstance(value, bytes) else repr(value)


def _shown(value: Any) -> str:
    return f"{len(value)} bytes, {value.hex()[:12]}…" if isinstance(value, bytes) else repr(value)


# ---------------------------------------------------------------- rebuild


class Rebuild(NamedTuple):
    """Make everything beside an experiment's log anew from the log."""

    experiment: str


def rebuild(store: ServiceStore, name: str | None = None) -> list[str]:
    """Make everything beside the log anew from it, in one experiment or in all; return their names.

    The log itself cannot be rebuilt: if it is damaged, an error says how, and nothing changes.
    """
    names = [name] if name is not None else [str(row["name"]) for row in store.read(_experiments, None)]
    for one in names:
        commit(store, Rebuild(one))
    return names


@handle.register
def _rebuild(command: Rebuild, transaction: Transaction) -> None:
    connection, name, table = transaction.connection, command.experiment, tables.experiments
    connection.execute(sql.select(table.c.id).where(table.c.name == name).with_for_update())
    row = _experiments(connection, name)[0]
    found: list[AuditFinding] = []
    audit = LogAudit(connection, row, lambda where, what: found.append(AuditFinding(name, where, what)))
    audit.run()
    if audit.live is None or audit.links < row["links"]:
        first = found[0] if found else f"it ends with row {audit.links} of {row['links']}"
        raise Damaged(f"the log of {name!r} is damaged, restore a backup: {first}")
    live = audit.live
    connection.execute(sql.delete(tables.stats).where(tables.stats.c.experiment == live.id))
    for kind, roster in ((tables.players, live.state.player_roster), (tables.arms, live.state.arm_roster)):
        for place, here in enumerate(roster.here.tolist()):
            same = sql.and_(kind.c.experiment == live.id, kind.c.place == place)
            connection.execute(sql.update(kind).where(same), {"here": int(here)})
    live.statistics = PairStatistics()
    live.append_change("rebuild", 0, audit.time)  # so that other processes load everything anew
    live.write(connection)
