"""Beta-like posteriors for any rewards in [0, 1], drawn as normals on the scale x^¼ − (1−x)^¼.

A reward with mean μ in [0, 1] has a variance of at most μ (1−μ) (Bhatia and Davis, 2000); write it as φ μ (1−μ) with a
dispersion φ ≤ 1, which is 1 exactly for rewards of 0 and 1. A posterior with mean m and variance V is turned into a
normal by a monotone map, which changes nothing of which arm is larger but lets a normal have the Beta's skewness:
g(x) = x^¼ − (1−x)^¼, close to the cube roots that would take out the third-order term, but made of square roots alone.
"""

from __future__ import annotations

import math

from posse.rewards import GRID

STEP = 1.0 / GRID
UNIFORM = 1.0 / 12.0  # the variance of the uniform law: players about whom nothing is known


def clip(x, margin):
    """x, but at least `margin` away from 0 and 1."""
    return min(max(x, margin), 1.0 - margin)


def dispersion_sums(n, s, q):
    """What a pair adds above and below the line of φ: its variance, and what it would be for rewards of 0 and 1."""
    if n < 2.0:
        return 0.0, 0.0
    within = s * s / n
    variance = max(q - within, 0.0) / (n - 1.0)
    return n * variance, s - within + variance


def caution(information, log_T):
    """The share of variance that is drawn with, for a posterior worth so many observations.

    Thompson sampling explores until an arm trails by z² = 2 ln T. What is worth it is 2 ln(T/n), n the observations
    that the arm has (Lai, "Adaptive treatment allocation and the multi-armed bandit problem", 1987): the share is
    1 − ln n / ln T. It is not less than 0.3, and n is at least 100, what telling arms apart takes at the least.
    """
    return max(0.3, 1.0 - math.log(max(information, 100.0)) / max(log_T, 1.0))


def posterior(n, s, dispersion, expected, spread, doubt, log_T):
    """Center and scale, from own data and a prior with this expected value and spread, itself in doubt.

    The prior is never more U-shaped than the uniform law: at least φ observations on either side.
    """
    prior = dispersion * (expected * (1.0 - expected) - spread) / spread
    a = max(prior * expected, dispersion)
    b = max(prior * (1.0 - expected), dispersion)
    prior = a + b
    total = n + prior
    each = 1.0 / total
    m = clip((s + a) * each, 1e-6)
    at_most = m * (1.0 - m)
    ratio = prior * each
    variance = dispersion * at_most / (total + dispersion) + ratio * ratio * doubt
    share = caution(dispersion * at_most / variance, log_T)
    variance *= share + (1.0 - share) * (4.0 / (4.0 + n * at_most))  # all of it while the player itself knows little
    return on_fourth_roots(m, at_most, variance)


def on_fourth_roots(m, at_most, variance):
    """The median, about m − (1−2m) V / (3m(1−m)), on the scale of fourth roots, and the standard deviation there."""
    skew = (1.0 - 2.0 * m) * min(variance / at_most, 1.0 / 3.0) / 3.0
    median = min(max(m - skew, m / 3.0), 1.0 - (1.0 - m) / 3.0)
    center = math.sqrt(math.sqrt(median)) - math.sqrt(math.sqrt(1.0 - median))
    low, high = math.sqrt(m), math.sqrt(1.0 - m)
    slope = (math.sqrt(low) * (1.0 - m) + math.sqrt(high) * m) / at_most
    return center, 0.25 * math.sqrt(variance) * slope
