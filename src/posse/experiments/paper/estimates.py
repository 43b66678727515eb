"""The statistics behind verdicts: relative differences with intervals, rules that judge them, and Holm's correction."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from posse.simulation.statistics import student_cdf, student_quantile

MARGIN = 0.05
RARE = 0.01
LEVEL = 0.95


@dataclass(frozen=True)
class DifferenceEstimate:
    """A difference, its standard error and degrees of freedom; with 0 of these, nothing can be concluded."""

    difference: float
    error: float
    freedom: int
    problems: int

    def interval(self) -> tuple[float, float]:
        if self.freedom < 1:
            return -math.inf, math.inf
        half = student_quantile((1 + LEVEL) / 2, self.freedom) * self.error
        return self.difference - half, self.difference + half

    def below(self, limit: float) -> float:
        """The one-sided p-value of "the true difference is below the limit"."""
        distance = self.difference - limit
        if self.freedom < 1:
            return 1.0
        if self.error == 0:
            return 0.0 if distance < 0 else 1.0
        return min(max(student_cdf(distance / self.error, self.freedom), 0.0), 1.0)

    def above(self, limit: float) -> float:
        """The one-sided p-value of "the true difference is above the limit"."""
        return DifferenceEstimate(-self.difference, self.error, self.freedom, self.problems).below(-limit)


@dataclass(frozen=True)
class Rule:
    """A claim that a difference is between two limits. It holds if the interval is there, fails if it is beyond."""

    low: float
    high: float
    holds: str  # where the interval is if the claim holds
    fails: str

    def p_values(self, estimate: DifferenceEstimate) -> tuple[float, float]:
        """The one-sided p-values of the claim and of its opposite."""
        return (
            max(estimate.below(self.high), estimate.above(self.low)),
            min(estimate.above(self.high), estimate.below(self.low)),
        )


RULES = {
    "lower": Rule(-math.inf, 0.0, "below 0", "above 0"),
    "on par": Rule(-MARGIN, MARGIN, "within ± 5 %", "outside ± 5 %"),
    "not worse": Rule(-math.inf, MARGIN, "below + 5 %", "above + 5 %"),
    "rare": Rule(-math.inf, RARE, "below 1 %", "above 1 %"),
}


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: sorted p_(1) ≤ … ≤ p_(m), the j-th becomes max over i ≤ j of min(1, (m − i + 1) p_(i)).

    Holm, "A simple sequentially rejective multiple test procedure" (1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for done, number in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - done) * p_values[number]))
        adjusted[number] = largest
    return adjusted
