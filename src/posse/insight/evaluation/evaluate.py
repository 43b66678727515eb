"""evaluate: what would other policies have earned, judging from a log?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posse.checks import number, whole
from posse.insight.evaluation import estimators
from posse.insight.evaluation.doubts import doubts, remarks
from posse.insight.evaluation.replay import check_replay, replay, replay_estimates
from posse.insight.evaluation.results import Estimate, Evaluation, Interval
from posse.insight.evaluation.support import Rows, held_out, only, unseen, usable
from posse.insight.evaluation.targets import LOGGED, UNIFORM, Target, target_of
from posse.insight.logs import read_log
from posse.policies.base import Policy
from posse.streams import check_seed

PLENTY = 10
"""The normal interval needs at least so many rows' worth of reward, and of its absence."""


def evaluate(
    source: Any,
    target: Any = None,
    *,
    reward: str = "reward",
    level: float = 0.05,
    estimator: str = "auto",
    against: Any = None,
    players: Iterable[str] | None = None,
    holdout: bool = False,
    reward_range: tuple[float, float] | None = None,
    adaptive: bool | None = None,
    passes: int = 10,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Evaluation:
    """Judge one target, or a list of them, from a log with propensities; every arm, uniform and logged if none.

    A target is an arm's name, "uniform", "logged" (what the log itself did), a table player → arm or player →
    {arm: probability}, an object with `probabilities(player)`, or a policy that learns, such as
    `posse.RobustAggTS(0.1)`, which is replayed in `passes` shuffles of the log. `estimator` is "dr", "snips", "ips" or
    "auto", which is dr, but snips where rows are few. `against` is a target whose value is subtracted from the others';
    `players` keeps only the rows of some, `holdout` only the decisions that a learner held out. `adaptive` says whether
    the log's choices depended on its earlier rewards; if not told, it is what the log says of itself, or whether
    propensities vary within a player and arm. Methods and sources: docs/evaluation.md.

    >>> import pyarrow
    >>> log = pyarrow.table({"player": ["a"] * 200, "arm": ["x", "y"] * 100, "propensity": [0.5] * 200,
    ...                      "reward": [1.0, 0.0, 1.0, 1.0, 0.0] * 40})
    >>> estimate = evaluate(log, "x").of("x")
    >>> round(estimate.value, 2), round(estimate.low, 2), round(estimate.high, 2)
    (0.6, 0.49, 0.71)
    """
    level = number("level", level, above=0, most=0.5)
    if estimator not in ("auto", "dr", "snips", "ips"):
        raise ValueError(f"estimator={estimator!r}, but expected 'auto', 'dr', 'snips' or 'ips'")
    passes = whole("passes", passes, least=2)
    seed = check_seed(seed)
    if adaptive not in (None, True, False):
        raise TypeError(f"adaptive={adaptive!r}, but expected True, False or None")
    log = read_log(source, reward)
    log = log if players is None else only(log, players)
    rows = usable(held_out(log) if holdout else log, reward_range, adaptive)
    judge = _Judge(rows, level, estimator)
    baseline = None if against is None else judge.score(target_of(against, rows))
    prepared, notes = _prepared(target, judge)
    estimates: list[Estimate] = []
    for each in prepared:
        if isinstance(each, Policy):
            estimates += replay_estimates(rows, each.label, replay(rows, each, passes, seed, progress), level)
        else:
            estimates += judge.estimates(each, baseline)
            notes += doubts(rows, each.name, each.weights)
    counts = rows.pulls().sum(axis=1)
    there = [int(player) for player in np.argsort(-counts, kind="stable") if counts[player]]
    return Evaluation(
        reward=reward,
        level=level,
        reward_range=(rows.low, rows.high),
        rows=rows.reward.size,
        players=tuple(rows.players[player] for player in there),
        player_rows=tuple(int(counts[player]) for player in there),
        arms=rows.arms,
        missing=rows.missing,
        undrawn=rows.undrawn,
        adaptive=rows.adaptive,
        against=None if baseline is None else baseline.name,
        estimates=tuple(estimates),
        notes=(*notes, *remarks(rows, estimates, level)),
    )


def _prepared(target: Any, judge: _Judge) -> tuple[list[Policy | _Scored], list[str]]:
    """What is to be judged, checked before any long work; without a target, what the log cannot judge is left out."""
    several = isinstance(target, (list, tuple))
    asked = [LOGGED, UNIFORM, *judge.rows.arms] if target is None else list(target) if several else [target]
    if not asked:
        raise ValueError("target=[], but expected at least one policy to judge")
    prepared: list[Policy | _Scored] = []
    notes = []
    for what in asked:
        try:
            if isinstance(what, Policy):
                check_replay(judge.rows, what)
            prepared.append(what if isinstance(what, Policy) else judge.score(target_of(what, judge.rows)))
        except ValueError as error:
            if target is not None:
                raise
            notes.append(f"{what} is left out: {error}")
    names = [each.label if isinstance(each, Policy) else each.name for each in prepared]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"{names.count(name)} targets are called {name!r}; FixedPolicy or a label names them apart"
            )
    return prepared, notes


@dataclass(frozen=True, eq=False)
class _Scored:
    """A target with what each row says of it."""

    name: str
    logged: bool
    weights: np.ndarray
    doubly_robust: np.ndarray
    by_design: np.ndarray | None
    """Weights from the arms' shares of each player's rows, which leave nothing to chance; None where they cannot be."""
    unseen: np.ndarray
    """Whether each player lacks an arm that the target plays."""


class _Judge:
    """What all targets of one evaluation have in common."""

    def __init__(self, rows: Rows, level: float, estimator: str) -> None:
        self.rows, self.level, self.estimator = rows, level, estimator
        model = estimators.from_the_past if rows.adaptive else estimators.cross_fitted
        self.model = model(rows.player, rows.arm, rows.reward, rows.shape)
        self.pulls = rows.pulls()

    def score(self, target: Target) -> _Scored:
        rows = self.rows
        if target.probabilities is None:
            ones = np.ones(rows.reward.size)
            return _Scored(target.name, True, ones, rows.reward, ones, np.zeros(len(rows.players), bool))
        lacking = unseen(rows, target.probabilities, target.name)
        played = target.probabilities[rows.player, rows.arm]
        weights = played / rows.propensity
        expected = (target.probabilities[rows.player] * self.model).sum(axis=1)
        modelled = self.model[np.arange(rows.arm.size), rows.arm]
        scores = estimators.dr_scores(weights, rows.reward, expected, modelled)
        by_design = None
        if rows.design is not None and not rows.adaptive:  # π over the arm's share, as if that were its propensity
            by_design = played * self.pulls.sum(axis=1)[rows.player] / self.pulls[rows.player, rows.arm]
        return _Scored(target.name, False, weights, scores, by_design, lacking)

    def estimates(self, scored: _Scored, baseline: _Scored | None) -> Iterator[Estimate]:
        """Overall first, then player by player."""
        for player in (None, *np.unique(self.rows.player)):
            estimate = self._estimate(scored, player)
            if baseline is not None and baseline.name != scored.name:
                estimate = replace(estimate, difference=self._difference(scored, baseline, player))
            yield estimate

    def _estimate(self, scored: _Scored, player: int | None) -> Estimate:
        weights = scored.weights[self._rows(player)]
        low, span = self.rows.low, self.rows.high - self.rows.low
        found, estimator, kind = self._interval(scored, player, self.level)
        return Estimate(
            scored.name,
            None if player is None else self.rows.players[player],
            low + span * found.value,
            low + span * found.low,
            low + span * found.high,
            estimator,
            kind,
            int((weights > 0).sum()),
            estimators.effective_rows(weights),
            float(weights.max()),
        )

    def _interval(self, scored: _Scored, player: int | None, level: float) -> tuple[Interval, str, str]:
        """The value with its interval, for rewards in [0, 1], and how both were made."""
        chosen = self._rows(player)
        weights, rewards = scored.weights[chosen], self.rows.reward[chosen]
        plenty = self._plenty(weights, rewards)
        estimator = self._estimator(scored, plenty)
        lacking = scored.unseen.any() if player is None else scored.unseen[player]
        if (player is not None and lacking) or not weights.any():
            return Interval(np.nan, 0.0, 1.0), estimator, "none"
        scores = self._scores(scored, player, estimator)
        if plenty and (scored.logged or not self.rows.adaptive):
            kind, (low, high) = "normal", estimators.normal_interval(scores, level)
        elif scored.logged and self.rows.adaptive:
            kind, (low, high) = "hoeffding", estimators.hoeffding_interval(rewards, level)
        elif scored.by_design is not None and not lacking:
            by_design = scored.by_design[chosen]
            kind, (low, high) = "betting", estimators.betting_interval(by_design, rewards, level, by_design=True)
        else:
            kind, (low, high) = "betting", estimators.betting_interval(weights, rewards, level, by_design=False)
        value = float(scores.mean())
        within = min(max(value, 0.0), 1.0)
        return Interval(value, min(max(low, 0.0), within), max(min(high, 1.0), within)), estimator, kind

    def _plenty(self, weights: np.ndarray, rewards: np.ndarray) -> bool:
        """Whether there are rows enough for the normal law: n v ≥ 10 and n (1 − v) ≥ 10, n being effective."""
        if not weights.any():
            return False
        value = float((weights * rewards).sum() / weights.sum())
        return estimators.effective_rows(weights) * min(value, 1 - value) >= PLENTY

    def _estimator(self, scored: _Scored, plenty: bool) -> str:
        if scored.logged:
            return "mean"
        if self.estimator == "auto":
            return "dr" if plenty else "snips"
        return self.estimator

    def _scores(self, scored: _Scored, player: int | None, estimator: str) -> np.ndarray:
        chosen = self._rows(player)
        weights, rewards = scored.weights[chosen], self.rows.reward[chosen]
        if estimator == "mean":
            return np.asarray(rewards)
        if estimator == "dr":
            return np.asarray(scored.doubly_robust[chosen])
        return (estimators.ips_scores if estimator == "ips" else estimators.snips_scores)(weights, rewards)

    def _difference(self, scored: _Scored, baseline: _Scored, player: int | None) -> Interval:
        """From the rows' differences where both have normal intervals; else both ends, each at half the level."""
        first, one, kind = self._interval(scored, player, self.level / 2)
        second, other, other_kind = self._interval(baseline, player, self.level / 2)
        low, high = first.low - second.high, first.high - second.low
        if kind == other_kind == "normal":
            scores = self._scores(scored, player, one) - self._scores(baseline, player, other)
            low, high = estimators.normal_interval(scores, self.level)
        span = self.rows.high - self.rows.low
        return Interval((first.value - second.value) * span, low * span, high * span)

    def _rows(self, player: int | None) -> Any:
        return slice(None) if player is None else self.rows.player == player
