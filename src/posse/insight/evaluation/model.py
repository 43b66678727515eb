"""Fixed policies judged by the rows of a log: what each row says about them, and the values that follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from posse.checks import number
from posse.insight.evaluation import estimators
from posse.insight.evaluation.rows import Rows, unseen
from posse.policies import all_policies
from posse.text import listed

LOGGED = "logged"
UNIFORM = "uniform"
PLENTY = 10  # effective rows with a reward of 1, and as many with a reward of 0, that the normal interval needs


@dataclass(frozen=True)
class Interval:
    """A value with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """What a policy would earn per decision, for one player or overall, in the log's units."""

    target: str
    player: str | None
    """None: overall, with each player as often as in the log."""
    value: float
    """NaN where no row of the log says anything about it."""
    low: float
    high: float
    estimator: str
    """How the value was made: dr, snips, ips, mean (of the log's own choices) or replay."""
    interval: str
    """How the interval was made: normal, betting, hoeffding, replay, or none where there is no value."""
    rows: float
    """How many rows have an arm that the target may play; for a replay, how many it used on average."""
    effective_rows: float
    """How many equally weighted rows would be as precise."""
    largest_weight: float
    difference: Interval | None = None
    """The difference to the policy that it was compared against, if any."""


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
    """A fixed policy as a table of probabilities, [player, arm]; None for the log's own choices."""

    name: str
    probabilities: np.ndarray | None


def target_of(what: Any, rows: Rows) -> Target:
    """The target that a user named: an arm, "uniform", "logged", a table, or anything with `probabilities(player)`."""
    if isinstance(what, (str, int)):  # a number or a truth value may be an arm's name
        what = str(what)
        logged = what == LOGGED and what not in rows.arms
        return Target(what, None if logged else _named_table(what, rows))
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


def _named_table(name: str, rows: Rows) -> np.ndarray:
    if name in rows.arms:
        return np.tile([float(arm == name) for arm in rows.arms], (len(rows.players), 1))
    if name == UNIFORM:
        return np.full(rows.shape, 1 / len(rows.arms))
    learns = name.partition("(")[0] in {policy.__name__ for policy in all_policies()}
    hint = "; a policy is given as an object, such as posse.RobustAggTS(0.1), or with --policy" if learns else ""
    raise ValueError(f"the log has no arm {name!r}; its arms are {listed(rows.arms)}{hint}")


def _checked_row(name: str, player: str, entry: Mapping[str, Any], arms: tuple[str, ...]) -> np.ndarray:
    row = np.zeros(len(arms))
    for arm, probability in entry.items():
        if arm not in arms:
            raise ValueError(f"{name}, player {player!r}: the log has no arm {arm!r}; its arms are {listed(arms)}")
        row[arms.index(arm)] = number(f"{name}, player {player!r}, arm {arm!r}", probability, least=0, most=1)
    if not np.isclose(row.sum(), 1, rtol=1e-6):
        raise ValueError(f"{name}, player {player!r}: probabilities add up to {row.sum():g}, but expected 1")
    return row


@dataclass(frozen=True, eq=False)
class ScoredTarget:
    """A target with what each row says about it."""

    name: str
    logged: bool
    weights: np.ndarray
    doubly_robust: np.ndarray  # scores; the rewards themselves for the log's own choices
    by_design: np.ndarray | None
    """Weights from the arms' shares of each player's rows, which are not random; None where there are none."""
    unseen: np.ndarray
    """Whether each player lacks rows with an arm that the target plays."""


class Evaluator:
    """Judges targets by the same rows."""

    def __init__(self, rows: Rows, level: float, estimator: str) -> None:
        self.rows, self.level, self.estimator = rows, level, estimator
        model = estimators.from_the_past if rows.adaptive else estimators.cross_fitted
        self.model = model(rows.player, rows.arm, rows.reward, rows.shape)
        self.pulls = rows.pulls()
        self.score = cache(self._score)
        self._kept_interval = cache(self._interval)  # every target asks for the baseline's

    def _score(self, target: Target) -> ScoredTarget:
        """What each row says about a target; an error if the log lacks an arm that the target plays."""
        rows = self.rows
        if target.probabilities is None:
            ones = np.ones(rows.reward.size)
            return ScoredTarget(target.name, True, ones, rows.reward, ones, np.zeros(len(rows.players), bool))
        lacking = unseen(rows, target.probabilities, target.name)
        played = target.probabilities[rows.player, rows.arm]
        weights = played / rows.propensity
        expected = (target.probabilities[rows.player] * self.model).sum(axis=1)
        modelled = self.model[np.arange(rows.arm.size), rows.arm]
        scores = estimators.dr_scores(weights, rows.reward, expected, modelled)
        by_design = None
        if rows.design is not None and not rows.adaptive:  # π over the arm's share, as if that were its propensity
            by_design = played * self.pulls.sum(axis=1)[rows.player] / self.pulls[rows.player, rows.arm]
        return ScoredTarget(target.name, False, weights, scores, by_design, lacking)

    def estimate(self, scored: ScoredTarget, player: int | None) -> Estimate:
        """The value for one player, or overall."""
        weights = scored.weights[self._rows(player)]
        found, estimator, kind = self._interval(scored, player, self.level)
        span = self.rows.high - self.rows.low
        value, low, high = (self.rows.low + span * end for end in (found.value, found.low, found.high))
        who = None if player is None else self.rows.players[player]
        rows, effective, largest = (weights > 0).sum(), estimators.effective_rows(weights), weights.max(initial=0)
        return Estimate(scored.name, who, value, low, high, estimator, kind, int(rows), effective, float(largest))

    def difference(self, scored: ScoredTarget, baseline: ScoredTarget, player: int | None) -> Interval:
        """From the rows' differences where both have normal intervals; else from both ends, each at half the level."""
        first, one, kind = self._kept_interval(scored, player, self.level / 2)
        second, other, other_kind = self._kept_interval(baseline, player, self.level / 2)
        low, high = first.low - second.high, first.high - second.low
        if kind == other_kind == "normal":
            scores = self._scores(scored, player, one) - self._scores(baseline, player, other)
            low, high = estimators.normal_interval(scores, self.level)
        span = self.rows.high - self.rows.low
        return Interval((first.value - second.value) * span, low * span, high * span)

    def _interval(self, scored: ScoredTarget, player: int | None, level: float) -> tuple[Interval, str, str]:
        """The value with its interval, for rewards in [0, 1], and how both were made."""
        chosen = self._rows(player)
        weights, rewards = scored.weights[chosen], self.rows.reward[chosen]
        plenty = self._plenty(weights, rewards)
        estimator = "mean" if scored.logged else self.estimator
        if estimator == "auto":
            estimator = "dr" if plenty else "snips"
        lacking = scored.unseen.any() if player is None else scored.unseen[player]
        if (player is not None and lacking) or not weights.any():
            return Interval(np.nan, 0.0, 1.0), estimator, "none"
        scores = self._scores(scored, player, estimator)
        if plenty and (scored.logged or not self.rows.adaptive):
            kind, (low, high) = "normal", estimators.normal_interval(scores, level)
        elif scored.logged and self.rows.adaptive:
            kind, (low, high) = "hoeffding", estimators.hoeffding_interval(rewards, level)
        else:
            design = None if lacking or scored.by_design is None else scored.by_design[chosen]
            used = weights if design is None else design
            bet = estimators.betting_interval(used, rewards, level, by_design=design is not None)
            kind, (low, high) = "betting", bet
        value = float(scores.mean())
        within = min(max(value, 0.0), 1.0)
        return Interval(value, min(max(low, 0.0), within), max(min(high, 1.0), within)), estimator, kind

    def _plenty(self, weights: np.ndarray, rewards: np.ndarray) -> bool:
        """Whether there are enough rows for the normal law: n v ≥ 10 and n (1 − v) ≥ 10, with n effective rows."""
        if not weights.any():
            return False
        value = float((weights * rewards).sum() / weights.sum())
        return estimators.effective_rows(weights) * min(value, 1 - value) >= PLENTY

    def _scores(self, scored: ScoredTarget, player: int | None, estimator: str) -> np.ndarray:
        chosen = self._rows(player)
        if estimator in ("mean", "dr"):
            return np.asarray(scored.doubly_robust[chosen])
        score = estimators.ips_scores if estimator == "ips" else estimators.snips_scores
        return score(scored.weights[chosen], self.rows.reward[chosen])

    def _rows(self, player: int | None) -> Any:
        return slice(None) if player is None else self.rows.player == player


class Evaluators:
    """An evaluator for each span of rows: a target is judged by the rows in which all that it plays was on offer."""

    def __init__(self, rows: Rows, level: float, estimator: str) -> None:
        self.rows = rows
        self._during = cache(lambda span: Evaluator(rows.during(*span), level, estimator))

    def of(self, *targets: Target) -> Evaluator:
        """The evaluator by the rows in which all that these targets play was on offer."""
        tables = [target.probabilities for target in targets if target.probabilities is not None]
        played = np.asarray(np.vstack([np.zeros(len(self.rows.arms)), *tables]).any(axis=0))
        return self._during(self.rows.on_offer(played))

    def estimates(self, target: Target, baseline: Target | None) -> Iterator[Estimate]:
        """The estimate overall, then player by player."""
        evaluator = self.of(target)
        pair = None if baseline is None or baseline.name == target.name else self._pair(target, baseline)
        for player in (None, *np.unique(self.rows.player)):
            estimate = evaluator.estimate(evaluator.score(target), player)
            if pair is not None:
                both, first, second = pair
                estimate = replace(estimate, difference=both.difference(first, second, player))
            yield estimate

    def _pair(self, target: Target, baseline: Target) -> tuple[Evaluator, ScoredTarget, ScoredTarget] | None:
        """Both scored by the same evaluator; None if no rows can judge both."""
        try:
            both = self.of(target, baseline)
            return both, both.score(target), both.score(baseline)
        except ValueError:
            return None
