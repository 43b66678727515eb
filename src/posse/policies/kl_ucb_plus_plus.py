"""KL-UCB++: KL-UCB that explores less what was pulled more, for each player alone."""

import math
from dataclasses import dataclass

from posse.policies.base import Look, Policy
from posse.policies.bernoulli_kl import kl_index

ROUNDING = 1e-12  # of a difference of logarithms, whose root would show


@dataclass(frozen=True)
class KLUCBPlusPlus(Policy):
    """The largest q with n kl(s/n, q) ≤ g(n), on the player's own data; each arm once first.

    g(n) = ln₊(T/(K n) · (1 + ln₊²(T/(K n)))) with ln₊ x = max(ln x, 0), and K arms. Ménard and Garivier, "A minimax and
    asymptotically optimal algorithm for stochastic bandits" (ALT 2017). It is made for a known horizon; the anytime
    form has the round in place of T. The bound holds for all rewards in [0, 1].

    >>> center, scale = KLUCBPlusPlus().index(n=40.0, s=30.0, K=10, log_T=10.8)
    >>> round(center, 4), scale
    (0.9435, 0.0)
    """

    name = "KL-UCB++"
    shares = False
    look = Look("#66A61E", (0, (7, 1, 1, 1)), ">", "//")
    randomised = False
    untried = 0.5

    @staticmethod
    def index(n, s, K, log_T):
        if n == 0.0:
            return math.inf, 0.0
        left = log_T - math.log(K * n)
        left = left if left > ROUNDING else 0.0
        return kl_index(n, s, left + math.log(1.0 + left * left)), 0.0
