"""IMED: pull the arm with the least evidence against it, for each player alone."""

import math
from dataclasses import dataclass

from posse.policies.base import Law, Look, Policy
from posse.policies.bernoulli_kl import divergence

TIE = 1e-12  # values so close are the same: exact ties are common while pulls are few, and rounding must not break them


def least_evidence(means, pulls):
    """The arm with the smallest n kl(mean, best mean) + ln n, the lowest of several; one of mean +inf before all.

    >>> import numpy as np
    >>> least_evidence(np.array([0.5, 0.4, 0.1]), np.array([100.0, 10.0, 3.0]))
    2
    """
    best = 0
    for arm in range(1, means.size):
        best = arm if means[arm] > means[best] else best
    most = means[best]
    if most == math.inf:
        return best
    found, least = best, math.inf
    for arm in range(means.size):
        value = math.log(pulls[arm])
        if means[arm] < most and value < least:
            value += pulls[arm] * divergence(means[arm], most - means[arm])
        if value < least - TIE:
            found, least = arm, value
    return found


@dataclass(frozen=True)
class IMED(Policy):
    """Pull the arm with the smallest n kl(s/n, best) + ln n, with the player's best mean so far; each arm once first.

    Honda and Takemura, "Non-asymptotic analysis of a new bandit algorithm for semi-bounded rewards" (JMLR 16, 2015):
    indexed minimum empirical divergence, here by the Bernoulli divergence. It needs no horizon. For rewards of 0 and 1
    that is the paper's algorithm; for others in [0, 1] the divergence is a lower bound of the paper's.

    >>> IMED().index(n=4.0, s=3.0)
    (0.75, 4.0)
    """

    shares = False
    look = Look("#B22222", (0, (4, 2)), "p", "xx")
    law = Law.IMED
    randomised = False
    untried = 0.5

    @staticmethod
    def index(n, s):
        return (s / n, n) if n > 0.0 else (math.inf, 0.0)
