"""Fixed policies judged by the rows of a log: what each row says about them, and the values that follow."""

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from posse.insight.evaluation import betting, estimators
from posse.insight.evaluation.rows import Rows, unseen
from posse.insight.evaluation.targets import FIRST_JUDGE, Target
from posse.insight.evaluation.weighting import ArmRows, weighted_interval
from posse.insight.logs import by_cell

PLENTY = 10  # effective rows with a reward of 1, and as many with a reward of 0, that `auto` needs to choose dr


@dataclass(frozen=True)
class Interval:
    """A value with its interval."""

    value: float
    low: float
    high: float
    kind: str
    """How it was made: normal, weighted, betting, martingale, replay, both (from both policies' intervals), or none."""
    error: float = math.nan
    """The standard error of the value."""
    shrunken: float | None = None
    """The value pulled towards the other players' by how unsure it is, for one player; their mean is that of all."""
    shrunken_error: float = math.nan


@dataclass(frozen=True)
class Estimate:
    """What a policy would earn per decision, for one player or overall, in the log's units."""

    target: str
    player: str | None
    """None: overall, with each player as often as in the log. With `by`, a value of that column."""
    value: float
    """NaN where no row of the log says anything about it."""
    low: float
    high: float
    estimator: str
    """How the value was made: dr, snips, ips, weighted, mean (of the log's own choices) or replay."""
    interval: str
    """How the interval was made: normal, weighted, betting, martingale, replay, or none where there is no value."""
    rows: float
    """How many rows have an arm that the target may play; for a replay, how many it used on average."""
    effective_rows: float
    """How many equally weighted rows would be as precise."""
    largest_weight: float
    difference: Interval | None = None
    """The difference to the policy that it was compared against, if any."""


@dataclass(frozen=True, eq=False)
class ScoredTarget:
    """A target with what each row says about it."""

    name: str
    probabilities: np.ndarray | None  # None for the log's own choices
    line: np.ndarray  # of that table, for each row: the row's player, in the table of the row's part if it was learned
    weights: np.ndarray
    doubly_robust: np.ndarray  # scores; the rewards themselves for the log's own choices
    unseen: np.ndarray  # whether each player lacks rows with an arm that the target plays

    @property
    def logged(self) -> bool:
        return self.probabilities is None


class Evaluator:
    """Judges targets by the same rows. A group is one of the rows' groups, or None: all rows."""

    def __init__(self, rows: Rows, level: float, estimator: str, places: Any = slice(None)) -> None:
        self.rows, self.level, self.estimator = rows.taken(places), level, estimator
        self.places = places  # of these rows in the log
        rows = self.rows
        self.score = lru_cache(2)(self._score)  # a target's and the baseline's
        self._intervals: dict[tuple[str, int | None, float], tuple[Interval, str]] = {}
        order = np.argsort(rows.group, kind="stable")
        ends = np.cumsum(np.bincount(rows.group, minlength=len(rows.groups)))[:-1]
        self._places = np.split(order, ends)

    @cached_property
    def model(self) -> np.ndarray:
        """The guess q of each row's rewards, [row, arm], for doubly robust scores."""
        rows = self.rows
        return self._past if rows.adaptive else estimators.cross_fitted(rows.player, rows.arm, rows.reward, rows.shape)

    @cached_property
    def _past(self) -> np.ndarray:
        """The guess from the rows before, for bets."""
        return estimators.from_the_past(self.rows.player, self.rows.arm, self.rows.reward, self.rows.shape)

    def check(self, target: Target) -> None:
        """An error if the log lacks an arm that the target plays."""
        if target.probabilities is not None:
            self._unseen(target.probabilities, target.name)

    def _unseen(self, plays: np.ndarray, name: str) -> np.ndarray:
        """Whether each player lacks rows with an arm that a target plays, in any fold."""
        return unseen(self.rows, plays.reshape(-1, *self.rows.shape).max(axis=0), name)

    def _score(self, target: Target) -> ScoredTarget:
        """What each row says about a target; an error if the log lacks an arm that the target plays."""
        rows, plays = self.rows, target.probabilities
        if plays is None:
            none = np.zeros(len(rows.players), bool)
            return ScoredTarget(target.name, None, rows.player, np.ones(rows.reward.size), rows.reward, none)
        lacking = self._unseen(plays, target.name)
        line = rows.player
        if target.part is not None:
            line = (target.part[self.places] - FIRST_JUDGE) * len(rows.players) + rows.player
        weights = plays[line, rows.arm] / rows.propensity
        expected = np.zeros(rows.reward.size)
        for arm in np.flatnonzero(plays.any(axis=0)):
            expected += plays[line, arm] * self.model[:, arm]
        modelled = self.model[np.arange(rows.arm.size), rows.arm]
        scores = estimators.dr_scores(weights, rows.reward, expected, modelled)
        return ScoredTarget(target.name, plays, line, weights, scores, lacking)

    def estimate(self, scored: ScoredTarget, group: int | None) -> Estimate:
        """The value for one group, or overall."""
        weights = scored.weights[self.chosen(group)]
        found, estimator = self._interval(scored, group, self.level)
        span = self.rows.high - self.rows.low
        value, low, high = (self.rows.low + span * end for end in (found.value, found.low, found.high))
        who = None if group is None else self.rows.groups[group]
        rows, effective, largest = (weights > 0).sum(), estimators.effective_rows(weights), weights.max(initial=0)
        return Estimate(scored.name, who, value, low, high, estimator, found.kind, int(rows), effective, float(largest))

    def difference(self, scored: ScoredTarget, baseline: ScoredTarget, group: int | None) -> Interval:
        """One interval for the rows' differences, or from both values' ends where these say more."""
        first, second = (self._scores(each, group) for each in (scored, baseline))
        span = self.rows.high - self.rows.low
        if first is None or second is None:
            return Interval(math.nan, -span, span, "none")
        one, other = scored.probabilities, baseline.probabilities
        found = None
        if self.rows.adaptive and one is not None and other is not None:
            found = self._weighted(one - other, group, self.level)
        if found is not None:
            ends = max(found.low, -1.0) * span, min(found.high, 1.0) * span
            return Interval(found.value * span, *ends, found.kind, found.error * span)
        scores, chosen = first[0] - second[0], self.chosen(group)
        values = [self._interval(each, group, self.level)[0].value for each in (scored, baseline)]
        value = values[0] - values[1]
        largest = max(float(np.abs(scored.weights[chosen] - baseline.weights[chosen]).max()), 1)
        if not self.rows.adaptive and estimators.varies_enough(scores, math.sqrt(2) * largest):  # two policies' rows
            kind, (low, high) = "normal", estimators.normal_interval(scores, self.level)
        elif scored.logged or baseline.logged if self.rows.adaptive else self._has_designs(scored, baseline, chosen):
            both = [self._interval(each, group, self.level / 2)[0] for each in (scored, baseline)]
            kind, low, high = "both", both[0].low - both[1].high, both[0].high - both[1].low
        else:
            pair = self._terms(scored, group), self._terms(baseline, group)
            kind, (low, high) = "betting", betting.martingale_difference(*pair, self.level)
        low, high = min(max(low, -1.0), value), max(min(high, 1.0), value)
        return Interval(value * span, low * span, high * span, kind, _error(scores) * span)

    def shares(self, scored: ScoredTarget, group: int | None) -> tuple[float, np.ndarray] | None:
        """The value, and how much of each row's reward is in it; None where there is no value."""
        found = self._scores(scored, group)
        weights = scored.weights[self.chosen(group)]
        if found is None:
            return None
        return float(found[0].mean()), weights / (weights.sum() if found[1] == "snips" else weights.size)

    def _interval(self, scored: ScoredTarget, group: int | None, level: float) -> tuple[Interval, str]:
        """The interval, computed once: the baseline's is needed for each target."""
        key = scored.name, group, level
        if key not in self._intervals:
            self._intervals[key] = self._computed_interval(scored, group, level)
        return self._intervals[key]

    def _computed_interval(self, scored: ScoredTarget, group: int | None, level: float) -> tuple[Interval, str]:
        """The value with its interval, for rewards in [0, 1], and the estimator."""
        found = self._scores(scored, group)
        if found is None:
            return Interval(math.nan, 0.0, 1.0, "none"), self.estimator
        plays = scored.probabilities
        weighted = None if plays is None else self._weighted(plays, group, level)
        if weighted is not None:
            return _within(weighted), "weighted"
        scores, estimator = found
        chosen = self.chosen(group)
        weights, rewards = scored.weights[chosen], self.rows.reward[chosen]
        if (scored.logged or not self.rows.adaptive) and estimators.varies_enough(scores, max(float(weights.max()), 1)):
            kind, (low, high) = "normal", estimators.normal_interval(scores, level)
        elif scored.logged and self.rows.adaptive:
            kind, (low, high) = "martingale", estimators.martingale_interval(rewards, level)
        else:
            kind, design = "betting", self._by_design(scored, chosen)
            if design is None:
                low, high = betting.martingale_interval(self._terms(scored, group), level)
            else:
                low, high = betting.design_interval(design, rewards, level)
        return _within(Interval(float(scores.mean()), low, high, kind, _error(scores))), estimator

    def _weighted(self, plays: np.ndarray, group: int | None, level: float) -> Interval | None:
        """The interval from weighted rows of an adaptive log, for a value or a difference; None where it may not hold.

        It needs the propensities of the arms that were not played too.
        """
        chosen, rows = self.chosen(group), self.rows
        if not rows.adaptive or self.estimator != "auto":
            return None
        player, arm, reward = rows.player[chosen], rows.arm[chosen], rows.reward[chosen]
        shares = np.bincount(player, minlength=len(rows.players)) / player.size
        arms = []
        for each in np.flatnonzero(plays[shares > 0].any(axis=0)).tolist():
            chances = rows.chance(each, chosen, of_all=True)
            if chances is None:
                return None
            arms.append(ArmRows(chances, arm == each, self._past[chosen, each], shares * plays[:, each]))
        found = weighted_interval(arms, player, reward, level) if arms else None
        return None if found is None else Interval(*found[:3], "weighted", found[3])

    def _has_designs(self, scored: ScoredTarget, baseline: ScoredTarget, chosen: Any) -> bool:
        """Whether both values' intervals go by fixed shares, which are narrower than a bet on the rows' differences."""
        return all(self._by_design(each, chosen) is not None for each in (scored, baseline))

    def _by_design(self, scored: ScoredTarget, chosen: Any) -> np.ndarray | None:
        """Weights from the arms' shares of each player's rows, which are not random; None where there are none."""
        if self.rows.design is None or self.rows.adaptive:
            return None
        if scored.probabilities is None:
            return scored.weights[chosen]
        if len(scored.probabilities) > len(self.rows.players):
            return None
        player, arm = self.rows.player[chosen], self.rows.arm[chosen]
        pulls = by_cell(player, arm, self.rows.shape)
        if ((scored.probabilities > 0) & (pulls == 0) & (pulls.sum(axis=1) > 0)[:, None]).any():
            return None
        return np.asarray(scored.probabilities[player, arm] * pulls.sum(axis=1)[player] / pulls[player, arm])

    def _terms(self, scored: ScoredTarget, group: int | None) -> betting.BetTerms:
        """What each row of the group says about the target, to bet on."""
        chosen, rows = self.chosen(group), self.rows
        reward, arm, line = rows.reward[chosen], rows.arm[chosen], scored.line[chosen]
        if scored.probabilities is None:
            return betting.BetTerms(np.ones(reward.size), reward)
        arms = []
        for each in np.flatnonzero(scored.probabilities.any(axis=0)).tolist():
            chances = rows.chance(each, chosen)
            if chances is not None:
                balance = 1 - np.divide(arm == each, chances, out=np.zeros(arm.size), where=arm == each)
                plays, model = scored.probabilities[line, each], self._past[chosen, each]
                arms.append(betting.ArmGuess(plays, chances, balance, model))
        return betting.BetTerms(scored.weights[chosen], reward, arms)

    def _scores(self, scored: ScoredTarget, group: int | None) -> tuple[np.ndarray, str] | None:
        """Scores whose mean is the value, and the estimator; None where no row says anything."""
        chosen = self.chosen(group)
        if scored.logged:
            return (self.rows.reward[chosen], "mean") if self.rows.reward[chosen].size else None
        weights, rewards = scored.weights[chosen], self.rows.reward[chosen]
        lacking = self.rows.by_player and group is not None and scored.unseen[group]
        if lacking or not weights.any():
            return None
        estimator = self.estimator
        if estimator == "auto":  # dr if n v ≥ 10 and n (1 − v) ≥ 10, with n effective rows and the value v
            value = float((weights * rewards).sum() / weights.sum())
            plenty = estimators.effective_rows(weights) * min(value, 1 - value) >= PLENTY
            estimator = "dr" if plenty else "snips"
        if estimator == "dr":
            return np.asarray(scored.doubly_robust[chosen]), estimator
        score = estimators.dr_scores if estimator == "ips" else estimators.snips_scores
        return score(weights, rewards), estimator

    def chosen(self, group: int | None) -> Any:
        """Which rows are the group's, in the log's order."""
        return slice(None) if group is None else self._places[group]


def _within(found: Interval) -> Interval:
    """The interval without what is outside [0, 1]."""
    value = min(max(found.value, 0.0), 1.0)
    return replace(found, low=min(max(found.low, 0.0), value), high=max(min(found.high, 1.0), value))


def _error(scores: np.ndarray) -> float:
    """The standard error of the scores' mean, as if one more score were as far off as the range allows."""
    return math.sqrt((float(np.square(scores - scores.mean()).sum()) + 1 / 4) / scores.size) / math.sqrt(scores.size)


class Evaluators:
    """Evaluators by different rows: a target is judged by those in which all that it plays was on offer.

    One that was learned from the log is judged by the parts that follow, in their order.
    """

    def __init__(self, rows: Rows, level: float, estimator: str) -> None:
        self.rows, self._options = rows, (level, estimator)
        self._made: dict[tuple[bytes, bool], Evaluator] = {}  # by the rows, and whether their targets were learned

    def of(self, *targets: Target) -> Evaluator:
        """The evaluator by the rows that may judge these targets: all that they play was on offer."""
        tables = [target.probabilities for target in targets if target.probabilities is not None]
        played = np.asarray(np.vstack([np.zeros(len(self.rows.arms)), *tables]).any(axis=0))
        there = self.rows.on_offer(played)
        part = next((target.part for target in targets if target.part is not None), None)
        key = there.tobytes(), part is not None
        if key not in self._made:
            places: Any = slice(None) if there.all() else np.flatnonzero(there)
            if part is not None:
                order = np.argsort(part, kind="stable")
                places = order[(part[order] >= FIRST_JUDGE) & there[order]]
            self._made[key] = Evaluator(self.rows, *self._options, places)
        return self._made[key]

    def estimates(self, target: Target) -> list[Estimate]:
        """The estimate overall, then group by group."""
        evaluator = self.of(target)
        return [evaluator.estimate(evaluator.score(target), group) for group in self.rows.each_group()]

    def differences(self, target: Target, baseline: Target) -> list[Interval] | None:
        """The difference overall, then group by group; None if no rows can judge both."""
        try:
            both = self.of(target, baseline)
            pair = both.score(target), both.score(baseline)
        except ValueError:
            return None
        return [both.difference(*pair, group) for group in self.rows.each_group()]


def with_differences(estimates: list[Estimate], differences: list[Interval], rows: Rows) -> list[Estimate]:
    """The estimates with their differences; those of groups, which follow the first, are also shrunk."""
    sizes = np.array([rows.group.size, *filter(None, np.bincount(rows.group).tolist())])
    known = [place for place, each in enumerate(differences) if place and each.error > 0]
    if known and differences[0].error > 0:
        values, errors = (np.array([getattr(each, name) for each in differences]) for name in ("value", "error"))
        errors = estimators.steadied(errors, sizes, errors[0] ** 2 * sizes[0])
        shrunk = estimators.shrink(values[known], errors[known], sizes[known], float(values[0]))
        for place, value, error in zip(known, *shrunk, strict=True):
            differences[place] = replace(differences[place], shrunken=float(value), shrunken_error=float(error))
    return [replace(estimate, difference=each) for estimate, each in zip(estimates, differences, strict=True)]
