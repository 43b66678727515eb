"""All of the model, from everybody's statistics: its parts in turns."""

import math

from posse.compile import out_of_line
from posse.policies.bound import barrier, by_team, dealt, dealt_to_teams, in_any_order, in_order, member, players_of
from posse.policies.fourth_root import dispersion_sums
from posse.policies.likeness.effects import effects, first_effects
from posse.policies.likeness.groups import find_groups
from posse.policies.likeness.tables import (
    CENTER,
    COUNTS_HALF,
    DISPERSION,
    FEWEST_PLAYERS,
    FITTED,
    GROUPS,
    HELD,
    LESS,
    LEVEL,
    LEVEL_DOUBT,
    LIKELIHOOD,
    NOISE,
    ODD,
    OWN,
    OWN_AT,
    PRECISION,
    RARE,
    ROUNDS,
    ROWS,
    SHARE,
    STEP_TO,
    STRENGTHS,
    TABLES,
    TOO_LARGE,
    TOTAL,
    UNLIKE,
    UNUSUAL,
    USUAL,
    VARIANCES,
    WEIGHT,
    Tables,
    averaged,
    centers,
    evidence_of,
    expect_pairs,
    means_of_all,
    noise_of,
    offset_of,
    share_out,
    shift_player,
    tie,
    weigh,
)
from posse.policies.statistics import STEP

BOUND_FOR_EACH_POLICY = True

LN_10 = math.log(10.0)


@out_of_line
def estimate(pulls, sums, squares, of_arm, of_player, of_pair, of_value, columns, weights, part_of, log_T, work, lane):
    """Fill `of_arm`, `of_player` and `of_value` from all pairs' counts, sums and sums of squares.

    The three tables of `of_pair` are scratch: what is expected of pairs follows from the rest.
    """
    arms, players = pulls.shape
    end = TABLES * arms
    counted, means, effective = work[:arms], work[arms : 2 * arms], work[2 * arms : 3 * arms]
    shift, odds, rows, scores = (
        work[3 * arms : 4 * arms],
        work[4 * arms : end],
        work[end : end + ROWS],
        work[end + ROWS :],
    )
    known = of_arm, of_player, of_value, columns, weights, part_of
    pairs = counted, means, effective, shift, odds, of_pair[0], of_pair[1], of_pair[2]
    tables = Tables(pulls, *known, *pairs, rows, scores, lane)
    barrier(lane)  # all have seen that it is due
    begin(tables, sums, squares, log_T)
    groups = 1
    for number in range(ROUNDS):
        improve(tables, groups, number == ROUNDS - 1)
    if players_of(lane, players) >= FEWEST_PLAYERS:
        groups = find_groups(tables, 1)
        if groups > 1:  # what groups explain is no longer players' own: look again
            improve(tables, groups, True)
            groups = find_groups(tables, groups)
        odd_players(tables)
    weigh(tables, 1.0)
    if groups > 1:
        means_of_all(tables)
    centers(tables, groups)


@out_of_line
def improve(tables, groups, last):
    """Centers, effects of attributes, what is players' own, and levels, each from the others.

    The last time, with the evidence for each player that it is odd.
    """
    enough = players_of(tables.lane, tables.pulls.shape[1]) >= FEWEST_PLAYERS
    weigh(tables, 1.0)
    if groups > 1:
        means_of_all(tables)
    centers(tables, groups)
    if enough:
        effects(tables, groups)
    expect_pairs(tables, groups)
    compare(tables)
    if last:
        weigh_oddness(tables)
    strengths(tables)
    if enough:
        weigh(tables, 1.0)
        levels(tables)


@out_of_line
def begin(tables, sums, squares, log_T):
    """Pairs' means, dispersions of arms and players, and first values for the rest: one group, no levels, none odd."""
    pulls, of_arm, of_player, rows, lane = tables.pulls, tables.of_arm, tables.of_player, tables.rows, tables.lane
    arms, players = pulls.shape
    first_effects(tables)
    for player in dealt(lane, players + 1):
        of_player[player, NOISE], of_player[player, ODD] = 1.0, 1.0  # for now, numerator and denominator
        of_player[player, LEVEL], of_player[player, LEVEL_DOUBT] = 1.0, 0.0
        for group in range(GROUPS):
            of_player[player, SHARE + group] = 1.0 if group == 0 else 0.0
    above, below = tables.shift, tables.odds  # for now, what pairs add to both
    for arm in range(arms):
        for player in dealt(lane, players):
            n, s = pulls[arm, player] * 1.0, sums[arm, player] * STEP
            tables.means[arm, player] = s / max(n, 1.0)
            above[arm, player], below[arm, player] = dispersion_sums(n, s, squares[arm, player] * STEP)
            of_player[player, NOISE] += above[arm, player]
            of_player[player, ODD] += below[arm, player]
    barrier(lane)
    for arm in dealt_to_teams(lane, arms):
        N, S, tried = 0, 0, 0
        more, rest = 1.0, 1.0
        for first in by_team(lane, players):
            player = member(lane, first)
            N = in_any_order(N, pulls[arm, player], lane, first)
            S = in_any_order(S, sums[arm, player], lane, first)
            tried = in_any_order(tried, 1 if pulls[arm, player] > 0 else 0, lane, first)
        for first in by_team(lane, players):
            player = member(lane, first)
            more = in_order(more, above[arm, player], lane, first)
            rest = in_order(rest, below[arm, player], lane, first)
        of_arm[arm, OWN], of_arm[arm, FITTED], of_arm[arm, CENTER] = 0.04, N * 1.0, (S * STEP + 1.0) / (N + 2.0)
        of_arm[arm, DISPERSION] = min(max(more / rest, 1e-12), 1.0)
        rows[TOTAL, arm] = max(tried - 1, 0)
    for player in dealt(lane, players + 1):
        of_player[player, NOISE] = min(max(of_player[player, NOISE] / of_player[player, ODD], 1e-12), 1.0)
        of_player[player, ODD] = 0.0
    barrier(lane)
    freedom = 0.0
    for arm in range(arms):
        freedom += rows[TOTAL, arm]
    for arm in dealt(lane, arms):
        of_arm[arm, HELD] = held(math.sqrt(2.0 / (9.0 * max(freedom, 1.0))), log_T)
    for arm in range(arms):
        for player in dealt(lane, players):
            tables.counted[arm, player] = pulls[arm, player] / noise_of(arm, player, of_arm, of_player)
    for player in dealt(lane, players):
        shift_player(tables, player)
    barrier(lane)


@out_of_line
def held(looseness, log_T):
    """By what ρ is divided: how small its estimate may be, as a fraction of the true one.

    Few players on few arms say little about how far players differ, and treating different players as alike costs
    regret in proportion to T. So the longer the run, the more standard errors are allowed for: none up to 10⁵ rounds,
    then two errors of χ² (with the quantiles of Wilson and Hilferty) for every power of ten. The looseness is √(2/9k)
    for k degrees of freedom.
    """
    powers = log_T / LN_10 - 5.0
    root = min(max(1.0 - powers * looseness * (looseness + 2.0), 0.1), 1.0)
    return root * root * root


@out_of_line
def compare(tables):
    """How far each pair's mean is from its center, and how much of that its variance explains without what is its own.

    How much it counts as evidence stands in the place of its effective pulls; 0 for a pair of too few pulls.
    """
    of_player, effective, rows, lane = tables.of_player, tables.effective, tables.rows, tables.lane
    arms, players = tables.pulls.shape
    for arm in dealt_to_teams(lane, arms):
        total = 2.0
        for first in by_team(lane, players):
            total = in_order(total, effective[arm, member(lane, first)], lane, first)
        rows[TOTAL, arm] = total
    barrier(lane)
    for arm in range(arms):
        for player in dealt(lane, players):
            n, center, h = tables.counted[arm, player], tables.expected[arm, player], effective[arm, player]
            at_most, away = center * (1.0 - center), tables.means[arm, player] - center
            _, doubt, missing = offset_of(arm, player, tables.of_value, tables.columns, tables.weights)
            between = tables.known[arm, player]
            left = (1.0 - h / rows[TOTAL, arm]) * max(1.0 - h * at_most * doubt, 0.1)  # estimates follow the data
            tables.known[arm, player] = (
                of_player[player, LEVEL_DOUBT] + (doubt + missing)
            ) * at_most + between / at_most
            tables.square[arm, player] = away * away / (at_most * left)
            effective[arm, player] = n * at_most / (n * at_most + COUNTS_HALF) if n > 1.0 else 0.0
    barrier(lane)


@out_of_line
def weigh_oddness(tables):
    """The evidence of each player's means if it is as others are, and if it is odd."""
    rows, lane = tables.rows, tables.lane
    arms, players = tables.pulls.shape
    for player in dealt(lane, players):
        rows[USUAL, player], rows[UNUSUAL, player] = 0.0, 0.0
    for arm in range(arms):
        for player in dealt(lane, players):
            rows[USUAL, player] += evidence_for(tables, arm, player, tables.of_arm[arm, OWN])
            rows[UNUSUAL, player] += evidence_for(tables, arm, player, UNLIKE)
    barrier(lane)


@out_of_line
def strengths(tables):
    """What is players' own of each arm: ρ, averaged over strengths by their evidence.

    The evidence is a normal likelihood with the variance that a beta-binomial count has. Arms share the prior of the
    strengths, which is estimated too: so ρ is tied across arms, but an arm with data of its own goes its own way.
    """
    rows, lane = tables.rows, tables.lane
    arms, players = tables.pulls.shape
    for number in dealt_to_teams(lane, arms * STRENGTHS):
        arm, strength = number // STRENGTHS, number % STRENGTHS
        evidence = 0.0
        for first in by_team(lane, players):
            value = evidence_for(tables, arm, member(lane, first), OWN_AT[strength])
            evidence = in_order(evidence, value, lane, first)
        rows[LIKELIHOOD + strength, arm] = evidence
    barrier(lane)
    tie(rows, arms, STRENGTHS, lane)
    for arm in dealt(lane, arms):
        total, own = 0.0, 0.0
        for strength in range(STRENGTHS):
            weight = rows[LIKELIHOOD + strength, arm]
            total, own = total + weight, own + weight * OWN_AT[strength]
        tables.of_arm[arm, OWN] = own / total
    barrier(lane)


def evidence_for(tables, arm, player, own):
    """The logarithm of the likelihood of a pair's mean for this ρ, as far as it counts, from what `compare` said."""
    n, counts = tables.counted[arm, player], tables.effective[arm, player]
    if counts == 0.0:
        return 0.0
    variance = 1.0 / n + (1.0 - 1.0 / n) * own + tables.known[arm, player]
    return counts * (-0.5 * (math.log(variance * n) + tables.square[arm, player] / variance))


@out_of_line
def levels(tables):
    """Players' levels as odds, and their variances on the logit scale.

    Each takes a step of scoring, shrunken for each of `VARIANCES`; the results are averaged by their evidence.
    """
    of_player, rows, lane = tables.of_player, tables.rows, tables.lane
    arms, players = tables.pulls.shape
    for player in dealt(lane, players):
        rows[STEP_TO, player], rows[PRECISION, player] = 0.0, 0.0  # for now, score and information
    for arm in range(arms):
        for player in dealt(lane, players):
            center, h = tables.expected[arm, player], tables.effective[arm, player]
            rows[STEP_TO, player] += h * (tables.means[arm, player] - center)
            rows[PRECISION, player] += h * center * (1.0 - center)
    for player in dealt(lane, players):
        information = rows[PRECISION, player]
        step = min(max(rows[STEP_TO, player] / (information + 0.5), -TOO_LARGE), TOO_LARGE)
        rows[STEP_TO, player] = math.log(of_player[player, LEVEL]) + step
        rows[TOTAL, player] = information / (1.0 + information)
    barrier(lane)
    weights, middle = 0.0, 0.0
    for first in by_team(lane, players):
        player = member(lane, first)
        weights = in_order(weights, rows[TOTAL, player], lane, first)
        middle = in_order(middle, rows[TOTAL, player] * rows[STEP_TO, player], lane, first)
    middle = middle / weights if weights > 0.0 else 0.0
    for number in range(1, len(VARIANCES)):
        for player in dealt(lane, players):
            level, precision = rows[STEP_TO, player] - middle, rows[PRECISION, player]
            rows[LIKELIHOOD + number, player] = evidence_of(VARIANCES[number], precision, level)
    barrier(lane)
    for number in dealt_to_teams(lane, len(VARIANCES)):
        evidence = 0.0 if number == 0 else LESS
        for first in by_team(lane, players if number > 0 else 0):
            evidence = in_order(evidence, rows[LIKELIHOOD + number, member(lane, first)], lane, first)
        rows[WEIGHT, number] = evidence
    barrier(lane)
    for _ in dealt(lane, 1):
        highest = -math.inf
        for number in range(len(VARIANCES)):
            highest = max(highest, rows[WEIGHT, number])
        for number in range(len(VARIANCES)):
            rows[WEIGHT, number] = math.exp(rows[WEIGHT, number] - highest)
        share_out(rows[WEIGHT])
        _, of_player[players, LEVEL_DOUBT] = averaged(rows[WEIGHT], 0.0, 0.0)
    barrier(lane)
    for player in dealt(lane, players):
        level, doubt = averaged(rows[WEIGHT], rows[PRECISION, player], rows[STEP_TO, player] - middle)
        of_player[player, LEVEL], of_player[player, LEVEL_DOUBT] = math.exp(level), doubt
        shift_player(tables, player)
    barrier(lane)


@out_of_line
def odd_players(tables):
    """How likely each player is to be unlike all others, if one in 10 M is: by its evidence for `UNLIKE`."""
    of_player, rows = tables.of_player, tables.rows
    players = tables.pulls.shape[1]
    for player in dealt(tables.lane, players + 1):
        evidence = rows[UNUSUAL, player] - rows[USUAL, player] if player < players else 0.0
        more = evidence - math.log(RARE * players_of(tables.lane, players))
        more = min(max(more, -50.0), 50.0)  # beyond that it says nothing new
        of_player[player, ODD] = 1.0 / (1.0 + math.exp(-more))
    barrier(tables.lane)
