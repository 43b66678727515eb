"""The round loop on a GPU: a group of threads for each run, a lane for each player (or for several, if many).

What a policy says, what a reward is and who is active come from the functions that the CPU compiles; this file has
only which thread does what, and when threads wait for each other.

Each round has parts with a barrier between them: players look at what others did, pull an arm and count it; for every
arm, one thread adds what the round's players counted to the sums; players look at the sums of the arms they pulled.
"""

import math

import numpy as np
from numba import cuda, int32

from posse.compile import out_of_line
from posse.policies.beta_draw import BLOCKS, beta_draw, is_law
from posse.policies.bound import (
    AT_OWN_PULL,
    BETA,
    IMED,
    RANDOMISED,
    SCHEDULED,
    SHARED_SUMMARY,
    SUMS,
    by_team,
    copy_own,
    expected_at,
    fill_summary,
    in_order,
    index_of,
    member,
    own_of,
    player_of,
    provided,
)
from posse.policies.imed import least_evidence
from posse.policies.refresh import counts_at_once, summary_is_due
from posse.policies.state import add_contributions, contribute, fades_at, shared_now
from posse.policies.statistics import COUNT, SUM
from posse.rewards import draw_reward
from posse.schedule import is_active
from posse.simulation.cuda_count import (
    add_up,
    add_up_contributions,
    arrivals,
    arrived_arm,
    clear,
    count,
    count_late,
    counted,
    fade_all,
    keep_late,
    pulls_of,
    rounds_to_count,
    see,
    shared_as_seen,
    shared_by_now,
    shift_regret,
)
from posse.simulation.cuda_pick import FARTHEST, INFINITY, NEVER, ONE, TWO, ZERO, pick
from posse.simulation.cuda_tables import Lane, lane_in_block, pair_of, round_of
from posse.streams import DRAW, SAMPLE, block

BOUND_FOR_EACH_POLICY = True

# Bound for each call; the values here only say what they are.
IN_A_WARP = True  # a run has a warp, and a block several runs; otherwise a run has a block
COUNTERS_SHARED = True  # the counters of a round fit into shared memory
EVERYBODY = True  # all players are active in every round
ANYTIME = False
TIMED = False  # means change, rewards are late, or the policy forgets
state_of_run = provided  # (states, run): what the policy knows in one run
tables_of_run = provided  # (tables, run): what a run has beside that
state_by_arm = provided  # (state, own): what the policy knows, with tables [arm, player]
barrier = provided  # (lane): wait for all threads of the run
add_to = provided  # (numbers, place, amount): add to a number that other threads add to


def play(states, tables, problems, participation, clock, players, constants):
    """Play some rounds of every run; before the first round, form the indices. constants[0] is not the policy's."""
    if IN_A_WARP:
        run = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        lane = Lane(np.int64(cuda.threadIdx.x), players, 0, 1, (1 << players) - 1, players)
    else:
        run = cuda.blockIdx.x
        lane = lane_in_block(np.int64(cuda.threadIdx.x), np.int64(cuda.blockDim.x), players)
    if run >= tables.key.shape[0] or (IN_A_WARP and lane.number >= players):
        return  # a lane without a player would only be waited for
    state, own = state_of_run(states, np.uint32(run)), tables_of_run(tables, np.uint32(run))
    counters = own.counters
    if COUNTERS_SHARED:
        size = 3 * state.pulled_at.size
        start = size * cuda.threadIdx.y if IN_A_WARP else 2 * cuda.blockDim.x  # after a number of each thread
        counters = cuda.shared.array(0, int32)[start : start + size]
    play_run(state, own, counters, problems, participation, clock, players, constants[1:], lane)


def play_run(state, own, counters, problems, participation, clock, players, constants, lane):
    """Play the rounds of one run, as one of its threads: in stretches, after which something is to be done."""
    key = own.key[0], own.key[1]
    number = np.uint32(own.problem[0])
    segment = 0
    means, gaps = problems.means[number, segment], problems.gaps[number, segment]
    rewards = problems.families[number], problems.parameters[number]
    checkpoint = clock.checkpoint
    upcoming = round_of(clock.checkpoints, checkpoint)
    longest = 1 if TIMED else rounds_to_count(players)
    clear(counters, lane)
    if clock.first == 1:
        begin(state, own, counters, players, constants, log_of(1, clock.log_horizon), lane)
    first = clock.first
    while first <= clock.last:
        while TIMED and segment + 1 < problems.starts.shape[1] and problems.starts[number, segment + 1] <= first:
            segment += 1
            means, old_gaps, gaps = problems.means[number, segment], gaps, problems.gaps[number, segment]
            if problems.starts[number, segment] == first:
                shift_regret(state, own, players, old_gaps, gaps, lane)
        last = min(clock.last, first + longest - 1)
        last = min(last, clock.early) if clock.early >= first else last
        last = min(last, upcoming) if upcoming >= first else last
        for t in range(first, last + 1):
            play_round(state, own, counters, means, rewards, participation, clock, players, constants, key, t, lane)
        add_up(state, counters, lane)
        if TIMED and clock.half_life > 0 and fades_at(last, clock.half_life) > 0:
            step, log_T = fades_at(last, clock.half_life), log_of(last, clock.log_horizon)
            forget(state, own, counters, players, step, constants, log_T, lane)
        if last == clock.early:
            keep(state, own, players, lane)
        if last == upcoming:
            measure(state, own, players, gaps, checkpoint, lane)
            checkpoint += 1
            upcoming = round_of(clock.checkpoints, checkpoint)
        first = last + 1


def play_round(state, own, counters, means, rewards, participation, clock, players, constants, key, t, lane):
    """Play round t."""
    log_T = log_of(t, clock.log_horizon)
    if ANYTIME or not (AT_OWN_PULL or SCHEDULED):
        if ANYTIME:
            barrier(lane)  # other groups look at what was seen in the last round
        refresh_active(state, own, counters, players, participation, t, key, log_T, constants, lane)
        barrier(lane)
    player, pulled = lane.number, -1
    while player < players and lane.group == 0:
        pulled = -1
        if takes_part(player, players, participation, t, key):
            arm, word = choose(state, own, players, player, t, key)
            pair = pair_of(arm, player, players)
            reward = draw_reward(rewards[0], rewards[1], means[pair], word, player, t, key)
            if TIMED:
                keep_late(own, arm, player, players, pair, reward, t, clock)
            else:
                count(state, counters, arm, pair, reward, t, constants)
            pulled = arm
            if not (EVERYBODY or AT_OWN_PULL or SCHEDULED):
                own.refreshed_at[np.uint32(player)] = t - 1
        if TIMED:
            count_late(state, own, counters, pulled, player, players, t, clock, constants)
        if not IN_A_WARP:
            own.arms[np.uint32(player)] = pulled
        player = next_of(player, players, lane)
    barrier(lane)
    if not (SUMS or SCHEDULED):
        add_up_contributions(state, players, t, lane)
    if SCHEDULED:
        summarise(state, own, counters, pulled, players, constants, log_T, t, clock, lane)
    elif AT_OWN_PULL:
        refresh(state, own, counters, pulled, players, constants, log_T, t, clock, lane)
        barrier(lane)  # nobody counts the next round before all have seen this one


def next_of(player, players, lane):
    """The thread's next player. In a warp it has only one, which the compiler can tell from this."""
    return players if IN_A_WARP else player + lane.lanes


def log_of(t, log_horizon):
    """What round t takes for ln T."""
    return math.log(max(t, 2)) if ANYTIME else log_horizon


def takes_part(player, players, participation, t, key):
    """Whether the player is active in round t."""
    if EVERYBODY:
        return True
    probabilities, mask, spans = participation.probabilities, participation.mask, participation.spans
    return is_active(player, players, participation.kind, probabilities, mask, spans, t, key)


def begin(state, own, counters, players, constants, log_T, lane):
    """Form everything that is shared, and every center and scale, before the first round."""
    arms = state.pulled_at.size
    number = 2 * arms * players + lane.number
    while number < own.rough.size:
        own.rough[number] = 0.0 if number % 2 else NEVER
        number += lane.lanes
    if SCHEDULED:
        summarise_all(state, own, players, constants, log_T, lane)
        return
    if not SUMS:
        player = lane.number
        while player < players:
            for arm in range(arms):
                contribute(state, pair_of(arm, player, players), constants)
            player = next_of(player, players, lane)
        barrier(lane)
        arm = lane.number
        while arm < arms:
            add_contributions(state, np.uint32(arm), players)
            arm += lane.lanes
    barrier(lane)
    player = lane.number
    while player < players:
        for arm in range(arms):
            if ANYTIME and AT_OWN_PULL:
                see(state, counters, arm, pair_of(arm, player, players))
            form(state, own, arm, player, players, shared_by_now(state, counters, arm), log_T, constants)
        player = next_of(player, players, lane)
    barrier(lane)  # no player may go on before all groups have seen that nothing was pulled


def forget(state, own, counters, players, step, constants, log_T, lane):
    """Forget a step of a half-life, as `posse.policies.state.fade`, and form every index anew."""
    fade_all(state, own, players, step, lane)
    barrier(lane)
    if lane.number == 0 and lane.group == 0:
        state.summed[0] = 0
        for arm in range(state.pulled_at.size):
            pulls, sums = 0, 0
            for player in range(players):
                pulls += state.statistics[COUNT][pair_of(arm, player, players)]
                sums += state.statistics[SUM][pair_of(arm, player, players)]
            state.totals[COUNT][np.uint32(arm)], state.totals[SUM][np.uint32(arm)] = pulls, sums
            state.summed[0] += pulls
    barrier(lane)
    begin(state, own, counters, players, constants, log_T, lane)


def refresh_active(state, own, counters, players, participation, t, key, log_T, constants, lane):
    """Bring the indices of the round's players up to date, as far as their own pulls did not."""
    player = lane.number
    while player < players:
        if takes_part(player, players, participation, t, key):
            oldest = t - 2 if EVERYBODY else own.refreshed_at[np.uint32(player)]  # whose data the player's indices have
            arm = lane.group
            while arm < state.pulled_at.size:
                if ANYTIME or state.pulled_at[np.uint32(arm)] > oldest:
                    shared = shared_as_seen(state, counters, arm, pair_of(arm, player, players))
                    form(state, own, arm, player, players, shared, log_T, constants)
                arm += lane.groups
        player = next_of(player, players, lane)


def form(state, own, arm, player, players, shared, log_T, constants):
    """Form a pair's center and scale, from this that is shared of the arm; keep both, in single precision too."""
    pair = pair_of(arm, player, players)
    numbers, known = own_of(state.indexed, pair), player_of(state.of_player, np.uint32(player))
    expected = expected_at(state.of_pair, pair)
    center, scale = index_of(numbers, shared, known, expected, players, state.pulled_at.size, log_T, constants)
    own.center[pair], own.scale[pair] = center, scale
    near = False
    if RANDOMISED and not BETA:
        rough_center, rough_scale = np.float32(center), np.float32(scale)
        near = bool(abs(rough_center) + rough_scale < FARTHEST)
        place = np.uint32(TWO * pair)
        own.rough[place] = rough_center if near else INFINITY
        own.rough[np.uint32(place + ONE)] = rough_scale if near else ZERO
    if BETA:
        if not is_law(center, scale):
            own.nan[0] = 1
    elif not near and (math.isnan(center) or math.isnan(scale)):
        own.nan[0] = 1


def refresh(state, own, counters, pulled, players, constants, log_T, t, clock, lane):
    """Bring the indices of the pairs whose rewards came up to date."""
    player = lane.number
    while player < players and lane.group == 0:
        for row in range(arrivals(t, clock)):
            arm = arrived_arm(own, row, pulled, player, players, t, clock)
            if arm >= 0:
                if ANYTIME:
                    see(state, counters, arm, pair_of(arm, player, players))
                else:
                    form(state, own, arm, player, players, shared_by_now(state, counters, arm), log_T, constants)
        player = next_of(player, players, lane)


def summarise(state, own, counters, pulled, players, constants, log_T, t, clock, lane):
    """Make the summary anew if it is due; otherwise let the pulled pairs' indices follow while their pulls are few."""
    pulls = t * players
    if TIMED or not EVERYBODY:
        pulls = 0
        for arm in range(state.pulled_at.size):
            pulls += counted(state, counters, arm)[0]
        barrier(lane)  # nobody counts the next round before all have seen this one
    if summary_is_due(pulls, state.summed[1], players):
        if lane.number == 0 and lane.group == 0:
            state.summed[0] = pulls
        summarise_all(state, own, players, constants, log_T, lane)
        return
    player = lane.number
    while player < players and lane.group == 0:
        for row in range(arrivals(t, clock)):
            arm = arrived_arm(own, row, pulled, player, players, t, clock)
            if arm >= 0 and counts_at_once(state.statistics[COUNT][pair_of(arm, player, players)]):
                copy_own(state.indexed, state.statistics, pair_of(arm, player, players))
                form(state, own, arm, player, players, shared_now(state, np.uint32(arm)), log_T, constants)
        player = next_of(player, players, lane)


@out_of_line
def summarise_all(state, own, players, constants, log_T, lane):
    """Make the summary anew, by all threads or by one, and with it every center and scale."""
    barrier(lane)
    if SHARED_SUMMARY or (lane.number == 0 and lane.group == 0):
        fill_summary(state_by_arm(state, own), log_T, constants, lane)
    if lane.number == 0 and lane.group == 0:
        state.summed[1] = state.summed[0]
    barrier(lane)
    player = lane.number
    while player < players:
        arm = lane.group
        while arm < state.pulled_at.size:
            copy_own(state.indexed, state.statistics, pair_of(arm, player, players))
            form(state, own, arm, player, players, shared_now(state, np.uint32(arm)), log_T, constants)
            arm += lane.groups
        player = next_of(player, players, lane)
    barrier(lane)


def keep(state, own, players, lane):
    """Keep how often each arm was pulled before the last quarter."""
    player = lane.number
    while player < players and lane.group == 0:
        for arm in range(state.pulled_at.size):
            pair = pair_of(arm, player, players)
            own.early[pair] = pulls_of(state, own, pair)
        player = next_of(player, players, lane)


def measure(state, own, players, gaps, checkpoint, lane):
    """Regret so far: each player's in the order of the arms, and their sum in the order of the players."""
    player = lane.number
    while player < players:
        total = own.offset[np.uint32(player)] if TIMED else 0.0
        for arm in range(state.pulled_at.size):
            pair = pair_of(arm, player, players)
            total += pulls_of(state, own, pair) * gaps[pair]
        own.player_regret[player] = total
        player = next_of(player, players, lane)
    barrier(lane)
    total = 0.0
    for first in by_team(lane, players):
        total = in_order(total, own.player_regret[member(lane, first)], lane, first)
    own.regret[checkpoint] = total


def choose(state, own, players, player, t, key):
    """The arm that the player pulls, and the random word of its reward."""
    arms = state.pulled_at.size
    if RANDOMISED and not BETA:
        return pick(own, arms, players, player, t, key)
    word, _, _, _ = block(0, player, t, DRAW, key)
    if BETA:
        return best_by_beta(state, own, players, player, t, key), word
    if IMED:
        return least_evidence(own.center[player::players], own.scale[player::players]), word
    return largest(own, arms, players, player), word


def largest(own, arms, players, player):
    """The arm with the largest center, the lowest of several."""
    best = 0
    best_center = own.center[np.uint32(player)]
    for arm in range(1, arms):
        center = own.center[pair_of(arm, player, players)]
        best = arm if center > best_center else best
        best_center = max(best_center, center)
    return best


def best_by_beta(state, own, players, player, t, key):
    """The arm with the largest index where indices are Beta draws, the one that `posse.simulation.pick_beta` finds."""
    first = 0
    most = state.statistics[COUNT][np.uint32(player)]
    for arm in range(state.pulled_at.size):
        pulls = state.statistics[COUNT][pair_of(arm, player, players)]
        first = arm if pulls > most else first
        most = max(most, pulls)
    best = first
    highest = beta_index(own, first, players, player, -math.inf, t, key)
    for arm in range(state.pulled_at.size):
        if arm != first:
            value = beta_index(own, arm, players, player, highest, t, key)
            best = arm if value > highest else best
            highest = max(highest, value)
    return best


def beta_index(own, arm, players, player, floor, t, key):
    """The index of an arm if it is above the floor, else anything up to the floor."""
    pair, words = pair_of(arm, player, players), block(arm * BLOCKS, player, t, SAMPLE, key)
    return beta_draw(own.center[pair], own.scale[pair], floor, words, arm, player, t, key)
