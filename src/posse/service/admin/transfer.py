"""Logs out of the database and into it, as Parquet files that the learner reads and writes too."""

from __future__ import annotations

import dataclasses
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from posse.checks import output_file
from posse.decision import parse_id
from posse.learner.log import read, row_of, values_of
from posse.learner.setup import Setup, check_names
from posse.service.commands import NO_LIMIT
from posse.service.storage import log_rows, queries
from posse.service.storage.live_experiment import LiveExperiment
from posse.service.storage.queries import Experiment
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import Transaction, commit

AT_ONCE = 10_000  # rows that are kept in memory on their way in

Entry = dict[str, Any]
"""A row of a log, by the names of the learner's columns."""


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
        first = {**about["first"], "arms": check_names("arm", about["first"]["arms"])}
        first["players"] = check_names("player", first["players"])
    except (KeyError, pyarrow.ArrowException) as error:
        raise ValueError(f"{path} is not a log that this posse can read: {error!r}") from None
    imported: Experiment = commit(store, ImportLog(name, setup, first, about, entries))
    return imported


class ImportLog(NamedTuple):
    """Begin an experiment with the log of a learner, or of an experiment elsewhere. Result: the `Experiment`.

    Only for `commit`, which undoes all of it if the log turns out to be wrong halfway; not for the writer's groups.
    """

    experiment: str
    setup: Setup
    first: dict[str, list[Any]]
    """The arms and players that were there at the beginning, and the players' attributes."""
    about: dict[str, Any]
    """What the log says of itself."""
    entries: list[Entry]

    def apply(self, transaction: Transaction) -> Experiment:
        name, setup, first, about, entries = self
        times = [time for entry in entries for time in (entry["decided_at"], entry["observed_at"]) if time is not None]
        live = transaction.create(name, setup, first, min(times, default=float(transaction.clock())))
        _LogImport(transaction, live, entries).run(about)
        return transaction.describe(name)


class _LogImport:
    """A log on its way into an experiment.

    The log does not say in which order decisions and events alternated, but a possible order is easy to find. Before an
    event come the decisions of an earlier time, those that it answers and all with smaller serial numbers, and those of
    earlier rounds than it records.
    """

    def __init__(self, transaction: Transaction, live: LiveExperiment, entries: list[Entry]) -> None:
        self.connection, self.live = transaction.connection, live
        self.decisions = deque(entry for entry in entries if entry["decision"] is not None)  # still to be written
        self.rewards: defaultdict[int, list[Entry]] = defaultdict(list)  # by event
        for entry in entries:
            if entry["reward"] is not None:
                self.rewards[entry["observed"]].append(entry)

    def run(self, about: dict[str, Any]) -> None:
        live, state = self.live, self.live.state
        changes = {change["event"]: change for change in about["changes"]}
        for event in range(1, about["events"] + 1):
            if event in changes:
                change = changes[event]
                values = values_of(state.setup, change)
                live.change(change["kind"], change["name"], live.time, change["knows_others"], values)
            elif event in self.rewards:
                self._observe(self.rewards[event])
            else:
                raise ValueError(f"the log lacks event {event} of {about['events']}: rows are missing")
        self._write_decisions(lambda _: True)
        if state.rounds != about["rounds"]:
            state.rounds = about["rounds"]
            live.append_change("rounds", state.rounds, live.time)
        if state.decisions != about["decisions"]:
            raise ValueError(f"the log has {state.decisions} decisions, but says {about['decisions']}")

    def _observe(self, entries: list[Entry]) -> None:
        state, at = self.live.state, entries[0]["observed_at"]
        round_ = max((entry["round"] for entry in entries if entry["decision"] is None), default=0)
        serial = max(parse_id(entry["decision"])[0] if entry["decision"] else -1 for entry in entries)
        self._write_decisions(
            lambda entry: entry["decided_at"] < at or entry["round"] < round_ or state.decisions <= serial
        )
        state.rounds = max(state.rounds, round_)
        check = state.setup.check_reward
        answered = [(row_of(state, entry), check("reward in the log", entry["reward"])) for entry in entries]
        self.live.observe(answered, at, bool(entries[0]["defaulted"]))

    def _write_decisions(self, is_earlier: Callable[[Entry], bool]) -> None:
        """Write the next decisions down, as long as they are earlier."""
        while self.decisions and is_earlier(self.decisions[0]):
            row = row_of(self.live.state, self.decisions.popleft())
            self.live.state.rounds, self.live.state.decisions = row.round, row.serial + 1
            stored = log_rows.stored_probabilities(row)
            self.live.append_decision(row, **stored, restricted=0, request_key=None, position=0)
            if row.serial % AT_ONCE == 0:
                self.live.write_log(self.connection)
