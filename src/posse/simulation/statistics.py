"""The little statistics that comparing runs needs, without SciPy."""

import functools
import math
from dataclasses import dataclass

import numpy as np

from posse.checks import number


@dataclass(frozen=True)
class Difference:
    """A mean paired difference with its confidence interval."""

    mean: float
    low: float
    high: float
    level: float
    units: int
    """How many independent pairs it rests on."""

    def __str__(self) -> str:
        if self.units < 2:
            return f"{self.mean:+.4g} (one run: no interval; raise replications)"
        return f"{self.mean:+.4g} [{self.low:.4g}, {self.high:.4g}] ({100 * self.level:.4g}%, {self.units} pairs)"


def paired_difference(differences: np.ndarray, level: float = 0.95) -> Difference:
    """The mean of paired differences with Student's t interval.

    >>> print(paired_difference(np.array([1.0, 2.0, 3.0])))
    +2 [-0.4841, 4.484] (95%, 3 pairs)
    """
    units = len(differences)
    width = interval_width(level, units)
    mean = float(np.mean(differences))
    if units < 2:
        return Difference(mean, -math.inf, math.inf, level, units)
    half = width * float(np.std(differences, ddof=1))
    return Difference(mean, mean - half, mean + half, level, units)


def ratio_terms(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Terms whose mean is the ratio R of two means, and whose Student's t interval is that ratio's.

    The units of both arrays are paired. The terms are R + (above − R · below) / mean(below), the delta method: so the
    interval allows for the lower mean being an estimate too. `ratio_terms(b − a, a)` is for the difference of b to a
    relative to a's mean.

    >>> print(paired_difference(ratio_terms(np.array([2.0, 3.0, 7.0]), np.array([1.0, 2.0, 3.0]))))
    +2 [0.7579, 3.242] (95%, 3 pairs)
    """
    mean = float(np.mean(below))
    ratio = float(np.mean(above)) / mean
    return np.asarray(ratio + (above - ratio * below) / mean)


def interval_width(level: float, units: int) -> float:
    """Half the width of Student's t interval for a mean of so many units, in their standard deviations.

    >>> round(interval_width(0.95, 3), 3)
    2.484
    """
    level = number("level", level, above=0, most=1)
    if level == 1:
        raise ValueError("level=1, but no interval holds with certainty; expected a number below 1")
    return student_quantile((1 + level) / 2, units - 1) / math.sqrt(units) if units > 1 else math.inf


@functools.cache
def student_quantile(p: float, freedom: int) -> float:
    """The quantile of Student's t for p > 1/2, by bisection on its distribution function.

    >>> round(student_quantile(0.975, 29), 4)
    2.0452
    """
    low, high = 0.0, 1.0
    while student_cdf(high, freedom) < p:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, freedom) < p else (low, middle)
    return (low + high) / 2


def student_cdf(t: float, freedom: int) -> float:
    """Student's t distribution function for whole degrees of freedom, by its finite series.

    Abramowitz and Stegun, 26.7.3 and 26.7.4, with θ = arctan(t / √ν).
    """
    theta = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(theta)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    area = 2 / math.pi * (theta + math.sin(theta) * total) if odd else math.sin(theta) * total
    return 0.5 + area / 2
