"""Ind-UCB: UCB-1 for each player alone."""

import math
from dataclasses import dataclass

from posse.checks import number
from posse.policies.base import Look, Policy


@dataclass(frozen=True)
class IndUCB(Policy):
    """s/n + sqrt(width · ln T / n) on the player's own data; each arm once first. No randomness.

    UCB-1 (Auer, Cesa-Bianchi and Fischer, 2002) with a known horizon, the baseline of Wang, Zhang and Chaudhuri
    (2022). The width of the experiments is 2. In the anytime form ln t takes the place of ln T: that is UCB-1 as
    published, with the current round counted among the plays.

    >>> center, scale = IndUCB().index(n=4.0, s=3.0, log_T=10.8, width=2.0)
    >>> round(center, 4), scale
    (3.0738, 0.0)
    """

    width: float = 2.0

    name = "Ind-UCB"
    shares = False
    look = Look("#E69F00", (0, (1.2, 1.2)), "v", "\\\\\\\\")
    randomised = False

    @staticmethod
    def index(n, s, log_T, width):
        if n == 0.0:
            return math.inf, 0.0
        return s / n + math.sqrt(width * log_T / n), 0.0

    def check(self) -> None:
        number("width", self.width, above=0)
