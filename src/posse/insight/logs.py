"""Logs of decisions, from a learner or from elsewhere, in the one shape that diagnosis and evaluation work on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from posse.checks import number
from posse.insight.text import listed
from posse.learner import Counts
from posse.learner.setup import NARROWEST, WIDEST

ELSE = "give --range LOW HIGH (reward_range=(low, high)) if they are in another"


@dataclass(frozen=True, eq=False)
class Log:
    """A log, one entry a row, in the log's order."""

    players: tuple[str, ...]
    """The players' names; `player` counts into it."""
    arms: tuple[str, ...]
    """The arms' names; `arm` counts into it."""
    player: np.ndarray
    """Who, int64."""
    arm: np.ndarray
    """What, int64."""
    reward: np.ndarray
    """What came of it, float64; NaN where nothing came yet, or ever."""
    propensity: np.ndarray | None
    """The probability with which the arm was chosen, NaN where it was not drawn; None if there is no such column."""
    shared: np.ndarray | None
    """How much of the decision rested on other players' data; None likewise."""
    about: dict[str, Any] = field(default_factory=dict)
    """What a learner wrote about itself, empty for a log from elsewhere."""
    holdout: np.ndarray | None = None
    """Whether the arm was drawn uniformly, as one of the decisions held out; None likewise."""
    observed: np.ndarray | None = None
    """The number of the learner's event that brought the reward, NaN where none came; None likewise."""
    decided: np.ndarray | None = None
    """Whether the row is a decision, and not a reward of the past that a learner was told; None likewise."""

    @property
    def missing(self) -> int:
        """How many rows have no reward."""
        return int(np.isnan(self.reward).sum())

    @property
    def given_up(self) -> int:
        """How many more decisions a learner made that have no row: too many newer ones waited for their rewards."""
        return int(self.about.get("given_up", 0))

    def kept(self, keep: np.ndarray) -> Log:
        """The rows that are to be kept, a bool each."""
        columns = ("player", "arm", "reward", "propensity", "shared", "holdout", "observed", "decided")
        there = {name: getattr(self, name) for name in columns}
        changed: dict[str, Any] = {name: column[keep] for name, column in there.items() if column is not None}
        return replace(self, **changed)

    def counts(self) -> Counts:
        """Pulls and sums by player and arm, of the rows whose reward is known."""
        known = ~np.isnan(self.reward)
        shape = (len(self.players), len(self.arms))
        cell = self.player[known] * shape[1] + self.arm[known]
        low, high = self.about.get("reward_range", (0.0, 1.0))
        return Counts(
            self.players,
            self.arms,
            np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape),
            np.bincount(cell, weights=self.reward[known], minlength=shape[0] * shape[1]).reshape(shape),
            float(low),
            float(high),
            self.about.get("epsilon"),
        )


def read_log(source: Any, reward: str = "reward", also: Iterable[str] = ()) -> Log:
    """A log from a Parquet or CSV file, an Arrow table, a DataFrame, or a learner.

    Columns: player and arm; the named column of rewards, empty where unknown; and of propensity, shared, holdout, and a
    learner's observed and decision those that are asked for in `also`, if they are there. Others are not looked at.
    Whether rewards are in their range is for `with_range` to say.

    >>> import pyarrow
    >>> table = pyarrow.table({"player": ["a", "b", "a"], "arm": ["x", "x", "y"], "sales": [1.0, 0.0, None]})
    >>> read_log(table, reward="sales").counts().pulls.tolist()
    [[1, 0], [1, 0]]
    """
    table = _table(source)
    for name in ("player", "arm", reward):
        if name not in table.column_names:
            there = listed(table.column_names, 30) or "none"
            raise ValueError(f"the log has no column {name!r}; its columns are {there}{_separator(table.column_names)}")
    about = _about(table)
    own = () if about else ("observed", "decision")  # elsewhere such a column means something else
    wanted = [name for name in also if name in table.column_names and name not in own]
    for name in ("player", "arm", reward, *wanted):
        if table.column_names.count(name) > 1:
            raise ValueError(
                f"the log has column {name!r} {table.column_names.count(name)} times, but expected it once"
            )
    if table.num_rows == 0:
        raise ValueError("the log has no rows")
    players, player = _names(table, "player", about.get("players", []))
    arms, arm = _names(table, "arm", about.get("arms", []))
    columns = {name: _numbers(table, name) for name in wanted if name != "decision"}
    log = Log(
        players,
        arms,
        player,
        arm,
        _numbers(table, reward),
        columns.get("propensity"),
        columns.get("shared"),
        about,
        columns["holdout"] == 1 if "holdout" in columns else None,
        columns.get("observed"),
        table["decision"].is_valid().to_numpy() if "decision" in wanted else None,
    )
    _check_finite(log, reward)
    _check_propensities(log)
    return log


@overload
def with_range(rewards: Log, reward_range: Any = None) -> Log: ...
@overload
def with_range(rewards: Counts, reward_range: Any = None) -> Counts: ...
def with_range(rewards: Log | Counts, reward_range: Any = None) -> Log | Counts:
    """A log or counts with the range that was given, or else their own, once their rewards are seen to lie in it.

    The range is in `low` and `high` of counts, those of `log.counts()` included. Whatever is wrong is a ValueError.

    >>> counts = Counts(("a",), ("x",), np.array([[2]]), np.array([[70.0]]))
    >>> with_range(counts, (0, 50)).high
    50.0
    >>> with_range(counts)
    Traceback (most recent call last):
    ValueError: player 'a' earned 70 with 2 pulls of arm 'x', but rewards are in [0, 1]; give --range LOW HIGH \
(reward_range=(low, high)) if they are in another
    """
    return _log_with(rewards, reward_range) if isinstance(rewards, Log) else _counts_with(rewards, reward_range)


def _log_with(log: Log, reward_range: Any) -> Log:
    low, high = _checked(log.about.get("reward_range", (0.0, 1.0)) if reward_range is None else reward_range)
    bad = np.flatnonzero((log.reward < low) | (log.reward > high))
    if bad.size:
        raise ValueError(
            f"row {bad[0] + 1} has reward {log.reward[bad[0]]:g}, but rewards are in [{low:g}, {high:g}]; {ELSE}"
        )
    return replace(log, about={**log.about, "reward_range": (low, high)})


def _counts_with(counts: Counts, reward_range: Any) -> Counts:
    low, high = _checked((counts.low, counts.high) if reward_range is None else reward_range)
    pulls, sums = counts.pulls, counts.sums
    slack = 1e-9 * pulls * (abs(low) + abs(high))  # sums are rounded
    bad = np.argwhere(~((sums >= low * pulls - slack) & (sums <= high * pulls + slack)))
    if bad.size:
        player, arm = bad[0]
        raise ValueError(
            f"player {counts.players[player]!r} earned {sums[player, arm]:g} with {pulls[player, arm]:,} pulls of arm "
            f"{counts.arms[arm]!r}, but rewards are in [{low:g}, {high:g}]; {ELSE}"
        )
    return replace(counts, low=low, high=high)


def _checked(given: Any) -> tuple[float, float]:
    """Two numbers with a width that can be computed with."""
    try:
        low, high = (number("reward", each) for each in given)
    except (TypeError, ValueError):
        low, high = 0.0, 0.0
    if not NARROWEST <= high - low <= WIDEST:
        raise ValueError(
            f"reward_range={given!r}, but expected the least and the greatest reward, two numbers low < high, such as "
            "(0, 100) or --range 0 100"
        )
    return low, high


def _table(source: Any) -> Any:
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    if callable(getattr(source, "log", None)):
        source = source.log()
    if isinstance(source, pyarrow.Table):
        return source
    if hasattr(source, "__arrow_c_stream__") or type(source).__name__ == "DataFrame":
        try:
            return pyarrow.table(source)
        except (pyarrow.ArrowException, TypeError) as error:
            raise ValueError(f"the {type(source).__name__} cannot be made an Arrow table: {error}") from None
    if not isinstance(source, (str, Path)):
        raise TypeError(
            f"a {type(source).__name__} is no log; expected a path to a .parquet or .csv file, an Arrow table, a "
            "DataFrame, or a learner"
        )
    path = Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        if path.suffix.lower() == ".csv":
            names = pyarrow.csv.ConvertOptions(
                column_types={"player": pyarrow.string(), "arm": pyarrow.string()}, strings_can_be_null=False
            )
            return pyarrow.csv.read_csv(path, convert_options=names)
        if path.suffix.lower() in (".parquet", ".pq"):
            return pyarrow.parquet.read_table(path)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    raise ValueError(f"{path} ends in {path.suffix!r}, but a log is a .parquet or .csv file")


def _separator(columns: list[str]) -> str:
    """A hint where a file's columns seem not to be separated by commas."""
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        if any(mark in column for column in columns):
            return f"; they seem to be separated by {name}, but a .csv file has commas"
    return ""


def _about(table: Any) -> dict[str, Any]:
    """What a learner wrote about itself into the table's metadata."""
    written = (table.schema.metadata or {}).get(b"posse", b"{}")
    try:
        about = json.loads(written)
    except ValueError:
        about = None
    if not isinstance(about, dict):
        raise ValueError(f"what the log says of itself cannot be read: {written[:60]!r}, but expected a JSON object")
    return about


def _names(table: Any, column: str, first: list[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """The names in a column, those in `first` before others, and each row's number among them."""
    import pyarrow

    try:
        encoded = table[column].combine_chunks().cast(pyarrow.string()).dictionary_encode()
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
        raise ValueError(f"column {column!r} holds {table[column].type}, but expected names") from None
    found = encoded.dictionary.to_pylist()
    empty = encoded.is_null().to_numpy(zero_copy_only=False)
    if "" in found:
        empty |= encoded.indices.fill_null(-1).to_numpy() == found.index("")
    if empty.any():
        raise ValueError(f"row {int(empty.argmax()) + 1} has no {column}; every row needs one")
    names = list(dict.fromkeys([*first, *sorted(found)]))
    place = {name: number for number, name in enumerate(names)}
    mapping = np.array([place[name] for name in found], np.int64)
    return tuple(names), mapping[encoded.indices.to_numpy()]


def _numbers(table: Any, column: str) -> np.ndarray:
    """A column as float64, NaN where empty."""
    import pyarrow

    try:
        cast = table[column].cast(pyarrow.float64())
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise ValueError(f"column {column!r} must hold numbers: {error}") from None
    return np.asarray(cast.to_numpy(), np.float64)


def _check_finite(log: Log, reward: str) -> None:
    bad = np.flatnonzero(np.isinf(log.reward))
    if bad.size:
        raise ValueError(f"row {bad[0] + 1} has {reward}={log.reward[bad[0]]:g}, but expected a finite number")


def _check_propensities(log: Log) -> None:
    if log.propensity is None:
        return
    bad = np.flatnonzero((log.propensity <= 0) | (log.propensity > 1))
    if bad.size:
        raise ValueError(
            f"row {bad[0] + 1} has propensity={log.propensity[bad[0]]:g}, but the arm was chosen, so it is in (0, 1]"
        )
