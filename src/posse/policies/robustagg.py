"""RobustAgg: upper confidence bounds that weigh own and others' data robustly."""

import math
from dataclasses import dataclass
from typing import Self

from posse.checks import dissimilarity, number
from posse.policies.base import Look, Policy, Refresh


def own_weight(n, m, A, epsilon):
    """λ in [0, 1] that minimises sqrt(A (λ²/n + (1−λ)²/m)) + (1−λ) ε, for n, m >= 1.

    In closed form: 1 if ε > 0 and n >= A/ε², otherwise n/(n+m) · (1 + ε m / sqrt(A (n+m) − ε² n m)), at most 1.
    """
    if epsilon == 0.0:
        return n / (n + m)
    if n >= A / (epsilon * epsilon):
        return 1.0
    return min(1.0, n / (n + m) * (1.0 + epsilon * m / math.sqrt(A * (n + m) - epsilon * epsilon * n * m)))


def upper_bound(n, s, N, S, log_T, epsilon, width):
    """λ ζ + (1−λ) η plus its width, with ζ the player's own mean and η the mean of all others' rewards."""
    A = width * log_T
    own = max(n, 1.0)
    others = max(N - n, 1.0)
    weight = own_weight(own, others, A, epsilon)
    rest = 1.0 - weight
    mean = weight * (s / own) + rest * ((S - s) / others)
    return mean + (math.sqrt(A * (weight * weight / own + rest * rest / others)) + rest * epsilon)


@dataclass(frozen=True)
class RobustAgg(Policy):
    """The upper confidence bound of the best mixture of own and others' data; no randomness.

    The index is κ(λ*) + F(λ*): κ mixes the player's mean and the others' mean with weight λ, F is the mixture's
    width with A = width · ln T, and λ* minimises F. Wang, Zhang, Singh, Riek and Chaudhuri, "Multitask Bandit
    Learning Through Heterogeneous Feedback Aggregation" (AISTATS 2021); Algorithm 2 of Wang, Zhang and Chaudhuri
    (2022) for any set of active players. The width of the experiments is 2.

    >>> center, scale = RobustAgg(0.15).index(n=4.0, s=3.0, N=30.0, S=21.0, log_T=10.8, epsilon=0.15, width=2.0)
    >>> round(center, 4), scale
    (1.6782, 0.0)
    """

    epsilon: float
    width: float = 2.0

    name = "RobustAgg"
    look = Look("#0072B2", (0, (5, 1.5)), "s", "////")
    refresh = Refresh.ANY_PULL
    randomised = False

    @staticmethod
    def index(n, s, N, S, log_T, epsilon, width):
        return upper_bound(n, s, N, S, log_T, epsilon, width), 0.0

    def check(self) -> None:
        dissimilarity(self.epsilon)
        number("width", self.width, above=0)

    @classmethod
    def theory(cls, epsilon: float) -> Self:
        """The width of the analysis, 64 · 13."""
        return cls(epsilon, width=832.0)
