"""What a reader of an evaluation should know before trusting it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from posse.insight.evaluation.judge import Scored
from posse.insight.evaluation.results import Estimate
from posse.insight.evaluation.support import Rows, common_design
from posse.insight.text import count, cut, listed

HANDFUL = 30
"""Fewer effective rows are a handful."""
CERTAIN = 1 - 1e-12
"""From this propensity on, nothing else could have been played."""
UNLIKELY = math.log(1e5)
"""One in so many right logs may be doubted, for each arm and direction."""
SEEN = 20
"""A player of whom each arm that was seen is expected so often has seen all that it may play."""


def doubts(rows: Rows, everything: Rows, scored: Scored) -> Iterator[str]:
    """What to know about one target: which rows it is judged by, `rows`, and in which it could not have been played."""
    part, whole = rows.arm.size, everything.arm.size
    if part < whole:
        yield (
            f"{scored.name} is judged by {part:,} of the {whole:,} rows, from a time when all that it plays was on "
            "offer: arms came or went"
        )
    blind = float(((rows.propensity >= CERTAIN) & (scored.weights < CERTAIN)).mean())
    if blind > 0:
        yield (
            f"{scored.name}: in {blind:.1%} of the rows the log could play nothing else; they say nothing of it, which "
            "its interval allows for, but not its value"
        )


def doubtful_arms(rows: Rows) -> Iterator[str]:
    """Arms whose weights, 1/e where they were played and else 0, do not average 1, as they must where e is right.

    They are tested by Bernstein's inequality (Freedman, 1975, for logs that learn).
    """
    found = [(name, *_weights(rows, arm)) for arm, name in enumerate(rows.arms)]
    far = [(name, mean, error) for name, mean, error, allowed in found if abs(mean - 1) > allowed]
    if far and rows.adaptive:
        yield (
            f"the weights of an arm average 1 if it is always on offer, but see {_averages(far)}: not always on offer "
            "(a log does not show what choose(available=…) left out), or played rarely; the intervals allow for both, "
            "but values may lean to where the model starts (dr) or to the least reward (ips)"
        )
    elif far:
        yield f"weights should average 1, but see {_averages(far)}: the propensities do not fit what was played"


def _averages(far: list[tuple[str, float, float]]) -> str:
    return listed(f"{cut(name, 40)} (average {mean:.3g} ± {error:.2g})" for name, mean, error in far)


def _weights(rows: Rows, arm: int) -> tuple[float, float, float]:
    """The average weight of an arm, its standard deviation if e is right, and how far from 1 it may be."""
    if rows.since[arm] >= rows.until[arm]:
        return 1.0, 0.0, 0.0
    rows = rows.during(int(rows.since[arm]), int(rows.until[arm]))
    weights, chances = (rows.arm == arm) / rows.propensity, _chances(rows, arm)
    if chances is not None:
        weights, chances = weights[~np.isnan(chances)], chances[~np.isnan(chances)]
    if not weights.any():
        return 1.0, 0.0, 0.0
    mean, size = float(weights.mean()), weights.size
    square = float((weights**2).sum() / weights.sum()) if chances is None else float((1 / chances).mean())
    variance = max(square - 1, 0.0)
    linear = (float(weights.max()) if mean > 1 else 1.0) * UNLIKELY / (3 * size)
    return mean, math.sqrt(variance / size), linear + math.sqrt(linear**2 + 2 * variance * UNLIKELY / size)


def _chances(rows: Rows, arm: int) -> np.ndarray | None:
    """The propensity of an arm in each row, played or not, NaN where unknown; None where propensities vary."""
    if rows.design is None or rows.adaptive:
        return None
    common = common_design(rows)
    if common is not None:
        return np.full(rows.arm.size, common[arm])
    least = np.where(np.isnan(rows.design), 1, rows.design).min(axis=1)
    sure = rows.pulls().sum(axis=1) * least >= SEEN
    return np.asarray(np.where(sure, rows.design[:, arm], np.nan)[rows.player])


def remarks(rows: Rows, estimates: Sequence[Estimate], level: float) -> Iterator[str]:
    """What holds for the whole evaluation."""
    for each in estimates:
        if each.player is None and each.estimator == "replay":
            yield f"{each.target} learns: the value is that of its first {each.rows:,.0f} decisions; longer runs differ"
    few = [each.target for each in estimates if each.player is None and each.effective_rows < HANDFUL]
    if few:
        yield f"fewer than {HANDFUL} effective rows, a handful of decisions: {listed(few)}"
    by_player = [each for each in estimates if each.player is not None]
    if len(rows.players) > 1 and by_player:
        few_rows = sum(each.effective_rows < HANDFUL for each in by_player)
        if few_rows:
            yield f"{few_rows:,} of the {len(by_player):,} values by player rest on fewer than {HANDFUL} effective rows"
    if any(math.isnan(each.value) for each in by_player):
        yield "—: no row of that player has an arm that the policy plays, while it was on offer"
    if len(by_player) * level >= 1:
        yield (
            f"each interval misses the truth with probability {level:g}: among these {len(estimates):,}, "
            f"expect up to {len(estimates) * level:.0f} misses"
        )
    if rows.missing or rows.given_up:
        gone = f" and {count(rows.given_up, 'decision')} that the learner gave up" if rows.given_up else ""
        yield (
            f"{count(rows.missing, 'row')} without a reward{gone} are left out, which is right only if rewards are not "
            "missing because of what they were"
        )
    if rows.undrawn:
        yield (
            f"{count(rows.undrawn, 'row')} without a propensity are left out: nobody knows how likely their arms were"
        )
