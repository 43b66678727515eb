"""What threads of a run on a GPU count: rewards, at once or late; what is forgotten; and regret where means change.

`posse.simulation.kernel` says what it means. Every player's numbers are changed by the player's own thread alone.
"""

import numpy as np

from posse.policies.bound import AT_OWN_PULL, SCHEDULED, SUMS, fade_own, numbers_at, provided, put_numbers, remember
from posse.policies.state import add_contributions, contribute, shared_now, turn_of
from posse.policies.statistics import COUNT, STEP, SUM
from posse.simulation.cuda_tables import pair_of

BOUND_FOR_EACH_POLICY = True

# Bound for each call: see `posse.simulation.cuda_kernel`.
IN_A_WARP = True
TIMED = False
barrier = provided
add_to = provided

# Rewards are added up in two parts, so that 32 bits hold the sum of half a million. Before there may be more, what was
# counted is added to the totals.
PART_BITS = 12
PART = (1 << PART_BITS) - 1
MOST_COUNTED = (1 << 19) - 1


def count(state, counters, arm, pair, reward, t, constants):
    """Count a pull and its reward in round t, for the player itself and for everybody."""
    add_to(counters, 3 * arm, 1)
    if reward & PART:
        add_to(counters, 3 * arm + 1, reward & PART)
    if reward > PART:
        add_to(counters, 3 * arm + 2, reward >> PART_BITS)
    remember(state.statistics, pair, reward)
    if not (SUMS or SCHEDULED):
        contribute(state, pair, constants)
    if not (SCHEDULED or (SUMS and AT_OWN_PULL)):
        state.pulled_at[np.uint32(arm)] = t


def clear(counters, lane):
    """Set the counters to zero before the first round."""
    number = lane.number
    while number < counters.size and lane.group == 0:
        counters[number] = 0
        number += lane.lanes
    barrier(lane)


def counted(state, counters, arm):
    """Everybody's pulls of an arm and the sum of their rewards."""
    pulls, low = counters[np.uint32(3 * arm)], counters[np.uint32(3 * arm + 1)]
    high = np.int64(counters[np.uint32(3 * arm + 2)])
    place = np.uint32(arm)
    return state.totals[COUNT][place] + pulls, state.totals[SUM][place] + low + (high << PART_BITS)


def shared_by_now(state, counters, arm):
    """What is shared of an arm at this moment, as `posse.policies.state.shared_now`."""
    if SUMS:
        pulls, sums = counted(state, counters, arm)
        return pulls * 1.0, sums * STEP
    return shared_now(state, np.uint32(arm))


def shared_as_seen(state, counters, arm, pair):
    """What is shared of an arm, as the player sees it."""
    if AT_OWN_PULL:
        return numbers_at(state.seen, pair)
    return shared_by_now(state, counters, arm)


def see(state, counters, arm, pair):
    """Let a player see what is shared of an arm."""
    put_numbers(state.seen, pair, shared_by_now(state, counters, arm))


def rounds_to_count(players):
    """After how many rounds, at the latest, what was counted is to be added to the totals."""
    return max(1, MOST_COUNTED // players)


def add_up(state, counters, lane):
    """Add what was counted to the totals."""
    barrier(lane)
    arm = lane.number + lane.lanes * lane.group
    while arm < state.pulled_at.size and lane.group < lane.groups:
        pulls, sums = counted(state, counters, arm)
        state.totals[COUNT][np.uint32(arm)], state.totals[SUM][np.uint32(arm)] = pulls, sums
        counters[3 * arm], counters[3 * arm + 1], counters[3 * arm + 2] = 0, 0, 0
        arm += lane.lanes * lane.groups
    barrier(lane)


def add_up_contributions(state, players, t, lane):
    """Form what is shared of the arms that were pulled in round t, where it is not the totals."""
    arm = lane.number + lane.lanes * lane.group
    while arm < state.pulled_at.size and lane.group < lane.groups:
        if state.pulled_at[np.uint32(arm)] == t:
            add_contributions(state, np.uint32(arm), players)
        arm += lane.lanes * lane.groups
    barrier(lane)


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
    return np.uint32((t - clock.delay - row) % (clock.delay + clock.batch) * players + player)


def arrived_arm(own, row, pulled, player, players, t, clock):
    """The arm of such a reward, or −1."""
    if TIMED:
        return own.late_arms[late_place(row, player, players, t, clock)]
    return pulled if IN_A_WARP else own.arms[np.uint32(player)]


def keep_late(own, arm, player, players, pair, reward, t, clock):
    """Keep a reward of round t, which nobody knows yet."""
    place = late_place(-clock.delay, player, players, t, clock)
    own.late_arms[place], own.late_rewards[place] = arm, reward
    own.uncounted[COUNT][pair] += 1
    own.uncounted[SUM][pair] += reward


def count_late(state, own, counters, pulled, player, players, t, clock, constants):
    """Count the rewards that arrive at the end of round t of a player that pulled this arm in it, or −1 if none."""
    if pulled < 0:
        own.late_arms[late_place(-clock.delay, player, players, t, clock)] = -1
    for row in range(arrivals(t, clock) - 1, -1, -1):
        arm = arrived_arm(own, row, pulled, player, players, t, clock)
        if arm >= 0:
            pair, reward = pair_of(arm, player, players), own.late_rewards[late_place(row, player, players, t, clock)]
            count(state, counters, arm, pair, reward, t, constants)
            own.uncounted[COUNT][pair] -= 1
            own.uncounted[SUM][pair] -= reward


def shift_regret(state, own, players, before, after, lane):
    """Keep the regret of all pulls so far what it is, with the gaps that follow."""
    player = lane.number
    while player < players and lane.group == 0:
        for arm in range(state.pulled_at.size):
            pair = pair_of(arm, player, players)
            own.offset[np.uint32(player)] += pulls_of(state, own, pair) * (before[pair] - after[pair])
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
