"""What an experiment's log says at every look: kept, and fed with what is new, a bounded number of rows at a time."""

import functools
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.insight.conclusion.api import Conclusion, conclusion_of
from posse.insight.conclusion.chances import best_chances
from posse.insight.conclusion.evidence import ConclusionEvidence
from posse.insight.logs import left_out
from posse.insight.watching.api import Watch, evidence_for, guard_states, watch_of
from posse.insight.watching.evidence import DecisionBlock
from posse.learner import Counts
from posse.learner.shares import equal_shares
from posse.learner.state import LearnerState
from posse.rewards import GRID
from posse.service.storage import log_rows
from posse.service.storage.live_experiment import LiveExperiment
from posse.service.storage.schema import changes, decisions, rewards

ROWS = 20_000  # of the log that are in memory at a time
MOST = 60_000  # that are taken in at one look: about two seconds

_FIRST, _LAST = (sql.bindparam(name, type_=sql.BigInteger) for name in ("first", "last"))
_COLUMNS = [decisions.c[name] for name in ("player", "arm", "round", "serial", "probabilities")]
BY_DECISION = (
    sql.select(*_COLUMNS, rewards.c.reward)
    .select_from(decisions.outerjoin(rewards, log_rows.SAME_DECISION))
    .where(decisions.c.experiment == sql.bindparam("experiment"), decisions.c.serial.between(_FIRST, _LAST))
    .order_by(decisions.c.serial)
)
BY_REWARD = (  # rewards of the past have no decision
    sql.select(*_COLUMNS, rewards.c.reward)
    .select_from(rewards.join(decisions, log_rows.SAME_DECISION))
    .where(rewards.c.experiment == sql.bindparam("experiment"), rewards.c.link.between(_FIRST, _LAST))
    .order_by(rewards.c.event, rewards.c.serial)
)

Law = Callable[[np.ndarray, np.ndarray], np.ndarray | None]


class LogEvidence:
    """The evidence of one experiment: what its decisions, and those of them that have rewards, say so far."""

    def __init__(self, live: LiveExperiment, first_arms: int) -> None:
        self._setup, self._first = live.state.setup.to_dict(), first_arms
        self._defaults = live.state.setup.default_reward is not None
        self.watch = evidence_for(self._setup, live.state.arm_roster.names[:first_arms])
        self.conclusion = ConclusionEvidence(first_arms)
        self.made = 0  # decisions that are taken in
        self.unknown = 0  # those of them that were left out
        self.answered = 0  # rows of the log whose rewards are taken in; or decisions, where a default is taken
        self.complete = False  # whether nothing was left to read
        self._limits: list[dict[str, Any]] = []  # changes of shares,
        self._seen = 0  # up to this row of the log

    def read(self, connection: Connection, live: LiveExperiment) -> None:
        """Take in what is new, at most `MOST` rows each of decisions and of rewards."""
        made, block = live.state.decisions, functools.partial(self._block, live, self._equal(connection, live))

        def rows(query: sql.Select[Any], first: int, last: int) -> Sequence[Any]:
            return connection.execute(query, {"experiment": live.id, "first": first, "last": last}).all()

        for first in range(self.made, min(made, self.made + MOST), ROWS):
            self.made = min(first + ROWS, made)
            choices = block(found := rows(BY_DECISION, first, self.made - 1))
            self.unknown += len(found) - choices.arm.size
            self.watch.add_choices(choices)
        query, start, end = (BY_DECISION, 0, made) if self._defaults else (BY_REWARD, 1, live.links)
        for first in range(self.answered, min(end, self.answered + MOST), ROWS):
            self.answered = min(first + ROWS, end)
            found = rows(query, start + first, start + self.answered - 1)
            waits = next((place for place, row in enumerate(found) if row.reward is None), None)
            if waits is not None:  # where a default is taken, decisions count in their order, so up to one that waits
                self.answered = end = found[waits].serial
            answers = block(found[:waits])
            self.watch.add_answers(answers)
            self.conclusion.add_answers(answers)
            if waits is not None:
                break
        self.conclusion.add_answers(block(()))  # arms may have come without a decision
        self.complete = self.made == made and self.answered == end

    def watched(self, state: LearnerState, early: int | None) -> Watch:
        """What the evidence says, and how the guards stand; `early` rewards are left out."""
        arms, outcomes, (counts, sums, raised) = state.arm_roster.names, state.setup.outcomes, state.guard.tallies
        alarms = {(list(outcomes)[outcome], arms[arm]) for outcome, arm in np.argwhere(raised).tolist()}
        guards = guard_states(outcomes, arms, counts, sums / GRID, alarms, self._first)
        notes = left_out(early)
        if not self.complete:
            notes.append(f"{self.made:,} of {state.decisions:,} decisions are read so far; look again in a moment")
        if self.unknown:
            notes.append(f"{self.unknown:,} decisions without probabilities, from an older posse, are left out")
        return watch_of(self.watch, self._setup, arms, guards, notes)

    def _block(self, live: LiveExperiment, equal: Law, rows: Sequence[Any]) -> DecisionBlock:
        """Rows of the log as arrays; those without probabilities, from an old log that was imported, say nothing."""
        rows = [row for row in rows if row.probabilities is not None]
        player, arm, rounds = np.array([row[:3] for row in rows], np.int64).reshape(-1, 3).T
        chances = _probabilities([row.probabilities for row in rows], len(live.state.arm_roster.names))
        given = np.array([row.reward for row in rows], np.float64)  # None becomes NaN
        low, high = live.state.setup.low, live.state.setup.high
        return DecisionBlock(player, arm, chances, (given - low) / (high - low), equal(rounds, chances > 0))

    def _equal(self, connection: Connection, live: LiveExperiment) -> Law:
        """The law of the holdout by round and arms on offer; None where it is equal shares of all on offer."""
        arms, column = list(live.state.arm_roster.names), changes.c
        if live.state.setup.holdout:
            query = sql.select(column.place, column.detail).where(column.experiment == live.id, column.kind == "shares")
            for after, detail in connection.execute(query.where(column.link > self._seen).order_by(column.link)):
                shares = log_rows.parse_shares(detail, arms)
                self._limits.append({"kind": "shares", "rounds": after, "shares": shares})
            self._seen = live.links
        if not (live.state.setup.shares or self._limits):
            return lambda rounds, offered: None
        about = {"setup": self._setup, "changes": self._limits, "arms": arms}
        return lambda rounds, offered: equal_shares(about, rounds, offered)


def conclude_from(
    evidence: bytes,
    counts: Counts,
    offered: np.ndarray,
    *about: Any,
) -> Conclusion:
    """What follows from an experiment's evidence, pickled at one moment, and from the model of its players.

    `about` is what `conclusion_of` takes beside that.
    """
    known: ConclusionEvidence = pickle.loads(evidence)
    best = best_chances(counts, offered, known.present_of(*counts.pulls.shape))
    return conclusion_of(known, best, counts, offered, *about)


def _probabilities(written: list[bytes], arms: int) -> np.ndarray:
    """Each row's probabilities, [row, arm]; 0 for arms that came later."""
    sizes = np.array([len(each) // 8 for each in written], np.int64)
    found = np.zeros((len(written), arms))
    found[np.arange(arms) < sizes[:, None]] = np.frombuffer(b"".join(written), "<f8")
    return found
