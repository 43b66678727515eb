"""What is kept of every (player, arm) pair beside the log: a cache, written in the same transaction.

Which numbers a pair has follows from the policy's declaration: its statistics, and as it is refreshed, the statistics
in its index or what the player has seen. A row holds them as 64-bit numbers, one after another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.learner.state import LearnerState
from posse.service.storage import schema as tables
from posse.service.storage.database import upsert
from posse.service.storage.errors import Damaged
from posse.service.storage.log_rows import Values

OF_PAIRS = ("statistics", "indexed", "seen")  # the arrays of a state with a number for every pair
Entries = list[tuple[str, bool]]  # names, and whether each is here


class PairStatistics:
    """What the database has of an experiment's pairs, so that only what differs is written."""

    def __init__(self) -> None:
        self._numbers = np.zeros((0, 0, 0), np.int64)
        self._summary = b""

    def load(self, connection: Connection, row: Values, state: LearnerState, players: Entries, arms: Entries) -> None:
        """Put the state where the tables say it stands; `row` is the experiment's."""
        table, experiment = tables.stats, row["id"]
        query = sql.select(table.c.waiting, table.c.numbers).where(table.c.experiment == experiment)
        found = connection.execute(query.order_by(table.c.arm, table.c.player)).all()
        if len(found) != len(players) * len(arms):
            raise Damaged(
                f"experiment {experiment} has {len(found)} rows of stats, but expected {len(players)} players × "
                f"{len(arms)} arms; `posse db rebuild` makes them anew from the log"
            )
        names = number_names(state)
        wrong = {len(numbers) for _, numbers in found} - {8 * len(names)}
        if wrong:
            raise Damaged(
                f"experiment {experiment} has {min(wrong)} bytes of numbers for a pair, but {state.setup.policy.label} "
                f"keeps {len(names)} numbers: {', '.join(names)}; `posse db rebuild` makes them anew from the log"
            )
        shape = (len(arms), len(players))
        stored = np.frombuffer(b"".join(numbers for _, numbers in found), "<i8").reshape(*shape, len(names))
        waiting = np.array([waiting for waiting, _ in found], np.int64).reshape(shape)
        arrays: dict[str, np.ndarray] = {}
        start = 0
        for name, array in _arrays(state).items():
            part = stored[..., start : start + len(array)].astype(np.int64)
            arrays[name] = np.ascontiguousarray(part.transpose(2, 0, 1)).view(array.dtype)
            start += len(array)
        state.restore(players, arms, waiting, arrays | _from_summary(state, shape, arrays, row["summary"]))
        self.keep(state)

    def keep(self, state: LearnerState) -> None:
        """Take the state for what the database has."""
        self._numbers, self._summary = _all_numbers(state), summary_of(state)

    def write(self, connection: Connection, experiment: int, state: LearnerState) -> bytes | None:
        """Write the pairs that differ; return the summary if that does."""
        numbers, summary = _all_numbers(state), summary_of(state)
        differs = np.ones(numbers.shape[1:], np.bool_)
        _, arms, players = self._numbers.shape
        if arms and players:
            differs[:arms, :players] = (numbers[:, :arms, :players] != self._numbers).any(axis=0)
        rows = _rows(experiment, numbers, differs)
        if rows:
            connection.execute(upsert(tables.stats, connection.dialect.name), rows)
        changed = summary != self._summary
        self._numbers, self._summary = numbers, summary
        return summary if changed else None


def number_names(state: LearnerState) -> list[str]:
    """What the numbers of a pair are called, in their order."""
    policy = state.setup.policy
    statistics = [statistic.name for statistic in policy.statistics]
    names = {"statistics": statistics, "indexed": [f"indexed {name}" for name in statistics]}
    names["seen"] = [f"seen {name}" for name in policy.shared]
    return [name for array in _arrays(state) for name in names[array]]


def all_rows(experiment: int, state: LearnerState) -> list[dict[str, Any]]:
    numbers = _all_numbers(state)
    return _rows(experiment, numbers, np.ones(numbers.shape[1:], np.bool_))


def _rows(experiment: int, numbers: np.ndarray, chosen: np.ndarray) -> list[dict[str, Any]]:
    arms, players = np.nonzero(chosen)
    columns = numbers[:, chosen].astype("<i8")
    named = {"player": players, "arm": arms, "pulls": columns[1], "waiting": columns[0]}
    packed = [row.tobytes() for row in np.ascontiguousarray(columns[1:].T)]
    values = zip(*(column.tolist() for column in named.values()), packed, strict=True)
    return [{"experiment": experiment, **dict(zip((*named, "numbers"), row, strict=True))} for row in values]


def _arrays(state: LearnerState) -> dict[str, np.ndarray]:
    """The arrays of numbers of pairs that are kept, each [number, arm, player]."""
    return {name: getattr(state.known, name) for name in OF_PAIRS if name in state.core.kept}


def _all_numbers(state: LearnerState) -> np.ndarray:
    """All numbers of all pairs, as integers of the same bits, [number, arm, player]; what waits comes first."""
    return np.concatenate([state.waiting[None], *(array.view(np.int64) for array in _arrays(state).values())])


def summary_of(state: LearnerState) -> bytes:
    """What a policy's summary keeps: the pulls at the last one, and what it said of arms and players."""
    if "summed" not in state.core.kept:
        return b""
    known = state.known
    parts = ((known.summed[1:], "<i8"), (known.of_arm, "<f8"), (known.of_player, "<f8"))
    return b"".join(array.astype(kind).tobytes() for array, kind in parts)


def _from_summary(
    state: LearnerState, shape: tuple[int, int], arrays: dict[str, np.ndarray], summary: bytes
) -> dict[str, np.ndarray]:
    """What the bytes say, as arrays by name."""
    if "summed" not in state.core.kept:
        return {}
    policy = state.core.policy
    split = 8 + 8 * shape[0] * len(policy.shared)
    if len(summary) != split + 8 * shape[1] * len(policy.of_player):
        raise Damaged(
            f"the summary of {policy.label} has {len(summary)} bytes, as if another version of posse had made it; "
            "`posse db rebuild` makes it anew from the log"
        )
    last = np.frombuffer(summary[:8], "<i8")
    return {
        "summed": np.array([arrays["statistics"][0].sum(), last[0]]),
        "of_arm": np.frombuffer(summary[8:split], "<f8"),
        "of_player": np.frombuffer(summary[split:], "<f8"),
    }
