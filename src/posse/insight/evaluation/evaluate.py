"""evaluate: what would other policies have earned, judging from a log?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posse.checks import number, whole
from posse.insight.evaluation.doubts import doubtful_arms, doubts, remarks
from posse.insight.evaluation.judge import Judge, Scored
from posse.insight.evaluation.replay import check_replay, replay, replay_estimates
from posse.insight.evaluation.results import Estimate, Evaluation
from posse.insight.evaluation.support import Rows, held_out, only, usable
from posse.insight.evaluation.targets import LOGGED, UNIFORM, Target, target_of
from posse.insight.logs import read_log, with_range
from posse.policies.base import Policy
from posse.streams import check_seed

_COLUMNS = ("propensity", "observed")


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
    log = with_range(read_log(source, reward, _COLUMNS + (("holdout",) if holdout else ())), reward_range)
    log = log if players is None else only(log, players)
    rows = usable(held_out(log) if holdout else log, adaptive)
    judges = _Judges(rows, level, estimator)
    baseline = None if against is None else target_of(against, rows)
    if baseline is not None:
        judges.of(baseline).score(baseline)
    prepared, notes = _prepared(target, judges)
    estimates: list[Estimate] = []
    for each in prepared:
        if isinstance(each, Policy):
            estimates += replay_estimates(rows, each.label, replay(rows, each, passes, seed, progress), level)
        else:
            estimates += judges.estimates(each, baseline)
            notes += doubts(judges.of(each).rows, rows, judges.of(each).score(each))
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
        given_up=rows.given_up,
        adaptive=rows.adaptive,
        against=None if baseline is None else baseline.name,
        estimates=tuple(estimates),
        notes=(*notes, *doubtful_arms(rows), *remarks(rows, estimates, level)),
    )


def _prepared(target: Any, judges: _Judges) -> tuple[list[Policy | Target], list[str]]:
    """What is to be judged, checked before any long work; without a target, what the log cannot judge is left out."""
    arms = judges.rows.arms
    several = isinstance(target, (list, tuple))
    general = [name for name in (LOGGED, UNIFORM) if name not in arms]
    asked = [*general, *arms] if target is None else list(target) if several else [target]
    if not asked:
        raise ValueError("target=[], but expected at least one policy to judge")
    prepared: list[Policy | Target] = []
    notes = [f"{name} is an arm here, not the policy" for name in (LOGGED, UNIFORM) if target is None and name in arms]
    for what in asked:
        try:
            if isinstance(what, Policy):
                check_replay(judges.rows, what)
                prepared.append(what)
            else:
                found = target_of(what, judges.rows)
                judges.of(found).score(found)
                prepared.append(found)
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


class _Judges:
    """A judge for each span of rows: a target is judged by those in which all that it plays was on offer."""

    def __init__(self, rows: Rows, level: float, estimator: str) -> None:
        self.rows, self.level, self.estimator = rows, level, estimator
        self._judges: dict[tuple[int, int], Judge] = {}

    def of(self, *targets: Target) -> Judge:
        """The judge by the rows in which all that these targets play was on offer."""
        played = np.any([target.plays(self.rows) for target in targets], axis=0)
        span = self.rows.on_offer(played)
        if span not in self._judges:
            self._judges[span] = Judge(self.rows.during(*span), self.level, self.estimator)
        return self._judges[span]

    def estimates(self, target: Target, baseline: Target | None) -> Iterator[Estimate]:
        """Overall first, then player by player."""
        judge = self.of(target)
        pair = None if baseline is None or baseline.name == target.name else self._pair(target, baseline)
        for player in (None, *np.unique(self.rows.player)):
            estimate = judge.estimate(judge.score(target), player)
            if pair is not None:
                both, first, second = pair
                estimate = replace(estimate, difference=both.difference(first, second, player))
            yield estimate

    def _pair(self, target: Target, baseline: Target) -> tuple[Judge, Scored, Scored] | None:
        """Both before the same judge; None where no rows can judge both."""
        try:
            both = self.of(target, baseline)
            return both, both.score(target), both.score(baseline)
        except ValueError:
            return None
