"""The fixed policies that a log can be asked about: for each player, a probability for each arm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.checks import number
from posse.insight.evaluation.support import Rows
from posse.insight.text import listed

LOGGED = "logged"
UNIFORM = "uniform"


@dataclass(frozen=True)
class FixedPolicy:
    """A policy that does not learn: for each player an arm, or a probability for each arm; "*" is everybody else.

    >>> FixedPolicy("by hand", {"clinic 1": "x", "*": {"x": 0.5, "y": 0.5}}).probabilities("clinic 1")
    {'x': 1.0}
    """

    name: str
    table: Mapping[str, str | Mapping[str, float]]

    def probabilities(self, player: str) -> dict[str, float]:
        """The probability with which the player plays each arm; arms that are not named have none."""
        if player not in self.table and "*" not in self.table:
            raise ValueError(f"{self.name} has nothing for player {player!r}; '*' is everybody who is not named")
        entry = self.table[player] if player in self.table else self.table["*"]
        return {entry: 1.0} if isinstance(entry, str) else dict(entry)


@dataclass(frozen=True, eq=False)
class Target:
    """A fixed policy as a table, [player, arm]; None for the log's own choices."""

    name: str
    probabilities: np.ndarray | None

    def plays(self, rows: Rows) -> np.ndarray:
        """Whether it ever plays each arm."""
        if self.probabilities is None:
            return np.zeros(len(rows.arms), bool)
        return np.asarray((self.probabilities > 0).any(axis=0))


def target_of(what: Any, rows: Rows) -> Target:
    """What a user may name: an arm, "uniform", "logged", a table, or anything with `probabilities(player)`."""
    if isinstance(what, str):
        return _named(what, rows)
    if isinstance(what, Mapping):
        what = FixedPolicy("table", what)
    if not callable(getattr(what, "probabilities", None)):
        raise TypeError(
            f"{what!r} is no policy to judge; expected an arm's name, 'uniform', 'logged', a table player → arm or "
            "player → {arm: probability}, an object with probabilities(player), or a posse policy to replay"
        )
    given = getattr(what, "name", None)
    name = given if isinstance(given, str) and given else type(what).__name__
    table = np.zeros(rows.shape)
    for player in np.unique(rows.player):
        table[player] = _row(name, rows.players[player], what.probabilities(rows.players[player]), rows.arms)
    return Target(name, table)


def _named(name: str, rows: Rows) -> Target:
    if name in rows.arms:
        table = np.zeros(rows.shape)
        table[:, rows.arms.index(name)] = 1
        return Target(name, table)
    if name == UNIFORM:
        return Target(name, np.full(rows.shape, 1 / len(rows.arms)))
    if name == LOGGED:
        return Target(name, None)
    raise ValueError(f"the log has no arm {name!r}; its arms are {listed(rows.arms)}")


def _row(name: str, player: str, entry: Mapping[str, Any], arms: tuple[str, ...]) -> np.ndarray:
    row = np.zeros(len(arms))
    for arm, probability in entry.items():
        if arm not in arms:
            raise ValueError(f"{name}, player {player!r}: the log has no arm {arm!r}; its arms are {listed(arms)}")
        row[arms.index(arm)] = number(f"{name}, player {player!r}, arm {arm!r}", probability, least=0, most=1)
    if not np.isclose(row.sum(), 1, rtol=1e-6):
        raise ValueError(f"{name}, player {player!r}: probabilities add up to {row.sum():g}, but expected 1")
    return row
