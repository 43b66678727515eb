"""Ind-TS: Thompson sampling for each player alone."""

import math
from dataclasses import dataclass
from typing import Self

from posse.checks import number
from posse.policies.base import Look, Policy


@dataclass(frozen=True)
class IndTS(Policy):
    """Gaussian Thompson sampling on the player's own data: N(s/(n∨1), c2/(n∨1)).

    The baseline of Wang, Zhang and Chaudhuri (2022), Section 2.3, after Agrawal and Goyal (2017). ε is not used.

    >>> IndTS().index(n=4.0, s=3.0, c2=1.0)
    (0.75, 0.5)
    """

    c2: float = 1.0

    name = "Ind-TS"
    shares = False
    look = Look("#009E73", (0, (6, 1.5, 1.5, 1.5)), "^", "----")

    @staticmethod
    def index(n, s, c2):
        pulls = max(n, 1.0)
        return s / pulls, math.sqrt(c2 / pulls)

    def check(self) -> None:
        number("c2", self.c2, above=0)

    @classmethod
    def theory(cls, epsilon: float = 0.0) -> Self:
        """The constant of the analysis, c2 = 4; ε is not used."""
        return cls(c2=4.0)
