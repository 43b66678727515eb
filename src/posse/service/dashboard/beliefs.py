"""What a policy believes of every player's mean reward on every arm, in the units of the rewards."""

from __future__ import annotations

import numpy as np

from posse.insight.diagnosis.intervals import interval
from posse.learner.state import LearnerState

NORMAL_95 = 1.96  # so many standard deviations to either side hold 95 % of a normal distribution
LEVEL = 0.05


def beliefs(state: LearnerState) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimates of mean rewards and the ends of 95 % intervals, each [player, arm]; NaN where nothing is known yet.

    A policy that draws says what it believes. A policy that does not draw has a bonus and no posterior: its players'
    own means stand with intervals that hold at all times.
    """
    policy, counts = state.setup.policy, state.counts()
    low, width = counts.low, counts.high - counts.low
    if not policy.randomised:
        pulls, sums = counts.pulls, np.clip((counts.sums - low * counts.pulls) / width, 0, counts.pulls)
        means = np.divide(sums, pulls, out=np.full(pulls.shape, np.nan), where=pulls > 0)
        ends = [means, *(np.where(pulls > 0, end, np.nan) for end in interval(pulls, sums, LEVEL))]
    else:
        centers, scales = state.beliefs()
        # What the policy believes of an arm that nobody has tried is its prior, no knowledge.
        known = np.isfinite(centers) & counts.pulls.any(axis=0)
        centers, scales = np.where(known, (centers, scales), np.nan)
        ends = [policy.reward_of(centers + side * NORMAL_95 * scales) for side in (0, -1, 1)]
    estimates, lows, highs = (low + width * end for end in ends)
    return estimates, lows, highs
