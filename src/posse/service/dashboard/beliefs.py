"""What a policy believes of every player's mean reward on every arm, in the units of the rewards."""

from __future__ import annotations

import numpy as np

from posse.insight.diagnosis.intervals import interval
from posse.learner.state import State
from posse.policies.ind_tsv import IndTSV
from posse.policies.posse_ts import PosseTS

NORMAL_95 = 1.96  # so many standard deviations to either side hold 95 % of a normal distribution
LEVEL = 0.05

_MEANS = np.sin(np.linspace(0, np.pi / 2, 4001)) ** 2  # from 0 to 1, closest at the ends, where the roots are steep
_ROOTS = _MEANS**0.25 - (1 - _MEANS) ** 0.25


def beliefs(state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimates of mean rewards and the ends of 95 % intervals, each [player, arm]; NaN where nothing is known yet.

    A policy that draws believes in a normal posterior. PosseTS and Ind-TS-V have it on another scale,
    x^¼ − (1−x)^¼. A policy that does not draw has a bonus and no posterior: its players' own means stand with
    intervals that hold at all times.
    """
    policy, counts = state.setup.policy, state.counts()
    low, width = counts.low, counts.high - counts.low
    if not policy.randomised:
        pulls, sums = counts.pulls, np.clip((counts.sums - low * counts.pulls) / width, 0, counts.pulls)
        means = np.divide(sums, pulls, out=np.full(pulls.shape, np.nan), where=pulls > 0)
        ends = [means, *(np.where(pulls > 0, end, np.nan) for end in interval(pulls, sums, LEVEL))]
    else:
        posteriors = np.full((2, *counts.pulls.shape), np.nan)
        on_roots = isinstance(policy, PosseTS | IndTSV)
        for player in range(len(counts.players)):
            posteriors[:, player] = state.evaluate(player, belief=on_roots)[:2]
        # What the policy believes of an arm that nobody has tried is its prior, no knowledge.
        known = np.isfinite(posteriors[0]) & counts.pulls.any(axis=0)
        centers, scales = np.where(known, posteriors, np.nan)
        ends = [centers + side * NORMAL_95 * scales for side in (0, -1, 1)]
        ends = [np.interp(end, _ROOTS, _MEANS) if on_roots else np.clip(end, 0, 1) for end in ends]
    estimates, lows, highs = (low + width * end for end in ends)
    return estimates, lows, highs
