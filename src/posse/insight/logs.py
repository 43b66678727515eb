"""Logs of decisions, from a learner or from elsewhere, in the one shape that diagnosis and evaluation work on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from posse.learner import Counts


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
    """The probability with which the arm was chosen, NaN where it was not drawn; None if the log has no such column."""
    shared: np.ndarray | None
    """How much of the decision rested on other players' data; None if the log has no such column."""
    about: dict[str, Any] = field(default_factory=dict)
    """What a learner wrote about itself, empty for a log from elsewhere."""
    holdout: np.ndarray | None = None
    """Whether the arm was drawn uniformly, as one of the decisions held out; None if the log has no such column."""

    @property
    def missing(self) -> int:
        """How many rewards are unknown."""
        return int(np.isnan(self.reward).sum())

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


def read_log(source: Any, reward: str = "reward") -> Log:
    """A log from a Parquet or CSV file, or from an Arrow table such as `learner.log()`.

    Columns: player and arm; the named column of rewards, empty where unknown; propensity, where arms were drawn.

    >>> import pyarrow
    >>> table = pyarrow.table({"player": ["a", "b", "a"], "arm": ["x", "x", "y"], "sales": [1.0, 0.0, None]})
    >>> read_log(table, reward="sales").counts().pulls.tolist()
    [[1, 0], [1, 0]]
    """
    table = _table(source)
    for name in ("player", "arm", reward):
        if name not in table.column_names:
            there = ", ".join(table.column_names) or "none"
            raise ValueError(f"the log has no column {name!r}; its columns are {there}")
    for name in ("player", "arm", reward, "propensity", "shared", "holdout"):
        if table.column_names.count(name) > 1:
            raise ValueError(
                f"the log has column {name!r} {table.column_names.count(name)} times, but expected it once"
            )
    if table.num_rows == 0:
        raise ValueError("the log has no rows")
    about = _about(table)
    players, player = _names(table, "player", about.get("players", []))
    arms, arm = _names(table, "arm", about.get("arms", []))
    known = [name for name in ("propensity", "shared", "holdout") if name in table.column_names]
    optional = {name: _numbers(table, name) for name in known}
    log = Log(
        players,
        arms,
        player,
        arm,
        _numbers(table, reward),
        optional.get("propensity"),
        optional.get("shared"),
        about,
        optional["holdout"] == 1 if "holdout" in optional else None,
    )
    _check_rewards(log, reward)
    _check_propensities(log)
    return log


def _table(source: Any) -> Any:
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    if isinstance(source, pyarrow.Table):
        return source
    if not isinstance(source, (str, Path)):
        raise TypeError(f"{source!r} is no log; expected a path to a .parquet or .csv file, or an Arrow table")
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

    encoded = table[column].combine_chunks().cast(pyarrow.string()).dictionary_encode()
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


def _check_rewards(log: Log, reward: str) -> None:
    low, high = log.about.get("reward_range", (-np.inf, np.inf))
    bad = np.flatnonzero(np.isinf(log.reward) | (log.reward < low) | (log.reward > high))
    if bad.size:
        raise ValueError(
            f"row {bad[0] + 1} has {reward}={log.reward[bad[0]]:g}, but rewards are in [{low:g}, {high:g}]"
        )


def _check_propensities(log: Log) -> None:
    if log.propensity is None:
        return
    bad = np.flatnonzero((log.propensity <= 0) | (log.propensity > 1))
    if bad.size:
        raise ValueError(
            f"row {bad[0] + 1} has propensity={log.propensity[bad[0]]:g}, but the arm was chosen, so it is in (0, 1]"
        )
