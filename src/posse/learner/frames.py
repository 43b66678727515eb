"""What users give as dictionaries, lists or tables: rewards of decisions, and players with their attributes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from posse.learner.setup import Setup, check_names
from posse.learner.state import Decision, as_number, listed
from posse.text import listed as listed_names


def as_reports(decision: Any, reward: Any) -> list[tuple[str, Any]]:
    """Reports as a list of (id, reward), from anything that `Learner.observe` takes."""
    if isinstance(decision, (str, Decision)):
        if reward is None:
            raise TypeError(f"reward=None for {decision!r}, but expected a number")
        return [(decision if isinstance(decision, str) else decision.id, as_number(reward))]
    if reward is not None:
        raise TypeError("got many decisions with one reward; expected pairs (decision, reward)")
    pairs = list(decision.items()) if isinstance(decision, Mapping) else _rows_of(decision)
    pairs = listed("decisions", decision) if pairs is None else pairs
    for pair in pairs:
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise TypeError(f"{pair!r}, but expected a pair (decision, reward)")
    return [(one.id if isinstance(one, Decision) else one, as_number(value)) for one, value in pairs]


def _rows_of(table: Any) -> list[tuple[Any, Any]] | None:
    """Decision and reward of each row of a data frame or an Arrow table; None if it is neither."""
    columns = _columns_of(table)
    if columns is None:
        return None
    identity = "decision" if "decision" in columns else "id"
    return list(zip(*_values(columns, identity, "reward", expected="'decision' or 'id', and 'reward'"), strict=True))


def given_players(setup: Setup, players: Any) -> dict[str, list[Any]]:
    """Players as users give them: their names, and the values of their attributes if there are any.

    They are given as names, as {name: {attribute: value}}, or as a data frame or an Arrow table.
    """
    given: list[Mapping[str, Any]] | None = None
    columns = None if isinstance(players, Mapping) else _columns_of(players)
    if isinstance(players, Mapping):
        players, given = list(players), list(players.values())
    elif columns is not None:
        names = [name for name in columns if name != "player"]
        players, *values = _values(columns, "player", *names, expected="'player', and attributes")
        none = getattr(sys.modules.get("pandas"), "NA", None)  # which is neither equal to itself nor unequal, as NaN is
        rows = zip(*values, strict=True)
        given = [{n: v for n, v in zip(names, row, strict=True) if v is not none and v == v} for row in rows]
        given = given or [{}] * len(players)
    checked = check_names("player", players)
    setup.check_players(len(checked))
    if given is None:
        return {"players": checked}
    made = []
    for name, attributes in zip(checked, given, strict=True):
        try:
            made.append(list(setup.attributes.values(attributes)))
        except (TypeError, ValueError) as error:
            raise type(error)(f"player {name!r}: {error}") from None
    return {"players": checked, "attributes": made}


def _columns_of(table: Any) -> dict[str, Any] | None:
    """The columns of a data frame or an Arrow table by name; None if it is neither."""
    if hasattr(table, "__arrow_c_stream__") and not hasattr(table, "columns"):
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


def _values(columns: dict[str, Any], *names: str, expected: str) -> list[list[Any]]:
    """The values of some columns as lists."""
    if not set(names) <= set(columns):
        raise ValueError(f"the columns are {listed_names(map(str, columns))}, but expected {expected}")
    found = [columns[name] for name in names]
    return [column.to_pylist() if hasattr(column, "to_pylist") else list(column) for column in found]
