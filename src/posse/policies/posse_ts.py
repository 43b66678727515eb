"""PosseTS: Thompson sampling that learns how noisy rewards are and how alike players are, and shares accordingly."""

import math
from dataclasses import dataclass

from posse.checks import dissimilarity
from posse.compile import out_of_line
from posse.policies.base import Look, Policy, Refresh, several
from posse.policies.bound import barrier, by_team, dealt, dealt_to_teams, in_any_order, member
from posse.policies.fourth_root import UNIFORM, clip, explore, mean_of, posterior
from posse.policies.likeness.estimate import estimate
from posse.policies.likeness.tables import (
    CENTER,
    DOUBT,
    FITTED,
    GROUPS,
    HELD,
    LEVEL,
    LEVEL_DOUBT,
    ODD,
    OWN,
    ROWS,
    SHARE,
    TABLES,
    UNLIKE,
    noise_of,
    offset_of,
    own_share,
    shifted,
)

BOUND_FOR_EACH_POLICY = True


@dataclass(frozen=True)
class PosseTS(Policy):
    """A hierarchy of Beta-like posteriors; how players differ is estimated from everybody's data.

    A player's mean for an arm varies around the center of the player's group, shifted by the player's level and by what
    its attributes do to this arm. That is its prior, with mean c and variance V; it is worth n₀ = φ (c (1−c) / V − 1)
    observations. With its own data n, s

        mean m = (s + n₀ c) / (n + n₀),    variance φ m (1−m) / (n + n₀ + φ)

    φ is the dispersion: a reward with mean μ has variance φ μ (1−μ). Draws come from the upper part of this posterior,
    on the scale x^¼ − (1−x)^¼. docs/posse-ts.md derives all of it and says what is not proven. ε is optional: players
    that differ by at most ε have a variance of at most ε²/4 between them.

    >>> PosseTS().label, PosseTS(0.1).label
    ('PosseTS', 'PosseTS(epsilon=0.1)')
    """

    epsilon: float | None = None

    name = "PosseTS"
    look = Look("#5B2A86", "-", "*", "..")
    refresh = Refresh.SCHEDULE
    shared = ("arm_dispersion", "own", "fitted", "held", *several("centers", GROUPS), *several("doubts", GROUPS))
    of_player = ("noise", "odd", "level", "level_doubt", *several("shares", GROUPS))
    of_pair = ("expected", "variance", "dispersion")
    of_value = ("effect", "effect_doubt")
    work_tables, work_rows, work_columns = TABLES, ROWS, 2
    alike_without_data = True
    moved_by_others = "expected"
    reward_of = staticmethod(mean_of)

    @staticmethod
    def others_weight():
        return 1.0

    @staticmethod
    def summary(n, s, q, of_arm, of_player, of_pair, of_value, columns, weights, part_of, work, log_T, lane, epsilon):
        arms, players = n.shape
        new = of_arm[arms - 1, OWN] == 0.0 or of_player[players - 1, LEVEL] == 0.0  # an arm or a player has come
        for arm in dealt_to_teams(lane, arms):
            count = 0
            for first in by_team(lane, players):
                count = in_any_order(count, n[arm, member(lane, first)], lane, first)
            work[0, arm] = count
        barrier(lane)
        pulls, fitted = 0.0, 0.0
        for arm in range(arms):
            pulls, fitted = pulls + work[0, arm], fitted + of_arm[arm, FITTED]
            new = new or work[0, arm] < of_arm[arm, FITTED]  # some were forgotten
        if new or 8.0 * (pulls - fitted) >= pulls:
            estimate(n, s, q, of_arm, of_player, of_pair, of_value, columns, weights, part_of, log_T, work, lane)
            for player in dealt(lane, players):
                expect(player, of_arm, of_player, of_pair, of_value, columns, weights, epsilon)
            return True
        return False

    @staticmethod
    def welcome(player, of_arm, of_player, of_pair, of_value, columns, weights, epsilon):
        expect(player, of_arm, of_player, of_pair, of_value, columns, weights, epsilon)

    @staticmethod
    def index(n, s, expected, variance, dispersion, log_T):
        center, scale, seen, information = posterior(n, s, dispersion, expected, variance)
        return explore(center, scale, seen, information, log_T)

    @staticmethod
    def belief(n, s, expected, variance, dispersion):
        return posterior(n, s, dispersion, expected, variance)[:2]

    def check(self) -> None:
        if self.epsilon is not None:
            dissimilarity(self.epsilon)


EXPECTED, VARIANCE, PAIR_DISPERSION = 0, 1, 2  # places in `of_pair`


@out_of_line
def expect(player, of_arm, of_player, of_pair, of_value, columns, weights, epsilon):
    """Fill what is expected of a player on every arm before its own data, the variance of that, and the dispersion."""
    known = of_player[player]
    for arm in range(of_arm.shape[0]):
        said = of_arm[arm]
        offset, doubt_of_effects, missing = offset_of(arm, player, of_value, columns, weights)
        odds = known[LEVEL] * math.exp(offset) if offset != 0.0 else known[LEVEL]
        own = min(own_share(said[OWN], known[ODD]) / said[HELD], UNLIKE)
        mean, square, doubt, between = 0.0, 0.0, 0.0, 0.0
        for group in range(GROUPS):
            share = known[SHARE + group]
            if share > 0.0:
                c = said[CENTER + group]
                x = shifted(c, odds)
                at_most = x * (1.0 - x)
                slope = at_most / (c * (1.0 - c))
                mean += share * x
                square += share * x * x
                doubt += share * said[DOUBT + group] * slope * slope
                between += share * at_most * (own + (known[LEVEL_DOUBT] + (doubt_of_effects + missing)) * at_most)
        between += max(square - mean * mean, 0.0)
        alone = of_player.shape[0] == 2  # one player and the row for who joins: nobody to share with
        of_pair[EXPECTED][arm, player] = 0.5 if alone else clip(mean, 1e-9)
        of_pair[VARIANCE][arm, player] = UNIFORM if alone else max(min(between, 0.25 * epsilon * epsilon) + doubt, 1e-9)
        of_pair[PAIR_DISPERSION][arm, player] = noise_of(arm, player, of_arm, of_player)
