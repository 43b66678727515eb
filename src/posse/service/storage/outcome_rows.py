"""Outcomes of decisions in the database: rows of the log, and for each arm what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.learner.guard import Guard, OutcomeValue
from posse.service.storage import database
from posse.service.storage import schema as tables
from posse.service.storage.log_rows import Values

TALLIES = ("count", "sum", "alarm")
NOTHING = np.zeros((len(TALLIES), 0, 0), np.int64)
_COLUMN = tables.outcomes.c
_HERE = _COLUMN.experiment == sql.bindparam("experiment")
_FOUND = sql.select(_COLUMN.serial, _COLUMN.outcome, _COLUMN.value).where(_HERE)
_SOME = _FOUND.where(_COLUMN.serial.in_(sql.bindparam("serials", expanding=True)))
_RANGE = _FOUND.where(_COLUMN.serial.between(sql.bindparam("first"), sql.bindparam("last")))


def known_outcomes(
    connection: Connection, wanted: Mapping[str, Any], query: sql.Select[Any] = _SOME
) -> dict[tuple[int, int], float]:
    """Values by serial number and outcome; of some decisions, unless another query is given."""
    return {(serial, outcome): value for serial, outcome, value in connection.execute(query, wanted)}


def outcomes_of_rows(connection: Connection, experiment: int, serials: np.ndarray) -> dict[tuple[int, int], float]:
    """Values of consecutive rows of a log; −1 is the serial number of a reward of the past."""
    made = serials[serials >= 0]
    if not made.size:
        return {}
    wanted = {"experiment": experiment, "first": int(made.min()), "last": int(made.max())}
    return known_outcomes(connection, wanted, _RANGE)


def outcome_value(row: Values) -> OutcomeValue:
    """A value from a row of the log."""
    return OutcomeValue(*(row[name] for name in OutcomeValue._fields))


# ---------------------------------------------------------------- what follows


class OutcomeStatistics:
    """What the database has of the guard's tallies."""

    def __init__(self) -> None:
        self._stored = NOTHING

    def load(self, connection: Connection, experiment: int, guard: Guard) -> None:
        """Put the guard where the table says it stands."""
        if guard.outcomes:
            table = tables.outcome_stats
            for row in connection.execute(sql.select(table).where(table.c.experiment == experiment)).mappings():
                guard.tallies[:, row["outcome"], row["arm"]] = [row[name] for name in TALLIES]
            self.keep(guard)

    def keep(self, guard: Guard) -> None:
        """Take the guard for what the database has."""
        self._stored = guard.tallies.copy()

    def write(self, connection: Connection, experiment: int, guard: Guard) -> None:
        """Write what has changed."""
        if rows := tally_rows(experiment, guard, self._stored):
            database.insert_rows(connection, tables.outcome_stats, rows, replace=True)
            self.keep(guard)


def tally_rows(experiment: int, guard: Guard, before: np.ndarray = NOTHING) -> list[dict[str, int]]:
    """The rows of `outcome_stats` that are not as they were before; a row of zeros is not stored."""
    old = np.zeros_like(guard.tallies)
    old[:, : before.shape[1], : before.shape[2]] = before
    outcomes, arms = (places.tolist() for places in np.nonzero((guard.tallies != old).any(axis=0)))
    names, tallies = ("outcome", "arm", *TALLIES), guard.tallies[:, outcomes, arms].tolist()
    rows = zip(outcomes, arms, *tallies, strict=True)
    return [{"experiment": experiment, **dict(zip(names, row, strict=True))} for row in rows]
