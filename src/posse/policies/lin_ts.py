"""LinTS: linear Thompson sampling on players' attributes."""

import math
from dataclasses import dataclass

from posse.checks import number
from posse.policies.base import Look, Policy, Refresh
from posse.policies.linear_model import ROWS, fit
from posse.policies.mixed_ts import MixedTS


@dataclass(frozen=True)
class LinTS(Policy):
    """A Bayesian linear regression for each arm: its mean plus an effect of each value of the player's attributes.

    With X the rows of all pulls of an arm, one-hot with an intercept, and r their rewards less ½, the coefficients are
    drawn from N(B⁻¹ Xᵀ r, noise² B⁻¹), B = ridge · I + Xᵀ X. Players with the same values are the same to it, and
    without attributes all players are. Agrawal and Goyal, "Thompson sampling for contextual bandits with linear
    payoffs" (ICML 2013), with a model of its own for each arm, and each player's index drawn by itself.

    With `pairs=1` the values of every two attributes have effects too. A number has a slope and effects of its bins. A
    value that is not known has no effect. `noise` is the standard deviation of rewards, at most ½.

    >>> LinTS(pairs=1).label, LinTS().index(expected=0.4, variance=0.01)
    ('LinTS(pairs=1)', (0.4, 0.1))
    """

    pairs: float = 0.0
    noise: float = 0.5
    ridge: float = 1.0

    name = "LinTS"
    look = Look("#1B7837", (0, (6, 1, 2, 1)), "<", "//oo")
    refresh = Refresh.SCHEDULE
    shared = ()
    of_player, of_pair, of_value = MixedTS.of_player, MixedTS.of_pair, MixedTS.of_value
    work_rows = ROWS
    moved_by_others = MixedTS.moved_by_others
    others_weight = staticmethod(MixedTS.others_weight)

    @staticmethod
    def summary(n, s, of_player, of_pair, of_value, columns, weights, part_of, work, pairs, noise, ridge):
        deviation = noise / math.sqrt(ridge)
        model = noise, 0.0, 0.5, deviation, deviation, pairs * deviation
        fit(n, s, of_player, of_pair, of_value, columns, weights, part_of, work, model)

    @staticmethod
    def index(expected, variance):
        return expected, math.sqrt(variance)

    def check(self) -> None:
        if number("pairs", self.pairs) not in (0, 1):
            raise ValueError(f"pairs={self.pairs!r}, but expected 1 for effects of pairs of attributes, or 0")
        number("noise", self.noise, above=0)
        number("ridge", self.ridge, above=0)
