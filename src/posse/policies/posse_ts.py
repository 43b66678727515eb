"""PosseTS: Thompson sampling that learns how noisy rewards are and how alike players are, and shares accordingly."""

from dataclasses import dataclass

from posse.checks import dissimilarity
from posse.policies.base import Look, Policy, Refresh, several
from posse.policies.fourth_root import UNIFORM, clip, explore, mean_of, posterior
from posse.policies.likeness import FITTED, GROUPS, LEVEL, OWN, ROWS, UNLIKE, estimate, held, own_share, shifted


@dataclass(frozen=True)
class PosseTS(Policy):
    """A hierarchy of Beta-like posteriors; how players differ is estimated from everybody's data.

    A player's mean for an arm varies around the center of the player's group, shifted by the player's level. That is
    its prior, with mean c and variance V; it is worth n₀ = φ (c (1−c) / V − 1) observations. With its own data n, s

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
    shared = ("dispersion", "own", "fitted", "looseness", *several("centers", GROUPS), *several("doubts", GROUPS))
    of_player = ("noise", "odd", "level", "level_doubt", *several("shares", GROUPS))
    work_tables, work_rows = 2, ROWS
    moved_by_others = "centers"
    reward_of = staticmethod(mean_of)

    @staticmethod
    def others_weight():
        return 1.0

    @staticmethod
    def summary(n, s, q, of_arm, of_player, work):
        arms, players = n.shape
        pulls, fitted = 0, 0.0
        new = of_arm[arms - 1, OWN] == 0.0 or of_player[players - 1, LEVEL] == 0.0  # an arm or a player has come
        for arm in range(arms):
            before, fitted = pulls, fitted + of_arm[arm, FITTED]
            for player in range(players):
                pulls += n[arm, player]
            new = new or pulls - before < of_arm[arm, FITTED]  # some were forgotten
        if new or 8.0 * (pulls - fitted) >= pulls:
            estimate(n, s, q, of_arm, of_player, work)

    @staticmethod
    def index(
        n, s, dispersion, own, looseness, centers, doubts, noise, odd, level, level_doubt, shares, M, log_T, epsilon
    ):
        own = min(own_share(own, odd) / held(looseness, log_T), UNLIKE)
        expected, variance = prior(own, centers, doubts, level, level_doubt, shares, M, epsilon)
        center, scale, seen, information = posterior(n, s, max(dispersion, noise), expected, variance)
        return explore(center, scale, seen, information, log_T)

    @staticmethod
    def belief(
        n, s, dispersion, own, looseness, centers, doubts, noise, odd, level, level_doubt, shares, M, log_T, epsilon
    ):
        own = min(own_share(own, odd) / held(looseness, log_T), UNLIKE)
        expected, variance = prior(own, centers, doubts, level, level_doubt, shares, M, epsilon)
        return posterior(n, s, max(dispersion, noise), expected, variance)[:2]

    def check(self) -> None:
        if self.epsilon is not None:
            dissimilarity(self.epsilon)


def prior(own, centers, doubts, level, level_doubt, shares, M, epsilon):
    """What is expected of a player on an arm before its own data, and the variance of that."""
    if M == 1:  # nobody to share with
        return 0.5, UNIFORM
    mean, square, doubt, between = 0.0, 0.0, 0.0, 0.0
    for group in range(GROUPS):
        share = shares[group]
        if share > 0.0:
            c = centers[group]
            x = shifted(c, level)
            at_most = x * (1.0 - x)
            slope = at_most / (c * (1.0 - c))
            mean += share * x
            square += share * x * x
            doubt += share * doubts[group] * slope * slope
            between += share * at_most * (own + level_doubt * at_most)
    between += max(square - mean * mean, 0.0)
    return clip(mean, 1e-9), max(min(between, 0.25 * epsilon * epsilon) + doubt, 1e-9)
