"""HierTS: Thompson sampling in a Gaussian hierarchy, where players vary around a shared centre."""

import math
from dataclasses import dataclass

from posse.checks import number
from posse.policies.base import Look, Policy, Refresh


@dataclass(frozen=True)
class HierTS(Policy):
    """A player's posterior when its mean is drawn around an unknown centre of the arm, the centre integrated out.

    The model, for an arm: centre ~ N(μq, σq²), a player's mean ~ N(centre, σ0²), a reward ~ N(mean, σ²), with
    σ0 = `spread`, σ = `noise`. With d = n σ0² + σ² for each player, the centre's posterior has precision
    1/σ̄² = 1/σq² + Σ n/d and mean μ̄ = σ̄² (μq/σq² + Σ s/d); the player's own is then

        center = (σ² μ̄ + σ0² s) / d,    scale² = σ0² σ² / d + (σ²/d)² σ̄².

    Hong, Kveton, Zaheer and Ghavamzadeh, "Hierarchical Bayesian Bandits" (AISTATS 2022), with each player's index
    drawn from its own marginal posterior. Spread 0 is full pooling. The same model and the same draws are MTTS of Wan,
    Ge and Song, "Metadata-based multi-task bandits with Bayesian hierarchical models" (NeurIPS 2021), without metadata:
    with a feature of its own for each arm and independent arms.

    >>> policy = HierTS(0.0, noise=1.0, prior_mean=0.0, prior_sd=1.0)
    >>> policy.index(1.0, 1.0, 3.0, 2.0, *policy.constants())
    (0.5, 0.5)
    """

    spread: float
    noise: float = 0.5
    prior_mean: float = 0.5
    prior_sd: float = 0.5

    name = "HierTS"
    look = Look("#000000", (0, (4, 1, 1, 1)), "X", "||||")
    refresh = Refresh.ANY_PULL

    @staticmethod
    def contribution(n, s, spread, noise, prior_mean, prior_sd):
        precision = 1.0 / (n * spread * spread + noise * noise)
        return n * precision, s * precision

    @staticmethod
    def others_weight(n, N, spread, noise):
        return N - n / (n * spread * spread + noise * noise)

    @staticmethod
    def index(n, s, N, S, spread, noise, prior_mean, prior_sd):
        prior_precision = 1.0 / (prior_sd * prior_sd)
        centre_variance = 1.0 / (prior_precision + N)
        centre = centre_variance * (prior_mean * prior_precision + S)
        between = spread * spread
        within = noise * noise
        precision = 1.0 / (n * between + within)
        shrink = within * precision
        return shrink * centre + between * s * precision, math.sqrt(shrink * (between + shrink * centre_variance))

    def check(self) -> None:
        number("spread", self.spread, least=0)
        number("noise", self.noise, above=0)
        number("prior_mean", self.prior_mean)
        number("prior_sd", self.prior_sd, above=0)
