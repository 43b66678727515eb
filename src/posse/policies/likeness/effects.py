"""What players' attributes do to arms: crossed random effects on the logit scale."""

import math

from posse.compile import out_of_line
from posse.policies.bound import barrier, dealt, players_of
from posse.policies.likeness.tables import (
    EFFECT,
    EFFECT_DOUBT,
    LIKELIHOOD,
    TOO_LARGE,
    VARIANCES,
    averaged,
    evidence_of,
    expect_pairs,
    share_out,
    tie,
)

BOUND_FOR_EACH_POLICY = True


@out_of_line
def effects(tables, groups):
    """What each value of each part of the attributes does to each arm, on the logit scale, part by part.

    Each takes a step of scoring, shrunken for each of `VARIANCES`; the results are averaged by their evidence, for
    which arms share a prior that is estimated too.
    """
    arms, lane = tables.pulls.shape[0], tables.lane
    for part in range(tables.columns.shape[1]):
        if values_of(tables, part) > 0:
            expect_pairs(tables, groups)
            for arm in dealt(lane, arms):
                score_values(tables, part, arm)
                weigh_variances(tables, part, arm)
            tie(tables.rows, arms, len(VARIANCES), lane)
            for arm in dealt(lane, arms):
                share_out(tables.rows[LIKELIHOOD:, arm])
                shrink_values(tables, part, arm)
            barrier(lane)
            move_players(tables, part)


@out_of_line
def values_of(tables, part):
    """How many values a part has; 0 where it does not count, because it has fewer than two players for each value."""
    values = 0
    for column in range(tables.columns.shape[1], tables.part_of.size):
        values += 1 if tables.part_of[column] == part else 0
    return values if 2 * values <= players_of(tables.lane, tables.pulls.shape[1]) else 0


@out_of_line
def first_effects(tables):
    """Effects as the last estimate had them; none of parts that do not count, or no longer do."""
    for part in range(tables.columns.shape[1]):
        if values_of(tables, part) == 0:
            for arm in dealt(tables.lane, tables.pulls.shape[0]):
                for column in range(tables.part_of.size):
                    if tables.part_of[column] == part:
                        tables.of_value[EFFECT][arm, column], tables.of_value[EFFECT_DOUBT][arm, column] = 0.0, 0.0
    barrier(tables.lane)


@out_of_line
def score_values(tables, part, arm):
    """Score and information of each value's effect on an arm."""
    arms, players = tables.pulls.shape
    for column in range(tables.part_of.size):
        if tables.part_of[column] == part:
            tables.scores[arm, column], tables.scores[arms + arm, column] = 0.0, 0.0
    for player in range(players):
        column, weight = tables.columns[player, part], tables.weights[player, part]
        if column >= tables.columns.shape[1]:
            center, h = tables.expected[arm, player], weight * tables.effective[arm, player]
            tables.scores[arm, column] += h * (tables.means[arm, player] - center)
            tables.scores[arms + arm, column] += weight * h * center * (1.0 - center)


@out_of_line
def weigh_variances(tables, part, arm):
    """Where each value's effect on an arm would step to, in place of its score, and the evidence for each variance."""
    scores, rows, arms = tables.scores, tables.rows, tables.pulls.shape[0]
    for number in range(len(VARIANCES)):
        rows[LIKELIHOOD + number, arm] = 0.0
    for column in range(tables.columns.shape[1], tables.part_of.size):
        if tables.part_of[column] == part:
            information = scores[arms + arm, column]
            step = min(max(scores[arm, column] / (information + 0.5), -TOO_LARGE), TOO_LARGE)
            scores[arm, column] = tables.of_value[EFFECT][arm, column] + step
            for number in range(len(VARIANCES)):
                rows[LIKELIHOOD + number, arm] += evidence_of(VARIANCES[number], information, scores[arm, column])


@out_of_line
def shrink_values(tables, part, arm):
    """Each value's effect on an arm and its doubt, averaged over the variances by their weights.

    How far the effect has moved stands in the place of its score.
    """
    for column in range(tables.part_of.size):
        if tables.part_of[column] == part:
            known = column >= tables.columns.shape[1]
            step = tables.scores[arm, column] if known else 0.0
            precision = tables.scores[tables.pulls.shape[0] + arm, column] if known else 0.0
            effect, doubt = averaged(tables.rows[LIKELIHOOD:, arm], precision, step)
            tables.scores[arm, column] = effect - tables.of_value[EFFECT][arm, column]
            tables.of_value[EFFECT][arm, column], tables.of_value[EFFECT_DOUBT][arm, column] = effect, doubt


@out_of_line
def move_players(tables, part):
    """Move players' means by how far the effects of a part have moved."""
    arms, players = tables.pulls.shape
    for player in dealt(tables.lane, players):
        column, weight = tables.columns[player, part], tables.weights[player, part]
        for arm in range(arms):
            moved = weight * tables.scores[arm, column]
            if moved != 0.0:
                tables.shift[arm, player] += moved
                tables.odds[arm, player] = math.exp(tables.shift[arm, player])
    barrier(tables.lane)
