"""Naive-Agg: everybody's data pooled blindly."""

from dataclasses import dataclass

from posse.checks import number
from posse.policies.base import Look, Policy, Refresh
from posse.policies.robustagg import upper_bound


@dataclass(frozen=True)
class NaiveAgg(Policy):
    """RobustAgg with ε = 0: UCB on the pooled data, as if all players were the same.

    A baseline of Wang, Zhang, Singh, Riek and Chaudhuri (AISTATS 2021): quick where players agree, misled where
    they do not.

    >>> center, scale = NaiveAgg().index(n=4.0, s=3.0, N=30.0, S=21.0, log_T=10.8, width=2.0)
    >>> round(center, 4), scale
    (1.5485, 0.0)
    """

    width: float = 2.0

    name = "Naive-Agg"
    look = Look("#56B4E9", (0, (8, 2)), "P", "++++")
    refresh = Refresh.ANY_PULL
    randomised = False

    @staticmethod
    def index(n, s, N, S, log_T, width):
        return upper_bound(n, s, N, S, log_T, 0.0, width), 0.0

    def check(self) -> None:
        number("width", self.width, above=0)
