"""Logs of decisions, from a learner or from elsewhere, in the one form that all of insight works on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from posse.checks import number
from posse.learner import Counts
from posse.learner.setup import NARROWEST, WIDEST
from posse.text import listed

GIVE_RANGE = "give --range LOW HIGH (reward_range=(low, high)) if they are in another"


@dataclass(frozen=True, eq=False)
class Log:
    """A log: each array has one entry for each row, in the log's order; None where there is no such column."""

    players: tuple[str, ...]  # names; `player` has places in this tuple
    arms: tuple[str, ...]  # names; `arm` has places in this tuple
    player: np.ndarray  # the player of each row, int64
    arm: np.ndarray  # the arm that was chosen, int64
    reward: np.ndarray  # float64; NaN where none came
    propensity: np.ndarray | None  # the probability with which the arm was chosen, NaN where unknown
    shared: np.ndarray | None  # how much of the decision rested on other players' data
    about: dict[str, Any] = field(default_factory=dict)  # what a learner wrote about itself
    holdout: np.ndarray | None = None  # whether the decision was held out, its arm drawn uniformly
    observed: np.ndarray | None = None  # the number of the learner's event that brought the reward, NaN without one
    is_decision: np.ndarray | None = None  # whether the row is a decision, not a past reward that a learner was given

    @property
    def shape(self) -> tuple[int, int]:
        """How many players and arms there are."""
        return len(self.players), len(self.arms)

    @property
    def missing(self) -> int:
        """How many rows have no reward."""
        return int(np.isnan(self.reward).sum())

    @property
    def given_up(self) -> int:
        """How many decisions have no row because their learner gave them up: too many newer ones were waiting."""
        return int(self.about.get("given_up", 0))

    def kept(self, keep: np.ndarray) -> Log:
        """The log with only the rows for which `keep` is True."""
        columns = {name: column[keep] for name, column in vars(self).items() if isinstance(column, np.ndarray)}
        return replace(self, **columns)

    def counts(self) -> Counts:
        """Pulls and sums by player and arm, over the rows whose reward is known."""
        known = ~np.isnan(self.reward)
        player, arm = self.player[known], self.arm[known]
        pulls, sums = by_cell(player, arm, self.shape), by_cell(player, arm, self.shape, self.reward[known])
        low, high = self.about.get("reward_range", (0.0, 1.0))
        return Counts(self.players, self.arms, pulls, sums, float(low), float(high), self.about.get("epsilon"))

    def scaled_rewards(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Player, arm and reward of the rows whose reward is known; rewards moved from their range to [0, 1]."""
        known = ~np.isnan(self.reward)
        low, high = self.about["reward_range"]
        return self.player[known], self.arm[known], (self.reward[known] - low) / (high - low)


def by_cell(
    player: np.ndarray, arm: np.ndarray, shape: tuple[int, int], weights: np.ndarray | None = None
) -> np.ndarray:
    """How many rows each player and arm has, or the sums of their weights, [player, arm]."""
    return np.bincount(player * shape[1] + arm, weights=weights, minlength=shape[0] * shape[1]).reshape(shape)


def read_log(source: Any, reward: str = "reward", also: Iterable[str] = (), *, in_order: bool = False) -> Log:
    """Read a log from a Parquet or CSV file, an Arrow table, a DataFrame, or a learner.

    The log must have the columns player, arm, and the one named by `reward`, which may be empty where the reward is
    unknown. `also` names further columns to read if they are there: propensity, shared, holdout, and from a learner's
    log observed and decision. Other columns are not read. `with_range` checks that rewards are in their range.

    Players and arms are in their learner's order; in a log from elsewhere they are sorted by name, or `in_order` of
    their first rows.

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
    own = () if about else ("observed", "decision")  # in a log from elsewhere, such a column means something else
    wanted = [name for name in also if name in table.column_names and name not in own]
    for name in ("player", "arm", reward, *wanted):
        times = table.column_names.count(name)
        if times > 1:
            raise ValueError(f"the log has column {name!r} {times} times, but expected it once")
    if table.num_rows == 0:
        raise ValueError("the log has no rows")
    players, player = _names(table, "player", about.get("players", []), in_order)
    arms, arm = _names(table, "arm", about.get("arms", []), in_order)
    columns = {
        **{name: _numbers(table, name) if name in wanted else None for name in ("propensity", "shared", "observed")},
        "holdout": _numbers(table, "holdout") == 1 if "holdout" in wanted else None,
        "is_decision": table["decision"].is_valid().to_numpy() if "decision" in wanted else None,
    }
    log = Log(players, arms, player, arm, _numbers(table, reward), about=about, **columns)
    _refuse(f"{reward}=", log.reward, np.isinf(log.reward), "expected a finite number")
    if log.propensity is not None:
        outside = (log.propensity <= 0) | (log.propensity > 1)
        _refuse("propensity=", log.propensity, outside, "the arm was chosen, so it is in (0, 1]")
    return log


@overload
def with_range(rewards: Log, reward_range: Any = None) -> Log: ...
@overload
def with_range(rewards: Counts, reward_range: Any = None) -> Counts: ...
def with_range(rewards: Log | Counts, reward_range: Any = None) -> Log | Counts:
    """The log or the counts with the given reward range, or their own if none is given.

    A ValueError says if the range is not one, or if a reward lies outside. Counts hold the range as `low` and `high`.

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
    outside = (log.reward < low) | (log.reward > high)
    _refuse("reward ", log.reward, outside, f"rewards are in [{low:g}, {high:g}]; {GIVE_RANGE}")
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
            f"{counts.arms[arm]!r}, but rewards are in [{low:g}, {high:g}]; {GIVE_RANGE}"
        )
    return replace(counts, low=low, high=high)


def _checked(given: Any) -> tuple[float, float]:
    """The range as two numbers whose distance is neither too small nor too large to compute with."""
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
    """A hint for a file whose columns seem to be separated by something else than commas."""
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        if any(mark in column for column in columns):
            return f"; they seem to be separated by {name}, but a .csv file has commas"
    return ""


def _about(table: Any) -> dict[str, Any]:
    """What a learner wrote about itself in the table's metadata."""
    written = (table.schema.metadata or {}).get(b"posse", b"{}")
    try:
        about = json.loads(written)
    except ValueError:
        about = None
    if not isinstance(about, dict):
        raise ValueError(f"what the log says of itself cannot be read: {written[:60]!r}, but expected a JSON object")
    return about


def _names(table: Any, column: str, first: list[str], in_order: bool) -> tuple[tuple[str, ...], np.ndarray]:
    """The names in a column, those in `first` before the others, and for each row the place of its name."""
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
    names = list(dict.fromkeys([*first, *(found if in_order else sorted(found))]))  # found is in order of first rows
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


def _refuse(name: str, column: np.ndarray, bad: np.ndarray, expected: str) -> None:
    """An error for the first row whose value is bad, if there is one."""
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"row {row + 1} has {name}{column[row]:g}, but {expected}")
