"""Groups of players that behave alike."""

import math

from posse.compile import out_of_line
from posse.policies.bound import barrier, by_team, dealt, dealt_to_teams, member, players_of, plus
from posse.policies.fourth_root import clip
from posse.policies.likeness.tables import (
    CANDIDATES,
    CENTER,
    GROUPS,
    LIKELIHOOD,
    LOG,
    LOG_REST,
    PRECISION,
    SHARE,
    STEP_TO,
    TOTAL,
    TURNS,
    WEIGHT,
    WORTH,
    centers,
    expect_pairs,
    means_of_all,
    shifted,
    weigh,
)

BOUND_FOR_EACH_POLICY = True

PART = 64  # players that one thread looks through


@out_of_line
def find_groups(tables, groups):
    """Let players move between groups, add groups as long as one more explains enough, and return how many there are.

    A group explains some of what is players' own, so only half of that is left in while groups are sought.
    """
    lane = tables.lane
    arms, players = tables.pulls.shape
    weigh(tables, 0.5)
    means_of_all(tables)
    before = settle(tables, groups)
    while groups < GROUPS:
        expect_pairs(tables, groups)
        begin_group(tables, groups, first_member(tables, groups))
        after = settle(tables, groups + 1)
        if after - before <= WORTH * arms:
            for player in dealt(lane, players + 1):
                tables.of_player[player, SHARE + groups] = 0.0
            settle(tables, groups)
            break
        groups += 1
        before = settle(tables, groups)
    return groups


@out_of_line
def first_member(tables, groups):
    """Who a further group begins with: of the players who fit worst, the one with whom the mixture is most likely."""
    rows, lane = tables.rows, tables.lane
    misfits(tables)
    for group in dealt(lane, groups + 1):
        rows[WEIGHT, group] = 1.0 / (groups + 1)
    barrier(lane)
    highest, best = -math.inf, 0
    player = -1
    for _ in range(CANDIDATES):
        player = next_misfit(tables, player)
        if player < 0 or rows[STEP_TO, player] <= 0.0:  # there is nobody left with data
            break
        begin_group(tables, groups, player)
        share_players(tables, groups + 1)
        total = likelihood(tables)
        if total > highest:
            highest, best = total, player
    return best


@out_of_line
def misfits(tables):
    """How far each player's means lie from its centers, in row `STEP_TO`."""
    rows, lane = tables.rows, tables.lane
    arms, players = tables.pulls.shape
    for player in dealt(lane, players):
        rows[STEP_TO, player] = 0.0
    for arm in range(arms):
        for player in dealt(lane, players):
            center = tables.expected[arm, player]
            away = tables.means[arm, player] - center
            rows[STEP_TO, player] += tables.effective[arm, player] * away * away / (center * (1.0 - center))
    barrier(lane)


@out_of_line
def next_misfit(tables, before):
    """The player who fits worst after player `before`, or worst of all after −1; −1 if there is none."""
    rows, lane, players = tables.rows, tables.lane, tables.pulls.shape[1]
    last = rows[STEP_TO, before] if before >= 0 else math.inf
    parts = (players + PART - 1) // PART
    for part in dealt(lane, parts):
        worst, found = -1.0, -1
        for player in range(part * PART, min(part * PART + PART, players)):
            misfit = rows[STEP_TO, player]
            if misfit > worst and (misfit < last or (misfit == last and player > before)):
                worst, found = misfit, player
        rows[TOTAL, part] = found
    barrier(lane)
    worst, found = -1.0, -1
    for part in range(parts):
        player = int(rows[TOTAL, part])
        if player >= 0 and rows[STEP_TO, player] > worst:
            worst, found = rows[STEP_TO, player], player
    barrier(lane)  # all have read what the next step writes over
    return found


@out_of_line
def begin_group(tables, group, player):
    """Centers of a further group: a player's means, with two pulls more that are as expected of it."""
    for arm in dealt(tables.lane, tables.pulls.shape[0]):
        h = tables.effective[arm, player]
        center = (h * tables.means[arm, player] + 2.0 * tables.expected[arm, player]) / (h + 2.0)
        tables.of_arm[arm, CENTER + group] = clip(shifted(center, 1.0 / tables.odds[arm, player]), 1e-6)
    barrier(tables.lane)


@out_of_line
def likelihood(tables):
    """The log-likelihood of the mixture, from what `share_players` said of each player."""
    rows, lane = tables.rows, tables.lane
    for _ in dealt_to_teams(lane, 1):
        total = 0.0
        for first in by_team(lane, tables.pulls.shape[1]):
            total = plus(total, rows[TOTAL, member(lane, first)], lane, first)
        rows[PRECISION, 1] = total
    barrier(lane)
    return rows[PRECISION, 1]


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
    for turn in range(TURNS):
        if turn > 0:
            centers(tables, groups)
        if groups > 1 or turn == TURNS - 1:  # one group has everybody: only its likelihood at the end matters
            share_players(tables, groups)
            for group in dealt_to_teams(lane, groups):
                before, total = rows[WEIGHT, group], 1.0
                for first in by_team(lane, players):
                    total = plus(total, tables.of_player[member(lane, first), SHARE + group], lane, first)
                tables.of_player[players, SHARE + group] = before
                rows[WEIGHT, group] = total / (players_of(lane, players) + groups)
    return likelihood(tables)


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
