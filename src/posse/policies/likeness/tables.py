"""What the model of `posse.policies.likeness` is estimated in, and the formulas that its parts share.

On a GPU many threads estimate one model: each takes its part of the arms or players (`dealt`), and all wait for each
other where one needs what others have written (`barrier`). A function that writes ends with a barrier. A sum over
players is added up in the order of the players (`in_order`), so the result has the same bits with any number of
threads; on the CPU there is one. On a GPU a team of threads may share a sum (`dealt_to_teams`): each then computes the
value of another player, and all of them know the sum. So they read what they replace before they begin to add.

In a learner a column of the tables may stand for several players next to each other that have no data
(`posse.learner.runs`). They add 0 to all sums over pairs; sums over players use `plus`, their number is `players_of`.
"""

import math
from typing import Any, NamedTuple

from posse.compile import out_of_line
from posse.policies.bound import barrier, by_team, dealt, dealt_to_teams, in_order, member
from posse.policies.fourth_root import clip

BOUND_FOR_EACH_POLICY = True

GROUPS = 6  # at most
STRENGTHS = 8  # how many there are of what is a player's own: 2, 8, 32 … 32,768 pulls
OWN_AT = tuple(1.0 / (2.0 * 4.0**number + 1.0) for number in range(STRENGTHS))  # ρ of each strength
VARIANCES = (0.0, 0.01, 0.04, 0.16, 0.64, 2.56, 10.24)  # that levels and effects may have
UNLIKE = OWN_AT[0]  # that of the uniform distribution
ROUNDS = 3  # of estimation
COUNTS_HALF = 0.2  # a pair with so many successes and failures, n c (1−c), counts half as evidence
FEWEST_PLAYERS = 3  # that can be said to have levels or to be odd
TOO_LARGE = 2.0  # steps on the logit scale are cut to this
LESS = math.log(0.3)  # added to the evidence for levels that vary: before the data, it is less likely that they do
RARE = 10.0  # one player in so many times M is expected to be odd
WORTH = 1.5  # what a further group must gain in log-likelihood for each arm
CANDIDATES = 4  # players with whom a further group may begin
TURNS = 8  # of shares and centers, until groups are settled

# What is said of an arm, by its place in `of_arm`: centers and doubts (the variances of centers) for each group.
DISPERSION, OWN, FITTED, HELD, CENTER, DOUBT = 0, 1, 2, 3, 4, 4 + GROUPS
# What is said of a player, by its place in `of_player`: its dispersion, how likely it is to be odd, by what its level
# multiplies odds, the variance of the level on the logit scale, and its share of each group.
NOISE, ODD, LEVEL, LEVEL_DOUBT, SHARE = 0, 1, 2, 3, 4
# What is said of an attribute's value on an arm, on the logit scale: its effect, and the variance of that.
EFFECT, EFFECT_DOUBT = 0, 1
# Rows of `work`, with a place for each arm or player, after five tables [arm, player]: pairs' pulls divided by the
# dispersion, their means, their effective pulls, and by what level and attributes shift means on the logit scale and
# multiply their odds.
TABLES = 5
LIKELIHOOD, LOG, LOG_REST = 0, STRENGTHS, STRENGTHS + GROUPS  # of strengths; logarithms of centers c and of 1−c
STEP_TO, PRECISION, USUAL, UNUSUAL, WEIGHT, TOTAL, TOWARD = (STRENGTHS + 2 * GROUPS + place for place in range(7))
ROWS = TOWARD + 1


class Tables(NamedTuple):
    """What is estimated from, what is estimated, and scratch; [arm, player] where nothing else is said."""

    pulls: Any
    of_arm: Any  # [arm, number]
    of_player: Any  # [player, number], with one row more, for a player about whom nothing is known
    of_value: Any  # [number][arm, column]
    columns: Any  # [player, part], with the next two the attributes: `posse.attributes.Coded`
    weights: Any  # [player, part]
    part_of: Any  # [column]
    counted: Any  # this and the next four may have more columns than there are players
    means: Any
    effective: Any
    shift: Any
    odds: Any
    expected: Any  # each pair's center, over the groups that its player may belong to
    known: Any  # the variance between those; with `compare` all of the variance that is known, as a share of c (1−c)
    square: Any  # the square distance of a mean to its center, as a share of c (1−c)
    rows: Any  # [row, place]
    scores: Any  # [arm, column], of effects; below it, as many rows of information
    lane: Any  # which of the threads that share the work this is


def shifted(center, odds):
    """A mean whose odds are so many times a center's."""
    return center * odds / (1.0 - center + center * odds)


def noise_of(arm, player, of_arm, of_player):
    """The dispersion of a pair's rewards: the arm's or the player's, whichever is larger."""
    return max(of_arm[arm, DISPERSION], of_player[player, NOISE])


def own_share(own, odd):
    """ρ of a pair: an arm's, or for an odd player that of the uniform distribution."""
    return own + odd * (UNLIKE - own)


@out_of_line
def weigh(tables, part):
    """How many single pulls each pair's pulls count as, if only this part of what is players' own is left."""
    of_arm, of_player = tables.of_arm, tables.of_player
    arms, players = tables.pulls.shape
    for arm in range(arms):
        for player in dealt(tables.lane, players):
            n = tables.counted[arm, player]
            own = own_share(of_arm[arm, OWN], of_player[player, ODD])
            if tables.columns.shape[1] > 0:  # what attributes with a missing value would explain is its own too
                _, _, missing = offset_of(arm, player, tables.of_value, tables.columns, tables.weights)
                mean = shifted(of_arm[arm, CENTER], tables.odds[arm, player])
                own = min(own + missing * mean * (1.0 - mean), 0.5)
            strength = 1.0 / (part * own) - 1.0
            tables.effective[arm, player] = n * strength / (n + strength)
    barrier(tables.lane)


@out_of_line
def expect_pairs(tables, groups):
    """Fill pairs' centers, over the groups that their players may belong to, and the variances between those."""
    expected, between = tables.expected, tables.known
    arms, players = tables.pulls.shape
    for arm in range(arms):
        for group in range(groups):
            for player in dealt(tables.lane, players):
                center = shifted(tables.of_arm[arm, CENTER + group], tables.odds[arm, player])
                share = tables.of_player[player, SHARE + group]
                mean, square = (expected[arm, player], between[arm, player]) if group > 0 else (0.0, 0.0)
                expected[arm, player] = mean + share * center
                between[arm, player] = square + share * center * center
        for player in dealt(tables.lane, players):
            between[arm, player] = max(between[arm, player] - expected[arm, player] * expected[arm, player], 0.0)
    barrier(tables.lane)


@out_of_line
def means_of_all(tables):
    """Everybody's mean on each arm, in row `TOWARD`: what the centers of several groups are drawn to."""
    lane, effective = tables.lane, tables.effective
    arms, players = tables.pulls.shape
    for arm in dealt_to_teams(lane, arms):
        total, above = 2.0, 1.0
        for first in by_team(lane, players):
            player = member(lane, first)
            total = in_order(total, effective[arm, player], lane, first)
            above = in_order(above, effective[arm, player] * tables.means[arm, player], lane, first)
        tables.rows[TOWARD, arm] = above / total
    barrier(lane)


@out_of_line
def centers(tables, groups):
    """Each group's center for each arm and its doubt, by a step of scoring on the logit scale.

    Two pulls more are counted: at ½ for one group, at everybody's mean, by `means_of_all`, for several.
    """
    of_arm, means, effective, lane = tables.of_arm, tables.means, tables.effective, tables.lane
    arms, players = tables.pulls.shape
    for number in dealt_to_teams(lane, arms * groups):
        arm, group = number // groups, number % groups
        toward = tables.rows[TOWARD, arm] if groups > 1 else 0.5
        center = of_arm[arm, CENTER + group]
        score, information = 2.0 * (toward - center), 2.0 * center * (1.0 - center)
        for first in by_team(lane, players):
            player = member(lane, first)
            weight = tables.of_player[player, SHARE + group] * effective[arm, player]
            mean = shifted(center, tables.odds[arm, player])
            score = in_order(score, weight * (means[arm, player] - mean), lane, first)
            information = in_order(information, weight * mean * (1.0 - mean), lane, first)
        step = min(max(score / information, -TOO_LARGE), TOO_LARGE)
        center = clip(shifted(center, math.exp(step)), 1e-9)
        at_most = center * (1.0 - center)
        of_arm[arm, CENTER + group] = center
        of_arm[arm, DOUBT + group] = at_most * at_most / (information + at_most)
    barrier(lane)


@out_of_line
def shift_player(tables, player):
    """By what a player's level and attributes shift its means on the logit scale, and multiply its odds."""
    odds = tables.of_player[player, LEVEL]
    level = math.log(odds)
    for arm in range(tables.pulls.shape[0]):
        offset, _, _ = offset_of(arm, player, tables.of_value, tables.columns, tables.weights)
        tables.shift[arm, player] = level + offset
        tables.odds[arm, player] = odds * math.exp(offset) if offset != 0.0 else odds


def offset_of(arm, player, of_value, columns, weights):
    """What a player's attributes do to an arm in all, on the logit scale, and the variance of that.

    The variance comes in two parts: that of estimated effects, and that of values that are missing.
    """
    offset, doubt, missing = 0.0, 0.0, 0.0
    for part in range(columns.shape[1]):
        column, weight = columns[player, part], weights[player, part]
        offset += weight * of_value[EFFECT][arm, column]
        variance = weight * weight * of_value[EFFECT_DOUBT][arm, column]
        if column < columns.shape[1]:
            missing += variance
        else:
            doubt += variance
    return offset, doubt, missing


def evidence_of(variance, precision, value):
    """The logarithm of the likelihood of an estimate, if what is estimated has this variance, against none."""
    ratio = variance * precision
    trust = ratio / (1.0 + ratio)
    return 0.5 * (trust * precision * value * value - math.log(1.0 + ratio))


@out_of_line
def share_out(weights):
    """Divide the weights of `VARIANCES` by their sum."""
    total = 0.0
    for number in range(len(VARIANCES)):
        total += weights[number]
    for number in range(len(VARIANCES)):
        weights[number] /= total


@out_of_line
def averaged(weights, precision, value):
    """An estimate shrunken for each of `VARIANCES`, averaged by their weights, and its variance."""
    mean, square = 0.0, 0.0
    for number in range(len(VARIANCES)):
        variance = VARIANCES[number]
        ratio = variance * precision
        shrunken = ratio / (1.0 + ratio) * value
        mean += weights[number] * shrunken
        square += weights[number] * (variance / (1.0 + ratio) + shrunken * shrunken)
    return mean, max(square - mean * mean, 0.0)


@out_of_line
def tie(rows, arms, choices, lane):
    """Each arm's weights of some choices, in place of the logarithms of their evidence; their sum is not 1.

    Arms share the prior of the choices. It is estimated too, with one arm more that has no preference.
    """
    for arm in dealt(lane, arms):
        highest = -math.inf
        for choice in range(choices):
            highest = max(highest, rows[LIKELIHOOD + choice, arm])
        for choice in range(choices):
            rows[LIKELIHOOD + choice, arm] = math.exp(rows[LIKELIHOOD + choice, arm] - highest)
    for choice in dealt(lane, choices):
        rows[WEIGHT, choice] = 1.0 / choices
    barrier(lane)
    for turn in range(2 * ROUNDS):
        for arm in dealt(lane, arms):
            rows[TOTAL, arm] = 0.0
            for choice in range(choices):
                rows[TOTAL, arm] += rows[WEIGHT, choice] * rows[LIKELIHOOD + choice, arm]
        barrier(lane)
        for choice in dealt(lane, choices):
            total = 1.0 / choices
            for arm in range(arms):
                weight = rows[WEIGHT, choice] * rows[LIKELIHOOD + choice, arm]
                total += weight / rows[TOTAL, arm]
                if turn == 2 * ROUNDS - 1:
                    rows[LIKELIHOOD + choice, arm] = weight
            rows[WEIGHT, choice] = total / (arms + 1.0)
        barrier(lane)
