"""Ind-TS-V: Thompson sampling for each player alone that learns how noisy its rewards are."""

from __future__ import annotations

from dataclasses import dataclass

from posse.policies.base import Policy, Refresh
from posse.policies.fourth_root import STEP, UNIFORM, dispersion_sums, posterior

DISPERSION = 0  # what the summary says of a player


@dataclass(frozen=True)
class IndTSV(Policy):
    """PosseTS without sharing: uniform priors, and the dispersion of a player's rewards estimated from its own data.

    It shares nothing, and is the measure of what sharing is worth. For rewards of 0 and 1 it is close to exact
    Beta-Bernoulli Thompson sampling, with less exploration of arms that are well known.

    >>> IndTSV().label
    'Ind-TS-V'
    """

    name = "Ind-TS-V"
    refresh = Refresh.SUMMARY
    arm_numbers = 1
    player_numbers = 1

    @staticmethod
    def summary(pulls, sums, squares, of_arm, of_player, work):
        arms, players = pulls.shape
        for player in range(players):
            above, below = 1.0, 1.0
            for arm in range(arms):
                n, s, q = pulls[arm, player] * 1.0, sums[arm, player] * STEP, squares[arm, player] * STEP
                more, rest = dispersion_sums(n, s, q)
                above, below = above + more, below + rest
            of_player[player, DISPERSION] = min(max(above / below, 1e-12), 1.0)

    @staticmethod
    def index(n, s, arm, player, M, log_T):
        return posterior(n, s, player[DISPERSION], 0.5, UNIFORM, 0.0, log_T)
