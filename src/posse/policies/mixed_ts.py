"""MixedTS: Thompson sampling in a Gaussian model with effects of attributes, whose variances are told."""

import math
from dataclasses import dataclass

from posse.checks import number
from posse.policies.base import Look, Policy, Refresh
from posse.policies.linear_model import ROWS, fit, single_parts


@dataclass(frozen=True)
class MixedTS(Policy):
    """A player's posterior when its mean is the arm's, plus effects of its attributes, plus something of its own.

    All of these are Gaussian, independent between arms, and have given variances. `effects` and `pairs` are the
    standard deviations of what single attributes do to a player's mean, all together, and of what pairs of attributes
    do beyond that; each is divided evenly among the parts. What is known from everybody's data about the arm's mean
    and the effects makes x·β with mean c and variance v; with the player's own data and d = n own² + noise²

        center = (noise² c + own² s) / d,    scale² = own² noise² / d + (noise² / d)² v.

    That is exact. It is HierTS with attributes: mixed-effect Thompson sampling (Aouali, Kveton and Katariya, AISTATS
    2023), and MTTS with the players' attributes as metadata (Wan, Ge and Song, NeurIPS 2021), with each player's index
    drawn from its own marginal posterior. `own` also covers values that are not known, unless it is 0.

    >>> policy = MixedTS(0.1, 0.08)
    >>> policy.label, policy.index(n=25.0, s=15.0, expected=0.5, variance=0.02, own_variance=0.01, noise=0.5)
    ('MixedTS(0.1, 0.08)', (0.55, 0.1))
    """

    own: float
    effects: float
    pairs: float = 0.0
    noise: float = 0.5
    prior_mean: float = 0.5
    prior_sd: float = 0.5

    name = "MixedTS"
    look = Look("#A6611A", (0, (4, 1, 1, 1, 1, 1)), "d", "xx..")
    refresh = Refresh.SCHEDULE
    shared = ()
    of_player = ("own_variance",)
    of_pair = ("expected", "variance")
    of_value = ("effect",)
    work_rows = ROWS
    moved_by_others = "expected"
    differences = ("own", "effects", "pairs")

    @staticmethod
    def others_weight():
        return 1.0

    @staticmethod
    def summary(
        n, s, of_player, of_pair, of_value, columns, weights, part_of, work,
        own, effects, pairs, noise, prior_mean, prior_sd,
    ):  # fmt: skip
        parts = columns.shape[1]
        singles = single_parts(parts)
        single, pair = effects / math.sqrt(max(singles, 1)), pairs / math.sqrt(max(parts - singles, 1))
        model = noise, own, prior_mean, prior_sd, single, pair
        fit(n, s, of_player, of_pair, of_value, columns, weights, part_of, work, model)

    @staticmethod
    def index(n, s, expected, variance, own_variance, noise):
        within = noise * noise
        d = n * own_variance + within
        shrink = within / d
        return shrink * expected + own_variance * s / d, math.sqrt(shrink * (own_variance + shrink * variance))

    def check(self) -> None:
        for name in ("own", "effects", "pairs"):
            number(name, getattr(self, name), least=0)
        number("noise", self.noise, above=0)
        number("prior_mean", self.prior_mean)
        number("prior_sd", self.prior_sd, above=0)
