"""Exact normal draws from random words, and the tables that make most of them unnecessary.

A draw is the normal quantile of a 64-bit uniform: it reaches 9.1 standard deviations. The quantile is
Wichura's algorithm AS 241 (Applied Statistics 37, 1988), relative error about 1e-16; the coefficients of its three
quotients, numerator and denominator, are below, highest power first.

Often the first 16 bits settle a comparison. `LOW[bin_of(half)]` and `HIGH[bin_of(half)]` bound the draw from below
and above; rounding is monotone, so `center + scale * bound` bounds the computed index too, exactly.
"""

from __future__ import annotations

import math

import numpy as np

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
    if half < 0x8000:
        return lower_quantile((half * 2.0**48 + middle * 65536.0 + (last >> 16) + 0.5) * 2.0**-64)
    bits = (0xFFFF - half) * 2.0**48 + (0xFFFFFFFF - middle) * 65536.0 + (0xFFFF - (last >> 16))
    return -lower_quantile((bits + 0.5) * 2.0**-64)


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
