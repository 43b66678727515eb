"""evaluate: what would other policies have earned, judging from a log?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.checks import number, whole
from posse.insight.columns import EMPIRICAL, Columns
from posse.insight.evaluation.model import LOGGED, UNIFORM, Estimate, Evaluators, Target, target_of
from posse.insight.evaluation.replay import check_replay, replay, replay_estimates
from posse.insight.evaluation.rows import held_out, only, usable
from posse.insight.evaluation.text import doubtful_arms, general_warnings, target_warnings, to_text
from posse.insight.logs import read_log, with_range
from posse.policies.base import Policy
from posse.streams import check_seed
from posse.text import plain

_COLUMNS = ("propensity", "observed")
FREQUENCIES = (
    "propensities are how often each player's rows have the arm, which is right only if arms were drawn at random with "
    "the same chances throughout"
)


@dataclass(frozen=True)
class Evaluation:
    """Policies judged from a log; `print` shows a table."""

    reward: str
    level: float
    """Each interval misses the truth with at most this probability."""
    reward_range: tuple[float, float]
    rows: int
    """How many rows had both a reward and a propensity."""
    players: tuple[str, ...]
    """The players of those rows, those with most rows first."""
    player_rows: tuple[int, ...]
    arms: tuple[str, ...]
    missing: int
    """Rows left out because their reward is unknown."""
    undrawn: int
    """Rows left out because they have no propensity."""
    given_up: int
    """Decisions that have no row because the learner gave them up before their rewards came."""
    adaptive: bool
    """Whether the log was gathered by a policy that learns."""
    against: str | None
    estimates: tuple[Estimate, ...]
    notes: tuple[str, ...]

    def of(self, target: str, player: str | None = None) -> Estimate:
        """The estimate for a target, overall or for one player."""
        for estimate in self.estimates:
            if estimate.target == target and estimate.player == player:
                return estimate
        known = ", ".join(dict.fromkeys(estimate.target for estimate in self.estimates))
        raise ValueError(f"no estimate of {target!r} for {player or 'all players'}; judged were {known}")

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data that JSON can hold; NaN becomes None."""
        return dict(plain(self))

    def __str__(self) -> str:
        return to_text(self)


def evaluate(
    source: Any,
    target: Any = None,
    *,
    player: str | Iterable[str] = "player",
    arm: str = "arm",
    reward: str = "reward",
    propensity: str | float = "propensity",
    id: str | None = None,
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
    """Judge one target, or a list of targets, from a log with propensities. Methods and sources: docs/evaluation.md.

    Args:
        source: the log: a Parquet or CSV file, an Arrow table, a DataFrame, a mapping of columns, or a learner.
        target: an arm's name, "uniform", "logged" (what the log itself did), a table player → arm or player →
            {arm: probability}, an object with `probabilities(player)`, or a policy that learns, such as
            `posse.RobustAggTS(0.1)`, which is replayed. Omitted: every arm, uniform and logged.
        player, arm, reward, propensity, id: which columns hold what, see `posse.insight.Columns`.
        level: each interval misses the truth with at most this probability.
        estimator: "dr", "snips", "ips", or "auto", which is dr, and snips where rows are few.
        against: a target whose value is subtracted from the others'.
        players: only the rows of these players.
        holdout: only the decisions that a learner held out.
        reward_range: the least and the greatest possible reward; the log's own if omitted, or (0, 1).
        adaptive: whether the log's choices depended on its earlier rewards. Omitted: what the log says about itself,
            or else whether propensities vary within a player and arm.
        passes: how many shuffles of the log a policy that learns is replayed on.
        seed: the seed of a replay.
        progress: a function that is called with the fraction of a replay that is done.

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
    columns = Columns(player, arm, reward, propensity, id)
    log = with_range(read_log(source, columns, _COLUMNS + (("holdout",) if holdout else ())), reward_range)
    log = log if players is None else only(log, players)
    rows = usable(held_out(log) if holdout else log, adaptive)
    evaluators = Evaluators(rows, level, estimator)
    baseline = None if against is None else target_of(against, rows)
    if baseline is not None:
        evaluators.of(baseline).score(baseline)
    prepared, notes = _prepared(target, evaluators)
    notes += [FREQUENCIES] if propensity == EMPIRICAL else []
    estimates: list[Estimate] = []
    for each in prepared:
        if isinstance(each, Policy):
            estimates += replay_estimates(rows, each.label, replay(rows, each, passes, seed, progress), level)
        else:
            estimates += evaluators.estimates(each, baseline)
            evaluator = evaluators.of(each)
            notes += target_warnings(evaluator.rows, rows, evaluator.score(each))
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
        notes=(*notes, *doubtful_arms(rows), *general_warnings(rows, estimates, level)),
    )


def _prepared(target: Any, evaluators: Evaluators) -> tuple[list[Policy | Target], list[str]]:
    """The targets to judge, checked before any long work, and notes.

    If no target was asked for, those that the log cannot judge are left out; a note says so.
    """
    rows = evaluators.rows
    if target is None:
        asked = [*(name for name in (LOGGED, UNIFORM) if name not in rows.arms), *rows.arms]
    else:
        asked = list(target) if isinstance(target, (list, tuple)) else [target]
    if not asked:
        raise ValueError("target=[], but expected at least one policy to judge")
    prepared: list[Policy | Target] = []
    notes = [
        f"{name} is an arm here, not the policy" for name in (LOGGED, UNIFORM) if target is None and name in rows.arms
    ]
    for what in asked:
        try:
            if isinstance(what, Policy):
                check_replay(rows, what)
                prepared.append(what)
            else:
                found = target_of(what, rows)
                evaluators.of(found).score(found)
                prepared.append(found)
        except ValueError as error:
            if target is not None:
                raise
            notes.append(f"{what} is left out: {error}")
    names = [each.label if isinstance(each, Policy) else each.name for each in prepared]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{names.count(name)} targets are called {name!r}; give them different names or labels")
    return prepared, notes
