"""The exact probability that each arm is pulled where indices are Beta draws, by one sweep: docs/propensities.md.

The sweep goes from high to low x, so that it can end where no arm can lie below any more. Loops over the nodes of a
panel are plain arithmetic on numbers side by side, so that they vectorize.
"""

import math

import numpy as np

from posse.policies.propensity import BACK, NARROWING, WEIGHT, WIDEST

REACH = 9.0  # standard deviations around its mean to which a symmetric density is followed,
TAIL = 12.0  # and so many more for each unit of skewness, on the side of the longer tail
WIDTH = 2.0  # of a panel, in standard deviations of the narrowest density there; less for many like arms
ROUGH = 12.0  # below it, x^(a−1) with a fraction in a is too rough at 0 for wide panels; likewise b at 1
NEXT_TO_END = 2.0**-53 - 1.0  # a node that is rounded to 0 or 1 itself has a logarithm that times 0 is no number
NEGLIGIBLE = 1e-15  # the probability of what is left out at the lower end of the sweep
AT_EDGE = 1e-14  # the most probability of a density in the panel at such an end, if it is not
NARROWEST = 1e-13  # as narrow as this, which next to 1 has few digits already; the next panels double,
COARSE = 1e-5  # or are four times as wide, as long as they are so narrow beside those in the middle

NODES = np.sort(1.0 - BACK)  # down from a panel's upper end, in widths
ORDER = NODES.size
OFFSETS = 1.0 - 2.0 * NODES  # from a panel's middle, in half widths


def _integrals() -> np.ndarray:
    """[j, i]: what the value at node j adds to the integral from the panel's upper end to node i, in widths."""
    basis = np.polynomial.legendre
    points = 2.0 * NODES - 1.0
    to_node = np.stack([basis.legval(points, basis.legint(row, lbnd=-1)) for row in np.eye(ORDER)], axis=1)
    return np.ascontiguousarray((to_node @ np.linalg.inv(basis.legvander(points, ORDER - 1)) / 2.0).T)


WEIGHTS = WEIGHT[np.argsort(1.0 - BACK)]
INTEGRALS = _integrals()
for _table in (NODES, OFFSETS, WEIGHTS, INTEGRALS):
    _table.setflags(write=False)

# What each arm that is followed has in `work`, a row for each: which arm it is, its law, up to where it is followed,
# and the probability above x. At the nodes: its density, its distribution function, the product of those of the arms
# before it, and what its probability is made of.
ARM, A, B, MEAN, REST, DEVIATION, TOP, TO, ABOVE = range(9)
DENSITY, BELOW, BEFORE, GAIN = (9 + place * ORDER for place in range(4))
# What all arms have in common at the nodes, in the first row: logarithms of x and of 1 − x, as in the panel's middle
# less those there; the product of distribution functions.
LOG, LOG_REST, PRODUCT = (9 + place * ORDER for place in range(4, 7))
BETA_SCRATCH = 9 + 7 * ORDER


def fill_beta_propensities(a, b, out, work):
    """Fill `out` with the probability that each arm's Beta(a, b) draw is the largest; `work` is [arm, BETA_SCRATCH]."""
    lowest = 0.0
    for arm in range(a.size):
        out[arm] = 0.0
        start, _ = ends_of(a[arm], b[arm])
        lowest = max(lowest, start)
    count, x, low_edge, high_edge = 0, 0.0, 1.0, 1.0
    for arm in range(a.size):
        start, end = ends_of(a[arm], b[arm])
        if end > lowest:
            describe(a[arm], b[arm], end, arm, count, work)
            x = max(x, end)
            if start == 0.0 and is_rough(a[arm]):
                low_edge = min(low_edge, edge_of(a[arm], b[arm]))
            if end == 1.0 and is_rough(b[arm]):
                high_edge = min(high_edge, edge_of(b[arm], a[arm]))
            count += 1
    below = 1.0
    while x > lowest and below > NEGLIGIBLE and count > 1:
        width = min(panel_width(x, count, work), x)
        coarse = COARSE * width
        if x > low_edge:
            width = min(width, (0.75 if x < coarse else 0.5) * x)
        if high_edge < 1.0:
            width = min(width, max((3.0 if 1.0 - x < coarse else 1.0) * (1.0 - x), high_edge))
        middle = x - 0.5 * width
        half = x - middle  # rounded as the middle is, so that the next panel begins where this one ends
        below = integrate(middle, half, count, work)
        x = middle - half
    if count == 1:
        out[int(work[0, ARM])] = 1.0
        return
    total = 0.0
    for i in range(count):
        gain = 0.0
        for node in range(ORDER):
            gain += work[i, GAIN + node]
        out[int(work[i, ARM])] = gain
        total += gain
    for arm in range(a.size):
        out[arm] /= total


def is_rough(exponent):
    """Whether a density is rough at the end of [0, 1] where it vanishes like a power with this exponent, less 1."""
    return exponent < ROUGH and exponent != math.floor(exponent)


def edge_of(a, b):
    """How close to 0 next to nothing of a Beta law is left; with a and b exchanged, how close to 1.

    Below w there is at most w^a (a + b)^a / Γ(a + 1), and Γ(a + 1) is more than (a / e)^a.
    """
    return max(AT_EDGE ** (1.0 / a) * a / (math.e * (a + b)), NARROWEST)


def ends_of(a, b):
    """From where to where a Beta law is followed."""
    both = a + b
    mean = a / both
    deviation = math.sqrt(mean * (b / both) / (both + 1.0))
    skewness = 2.0 * (b - a) / (both + 2.0) * math.sqrt((both + 1.0) / (a * b))
    start = mean - deviation * (REACH + TAIL * max(-skewness, 0.0))
    end = mean + deviation * (REACH + TAIL * max(skewness, 0.0))
    return max(start, 0.0), min(end, 1.0)


def describe(a, b, end, arm, i, work):
    """Write down an arm that is followed."""
    both = a + b
    mean = a / both
    work[i, ARM], work[i, A], work[i, B], work[i, TO], work[i, ABOVE] = arm, a, b, end, 0.0
    work[i, MEAN], work[i, REST] = mean, b / both
    work[i, DEVIATION] = math.sqrt(mean * (b / both) / (both + 1.0))
    work[i, TOP] = math.exp(log_top(a, b))
    for node in range(ORDER):
        work[i, GAIN + node] = 0.0


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


def panel_width(x, count, work):
    """How far down the next panel goes: a part of the narrowest density there, less where many are alike.

    It may go so far past the end of a density that it does not meet yet, because there is next to nothing of it.
    """
    narrowest, most = math.inf, math.inf
    for i in range(count):
        if x <= work[i, TO]:
            narrowest = min(narrowest, work[i, DEVIATION])
        else:
            most = min(most, x - work[i, TO] + WIDTH * work[i, DEVIATION])
    alike = 0.0
    for i in range(count):
        if x <= work[i, TO]:
            ratio = narrowest / work[i, DEVIATION]
            alike += ratio * ratio
    return min(most, narrowest * min(WIDTH, WIDEST / (1.0 + NARROWING * math.log(alike))))


def integrate(middle, half, count, work):
    """Add a panel, half as wide, to the probability of each arm that it meets; return Π F at its lower end."""
    end, width = middle - half, 2.0 * half
    fill_logs(half / middle, half / (1.0 - middle), work)
    for node in range(ORDER):
        work[0, PRODUCT + node] = WEIGHTS[node] * width
    below = 1.0
    for i in range(count):
        if work[i, TO] > end:
            below *= follow(i, middle, width, work)
            for node in range(ORDER):
                work[i, BEFORE + node] = work[0, PRODUCT + node]
                work[0, PRODUCT + node] *= work[i, BELOW + node]
    for node in range(ORDER):
        work[0, PRODUCT + node] = 1.0
    for i in range(count - 1, -1, -1):
        if work[i, TO] > end:
            for node in range(ORDER):
                others = work[i, BEFORE + node] * work[0, PRODUCT + node]
                work[i, GAIN + node] += work[i, DENSITY + node] * others
                work[0, PRODUCT + node] *= work[i, BELOW + node]
    return below


SERIES_REACH = 0.3


def fill_logs(part, part_of_rest, work):
    """ln x and ln(1 − x) at the nodes, less those in the panel's middle.

    Half the panel's width is such a part of the middle, and of what is left of 1 above that.
    """
    if max(part, part_of_rest) < SERIES_REACH:
        for node in range(ORDER):
            work[0, LOG + node] = log_near_one(part * OFFSETS[node])
        for node in range(ORDER):
            work[0, LOG_REST + node] = log_near_one(-part_of_rest * OFFSETS[node])
    else:
        for node in range(ORDER):
            work[0, LOG + node] = math.log1p(max(part * OFFSETS[node], NEXT_TO_END))
            work[0, LOG_REST + node] = math.log1p(max(-part_of_rest * OFFSETS[node], NEXT_TO_END))


def log_near_one(x):
    """ln(1 + x) for |x| < 0.3: twice the series of artanh(x / (2 + x)).

    >>> abs(log_near_one(0.29) - math.log1p(0.29)) < 1e-16, abs(log_near_one(-0.29) - math.log1p(-0.29)) < 1e-16
    (True, True)
    """
    s = x / (2.0 + x)
    q = s * s
    series = 1 / 11 + q * (1 / 13 + q * (1 / 15 + q * (1 / 17 + q * (1 / 19 + q * (1 / 21)))))
    return 2.0 * s * (1.0 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * series)))))


FARTHEST = 64.0  # below e^−64 of its value at the mean, a density counts as that


def exp_of(x):
    """e^x for −64 ≤ x ≤ 2, right to 1e-15 or, above 1, to 15 digits: the 128th power of e^(x/128), by its series.

    1 is left out until the end, so that what the squares round is small.

    >>> max(abs(exp_of(x) - math.exp(x)) for x in (-64.0, -20.0, -3.0, -0.1, 0.0, 0.1, 1.0)) < 2e-15
    True
    """
    y = x * (1 / 128)
    high = 1 / 120 + y * (1 / 720 + y * (1 / 5040 + y * (1 / 40320 + y * (1 / 362880))))
    less = y * (1.0 + y * (1 / 2 + y * (1 / 6 + y * (1 / 24 + y * high))))
    for _ in range(7):
        less *= 2.0 + less
    return max(1.0 + less, 0.0)


def follow(i, middle, width, work):
    """Write an arm's density and distribution function at the nodes of a panel; return the latter at its lower end."""
    a, b, mean, top, above = work[i, A] - 1.0, work[i, B] - 1.0, work[i, MEAN], work[i, TOP], work[i, ABOVE]
    rest = work[i, REST]
    ahead = middle - mean if mean < rest else rest - (1.0 - middle)  # by what is small and so has more digits
    low, high = max(ahead / mean, NEXT_TO_END), max(-ahead / rest, NEXT_TO_END)
    at_middle = a * math.log1p(low) + b * math.log1p(high)
    for node in range(ORDER):
        exponent = at_middle + (a * work[0, LOG + node] + b * work[0, LOG_REST + node])
        work[i, DENSITY + node] = top * exp_of(max(exponent, -FARTHEST))
        work[i, BELOW + node] = 0.0
    whole = 0.0
    for other in range(ORDER):
        density = work[i, DENSITY + other]
        whole += WEIGHTS[other] * density
        for node in range(ORDER):
            work[i, BELOW + node] += INTEGRALS[other, node] * density
    for node in range(ORDER):
        work[i, BELOW + node] = min(max(1.0 - above - width * work[i, BELOW + node], 0.0), 1.0)
    work[i, ABOVE] = above + width * whole
    return min(max(1.0 - work[i, ABOVE], 0.0), 1.0)
