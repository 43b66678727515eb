"""evaluate: what would other policies have earned, judging from a log?"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import number, whole
from posse.insight.columns import EMPIRICAL, Columns
from posse.insight.evaluation import text
from posse.insight.evaluation.model import Estimate, Evaluators, with_differences
from posse.insight.evaluation.replay import Replay, Replays, check_replay, replay
from posse.insight.evaluation.rows import check_draws, held_out, only, usable
from posse.insight.evaluation.targets import LOGGED, UNIFORM, Target, candidates, target_of
from posse.insight.logs import read_log
from posse.insight.report import ReportSection, to_html
from posse.notebook import PRINT, Summarized, Summary
from posse.policies.base import Policy
from posse.simulation.progress import Progress, reporter
from posse.streams import check_seed
from posse.text import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = ("propensity", "observed", "probabilities")
FREQUENCIES = (
    "propensities are how often each player's rows have the arm, which is right only if arms were drawn at random with "
    "the same chances throughout"
)


@dataclass(frozen=True, repr=False)
class Evaluation(Summarized):
    """Policies judged from a log; `print` shows a table."""

    reward: str
    level: float
    """Each interval misses the truth with at most this probability."""
    reward_range: tuple[float, float]
    rows: int
    """How many rows had both a reward and a propensity."""
    by: str
    """What results are grouped by: "player", or another column."""
    players: tuple[str, ...]
    """The players of those rows, or the values of the column given as `by`, those with most rows first."""
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
    learned: dict[str, dict[str, str]]
    """For each policy that was learned from the log: the arm that all rows say is best for each segment or player."""
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

    def report(self) -> str:
        """Everything as one HTML page, with pictures."""
        from posse.insight.evaluation.figure import draw_differences, draw_overall

        overall = [("the values and their intervals", draw_overall(self))]
        sections = [ReportSection("Overall", [text.headline(self)], overall, [text.overall_table(self)])]
        if len(self.players) > 1:
            values, *differences = ([list(zip(*columns, strict=True))] for _, columns in text.player_tables(self))
            sections.append(ReportSection(f"By {self.by}", text.left_out(self), (), values))
            for table in differences:
                targets = dict.fromkeys(each.target for each in self.estimates if each.player and each.difference)
                pictures = [(f"{name} by {self.by}", draw_differences(self, name)) for name in targets]
                colors = "Blue: the difference and its interval. Orange: the difference, shrunken."
                told = [colors, *text.left_out(self)]
                sections.append(ReportSection(f"Differences by {self.by}", told, pictures, table))
        sections.append(ReportSection("What to know about it", [*text.kinds_of_intervals(self), *self.notes]))
        return to_html(f"Policies judged by {self.reward}", sections)

    def figure(self) -> "Figure":
        """The values with their intervals, and their differences if there are any: a matplotlib figure."""
        from posse.insight.evaluation.figure import draw_overall

        return draw_overall(self)

    def __str__(self) -> str:
        return text.to_text(self)

    def _summary(self) -> Summary:
        return Summary(f"Evaluation: {text.headline(self)}", text.overall_table(self), note=PRINT)


def _natural(name: str) -> tuple[float, str]:
    """What to sort by so that numbers come in their order, and other names after them."""
    try:
        return (math.inf if math.isnan(float(name)) else float(name)), name
    except ValueError:
        return math.inf, name


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
    attributes: str | Iterable[str] | None = None,
    by: str | None = None,
    holdout: bool = False,
    reward_range: tuple[float, float] | None = None,
    adaptive: bool | None = None,
    passes: int = 10,
    seed: int = 0,
    progress: Progress = None,
) -> Evaluation:
    """Judge one target, or a list of targets, from a log with propensities. Methods and sources: docs/evaluation.md.

    Args:
        source: the log: a Parquet or CSV file, an Arrow table, a DataFrame, a mapping of columns, or a learner.
        target: an arm's name, "uniform", "logged" (what the log itself did), a table player → arm or player →
            {arm: probability}, an object with `probabilities(player)`, or a policy that learns, such as
            `posse.RobustAggTS(0.1)`, which is replayed. Three are learned from the log, from other rows than those that
            judge them: "best", the best arm for all players; "best by region", that for each value of an attribute (or
            of several: "best by region, device"; or "best by player"); and "segments", that for each combination of all
            attributes. Omitted: every arm, uniform and logged, and the learned ones if players have attributes.
        player, arm, reward, propensity, id: which columns hold what, see `posse.insight.Columns`.
        level: each interval misses the truth with at most this probability.
        estimator: "dr", "snips", "ips", or "auto", which is dr, or snips where rows are few. In an adaptive log auto
            weights rows if it can, which needs arms whose means stay the same over time.
        against: a target, of any kind, whose value is subtracted from the others'.
        players: only the rows of these players.
        attributes: columns in which each player has one value, such as ["region"]; a learner's log says its own.
        by: a column, such as a week or an attribute, by whose values results are grouped, in place of players.
        holdout: only the decisions that a learner held out.
        reward_range: the least and the greatest possible reward; the log's own if omitted, or (0, 1).
        adaptive: whether the log's choices depended on its earlier rewards. Omitted: what the log says about itself,
            or else whether propensities vary within a player and arm.
        passes: how many shuffles of the log a policy that learns is replayed on.
        seed: the seed of a replay.
        progress: True for a bar on standard error while a policy is replayed, or a function that is called with the
            fraction that is done.

    >>> import pyarrow
    >>> log = pyarrow.table({"player": ["a"] * 200, "arm": ["x", "y"] * 100, "propensity": [0.5] * 200,
    ...                      "reward": [1.0, 0.0, 1.0, 1.0, 0.0] * 40})
    >>> estimate = evaluate(log, "x").of("x")
    >>> round(estimate.value, 2), round(estimate.low, 2), round(estimate.high, 2)
    (0.6, 0.49, 0.71)
    """
    level = number("level", level, least=1e-12, most=0.5)
    if estimator not in ("auto", "dr", "snips", "ips"):
        raise ValueError(f"estimator={estimator!r}, but expected 'auto', 'dr', 'snips' or 'ips'")
    passes = whole("passes", passes, least=2)
    seed = check_seed(seed)
    if adaptive not in (None, True, False):
        raise TypeError(f"adaptive={adaptive!r}, but expected True, False or None")
    columns = Columns(player, arm, reward, propensity, id)
    also = _COLUMNS + (("holdout", "round") if holdout else ())
    log = read_log(source, columns, also, by=by, attributes=attributes, reward_range=reward_range)
    log = log if players is None else only(log, players)
    rows = usable(held_out(log) if holdout else log, adaptive)
    clustered = check_draws(rows)
    evaluators = Evaluators(rows, level, estimator)
    baseline = None if against is None else _checked(against, evaluators)
    prepared, notes = _prepared(target, evaluators)
    notes += [FREQUENCIES] if propensity == EMPIRICAL else []
    notes += text.clustered(clustered, rows)
    replays = {
        each.label: replay(rows, each, passes, seed, reporter(progress))
        for each in (*prepared, baseline)
        if isinstance(each, Policy)
    }
    estimates: list[Estimate] = []
    for each in prepared:
        estimates += _estimates(each, baseline, evaluators, replays)
        if isinstance(each, Target):
            evaluator = evaluators.of(each)
            notes += text.target_warnings(evaluator.rows, rows, evaluator.score(each), learned=each.part is not None)
    notes += text.learned([each for each in prepared if isinstance(each, Target) and each.learned], rows)
    counts = np.bincount(rows.group, minlength=len(rows.groups))
    there = [int(group) for group in np.argsort(-counts, kind="stable") if counts[group]]
    if by:
        there.sort(key=lambda group: _natural(rows.groups[group]))
    return Evaluation(
        reward=reward,
        level=level,
        reward_range=(rows.low, rows.high),
        rows=rows.reward.size,
        by=by or "player",
        players=tuple(rows.groups[group] for group in there),
        player_rows=tuple(int(counts[group]) for group in there),
        arms=rows.arms,
        missing=rows.missing,
        undrawn=rows.undrawn,
        given_up=rows.given_up,
        adaptive=rows.adaptive,
        against=None if baseline is None else _name(baseline),
        estimates=tuple(estimates),
        learned={each.name: dict(each.learned) for each in prepared if isinstance(each, Target) and each.learned},
        notes=(*notes, *text.doubtful_arms(rows), *text.general_warnings(rows, estimates, level, by or "player")),
    )


def _prepared(target: Any, evaluators: Evaluators) -> tuple[list[Policy | Target], list[str]]:
    """The targets to judge, checked before any long work, and notes.

    If no target was asked for, those that the log cannot judge are left out; a note says so.
    """
    rows = evaluators.rows
    if target is None:
        asked = [*(name for name in (LOGGED, UNIFORM) if name not in rows.arms), *rows.arms, *candidates(rows)]
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
            prepared.append(_checked(what, evaluators))
        except ValueError as error:
            if target is not None:
                raise
            notes.append(f"{what} is left out: {error}")
    names = [_name(each) for each in prepared]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{names.count(name)} targets are called {name!r}; give them different names or labels")
    return prepared, notes


def _checked(what: Any, evaluators: Evaluators) -> Policy | Target:
    """What a user wants judged, if the log can judge it."""
    if isinstance(what, Policy):
        check_replay(evaluators.rows, what)
        return what
    found = target_of(what, evaluators.rows)
    evaluators.of(found).check(found)
    return found


def _name(judged: Policy | Target) -> str:
    return judged.label if isinstance(judged, Policy) else judged.name


def _estimates(
    judged: Policy | Target, baseline: Policy | Target | None, evaluators: Evaluators, replays: dict[str, Replay]
) -> list[Estimate]:
    """The estimates of one target, overall first, with the differences to the baseline."""
    if isinstance(judged, Target):
        estimates = evaluators.estimates(judged)
    else:
        estimates = Replays(evaluators.of()).estimates(replays[judged.label])
    if baseline is None or _name(baseline) == _name(judged):
        return estimates
    if isinstance(judged, Target) and isinstance(baseline, Target):
        differences = evaluators.differences(judged, baseline)
    else:
        all_rows = evaluators.of()  # which judge replays
        one, other = (replays[e.label] if isinstance(e, Policy) else all_rows.score(e) for e in (judged, baseline))
        differences = Replays(all_rows).differences(one, other)
    return estimates if differences is None else with_differences(estimates, differences, evaluators.rows)
