"""KL-UCB: upper confidence bounds by the Bernoulli divergence, for each player alone."""

import math
from dataclasses import dataclass

from posse.checks import number
from posse.policies.base import Look, Policy
from posse.policies.bernoulli_kl import exploration, kl_index


@dataclass(frozen=True)
class KLUCB(Policy):
    """The largest q with n kl(s/n, q) ≤ ln T + c ln ln T, on the player's own data; each arm once first.

    Garivier and Cappé, "The KL-UCB algorithm for bounded stochastic bandits and beyond" (COLT 2011), Algorithm 1. The
    analysis has c = 3, the authors recommend c = 0 in practice, and so it is here. Their logarithm is that of the
    round, which is the anytime form. The bound holds for all rewards in [0, 1].

    >>> center, scale = KLUCB().index(n=40.0, s=30.0, log_T=10.8, c=0.0)
    >>> round(center, 4), scale
    (0.9594, 0.0)
    """

    c: float = 0.0

    name = "KL-UCB"
    shares = False
    look = Look("#117A8B", (0, (5, 1, 1, 1)), "<", "\\\\")
    randomised = False
    untried = 0.5

    @staticmethod
    def index(n, s, log_T, c):
        if n == 0.0:
            return math.inf, 0.0
        return kl_index(n, s, exploration(log_T, c)), 0.0

    def check(self) -> None:
        number("c", self.c, least=0)
