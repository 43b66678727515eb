"""diagnose: is ε right? How far players really differ, as far as the rewards can say.

There are two answers of different strength. The *bound* is guaranteed: with probability 1 − level, it is never larger
than the true difference between players, however the data was gathered and however often one looks (`pairs.py`).
An alarm is raised when it passes ε. The *estimate* is a best guess without the sampling noise (`model.py`).

Both are void if rewards go missing, or come late, because of their value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import number, whole
from posse.insight.diagnosis.intervals import interval, shares
from posse.insight.diagnosis.model import SpreadEstimate, estimate_spread
from posse.insight.diagnosis.pairs import pair_bounds
from posse.insight.diagnosis.text import headline, to_text
from posse.insight.logs import Log, by_cell, read_log, with_range
from posse.learner import Counts
from posse.text import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What the data says about ε, in the user's reward units; print it, draw it, or read its fields."""

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
    """The least by which some two players differ, [arm]; all hold for ever with probability 1 − level."""
    pairs: tuple[tuple[str, str] | None, ...]
    """For each arm the two players that the bound is about, the better one first; None where it is 0."""
    spread: SpreadEstimate
    """The estimate of how far players differ, without the sampling noise."""
    low: float
    """The least possible reward."""
    high: float
    """The greatest possible reward."""
    epsilon: float | None
    """The ε in question; None if there is none, and then there is no alarm."""
    level: float
    """The probability of ever raising a false alarm is at most this."""
    shared: np.ndarray | None
    """How much each player's decisions rest on other players' data, 0 to 1, [player]; None if the source has none."""
    decisions: int | None
    """How many decisions the log has; None if the source is not a log."""
    missing: int | None
    """How many of their rewards are unknown, including decisions given up; None if the source is not a log."""

    @property
    def bound(self) -> float:
        """The least by which some two players differ on some arm."""
        return float(self.bounds.max())

    @property
    def broken(self) -> tuple[str, ...]:
        """The arms on which players provably differ by more than ε, the worst first."""
        if self.epsilon is None:
            return ()
        worst_first = np.argsort(-self.bounds, kind="stable")
        return tuple(self.arms[arm] for arm in worst_first if self.bounds[arm] > self.epsilon)

    @property
    def alarm(self) -> bool:
        """Whether ε is provably too small."""
        return bool(self.broken)

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        return headline(self)

    def __str__(self) -> str:
        return to_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers, strings, lists and dictionaries, None where nothing is known; for JSON."""
        verdict = {"alarm": self.alarm, "broken": list(self.broken), "bound": self.bound}
        return {"schema": 1, "kind": "diagnosis", **verdict, **plain(self)}

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

    The result is void if rewards go missing because of their value.

    The level is shared among players and arms in the order in which they joined, so that more may join at any time. In
    a log from elsewhere, they joined with their first rows. Those who have retired keep their numbers.

    Args:
        source: a learner, its counts, or a log: a Parquet or CSV file, an Arrow table or a DataFrame with columns
            player, arm and the one named by `reward`.
        epsilon: the ε in question; the source's own if omitted, and none for a log from elsewhere.
        reward: the column of rewards.
        reward_range: the least and the greatest possible reward; the source's own if omitted, and (0, 1) for a log
            from elsewhere.
        level: the probability of ever raising a false alarm is at most this.
        seed: the seed of the draws for the estimate; the bound is not random.

    >>> pulls, sums = np.array([[400, 400], [400, 400]]), np.array([[80.0, 60.0], [88.0, 240.0]])
    >>> diagnosis = diagnose(Counts(("north", "south"), ("old", "new"), pulls, sums), epsilon=0.1)
    >>> diagnosis.alarm, diagnosis.broken, round(diagnosis.bound, 2), diagnosis.pairs
    (True, ('new',), 0.31, (None, ('south', 'north')))
    """
    level = number("level", level, above=0, most=0.5)
    seed = whole("seed", seed, least=0)
    counts, squares, shared, decisions, missing = _read(source, reward, reward_range)
    players, arms = counts.pulls.shape
    if not (players and arms):
        raise ValueError(f"{players} players and {arms} arms, but expected one of each at least")
    unit, pulls = counts.high - counts.low, counts.pulls
    chosen = counts.epsilon if epsilon is None else epsilon
    chosen = None if chosen is None else number("epsilon", chosen, least=0, most=unit)
    sums = np.clip((counts.sums - pulls * counts.low) / unit, 0, pulls)
    lower, upper = interval(pulls, sums, level * np.outer(shares(players), shares(arms)))
    bounds, better, worse = pair_bounds(pulls, sums, level)
    pairs = tuple(
        (counts.players[p], counts.players[q]) if bound > 0 else None
        for p, q, bound in zip(better, worse, bounds, strict=True)
    )
    spread = estimate_spread(pulls, sums, squares, bounds, level, seed)
    return Diagnosis(
        counts.players,
        counts.arms,
        pulls,
        np.divide(counts.sums, pulls, out=np.full(pulls.shape, np.nan), where=pulls > 0),
        counts.low + unit * lower,
        counts.low + unit * upper,
        unit * bounds,
        pairs,
        SpreadEstimate(**{name: unit * value for name, value in vars(spread).items()}),
        counts.low,
        counts.high,
        chosen,
        level,
        shared,
        decisions,
        missing,
    )


def _read(
    source: Any, reward: str, reward_range: tuple[float, float] | None
) -> tuple[Counts, np.ndarray | None, np.ndarray | None, int | None, int | None]:
    """Counts, sums of squares of the rewards on [0, 1], others' weight by player, decisions, and missing rewards."""
    if isinstance(source, Counts):
        return with_range(source, reward_range), None, None, None, None
    if hasattr(source, "counts") and hasattr(source, "shared_weights"):
        return with_range(source.counts(), reward_range), None, np.asarray(source.shared_weights()), None, None
    log = with_range(read_log(source, reward, also=("shared", "decision"), in_order=True), reward_range)
    player, arm, rewards = log.scaled_rewards()
    squares = by_cell(player, arm, log.shape, rewards**2)
    # Past rewards that a learner was given are not its decisions.
    decision = np.ones(log.player.shape, bool) if log.is_decision is None else log.is_decision | np.isnan(log.reward)
    decisions, missing = int(decision.sum()) + log.given_up, log.missing + log.given_up
    return log.counts(), squares, _mean_shared(log.kept(decision)), decisions, missing


def _mean_shared(log: Log) -> np.ndarray | None:
    """The mean weight of others' data by player, NaN for a player without decisions."""
    if log.shared is None:
        return None
    known = ~np.isnan(log.shared)
    count = np.bincount(log.player[known], minlength=len(log.players))
    total = np.bincount(log.player[known], weights=log.shared[known], minlength=len(log.players))
    return np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
