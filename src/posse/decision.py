"""Decisions and reports of their rewards: what a learner and a client of the service have in common.

Nothing here needs NumPy, so that a client starts quickly.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from posse.checks import is_bool
from posse.extras import extra
from posse.notebook import Summarized, Summary
from posse.text import listed as listed_names
from posse.text import shorten


@dataclass(frozen=True, slots=True)
class Decision(Summarized):
    """What a learner chose for a player."""

    id: str
    """What to report the reward with."""
    player: str
    arm: str
    propensity: float
    """The probability that this arm is chosen, all told: index, floor and holdout."""
    probabilities: dict[str, float] = field(repr=False)
    """The probability of every arm that was available."""
    round: int = field(repr=False)
    shared: float = field(repr=False)
    """How much the chosen arm's index rests on other players' data, from 0 to 1."""
    holdout: bool = field(repr=False)
    """Whether the arm was drawn uniformly, as one of the decisions held out."""

    def _summary(self) -> Summary:
        rows = [["arm", "probability", ""]]
        for arm, share in sorted(self.probabilities.items(), key=lambda pair: (pair[0] != self.arm, -pair[1])):
            rows.append([shorten(arm), f"{share:.3g}", "chosen" if arm == self.arm else ""])
        title = f"Decision {self.id}: {shorten(self.arm)} for {shorten(self.player)}, round {self.round:,}"
        return Summary(title, rows, "<><", "This decision is one of those held out." if self.holdout else "")

    def __hash__(self) -> int:
        return hash(self.id)


class UnknownDecision(ValueError):
    """A reward for a decision that this learner does not know, or no longer."""


class ConflictingReward(ValueError):
    """A decision already has a different reward, or another value of an outcome."""


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


Report = tuple[str, Any, Mapping[str, Any]]
"""A decision's id, its reward, or None if there is none to report, and its outcomes by name."""
NO_OUTCOMES: Mapping[str, Any] = {}


def as_reports(decision: Any, reward: Any, outcomes: Any = None) -> list[Report]:
    """Reports from anything that `Learner.observe` takes.

    `outcomes` are {name: value} of a single decision; of a table, the names of the columns that are outcomes.
    """
    if isinstance(decision, (str, Decision)):
        if reward is None and not outcomes:
            raise TypeError(f"reward=None for {decision!r}, but expected a number, or outcomes")
        if outcomes:
            return [_report((decision, reward, outcomes))]
        return [(decision if isinstance(decision, str) else decision.id, as_number(reward), NO_OUTCOMES)]
    if reward is not None or isinstance(outcomes, Mapping):
        raise TypeError("got many decisions with one reward or outcome; expected pairs (decision, reward)")
    pairs = list(decision.items()) if isinstance(decision, Mapping) else _rows_of(decision, outcomes or ())
    return [_report(pair) for pair in (listed("decisions", decision) if pairs is None else pairs)]


def _report(given: Any) -> Report:
    if not (isinstance(given, (tuple, list)) and len(given) in (2, 3)):
        raise TypeError(f"{given!r}, but expected a pair (decision, reward), or (decision, reward, {{outcome: value}})")
    decision, reward, *more = given
    outcomes = more[0] if more else NO_OUTCOMES
    if outcomes:
        if not isinstance(outcomes, Mapping):
            raise TypeError(f"outcomes={outcomes!r:.60}, but expected {{outcome: value}}")
        outcomes = {name: as_number(value) for name, value in outcomes.items()}
    return decision.id if isinstance(decision, Decision) else decision, as_number(reward), outcomes


def _rows_of(table: Any, outcomes: Iterable[str]) -> list[tuple[Any, ...]] | None:
    """Decision, reward and outcomes of each row of a data frame or an Arrow table; None if it is neither."""
    columns = columns_of(table)
    if columns is None:
        return None
    identity, names = "decision" if "decision" in columns else "id", [name for name in outcomes if name in columns]
    names = ["reward", *names] if "reward" in columns or not names else names
    ids, *values = column_values(columns, identity, *names, expected="'decision' or 'id', and 'reward'")
    if names == ["reward"]:
        return list(zip(ids, *values, strict=True))
    rows = [present(names, row) for row in zip(*values, strict=True)]
    return [(one, row.pop("reward", None), row) for one, row in zip(ids, rows, strict=True)]


def present(names: Iterable[str], row: Iterable[Any]) -> dict[str, Any]:
    """The values of a table's row by name, without those that are missing: None, NaN and pandas's NA."""
    none = getattr(sys.modules.get("pandas"), "NA", None)  # which is neither equal to itself nor unequal, as NaN is
    return {n: v for n, v in zip(names, row, strict=True) if not (v is None or v is none) and v == v}


def as_number(reward: Any) -> Any:
    """A reward of True or False as 1 or 0; others as they are."""
    return float(reward) if is_bool(reward) else reward


def listed(name: str, values: Any) -> list[Any]:
    """Values as a list."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{name}={values!r}, but expected several")
    return list(values)


def columns_of(table: Any) -> dict[str, Any] | None:
    """The columns of a data frame or an Arrow table by name; None if it is neither."""
    if hasattr(table, "__arrow_c_stream__") and not hasattr(table, "columns"):
        with extra("arrow", "a table of this kind"):
            import pyarrow

        table = pyarrow.table(table)
    names = getattr(table, "column_names", getattr(table, "columns", None))  # Arrow has both
    if names is None:
        return None
    names = list(names)
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the column {name!r} is there twice, but expected each once")
    return {name: table[name] for name in names}


def column_values(columns: dict[str, Any], *names: str, expected: str) -> list[list[Any]]:
    """The values of some columns as lists."""
    if not set(names) <= set(columns):
        raise ValueError(f"the columns are {listed_names(map(str, columns))}, but expected {expected}")
    found = [columns[name] for name in names]
    return [column.to_pylist() if hasattr(column, "to_pylist") else list(column) for column in found]
