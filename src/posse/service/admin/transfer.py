"""Logs out of the database and into it, as Parquet files that the learner reads and writes too."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any, NamedTuple

from posse.checks import output_file
from posse.learner.ledger import parse_id
from posse.learner.log import read, row_of
from posse.learner.setup import Setup, check_names
from posse.service.storage import log_rows, queries
from posse.service.storage.live_experiment import LiveExperiment
from posse.service.storage.queries import Experiment
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import NO_LIMIT, Transaction, commit, handle

AT_ONCE = 10_000  # rows that are kept in memory on their way in


class ImportLog(NamedTuple):
    """Begin an experiment with the log of a learner, or of an experiment elsewhere. Result: the `Experiment`.

    Only for `commit`, which undoes all of it if the log turns out to be wrong halfway; not for the writer's groups.
    """

    experiment: str
    setup: Setup
    arms: list[str]
    """Those that were there at the beginning."""
    players: list[str]
    about: dict[str, Any]
    """What the log says of itself."""
    entries: list[dict[str, Any]]


def export_log(store: ServiceStore, name: str, path: Path) -> int:
    """Write an experiment's log to a Parquet file; return how many rows it has."""
    import pyarrow.parquet

    output_file(path)
    table = store.read(queries.log_table, name)
    pyarrow.parquet.write_table(table, path)
    return int(table.num_rows)


def import_log(store: ServiceStore, name: str, path: Path) -> Experiment:
    """Begin an experiment with the log of a learner, or of an experiment elsewhere, from a Parquet file."""
    import pyarrow.parquet

    if not path.exists():
        raise ValueError(f"there is no file {path}")
    try:
        about, entries = read(pyarrow.parquet.read_table(path))
        setup = dataclasses.replace(Setup.from_dict(about["setup"]), waiting_limit=NO_LIMIT, keep_log=True)
        arms, players = check_names("arm", about["first"]["arms"]), check_names("player", about["first"]["players"])
    except (KeyError, pyarrow.ArrowException) as error:
        raise ValueError(f"{path} is not a log that this posse can read: {error!r}") from None
    imported: Experiment = commit(store, ImportLog(name, setup, arms, players, about, entries))
    return imported


@handle.register
def _import(command: ImportLog, transaction: Transaction) -> Experiment:
    name, setup, arms, players, about, entries = command
    times = [time for entry in entries for time in (entry["decided_at"], entry["observed_at"]) if time is not None]
    created_at = min(times, default=float(transaction.clock()))
    live = transaction.create(name, setup, arms, players, created_at)
    _LogImport(transaction, live, about, entries).run()
    return transaction.describe(name)


class _LogImport:
    """A log on its way into an experiment.

    The log does not say in which order decisions and events alternated, but a possible order is easy to find. Before an
    event come the decisions of an earlier time, those that it answers and all with smaller serial numbers, and those of
    earlier rounds than it records.
    """

    def __init__(
        self, transaction: Transaction, live: LiveExperiment, about: dict[str, Any], entries: list[dict[str, Any]]
    ) -> None:
        self.connection, self.live, self.about = transaction.connection, live, about
        self.decisions = [entry for entry in entries if entry["decision"] is not None]
        answered = [entry for entry in entries if entry["reward"] is not None]
        answered.sort(key=lambda entry: entry["observed"])
        self.events = {
            event: list(group) for event, group in itertools.groupby(answered, key=lambda entry: entry["observed"])
        }
        self.changes = {change["event"]: change for change in about["changes"]}
        self.next = 0  # of the decisions

    def run(self) -> None:
        """Go through everything."""
        state = self.live.state
        for event in range(1, self.about["events"] + 1):
            if event in self.changes:
                change = self.changes[event]
                self.live.change(change["kind"], change["name"], self.live.time, change["knows_others"])
            elif event in self.events:
                self._observe(self.events[event])
            else:
                raise ValueError(f"the log lacks event {event} of {self.about['events']}: rows are missing")
        self._append_decisions(len(self.decisions))
        if state.rounds != self.about["rounds"]:
            state.rounds = self.about["rounds"]
            self.live.append_change("rounds", state.rounds, self.live.time)
        if state.decisions != self.about["decisions"]:
            raise ValueError(f"the log has {state.decisions} decisions, but says {self.about['decisions']}")

    def _observe(self, entries: list[dict[str, Any]]) -> None:
        """One event."""
        state, at = self.live.state, entries[0]["observed_at"]
        round_ = max((entry["round"] for entry in entries if entry["decision"] is None), default=0)
        serial = max(parse_id(entry["decision"])[0] if entry["decision"] else -1 for entry in entries)
        while self.next < len(self.decisions):
            entry = self.decisions[self.next]
            before = entry["decided_at"] < at or entry["round"] < round_ or state.decisions <= serial
            if not before:
                break
            self._append_decisions(self.next + 1)
        state.rounds = max(state.rounds, round_)
        check = state.setup.check_reward
        answered = [(row_of(state, entry), check("reward in the log", entry["reward"])) for entry in entries]
        self.live.observe(answered, at, bool(entries[0]["defaulted"]))

    def _append_decisions(self, until: int) -> None:
        """Write decisions down."""
        for entry in self.decisions[self.next : until]:
            row = row_of(self.live.state, entry)
            self.live.state.rounds, self.live.state.decisions = row.round, row.serial + 1
            stored = log_rows.stored_probabilities(row)
            self.live.append_decision(row, **stored, restricted=0, request_key=None, position=0)
            if row.serial % AT_ONCE == 0:
                self.live.write_log(self.connection)
        self.next = until
