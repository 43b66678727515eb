"""How arms are picked without computing their normal draws: for many players at once, by bounds in single precision.

The first 16 bits of an arm's draw bound it from below and above (`posse.normal.bounds_of`), and so bound the arm's
index. If only one arm's upper bound reaches the largest lower bound, that arm has won; this settles all but about one
of 1,000 decisions. Otherwise the arms whose upper bounds reach it are compared by their full 64-bit draws, in double
precision. So the pick is always the one that computing every index would give, ties to the lowest arm included.

Tables here are flat, with WIDTH places side by side in a row. The compiler knows WIDTH, and can therefore tell that
rows do not overlap, which it must to vectorise. Places in them are unsigned: a signed one might count from the end.
"""

import math

import numpy as np

from posse.compile import fused, independent, out_of_line
from posse.normal import bounds_of, normal
from posse.policies.bound import RANDOMISED
from posse.streams import DRAW, REFINE, block

BOUND_FOR_EACH_POLICY = True

WIDTH = 128
ROW, TWO_ROWS, THREE_ROWS = np.uint64(WIDTH), np.uint64(2 * WIDTH), np.uint64(3 * WIDTH)
LANES = 8  # a pick takes so many places at once, whether they are in use or not
DRAWN = 16  # so many draws are bounded at once

LOWEST = np.float32(-3e38)
FAR = np.float32(3e38)  # stands for a center that is not below NEAR, or has such a scale: it may win or not
NEAR = np.float32(1e30)
ROUNDING = np.float32(2.0**-21)  # several times the relative error of a bound; what scales it is in the bounds of draws
TINY = np.float32(1e-30)
LOWER_HALF, UPPER_HALF = np.uint32(0xFFFF), np.uint32(16)


def arms_in_pairs(arms):
    """How many arms tables have: arms are taken two at a time, as a random word has the first bits of two."""
    return (arms + 1) // 2 * 2


def whole_vectors(count, lanes):
    """How many places are taken for so many."""
    return (count + lanes - 1) // lanes * lanes


def rough_place(arm, player, arms):
    """Where a pair's rough center stands; its rough scale stands a row later."""
    tile = np.uint64(player) // ROW * np.uint64(arms_in_pairs(arms))
    return (tile + np.uint64(arm)) * TWO_ROWS + np.uint64(player) % ROW


def side_by_side(rough, players, arms):
    """Where the rough centers of these players begin, side by side; unless they are, copy them to a last tile."""
    first, last = players[0], players[players.size - 1]
    if np.int64(last - first) == players.size - 1 and first // ROW == last // ROW:
        return rough_place(np.uint64(0), first, arms)
    tile = np.uint64(rough.size - 2 * WIDTH * arms_in_pairs(arms))
    for arm in range(arms):
        for lane in range(players.size):
            place, to = rough_place(np.uint64(arm), players[lane], arms), tile + np.uint64(2 * WIDTH * arm + lane)
            rough[to], rough[to + ROW] = rough[place], rough[place + ROW]
    return tile


def put_rough(rough, place, center, scale):
    """Keep a center and a scale in single precision; both up to NEAR, or FAR and 0."""
    rough[place], rough[place + ROW] = center, scale


def draw_words(words, players, rounds, count, key):
    """The random words of so many places, a row for each: the first for the reward, each other for two arms.

    To fill whole vectors, words of a few places that follow are drawn too. Nobody reads those.
    """
    for number in range(words.size // (4 * WIDTH)):
        row = np.uint64(4 * WIDTH * number)
        for lane in range(whole_vectors(count, LANES)):
            place = row + np.uint64(lane)
            w0, w1, w2, w3 = block(number, players[lane], rounds[lane], DRAW, key)
            words[place] = w0
            words[place + ROW] = w1
            words[place + TWO_ROWS] = w2
            words[place + THREE_ROWS] = w3


@independent
def bound_draws(words, bounds, count, arms):
    """Lower and upper bounds of every arm's draws in so many places, two rows for each arm, from the words."""
    lanes = whole_vectors(count, DRAWN)
    for pair in range(arms_in_pairs(arms) // 2):
        word, bound = np.uint64(WIDTH * (pair + 1)), np.uint64(4 * WIDTH * pair)
        for lane in range(lanes):
            at = bound + np.uint64(lane)
            bounds[at], bounds[at + ROW] = bounds_of(words[word + np.uint64(lane)] & LOWER_HALF)
            at = at + TWO_ROWS
            bounds[at], bounds[at + ROW] = bounds_of(words[word + np.uint64(lane)] >> UPPER_HALF)


@independent
def bound_indices(rough, tile, bounds, column, top, lanes, arms):
    """Fill the rows of `top`: the largest lower bound of an index, the two largest upper ones, whose the first is."""
    for lane in range(lanes):
        place = np.uint64(lane)
        top[place] = top[place + ROW] = top[place + TWO_ROWS] = LOWEST
        top[place + THREE_ROWS] = 0.0
    for arm in range(0, arms, 2):
        row = np.uint64(2 * WIDTH * arm)
        for lane in range(lanes):
            place = np.uint64(lane)
            best = top[place], top[place + ROW], top[place + TWO_ROWS], top[place + THREE_ROWS]
            at, drawn = tile + row + place, column + row + place
            best = better(best, arm, rough[at], rough[at + ROW], bounds[drawn], bounds[drawn + ROW])
            at, drawn = at + TWO_ROWS, drawn + TWO_ROWS
            best = better(best, arm + 1, rough[at], rough[at + ROW], bounds[drawn], bounds[drawn + ROW])
            top[place], top[place + ROW], top[place + TWO_ROWS], top[place + THREE_ROWS] = best


@fused
def better(best, arm, center, scale, low, high):
    """`best` with one arm more."""
    floor, highest, second, winner = best
    lower, upper = center + scale * low, center + scale * high
    winner = np.float32(arm) if upper > highest else winner
    return max(floor, lower), max(highest, upper), max(second, min(highest, upper)), winner


def is_open(floor, second):
    """Whether more than one arm may have the largest index."""
    return second + ROUNDING * abs(second) + TINY >= floor - ROUNDING * abs(floor) or floor >= NEAR


def pick(rough, tile, words, bounds, column, top, center, scale, players, arms, t, key):
    """Write the arm with the largest index for each of these players into `arms`, by bounds where they decide."""
    count = center.shape[0]
    bound_indices(rough, tile, bounds, column, top, whole_vectors(players.size, LANES), count)
    some_open = False
    for lane in range(players.size):
        place = np.uint64(lane)
        arms[lane] = np.uint64(np.int32(top[place + THREE_ROWS]))
        some_open |= is_open(top[place], top[place + TWO_ROWS])
    if some_open:
        for lane in range(players.size):
            place = np.uint64(lane)
            floor = top[place]
            if is_open(floor, top[place + TWO_ROWS]):
                at, drawn = tile + place, column + place
                arms[lane] = compare(rough, at, words, bounds, drawn, floor, center, scale, players[lane], t, key)


@out_of_line
def compare(rough, at, words, bounds, drawn, floor, center, scale, player, t, key):
    """The arm with the largest index, computed for the arms whose upper bound reaches the floor."""
    floor = floor - ROUNDING * abs(floor) if floor < NEAR else LOWEST
    best = -1
    best_index = -math.inf
    for arm in range(center.shape[0]):
        row = np.uint64(2 * WIDTH * arm)
        upper = rough[at + row] + rough[at + row + ROW] * bounds[drawn + row + ROW]
        if upper + ROUNDING * abs(upper) + TINY >= floor:
            value = center[arm, player]
            if RANDOMISED:
                middle, last, _, _ = block(arm, player, t, REFINE, key)
                value += scale[arm, player] * normal(first_half(words, drawn, arm), middle, last)
            if best < 0 or value > best_index:
                best = arm
                best_index = value
    return best


def first_half(words, column, arm):
    """The first 16 bits of an arm's draw."""
    word = np.int64(words[column + np.uint64(WIDTH * (1 + arm // 2))])
    return word >> 16 if arm % 2 else word & 0xFFFF
