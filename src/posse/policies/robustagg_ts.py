"""RobustAgg-TS: Thompson sampling that shares data robustly."""

import math
from dataclasses import dataclass
from typing import Self

from posse.checks import dissimilarity, number
from posse.policies.base import Look, Policy, Refresh


def individual_or_aggregate(n, s, N, S, M, log_T, epsilon, c1, c2):
    """The individual posterior once n >= c1 ln T / ε² + 2M, and the aggregate posterior before.

    individual: center s/n, variance c2/n; aggregate: center S/(N∨1) + ε, variance c2/((N−M)∨1).
    """
    threshold = c1 * log_T / (epsilon * epsilon) + 2.0 * M if epsilon > 0.0 else math.inf
    if n >= threshold:
        share = 1.0 / n  # one division where the formulas show two: division is what the kernel waits for
        center, variance = s * share, c2 * share
    else:
        center, variance = S / max(N, 1.0) + epsilon, c2 / max(N - M, 1.0)
    return center, math.sqrt(variance)


@dataclass(frozen=True)
class RobustAggTS(Policy):
    """Thompson sampling from the aggregate posterior while own data is scarce, then from the individual one.

    Both posteriors of a (player, arm) pair change only when that player pulls that arm; a pair never pulled keeps
    N(0, c2). Wang, Zhang and Chaudhuri, "Thompson Sampling for Robust Transfer in Multi-Task Bandits" (2022),
    Algorithm 1; the constants are those of its experiments.

    >>> RobustAggTS(0.15).index(4.0, 3.0, 30.0, 21.0, 20, 10.8, 0.15, 0.5, 1.0)
    (0.85, 0.31622776601683794)
    """

    epsilon: float
    c1: float = 0.5
    c2: float = 1.0

    name = "RobustAgg-TS"
    look = Look("#D55E00", "-", "o", "")
    refresh = Refresh.OWN_PULL

    @staticmethod
    def index(n, s, N, S, M, log_T, epsilon, c1, c2):
        if N == 0.0:  # never pulled by this player, who therefore has seen nothing
            return 0.0, math.sqrt(c2)
        return individual_or_aggregate(n, s, N, S, M, log_T, epsilon, c1, c2)

    def check(self) -> None:
        dissimilarity(self.epsilon)
        number("c1", self.c1, above=0)
        number("c2", self.c2, above=0)

    @classmethod
    def theory(cls, epsilon: float) -> Self:
        """The constants of the analysis (Theorems 4.1 and 4.2): c1 = 40, c2 = 4."""
        return cls(epsilon, c1=40.0, c2=4.0)
