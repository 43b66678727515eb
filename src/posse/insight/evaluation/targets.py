"""What can be judged by a log: fixed policies, and the best arms that the log itself says, learned honestly."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posse.checks import number
from posse.insight.evaluation import estimators
from posse.insight.evaluation.rows import Rows, playable
from posse.insight.hierarchy.model import fit
from posse.learner import Counts
from posse.policies import all_policies
from posse.text import listed

LOGGED, UNIFORM, BEST, SEGMENTS = "logged", "uniform", "best", "segments"
BY = f"{BEST} by "
PARTS = np.array([2, 0, 3, 1, 4])  # in the order in which rows are dealt: a single row of a player and arm judges
FIRST_JUDGE = 2  # the first part of the rows that judges what those before it say is best


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
        entry = self.table.get(player, self.table.get("*"))
        if entry is None:
            raise ValueError(f"{self.name} has nothing for player {player!r}; '*' is everybody who is not named")
        return {entry: 1.0} if isinstance(entry, str) else dict(entry)


@dataclass(frozen=True, eq=False)
class Target:
    """A policy as a table of probabilities, [player, arm]; None for the log's own choices.

    One that was learned from the log has a table for each part of the rows that judges it, one below the other: what
    the parts before say.
    """

    name: str
    probabilities: np.ndarray | None
    part: np.ndarray | None = None  # of each row; those from FIRST_JUDGE on judge
    learned: Mapping[str, str] = field(default_factory=dict)  # the arm that all rows say is best for each segment


def target_of(what: Any, rows: Rows) -> Target:
    """The target that a user named: an arm, "uniform", "logged", a table, or anything with `probabilities(player)`.

    "best" is the best arm for all players, "best by region" that of the players with each value, and "segments" that of
    each combination of all attributes.
    """
    if isinstance(what, (str, int)):  # a number or a truth value may be an arm's name
        what = str(what)
        if what not in rows.arms and (what in (BEST, SEGMENTS) or what.startswith(BY)):
            return _learned(what, rows)
        if what == LOGGED and what not in rows.arms:
            return Target(what, None)
        if what in rows.arms:
            return Target(what, np.tile([float(arm == what) for arm in rows.arms], (len(rows.players), 1)))
        if what == UNIFORM:
            return Target(what, np.full(rows.shape, 1 / len(rows.arms)))
        learns = what.partition("(")[0] in {policy.__name__ for policy in all_policies()}
        hint = "; a policy is given as an object, such as posse.RobustAggTS(0.1), or with --policy" if learns else ""
        raise ValueError(f"the log has no arm {what!r}; its arms are {listed(rows.arms)}{hint}")
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
        table[player] = _checked_row(name, rows.players[player], what.probabilities(rows.players[player]), rows.arms)
    return Target(name, table)


def _checked_row(name: str, player: str, entry: Mapping[str, Any], arms: tuple[str, ...]) -> np.ndarray:
    row = np.zeros(len(arms))
    for arm, probability in entry.items():
        if arm not in arms:
            raise ValueError(f"{name}, player {player!r}: the log has no arm {arm!r}; its arms are {listed(arms)}")
        row[arms.index(arm)] = number(f"{name}, player {player!r}, arm {arm!r}", probability, least=0, most=1)
    if not np.isclose(row.sum(), 1, rtol=1e-6):
        raise ValueError(f"{name}, player {player!r}: probabilities add up to {row.sum():g}, but expected 1")
    return row


def candidates(rows: Rows) -> list[str]:
    """The policies to learn from a log whose players have attributes: one arm, by attribute, by combination."""
    names = [BEST, *(f"{BY}{name}" for name in rows.attributes)] if rows.attributes else []
    return [name for name in [*names, *([SEGMENTS] if len(rows.attributes) > 1 else [])] if name not in rows.arms]


def _learned(name: str, rows: Rows) -> Target:
    """The best arm for each segment of players, learned from other rows than those that judge it.

    The rows come in parts, and a part judges what those before it say is best. If propensities are fixed, the rows of
    each player and arm are dealt to five parts, and the last three judge. In an adaptive log the second half judges.
    Folds that all judge each other would use more rows, but their errors are correlated if arms are nearly alike.
    """
    names, segment = _segments(name, rows)
    cells = rows.player, rows.arm, rows.reward, rows.shape
    if rows.adaptive:
        part = np.where(np.arange(rows.arm.size) < rows.arm.size // 2, 0, FIRST_JUDGE)
        judges = slice(FIRST_JUDGE, FIRST_JUDGE + 1)
    else:
        part, judges = PARTS[estimators.deal(rows.player, rows.arm, rows.shape)], slice(FIRST_JUDGE, None)
    each_part = estimators.by_fold(part, *cells)
    before = [(each.cumsum(axis=0) - each)[judges] for each in each_part]
    can = playable(rows.taken(slice(rows.arm.size // 2)) if rows.adaptive else rows)  # a learner's choices may tell
    in_all = np.array([can[segment == each].all(axis=0) for each in range(len(names))])
    for each, arms in zip(names, in_all, strict=True):
        if not arms.any():
            raise ValueError(f"no overlap: {name} needs an arm that every player of {each} has played")
    best = _best_arms(rows, before, segment, in_all)  # [part, segment]
    whole = [each.sum(axis=0, keepdims=True) for each in each_part]
    chosen = [rows.arms[arm] for arm in _best_arms(rows, whole, segment, in_all)[0]]
    plays = np.eye(len(rows.arms))[best[:, segment]].reshape(-1, len(rows.arms))
    return Target(name, plays, part, dict(zip(names, chosen, strict=True)))


def _best_arms(rows: Rows, known: list[np.ndarray], segment: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """The best arm of each segment by pulls, sums and squares [table, player, arm]: [table, segment].

    A player counts by its rows, with its means shrunk to those of its segment, so that it does not matter which of a
    segment's players happened to play an arm. In an adaptive log, where plain means are too low for arms that were
    given up, they are those of the model of the players, which `diagnose` and `conclude` use too.
    """
    pulls, sums, _ = known
    member = np.eye(len(allowed))[segment].T  # [segment, player]
    means = estimators.shrunken(pulls, sums, (member @ pulls)[:, segment], (member @ sums)[:, segment])
    if rows.adaptive:
        counts = (Counts(rows.players, rows.arms, n, s, squares=q) for n, s, q in zip(*known, strict=True))
        means = np.array([fit(each).expected() for each in counts])
    values = member @ (pulls.sum(axis=2, keepdims=True) * means)
    return np.asarray(np.where(allowed, values, -np.inf).argmax(axis=2))


def _segments(name: str, rows: Rows) -> tuple[list[str], np.ndarray]:
    """The segments' names, and the number of each player's."""
    if name == BEST:
        return ["all players"], np.zeros(len(rows.players), np.int64)
    if name == f"{BY}player":
        return list(rows.players), np.arange(len(rows.players))
    attributes = list(rows.attributes) if name == SEGMENTS else [each.strip() for each in name[len(BY) :].split(",")]
    for each in attributes or [""]:
        if each not in rows.attributes:
            known = f"the log's attributes are {listed(rows.attributes) or 'none'}"
            raise ValueError(f"{name!r}, but {known}; name its columns with --attributes (attributes=[...])")
    values = zip(*(rows.attributes[each] for each in attributes), strict=True)
    combined = [
        " / ".join(value or f"no {each}" for each, value in zip(attributes, own, strict=True)) for own in values
    ]
    there = {combined[player] for player in np.unique(rows.player)}
    names = sorted(there)
    return names, np.array([names.index(each) if each in there else 0 for each in combined])
