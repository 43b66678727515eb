"""What happened to each decision: those that wait for a reward, those that have one, and those given up."""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from posse.learner.setup import Setup


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
    probabilities: bytes = b""  # float64 for each arm, NaN if it was not available; nothing if that is not known


class Answer(NamedTuple):
    """What came of it."""

    reward: float
    observed: int  # the number of the event that brought it; 0 if nothing has come, −1 if it was given up
    observed_at: float
    defaulted: bool  # nothing came in time, and the default was taken


Answered = tuple[int, float | None, bool, int, int]
"""Tag, reward, whether it was taken by default, player and arm of a decision that waits no longer.

The reward is None if the decision was given up; it is kept where outcomes may still come.
"""
NOBODY: Answered = (-1, None, False, 0, 0)
NO_ANSWER = Answer(math.nan, 0, math.nan, False)
GIVEN_UP = Answer(math.nan, -1, math.nan, False)
WHOLE = {"serial", "tag", "round", "player", "arm", "holdout", "observed", "defaulted", "arms"}  # without a fraction
FIELDS = (*Row._fields[:-1], *Answer._fields, "arms")  # `arms` is how many probabilities there are
PACKED = struct.Struct(f"<{len(FIELDS)}d")
PART = 512 * PACKED.size  # bytes of numbers in a part of the log
COLUMNS = ["decision", "round", "player", "arm", "propensity", "probabilities", "holdout", "shared"]
COLUMNS += ["reward", "observed", "defaulted", "decided_at", "observed_at"]  # of the log as a table


class PackedRows(NamedTuple):
    """Rows with what came of them, in few bytes. Both are float64, in which whole numbers below 2⁵³ are exact."""

    numbers: bytes  # [row, field], as FIELDS says
    probabilities: bytes  # those of each row, one after another


class RowLog:
    """A growing log of rows and what came of them. Full parts never change, so that a copy of them costs nothing."""

    def __init__(self, rows: Iterable[tuple[Row, Answer | None]] = (), full: Iterable[PackedRows] = ()) -> None:
        self._full = list(full)
        self._numbers, self._probabilities = bytearray(), bytearray()
        for row, answer in rows:
            self.append(row, answer or NO_ANSWER)

    def append(self, row: Row, answer: Answer) -> None:
        """Add a row."""
        *numbers, probabilities = row
        self._numbers += PACKED.pack(*numbers, *answer, len(probabilities) // 8)
        self._probabilities += probabilities
        if len(self._numbers) >= PART:
            self._full.append(self._last())
            del self._numbers[:], self._probabilities[:]

    def parts(self) -> list[PackedRows]:
        """All rows."""
        return [*self._full, self._last()]

    def _last(self) -> PackedRows:
        return PackedRows(bytes(self._numbers), bytes(self._probabilities))


def unpack(parts: Iterable[PackedRows]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The rows as one array for each of FIELDS, and all their probabilities, one row after another."""
    numbers, probabilities = (b"".join(part) for part in zip(*parts, strict=True))
    columns = np.frombuffer(numbers, "<f8").reshape(-1, len(FIELDS)).T
    named = {
        name: column.astype(np.int64) if name in WHOLE else column for name, column in zip(FIELDS, columns, strict=True)
    }
    return named, np.frombuffer(probabilities, "<f8")


class KnownDecisions(ABC):
    """Decisions by serial number: those that wait for a reward, those that do not any more, and their outcomes."""

    def __init__(self, outcomes: int) -> None:
        self.waiting: OrderedDict[int, Row] = OrderedDict()  # oldest first
        self.answers: OrderedDict[int, Answered] = OrderedDict()  # likewise
        self.outcomes: dict[tuple[int, int], float] = {}  # by serial number and outcome, of which there are so many:
        self._outcome_count = outcomes

    @abstractmethod
    def unknown(self, identity: str, serial: int, decisions: int) -> str:
        """Why nothing can be reported of a decision; there were so many decisions."""

    def keep_newest(self, known: OrderedDict[int, Any], most: int) -> None:
        """Forget all but so many of those that wait, or of those that do not."""
        while len(known) > most:
            serial, _ = known.popitem(last=False)
            for outcome in range(self._outcome_count):
                self.outcomes.pop((serial, outcome), None)


class Ledger(KnownDecisions):
    """The decisions of a learner. Those that wait are bounded in number, unless a default reward ends their wait.

    Answered ones are kept if the log is.

    With outcomes, decisions that are given up are kept like answered ones.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(len(setup.outcomes))
        self.waiting_limit, self.keep_log = setup.waiting_limit, setup.keep_log
        self._gives_up = setup.default_reward is None
        self.answered = RowLog()
        self.given_up = 0

    def wait(self, row: Row) -> list[Row]:
        """Let a decision wait for its reward; return the oldest, given up, if that is one too many.

        With a default reward none is given up: that would be just those for which nothing is reported.
        """
        self.waiting[row.serial] = row
        if not self._gives_up or len(self.waiting) <= self.waiting_limit:
            return []
        oldest = self.waiting.popitem(last=False)[1]
        if self._outcome_count:
            self.settle(oldest, GIVEN_UP)
        if not (self._outcome_count and self.keep_log):
            self.given_up += 1
        return [oldest]

    def answer(self, row: Row, answer: Answer) -> None:
        """Move a decision from those that wait to those that are answered, or add a reward of the past."""
        if row.serial >= 0:
            del self.waiting[row.serial]
        self.settle(row, answer)

    def settle(self, row: Row, answer: Answer) -> None:
        """Keep a decision that waits no longer, or a reward of the past."""
        if row.serial >= 0:
            reward = None if answer.observed < 0 else answer.reward
            self.answers[row.serial] = (row.tag, reward, answer.defaulted, row.player, row.arm)
            if not self.keep_log:
                self.keep_newest(self.answers, self.waiting_limit)
        if self.keep_log:
            self.answered.append(row, answer)

    def unknown(self, identity: str, serial: int, decisions: int) -> str:
        known = serial in self.waiting or self.answers.get(serial, NOBODY)[1] is not None
        if known or serial >= decisions:
            return f"decision {identity} is not known to this learner"
        forgotten = "" if self.keep_log else ", or answered and forgotten, for want of a log"
        given_up = f"given up when {self.waiting_limit:,} newer ones waited{forgotten}"
        return f"decision {identity} is not waiting: it was not made here, or was {given_up}"

    def copy(self) -> dict[str, Any]:
        """The ledger at this moment. The copy shares with it what does not change, so it is made quickly."""
        recent = [] if self.keep_log else list(self.answers.items())
        rows = {"waiting": list(self.waiting.values()), "answered": self.answered.parts()}
        return {"given_up": self.given_up, **rows, "recent": recent, "outcomes": list(self.outcomes.items())}

    def restore(self, copy: dict[str, Any]) -> None:
        """Make an empty ledger what it was."""
        self.given_up = copy["given_up"]
        self.waiting = OrderedDict((row.serial, row) for row in copy["waiting"])
        self.answered = RowLog(full=copy["answered"])
        self.answers, self.outcomes = OrderedDict(copy["recent"]), dict(copy["outcomes"])
        columns, _ = unpack(copy["answered"])
        names = ("serial", "observed", "tag", "reward", "defaulted", "player", "arm")
        for serial, observed, tag, reward, defaulted, *pair in zip(*(columns[n].tolist() for n in names), strict=True):
            if serial >= 0:
                self.answers[serial] = (tag, None if observed < 0 else reward, bool(defaulted), *pair)
