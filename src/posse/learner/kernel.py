"""The learner's arithmetic: plain Python on arrays, compiled once for each policy class.

The names in capitals, `index` and `contribution` are bound for each policy by `posse.learner.core`.
"""

from __future__ import annotations

import math

from posse.policies.propensity import draw, fill_propensities
from posse.policies.summaries import due, follows, square
from posse.rewards import GRID
from posse.streams import DECISION, block

# Bound for each policy; the values here only say what they are.
REFRESH_AT_OWN_PULL = True
RANDOMISED = True
OWN_SUMS = False  # the policy has its own `contribution`
SUMMARISED = False  # the policy has a `summary`


def index(n, s, N, S, M, log_T, *constants):
    """The policy's center and scale."""
    return math.nan, math.nan


def contribution(n, s, *constants):
    """What a player adds to an arm's shared sums."""
    return n, s


def summary(pulls, sums, squares, of_arm, of_player, work, *constants):
    """The policy's second stage."""


STEP = 1.0 / GRID
SHIFT = 2.0**-10  # by how much others' mean is moved to see how far a center follows


CENTER, SCALE, WEIGHT, PROBABILITY = 0, 1, 2, 3  # the rows of `out`, one column an arm


def evaluate(pulls, sums, waiting, all_waiting, N, S, of_arm, of_player, M, log_T, constants, out):
    """Fill a player's centers and scales, and the weight of other players' data in each center.

    The weight is d center / d (mean of the others' rewards), so it is 1 where the index follows the others alone.
    """
    for arm in range(pulls.size):
        n, s = pulls[arm] * 1.0, sums[arm] * STEP
        if not RANDOMISED:
            n, s = with_waiting(n, s, waiting[arm])
        if SUMMARISED:
            center, scale = index(n, s, of_arm[arm], of_player, M, log_T, *constants)
            weight = summarised_weight(n, s, center, of_arm[arm], of_player, M, log_T, constants)
        else:
            others_n, others_s = N[arm], S[arm]
            if not (RANDOMISED or OWN_SUMS):
                others_n, others_s = with_waiting(others_n, others_s, all_waiting[arm])
            own, _ = contribution(n, s, *constants)
            center, scale = index(n, s, others_n, others_s, M, log_T, *constants)
            moved, _ = index(n, s, others_n, others_s + SHIFT * (others_n - own), M, log_T, *constants)
            weight = (moved - center) / SHIFT if center < math.inf else 0.0
        out[CENTER, arm], out[SCALE, arm], out[WEIGHT, arm] = center, scale, min(max(weight, 0.0), 1.0)


def summarised_weight(n, s, center, arm, player, M, log_T, constants):
    """How far the center follows the arm's mean over all players, the first of its numbers, beside the player's own."""
    mean = arm[0]
    arm[0] = mean + SHIFT
    by_all = index(n, s, arm, player, M, log_T, *constants)[0] - center
    arm[0] = mean  # to the last bit, which subtracting again might miss
    by_own = index(n, s + SHIFT * n, arm, player, M, log_T, *constants)[0] - center
    return by_all / (by_all + by_own) if by_all + by_own > 0.0 else 0.0


def with_waiting(n, s, waiting):
    """Count and sum as if the pulls still waiting had earned the mean so far, or 1 where there is none yet."""
    mean = s / n if n > 0.0 else 1.0
    return n + waiting, s + waiting * mean


def weigh(available, floor, holdout, out, work):
    """Fill each arm's probability of having the largest index, mixed with floor and holdout; return how many arms."""
    count = 0
    for arm in range(available.size):
        if available[arm]:
            work[0, count], work[1, count] = out[CENTER, arm], out[SCALE, arm]
            count += 1
    fill_propensities(work[0, :count], work[1, :count], work[2, :count], work[3:])
    uniform = holdout / count + (1.0 - holdout) * floor
    rest = (1.0 - holdout) * (1.0 - count * floor)
    count = 0
    for arm in range(available.size):
        out[PROBABILITY, arm] = 0.0
        if available[arm]:
            out[PROBABILITY, arm] = uniform + rest * work[2, count]
            count += 1
    return count


def decide(
    pulls,
    sums,
    waiting,
    all_waiting,
    N,
    S,
    of_arm,
    of_player,
    M,
    log_T,
    constants,
    available,
    floor,
    holdout,
    serial,
    key,
    out,
    work,
):
    """Draw an arm from its exact probabilities; return it, and whether the decision is of the holdout.

    The arm comes first: given the arm, the decision is of the holdout with the share that the holdout has in the
    arm's probability. So a decision is of the holdout with the probability set, and its arm is then uniform.
    """
    evaluate(pulls, sums, waiting, all_waiting, N, S, of_arm, of_player, M, log_T, constants, out)
    count = weigh(available, floor, holdout, out, work)
    high, low, coin, _ = block(0, 0, serial, DECISION, key)
    arm = draw(out[PROBABILITY], (high * 2.0**20 + (low >> 12) + 0.5) * 2.0**-52)
    return arm, (coin + 0.5) * 2.0**-32 * out[PROBABILITY, arm] * count < holdout


def absorb(events, tally, tables, constants):
    """Take in one round's rewards, [player | arm | reward, event]: all counts and sums first, then what players see."""
    players, arms, steps = events[0], events[1], events[2]
    for event in range(players.size):
        player, arm, reward = players[event], arms[event], steps[event]
        tally.pulls[player, arm] += 1
        tally.sums[player, arm] += reward
        tally.squares[player, arm] += square(reward)
        tally.all_pulls[arm] += 1
        tally.all_sums[arm] += reward
    tally.summed[0] += players.size
    if SUMMARISED:
        if due(tally.summed[0], tally.summed[1], tally.pulls.shape[0]):
            share_all(tally, tables, constants)
        else:
            for event in range(players.size):
                player, arm = players[event], arms[event]
                if follows(tally.pulls[player, arm]):
                    tally.own_pulls[player, arm] = tally.pulls[player, arm]
                    tally.own_sums[player, arm] = tally.sums[player, arm]
    else:
        for event in range(players.size):
            share(arms[event], tally, constants)
        if REFRESH_AT_OWN_PULL:
            for event in range(players.size):
                player, arm = players[event], arms[event]
                tally.seen[0, player, arm], tally.seen[1, player, arm] = tally.shared[0, arm], tally.shared[1, arm]


def share(arm, tally, constants):
    """Form an arm's shared sums N and S, those of the policy's own kind anew and in player order."""
    if OWN_SUMS:
        a = 0.0
        b = 0.0
        for player in range(tally.pulls.shape[0]):
            n, s = tally.pulls[player, arm] * 1.0, tally.sums[player, arm] * STEP
            more_a, more_b = contribution(n, s, *constants)
            a += more_a
            b += more_b
        tally.shared[0, arm], tally.shared[1, arm] = a, b
    else:
        tally.shared[0, arm], tally.shared[1, arm] = tally.all_pulls[arm] * 1.0, tally.all_sums[arm] * STEP


def share_all(tally, tables, constants):
    """Form every arm's shared sums, or the summary."""
    if SUMMARISED:
        pulls, sums, squares = tally.pulls.T, tally.sums.T, tally.squares.T
        summary(pulls, sums, squares, tally.of_arm, tally.of_player, tables, *constants)
        tally.summed[1] = tally.summed[0]
        for player in range(tally.pulls.shape[0]):
            for arm in range(tally.pulls.shape[1]):
                tally.own_pulls[player, arm] = tally.pulls[player, arm]
                tally.own_sums[player, arm] = tally.sums[player, arm]
    else:
        for arm in range(tally.all_pulls.size):
            share(arm, tally, constants)
