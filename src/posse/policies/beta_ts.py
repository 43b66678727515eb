"""Beta-TS: Thompson sampling for each player alone from the exact posterior of a Bernoulli mean."""

from dataclasses import dataclass

from posse.policies.base import Law, Look, Policy


@dataclass(frozen=True)
class BetaTS(Policy):
    """Thompson sampling on the player's own data with the posterior Beta(1 + s, 1 + n − s) of a uniform prior.

    For rewards of 0 and 1 this is the exact posterior: Agrawal and Goyal, "Analysis of Thompson sampling for the
    multi-armed bandit problem" (COLT 2012), Algorithm 1. Other rewards in [0, 1] count as parts of a success.

    >>> BetaTS().index(n=4.0, s=3.0)
    (4.0, 2.0)
    """

    name = "Beta-TS"
    shares = False
    look = Look("#8C564B", (0, (3, 1)), "d", "..")
    law = Law.BETA

    @staticmethod
    def index(n, s):
        return 1.0 + s, 1.0 + n - s
