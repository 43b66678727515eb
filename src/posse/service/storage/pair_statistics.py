"""The statistics of every (player, arm) pair beside the log: a cache, written in the same transaction.

The storage reads `state.tally` nowhere else.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from posse.learner.state import State
from posse.service.storage import schema as tables
from posse.service.storage.errors import Damaged

WHOLE = ("pulls", "sums", "squares", "own_pulls", "own_sums", "waiting")
REAL = ("seen_n", "seen_s")


class PairStatistics:
    """What the database has of an experiment's statistics, so that only what differs is written."""

    def __init__(self) -> None:
        self._whole = np.zeros((len(WHOLE), 0, 0), np.int64)
        self._real = np.zeros((len(REAL), 0, 0))
        self._summary = b""

    def load(
        self,
        connection: Connection,
        experiment: int,
        state: State,
        players: list[tuple[str, bool]],
        arms: list[tuple[str, bool]],
        summary: bytes,
    ) -> None:
        """Put the state where the table says it stands."""
        table, shape = tables.stats, (len(players), len(arms))
        columns = [table.c[name] for name in (*WHOLE, *REAL)]
        query = sql.select(*columns).where(table.c.experiment == experiment).order_by(table.c.player, table.c.arm)
        found = connection.execute(query).all()
        if len(found) != len(players) * len(arms):
            raise Damaged(
                f"experiment {experiment} has {len(found)} rows of stats, but expected {len(players)} players × "
                f"{len(arms)} arms; `posse db rebuild` makes them anew from the log"
            )
        by_name = (
            dict(zip((*WHOLE, *REAL), zip(*found, strict=True), strict=True))
            if found
            else dict.fromkeys((*WHOLE, *REAL), ())
        )
        numbers: dict[str, Any] = {name: np.array(by_name[name], np.int64).reshape(shape) for name in WHOLE}
        numbers["seen"] = np.array([by_name[name] for name in REAL], np.float64)
        state.restore(players, arms, numbers["waiting"], numbers | _summary_numbers(state, shape, numbers, summary))
        self.keep(state)

    def keep(self, state: State) -> None:
        """Take the state for what the database has."""
        self._whole, self._real = _arrays(state)
        self._summary = summary_of(state)

    def write(self, connection: Connection, experiment: int, state: State) -> bytes | None:
        """Write the pairs that differ; return the summary if that does."""
        arrays, summary = _arrays(state), summary_of(state)
        rows = self._differing(experiment, *arrays)
        if rows:
            connection.execute(_upsert(connection.dialect.name), rows)
        differs = summary != self._summary
        self._whole, self._real, self._summary = *arrays, summary
        return summary if differs else None

    def _differing(self, experiment: int, whole: np.ndarray, real: np.ndarray) -> list[dict[str, Any]]:
        """Rows of the pairs that are not what the database has."""
        differs = np.ones(whole.shape[1:], np.bool_)
        players, arms = self._whole.shape[1:]
        differs[:players, :arms] = (whole[:, :players, :arms] != self._whole).any(axis=0)
        differs[:players, :arms] |= (real[:, :players, :arms] != self._real).any(axis=0)
        return _rows(experiment, whole, real, differs)


def seen_by(state: State, player: int, arm: int) -> tuple[float, float]:
    """Everybody's count and reward sum for an arm, as a player sees them from now on."""
    seen = state.tally.seen[:, player, arm] if state.core.own_pull else state.tally.shared[:, arm]
    return float(seen[0]), float(seen[1])


def all_rows(experiment: int, state: State) -> list[dict[str, Any]]:
    """Rows of all pairs."""
    whole, real = _arrays(state)
    return _rows(experiment, whole, real, np.ones(whole.shape[1:], np.bool_))


def _rows(experiment: int, whole: np.ndarray, real: np.ndarray, chosen: np.ndarray) -> list[dict[str, Any]]:
    players, arms = np.nonzero(chosen)
    columns = dict(zip(WHOLE, whole[:, chosen], strict=True)) | dict(zip(REAL, real[:, chosen], strict=True))
    columns |= {"player": players, "arm": arms}
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [{"experiment": experiment, **dict(zip(columns, row, strict=True))} for row in values]


def _arrays(state: State) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of all pairs, [column, player, arm]."""
    whole = np.stack([state.waiting if name == "waiting" else getattr(state.tally, name) for name in WHOLE])
    return whole, state.tally.seen.copy()


def summary_of(state: State) -> bytes:
    """What the policy's second stage keeps: the pulls at its last run, and its numbers of arms and players."""
    tally = state.tally
    return b"".join(
        array.astype(kind).tobytes()
        for array, kind in ((tally.summed[1:], "<i8"), (tally.of_arm, "<f8"), (tally.of_player, "<f8"))
    )


def _summary_numbers(
    state: State, shape: tuple[int, int], numbers: dict[str, Any], summary: bytes
) -> dict[str, np.ndarray]:
    """What the bytes say, as arrays by name."""
    policy = state.core.policy
    split = 8 + 8 * shape[1] * policy.arm_numbers
    if len(summary) != split + 8 * shape[0] * policy.player_numbers:
        raise Damaged(
            f"the summary of {policy.label} has {len(summary)} bytes, as if another version of posse had made it; "
            "`posse db rebuild` makes it anew from the log"
        )
    last = np.frombuffer(summary[:8], "<i8")
    return {
        "summed": np.array([numbers["pulls"].sum(), last[0]]),
        "of_arm": np.frombuffer(summary[8:split], "<f8"),
        "of_player": np.frombuffer(summary[split:], "<f8"),
    }


@functools.cache
def _upsert(dialect: str) -> Any:
    """Insert a pair, or replace its numbers."""
    insert = insert_into(tables.stats, dialect)
    return insert.on_conflict_do_update(
        index_elements=["experiment", "player", "arm"],
        set_={name: insert.excluded[name] for name in (*WHOLE, *REAL)},
    )


def insert_into(table: sql.Table, dialect: str) -> Any:
    """An insertion that can say what to do about a row that is there already."""
    return (sqlite if dialect == "sqlite" else postgresql).insert(table)
