"""A Gaussian model of players' means on an arm: the arm's mean, effects of their attributes, and what is their own.

All variances are given. Behind LinTS and MixedTS. With x a player's row of weights (1 for the arm's mean, then one for
each value), d = n own² + noise² and h = n / d, the mean and the effects β have the posterior precision

    Λ = diag(1 / variances) + Σ h x xᵀ,    mean Λ⁻¹ Σ x (s − n prior_mean) / d.

Λ = L Lᵀ by Cholesky: the variance of x·β is |L⁻¹ x|². A summary takes O(columns³ + players · columns²) for each arm, so
a model has at most `MOST` columns: a part of the attributes that would make it larger is left out. Parts of one
attribute come before pairs.
"""

import math

from posse.compile import out_of_line
from posse.policies.statistics import STEP

MOST = 128
PLACE, RIGHT, EFFECT, ROW, MATRIX = 0, 1, 2, 3, 4  # rows of `work`; Λ, and then L, begins at the last
ROWS = MATRIX + MOST
OWN = 0  # place in `of_player`


def single_parts(parts):
    """How many of so many parts are of one attribute. The others are pairs: a(a−1)/2 of a attributes.

    a attributes have at least a and at most 2a single parts, so the number of all parts tells how many there are.
    """
    attributes = 0
    while (attributes + 1) * (attributes + 2) <= 2 * parts:
        attributes += 1
    return parts - attributes * (attributes - 1) // 2


@out_of_line
def fit(n, s, of_player, of_pair, of_value, columns, weights, part_of, work, model):
    """Fill effects, what they make of each pair and the variance of that, and the variance of what is a player's own.

    `model` has noise, own, the prior mean and standard deviation of an arm's mean, and the standard deviations of the
    effects of a single part and of a pair. Part of a player's own is what unknown values do, unless own is 0.
    """
    noise, own, prior_mean, prior_sd, effects, pairs = model
    arms, players = n.shape
    parts = columns.shape[1]
    singles = single_parts(parts)
    size = lay_out(work, part_of, parts, singles, effects, pairs)
    of_player[players, OWN] = own * own
    for player in range(players):
        of_player[player, OWN] = own * own
        for part in range(parts):
            if own > 0.0 and work[PLACE, columns[player, part]] == 0.0:
                deviation = weights[player, part] * (effects if part < singles else pairs)
                of_player[player, OWN] += deviation * deviation
    for arm in range(arms):
        for row in range(size):
            work[RIGHT, row] = 0.0
            for place in range(row):
                work[MATRIX + row, place] = 0.0
            work[MATRIX + row, row] = 1.0 / (prior_sd * prior_sd)
        for column in range(parts, part_of.size):
            row = int(work[PLACE, column])
            if row > 0:
                deviation = effects if part_of[column] < singles else pairs
                work[MATRIX + row, row] = 1.0 / (deviation * deviation)
        for player in range(players):
            if n[arm, player] > 0:
                precision = 1.0 / (n[arm, player] * of_player[player, OWN] + noise * noise)
                more = (s[arm, player] * STEP - n[arm, player] * prior_mean) * precision
                count(player, n[arm, player] * precision, more, columns, weights, work)
        factor(work, size)
        for column in range(part_of.size):
            row = int(work[PLACE, column])
            of_value[0][arm, column] = work[EFFECT, row] if row > 0 else 0.0
        for player in range(players):
            mean, variance = look_up(player, columns, weights, work, size)
            of_pair[0][arm, player], of_pair[1][arm, player] = prior_mean + mean, variance


def lay_out(work, part_of, parts, singles, effects, pairs):
    """Give columns their rows in the model, 0 to those without: the arm's mean has that one. Return how many there are.

    The first columns stand for values that are not known and have no effect, so there is room for the mean.
    """
    size = 1
    for part in range(parts):
        values = 0
        for column in range(parts, part_of.size):
            values += 1 if part_of[column] == part else 0
        taken = (effects if part < singles else pairs) > 0.0 and size + values <= MOST
        work[PLACE, part] = 0.0
        for column in range(parts, part_of.size):
            if part_of[column] == part:
                work[PLACE, column] = size if taken else 0
                size += 1 if taken else 0
            elif part_of[column] < 0:
                work[PLACE, column] = 0.0
    return size


def term(player, part, columns, weights, work):
    """The row in the model and the weight of a part of a player's attributes; after the last part, the arm's mean."""
    if part == columns.shape[1]:
        return 0, 1.0
    row = int(work[PLACE, columns[player, part]])
    return row, weights[player, part] if row > 0 else 0.0


def count(player, precision, more, columns, weights, work):
    """Add a player's data of an arm to Λ and to the right-hand side."""
    for one in range(columns.shape[1] + 1):
        row, weight = term(player, one, columns, weights, work)
        work[RIGHT, row] += weight * more
        for other in range(columns.shape[1] + 1):
            place, with_weight = term(player, other, columns, weights, work)
            if place <= row:
                work[MATRIX + row, place] += precision * weight * with_weight


def factor(work, size):
    """L in place of Λ, L⁻¹ times the right-hand side in its place, and the effects."""
    for row in range(size):
        for place in range(row + 1):
            left = work[MATRIX + row, place]
            for before in range(place):
                left -= work[MATRIX + row, before] * work[MATRIX + place, before]
            if place < row:
                work[MATRIX + row, place] = left / work[MATRIX + place, place]
            else:
                least = 1e-13 * work[MATRIX + row, row]  # far more pulls than that are lost in rounding
                work[MATRIX + row, row] = math.sqrt(max(left, least))
        solve(work, RIGHT, row)
    for row in range(size - 1, -1, -1):
        left = work[RIGHT, row]
        for after in range(row + 1, size):
            left -= work[MATRIX + after, row] * work[EFFECT, after]
        work[EFFECT, row] = left / work[MATRIX + row, row]


def solve(work, of, row):
    """One row of L⁻¹ times a vector, in place of the vector; the rows before have been done."""
    left = work[of, row]
    for before in range(row):
        left -= work[MATRIX + row, before] * work[of, before]
    work[of, row] = left / work[MATRIX + row, row]


def look_up(player, columns, weights, work, size):
    """The mean of x·β for a player, beyond the prior mean, and its variance."""
    mean, variance = 0.0, 0.0
    for row in range(size):
        work[ROW, row] = 0.0
    for part in range(columns.shape[1] + 1):
        row, weight = term(player, part, columns, weights, work)
        work[ROW, row] += weight
        mean += weight * work[EFFECT, row]
    for row in range(size):
        solve(work, ROW, row)
        variance += work[ROW, row] * work[ROW, row]
    return mean, variance
