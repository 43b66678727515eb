"""How a GPU picks an arm: by bounds in single precision, and exactly: docs/gpu.md.

What the bounds leave open is decided by full draws in double precision, so the pick is always the one that computing
every index would give.
"""

import math

import numpy as np

from posse.compile import out_of_line
from posse.normal import normal
from posse.policies.bound import provided
from posse.simulation.cuda_tables import pair_of
from posse.streams import DRAW, REFINE, block

BOUND_FOR_EACH_POLICY = True

# Bound for each call: see `posse.simulation.cuda_device`.
fma = provided
log_2 = provided
divide = provided

PADDING = 3  # arms that never win, because arms are compared in groups of two and four
NEVER = np.float32(-3e38)
FARTHEST = np.float32(1e30)  # a center or scale beyond it is kept as an infinite center, whose upper bound is infinite
INFINITY, ZERO = np.float32(np.inf), np.float32(0.0)

# Places in tables are unsigned, and a signed number would turn them into floats.
ONE, TWO = np.uint32(1), np.uint32(2)

# A draw is the normal quantile of some u. With p = 2u − 1 it is about p P(log₂(1 − p²)); these are the coefficients of
# P, the highest power first. The first 16 bits leave u open by 2⁻¹⁶. In the middle between, the draw is known within
# WIDTH / (1 − p²) and for the outermost bits, beyond which a draw may be anywhere, within 5.7, since 1 − p² is taken a
# little too small.
P_4, P_3, P_2 = np.float32(5.343447e-05), np.float32(0.001405302), np.float32(0.008241211)
P_1, P_0 = np.float32(-0.2272437), np.float32(1.253325)
STEP, FIRST, NEARLY_ONE = np.float32(2.0**-15), np.float32(2.0**-16 - 1.0), np.float32(1.0 - 2.6e-5)
WIDTH = np.float32(2.6e-5)

# How far rounding to single precision may move a center; for scales it is in WIDTH.
ROUNDING, TINY = np.float32(2.0**-22), np.float32(1e-30)


def rough_draw(half):
    """About the draw whose first 16 bits these are, and by how much it may differ."""
    p = fma(np.float32(np.int32(half)), STEP, FIRST)
    y = fma(-p, p, NEARLY_ONE)
    x = log_2(y)
    value = fma(fma(fma(fma(P_4, x, P_3), x, P_2), x, P_1), x, P_0)
    return p * value, divide(WIDTH, y)


def rough_index(half, rough, at):
    """About the index of a pair, given the first 16 bits of its draw, and by how much it may differ."""
    draw, width = rough_draw(half)
    center, scale = rough[at], rough[np.uint32(at + ONE)]
    return fma(scale, draw, center), fma(scale, width, fma(abs(center), ROUNDING, TINY))


def pick(own, arms, players, player, t, key):
    """The arm with the largest index for a player, and the random word of its reward."""
    word, w1, w2, w3 = block(0, player, t, DRAW, key)
    v0, v1, v2, v3 = block(1, player, t, DRAW, key)  # together they take little longer than one
    at, step = np.uint32(TWO * np.uint32(player)), np.uint32(TWO * np.uint32(players))
    top = two(0, w1, own.rough, at, step, (NEVER, NEVER, NEVER, np.int32(0)))
    if arms > 2:
        top = four(2, w2, w3, own.rough, at, step, top)
    if arms > 6:
        top = four(6, v0, v1, own.rough, at, step, top)
    if arms > 10:
        top = four(10, v2, v3, own.rough, at, step, top)
    for number in range(2, (arms + 9) // 8):
        w0, w1, w2, w3 = block(number, player, t, DRAW, key)
        arm = 8 * number - 2
        top = four(arm, w0, w1, own.rough, at, step, top)
        if arm + 4 < arms:
            top = four(arm + 4, w2, w3, own.rough, at, step, top)
    floor, _, second, best = top
    if second >= floor:
        best = compare(own.center, own.scale, own.rough, arms, players, player, t, key, floor)
    return best, word


def four(arm, first, last, rough, at, step, top):
    """`top` with four arms more, whose draws begin in two words."""
    top = two(arm, first, rough, at, step, top)
    return two(arm + 2, last, rough, at, step, top)


def two(arm, word, rough, at, step, top):
    """`top` with two arms more, whose draws begin in the halves of a word."""
    at = np.uint32(at + np.uint32(arm) * step)
    top = one(arm, word & 0xFFFF, rough, at, top)
    return one(arm + 1, word >> 16, rough, np.uint32(at + step), top)


def one(arm, half, rough, at, top):
    """`top` with one arm more: the largest lower bound, the two largest upper bounds, and whose the largest is."""
    floor, highest, second, best = top
    index, width = rough_index(half, rough, at)
    upper = index + width
    best = np.int32(arm) if upper > highest else best
    return max(floor, index - width), max(highest, upper), max(second, min(highest, upper)), best


@out_of_line
def compare(center, scale, rough, arms, players, player, t, key, floor):
    """The arm with the largest index, computed for the arms whose upper bound reaches the floor."""
    best = -1
    best_index = -math.inf
    w0, w1, w2, w3 = 0, 0, 0, 0
    for arm in range(arms):
        place = (arm + 2) & 7
        if place == 0 or arm == 0:
            w0, w1, w2, w3 = block((arm + 2) >> 3, player, t, DRAW, key)
        word = (w0 if place < 2 else w1) if place < 4 else (w2 if place < 6 else w3)
        half = word >> 16 if place & 1 else word & 0xFFFF
        pair = pair_of(arm, player, players)
        index, width = rough_index(half, rough, np.uint32(TWO * pair))
        if index + width >= floor:
            middle, last, _, _ = block(arm, player, t, REFINE, key)
            value = center[pair] + scale[pair] * normal(half, middle, last)
            if best < 0 or value > best_index:
                best = arm
                best_index = value
    return np.int32(best)
