"""A user's policy with a statistic of its own, in one file outside the package."""

from __future__ import annotations

import math
from dataclasses import dataclass

from posse.policies import Policy, Refresh, Statistic


def count_high(value, reward):
    return value + (reward > 1 << 23)  # rewards are in steps of 2⁻²⁴, so this is ½


def latest(value, reward):
    return reward


@dataclass(frozen=True)
class HighTS(Policy):
    """Prefers arms whose rewards are often above ½, and a little those whose last reward was high."""

    weight: float = 0.5

    name = "High-TS"
    refresh = Refresh.OWN_PULL
    statistics = (*Policy.statistics, Statistic("high", count_high), Statistic("last", latest, 2.0**-24))

    @staticmethod
    def index(n, s, high, last, N, S, weight):
        pulls = max(n, 1.0)
        mean = weight * high / pulls + (1.0 - weight) * (s / pulls) + 0.01 * last
        return 0.9 * mean + 0.1 * (S / max(N, 1.0)), 1.0 / math.sqrt(pulls)


@dataclass(frozen=True)
class HighSummaryTS(Policy):
    """The same statistics through a summary of everybody's data."""

    name = "High-Summary-TS"
    refresh = Refresh.SCHEDULE
    statistics = HighTS.statistics
    shared = ("often",)
    of_player = ("own_often",)
    moved_by_others = "often"

    @staticmethod
    def others_weight():
        return 1.0

    @staticmethod
    def summary(n, high, of_arm, of_player):
        arms, players = n.shape
        for arm in range(arms):
            pulls, above = 1.0, 0.5
            for player in range(players):
                pulls += n[arm, player]
                above += high[arm, player]
            of_arm[arm, 0] = above / pulls
        for player in range(players):
            pulls, above = 1.0, 0.5
            for arm in range(arms):
                pulls += n[arm, player]
                above += high[arm, player]
            of_player[player, 0] = above / pulls

    @staticmethod
    def index(n, high, last, often, own_often):
        prior = 0.5 * (often + own_often)
        return (high + 2.0 * prior) / (n + 2.0) + 0.001 * last, 1.0 / math.sqrt(n + 2.0)
