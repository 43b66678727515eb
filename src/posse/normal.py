"""Exact normal draws from random words, and the bounds that make most of them unnecessary.

A draw is the normal quantile of a 64-bit uniform: it reaches 9.1 standard deviations. The quantile is
Wichura's algorithm AS 241 (Applied Statistics 37, 1988), relative error about 1e-16; the coefficients of its three
quotients, numerator and denominator, are below, highest power first.

Often the first 16 bits settle a comparison. `bounds_of(half)` bounds the draw from below and above in single precision,
by arithmetic that the compiler vectorises. `LOW[bin_of(half)]` and `HIGH[bin_of(half)]` do so in double precision by
table; rounding is monotone, so `center + scale * bound` bounds the computed index too, exactly.
"""

import math

import numpy as np

from posse.compile import fused

MIDDLE = (
    (2.5090809287301226727e3, 5.2264952788528545610e3),
    (3.3430575583588128105e4, 2.8729085735721942674e4),
    (6.7265770927008700853e4, 3.9307895800092710610e4),
    (4.5921953931549871457e4, 2.1213794301586595867e4),
    (1.3731693765509461125e4, 5.3941960214247511077e3),
    (1.9715909503065514427e3, 6.8718700749205790830e2),
    (1.3314166789178437745e2, 4.2313330701600911252e1),
    (3.3871328727963666080e0, 1.0),
)
TAIL = (
    (7.74545014278341407640e-4, 1.05075007164441684324e-9),
    (2.27238449892691845833e-2, 5.47593808499534494600e-4),
    (2.41780725177450611770e-1, 1.51986665636164571966e-2),
    (1.27045825245236838258e0, 1.48103976427480074590e-1),
    (3.64784832476320460504e0, 6.89767334985100004550e-1),
    (5.76949722146069140550e0, 1.67638483018380384940e0),
    (4.63033784615654529590e0, 2.05319162663775882187e0),
    (1.42343711074968357734e0, 1.0),
)
FAR = (
    (2.01033439929228813265e-7, 2.04426310338993978564e-15),
    (2.71155556874348757815e-5, 1.42151175831644588870e-7),
    (1.24266094738807843860e-3, 1.84631831751005468180e-5),
    (2.65321895265761230930e-2, 7.86869131145613259100e-4),
    (2.96560571828504891230e-1, 1.48753612908506148525e-2),
    (1.78482653991729133580e0, 1.36929880922735805310e-1),
    (5.46378491116411436990e0, 5.99832206555887937690e-1),
    (6.65790464350110377720e0, 1.0),
)


def ratio(coefficients, r):
    """The quotient of two polynomials at r."""
    above = below = 0.0
    for numerator, denominator in coefficients:
        above = above * r + numerator
        below = below * r + denominator
    return above / below


def lower_quantile(p):
    """The normal quantile of p for 0 < p <= 1/2, at most 0.

    >>> round(lower_quantile(0.025), 6)
    -1.959964
    """
    q = p - 0.5
    if q >= -0.425:
        return q * ratio(MIDDLE, 0.180625 - q * q)
    r = math.sqrt(-math.log(p))
    if r <= 5.0:
        return -ratio(TAIL, r - 1.6)
    return -ratio(FAR, r - 5.0)


def normal(half, middle, last):
    """The standard normal draw of 64 random bits: 16 in `half`, 32 in `middle` and the upper 16 of `last`.

    It is the quantile of (bits + ½) / 2⁶⁴, symmetric by construction, so that the upper tail is as exact as the lower.
    """
    below = half < 0x8000
    high, middle, low = half, middle, last >> 16
    if not below:
        high, middle, low = 0xFFFF - half, 0xFFFFFFFF - middle, 0xFFFF - low
    quantile = lower_quantile((high * 2.0**48 + middle * 65536.0 + low + 0.5) * 2.0**-64)
    return quantile if below else -quantile


ONE, TO_UNIT, TO_MIDDLE = np.float32(1.0), np.float32(2.0**-15), np.float32(1.0 - 2.0**-16)
LOGARITHM = np.float32(3.047759), np.float32(-1.051814), np.float32(0.1582404)
QUANTILE = tuple(map(np.float32, (1.768145, 0.2452326, 0.0005838885, -0.0008976334, 5.072852e-05)))
MARGIN = np.float32(2.5e-4), np.float32(1.6e-5), np.float32(4e-9)
FRACTION, FRACTION_BITS = np.int32(0x7FFFFF), np.int32(23)  # where a float keeps its fraction
EXPONENT_0, BITS_OF_1, TWICE_BITS_OF_1 = np.int32(127), np.int32(0x3F800000), np.int32(0x7F000000)


@fused
def bounds_of(half):
    """A lower and an upper bound of a draw whose first 16 bits these are.

    They are z ∓ d. For a uniform number u let q = 2u − 1 and y = 1 − q². Then z = q · P(w) with a polynomial P of
    w ≈ −log₂ y − 2.15 is the quantile of u to about 10⁻⁴. d covers that error and all draws that begin with these 16
    bits: it is a polynomial of r >= 1/y, small in the middle, and reaches 9.2 standard deviations in the last cells.
    The logarithm and r come from the bits of y. 10⁻⁵ are left for the rounding of what is computed with the bounds.
    """
    q = np.float32(half) * TO_UNIT - TO_MIDDLE
    y = ONE - q * q
    bits = np.float32(y).view(np.int32)
    m = np.int32(bits & FRACTION | BITS_OF_1).view(np.float32)
    w = np.float32(np.int32(EXPONENT_0 - (bits >> FRACTION_BITS)))
    w -= m * (LOGARITHM[0] + m * (LOGARITHM[1] + m * LOGARITHM[2]))
    z = q * (QUANTILE[0] + w * (QUANTILE[1] + w * (QUANTILE[2] + w * (QUANTILE[3] + w * QUANTILE[4]))))
    r = np.int32(TWICE_BITS_OF_1 - bits).view(np.float32)
    d = MARGIN[0] + r * (MARGIN[1] + r * MARGIN[2])
    return z - d, z + d


BINS = 1024


def bin_of(half):
    """The table row of a draw whose first 16 bits these are."""
    return (half >> 6) & 1023  # the mask changes nothing, but tells the compiler that the row is not negative


_SLACK = 1e-12  # a thousand times the quantile's own error


_HALF = [normal(0, 0, 0)] + [lower_quantile(k / BINS) for k in range(1, BINS // 2 + 1)]
_EDGES = np.array(_HALF + [-edge for edge in reversed(_HALF[:-1])])
LOW = _EDGES[:-1] - _SLACK
HIGH = _EDGES[1:] + _SLACK
for _table in (LOW, HIGH):
    _table.setflags(write=False)
