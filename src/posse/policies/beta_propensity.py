"""The exact probability that each arm is pulled where indices are Beta draws, by one sweep: docs/propensities.md."""

import math

import numpy as np

from posse.policies.propensity import BACK, WEIGHT

REACH = 9.0  # standard deviations around its mean to which a symmetric density is followed,
TAIL = 12.0  # and so many more for each unit of skewness, on the side of the longer tail
WIDTH = 1.5  # of a panel, in standard deviations of the narrowest density there
ROUGH = 12.0  # below it, x^(a−1) with a fraction in a is too rough at 0 for wide panels; likewise b at 1
NEXT_TO_END = 2.0**-53 - 1.0  # a node that is rounded to 0 or 1 itself has a logarithm that times 0 is no number
EDGE = 1e-13  # the width of the panel at such an end; the next ones double

NODES = np.sort(1.0 - BACK)  # from a panel's start, in widths
ORDER = NODES.size


def _integrals() -> np.ndarray:
    """[j, i]: what the value at node j adds to the integral from the panel's start to node i, in widths."""
    basis = np.polynomial.legendre
    points = 2.0 * NODES - 1.0
    to_node = np.stack([basis.legval(points, basis.legint(row, lbnd=-1)) for row in np.eye(ORDER)], axis=1)
    return np.ascontiguousarray((to_node @ np.linalg.inv(basis.legvander(points, ORDER - 1)) / 2.0).T)


WEIGHTS = WEIGHT[np.argsort(1.0 - BACK)]
INTEGRALS = _integrals()
for _table in (NODES, WEIGHTS, INTEGRALS):
    _table.setflags(write=False)

# What each arm has in `work`, a row for each: its law, where it is followed, F so far, f and F at the nodes.
MEAN, DEVIATION, LOG_TOP, FROM, TO, PASSED = 0, 1, 2, 3, 4, 5
DENSITY, DISTRIBUTION = 6, 6 + ORDER
BETA_SCRATCH = 6 + 2 * ORDER


def fill_beta_propensities(a, b, out, work):
    """Fill `out` with the probability that each arm's Beta(a, b) draw is the largest; `work` is [arm, BETA_SCRATCH]."""
    x = 1.0
    rough_start, rough_end = False, False
    for arm in range(a.size):
        out[arm] = 0.0
        describe(a[arm], b[arm], arm, work)
        x = min(x, work[arm, FROM])
        rough_start |= work[arm, FROM] == 0.0 and is_rough(a[arm])
        rough_end |= work[arm, TO] == 1.0 and is_rough(b[arm])
    while True:
        width = panel_width(x, a.size, work)
        if rough_start:
            width = min(width, max(x, EDGE))
        if rough_end:
            width = min(width, max(0.5 * (1.0 - x), min(EDGE, 1.0 - x)))
        if width <= 0.0:
            break
        for arm in range(a.size):
            follow(a[arm], b[arm], arm, x, width, work)
        for node in range(ORDER):
            product = WEIGHTS[node] * width
            for arm in range(a.size):
                product *= work[arm, DISTRIBUTION + node]
            for arm in range(a.size):
                if work[arm, DISTRIBUTION + node] > 0.0:
                    out[arm] += product * (work[arm, DENSITY + node] / work[arm, DISTRIBUTION + node])
        x += width
    total = 0.0
    for arm in range(a.size):
        total += out[arm]
    for arm in range(a.size):
        out[arm] /= total


def is_rough(exponent):
    """Whether a density is rough at the end of [0, 1] where it vanishes like a power with this exponent, less 1."""
    return exponent < ROUGH and exponent != math.floor(exponent)


def describe(a, b, arm, work):
    """Write down an arm's mean, deviation, the logarithm of its density at the mean, and where it is followed."""
    both = a + b
    mean = a / both
    deviation = math.sqrt(a / both * (b / both) / (both + 1.0))
    skewness = 2.0 * (b - a) / (both + 2.0) * math.sqrt((both + 1.0) / (a * b))
    work[arm, MEAN], work[arm, DEVIATION], work[arm, PASSED] = mean, deviation, 0.0
    work[arm, LOG_TOP] = log_top(a, b)
    work[arm, FROM] = max(mean - deviation * (REACH + TAIL * max(-skewness, 0.0)), 0.0)
    work[arm, TO] = min(mean + deviation * (REACH + TAIL * max(skewness, 0.0)), 1.0)


def log_top(a, b):
    """The logarithm of the density of Beta(a, b) at its mean.

    By Stirling's formula for the three gamma functions; what is large in it cancels before anything is rounded.
    """
    large = 1.5 * math.log(a + b) - 0.5 * math.log(2.0 * math.pi * a * b)
    return large + (stirling_error(a + b) - stirling_error(a) - stirling_error(b))


def stirling_error(x):
    """ln Γ(x) less Stirling's formula, for x >= 1.

    >>> round(stirling_error(20.0), 9)
    0.00416632
    """
    if x < 15.0:
        return math.lgamma(x) - ((x - 0.5) * math.log(x) - x + 0.5 * math.log(2.0 * math.pi))
    square = 1.0 / (x * x)
    return (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / x


def panel_width(x, arms, work):
    """How far the next panel goes: a part of the narrowest density there, and not past the next one's start."""
    width = 2.0
    more = False
    for arm in range(arms):
        if x < work[arm, FROM]:
            width = min(width, work[arm, FROM] - x)
        elif x < work[arm, TO]:
            width = min(width, WIDTH * work[arm, DEVIATION], work[arm, TO] - x)
            more = True
    return width if more or width < 2.0 else 0.0


def follow(a, b, arm, x, width, work):
    """Write an arm's density and distribution function at the nodes of a panel."""
    if x < work[arm, FROM] or x >= work[arm, TO]:
        for node in range(ORDER):
            work[arm, DENSITY + node] = 0.0
            work[arm, DISTRIBUTION + node] = 0.0 if x < work[arm, FROM] else 1.0
        return
    mean, passed = work[arm, MEAN], work[arm, PASSED]
    for node in range(ORDER):
        ahead = x + width * NODES[node] - mean
        low, high = max(ahead / mean, NEXT_TO_END), max(-ahead / (1.0 - mean), NEXT_TO_END)
        exponent = (a - 1.0) * math.log1p(low) + (b - 1.0) * math.log1p(high)
        work[arm, DENSITY + node] = math.exp(work[arm, LOG_TOP] + exponent)
    for node in range(ORDER):
        work[arm, DISTRIBUTION + node] = 0.0
    for other in range(ORDER):
        density = work[arm, DENSITY + other]
        for node in range(ORDER):
            work[arm, DISTRIBUTION + node] += INTEGRALS[other, node] * density
    for node in range(ORDER):
        work[arm, DISTRIBUTION + node] = min(max(passed + width * work[arm, DISTRIBUTION + node], 0.0), 1.0)
    for node in range(ORDER):
        work[arm, PASSED] += width * WEIGHTS[node] * work[arm, DENSITY + node]
