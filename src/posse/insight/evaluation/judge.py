"""What each row of a log says of a fixed policy, and the values and intervals that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.insight.evaluation import estimators
from posse.insight.evaluation.results import Estimate, Interval
from posse.insight.evaluation.support import Rows, unseen
from posse.insight.evaluation.targets import Target

PLENTY = 10
"""The normal interval needs at least so many rows' worth of reward, and of its absence."""


@dataclass(frozen=True, eq=False)
class Scored:
    """A target with what each row says of it."""

    name: str
    logged: bool
    weights: np.ndarray
    doubly_robust: np.ndarray
    by_design: np.ndarray | None
    """Weights from the arms' shares of each player's rows, which leave nothing to chance; None where they cannot be."""
    unseen: np.ndarray
    """Whether each player lacks an arm that the target plays."""


class Judge:
    """What all targets that are judged by the same rows have in common."""

    def __init__(self, rows: Rows, level: float, estimator: str) -> None:
        self.rows, self.level, self.estimator = rows, level, estimator
        self._scored: dict[Target, Scored] = {}
        self._halves: dict[tuple[Scored, int | None], tuple[Interval, str, str]] = {}
        model = estimators.from_the_past if rows.adaptive else estimators.cross_fitted
        self.model = model(rows.player, rows.arm, rows.reward, rows.shape)
        self.pulls = rows.pulls()

    def score(self, target: Target) -> Scored:
        """What each row says of a target; an error where the log lacks what the target plays."""
        if target not in self._scored:
            self._scored[target] = self._score(target)
        return self._scored[target]

    def _score(self, target: Target) -> Scored:
        rows = self.rows
        if target.probabilities is None:
            ones = np.ones(rows.reward.size)
            return Scored(target.name, True, ones, rows.reward, ones, np.zeros(len(rows.players), bool))
        lacking = unseen(rows, target.probabilities, target.name)
        played = target.probabilities[rows.player, rows.arm]
        weights = played / rows.propensity
        expected = (target.probabilities[rows.player] * self.model).sum(axis=1)
        modelled = self.model[np.arange(rows.arm.size), rows.arm]
        scores = estimators.dr_scores(weights, rows.reward, expected, modelled)
        by_design = None
        if rows.design is not None and not rows.adaptive:  # π over the arm's share, as if that were its propensity
            by_design = played * self.pulls.sum(axis=1)[rows.player] / self.pulls[rows.player, rows.arm]
        return Scored(target.name, False, weights, scores, by_design, lacking)

    def estimate(self, scored: Scored, player: int | None) -> Estimate:
        """The value for one player, or overall."""
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
            float(weights.max(initial=0)),
        )

    def _interval(self, scored: Scored, player: int | None, level: float) -> tuple[Interval, str, str]:
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

    def _estimator(self, scored: Scored, plenty: bool) -> str:
        if scored.logged:
            return "mean"
        if self.estimator == "auto":
            return "dr" if plenty else "snips"
        return self.estimator

    def _scores(self, scored: Scored, player: int | None, estimator: str) -> np.ndarray:
        chosen = self._rows(player)
        weights, rewards = scored.weights[chosen], self.rows.reward[chosen]
        if estimator == "mean":
            return np.asarray(rewards)
        if estimator == "dr":
            return np.asarray(scored.doubly_robust[chosen])
        return (estimators.ips_scores if estimator == "ips" else estimators.snips_scores)(weights, rewards)

    def difference(self, scored: Scored, baseline: Scored, player: int | None) -> Interval:
        """From the rows' differences where both have normal intervals; else both ends, each at half the level."""
        first, one, kind = self._half(scored, player)
        second, other, other_kind = self._half(baseline, player)
        low, high = first.low - second.high, first.high - second.low
        if kind == other_kind == "normal":
            scores = self._scores(scored, player, one) - self._scores(baseline, player, other)
            low, high = estimators.normal_interval(scores, self.level)
        span = self.rows.high - self.rows.low
        return Interval((first.value - second.value) * span, low * span, high * span)

    def _half(self, scored: Scored, player: int | None) -> tuple[Interval, str, str]:
        """The interval at half the level, kept, as a baseline's is asked for by every target."""
        key = (scored, player)
        if key not in self._halves:
            self._halves[key] = self._interval(scored, player, self.level / 2)
        return self._halves[key]

    def _rows(self, player: int | None) -> Any:
        return slice(None) if player is None else self.rows.player == player
