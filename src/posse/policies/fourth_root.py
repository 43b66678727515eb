"""Beta-like posteriors for any rewards in [0, 1], drawn as normals on the scale x^¼ − (1−x)^¼: docs/posse-ts.md.

A reward with mean μ in [0, 1] has a variance of at most μ (1−μ) (Bhatia and Davis, 2000); write it as φ μ (1−μ) with a
dispersion φ ≤ 1, which is 1 exactly for rewards of 0 and 1. On this scale, close to cube roots but made of square roots
alone, a normal has nearly the Beta's skewness.
"""

import math

import numpy as np

UNIFORM = 1.0 / 12.0  # the variance of the uniform law: players about whom nothing is known


def clip(x, margin):
    """x, but at least `margin` away from 0 and 1."""
    return min(max(x, margin), 1.0 - margin)


def dispersion_sums(n, s, q):
    """What a pair adds to the numerator and the denominator of φ: its variance, and that of 0/1 rewards of its mean."""
    if n < 2.0:
        return 0.0, 0.0
    within = s * s / n
    variance = max(q - within, 0.0) / (n - 1.0)
    return n * variance, s - within + variance


BONUS, CHANCE = 0.6, 0.3  # exploration: so much of the boundary for sure, and so many deviations by chance


def boundary(information, log_T):
    """How far behind an arm may be, in standard deviations, and still be worth a pull; `information` is in pulls.

    That is the answer for one unknown arm beside a known one with T pulls to come. It has no closed form; solved
    numerically it is this within 3 % where T is ten times the information and more, and it tends to
    √(2 ln T/n), as Lai's boundary does ("Adaptive treatment allocation and the multi-armed bandit problem", 1987).
    """
    L = log_T - math.log(max(information, 1.0)) - 3.0
    return math.sqrt(L + math.sqrt(L * L + 5.0))


def posterior(n, s, dispersion, expected, prior_variance):
    """What is believed, from own data and a prior with this expected value and variance.

    Returns center and scale on the scale of fourth roots, and what `explore` needs beside them: n m (1−m), and how many
    pulls the posterior is worth. The prior is worth at least what the uniform law is worth: 2 φ observations.
    """
    prior = max(dispersion * (expected * (1.0 - expected) - prior_variance) / prior_variance, 2.0 * dispersion)
    total = n + prior
    m = clip((s + prior * expected) * (1.0 / total), 1e-6)
    at_most = m * (1.0 - m)
    variance = dispersion * at_most / (total + dispersion)
    center, scale = on_fourth_roots(m, at_most, variance)
    return center, scale, n * at_most, dispersion * at_most / variance


def explore(center, scale, seen, information, log_T):
    """Center and scale to draw with: the whole posterior while an arm is hardly tried, later its upper part.

    Thompson sampling always draws from the whole posterior, and half of those draws fall below the center, where they
    change nothing. A fixed bonus plus a smaller random part explores as far with less luck. `seen` is n m (1−m), which
    must be large beside z² for a normal to be right as far out as z deviations.
    """
    reach = boundary(information, log_T)
    tried = seen / (seen + 0.125 * reach * reach)
    return center + tried * BONUS * reach * scale, scale * math.sqrt(1.0 - tried * (1.0 - CHANCE * CHANCE))


_MEANS = np.sin(np.linspace(0, np.pi / 2, 4001)) ** 2  # from 0 to 1, closest at the ends, where the roots are steep
_ROOTS = _MEANS**0.25 - (1 - _MEANS) ** 0.25


def mean_of(values: np.ndarray) -> np.ndarray:
    """The x in [0, 1] with x^¼ − (1−x)^¼ of each value, interpolated."""
    return np.interp(values, _ROOTS, _MEANS)


def on_fourth_roots(m, at_most, variance):
    """The median, about m − (1−2m) V / (3m(1−m)), on the scale of fourth roots, and the standard deviation there."""
    skew = (1.0 - 2.0 * m) * min(variance / at_most, 1.0 / 3.0) / 3.0
    median = min(max(m - skew, m / 3.0), 1.0 - (1.0 - m) / 3.0)
    center = math.sqrt(math.sqrt(median)) - math.sqrt(math.sqrt(1.0 - median))
    low, high = math.sqrt(m), math.sqrt(1.0 - m)
    slope = (math.sqrt(low) * (1.0 - m) + math.sqrt(high) * m) / at_most
    return center, 0.25 * math.sqrt(variance) * slope
