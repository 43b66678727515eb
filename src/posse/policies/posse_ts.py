"""Provisional."""

from __future__ import annotations

import math
from dataclasses import dataclass

from posse.policies.base import Policy, Refresh
from posse.rewards import GRID

STEP = 1.0 / GRID


@dataclass(frozen=True)
class PosseTS(Policy):
    """Provisional: a hierarchy with noise estimated."""

    name = "PosseTS"
    refresh = Refresh.SUMMARY
    arm_numbers = 4
    player_numbers = 3
    work_tables = 3

    @staticmethod
    def summary(pulls, sums, squares, of_arm, of_player, work):
        for arm in range(pulls.shape[0]):
            N = 0.0
            S = 0.0
            for player in range(pulls.shape[1]):
                N += pulls[arm, player]
                S += sums[arm, player] * STEP
            of_arm[arm, 0] = (S + 1.0) / (N + 2.0)
            of_arm[arm, 1] = 1.0 / (N + 4.0)

    @staticmethod
    def index(n, s, arm, player, M, log_T):
        t2 = 0.002
        v = 0.25
        d = n * t2 + v
        sh = v / d
        return sh * arm[0] + t2 * s / d, math.sqrt(sh * (t2 + sh * arm[1]))
