"""Logs out of the database and into it, as the learner writes them."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

from posse.learner.ledger import parse_id
from posse.learner.log import read, row_of
from posse.learner.setup import Setup, check_names
from posse.learner.state import State
from posse.service.storage.live_experiment import Book
from posse.service.storage.queries import Experiment
from posse.service.storage.store import NO_LIMIT, Store
from posse.service.storage.transaction import Turn

AT_ONCE = 10_000  # rows that are kept in memory on their way in


def export_log(store: Store, name: str, path: Path) -> int:
    """Write an experiment's log to a Parquet file; return how many rows it has."""
    import pyarrow.parquet

    table = store.log_table(name)
    pyarrow.parquet.write_table(table, path)
    return int(table.num_rows)


def import_log(store: Store, name: str, path: Path) -> Experiment:
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

    def fill(turn: Turn) -> str:
        times = [time for entry in entries for time in (entry["decided_at"], entry["observed_at"]) if time is not None]
        book = turn.create(name, setup, arms, players, min(times, default=None))
        _Import(turn, book, about, entries).run()
        return book.name

    return store.experiment(store.transact(fill))


class _Import:
    """A log on its way into a book.

    The log does not say how decisions and events took turns, but an order that could have been is easy to find: before
    an event come the decisions of an earlier time, those that it answers and all with smaller serial numbers, and those
    of earlier rounds than it records.
    """

    def __init__(self, turn: Turn, book: Book, about: dict[str, Any], entries: list[dict[str, Any]]) -> None:
        self.turn, self.book, self.about = turn, book, about
        self.decisions = [entry for entry in entries if entry["decision"] is not None]
        answered = [entry for entry in entries if entry["reward"] is not None]
        answered.sort(key=lambda entry: entry["observed"])
        self.events = {
            event: list(group) for event, group in itertools.groupby(answered, key=lambda entry: entry["observed"])
        }
        self.changes = {change["event"]: change for change in about["changes"]}
        self.next = 0  # of the decisions

    def run(self) -> None:
        """Take the book through everything."""
        state = self.book.state
        for event in range(1, self.about["events"] + 1):
            if event in self.changes:
                change = self.changes[event]
                self.book.change(change["kind"], change["name"], self.book.time, change["knows_others"])
            elif event in self.events:
                self._take(self.events[event])
            else:
                raise ValueError(f"the log lacks event {event} of {self.about['events']}: rows are missing")
        self._decide(len(self.decisions))
        if state.rounds != self.about["rounds"]:
            state.rounds = self.about["rounds"]
            self.book.append_change("rounds", state.rounds, self.book.time)
        if state.decisions != self.about["decisions"]:
            raise ValueError(f"the log has {state.decisions} decisions, but says {self.about['decisions']}")

    def _take(self, entries: list[dict[str, Any]]) -> None:
        """One event."""
        state, at = self.book.state, entries[0]["observed_at"]
        round_ = max((entry["round"] for entry in entries if entry["decision"] is None), default=0)
        serial = max(parse_id(entry["decision"])[0] if entry["decision"] else -1 for entry in entries)
        while self.next < len(self.decisions):
            entry = self.decisions[self.next]
            before = entry["decided_at"] < at or entry["round"] < round_ or state.decisions <= serial
            if not before:
                break
            self._decide(self.next + 1)
        state.rounds = max(state.rounds, round_)
        answered = [(row_of(state, entry), _reward(state, entry)) for entry in entries]
        self.book.take(answered, at, bool(entries[0]["defaulted"]))

    def _decide(self, until: int) -> None:
        """Write decisions down."""
        for entry in self.decisions[self.next : until]:
            row = row_of(self.book.state, entry)
            self.book.state.rounds, self.book.state.decisions = row.round, row.serial + 1
            self.book.append_decision(row, probabilities=None, offered=None, restricted=0, request_key=None, position=0)
            if row.serial % AT_ONCE == 0:
                self.book.write_log(self.turn.connection)
        self.next = until


def _reward(state: State, entry: dict[str, Any]) -> float:
    return state.setup.check_reward("reward in the log", entry["reward"])
