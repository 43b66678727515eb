"""Bounds of Beta draws, in vectors, and exact picks where they leave more than one arm.

A Beta(a, b) draw is X / (X + Y) of two Gamma draws (`posse.policies.beta_draw`), and grows with X / Y. Let s be the
root of a Gamma draw's shape less ⅓. A normal draw z then makes the Gamma draw (s + z / 3)³ / s, unless it is rejected.
So bounds of two normal draws bound X / Y, where neither can be rejected. The rough centers and scales of an arm are the
two s here.

A draw is rejected if its uniform number is above exp(−y) with y = s² (w³ − 1.5w² + 3w − 3 ln(1 + w)) and w = z / 3s.
With t = max(−w, 0) ≤ 0.8 that y is at most z⁴ / 108s² · (1 + 4t/5 + 4t²/6 + 2.05t³).
"""

import math

import numpy as np

from posse.compile import fused, independent, out_of_line
from posse.normal import bounds_of
from posse.policies.beta_draw import BLOCKS, beta_draw
from posse.simulation.pick import (
    DRAW_LANES,
    FAR,
    LANES,
    LOWER_MASK,
    NEAR,
    ROW,
    TWO_ROWS,
    UPPER_SHIFT,
    WIDTH,
    is_open,
    pick_by_bounds,
    whole_vectors,
)
from posse.streams import SAMPLE, block

THIRD, ONE, ZERO = np.float32(1.0 / 3.0), np.float32(1.0), np.float32(0.0)
Y_FACTOR, EIGHTH = np.float32(1.0 / 108.0), np.float32(0.125)
SERIES = np.float32(0.800001), np.float32(0.666668), np.float32(2.05)
UNIFORM, ALMOST_ONE = np.float32(2.0**-16), np.float32(1.0 - 2.0**-17)
MOST_T, MOST_ROOT = np.float32(0.8), np.float32(1e4)  # above this s, rounding might decide what is rejected
SLACK = np.float32(2.0**-18)  # four times the relative error of a bound
MOST_ODDS = np.float32(1e9)  # above, draws may round to the same number


def root_of_shape(shape):
    """The s of a or b."""
    return math.sqrt(max(shape - 1.0 / 3.0, 0.0))


def draw_beta_words(words, players, rounds, count, arms, key):
    """The first bits of draws in `count` lanes, two rows for each arm: of both normal draws, of both uniform ones."""
    for arm in range(arms):
        row = np.uint64(2 * WIDTH * arm)
        for lane in range(whole_vectors(count, LANES)):
            at = row + np.uint64(lane)
            words[at], _, _, words[at + ROW] = block(arm * BLOCKS, players[lane], rounds[lane], SAMPLE, key)


def bound_beta_draws(rough, tile_at, words, column, bounds, count, arms):
    """Lower and upper bounds of X / Y for every arm in `count` lanes, two rows for each arm."""
    for arm in range(arms):
        row = np.uint64(2 * WIDTH * arm)
        bound_arm(rough, tile_at + row, words, column + row, bounds, row, whole_vectors(count, DRAW_LANES))


@independent
def bound_arm(rough, roots_at, words, words_at, bounds, bounds_at, lanes):
    """These bounds for one arm."""
    for lane in range(lanes):
        at = np.uint64(lane)
        x_root, y_root = rough[roots_at + at], rough[roots_at + ROW + at]
        normals, uniforms = words[words_at + at], words[words_at + ROW + at]
        bounds[bounds_at + at], bounds[bounds_at + ROW + at] = bound_odds(x_root, y_root, normals, uniforms)


@fused
def bound_odds(x_root, y_root, normals, uniforms):
    """A lower and an upper bound of X / Y: 0 and FAR if a draw may be rejected.

    A lower bound above MOST_ODDS becomes FAR, for all arms to be compared exactly.
    """
    x_inverse, y_inverse = ONE / x_root, ONE / y_root
    x_low, x_high, x_sure = bound_gamma(x_root, x_inverse, normals >> UPPER_SHIFT, uniforms >> UPPER_SHIFT)
    y_low, y_high, y_sure = bound_gamma(y_root, y_inverse, normals & LOWER_MASK, uniforms & LOWER_MASK)
    low, high, scale = x_low / y_high, x_high / y_low, y_root * x_inverse
    lower, upper = scale * low * low * low * (ONE - SLACK), scale * high * high * high * (ONE + SLACK)
    sure = x_sure & y_sure
    lower = (FAR if lower > MOST_ODDS else lower) if sure else ZERO
    return lower, upper if sure else FAR


@fused
def bound_gamma(root, inverse, half, uniform):
    """Bounds of s + z / 3, and whether z is surely accepted, from the first bits of it and of the uniform number."""
    low, high = bounds_of(half)
    most, t = max(-low, high), max(-low * THIRD, ZERO) * inverse
    squares = most * most * inverse
    y = Y_FACTOR * squares * squares * (ONE + t * (SERIES[0] + t * (SERIES[1] + t * SERIES[2])))
    chance = ONE - EIGHTH * y  # its eighth power is less than exp(−y)
    may_be = chance > ZERO
    chance *= chance
    chance *= chance
    chance *= chance
    sure = (np.float32(uniform) * UNIFORM + UNIFORM < chance * ALMOST_ONE) & may_be
    return root + low * THIRD, root + high * THIRD, sure & (t < MOST_T) & (root < MOST_ROOT)


def pick_beta(rough, tile_at, words, bounds, column, top, a, b, pulls, players, arms, t, key):
    """Write the arm with the largest draw for each of these players into `arms`, by bounds where they decide."""
    bound_beta_draws(rough, tile_at, words, column, bounds, players.size, a.shape[0])
    if pick_by_bounds(rough, tile_at, bounds, np.uint64(0), top, players, arms, a.shape[0]):
        for lane in range(players.size):
            at = np.uint64(lane)
            if is_open(top[at], top[at + TWO_ROWS]):
                arms[lane] = pick_beta_exactly(bounds, at + ROW, top[at], a, b, pulls, players[lane], t, key)


@out_of_line
def pick_beta_exactly(bounds, upper_at, floor, a, b, pulls, player, t, key):
    """The arm with the largest draw, of those whose upper bound reaches the floor.

    Ties go to the arm pulled most, then to the lowest.
    """
    floor = floor if floor < NEAR else ZERO
    bounded = likely = most_pulled = 0
    for arm in range(a.shape[0]):
        most_pulled = arm if pulls[arm, player] > pulls[most_pulled, player] else most_pulled
        if floor <= bounds[upper_at + np.uint64(2 * WIDTH * arm)] < FAR:
            bounded, likely = bounded + 1, arm
    least = floor / (1.0 + floor) * (1.0 - 1e-6)  # a draw whose X / Y is above the floor is above this
    if bounded == 1 and not is_beaten(bounds, upper_at, least, a, b, player, t, key):
        return likely
    best, highest = -1, -math.inf
    for number in range(-1, a.shape[0]):
        arm = most_pulled if number < 0 else number
        if bounds[upper_at + np.uint64(2 * WIDTH * arm)] >= floor and (number < 0 or arm != most_pulled):
            value = draw_exactly(a, b, highest, arm, player, t, key)
            best = arm if best < 0 or value > highest else best
            highest = max(highest, value)
    return best


def is_beaten(bounds, upper_at, draw, a, b, player, t, key):
    """Whether an arm without bounds has a draw above this one."""
    for arm in range(a.shape[0]):
        is_free = bounds[upper_at + np.uint64(2 * WIDTH * arm)] >= FAR
        if is_free and draw_exactly(a, b, draw, arm, player, t, key) > draw:
            return True
    return False


def draw_exactly(a, b, floor, arm, player, t, key):
    """An arm's draw if it is above the floor, else anything up to the floor."""
    words = block(arm * BLOCKS, player, t, SAMPLE, key)
    return beta_draw(a[arm, player], b[arm, player], floor, words, arm, player, t, key)
