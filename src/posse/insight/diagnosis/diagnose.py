"""Is ε right? How far players really differ, as far as counts and sums of rewards can say.

Two answers, of different strength. The *bound* is guaranteed: with probability 1 − level, players never differ by less
than it says, however the data was gathered and however often one looks (`boundary.py`). An alarm is raised when it
passes ε. The *estimate* is a best guess with the sampling noise taken out (`spread.py`).

Both are void where rewards go missing, or come late, because of their value: what is then counted is not what was
earned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import number, whole
from posse.insight.diagnosis.boundary import interval, shares
from posse.insight.diagnosis.spread import Spread, estimate_spread, variances_within
from posse.insight.logs import Log, read_log
from posse.learner import Counts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-9  # how far a sum of rewards may be off, for each pull, as a part of the reward range


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
    """The probability of ever raising a false alarm."""
    shared: np.ndarray | None
    """How much each player's decisions rest on other players' data, 0 to 1, [player]; None if the source has none."""
    decisions: int | None
    """How many decisions the log has; None if the source is no log."""
    missing: int | None
    """How many of their rewards are unknown; None if the source is no log."""

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
        spread = {name: _plain(value) for name, value in vars(self.spread).items()}
        plain = {name: _plain(value) for name, value in vars(self).items() if name != "spread"}
        verdict = {"alarm": self.alarm, "broken": list(self.broken), "bound": self.bound}
        return {"schema": 1, "kind": "diagnosis", **verdict, **plain, "spread": spread}

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

    `source` is a learner, its counts, or a log: a Parquet or CSV file or an Arrow table with columns player, arm and
    the one named by `reward`. ε and the reward range are the source's own unless given; a log from elsewhere has the
    range 0 to 1 and no ε. `level` is the probability of ever raising a false alarm. `seed` is that of the estimate's
    draws; the bound has none.

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
    pulls, sums = counts.pulls, _on_unit(counts)
    lower, upper = interval(pulls, sums, level * np.outer(shares(len(counts.players)), shares(len(counts.arms))))
    best, worst = lower.argmax(axis=0), upper.argmin(axis=0)
    bounds = np.maximum(lower.max(axis=0) - upper.min(axis=0), 0.0)
    pairs = tuple(
        (counts.players[p], counts.players[q]) if bound > 0 else None
        for p, q, bound in zip(best, worst, bounds, strict=True)
    )
    spread = estimate_spread(pulls, sums, variances_within(pulls, sums, given.squares), bounds, level, seed)
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
        return _Given(_with_range(source, reward_range))
    if hasattr(source, "counts") and hasattr(source, "shared_weights"):
        return _Given(_with_range(source.counts(), reward_range), shared=np.asarray(source.shared_weights()))
    log = _in_order_of_joining(read_log(source, reward))
    counts = _with_range(log.counts(), reward_range)
    bad = np.flatnonzero((log.reward < counts.low) | (log.reward > counts.high))
    if bad.size:
        raise ValueError(
            f"row {bad[0] + 1} has {reward}={log.reward[bad[0]]:g}, but rewards are in "
            f"[{counts.low:g}, {counts.high:g}]; give their range if it is another"
        )
    known = ~np.isnan(log.reward)
    unit = (log.reward[known] - counts.low) / (counts.high - counts.low)
    cells = log.player[known] * len(log.arms) + log.arm[known]
    squares = np.bincount(cells, weights=unit**2, minlength=counts.pulls.size).reshape(counts.pulls.shape)
    return _Given(counts, squares, _mean_shared(log), len(log.reward), log.missing)


def _with_range(counts: Counts, reward_range: tuple[float, float] | None) -> Counts:
    """The counts with the range that was given, or their own."""
    try:
        first, second = (counts.low, counts.high) if reward_range is None else reward_range
    except (TypeError, ValueError):
        raise TypeError(f"reward_range={reward_range!r}, but expected two numbers, the least and greatest") from None
    low = number("the least reward", first)
    high = number("the greatest reward", second, above=low)
    if not (counts.players and counts.arms):
        raise ValueError(
            f"{len(counts.players)} players and {len(counts.arms)} arms, but expected one of each at least"
        )
    return Counts(counts.players, counts.arms, counts.pulls, counts.sums, low, high, counts.epsilon)


def _on_unit(counts: Counts) -> np.ndarray:
    """The sums of rewards if their range were [0, 1]."""
    sums = (counts.sums - counts.pulls * counts.low) / (counts.high - counts.low)
    bad = np.argwhere(~((sums >= -ROUNDING * counts.pulls) & (sums <= (1 + ROUNDING) * counts.pulls)))
    if bad.size:
        player, arm = bad[0]
        raise ValueError(
            f"player {counts.players[player]} has rewards of {counts.sums[player, arm]:g} from "
            f"{counts.pulls[player, arm]} pulls of arm {counts.arms[arm]}, but a reward is in "
            f"[{counts.low:g}, {counts.high:g}]"
        )
    return np.asarray(np.clip(sums, 0, counts.pulls))


def _in_order_of_joining(log: Log) -> Log:
    """A log whose players and arms are in the order of joining: its learner's, or else that of their first rows."""
    players, player = (log.players, log.player) if "players" in log.about else _by_first_row(log.players, log.player)
    arms, arm = (log.arms, log.arm) if "arms" in log.about else _by_first_row(log.arms, log.arm)
    return Log(players, arms, player, arm, log.reward, log.propensity, log.shared, log.about)


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


def _plain(value: Any) -> Any:
    """A field as JSON can hold it."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and math.isnan(value) else value
