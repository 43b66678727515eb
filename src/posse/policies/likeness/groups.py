"""Groups of players that behave alike."""

import math

from posse.compile import out_of_line
from posse.policies.fourth_root import clip
from posse.policies.likeness.tables import (
    CENTER,
    GROUPS,
    LOG,
    LOG_REST,
    ROUNDS,
    SHARE,
    WEIGHT,
    WORTH,
    centers,
    expected,
    shifted,
    weigh,
)


@out_of_line
def find_groups(tables, groups):
    """Let players move between groups, add groups as long as one more explains enough, and return how many there are.

    A group explains some of what is players' own, so only half of that is left in while groups are sought.
    """
    of_arm = tables.of_arm
    arms, players = tables.means.shape
    weigh(tables, 0.5)
    before = settle(tables, groups)
    while groups < GROUPS:
        seed = worst_fit(tables, groups)
        for arm in range(arms):
            center, _ = expected(tables, arm, seed, groups)
            h = tables.effective[arm, seed]
            center = (h * tables.means[arm, seed] + 2.0 * center) / (h + 2.0)
            of_arm[arm, CENTER + groups] = clip(shifted(center, 1.0 / tables.odds[arm, seed]), 1e-6)
        after = settle(tables, groups + 1)
        if after - before <= WORTH * arms:
            for player in range(players + 1):
                tables.of_player[player, SHARE + groups] = 0.0
            settle(tables, groups)
            break
        groups += 1
        before = settle(tables, groups)
    return groups


def worst_fit(tables, groups):
    """The player whose means lie farthest from its centers."""
    arms, players = tables.means.shape
    worst, found = -1.0, 0
    for player in range(players):
        misfit = 0.0
        for arm in range(arms):
            center, _ = expected(tables, arm, player, groups)
            away = tables.means[arm, player] - center
            misfit += tables.effective[arm, player] * away * away / (center * (1.0 - center))
        if misfit > worst:
            worst, found = misfit, player
    return found


@out_of_line
def settle(tables, groups):
    """Players' shares of groups and groups' centers, in turns; return the log-likelihood of the mixture.

    A group's proportion is the mean of the players' shares of it, with one player more in each group.
    """
    of_arm, of_player, rows = tables.of_arm, tables.of_player, tables.rows
    arms, players = tables.means.shape
    for group in range(groups):
        rows[WEIGHT, group] = 1.0 / groups
    total = 0.0
    for turn in range(ROUNDS + 1):
        if turn > 0:
            centers(tables, groups)
        for group in range(groups):
            rows[WEIGHT, GROUPS + group] = 1.0
            for arm in range(arms):
                rows[LOG + group, arm] = math.log(of_arm[arm, CENTER + group])
                rows[LOG_REST + group, arm] = math.log(1.0 - of_arm[arm, CENTER + group])
        total = 0.0
        for player in range(players):
            highest = -math.inf
            for group in range(groups):
                fit = math.log(rows[WEIGHT, group])
                for arm in range(arms):
                    h, mean, shift = tables.effective[arm, player], tables.means[arm, player], tables.shift[arm, player]
                    if h > 0.0:
                        more = 0.0
                        if shift != 0.0:
                            center = of_arm[arm, CENTER + group]
                            more = shift * mean - math.log(1.0 - center + center * tables.odds[arm, player])
                        fit += h * (rows[LOG + group, arm] * mean + rows[LOG_REST + group, arm] * (1.0 - mean) + more)
                of_player[player, SHARE + group] = fit
                highest = max(highest, fit)
            whole = 0.0
            for group in range(groups):
                of_player[player, SHARE + group] = math.exp(of_player[player, SHARE + group] - highest)
                whole += of_player[player, SHARE + group]
            for group in range(groups):
                of_player[player, SHARE + group] /= whole
                rows[WEIGHT, GROUPS + group] += of_player[player, SHARE + group]
            total += highest + math.log(whole)
        for group in range(groups):
            of_player[players, SHARE + group] = rows[WEIGHT, group]
            rows[WEIGHT, group] = rows[WEIGHT, GROUPS + group] / (players + groups)
    return total
