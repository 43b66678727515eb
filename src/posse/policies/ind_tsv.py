"""Ind-TS-V: Thompson sampling for each player alone that learns how noisy its rewards are."""

from __future__ import annotations

from dataclasses import dataclass

from posse.policies.base import Look, Policy, Refresh
from posse.policies.fourth_root import STEP, UNIFORM, dispersion_sums, posterior

DISPERSION = 0  # what the summary says of a player


@dataclass(frozen=True)
class IndTSV(Policy):
    """PosseTS without sharing: uniform priors, and the dispersion of a player's rewards estimated from its own data.

    It shares nothing, and is the measure of what sharing is worth. For rewards of 0 and 1 its posterior is close to
    that of Beta-Bernoulli Thompson sampling; it explores as PosseTS does, by a bonus and less chance.

    The dispersion is that of the player's noisiest arm, and an arm that has shown nothing yet counts as noisy as can
    be: pooled over arms, one that always pays the same would have the others given up after a bad pull or two.

    >>> IndTSV().label
    'Ind-TS-V'
    """

    name = "Ind-TS-V"
    shares = False
    look = Look("#8C8C00", (0, (2, 1)), "h", "oo")
    refresh = Refresh.SUMMARY
    arm_numbers = 1
    player_numbers = 1

    @staticmethod
    def summary(pulls, sums, squares, of_arm, of_player, work):
        arms, players = pulls.shape
        for player in range(players):
            noisiest = 0.0
            for arm in range(arms):
                n, s, q = pulls[arm, player] * 1.0, sums[arm, player] * STEP, squares[arm, player] * STEP
                above, below = dispersion_sums(n, s, q)
                noisiest = max(noisiest, (1.0 + above) / (1.0 + below))
            of_player[player, DISPERSION] = min(noisiest, 1.0)

    @staticmethod
    def index(n, s, arm, player, M, log_T):
        return posterior(n, s, player[DISPERSION], 0.5, UNIFORM, 0.0, log_T)
