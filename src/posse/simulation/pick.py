"""How an arm is picked without computing its normal draw.

The first 16 bits of an arm's draw bound it from below and above by table (`posse.normal`), and so bound the arm's
index. If only one arm's upper bound reaches the largest lower bound, that arm has won; this settles about 99 of 100
decisions. Otherwise the arms whose upper bounds reach it are compared by their full 64-bit draws. Rounding is
monotone, so the pick is always the one that computing every index would give, ties to the lowest arm included.
"""

import math

from posse.compile import out_of_line
from posse.normal import HIGH, LOW, bin_of, normal
from posse.streams import DRAW, REFINE, block


def draw_halves(active, start, stop, t, key, halves):
    """The random words of a tile of players, as 16-bit halves: rows 0 and 1 for the reward, row 2 + arm for an arm."""
    for number in range(halves.shape[0] // 8):
        for place in range(stop - start):
            w0, w1, w2, w3 = block(number, active[start + place], t, DRAW, key)
            halves[8 * number, place] = w0 & 0xFFFF
            halves[8 * number + 1, place] = w0 >> 16
            halves[8 * number + 2, place] = w1 & 0xFFFF
            halves[8 * number + 3, place] = w1 >> 16
            halves[8 * number + 4, place] = w2 & 0xFFFF
            halves[8 * number + 5, place] = w2 >> 16
            halves[8 * number + 6, place] = w3 & 0xFFFF
            halves[8 * number + 7, place] = w3 >> 16


def pick(player, place, center, scale, halves, t, key):
    """The arm with the largest index for a player, by bounds where they decide."""
    floor = -math.inf
    highest = -math.inf
    second = -math.inf
    best = 0
    for arm in range(center.shape[1]):
        row = bin_of(halves[2 + arm, place])
        floor = max(floor, center[player, arm] + scale[player, arm] * LOW[row])
        high = center[player, arm] + scale[player, arm] * HIGH[row]
        best = arm if high > highest else best
        second = max(second, min(highest, high))
        highest = max(highest, high)
    if second < floor:
        return best
    return compare(player, place, center, scale, halves, floor, t, key)


@out_of_line
def compare(player, place, center, scale, halves, floor, t, key):
    """The arm with the largest index, computed for the arms whose upper bound reaches the floor."""
    best = -1
    best_index = -math.inf
    for arm in range(center.shape[1]):
        half = halves[2 + arm, place]
        if center[player, arm] + scale[player, arm] * HIGH[bin_of(half)] >= floor:
            middle, last, _, _ = block(arm, player, t, REFINE, key)
            value = center[player, arm] + scale[player, arm] * normal(half, middle, last)
            if best < 0 or value > best_index:
                best = arm
                best_index = value
    return max(best, 0)  # no arm qualifies only if an index is NaN, and then the run stops after this round


def largest(center, player):
    """The arm with the largest center, the lowest of several."""
    best = 0
    best_center = center[player, 0]
    for arm in range(1, center.shape[1]):
        if center[player, arm] > best_center:
            best = arm
            best_center = center[player, arm]
    return best
