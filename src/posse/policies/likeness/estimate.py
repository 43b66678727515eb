"""All of the model, from everybody's statistics: its parts in turns."""

import math

from posse.compile import out_of_line
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
    UNUSUAL,
    USUAL,
    VARIANCES,
    WEIGHT,
    Tables,
    averaged,
    centers,
    evidence_of,
    expected,
    noise_of,
    offset_of,
    share_out,
    shift_player,
    tie,
    weigh,
)
from posse.policies.statistics import STEP

LN_10 = math.log(10.0)


@out_of_line
def estimate(pulls, sums, squares, of_arm, of_player, of_value, columns, weights, part_of, log_T, work):
    """Fill `of_arm`, `of_player` and `of_value` from all pairs' counts, sums and sums of squares."""
    arms, players = pulls.shape
    end = TABLES * arms
    means, effective = work[:arms, :players], work[arms : 2 * arms, :players]
    shift, odds = work[2 * arms : 3 * arms, :players], work[3 * arms : end, :players]
    rows, scores = work[end : end + ROWS], work[end + ROWS :]
    known = of_arm, of_player, of_value, columns, weights, part_of
    tables = Tables(pulls, *known, means, effective, shift, odds, rows, scores)
    freedom = begin(tables, sums, squares)
    groups = 1
    for _ in range(ROUNDS):
        improve(tables, groups)
    if players >= FEWEST_PLAYERS:
        groups = find_groups(tables, 1)
        if groups > 1:  # what groups explain is no longer players' own: look again
            improve(tables, groups)
            groups = find_groups(tables, groups)
        odd_players(tables)
    weigh(tables, 1.0)
    centers(tables, groups)
    for arm in range(arms):
        of_arm[arm, HELD] = held(math.sqrt(2.0 / (9.0 * max(freedom, 1))), log_T)


@out_of_line
def improve(tables, groups):
    """Centers, effects of attributes, what is players' own, and levels, each from the others."""
    weigh(tables, 1.0)
    centers(tables, groups)
    if tables.pulls.shape[1] >= FEWEST_PLAYERS:
        effects(tables, groups)
    strengths(tables, groups)
    if tables.pulls.shape[1] >= FEWEST_PLAYERS:
        weigh(tables, 1.0)
        levels(tables, groups)


@out_of_line
def begin(tables, sums, squares):
    """Pairs' means, dispersions of arms and players, and first values for the rest: one group, no levels, none odd.

    Return the degrees of freedom that ρ is estimated with.
    """
    pulls, of_arm, of_player = tables.pulls, tables.of_arm, tables.of_player
    arms, players = pulls.shape
    freedom = 0
    first_effects(tables)
    for player in range(players + 1):
        of_player[player, NOISE], of_player[player, ODD] = 1.0, 1.0  # for now, numerator and denominator
        of_player[player, LEVEL], of_player[player, LEVEL_DOUBT] = 1.0, 0.0
        for group in range(GROUPS):
            of_player[player, SHARE + group] = 1.0 if group == 0 else 0.0
    for arm in range(arms):
        above, below, N, S = 1.0, 1.0, 0.0, 0.0
        tried = 0
        for player in range(players):
            n, s = pulls[arm, player] * 1.0, sums[arm, player] * STEP
            tables.means[arm, player] = s / max(n, 1.0)
            tables.shift[arm, player], tables.odds[arm, player] = 0.0, 1.0
            N, S = N + n, S + s
            tried += 1 if n > 0.0 else 0
            more, rest = dispersion_sums(n, s, squares[arm, player] * STEP)
            above, below = above + more, below + rest
            of_player[player, NOISE] += more
            of_player[player, ODD] += rest
        freedom += max(tried - 1, 0)
        of_arm[arm, OWN], of_arm[arm, FITTED], of_arm[arm, CENTER] = 0.04, N, (S + 1.0) / (N + 2.0)
        of_arm[arm, DISPERSION] = min(max(above / below, 1e-12), 1.0)
    for player in range(players + 1):
        of_player[player, NOISE] = min(max(of_player[player, NOISE] / of_player[player, ODD], 1e-12), 1.0)
        of_player[player, ODD] = 0.0
        if player < players:
            shift_player(tables, player)
    return freedom


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
def strengths(tables, groups):
    """What is players' own of each arm: ρ, averaged over strengths by their evidence.

    The evidence is a normal likelihood with the variance that a beta-binomial count has. Arms share the prior of the
    strengths, which is estimated too: so ρ is tied across arms, but an arm with data of its own goes its own way.
    """
    of_arm, of_player, effective, rows = tables.of_arm, tables.of_player, tables.effective, tables.rows
    arms, players = tables.means.shape
    for player in range(players):
        rows[USUAL, player], rows[UNUSUAL, player] = 0.0, 0.0
    for arm in range(arms):
        total = 2.0
        for player in range(players):
            total += effective[arm, player]
        for strength in range(STRENGTHS):
            rows[LIKELIHOOD + strength, arm] = 0.0  # its logarithm, for now
        for player in range(players):
            n = tables.pulls[arm, player] / noise_of(arm, player, of_arm, of_player)
            if n > 1.0:
                center, between = expected(tables, arm, player, groups)
                at_most = center * (1.0 - center)
                _, doubt, missing = offset_of(arm, player, tables.of_value, tables.columns, tables.weights)
                known = (of_player[player, LEVEL_DOUBT] + (doubt + missing)) * at_most + between / at_most
                away, h = tables.means[arm, player] - center, effective[arm, player]
                left = (1.0 - h / total) * max(1.0 - h * at_most * doubt, 0.1)  # centers and effects follow the data
                square = away * away / (at_most * left)
                counts = n * at_most / (n * at_most + COUNTS_HALF)
                for strength in range(STRENGTHS):
                    fit = counts * log_normal(n, OWN_AT[strength], known, square)
                    rows[LIKELIHOOD + strength, arm] += fit
                    rows[UNUSUAL, player] += fit if strength == 0 else 0.0
                rows[USUAL, player] += counts * log_normal(n, of_arm[arm, OWN], known, square)
    tie(rows, arms, STRENGTHS)
    for arm in range(arms):
        total, own = 0.0, 0.0
        for strength in range(STRENGTHS):
            weight = rows[LIKELIHOOD + strength, arm]
            total, own = total + weight, own + weight * OWN_AT[strength]
        of_arm[arm, OWN] = own / total


def log_normal(n, own, known, square):
    """The logarithm of the likelihood of a pair's mean, its square distance to the center given in units of c (1−c)."""
    variance = 1.0 / n + (1.0 - 1.0 / n) * own + known
    return -0.5 * (math.log(variance * n) + square / variance)


@out_of_line
def levels(tables, groups):
    """Players' levels as odds, and their variances on the logit scale.

    Each takes a step of scoring, shrunken for each of `VARIANCES`; the results are averaged by their evidence.
    """
    of_player, rows = tables.of_player, tables.rows
    arms, players = tables.means.shape
    weights, middle = 0.0, 0.0
    for player in range(players):
        score, information = 0.0, 0.0
        for arm in range(arms):
            center, _ = expected(tables, arm, player, groups)
            score += tables.effective[arm, player] * (tables.means[arm, player] - center)
            information += tables.effective[arm, player] * center * (1.0 - center)
        step = min(max(score / (information + 0.5), -TOO_LARGE), TOO_LARGE)
        rows[STEP_TO, player] = math.log(of_player[player, LEVEL]) + step
        rows[PRECISION, player] = information
        weights += information / (1.0 + information)
        middle += information / (1.0 + information) * rows[STEP_TO, player]
    middle = middle / weights if weights > 0.0 else 0.0
    highest = -math.inf
    for number in range(len(VARIANCES)):
        evidence = 0.0 if number == 0 else LESS
        for player in range(players):
            level = rows[STEP_TO, player] - middle
            evidence += evidence_of(VARIANCES[number], rows[PRECISION, player], level)
        rows[WEIGHT, number] = evidence
        highest = max(highest, evidence)
    for number in range(len(VARIANCES)):
        rows[WEIGHT, number] = math.exp(rows[WEIGHT, number] - highest)
    share_out(rows[WEIGHT])
    for player in range(players):
        level, doubt = averaged(rows[WEIGHT], rows[PRECISION, player], rows[STEP_TO, player] - middle)
        of_player[player, LEVEL], of_player[player, LEVEL_DOUBT] = math.exp(level), doubt
        shift_player(tables, player)
    _, of_player[players, LEVEL_DOUBT] = averaged(rows[WEIGHT], 0.0, 0.0)


def odd_players(tables):
    """How likely each player is to be unlike all others, if one in 10 M is: by its evidence for `UNLIKE`."""
    of_player, rows = tables.of_player, tables.rows
    players = of_player.shape[0] - 1
    for player in range(players + 1):
        evidence = rows[UNUSUAL, player] - rows[USUAL, player] if player < players else 0.0
        more = evidence - math.log(RARE * players)
        of_player[player, ODD] = 1.0 / (1.0 + math.exp(-clip_size(more)))


def clip_size(x):
    """x, at most 50 in size: more than that says nothing new."""
    return min(max(x, -50.0), 50.0)
