"""Logs out of the database and into it, as Parquet files that the learner reads and writes too.

A log may be long, so neither way has more than a part of its rows in memory.
"""

import dataclasses
import itertools
import math
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posse.checks import output_file
from posse.decision import parse_id
from posse.learner.ledger import Row
from posse.learner.log import check_rows, events_of, outcomes_of, read_about, row_of, values_of
from posse.learner.setup import Setup, check_names
from posse.service.commands import NO_LIMIT
from posse.service.storage import audit, database, log_rows, queries, sqlite_file
from posse.service.storage.live_experiment import LiveExperiment
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import Transaction, commit
from posse.text import plural

AT_ONCE = 10_000  # rows that are in memory on their way in

Entry = dict[str, Any]  # a row of a log, by the names of the learner's columns


def export_log(store: ServiceStore, name: str, path: Path) -> int:
    """Write an experiment's log to a Parquet file, which only its owner may read; return how many rows it has."""
    import pyarrow.parquet

    output_file(path, endings=(".parquet",))
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no file, but expected a file to write to")
    rows, part = 0, path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with database.reading(store.engine) as connection:
            tables = queries.log_tables(connection, name)
            first = next(tables)
            with (
                sqlite_file.private(part) as file,
                pyarrow.parquet.ParquetWriter(file, first.schema) as writer,
            ):
                for table in itertools.chain([first], tables):
                    writer.write_table(table)
                    rows += table.num_rows
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return rows


def import_log(store: ServiceStore, name: str, path: Path) -> queries.Experiment:
    """Begin an experiment with the log of a learner, or of an experiment elsewhere, from a Parquet file."""
    import pyarrow

    if not path.exists():
        raise ValueError(f"there is no file {path}")
    try:
        log = LogFile(path)
        setup = dataclasses.replace(Setup.from_dict(log.about["setup"]), waiting_limit=NO_LIMIT, keep_log=True)
        first = {**log.about["first"], "arms": check_names("arm", log.about["first"]["arms"])}
        first["players"] = check_names("player", first["players"])
        imported: queries.Experiment = commit(store, ImportLog(name, setup, first, log))
    except (KeyError, AttributeError, struct.error, pyarrow.ArrowException) as error:
        raise ValueError(f"{path} is not a log that this posse can read: {error!r}") from None
    return imported


class RewardEntry(NamedTuple):
    """What an import needs to know of a row of the log when its reward comes."""

    serial: int  # −1 for a reward of the past
    tag: int
    round: int
    observed: int  # the number of the event that brought it; 0 if nothing has come
    player: int  # a place in the names of the file
    arm: int  # likewise
    reward: float
    decided_at: float
    observed_at: float
    defaulted: bool


class LogFile:
    """A learner's log in a Parquet file. Of each row a few numbers are in memory; the rest is read when it is due."""

    NUMBERS = np.dtype(
        list(zip(RewardEntry._fields, (*[np.int64] * 4, *[np.int32] * 2, *[float] * 3, bool), strict=True))
    )

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet

        self._path = path
        self.names: list[str] = []  # of players and arms; `player` and `arm` are places in it
        with pyarrow.parquet.ParquetFile(path) as file:
            self.about, self._columns = read_about(file.schema_arrow)
            self.numbers = np.zeros(file.metadata.num_rows, self.NUMBERS)
            self._read(file.iter_batches(AT_ONCE, columns=[one for one in self._columns if one != "probabilities"]))
        serials = self.numbers["serial"]
        check_rows(self.about, len(serials), len(np.unique(serials[serials >= 0])))
        self._order = np.lexsort((serials, self.numbers["round"]))  # in which decisions were made
        observed = self.numbers["observed"][self._order]
        by_event = np.argsort(observed, kind="stable")
        self._events = observed[by_event]
        self._by_event = self._order[by_event]

    def _read(self, batches: Iterator[Any]) -> None:
        places: dict[str, int] = {}
        start = 0
        for batch in batches:
            self.numbers[start : start + len(batch)] = [_numbers(entry, places) for entry in batch.to_pylist()]
            start += len(batch)
        self.names = list(places)

    def first_time(self, otherwise: float) -> float:
        """When something happened first; `otherwise` if nothing has."""
        first = min(
            float(np.fmin.reduce(self.numbers[name], initial=math.inf)) for name in ("decided_at", "observed_at")
        )
        return first if math.isfinite(first) else otherwise

    def rewards(self, event: int) -> list[RewardEntry]:
        """The rewards that an event brought, in the order of their decisions."""
        start, stop = np.searchsorted(self._events, (event, event + 1))
        return [RewardEntry(*row) for row in self.numbers[self._by_event[start:stop]].tolist()]

    def decisions(self) -> Iterator[Entry]:
        """The decisions, in order."""
        for batch in self._batches():
            yield from (entry for entry in batch.to_pylist() if entry["decision"] is not None)

    def _batches(self) -> Iterator[Any]:
        import pyarrow.parquet

        if (np.diff(self._order) == 1).all():
            with pyarrow.parquet.ParquetFile(self._path) as file:
                yield from file.iter_batches(AT_ONCE, columns=self._columns)
        else:  # somebody has sorted it: that takes memory
            yield from (
                pyarrow.parquet.read_table(self._path, columns=self._columns).take(self._order).to_batches(AT_ONCE)
            )


def _numbers(entry: Entry, places: dict[str, int]) -> RewardEntry:
    serial, tag = (-1, 0) if entry["decision"] is None else parse_id(entry["decision"])
    player, arm = (places.setdefault(entry[name], len(places)) for name in ("player", "arm"))
    observed = 0 if entry["reward"] is None else entry["observed"] or 0
    values = [math.nan if entry[name] is None else entry[name] for name in ("reward", "decided_at", "observed_at")]
    made = (serial, tag, entry["round"], observed, player, arm, *values, bool(entry["defaulted"]))
    return RewardEntry._make(made)


class ImportLog(NamedTuple):
    """Begin an experiment with the log of a learner, or of an experiment elsewhere. Result: the `Experiment`.

    Only for `commit`, which undoes all of it if the log turns out to be wrong halfway; not for the writer's groups.
    """

    experiment: str
    setup: Setup
    first: dict[str, list[Any]]  # the arms and players that were there at the beginning, and the players' attributes
    log: LogFile
    by: str = audit.COMMAND_LINE

    def apply(self, transaction: Transaction) -> queries.Experiment:
        began = self.log.first_time(float(transaction.clock()))
        live = transaction.create(self.experiment, self.setup, self.first, began)
        _LogImport(transaction, live, self.log).run(self.log.about)
        transaction.note(self.by, "import", live.name, plural(live.state.decisions, "decision"))
        return transaction.describe(self.experiment)


class _LogImport:
    """A log on its way into an experiment.

    The log does not say in which order decisions and events alternated, but a possible order is easy to find. Before an
    event come the decisions of an earlier time, those that it answers and all with smaller serial numbers, and those of
    earlier rounds than it records.
    """

    def __init__(self, transaction: Transaction, live: LiveExperiment, log: LogFile) -> None:
        self.connection, self.live, self.log = transaction.connection, live, log
        self.decisions = log.decisions()  # still to be written, after the next
        self.next = next(self.decisions, None)
        self.written = 0  # rows of the experiment's log

    def run(self, about: dict[str, Any]) -> None:
        live, state = self.live, self.live.state
        for change, entries in events_of(about, self.log.rewards):
            if change is None:
                self._observe(entries)
            elif change["kind"] == "shares":
                self._set_shares(change["shares"], change["rounds"])
            else:
                rest = change["knows_others"], values_of(state.setup, change), change.get("outcome")
                live.change(change["kind"], change["name"], live.time, *rest)
        self._write_decisions(lambda _: True)
        if state.rounds != about["rounds"]:
            state.rounds = about["rounds"]
            live.append_change("rounds", state.rounds, live.time)
        if state.decisions != about["decisions"]:
            raise ValueError(f"the log has {state.decisions} decisions, but says {about['decisions']}")

    def _set_shares(self, shares: Any, rounds: int) -> None:
        self._write_decisions(lambda entry: entry["round"] <= rounds)
        self.live.set_shares(shares, self.live.time, rounds)

    def _observe(self, entries: list[RewardEntry]) -> None:
        state, at = self.live.state, entries[0].observed_at
        round_ = max((entry.round for entry in entries if entry.serial < 0), default=0)
        serial = max(entry.serial for entry in entries)
        self._write_decisions(
            lambda entry: entry["decided_at"] < at or entry["round"] < round_ or state.decisions <= serial
        )
        self._check_time(at)
        state.rounds = max(state.rounds, round_)
        check = state.setup.check_reward
        answered = [(self._row(entry), check("reward in the log", entry.reward)) for entry in entries]
        self.live.observe(answered, at, entries[0].defaulted)
        self._write()

    def _check_time(self, at: float) -> None:
        """An error if time goes back: such a log could not be verified, nor rebuilt."""
        if not at >= self.live.time:
            raise ValueError(f"something happened at {at!r}, but something before it at {self.live.time!r}")

    def _row(self, entry: RewardEntry) -> Row:
        """The decision, or the reward of the past, as far as it matters to its reward."""
        state, names = self.live.state, self.log.names
        player, arm = state.player_roster.place(names[entry.player]), state.arm_roster.place(names[entry.arm])
        return Row(entry.serial, entry.tag, entry.round, player, arm, 0.0, False, 0.0, entry.decided_at)

    def _write_decisions(self, is_earlier: Callable[[Entry], bool]) -> None:
        """Write the next decisions down, as long as they are earlier."""
        while self.next is not None and is_earlier(self.next):
            row = row_of(self.live.state, self.next)
            if row.serial < self.live.state.decisions:
                raise ValueError(f"decision {self.next['decision']} comes after one that was made later")
            self._check_time(row.decided_at)
            self.live.state.rounds, self.live.state.decisions = row.round, row.serial + 1
            stored = log_rows.stored_probabilities(row)
            self.live.append_decision(row, **stored, restricted=0, position=0)
            if values := outcomes_of(self.live.state, self.next):
                self.live.state.guard.add(values)
                self.live.append_outcomes(values, self.live.time)
            self._write()
            self.next = next(self.decisions, None)

    def _write(self) -> None:
        """Write to the database and forget, once there is much."""
        if self.live.links - self.written > AT_ONCE:
            self.live.write_log(self.connection)
            self.live.recent.trim()
            self.written = self.live.links
