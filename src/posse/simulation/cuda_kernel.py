"""The round loop on a GPU: a group of threads for each run, a thread for each player (or for several, if many).

What a policy says, what a reward is and who is active come from the functions that the CPU compiles; this file has
only what differs: who does what, and when they wait for each other. The arrays of `posse.simulation.kernel.State` lie in
the GPU's memory with the run as first axis; neighbouring threads read neighbouring numbers.

Each round has three parts with a barrier between them: every player pulls an arm and notes it; for every arm, one thread
adds up what was noted, so that sums need no atomic operations and have one order; every player looks at the sums.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import cuda

from posse.compile import out_of_line
from posse.normal import BINS, HIGH, LOW, bin_of, normal
from posse.policies.summaries import due, follows, square
from posse.rewards import draw_reward
from posse.schedule import is_active
from posse.simulation.kernel import (
    OWN_SUMS,
    RANDOMISED,
    REFRESH_AT_OWN_PULL,
    SAMPLED,
    STEP,
    SUMMARISED,
    State,
    contribute,
    evaluate,
    evaluate_summarised,
    everybodys,
    largest,
    sample,
    sum_shares,
    summary,
    trial,
)
from posse.simulation.sampling import BLOCKS
from posse.streams import DRAW, REFINE, SAMPLE, block


# Bound for each call; the values here only say what they are.
EVERYBODY = True  # all players are active in every round
ANYTIME = False


class Problems(NamedTuple):
    """The problems of a call."""

    means: np.ndarray  # [problem, arm, player]
    gaps: np.ndarray  # [problem, arm, player]
    families: np.ndarray  # [problem]
    parameters: np.ndarray  # [problem]


class Runs(NamedTuple):
    """The runs of a launch, beside their states."""

    problems: np.ndarray  # [run], the numbers of their problems
    keys: np.ndarray  # [run, 2]
    early: np.ndarray  # [run, arm, player], pulls before the last quarter
    regret: np.ndarray  # [run, checkpoint]
    player_regret: np.ndarray  # [run, player]


class Clock(NamedTuple):
    """Which rounds to play, and when to measure."""

    first: int
    last: int
    early: int  # the last round before the last quarter
    log_horizon: float
    checkpoints: np.ndarray
    checkpoint: int  # the first that is not before `first`


def barrier():
    """Wait for all threads of the run; bound to one of the next two."""


def wait_for_warp():
    """The barrier of runs that have a warp each."""
    cuda.syncwarp()


def wait_for_block():
    """The barrier of runs that have a block each."""
    cuda.syncthreads()


def play(states, runs, problems, participation, clock, constants):
    """Play a few rounds of every run; before the first round, form the indices."""
    lane, lanes = cuda.threadIdx.x, cuda.blockDim.x
    low = cuda.shared.array(BINS, np.float64)
    high = cuda.shared.array(BINS, np.float64)
    row = lane + lanes * cuda.threadIdx.y
    while row < BINS:
        low[row], high[row] = LOW[row], HIGH[row]
        row += lanes * cuda.blockDim.y
    cuda.syncthreads()
    run = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
    if run < runs.problems.size:
        state = state_of(states, run)
        key = runs.keys[run, 0], runs.keys[run, 1]
        play_run(state, runs, run, problems, participation, clock, constants[1:], key, low, high, lane, lanes)


def state_of(states, run):
    """The state of one run."""
    return State(
        states.pulls[run],
        states.sums[run],
        states.all_pulls[run],
        states.all_sums[run],
        states.shares[run],
        states.shared[run],
        states.seen[run],
        states.squares[run],
        states.own_pulls[run],
        states.own_sums[run],
        states.successes[run],
        states.of_arm[run],
        states.of_player[run],
        states.summed[run],
        states.tables[run],
        states.pulled_at[run],
        states.looked_at[run],
        states.center[run].T,
        states.scale[run].T,
        states.active[run],
        states.arms[run],
        states.rewards[run],
        states.halves[run],
        states.words[run],
        states.work[run],
    )


def play_run(state, runs, run, problems, participation, clock, constants, key, low, high, lane, lanes):
    """Play the rounds of one run, as one of its threads."""
    players = state.center.shape[0]
    number = runs.problems[run]
    means, gaps = problems.means[number], problems.gaps[number]
    family, parameter = problems.families[number], problems.parameters[number]
    checkpoint, checkpoints = clock.checkpoint, clock.checkpoints
    if clock.first == 1:
        begin(state, constants, log_of(1, clock.log_horizon), lane, lanes)
    for t in range(clock.first, clock.last + 1):
        log_T = log_of(t, clock.log_horizon)
        player = lane
        while player < players:
            if takes_part(player, players, participation, t, key):
                look(state, player, t, log_T, constants)
                arm, word = choose(state, player, t, key, constants, low, high)
                reward = draw_reward(family, parameter, means[arm, player], word, player, t, key)
                note(state, arm, player, reward, t, key, constants)
            else:
                state.arms[player] = -1
            player += lanes
        barrier()
        arm = lane
        while arm < state.all_pulls.size:
            add_up(state, arm, t)
            arm += lanes
        barrier()
        if SUMMARISED:
            summarise(state, constants, log_T, lane, lanes)
        elif REFRESH_AT_OWN_PULL:
            player = lane
            while player < players:
                if state.arms[player] >= 0:
                    refresh(state, state.arms[player], player, log_T, constants)
                player += lanes
        if t == clock.early:
            copy(state.pulls, runs.early[run], lane, lanes)
        if checkpoint < checkpoints.size and t == checkpoints[checkpoint]:
            measure(state.pulls, gaps, runs.player_regret[run], runs.regret[run], checkpoint, lane, lanes)
            checkpoint += 1


def log_of(t, log_horizon):
    """What round t takes for ln T."""
    return math.log(max(t, 2)) if ANYTIME else log_horizon


def takes_part(player, players, participation, t, key):
    """Whether the player is active in round t."""
    if EVERYBODY:
        return True
    probabilities, mask, spans = participation.probabilities, participation.mask, participation.spans
    return is_active(player, players, participation.kind, probabilities, mask, spans, t, key)


def begin(state, constants, log_T, lane, lanes):
    """Form every shared sum, center and scale before the first round."""
    arms, players = state.pulls.shape
    if SUMMARISED:
        summarise_all(state, constants, log_T, lane, lanes)
        return
    if OWN_SUMS:
        player = lane
        while player < players:
            for arm in range(arms):
                contribute(arm, player, state.pulls, state.sums, constants, state.shares)
            player += lanes
        barrier()
        arm = lane
        while arm < arms:
            sum_shares(arm, state.shares, state.shared)
            arm += lanes
        barrier()
    player = lane
    while player < players:
        for arm in range(arms):
            N, S = state.shared[0, arm], state.shared[1, arm]
            state.seen[0, arm, player], state.seen[1, arm, player] = N, S
            evaluate(arm, player, state.pulls, state.sums, N, S, log_T, constants, state.center, state.scale)
        player += lanes


def look(state, player, t, log_T, constants):
    """Bring a player's indices up to date before it chooses, as far as its pulls did not."""
    pulls, sums, center, scale = state.pulls, state.sums, state.center, state.scale
    if not REFRESH_AT_OWN_PULL:
        oldest = t - 2  # whose data everybody has when nobody ever misses a round
        if not EVERYBODY:
            oldest = state.looked_at[player]
            state.looked_at[player] = t - 1
        for arm in range(state.pulled_at.size):
            if ANYTIME or state.pulled_at[arm] > oldest:
                N, S = everybodys(arm, state.all_pulls, state.all_sums, state.shared)
                evaluate(arm, player, pulls, sums, N, S, log_T, constants, center, scale)
    elif ANYTIME:
        for arm in range(state.pulled_at.size):
            if SUMMARISED:
                evaluate_summarised(state, arm, player, log_T, constants)
            else:
                N, S = state.seen[0, arm, player], state.seen[1, arm, player]
                evaluate(arm, player, pulls, sums, N, S, log_T, constants, center, scale)


def note(state, arm, player, reward, t, key, constants):
    """Count a pull and its reward for the player itself, and put both down for the sums."""
    state.arms[player] = arm
    state.rewards[player] = reward
    state.pulls[arm, player] += 1
    state.sums[arm, player] += reward
    if SUMMARISED:
        state.squares[arm, player] += square(reward)
    if SAMPLED:
        state.successes[arm, player] += trial(reward, player, t, key)
    if OWN_SUMS:
        contribute(arm, player, state.pulls, state.sums, constants, state.shares)


def add_up(state, arm, t):
    """Add what the players put down for an arm in round t to its shared sums."""
    count, total = 0, 0
    for player in range(state.arms.size):
        if state.arms[player] == arm:
            count += 1
            total += state.rewards[player]
    if count > 0:
        state.all_pulls[arm] += count
        state.all_sums[arm] += total
        state.pulled_at[arm] = t
        if OWN_SUMS:
            sum_shares(arm, state.shares, state.shared)


def refresh(state, arm, player, log_T, constants):
    """Bring the pulled pair's index up to date."""
    N, S = everybodys(arm, state.all_pulls, state.all_sums, state.shared)
    if ANYTIME:
        state.seen[0, arm, player], state.seen[1, arm, player] = N, S
    else:
        evaluate(arm, player, state.pulls, state.sums, N, S, log_T, constants, state.center, state.scale)


def summarise(state, constants, log_T, lane, lanes):
    """Make the summary anew if it is due; otherwise let the pulled pairs' indices follow while their pulls are few."""
    arms, players = state.pulls.shape
    total = 0
    for arm in range(arms):
        total += state.all_pulls[arm]
    if due(total, state.summed[1], players):
        summarise_all(state, constants, log_T, lane, lanes)
        return
    player = lane
    while player < players:
        arm = state.arms[player]
        if arm >= 0 and follows(state.pulls[arm, player]):
            state.own_pulls[arm, player], state.own_sums[arm, player] = state.pulls[arm, player], state.sums[arm, player]
            evaluate_summarised(state, arm, player, log_T, constants)
        player += lanes


def summarise_all(state, constants, log_T, lane, lanes):
    """Make the summary anew, by one thread, and with it every center and scale."""
    arms, players = state.pulls.shape
    barrier()
    if lane == 0:
        summary(state.pulls, state.sums, state.squares, state.of_arm, state.of_player, state.tables, *constants)
        total = 0
        for arm in range(arms):
            total += state.all_pulls[arm]
        state.summed[1] = total
    barrier()
    player = lane
    while player < players:
        for arm in range(arms):
            state.own_pulls[arm, player], state.own_sums[arm, player] = state.pulls[arm, player], state.sums[arm, player]
            evaluate_summarised(state, arm, player, log_T, constants)
        player += lanes


def copy(source, target, lane, lanes):
    """Copy a table [arm, player]."""
    arms, players = source.shape
    player = lane
    while player < players:
        for arm in range(arms):
            target[arm, player] = source[arm, player]
        player += lanes


def measure(pulls, gaps, of_players, regret, checkpoint, lane, lanes):
    """Regret so far: each player's in the order of the arms, and their sum in the order of the players."""
    arms, players = pulls.shape
    player = lane
    while player < players:
        total = 0.0
        for arm in range(arms):
            total += pulls[arm, player] * gaps[arm, player]
        of_players[player] = total
        player += lanes
    barrier()
    if lane == 0:
        total = 0.0
        for player in range(players):
            total += of_players[player]
        regret[checkpoint] = total


def choose(state, player, t, key, constants, low, high):
    """The arm that the player pulls, and the random word of its reward."""
    if SAMPLED:
        word, _, _, _ = block(0, player, t, DRAW, key)
        return best_sampled(state, player, t, key, constants), word
    if RANDOMISED:
        return pick(state.center[player], state.scale[player], player, low, high, t, key)
    word, _, _, _ = block(0, player, t, DRAW, key)
    return largest(state.center, player), word


def best_sampled(state, player, t, key, constants):
    """The arm with the largest index, where the policy samples it itself; as `posse.simulation.kernel` does."""
    arms = state.pulls.shape[0]
    first = 0
    for arm in range(arms):
        first = arm if state.pulls[arm, player] > state.pulls[first, player] else first
    best = first
    highest = sampled(state, first, player, -math.inf, t, key, constants)
    for arm in range(arms):
        if arm != first:
            value = sampled(state, arm, player, highest, t, key, constants)
            best = arm if value > highest else best
            highest = max(highest, value)
    return best


@out_of_line
def sampled(state, arm, player, floor, t, key, constants):
    """The sampled index of an arm if it is above the floor."""
    words = block(arm * BLOCKS, player, t, SAMPLE, key)
    n, s = state.pulls[arm, player] * 1.0, state.successes[arm, player] * 1.0
    return sample(n, s, floor, words, arm, player, t, key, *constants)


def pick(centers, scales, player, low, high, t, key):
    """The arm with the largest index for a player, by bounds where they decide; and the random word of its reward."""
    floor, highest, second, best, word = -math.inf, -math.inf, -math.inf, 0, 0
    for number in range((centers.size + 9) // 8):
        w0, w1, w2, w3 = block(number, player, t, DRAW, key)
        arm = 8 * number - 2
        if number == 0:
            word = w0
        else:
            floor, highest, second, best = two(arm, w0, centers, scales, low, high, floor, highest, second, best)
        floor, highest, second, best = two(arm + 2, w1, centers, scales, low, high, floor, highest, second, best)
        floor, highest, second, best = two(arm + 4, w2, centers, scales, low, high, floor, highest, second, best)
        floor, highest, second, best = two(arm + 6, w3, centers, scales, low, high, floor, highest, second, best)
    if second >= floor:
        best = compare(centers, scales, player, high, floor, t, key)
    return best, word


def two(arm, word, centers, scales, low, high, floor, highest, second, best):
    """Bounds on the indices of two arms, whose draws begin in the halves of a word; as in `posse.simulation.kernel`."""
    floor, highest, second, best = one(
        arm, word & 0xFFFF, centers, scales, low, high, floor, highest, second, best
    )
    return one(arm + 1, word >> 16, centers, scales, low, high, floor, highest, second, best)


def one(arm, half, centers, scales, low, high, floor, highest, second, best):
    """Bounds on the index of one arm."""
    if arm < centers.size:
        row = bin_of(half)
        floor = max(floor, centers[arm] + scales[arm] * low[row])
        upper = centers[arm] + scales[arm] * high[row]
        best = arm if upper > highest else best
        second = max(second, min(highest, upper))
        highest = max(highest, upper)
    return floor, highest, second, best


@out_of_line
def compare(centers, scales, player, high, floor, t, key):
    """The arm with the largest index, computed for the arms whose upper bound reaches the floor."""
    best = -1
    best_index = -math.inf
    w0, w1, w2, w3 = 0, 0, 0, 0
    for arm in range(centers.size):
        place = (arm + 2) & 7
        if place == 0 or arm == 0:
            w0, w1, w2, w3 = block((arm + 2) >> 3, player, t, DRAW, key)
        word = (w0 if place < 2 else w1) if place < 4 else (w2 if place < 6 else w3)
        half = word >> 16 if place & 1 else word & 0xFFFF
        if centers[arm] + scales[arm] * high[bin_of(half)] >= floor:
            middle, last, _, _ = block(arm, player, t, REFINE, key)
            value = centers[arm] + scales[arm] * normal(half, middle, last)
            if best < 0 or value > best_index:
                best = arm
                best_index = value
    return best
