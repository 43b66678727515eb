"""How arms are picked without computing their normal draws: for many players at once, by bounds in single precision.

The first 16 bits of an arm's draw bound it from below and above (`posse.normal.bounds_of`), and so bound the arm's
index. If only one arm's upper bound reaches the largest lower bound, that arm has won; this settles all but about one
of 1,000 decisions. Otherwise the arms whose upper bounds reach it are compared by their full 64-bit draws, in double
precision. So the pick is always the one that computing every index would give, with ties to the lowest arm.

Tables here are flat, in rows of WIDTH *lanes*, a player in each. The compiler knows WIDTH, and can therefore tell that
rows do not overlap, which it must to vectorise. `at`, or a name with it, is a position in such a table. It is unsigned:
a signed one might count from the end.
"""

import math

import numpy as np

from posse.compile import fused, independent, out_of_line
from posse.normal import bounds_of, normal
from posse.policies.bound import BETA, RANDOMISED
from posse.streams import DRAW, REFINE, block

BOUND_FOR_EACH_POLICY = True

WIDTH = 128
ROW, TWO_ROWS, THREE_ROWS = np.uint64(WIDTH), np.uint64(2 * WIDTH), np.uint64(3 * WIDTH)
LANES = 8  # of one vector, when words are drawn and arms are picked; all of them, whether they are in use or not
DRAW_LANES = 16  # of one vector, when draws are bounded

LOWEST = np.float32(-3e38)
FAR = np.float32(
    3e38
)  # the center of an arm whose own, or whose scale, is beyond NEAR: all arms are then compared exactly
NEAR = np.float32(1e30)
ROUNDING = np.float32(2.0**-21)  # several times the relative error of a bound; that of scale · bound is in `bounds_of`
TINY = np.float32(1e-30)
LOWER_MASK, UPPER_SHIFT = np.uint32(0xFFFF), np.uint32(16)


def even_arms(arms):
    """How many arms tables have: arms are taken two at a time, as a random word has the first bits of two."""
    return (arms + 1) // 2 * 2


def whole_vectors(count, lanes):
    """A number of lanes, rounded up to whole vectors."""
    return (count + lanes - 1) // lanes * lanes


def rough_at(arm, player, arms):
    """Where a pair's rough center stands, with its scale a row later: in a tile of WIDTH players, two rows an arm."""
    earlier = np.uint64(player) // ROW * np.uint64(even_arms(arms))
    return (earlier + np.uint64(arm)) * TWO_ROWS + np.uint64(player) % ROW


def gather_rough(rough, players, arms):
    """Where the rough centers of these players begin. They are copied to the last tile if they are not side by side."""
    first, last = players[0], players[players.size - 1]
    if np.int64(last - first) == players.size - 1 and first // ROW == last // ROW:
        return rough_at(np.uint64(0), first, arms)
    tile_at = np.uint64(rough.size - 2 * WIDTH * even_arms(arms))
    for arm in range(arms):
        for lane in range(players.size):
            at, to = rough_at(np.uint64(arm), players[lane], arms), tile_at + np.uint64(2 * WIDTH * arm + lane)
            rough[to], rough[to + ROW] = rough[at], rough[at + ROW]
    return tile_at


def put_rough(rough, at, center, scale):
    """Keep a center and a scale in single precision; both up to NEAR, or FAR and 0."""
    rough[at], rough[at + ROW] = center, scale


def draw_words(words, players, rounds, count, key):
    """The random words of `count` lanes, a row for each word: the first for the reward, each other for two arms.

    To fill whole vectors, words of a few lanes that follow are drawn too. Nobody reads those.
    """
    for number in range(words.size // (4 * WIDTH)):
        row = np.uint64(4 * WIDTH * number)
        for lane in range(whole_vectors(count, LANES)):
            at = row + np.uint64(lane)
            w0, w1, w2, w3 = block(number, players[lane], rounds[lane], DRAW, key)
            words[at] = w0
            words[at + ROW] = w1
            words[at + TWO_ROWS] = w2
            words[at + THREE_ROWS] = w3


@independent
def bound_draws(words, bounds, count, arms):
    """Lower and upper bounds of every arm's draws in `count` lanes, two rows for each arm, from the words."""
    lanes = whole_vectors(count, DRAW_LANES)
    for two in range(even_arms(arms) // 2):
        word_at, bound_at = np.uint64(WIDTH * (two + 1)), np.uint64(4 * WIDTH * two)
        for lane in range(lanes):
            at = bound_at + np.uint64(lane)
            bounds[at], bounds[at + ROW] = bounds_of(words[word_at + np.uint64(lane)] & LOWER_MASK)
            at = at + TWO_ROWS
            bounds[at], bounds[at + ROW] = bounds_of(words[word_at + np.uint64(lane)] >> UPPER_SHIFT)


def bound_indices(rough, tile_at, bounds, column, top, lanes, arms):
    """Fill the rows of `top`.

    They are the largest lower bound of an index, the two largest upper bounds, and the arm with the largest of these.
    """
    for lane in range(lanes):
        at = np.uint64(lane)
        top[at] = top[at + ROW] = top[at + TWO_ROWS] = LOWEST
        top[at + THREE_ROWS] = 0.0
    for arm in range(0, arms, 2):
        row = np.uint64(2 * WIDTH * arm)
        bound_two_arms(rough, tile_at + row, bounds, column + row, top, lanes, arm)


@independent
def bound_two_arms(rough, first_center_at, bounds, first_bounds_at, top, lanes, arm):
    """Let an arm and the next one count for `top`."""
    for lane in range(lanes):
        at = np.uint64(lane)
        best = top[at], top[at + ROW], top[at + TWO_ROWS], top[at + THREE_ROWS]
        center_at, bounds_at = first_center_at + at, first_bounds_at + at
        best = better(best, arm, *bound_index(rough, center_at, bounds, bounds_at))
        best = better(best, arm + 1, *bound_index(rough, center_at + TWO_ROWS, bounds, bounds_at + TWO_ROWS))
        top[at], top[at + ROW], top[at + TWO_ROWS], top[at + THREE_ROWS] = best


@fused
def bound_index(rough, center_at, bounds, bounds_at):
    """A lower and an upper bound of an index, from bounds of the draw. Without randomness these are 0.

    For Beta draws the table has the bounds of indices.
    """
    if BETA:
        return bounds[bounds_at], bounds[bounds_at + ROW]
    center, scale = rough[center_at], rough[center_at + ROW]
    return center + scale * bounds[bounds_at], center + scale * bounds[bounds_at + ROW]


def better(best, arm, lower, upper):
    """`best` with one arm more, whose index has these bounds."""
    floor, highest, second, winner = best
    winner = np.float32(arm) if upper > highest else winner
    return max(floor, lower), max(highest, upper), max(second, min(highest, upper)), winner


def is_open(floor, second):
    """Whether more than one arm may have the largest index."""
    return second + ROUNDING * abs(second) + TINY >= floor - ROUNDING * abs(floor) or floor >= NEAR


def pick_by_bounds(rough, tile_at, bounds, column, top, players, arms, count):
    """Write the arm that is likely to have the largest index of `count` into `arms`, for each of these players.

    Return whether bounds leave any of them open.
    """
    bound_indices(rough, tile_at, bounds, column, top, whole_vectors(players.size, LANES), count)
    some_open = False
    for lane in range(players.size):
        at = np.uint64(lane)
        arms[lane] = np.uint64(np.int32(top[at + THREE_ROWS]))
        some_open |= is_open(top[at], top[at + TWO_ROWS])
    return some_open


def pick(rough, tile_at, words, bounds, column, top, center, scale, players, arms, t, key):
    """Write the arm with the largest index for each of these players into `arms`, by bounds where they decide."""
    if pick_by_bounds(rough, tile_at, bounds, column, top, players, arms, center.shape[0]):
        for lane in range(players.size):
            at = np.uint64(lane)
            floor = top[at]
            if is_open(floor, top[at + TWO_ROWS]):
                center_at, drawn_at = tile_at + at, column + at
                arms[lane] = pick_exactly(
                    rough, center_at, words, bounds, drawn_at, floor, center, scale, players[lane], t, key
                )


@out_of_line
def pick_exactly(rough, center_at, words, bounds, drawn_at, floor, center, scale, player, t, key):
    """The arm with the largest index, computed for the arms whose upper bound reaches the floor.

    The player's rough centers stand from `center_at` on, row by row, and its words and bounds from `drawn_at` on.
    """
    floor = floor - ROUNDING * abs(floor) if floor < NEAR else LOWEST
    best = -1
    best_index = -math.inf
    for arm in range(center.shape[0]):
        row = np.uint64(2 * WIDTH * arm)
        _, upper = bound_index(rough, center_at + row, bounds, drawn_at + row)
        if upper + ROUNDING * abs(upper) + TINY >= floor:
            value = center[arm, player]
            if RANDOMISED:
                middle, last, _, _ = block(arm, player, t, REFINE, key)
                value += scale[arm, player] * normal(first_bits(words, drawn_at, arm), middle, last)
            if best < 0 or value > best_index:
                best = arm
                best_index = value
    return best


def first_bits(words, drawn_at, arm):
    """The first 16 bits of an arm's draw."""
    word = np.int64(words[drawn_at + np.uint64(WIDTH * (1 + arm // 2))])
    return word >> 16 if arm % 2 else word & 0xFFFF
