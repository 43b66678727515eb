"""Is ε right? How far players really differ, as far as counts and sums of rewards can say.

Two answers, of different strength. The *bound* is guaranteed: with probability 1 − level, players never differ by less
than it says, however the data was gathered and however often one looks (`boundary.py`). An alarm is raised when it
passes ε. The *estimate* is a best guess with the sampling noise taken out (`spread.py`).

Both are void where rewards go missing, or come late, because of their value: what is then counted is not what was
earned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import number, whole
from posse.insight.diagnosis.boundary import interval, shares
from posse.insight.diagnosis.spread import Spread, estimate_spread
from posse.insight.logs import Log, read_log, with_range
from posse.insight.text import plain
from posse.learner import Counts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What the data says of ε, in the user's reward units; print it, draw it, or read its fields."""

    players: tuple[str, ...]
    arms: tuple[str, ...]
    pulls: np.ndarray
    """Pulls whose reward is known, [player, arm]."""
    means: np.ndarray
    """Mean rewards, [player, arm]; NaN where there are none."""
    lower: np.ndarray
    """Lower ends of the intervals for the means, [player, arm]; all hold for ever with probability 1 − level."""
    upper: np.ndarray
    """Upper ends, [player, arm]."""
    bounds: np.ndarray
    """The least by which some two players differ, [arm]: largest lower end minus smallest upper end; 0 if negative."""
    pairs: tuple[tuple[str, str] | None, ...]
    """For each arm the two players that the bound is about, the better one first; None where it is 0."""
    spread: Spread
    """The estimate of how far players differ, with the noise taken out."""
    low: float
    """The least reward that is possible."""
    high: float
    """The greatest reward that is possible."""
    epsilon: float | None
    """The ε in question; None if there is none, and then no alarm."""
    level: float
    """The probability of ever raising a false alarm is at most this."""
    shared: np.ndarray | None
    """How much each player's decisions rest on other players' data, 0 to 1, [player]; None if the source has none."""
    decisions: int | None
    """How many decisions the log tells of; None if the source is no log."""
    missing: int | None
    """How many of their rewards are unknown, those that were given up included; None if the source is no log."""

    @property
    def bound(self) -> float:
        """The least by which some two players differ in some arm."""
        return float(self.bounds.max())

    @property
    def broken(self) -> tuple[str, ...]:
        """The arms in which players are shown to differ by more than ε, the worst first."""
        if self.epsilon is None:
            return ()
        worst_first = np.argsort(-self.bounds, kind="stable")
        return tuple(self.arms[arm] for arm in worst_first if self.bounds[arm] > self.epsilon)

    @property
    def alarm(self) -> bool:
        """Whether ε is shown to be too small."""
        return bool(self.broken)

    @property
    def verdict(self) -> str:
        """The verdict in a line."""
        from posse.insight.diagnosis.text import headline

        return headline(self)

    def __str__(self) -> str:
        from posse.insight.diagnosis.text import to_text

        return to_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers, strings, lists and dictionaries, None where nothing is known; for JSON."""
        fields: dict[str, Any] = plain({**vars(self), "spread": vars(self.spread)})
        verdict = {"alarm": self.alarm, "broken": list(self.broken), "bound": self.bound}
        return {"schema": 1, "kind": "diagnosis", **verdict, **fields}

    def figure(self) -> Figure:
        """A panel for each arm: players' intervals beside a band as wide as ε. Needs matplotlib."""
        from posse.insight.diagnosis.figure import draw

        return draw(self)


def diagnose(
    source: Any,
    *,
    epsilon: float | None = None,
    reward: str = "reward",
    reward_range: tuple[float, float] | None = None,
    level: float = 0.05,
    seed: int = 0,
) -> Diagnosis:
    """Say how far players differ, and whether that breaks ε.

    `source` is a learner, its counts, or a log: a Parquet or CSV file, an Arrow table or a DataFrame with columns
    player, arm and the one named by `reward`. ε and the reward range are the source's own unless given; a log from
    elsewhere has the range 0 to 1 and no ε. The probability of ever raising a false alarm is at most `level`. `seed` is
    that of the estimate's draws; the bound has none.

    The level is shared over players and arms in the order in which they joined, so that more may join at any time:
    player number i and arm number j get shares(i) · shares(j) of it. A log from elsewhere has them in the order of
    their first rows. Those who have retired keep their numbers.

    Void where rewards go missing because of their value.

    >>> pulls, sums = np.array([[400, 400], [400, 400]]), np.array([[80.0, 60.0], [88.0, 240.0]])
    >>> diagnosis = diagnose(Counts(("north", "south"), ("old", "new"), pulls, sums), epsilon=0.1)
    >>> diagnosis.alarm, diagnosis.broken, round(diagnosis.bound, 2), diagnosis.pairs
    (True, ('new',), 0.23, (None, ('south', 'north')))
    """
    level = number("level", level, above=0, most=0.5)
    seed = whole("seed", seed, least=0)
    given = _read(source, reward, reward_range)
    counts, unit = given.counts, given.counts.high - given.counts.low
    chosen = counts.epsilon if epsilon is None else epsilon
    chosen = None if chosen is None else number("epsilon", chosen, least=0, most=unit)
    pulls = counts.pulls
    sums = np.clip((counts.sums - pulls * counts.low) / unit, 0, pulls)
    lower, upper = interval(pulls, sums, level * np.outer(shares(len(counts.players)), shares(len(counts.arms))))
    best, worst = lower.argmax(axis=0), upper.argmin(axis=0)
    bounds = np.maximum(lower.max(axis=0) - upper.min(axis=0), 0.0)
    pairs = tuple(
        (counts.players[p], counts.players[q]) if bound > 0 else None
        for p, q, bound in zip(best, worst, bounds, strict=True)
    )
    spread = estimate_spread(pulls, sums, given.squares, bounds, level, seed)
    return Diagnosis(
        counts.players,
        counts.arms,
        pulls,
        np.divide(counts.sums, pulls, out=np.full(pulls.shape, np.nan), where=pulls > 0),
        counts.low + unit * lower,
        counts.low + unit * upper,
        unit * bounds,
        pairs,
        Spread(**{name: unit * value for name, value in vars(spread).items()}),
        counts.low,
        counts.high,
        chosen,
        level,
        given.shared,
        given.decisions,
        given.missing,
    )


@dataclass(frozen=True, eq=False)
class _Given:
    """What a source has to say."""

    counts: Counts
    squares: np.ndarray | None = None
    """Sums of squares of the rewards on [0, 1], [player, arm]."""
    shared: np.ndarray | None = None
    decisions: int | None = None
    missing: int | None = None


def _read(source: Any, reward: str, reward_range: tuple[float, float] | None) -> _Given:
    if isinstance(source, Counts):
        return _Given(_some(with_range(source, reward_range)))
    if hasattr(source, "counts") and hasattr(source, "shared_weights"):
        counts = _some(with_range(source.counts(), reward_range))
        return _Given(counts, shared=np.asarray(source.shared_weights()))
    log = with_range(_in_order_of_joining(read_log(source, reward, also=("shared", "decision"))), reward_range)
    counts = _some(log.counts())
    known = ~np.isnan(log.reward)
    unit = (log.reward[known] - counts.low) / (counts.high - counts.low)
    cells = log.player[known] * len(log.arms) + log.arm[known]
    squares = np.bincount(cells, weights=unit**2, minlength=counts.pulls.size).reshape(counts.pulls.shape)
    # Rewards of the past that a learner was told are no decisions of its.
    decided = np.ones(known.shape, bool) if log.decided is None else log.decided | ~known
    decisions, missing = int(decided.sum()) + log.given_up, log.missing + log.given_up
    return _Given(counts, squares, _mean_shared(log.kept(decided)), decisions, missing)


def _some(counts: Counts) -> Counts:
    """The counts, if they are of anybody and anything."""
    if not (counts.players and counts.arms):
        raise ValueError(
            f"{len(counts.players)} players and {len(counts.arms)} arms, but expected one of each at least"
        )
    return counts


def _in_order_of_joining(log: Log) -> Log:
    """A log whose players and arms are in the order of joining: its learner's, or else that of their first rows."""
    players, player = (log.players, log.player) if "players" in log.about else _by_first_row(log.players, log.player)
    arms, arm = (log.arms, log.arm) if "arms" in log.about else _by_first_row(log.arms, log.arm)
    return replace(log, players=players, arms=arms, player=player, arm=arm)


def _by_first_row(names: tuple[str, ...], rows: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """The names in the order of their first rows, and the rows counted into them."""
    found, first = np.unique(rows, return_index=True)
    order = found[np.argsort(first)]
    place = np.empty(len(names), np.int64)
    place[order] = np.arange(len(order))
    return tuple(names[old] for old in order), place[rows]


def _mean_shared(log: Log) -> np.ndarray | None:
    """The mean weight of others' data by player, NaN for a player without decisions."""
    if log.shared is None:
        return None
    known = ~np.isnan(log.shared)
    count = np.bincount(log.player[known], minlength=len(log.players))
    total = np.bincount(log.player[known], weights=log.shared[known], minlength=len(log.players))
    return np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
