"""Draws from a Beta law, from counter-based random words, exact where they matter."""

import math

from posse.compile import out_of_line
from posse.normal import HIGH, LOW, bin_of, normal
from posse.streams import SAMPLE, block

BLOCKS = 1 << 12  # for each arm


LAWS = "finite numbers of at least 1"  # which a and b may be


def is_law(a, b):
    """Whether posse draws from Beta(a, b); of arrays for each pair."""
    return (a >= 1.0) & (a < math.inf) & (b >= 1.0) & (b < math.inf)


def beta_draw(a, b, floor, words, arm, player, t, key):
    """A Beta(a, b) draw for a, b >= 1, exact if it is above the floor; otherwise anything up to the floor.

    It is X / (X + Y) of two Gamma draws. `words` are those of the arm's first block, with a first attempt at both: 16
    bits that bound each normal draw by table, 32 more, and 16 for each uniform one. Most draws are settled by bounds.
    """
    halves, first, second, uniforms = words
    x_half, y_half = halves >> 16, halves & 0xFFFF
    x_shape, y_shape = a - 1.0 / 3.0, b - 1.0 / 3.0
    x_step, y_step = 1.0 / math.sqrt(9.0 * x_shape), 1.0 / math.sqrt(9.0 * y_shape)
    x_sure, y_sure = squeezed(x_half, uniforms >> 16, x_step), squeezed(y_half, uniforms & 0xFFFF, y_step)
    if x_sure and y_sure:
        x_high = x_shape * (1.0 + x_step * HIGH[bin_of(x_half)]) ** 3
        y_low = y_shape * (1.0 + y_step * LOW[bin_of(y_half)]) ** 3
        if x_high * (1.0 + 1e-9) <= floor * (x_high + y_low):
            return floor
    x, y = normal(x_half, first, 0), normal(y_half, second, 0)
    if x_sure:
        x = x_shape * (1.0 + x_step * x) ** 3
    else:
        x = gamma_draw(x_shape, x_step, x, uniforms >> 16, arm * BLOCKS + 1, player, t, key)
    if y_sure:
        y = y_shape * (1.0 + y_step * y) ** 3
    else:
        y = gamma_draw(y_shape, y_step, y, uniforms & 0xFFFF, arm * BLOCKS + BLOCKS // 2 + 1, player, t, key)
    return x / (x + y)


def squeezed(half, uniform, step):
    """Whether the first attempt at a Gamma draw is surely accepted, from the first bits of its normal and uniform."""
    low, high = LOW[bin_of(half)], HIGH[bin_of(half)]
    most = max(-low, high)
    return 1.0 + step * low > 0.0 and (uniform + 1) * 2.0**-16 < 1.0 - 0.0331 * (most * most) * (most * most)


@out_of_line
def gamma_draw(d, step, x, uniform, number, player, t, key):
    """A Gamma(d + 1/3, 1) draw from a first normal and 16 bits of a first uniform; further ones are fetched.

    Marsaglia and Tsang, "A simple method for generating gamma variables" (ACM TOMS 26, 2000).
    """
    middle, last, _, _ = block(number, player, t, SAMPLE, key)
    u = (uniform * 2.0**48 + middle * 65536.0 + (last >> 16) + 0.5) * 2.0**-64
    while True:
        v = (1.0 + step * x) ** 3
        rejected = v <= 0.0 or math.log(u) >= 0.5 * x * x + d * (1.0 - v + math.log(v))
        if not rejected:  # so if something is not a number: the loop always ends
            return d * v
        number += 1
        first, second, third, fourth = block(number, player, t, SAMPLE, key)
        x = normal(first >> 16, second, (first & 0xFFFF) << 16)
        u = (third * 2.0**32 + fourth + 0.5) * 2.0**-64
