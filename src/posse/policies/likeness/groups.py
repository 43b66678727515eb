"""Groups of players that behave alike."""

import math

from posse.compile import out_of_line
from posse.policies.bound import barrier, dealt, players_of, plus
from posse.policies.fourth_root import clip
from posse.policies.likeness.tables import (
    CENTER,
    GROUPS,
    LIKELIHOOD,
    LOG,
    LOG_REST,
    ROUNDS,
    SHARE,
    TOTAL,
    WEIGHT,
    WORTH,
    centers,
    expect_pairs,
    shifted,
    weigh,
)

BOUND_FOR_EACH_POLICY = True


@out_of_line
def find_groups(tables, groups):
    """Let players move between groups, add groups as long as one more explains enough, and return how many there are.

    A group explains some of what is players' own, so only half of that is left in while groups are sought.
    """
    of_arm, lane = tables.of_arm, tables.lane
    arms, players = tables.pulls.shape
    weigh(tables, 0.5)
    before = settle(tables, groups)
    while groups < GROUPS:
        expect_pairs(tables, groups)
        seed = worst_fit(tables)
        for arm in dealt(lane, arms):
            h = tables.effective[arm, seed]
            center = (h * tables.means[arm, seed] + 2.0 * tables.expected[arm, seed]) / (h + 2.0)
            of_arm[arm, CENTER + groups] = clip(shifted(center, 1.0 / tables.odds[arm, seed]), 1e-6)
        barrier(lane)
        after = settle(tables, groups + 1)
        if after - before <= WORTH * arms:
            for player in dealt(lane, players + 1):
                tables.of_player[player, SHARE + groups] = 0.0
            settle(tables, groups)
            break
        groups += 1
        before = settle(tables, groups)
    return groups


def worst_fit(tables):
    """The player whose means lie farthest from its centers."""
    rows, lane = tables.rows, tables.lane
    arms, players = tables.pulls.shape
    for player in dealt(lane, players):
        rows[TOTAL, player] = 0.0
    for arm in range(arms):
        for player in dealt(lane, players):
            center = tables.expected[arm, player]
            away = tables.means[arm, player] - center
            rows[TOTAL, player] += tables.effective[arm, player] * away * away / (center * (1.0 - center))
    barrier(lane)
    worst, found = -1.0, 0
    for player in range(players):
        if rows[TOTAL, player] > worst:
            worst, found = rows[TOTAL, player], player
    return found


@out_of_line
def settle(tables, groups):
    """Players' shares of groups and groups' centers, in turns; return the log-likelihood of the mixture.

    A group's proportion is the mean of the players' shares of it, with one player more in each group.
    """
    rows, lane, players = tables.rows, tables.lane, tables.pulls.shape[1]
    for group in dealt(lane, groups):
        rows[WEIGHT, group] = 1.0 / groups
    for player in dealt(lane, players + 1 if groups == 1 else 0):
        tables.of_player[player, SHARE] = 1.0
    barrier(lane)
    for turn in range(ROUNDS + 1):
        if turn > 0:
            centers(tables, groups)
        if groups > 1 or turn == ROUNDS:  # one group has everybody: only its likelihood at the end matters
            share_players(tables, groups)
            for group in dealt(lane, groups):
                total = 1.0
                for player in range(players):
                    total = plus(total, tables.of_player[player, SHARE + group], lane, player)
                tables.of_player[players, SHARE + group] = rows[WEIGHT, group]
                rows[WEIGHT, group] = total / (players_of(lane, players) + groups)
    total = 0.0
    for player in range(players):
        total = plus(total, rows[TOTAL, player], lane, player)
    barrier(lane)
    return total


@out_of_line
def share_players(tables, groups):
    """Each player's shares of groups, and the log-likelihood of its means in row `TOTAL`."""
    of_arm, rows, lane = tables.of_arm, tables.rows, tables.lane
    arms, players = tables.pulls.shape
    for number in dealt(lane, arms * groups):
        arm, group = number // groups, number % groups
        rows[LOG + group, arm] = math.log(of_arm[arm, CENTER + group])
        rows[LOG_REST + group, arm] = math.log(1.0 - of_arm[arm, CENTER + group])
    barrier(lane)
    for group in range(groups):
        for player in dealt(lane, players):
            rows[LIKELIHOOD + group, player] = math.log(rows[WEIGHT, group])
        for arm in range(arms):
            center, log, log_rest = of_arm[arm, CENTER + group], rows[LOG + group, arm], rows[LOG_REST + group, arm]
            for player in dealt(lane, players):
                h, mean, shift = tables.effective[arm, player], tables.means[arm, player], tables.shift[arm, player]
                more = 0.0
                if shift != 0.0:
                    more = shift * mean - math.log(1.0 - center + center * tables.odds[arm, player])
                rows[LIKELIHOOD + group, player] += h * (log * mean + log_rest * (1.0 - mean) + more)
    for player in dealt(lane, players):
        shares, highest = tables.of_player[player, SHARE:], -math.inf
        for group in range(groups):
            highest = max(highest, rows[LIKELIHOOD + group, player])
        whole = 0.0
        for group in range(groups):
            shares[group] = math.exp(rows[LIKELIHOOD + group, player] - highest)
            whole += shares[group]
        for group in range(groups):
            shares[group] /= whole
        rows[TOTAL, player] = highest + math.log(whole)
    barrier(lane)
