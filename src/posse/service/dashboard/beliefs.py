"""What a policy believes of every player and arm, in the units of the rewards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posse.insight.diagnosis.intervals import interval
from posse.policies.base import Policy
from posse.policies.ind_tsv import IndTSV
from posse.policies.posse_ts import PosseTS

NORMAL_95 = 1.96  # standard deviations to either side that hold 95 % of a normal law
LEVEL = 0.05

_MEANS = np.sin(np.linspace(0, np.pi / 2, 4001)) ** 2  # from 0 to 1, closest at the ends, where the roots are steep
_ROOTS = _MEANS**0.25 - (1 - _MEANS) ** 0.25


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Estimates of mean rewards and 95 % intervals, [player, arm]; NaN where nothing is known yet."""

    estimates: np.ndarray
    lows: np.ndarray
    highs: np.ndarray


def beliefs(
    policy: Policy,
    pulls: np.ndarray,
    sums: np.ndarray,
    centers: np.ndarray,
    scales: np.ndarray,
    low: float = 0.0,
    high: float = 1.0,
) -> Beliefs:
    """What the policy takes each mean reward for, from its indices and each player's counts and sums on [0, 1].

    Center and scale are those of a posterior: Thompson sampling draws from it, PosseTS and Ind-TS-V are asked for it. A
    policy without randomness adds a bonus to the center; for it, a player's own mean stands with an interval that holds
    at all times.
    """
    if not policy.randomised:
        some = pulls > 0
        estimates = np.divide(sums, pulls, out=np.full(pulls.shape, np.nan), where=some)
        lows, highs = (np.where(some, end, np.nan) for end in interval(pulls, np.clip(sums, 0, pulls), LEVEL))
    else:
        known = np.isfinite(centers)
        middle = np.where(known, centers, 0.0)
        around = NORMAL_95 * np.where(known, scales, 0.0)
        if isinstance(policy, PosseTS | IndTSV):
            ends = [_from_roots(middle + side * around) for side in (0, -1, 1)]
        else:
            ends = [np.clip(middle + side * around, 0, 1) for side in (0, -1, 1)]
        estimates, lows, highs = (np.where(known, end, np.nan) for end in ends)
    return Beliefs(*(low + (high - low) * end for end in (estimates, lows, highs)))


def _from_roots(values: np.ndarray) -> np.ndarray:
    """The x in [0, 1] with x^¼ − (1−x)^¼ of this value."""
    return np.interp(values, _ROOTS, _MEANS)
