"""The exact probability that each arm is pulled: that its normal index is the largest.

One sweep over x, from low to high, gives p_k = ∫ f_k(x) Π_{j ≠ k} F_j(x) dx for all arms at once. An arm is followed by
z = (x − center) / scale; x itself is never formed. docs/propensities.md has the method and how exact it is.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

REACH = 8.0  # standard deviations to follow an arm; a power of two, so that REACH * scale is exact
WIDEST = 4.0  # width of a panel for one arm, in its standard deviations;
NARROWING = 0.4  # for m like arms it is divided by 1 + 0.4 ln m
NEGLIGIBLE = 1e-13  # the probability of what is left out at either end of the sweep

# Gauss-Legendre quadrature of order 16: the positive nodes on [-1, 1] and their weights, which sum to 1.
GAUSS = (
    (0.9894009349916499326, 0.027152459411754094852),
    (0.94457502307323257608, 0.062253523938647892863),
    (0.86563120238783174388, 0.09515851168249278481),
    (0.7554044083550030339, 0.12462897125553387205),
    (0.61787624440264374845, 0.14959598881657673208),
    (0.45801677765722738634, 0.16915651939500253819),
    (0.28160355077925891323, 0.18260341504492358887),
    (0.095012509837637440185, 0.18945061045506849629),
)
BACK = np.array([0.5 + side * node / 2 for node, _ in GAUSS for side in (-1, 1)])  # from a panel's end, in widths
WEIGHT = np.array([weight / 2 for _, weight in GAUSS for _ in (-1, 1)])

# Φ by its Taylor series about the nearest multiple of 1/8, up to z⁹: error below 3e-14, that of φ below 2e-12.
DEGREE = 9
ROWS_PER_UNIT = 8
FARTHEST = REACH + WIDEST


def _taylor_rows() -> np.ndarray:
    """The coefficients of Φ about each point: φ⁽ⁿ⁾ = (−1)ⁿ Heₙ φ, with Hermite polynomials by their recursion."""
    points = np.arange(-FARTHEST, FARTHEST + 1 / ROWS_PER_UNIT, 1 / ROWS_PER_UNIT)
    rows = np.empty((points.size, DEGREE + 1))
    rows[:, 0] = [0.5 * math.erfc(-point / math.sqrt(2.0)) for point in points]
    rows[:, 1] = [math.exp(-0.5 * point * point) / math.sqrt(2.0 * math.pi) for point in points]
    rows[:, 2] = -0.5 * points * rows[:, 1]
    for n in range(2, DEGREE):
        rows[:, n + 1] = -(points * rows[:, n] + (n - 1) / n * rows[:, n - 1]) / (n + 1)
    return rows


TAYLOR = _taylor_rows()
for _table in (BACK, WEIGHT, TAYLOR):
    _table.setflags(write=False)

# What each arm that is followed has in `work`, a row for each: the nodes side by side, so that their loops vectorize.
ORDER = BACK.size
ARM, PLACE, PACE = 0, 1, 2  # which arm it is; its z; how far z moves in a panel
BELOW, RATIO = 3, 3 + ORDER  # Φ(z) and φ(z) / Φ(z) at the nodes
SCRATCH = 3 + 2 * ORDER


def fill_propensities(center, scale, out, work):
    """Fill `out` with the probability that each arm's index is the largest; `work` is scratch, [arm, SCRATCH].

    Centers are finite or +inf, scales finite and not negative, none beyond 1e300. The lowest arm with center +inf
    wins surely. Of the arms with scale 0 only the one with the largest center can win, the lowest in a tie.
    """
    for arm in range(center.size):
        out[arm] = 0.0
    for arm in range(center.size):
        if center[arm] == math.inf:
            out[arm] = 1.0
            return
    first = highest_start(center, scale)
    count, below = follow(center, scale, first, work)
    if scale[first] == 0.0:
        out[first] = below
    while count > 0:
        below, pairs = advance(scale, count, work)
        if below > NEGLIGIBLE:
            integrate(count, out, work)
        if pairs < NEGLIGIBLE:
            for i in range(count):
                out[int(work[i, ARM])] += normal_law(-work[i, PLACE])[0]
            break
        count = drop_passed(count, work)
    total = 0.0
    for arm in range(center.size):
        total += out[arm]
    for arm in range(center.size):
        out[arm] /= total


def highest_start(center, scale):
    """The arm with the largest center − 8 scale, by differences, which lose nothing where centers are close."""
    first = 0
    for arm in range(1, center.size):
        if (center[first] - center[arm]) - REACH * scale[first] < -REACH * scale[arm]:
            first = arm
    return first


def follow(center, scale, first, work):
    """List the arms to follow, with their places where the sweep starts; count them, and give Π F there."""
    count = 0
    below = 1.0
    for arm in range(center.size):
        ahead = (center[first] - center[arm]) - REACH * scale[first]  # of the arm's center
        if scale[arm] > 0.0 and ahead < REACH * scale[arm]:
            # Less than −8 scales is rounding, at the foot of an arm so much wider that nothing here matters.
            place = max(ahead, -REACH * scale[arm]) / scale[arm]
            work[count, ARM] = arm
            work[count, PLACE] = place
            below *= normal_law(place)[0]
            count += 1
    return count, below


def advance(scale, count, work):
    """Move all arms to the end of the next panel; give Π F there and a bound on the probability of two arms above."""
    narrowest = math.inf
    for i in range(count):
        narrowest = min(narrowest, scale[int(work[i, ARM])])
    alike = 0.0
    for i in range(count):
        pace = narrowest / scale[int(work[i, ARM])]
        work[i, PACE] = pace
        alike += pace * pace
    width = WIDEST / (1.0 + NARROWING * math.log(alike))
    below = 1.0
    above = 0.0
    pairs = 0.0
    for i in range(count):
        work[i, PACE] *= width
        work[i, PLACE] += work[i, PACE]
        tail = normal_law(-work[i, PLACE])[0]
        below *= 1.0 - tail
        pairs += tail * above
        above += tail
    return below, pairs


def integrate(count, out, work):
    """Add the panel that ends at the arms' places to each arm's probability.

    Π_{j ≠ k} F_j is Π F / F_k: no F is below Φ(−8), so that the quotient loses nothing.
    """
    for i in range(count):
        place, pace = work[i, PLACE], work[i, PACE]
        for node in range(ORDER):
            below, density = normal_law(place - pace * BACK[node])
            work[i, BELOW + node] = below
            work[i, RATIO + node] = density / below
    for node in range(ORDER):
        product = WEIGHT[node]
        for i in range(count):
            product *= work[i, BELOW + node]
        work[0, BELOW + node] = product
    for i in range(count):
        gain = 0.0
        for node in range(ORDER):
            gain += work[0, BELOW + node] * work[i, RATIO + node]
        out[int(work[i, ARM])] += gain * work[i, PACE]


def drop_passed(count, work):
    """Keep the arms that can still have the largest index; return how many."""
    kept = 0
    for i in range(count):
        if work[i, PLACE] < REACH:
            work[kept, ARM] = work[i, ARM]
            work[kept, PLACE] = work[i, PLACE]
            kept += 1
    return kept


def normal_law(z):
    """Φ(z) and φ(z) for −12 ≤ z ≤ 12.

    >>> below, density = normal_law(1.0)
    >>> print(f"{below:.12f} {density:.12f}")
    0.841344746069 0.241970724519
    """
    row = int((z + FARTHEST) * ROWS_PER_UNIT + 0.5) & 255  # the mask changes nothing, but rules out negative rows
    step = z - (row / ROWS_PER_UNIT - FARTHEST)
    below = TAYLOR[row, DEGREE]
    density = 0.0
    for power in range(DEGREE - 1, -1, -1):
        density = density * step + below
        below = below * step + TAYLOR[row, power]
    return below, density


def draw(probabilities, u):
    """The arm for a uniform u in [0, 1): arm k with its probability, and never one whose probability is 0.

    >>> [draw(np.array([0.0, 0.25, 0.75, 0.0]), u) for u in (0.0, 0.2, 0.3, 1 - 2**-53)]
    [1, 1, 2, 2]
    """
    below = 0.0
    last = 0  # the arm for a u above a sum that rounding left short of 1
    for arm in range(probabilities.size):
        if probabilities[arm] > 0.0:
            below += probabilities[arm]
            last = arm
            if u < below:
                return arm
    return last


LARGEST = 1e300  # of centers and scales: a margin to the largest double, for sums and multiples of them


def propensities(center: Any, scale: Any) -> np.ndarray:
    """The probability that each arm's index is the largest, for independent indices N(center, scale²).

    Each is right to 1e-10, and they sum to 1. A scale of 0 is an index that is not random. As in the simulator, the
    lowest arm wins a tie; an arm with center +inf is pulled before all others.

    >>> propensities([0.5, 0.4, 0.1], [0.1, 0.1, 0.2]).round(4)
    array([0.7416, 0.2316, 0.0268])
    """
    centers = _vector("center", center)
    scales = _vector("scale", scale)
    if centers.size != scales.size:
        raise ValueError(f"{centers.size} centers and {scales.size} scales, but expected one of each for every arm")
    _refuse("center", centers, (np.abs(centers) <= LARGEST) | (centers == math.inf), "a number up to 1e300, or +inf")
    _refuse("scale", scales, (scales >= 0) & (scales <= LARGEST), "a number in [0, 1e300]")
    out = np.empty(centers.size)
    _compiled()(centers, scales, out, np.empty((centers.size, SCRATCH)))
    return out


@functools.cache
def _compiled() -> Callable[..., None]:
    from posse.compile import bind

    return bind(fill_propensities)


def _vector(name: str, values: Any) -> np.ndarray:
    given = np.asarray(values)
    if given.ndim != 1 or given.size == 0:
        raise ValueError(f"{name} has shape {given.shape}, but expected one number for each arm")
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name} is of type {given.dtype}, but expected real numbers")
    return np.array(given, np.float64)  # a copy: contiguous and writable, the one kind that the kernel is compiled for


def _refuse(name: str, values: np.ndarray, good: np.ndarray, expected: str) -> None:
    if not good.all():
        arm = int(np.argmin(good))
        raise ValueError(f"{name}[{arm}]={values[arm]:g}, but expected {expected}")
