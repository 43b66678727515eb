"""How a GPU picks an arm: by bounds in single precision, narrower than the CPU's, and exactly: docs/gpu.md.

What the bounds leave open is decided by full draws in double precision, so the pick is always the one that computing
every index would give.
"""

import math

import numpy as np

from posse.compile import out_of_line
from posse.normal import BINS, lower_quantile, normal
from posse.simulation.cuda_tables import pair_of
from posse.streams import DRAW, REFINE, block

PARTS = 65536 // BINS  # of a bin: what 16 bits tell apart
BOUNDS_SIZE = 3 * BINS
NEVER = np.float32(-np.inf)
PADDING = 3  # arms that never win, because arms are compared in groups of two and four

# Places in tables are unsigned, and a signed number would turn them into floats.
ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)

_SLACK = 1e-12  # a thousand times the quantile's own error
_ROUNDING = 1e-6  # many times that of single precision


def _edges() -> np.ndarray:
    """The normal draws between which the first 16 bits stay the same."""
    half = [normal(0, 0, 0)] + [lower_quantile(k / 65536) for k in range(1, 32769)]
    return np.array(half + [-edge for edge in reversed(half[:-1])])


def _bounds() -> np.ndarray:
    """For each bin: where its line starts, how it rises from part to part, and how far above it draws may be."""
    edges = _edges()
    low = edges[:-1].reshape(BINS, PARTS) - _SLACK
    high = edges[1:].reshape(BINS, PARTS) + _SLACK
    rise = ((high[:, -1] - low[:, 0]) / PARTS).astype(np.float32)
    rise[[0, -1]] = 0.0  # the tails are no lines
    parts = np.arange(PARTS, dtype=np.float32)
    start = (low - np.outer(rise, parts).astype(float)).min(axis=1)
    start = (start - _ROUNDING * (1 + abs(start))).astype(np.float32)
    line = start[:, None] + rise[:, None] * parts
    above = (high - line).max(axis=1)
    above = (above + _ROUNDING * (1 + abs(above) + abs(line).max(axis=1))).astype(np.float32)
    return np.stack([start, rise, above], axis=1).ravel()


BOUNDS = _bounds()
BOUNDS.setflags(write=False)


def line_of(half, bounds):
    """A lower bound of a draw whose first 16 bits these are, and by how much it may be higher."""
    row = 3 * ((half >> 6) & 1023)
    return bounds[row] + bounds[row + 1] * np.float32(np.int32(half & 63)), bounds[row + 2]


def pick(own, arms, players, player, t, key, bounds):
    """The arm with the largest index for a player, and the random word of its reward."""
    word, w1, w2, w3 = block(0, player, t, DRAW, key)
    v0, v1, v2, v3 = block(1, player, t, DRAW, key)  # together they take little longer than one
    at, step = THREE * np.uint64(player), THREE * np.uint64(players)  # of an arm's rough center and scale
    top = two(0, w1, own, at, step, bounds, (NEVER, NEVER, NEVER, 0))
    if arms > 2:
        top = four(2, w2, w3, own, at, step, bounds, top)
    if arms > 6:
        top = four(6, v0, v1, own, at, step, bounds, top)
    if arms > 10:
        top = four(10, v2, v3, own, at, step, bounds, top)
    for number in range(2, (arms + 9) // 8):
        w0, w1, w2, w3 = block(number, player, t, DRAW, key)
        arm = 8 * number - 2
        top = four(arm, w0, w1, own, at, step, bounds, top)
        if arm + 4 < arms:
            top = four(arm + 4, w2, w3, own, at, step, bounds, top)
    floor, _, second, best = top
    if second >= floor:
        best = compare(own, arms, players, player, t, key, bounds, floor)
    return best, word


def four(arm, first, last, own, at, step, bounds, top):
    """`top` with four arms more, whose draws begin in two words."""
    top = two(arm, first, own, at, step, bounds, top)
    return two(arm + 2, last, own, at, step, bounds, top)


def two(arm, word, own, at, step, bounds, top):
    """`top` with two arms more, whose draws begin in the halves of a word."""
    at += np.uint64(arm) * step
    top = one(arm, word & 0xFFFF, own, at, bounds, top)
    return one(arm + 1, word >> 16, own, at + step, bounds, top)


def one(arm, half, own, at, bounds, top):
    """`top` with one arm more: the largest lower bound, the two largest upper bounds, and whose the largest is."""
    floor, highest, second, best = top
    line, above = line_of(half, bounds)
    scale = own.rough[at + TWO]
    lower = own.rough[at] + scale * line
    upper = own.rough[at + ONE] + scale * (line + above)
    best = arm if upper > highest else best
    return max(floor, lower), max(highest, upper), max(second, min(highest, upper)), best


@out_of_line
def compare(own, arms, players, player, t, key, bounds, floor):
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
        line, above = line_of(half, bounds)
        pair = pair_of(arm, player, players)
        if own.rough[THREE * pair + ONE] + own.rough[THREE * pair + TWO] * (line + above) >= floor:
            middle, last, _, _ = block(arm, player, t, REFINE, key)
            value = own.center[pair] + own.scale[pair] * normal(half, middle, last)
            if best < 0 or value > best_index:
                best = arm
                best_index = value
    return best
