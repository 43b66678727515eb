# mypy: disable-error-code="no-untyped-def"
"""Beta-Bernoulli Thompson sampling: the baseline that is no center + scale · Z, and so is no policy of posse's own."""

from __future__ import annotations

import math
from dataclasses import dataclass

from posse.policies.base import Policy
from posse.simulation.sampling import beta_draw


@dataclass(frozen=True)
class BetaBernoulliTS(Policy):
    """Thompson sampling for each player alone with its exact posterior, Beta(1 + s, 1 + n − s) from a uniform prior.

    s counts successes: a reward in (0, 1) is first turned into a trial that succeeds with that probability. Agrawal
    and Goyal, "Analysis of Thompson sampling for the multi-armed bandit problem" (COLT 2012), Algorithms 1 and 2.

    The simulator draws its indices by `sample`; `index` is their mean and standard deviation, for traces.

    >>> BetaBernoulliTS().index(4.0, 3.0, 30.0, 21.0, 20, 10.8)[0]
    0.6666666666666666
    """

    name = "Beta-Bernoulli TS"
    shares = False

    @staticmethod
    def index(n, s, N, S, M, log_T):
        mean = (s + 1.0) / (n + 2.0)
        return mean, math.sqrt(mean * (1.0 - mean) / (n + 3.0))

    @staticmethod
    def sample(n, s, floor, words, arm, player, t, key):
        return beta_draw(1.0 + s, 1.0 + n - s, floor, words, arm, player, t, key)
