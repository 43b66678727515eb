"""Ind-TS-V: Thompson sampling for each player alone that learns how noisy its rewards are."""

from dataclasses import dataclass

from posse.policies.base import Look, Policy, Refresh
from posse.policies.bound import dealt
from posse.policies.fourth_root import UNIFORM, dispersion_sums, explore, mean_of, posterior
from posse.policies.statistics import STEP

BOUND_FOR_EACH_POLICY = True


@dataclass(frozen=True)
class IndTSV(Policy):
    """PosseTS without sharing: uniform priors, and the dispersion of a player's rewards estimated from its own data.

    It shares nothing, and is the measure of what sharing is worth. For rewards of 0 and 1 its posterior is close to
    that of Beta-Bernoulli Thompson sampling; it explores as PosseTS does, by a bonus and less chance.

    The dispersion is that of the player's noisiest arm, and an arm without data counts as maximally noisy. Pooled over
    arms, an arm that always pays the same would make the player give up the others after a bad pull or two.

    >>> IndTSV().label
    'Ind-TS-V'
    """

    name = "Ind-TS-V"
    shares = False
    look = Look("#8C8C00", (0, (2, 1)), "h", "oo")
    refresh = Refresh.SCHEDULE
    shared = ()
    of_player = ("dispersion",)
    reward_of = staticmethod(mean_of)

    @staticmethod
    def summary(n, s, q, of_player, lane):
        arms, players = n.shape
        new = False
        for player in dealt(lane, players):
            noisiest = 0.0
            for arm in range(arms):
                count, total, squares = n[arm, player] * 1.0, s[arm, player] * STEP, q[arm, player] * STEP
                above, below = dispersion_sums(count, total, squares)
                noisiest = max(noisiest, (1.0 + above) / (1.0 + below))
            if of_player[player, 0] != min(noisiest, 1.0):
                of_player[player, 0], new = min(noisiest, 1.0), True
        of_player[players, 0] = 1.0
        return new

    @staticmethod
    def welcome():
        """Nothing is expected of anybody."""

    @staticmethod
    def index(n, s, dispersion, log_T):
        center, scale, seen, information = posterior(n, s, dispersion, 0.5, UNIFORM)
        return explore(center, scale, seen, information, log_T)

    @staticmethod
    def belief(n, s, dispersion):
        return posterior(n, s, dispersion, 0.5, UNIFORM)[:2]
