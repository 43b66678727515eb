"""The round loop on a GPU: a group of threads for each run, a lane for each player (or for several, if many).

What a policy says, what a reward is and who is active come from the functions that the CPU compiles; this file has
only what differs: who does what, and when they wait for each other.

Each round has parts with a barrier between them: players look at what others did, pull an arm and count it; for every
arm, one thread adds what the round's players counted to the sums; players look at the sums of the arms they pulled.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, int32

from posse.policies.summaries import due, follows, square
from posse.rewards import draw_reward
from posse.schedule import is_active
from posse.simulation.cuda_pick import BOUNDS, BOUNDS_SIZE, NEVER, ONE, THREE, TWO, pick
from posse.simulation.cuda_tables import (
    Place,
    of_run,
    pair_of,
    place_in_block,
    round_of,
    summaries_of_run,
    total_of,
)
from posse.simulation.kernel import (
    OWN_SUMS,
    RANDOMISED,
    REFRESH_AT_OWN_PULL,
    SAMPLED,
    STEP,
    SUMMARISED,
    contribution,
    index,
    sample,
    summary,
    trial,
)
from posse.simulation.sampling import BLOCKS
from posse.streams import DRAW, SAMPLE, block

# Bound for each call; the values here only say what they are.
IN_A_WARP = True  # a run has a warp, and a block several runs; otherwise a run has a block
COUNTERS_SHARED = True  # the counters of a round fit into shared memory
EVERYBODY = True  # all players are active in every round
ANYTIME = False


# A round's rewards are added up in two parts, so that 32 bits hold the sum over half a million players.
PART_BITS = 12
PART = (1 << PART_BITS) - 1


def barrier(place):
    """Wait for all threads of the run; bound to one of the next two."""


def wait_for_warp(place):
    """The barrier of runs that have a warp each."""
    cuda.syncwarp(place.mask)


def wait_for_block(place):
    """The barrier of runs that have a block each."""
    cuda.syncthreads()


def add_to(numbers, place, amount):
    """Add to a number that other threads add to; bound to the next one."""


def add_atomically(numbers, place, amount):
    """`add_to` on a GPU."""
    cuda.atomic.add(numbers, place, np.int32(amount))


def play(tables, summaries, problems, participation, clock, players, constants):
    """Play some rounds of every run; before the first round, form the indices. constants[0] is not the policy's."""
    bounds = cuda.shared.array(BOUNDS_SIZE, np.float32)
    number = cuda.threadIdx.x + cuda.blockDim.x * cuda.threadIdx.y
    while number < BOUNDS_SIZE:
        bounds[number] = BOUNDS[number]
        number += cuda.blockDim.x * cuda.blockDim.y
    cuda.syncthreads()
    if IN_A_WARP:
        run = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        place = Place(np.int64(cuda.threadIdx.x), players, 0, 1, (1 << players) - 1)
    else:
        run = cuda.blockIdx.x
        place = place_in_block(np.int64(cuda.threadIdx.x), np.int64(cuda.blockDim.x), players)
    if run >= tables.key.shape[0] or (IN_A_WARP and place.lane >= players):
        return  # a lane without a player would only be waited for
    own = of_run(tables, run)
    extra = summaries_of_run(summaries, run)
    counters = own.counters
    if COUNTERS_SHARED:
        size = 3 * own.all_pulls.size
        start = size * cuda.threadIdx.y if IN_A_WARP else 0
        counters = cuda.shared.array(0, int32)[start : start + size]
    play_run(own, extra, counters, problems, participation, clock, players, constants[1:], bounds, place)


def play_run(own, extra, counters, problems, participation, clock, players, constants, bounds, place):
    """Play the rounds of one run, as one of its threads."""
    key = own.key[0], own.key[1]
    number = own.problem[0]
    means, gaps = problems.means[number], problems.gaps[number]
    family, parameter = problems.families[number], problems.parameters[number]
    checkpoint = clock.checkpoint
    upcoming = round_of(clock.checkpoints, checkpoint)
    clear(counters, place)
    if clock.first == 1:
        begin(own, extra, players, constants, log_of(1, clock.log_horizon), place)
    for t in range(clock.first, clock.last + 1):
        log_T = log_of(t, clock.log_horizon)
        if ANYTIME or not REFRESH_AT_OWN_PULL:
            if ANYTIME:
                barrier(place)  # other groups look at what was seen in the last round
            look(own, extra, players, participation, t, key, log_T, constants, place)
            barrier(place)
        player = place.lane
        while player < players and place.group == 0:
            own.arms[player] = -1
            if takes_part(player, players, participation, t, key):
                arm, word = choose(own, players, player, t, key, constants, bounds)
                pair = pair_of(arm, player, players)
                reward = draw_reward(family, parameter, means[pair], word, player, t, key)
                count(own, counters, arm, player, pair, reward, t, key, constants)
            player += place.lanes
        barrier(place)
        add_up(own, counters, players, t, place)
        barrier(place)
        if SUMMARISED:
            summarise(own, extra, players, constants, log_T, place)
        elif REFRESH_AT_OWN_PULL:
            refresh(own, players, constants, log_T, place)
        if t == clock.early:
            keep(own, players, place)
        if t == upcoming:
            measure(own, players, gaps, checkpoint, place)
            checkpoint += 1
            upcoming = round_of(clock.checkpoints, checkpoint)


def log_of(t, log_horizon):
    """What round t takes for ln T."""
    return math.log(max(t, 2)) if ANYTIME else log_horizon


def takes_part(player, players, participation, t, key):
    """Whether the player is active in round t."""
    if EVERYBODY:
        return True
    probabilities, mask, spans = participation.probabilities, participation.mask, participation.spans
    return is_active(player, players, participation.kind, probabilities, mask, spans, t, key)


def begin(own, extra, players, constants, log_T, place):
    """Form every shared sum, center and scale before the first round."""
    arms = own.all_pulls.size
    number = 3 * arms * players + place.lane
    while number < own.rough.size:
        own.rough[number] = NEVER if number % 3 < 2 else 0.0
        number += place.lanes
    if SUMMARISED:
        summarise_all(own, extra, players, constants, log_T, place)
        return
    player = place.lane
    while OWN_SUMS and player < players:
        for arm in range(arms):
            contribute(own, pair_of(arm, player, players), constants)
        player += place.lanes
    barrier(place)
    arm = place.lane
    while OWN_SUMS and arm < arms:
        sum_shares(own, arm, players)
        arm += place.lanes
    barrier(place)
    player = place.lane
    while player < players:
        for arm in range(arms):
            pair = pair_of(arm, player, players)
            N, S = everybodys(own, arm)
            if ANYTIME:
                own.count_seen[pair], own.sum_seen[pair] = N, S
            form(own, pair, players, N, S, log_T, constants)
        player += place.lanes
    barrier(place)  # no player may go on before all groups have seen that nothing was pulled


def look(own, extra, players, participation, t, key, log_T, constants, place):
    """Bring the indices of the round's players up to date, as far as their own pulls did not."""
    arms = own.all_pulls.size
    player = place.lane
    while player < players:
        if takes_part(player, players, participation, t, key):
            oldest = t - 2 if EVERYBODY else own.looked_at[player]  # whose data the player's indices have
            arm = place.group
            while arm < arms:
                pair = pair_of(arm, player, players)
                if SUMMARISED:
                    form_summarised(own, extra, arm, player, players, log_T, constants)
                elif REFRESH_AT_OWN_PULL:
                    form(own, pair, players, own.count_seen[pair], own.sum_seen[pair], log_T, constants)
                elif ANYTIME or own.pulled_at[arm] > oldest:
                    N, S = everybodys(own, arm)
                    form(own, pair, players, N, S, log_T, constants)
                arm += place.groups
        player += place.lanes


def count(own, counters, arm, player, pair, reward, t, key, constants):
    """Count a pull and its reward, for the player itself and for everybody."""
    own.arms[player] = arm
    add_to(counters, 3 * arm, 1)
    if reward & PART:
        add_to(counters, 3 * arm + 1, reward & PART)
    if reward > PART:
        add_to(counters, 3 * arm + 2, reward >> PART_BITS)
    pulls, total = own.pulls[pair] + 1, own.sums[pair] + reward  # both are on their way before the first is there
    own.pulls[pair], own.sums[pair] = pulls, total
    if not (EVERYBODY or REFRESH_AT_OWN_PULL):
        own.looked_at[player] = t - 1
    if SUMMARISED:
        own.squares[pair] += square(reward)
    if SAMPLED:
        own.successes[pair] += trial(reward, player, t, key)
    if OWN_SUMS:
        contribute(own, pair, constants)


def clear(counters, place):
    """Set the counters to zero before the first round."""
    number = place.lane
    while number < counters.size and place.group == 0:
        counters[number] = 0
        number += place.lanes
    barrier(place)


def add_up(own, counters, players, t, place):
    """Add what was counted in round t to the shared sums of the arms."""
    arm = place.lane + place.lanes * place.group
    while arm < own.all_pulls.size and place.group < place.groups:
        pulls, low, high = counters[3 * arm], counters[3 * arm + 1], np.int64(counters[3 * arm + 2])
        if pulls > 0:
            all_pulls, all_sums = own.all_pulls[arm] + pulls, own.all_sums[arm] + low + (high << PART_BITS)
            own.all_pulls[arm], own.all_sums[arm] = all_pulls, all_sums
            own.pulled_at[arm] = t
            counters[3 * arm], counters[3 * arm + 1], counters[3 * arm + 2] = 0, 0, 0
            if OWN_SUMS:
                sum_shares(own, arm, players)
        arm += place.lanes * place.groups


def contribute(own, pair, constants):
    """Bring a player's contribution to an arm's shared sums up to date."""
    n, s = own.pulls[pair] * 1.0, own.sums[pair] * STEP
    own.count_share[pair], own.sum_share[pair] = contribution(n, s, *constants)


def sum_shares(own, arm, players):
    """Form an arm's shared sums anew, in player order."""
    a = 0.0
    b = 0.0
    for player in range(players):
        a += own.count_share[pair_of(arm, player, players)]
        b += own.sum_share[pair_of(arm, player, players)]
    own.count_shared[arm], own.sum_shared[arm] = a, b


def everybodys(own, arm):
    """The arm's shared numbers, N and S."""
    if OWN_SUMS:
        return own.count_shared[arm], own.sum_shared[arm]
    return own.all_pulls[arm] * 1.0, own.all_sums[arm] * STEP


def form(own, pair, players, N, S, log_T, constants):
    """Form a pair's center and scale."""
    n, s = own.pulls[pair] * 1.0, own.sums[pair] * STEP
    center, scale = index(n, s, N, S, players, log_T, *constants)
    put(own, pair, center, scale)


def form_summarised(own, extra, arm, player, players, log_T, constants):
    """Form a pair's center and scale from the summary."""
    pair = pair_of(arm, player, players)
    n, s = own.own_pulls[pair] * 1.0, own.own_sums[pair] * STEP
    center, scale = index(n, s, extra.of_arm[arm], extra.of_player[player], players, log_T, *constants)
    put(own, pair, center, scale)


def put(own, pair, center, scale):
    """Keep a center and a scale, and both in single precision, low and high enough to bound every index: cuda_pick.

    The errors of single precision add up to less than 2⁻²⁴ (3 |center| + 32 scale) for draws within 9.2 standard
    deviations. Where it does not reach, nothing is said.
    """
    own.center[pair], own.scale[pair] = center, scale
    if RANDOMISED and not SAMPLED:
        size = abs(center) + 16.0 * scale
        margin = size * 2.0**-22 + 1e-30
        near = size < 1e30
        own.rough[THREE * pair] = center - margin if near else -math.inf
        own.rough[THREE * pair + ONE] = center + margin if near else math.inf
        own.rough[THREE * pair + TWO] = scale if near else 0.0


def refresh(own, players, constants, log_T, place):
    """Bring the indices of the pairs that were pulled up to date."""
    player = place.lane
    while player < players and place.group == 0:
        arm = own.arms[player]
        if arm >= 0:
            pair = pair_of(arm, player, players)
            N, S = everybodys(own, arm)
            if ANYTIME:
                own.count_seen[pair], own.sum_seen[pair] = N, S
            else:
                form(own, pair, players, N, S, log_T, constants)
        player += place.lanes


def summarise(own, extra, players, constants, log_T, place):
    """Make the summary anew if it is due; otherwise let the pulled pairs' indices follow while their pulls are few."""
    if due(total_of(own.all_pulls), own.summed[0], players):
        summarise_all(own, extra, players, constants, log_T, place)
        return
    player = place.lane
    while player < players and place.group == 0:
        arm = own.arms[player]
        if arm >= 0:
            pair = pair_of(arm, player, players)
            if follows(own.pulls[pair]):
                own.own_pulls[pair], own.own_sums[pair] = own.pulls[pair], own.sums[pair]
                form_summarised(own, extra, arm, player, players, log_T, constants)
        player += place.lanes


def summarise_all(own, extra, players, constants, log_T, place):
    """Make the summary anew, by one thread, and with it every center and scale."""
    barrier(place)
    if place.lane == 0 and place.group == 0:
        summary(extra.pulls, extra.sums, extra.squares, extra.of_arm, extra.of_player, extra.work, *constants)
        own.summed[0] = total_of(own.all_pulls)
    barrier(place)
    player = place.lane
    while player < players:
        arm = place.group
        while arm < own.all_pulls.size:
            pair = pair_of(arm, player, players)
            own.own_pulls[pair], own.own_sums[pair] = own.pulls[pair], own.sums[pair]
            form_summarised(own, extra, arm, player, players, log_T, constants)
            arm += place.groups
        player += place.lanes
    barrier(place)


def keep(own, players, place):
    """Keep how often each arm was pulled before the last quarter."""
    player = place.lane
    while player < players and place.group == 0:
        for arm in range(own.all_pulls.size):
            pair = pair_of(arm, player, players)
            own.early[pair] = own.pulls[pair]
        player += place.lanes


def measure(own, players, gaps, checkpoint, place):
    """Regret so far: each player's in the order of the arms, and their sum in the order of the players."""
    player = place.lane
    while player < players:
        total = 0.0
        for arm in range(own.all_pulls.size):
            pair = pair_of(arm, player, players)
            total += own.pulls[pair] * gaps[pair]
        own.player_regret[player] = total
        player += place.lanes
    barrier(place)
    if place.lane == 0:
        total = 0.0
        for player in range(players):
            total += own.player_regret[player]
        own.regret[checkpoint] = total


def choose(own, players, player, t, key, constants, bounds):
    """The arm that the player pulls, and the random word of its reward."""
    if RANDOMISED and not SAMPLED:
        return pick(own, players, player, t, key, bounds)
    word, _, _, _ = block(0, player, t, DRAW, key)
    if SAMPLED:
        return best_sampled(own, players, player, t, key, constants), word
    return largest(own, players, player), word


def largest(own, players, player):
    """The arm with the largest center, the lowest of several."""
    best = 0
    best_center = own.center[player]
    for arm in range(1, own.all_pulls.size):
        center = own.center[pair_of(arm, player, players)]
        best = arm if center > best_center else best
        best_center = max(best_center, center)
    return best


def best_sampled(own, players, player, t, key, constants):
    """The arm with the largest index, where the policy samples it itself; as `posse.simulation.kernel` does."""
    arms = own.all_pulls.size
    first = 0
    most = own.pulls[player]
    for arm in range(arms):
        pulls = own.pulls[pair_of(arm, player, players)]
        first = arm if pulls > most else first
        most = max(most, pulls)
    best = first
    highest = sampled(own, first, players, player, -math.inf, t, key, constants)
    for arm in range(arms):
        if arm != first:
            value = sampled(own, arm, players, player, highest, t, key, constants)
            best = arm if value > highest else best
            highest = max(highest, value)
    return best


def sampled(own, arm, players, player, floor, t, key, constants):
    """The sampled index of an arm if it is above the floor."""
    pair = pair_of(arm, player, players)
    n, s = own.pulls[pair] * 1.0, own.successes[pair] * 1.0
    return sample(n, s, floor, block(arm * BLOCKS, player, t, SAMPLE, key), arm, player, t, key, *constants)
