"""What is kept of the (player, arm) pairs beside the log, and of the policy's summary: a cache, written with the log.

Which numbers a pair has follows from the policy's declaration: its statistics, and as it is refreshed, the statistics
in its index or what the player has seen. A row holds them as 64-bit numbers, one after another. A pair whose numbers
are all 0 has no row. Only what changed is looked at and written, so the cost does not grow with the number of pairs.
"""

import json
import math
import struct
from typing import Any

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.learner.guard import Guard
from posse.learner.setup import Setup
from posse.learner.state import LearnerState
from posse.policies.state import state_shapes
from posse.policies.statistics import COUNT
from posse.service.storage import database, errors
from posse.service.storage import schema as tables
from posse.service.storage.log_rows import Values, read_names, read_values

OF_PAIRS = ("statistics", "indexed", "seen")  # the arrays of a state with a number for every pair
Entries = list[tuple[str, bool]]  # names, and whether each is here
NO_SUMMARY: tuple[int, ...] = ()
TALLIES = ("count", "sum", "alarm")  # of an outcome and an arm
NO_TALLIES = np.zeros((len(TALLIES), 0, 0), np.int64)
AT_ONCE = 10_000  # rows that are read in one go; in between, other threads may work


class PairStatistics:
    """Which pairs of a state, whether its summary, and which tallies of outcomes differ from what the database has."""

    def __init__(self) -> None:
        self.touched: set[tuple[int, int]] = set()  # arm and player of the decisions and rewards since the last writing
        self._behind: set[tuple[int, int]] = set()  # pairs whose index lacks rewards: the next summary changes them
        self._shape = (0, 0)  # arms and players
        self._summary = NO_SUMMARY  # which one the database has
        self._tallies = NO_TALLIES  # what the database has of the guard's

    def load(self, connection: Connection, row: Values, state: LearnerState, players: Entries, arms: Entries) -> None:
        """Put the state where the tables say it stands; `row` is the experiment's."""
        values = read_values(connection, state.setup.attributes, row["id"])
        table, shape, count = tables.stats, (len(arms), len(players)), _count(state)
        numbers = np.zeros((1 + count, *shape), np.int64)  # what waits comes first
        columns = table.c.arm, table.c.player, table.c.waiting, table.c.numbers
        found = connection.execute(sql.select(*columns).where(table.c.experiment == row["id"]))
        for rows in found.partitions(AT_ONCE):
            *places, waiting, packed = zip(*rows, strict=True)
            if set(map(len, packed)) != {8 * count}:
                raise _other_version(row["id"], state)
            stored = np.frombuffer(b"".join(packed), "<i8").reshape(-1, count).T
            pairs = np.array(places, np.int64)
            inside = ((pairs >= 0) & (pairs < np.array([shape]).T)).all(axis=0)
            numbers[:, *pairs[:, inside]] = np.vstack([np.array(waiting, np.int64), stored])[:, inside]
        totals = int(numbers[1].sum()), int(numbers[0].sum())
        if totals != (row["rewards"], row["waiting"]):
            raise errors.Damaged(
                f"the stats of experiment {row['id']} have {totals[0]} rewards and {totals[1]} waiting decisions, but "
                f"its row says {row['rewards']} and {row['waiting']}; `posse db rebuild` makes them anew from the log"
            )
        arrays: dict[str, np.ndarray] = {}
        start = 1
        for name, array in _arrays(state).items():
            arrays[name] = numbers[start : start + len(array)].view(array.dtype)
            start += len(array)
        summary = _read_summary(connection, row["id"], state, (len(players), len(arms)), totals[0])
        try:
            state.restore(players, arms, numbers[0], arrays | summary, values)
        except ValueError:
            raise _other_version(row["id"], state) from None
        state.guard.grow(len(arms))
        if state.guard.outcomes:
            table = tables.outcome_stats
            for tally in connection.execute(sql.select(table).where(table.c.experiment == row["id"])).mappings():
                state.guard.tallies[:, tally["outcome"], tally["arm"]] = [tally[name] for name in TALLIES]
        self.keep(state)

    def expect_summary(self) -> None:
        """Take the next summary for another than the database has, though nobody came and nothing was pulled."""
        self._summary = NO_SUMMARY

    def keep(self, state: LearnerState) -> None:
        """Take the state for what the database has."""
        self._changed(state)
        self._tallies = state.guard.tallies.copy()

    def write(self, connection: Connection, experiment: int, state: LearnerState) -> None:
        """Write the pairs that have changed, and the summary if one was made."""
        before = self._summary
        rows = _rows(experiment, state, self._changed(state))
        if rows:
            database.insert_rows(connection, tables.stats, rows, replace=True)
        if self._summary != before:
            values = {"experiment": experiment, "players": self._shape[1], "content": summary_of(state)}
            database.insert_rows(connection, tables.summaries, [values], replace=True)
        if state.guard.outcomes and (tallies := tally_rows(experiment, state.guard, self._tallies)):
            database.insert_rows(connection, tables.outcome_stats, tallies, replace=True)
            self._tallies = state.guard.tallies.copy()

    def _changed(self, state: LearnerState) -> np.ndarray:
        """The pairs that may differ from what the database has, which from now on has them."""
        (old_arms, old_players), self._shape = self._shape, state.waiting.shape
        summary, self._summary = self._summary, _which_summary(state)
        if self._summary != summary:
            self.touched |= self._behind
            self._behind = set()
        found = [pair for pair in self.touched if pair[0] < old_arms and pair[1] < old_players]
        self.touched.clear()
        pairs = np.array(found, np.int64).reshape(-1, 2).T
        if self._shape != (old_arms, old_players):
            new = (
                _pairs_with_data(state, 0, slice(old_players, None)),
                _pairs_with_data(state, old_arms, slice(old_players)),
            )
            pairs = np.concatenate([pairs, *new], axis=1)
        arms, players = pairs  # one row each
        behind = state.known.indexed[COUNT][arms, players] != state.known.statistics[COUNT][arms, players]
        self._behind.update(zip(arms[behind].tolist(), players[behind].tolist(), strict=True))
        return pairs


def _which_summary(state: LearnerState) -> tuple[int, ...]:
    """What tells a summary from the one before: everybody's pulls and the players when it was made, and the arms.

    A policy that can welcome players with what the last summary says need not make one when another player joins.
    """
    if "summed" not in state.core.kept:
        return NO_SUMMARY
    return *state.known.summed[1:].tolist(), len(state.waiting)


def _pairs_with_data(state: LearnerState, first_arm: int = 0, players: slice = slice(None)) -> np.ndarray:
    """Arms and players of the pairs with any number other than 0, from an arm on and among these players."""
    arrays = (array[:, first_arm:, players] for array in (state.waiting[None], *_arrays(state).values()))
    found = np.array(np.nonzero(np.logical_or.reduce([array.any(axis=0) for array in arrays])), np.int64)
    return found + np.array([[first_arm], [players.start or 0]])


def check_form(connection: Connection, row: Values) -> None:
    """Raise OtherVersion if what is kept beside a log is as another version of the policy has it; `row` is the log's.

    It reads one pair and the summary.
    """
    arms = [name for name, _ in read_names(connection, tables.arms, row["id"])]
    state = LearnerState(Setup.from_dict(json.loads(row["setup"])), arms[: row["first_arms"]], [])
    table = tables.players
    query = sql.select(sql.func.count()).where(table.c.experiment == row["id"])
    players = connection.execute(query).scalar_one()
    column = tables.stats.c
    query = sql.select(sql.func.length(column.numbers)).where(column.experiment == row["id"]).limit(1)
    if connection.execute(query).scalar() not in (None, 8 * _count(state)):
        raise _other_version(row["id"], state)
    _read_summary(connection, row["id"], state, (players, len(arms)), row["rewards"])


def _count(state: LearnerState) -> int:
    """How many numbers a pair has."""
    return sum(map(len, _arrays(state).values()))


def all_rows(experiment: int, state: LearnerState) -> list[dict[str, Any]]:
    return _rows(experiment, state, _pairs_with_data(state))


def _rows(experiment: int, state: LearnerState, pairs: np.ndarray) -> list[dict[str, Any]]:
    """The rows of these pairs, of those that have one."""
    arms, players = pairs
    arrays = (array[:, arms, players].view(np.int64) for array in _arrays(state).values())
    numbers = np.concatenate([state.waiting[arms, players][None], *arrays]).astype("<i8")
    some = numbers.any(axis=0)
    named = {"player": players[some], "arm": arms[some], "pulls": numbers[1, some], "waiting": numbers[0, some]}
    packed = [row.tobytes() for row in numbers[1:, some].T]
    values = zip(*(column.tolist() for column in named.values()), packed, strict=True)
    return [{"experiment": experiment, **dict(zip((*named, "numbers"), row, strict=True))} for row in values]


def _arrays(state: LearnerState) -> dict[str, np.ndarray]:
    """The arrays of numbers of pairs that are kept, each [number, arm, player]."""
    return {name: getattr(state.known, name) for name in OF_PAIRS if name in state.core.kept}


def tally_rows(experiment: int, guard: Guard, before: np.ndarray = NO_TALLIES) -> list[dict[str, int]]:
    """The rows of `outcome_stats` that are not as they were before; a row of zeros is not stored."""
    old = np.zeros_like(guard.tallies)
    old[:, : before.shape[1], : before.shape[2]] = before
    outcomes, arms = (places.tolist() for places in np.nonzero((guard.tallies != old).any(axis=0)))
    names, tallies = ("outcome", "arm", *TALLIES), guard.tallies[:, outcomes, arms].tolist()
    rows = zip(outcomes, arms, *tallies, strict=True)
    return [{"experiment": experiment, **dict(zip(names, row, strict=True))} for row in rows]


# ---------------------------------------------------------------- the summary


def summary_of(state: LearnerState, joined: int = 0) -> bytes:
    """What a policy's summary keeps, each array after its size; it says nothing of the last `joined` players."""
    content, all_known = b"", state.all_known()
    for name in _summary_names(state):
        array = getattr(all_known, name)
        part = array[1:] if name == "summed" else array
        if name == "of_player" and joined:  # the last row is for a player about whom nothing is known
            part = np.concatenate([array[: -1 - joined], array[-1:]])
        if name == "of_value" and joined:
            known = state.known.columns[: len(state.known.columns) - joined]
            part = array[:, :, : max(state.core.coder.parts, known.max(initial=-1) + 1)]
        content += struct.pack("<q", part.size) + part.astype(part.dtype.newbyteorder("<")).tobytes()
    return content


def _summary_names(state: LearnerState) -> list[str]:
    return [name for name in state.core.kept if name not in OF_PAIRS]


def _read_summary(
    connection: Connection, experiment: int, state: LearnerState, shape: tuple[int, int], pulls: int
) -> dict[str, np.ndarray]:
    """The summary's arrays by name, for so many players and arms.

    A player who joined after it is taken for what the last row says of players.
    """
    table, arrays, start = tables.summaries, {}, 0
    shapes = state_shapes(state.core.policy, state.core.policy.statistics, *shape)
    found = connection.execute(sql.select(table).where(table.c.experiment == experiment)).first()
    content, joined = (b"", 0) if found is None else (found.content, shape[0] - found.players)
    try:
        for name in _summary_names(state):
            array, (size,) = getattr(state.known, name), struct.unpack_from("<q", content, start)
            values = np.frombuffer(content, array.dtype.newbyteorder("<"), size, start + 8)
            start += 8 + 8 * size
            if name == "summed":
                values = np.array([pulls, *values])
            elif name == "of_player" and size:
                rows = values.reshape(-1, array.shape[1])
                values = np.concatenate([rows, np.repeat(rows[-1:], joined, axis=0)])
            if name != "of_value" and values.size != math.prod(shapes[name][1]):  # that one may lack new values
                raise ValueError(f"{name} has {values.size} numbers")
            arrays[name] = values
        if start != len(content):
            raise ValueError(f"the summary has {len(content)} bytes")
    except (struct.error, ValueError):
        raise _other_version(experiment, state) from None
    return arrays


def _other_version(experiment: int, state: LearnerState) -> errors.OtherVersion:
    return errors.OtherVersion(
        f"what {state.setup.policy.label} keeps in experiment {experiment} beside its log is missing, or as another "
        "version of posse made it; `posse db rebuild` makes it anew from the log"
    )
