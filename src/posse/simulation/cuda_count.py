"""What threads of a run on a GPU count: rewards, at once or late; what is forgotten; and regret where means change.

`posse.simulation.kernel` says what it means. Every player's numbers are changed by the player's own thread alone.
"""

import numpy as np

from posse.policies.bound import SCHEDULED, SUMS, fade_own, provided, remember
from posse.policies.state import add_contributions, contribute, turn_of
from posse.policies.statistics import COUNT, SUM
from posse.simulation.cuda_pick import ONE, THREE, TWO
from posse.simulation.cuda_tables import pair_of

BOUND_FOR_EACH_POLICY = True

# Bound for each call: see `posse.simulation.cuda_kernel`.
TIMED = False
barrier = provided
add_to = provided

# A round's rewards are added up in two parts, so that 32 bits hold the sum over half a million players.
PART_BITS = 12
PART = (1 << PART_BITS) - 1


def count(state, counters, arm, pair, reward, constants):
    """Count a pull and its reward, for the player itself and for everybody."""
    add_to(counters, 3 * arm, 1)
    if reward & PART:
        add_to(counters, 3 * arm + 1, reward & PART)
    if reward > PART:
        add_to(counters, 3 * arm + 2, reward >> PART_BITS)
    remember(state.statistics, pair, reward)
    if not (SUMS or SCHEDULED):
        contribute(state, pair, constants)


def clear(counters, lane):
    """Set the counters to zero before the first round."""
    number = lane.number
    while number < counters.size and lane.group == 0:
        counters[number] = 0
        number += lane.lanes
    barrier(lane)


def add_up(state, counters, players, t, lane):
    """Add what was counted in round t to everybody's totals, and form what is shared of the arms."""
    arm = lane.number + lane.lanes * lane.group
    while arm < state.pulled_at.size and lane.group < lane.groups:
        place = np.uint64(arm)
        at = THREE * place
        pulls, low, high = counters[at], counters[at + ONE], np.int64(counters[at + TWO])
        if pulls > 0:
            all_pulls = state.totals[COUNT][place] + pulls
            all_sums = state.totals[SUM][place] + low + (high << PART_BITS)
            state.totals[COUNT][place], state.totals[SUM][place] = all_pulls, all_sums
            state.pulled_at[place] = t
            counters[at], counters[at + ONE], counters[at + TWO] = 0, 0, 0
            if not (SUMS or SCHEDULED):
                add_contributions(state, place, players)
        arm += lane.lanes * lane.groups


def pulls_of(state, own, pair):
    """How often a player pulled an arm, with pulls whose rewards are late or forgotten."""
    return state.statistics[COUNT][pair] + own.uncounted[COUNT][pair] if TIMED else state.statistics[COUNT][pair]


def arrivals(t, clock):
    """How many rounds' rewards arrive at the end of round t."""
    if not TIMED:
        return 1
    return min(clock.batch, max(t - clock.delay, 0)) if t % clock.batch == 0 else 0


def late_place(row, player, players, t, clock):
    """Where a player's late reward lies that is, of those that arrive at the end of round t, the row's one."""
    return np.uint64((t - clock.delay - row) % (clock.delay + clock.batch) * players + player)


def arrived_arm(own, row, player, players, t, clock):
    """The arm of such a reward, or −1."""
    return own.late_arms[late_place(row, player, players, t, clock)] if TIMED else own.arms[np.uint64(player)]


def keep_late(own, arm, player, players, pair, reward, t, clock):
    """Keep a reward of round t, which nobody knows yet."""
    place = late_place(-clock.delay, player, players, t, clock)
    own.late_arms[place], own.late_rewards[place] = arm, reward
    own.uncounted[COUNT][pair] += 1
    own.uncounted[SUM][pair] += reward


def count_late(state, own, counters, player, players, t, clock, constants):
    """Count a player's rewards that arrive at the end of round t."""
    if own.arms[np.uint64(player)] < 0:
        own.late_arms[late_place(-clock.delay, player, players, t, clock)] = -1
    for row in range(arrivals(t, clock) - 1, -1, -1):
        arm = arrived_arm(own, row, player, players, t, clock)
        if arm >= 0:
            pair, reward = pair_of(arm, player, players), own.late_rewards[late_place(row, player, players, t, clock)]
            count(state, counters, arm, pair, reward, constants)
            own.uncounted[COUNT][pair] -= 1
            own.uncounted[SUM][pair] -= reward


def shift_regret(state, own, players, before, after, lane):
    """Keep the regret of all pulls so far what it is, with the gaps that follow."""
    player = lane.number
    while player < players and lane.group == 0:
        for arm in range(state.pulled_at.size):
            pair = pair_of(arm, player, players)
            own.offset[np.uint64(player)] += pulls_of(state, own, pair) * (before[pair] - after[pair])
        player += lane.lanes


def fade_all(state, own, players, step, lane):
    """Forget a step of a half-life of every pair, and keep what is forgotten among the uncounted."""
    player = lane.number
    while player < players and lane.group == 0:
        for arm in range(state.pulled_at.size):
            pair = pair_of(arm, player, players)
            pulls, earned = state.statistics[COUNT][pair], state.statistics[SUM][pair]
            fade_own(state.statistics, pair, turn_of(arm, player, step))
            own.uncounted[COUNT][pair] += pulls - state.statistics[COUNT][pair]
            own.uncounted[SUM][pair] += earned - state.statistics[SUM][pair]
        player += lane.lanes
