"""What happened to each decision: those that wait for a reward, those that have one, and those given up."""

from __future__ import annotations

import re
from array import array
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np


class Row(NamedTuple):
    """A decision, or a reward of the past that was recorded without one."""

    serial: int  # −1 for a reward of the past
    tag: int
    round: int
    player: int
    arm: int
    propensity: float  # 0 for a reward of the past
    holdout: bool
    shared: float
    decided_at: float


class Answer(NamedTuple):
    """What came of it."""

    reward: float
    observed: int  # the number of the event that brought it
    observed_at: float
    defaulted: bool  # nothing came in time, and the default was taken


WHOLE = {"serial", "tag", "round", "player", "arm", "holdout", "observed", "defaulted"}  # the fields without a fraction
FIELDS = (*Row._fields, *Answer._fields)


class UnknownDecision(ValueError):
    """A reward for a decision that this learner does not know, or no longer."""


def write_id(serial: int, tag: int) -> str:
    """A decision's id: its serial number, and a tag that ties it to learner, player and arm."""
    return f"{serial}-{tag:08x}"


def parse_id(identity: Any) -> tuple[int, int]:
    """Serial number and tag of a decision's id.

    >>> parse_id("17-000000ff")
    (17, 255)
    """
    if isinstance(identity, str) and (match := _ID.fullmatch(identity)):
        return int(match[1]), int(match[2], 16)
    raise UnknownDecision(f"decision {str(identity)[:60]!r} is not known: expected the id of a decision")


_ID = re.compile("(0|[1-9][0-9]{0,17})-([0-9a-f]{8})", re.ASCII)


class Ledger:
    """The decisions of a learner. Those that wait are bounded in number; answered ones are kept if the log is."""

    def __init__(self, waiting_limit: int, keep_log: bool) -> None:
        self.waiting_limit = waiting_limit
        self.keep_log = keep_log
        self.waiting: OrderedDict[int, Row] = OrderedDict()  # by serial number, oldest first
        self.answers: OrderedDict[int, tuple[int, float, bool]] = OrderedDict()  # tag, reward, defaulted; likewise
        self.entries = array("d")  # the fields of the answered, one after another: whole numbers below 2⁵³ are exact
        self.given_up = 0

    def wait(self, row: Row) -> Row | None:
        """Let a decision wait for its reward; return the oldest, given up, if that is one too many."""
        self.waiting[row.serial] = row
        if len(self.waiting) <= self.waiting_limit:
            return None
        self.given_up += 1
        return self.waiting.popitem(last=False)[1]

    def answer(self, row: Row, answer: Answer) -> None:
        """Move a decision from those that wait to those that are answered, or add a reward of the past."""
        if row.serial >= 0:
            del self.waiting[row.serial]
            self.answers[row.serial] = (row.tag, answer.reward, answer.defaulted)
            if not self.keep_log and len(self.answers) > self.waiting_limit:
                self.answers.popitem(last=False)
        if self.keep_log:
            self.entries.extend((*row, *answer))

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The answered decisions, one list for each field."""
        table = np.array(self.entries).reshape(-1, len(FIELDS)).T
        return {
            name: values.astype(np.int64 if name in WHOLE else np.float64).tolist()
            for name, values in zip(FIELDS, table, strict=True)
        }

    def rows(self) -> list[tuple[Row, Answer | None]]:
        """Everything kept, in the order of rounds and decisions."""
        done = [(Row(*values[:9]), Answer(*values[9:])) for values in zip(*self.columns.values(), strict=True)]
        both: list[tuple[Row, Answer | None]] = [*done, *((row, None) for row in self.waiting.values())]
        return sorted(both, key=lambda pair: (pair[0].round, pair[0].serial))

    def to_dict(self) -> dict[str, Any]:
        """The ledger as plain values."""
        return {
            "given_up": self.given_up,
            "waiting": [list(row) for row in self.waiting.values()],
            "answered": self.columns,
            "recent": [] if self.keep_log else [[serial, *rest] for serial, rest in self.answers.items()],
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any], waiting_limit: int, keep_log: bool) -> Ledger:
        """The ledger from plain values."""
        ledger = cls(waiting_limit, keep_log)
        ledger.given_up = plain["given_up"]
        ledger.waiting = OrderedDict((row[0], Row(*row)) for row in plain["waiting"])
        ledger.entries = array("d", np.array([plain["answered"][name] for name in FIELDS], np.float64).T.ravel())
        ledger.answers = OrderedDict((serial, (tag, reward, late)) for serial, tag, reward, late in plain["recent"])
        columns = plain["answered"]
        for serial, *rest in zip(
            columns["serial"], columns["tag"], columns["reward"], columns["defaulted"], strict=True
        ):
            if serial >= 0:
                ledger.answers[serial] = (rest[0], rest[1], bool(rest[2]))
        return ledger
