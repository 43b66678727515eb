"""What a reader of an evaluation should know before trusting it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from posse.insight.evaluation.results import Estimate
from posse.insight.evaluation.support import Rows

HANDFUL = 30
"""Fewer effective rows are a handful."""
CERTAIN = 1 - 1e-12
"""From this propensity on, nothing else could have been played."""


def doubts(rows: Rows, name: str, weights: np.ndarray) -> Iterator[str]:
    """What is doubtful about one target: weights that do not average 1, rows in which it could not have been played."""
    error = float(weights.std()) / math.sqrt(weights.size)
    if abs(weights.mean() - 1) > 5 * error + 1e-9 and not rows.adaptive:
        yield (
            f"{name}: its weights average {weights.mean():.3g}, but should average 1 (± {error:.2g}): "
            "the propensities do not fit the arms that were played"
        )
    blind = float(((rows.propensity >= CERTAIN) & (weights < CERTAIN)).mean())
    if blind > 0:
        yield (
            f"{name}: in {blind:.1%} of the rows the log could play nothing else; they say nothing of it, which its "
            "interval allows for, but not its value"
        )


def remarks(rows: Rows, estimates: Sequence[Estimate], level: float) -> Iterator[str]:
    """What holds for the whole evaluation."""
    for each in estimates:
        if each.player is None and each.estimator == "replay":
            yield f"{each.target} learns: the value is that of its first {each.rows:,.0f} decisions; longer runs differ"
    few = [each.target for each in estimates if each.player is None and each.effective_rows < HANDFUL]
    if few:
        yield f"fewer than {HANDFUL} effective rows, a handful of decisions: {', '.join(few)}"
    by_player = [each for each in estimates if each.player is not None]
    if len(rows.players) > 1 and by_player:
        few_rows = sum(each.effective_rows < HANDFUL for each in by_player)
        if few_rows:
            yield f"{few_rows:,} of the {len(by_player):,} values by player rest on fewer than {HANDFUL} effective rows"
    if any(math.isnan(each.value) for each in by_player):
        yield "—: that player never played an arm that the policy plays"
    if len(by_player) * level >= 1:
        yield (
            f"each interval misses the truth with probability {level:g}: among these {len(estimates):,}, "
            f"expect up to {len(estimates) * level:.0f} misses"
        )
    if rows.missing:
        yield (
            f"{rows.missing:,} rows without a reward are left out, which is right only if rewards are not missing "
            "because of what they were"
        )
    if rows.undrawn:
        yield f"{rows.undrawn:,} rows without a propensity are left out: nobody knows how likely their arms were"
