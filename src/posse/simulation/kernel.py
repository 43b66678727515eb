"""The round loop: plain Python that is compiled once for each policy class.

The names in capitals below are bound for each policy by `posse.simulation.engine`, together with its `index` and
`contribution`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posse.compile import out_of_line
from posse.policies.summaries import due, follows, square
from posse.rewards import GRID, draw_reward
from posse.schedule import CONCURRENT, activate
from posse.simulation.pick import draw_halves, largest, pick
from posse.simulation.sampling import BLOCKS
from posse.streams import DRAW, SAMPLE, TRIAL, block

# Bound for each policy; the values here only say what they are.
REFRESH_AT_OWN_PULL = True
RANDOMISED = True
OWN_SUMS = False  # the policy has its own `contribution`
SUMMARISED = False  # the policy has a `summary`
SAMPLED = False  # the policy samples its indices itself


def index(n, s, N, S, M, log_T, *constants):
    """The policy's center and scale."""
    return math.nan, math.nan


def contribution(n, s, *constants):
    """What a player adds to an arm's shared sums."""
    return n, s


def summary(pulls, sums, squares, of_arm, of_player, work, *constants):
    """The policy's second stage."""


def sample(n, s, floor, words, arm, player, t, key, *constants):
    """The index of an arm if it is above the floor, else anything up to it; for policies that sample it themselves.

    s is the number of successes, rewards turned into trials; `words` are those of block arm · BLOCKS, purpose SAMPLE.
    """
    return math.nan


STEP = 1.0 / GRID
TILE = 32  # players whose random words are drawn together


class Environment(NamedTuple):
    """The problem, as the kernel takes it."""

    means: np.ndarray  # [player, arm]
    family: int
    parameter: float


class State(NamedTuple):
    """All that a run knows. Counts and sums are exact integers, sums in steps of the reward grid."""

    pulls: np.ndarray  # [arm, player]
    sums: np.ndarray  # [arm, player]
    all_pulls: np.ndarray  # [arm], where the policy shares just these
    all_sums: np.ndarray  # [arm], where the policy shares just these
    shares: np.ndarray  # [2, arm, player], each player's contribution, where the policy has its own
    shared: np.ndarray  # [2, arm], the sums of the contributions
    seen: np.ndarray  # [2, arm, player], N and S as the player last saw them
    squares: np.ndarray  # [arm, player], sums of squared rewards in grid steps, where the policy has a summary
    own_pulls: np.ndarray  # [arm, player], counts and sums that are in the indices, where the policy has a summary
    own_sums: np.ndarray  # [arm, player]
    successes: np.ndarray  # [arm, player], rewards turned into Bernoulli trials, where the policy samples its indices
    of_arm: np.ndarray  # [arm, number], what the summary says of an arm
    of_player: np.ndarray  # [player, number], what it says of a player
    summed: np.ndarray  # [2], pulls of everybody in all, and at the last summary
    tables: np.ndarray  # [table, arm, player], the summary's scratch
    pulled_at: np.ndarray  # [arm], the last round in which anybody pulled it
    looked_at: np.ndarray  # [player], the last round whose data is in the player's indices, where players may miss one
    center: np.ndarray  # [player, arm]
    scale: np.ndarray  # [player, arm]
    active: np.ndarray  # [place], the players of the current round, in order; `arms` and `rewards` go with it
    arms: np.ndarray  # [place]
    rewards: np.ndarray  # [place], in grid steps; before that, the random words that they come from
    halves: np.ndarray  # [half word, place in the tile]
    words: np.ndarray  # [word, arm], where the policy samples its indices
    work: np.ndarray  # [2, player], centers and scales of an arm on their way


class Measures(NamedTuple):
    """When a run is measured, and what it is measured by."""

    checkpoints: np.ndarray  # the rounds
    gaps: np.ndarray  # [player, arm]
    regret: np.ndarray  # [checkpoint], to be filled in


def advance(state, environment, participation, constants, key, log_horizon, measures, first, last):
    """Play rounds `first` … `last`, with the regret at checkpoints; return how many were active in the last round.

    All in one call, because what goes on between calls can be done by one thread at a time only.
    """
    number = 0
    while number < measures.checkpoints.size and measures.checkpoints[number] < first:
        number += 1
    count = 0
    while first <= last:
        stop = last
        if number < measures.checkpoints.size:
            stop = min(last, measures.checkpoints[number])
        count = play(state, environment, participation, constants, key, log_horizon, first, stop)
        if number < measures.checkpoints.size and stop == measures.checkpoints[number]:
            measures.regret[number] = collective_regret(state.pulls, measures.gaps)
            number += 1
        first = stop + 1
    return count


def collective_regret(pulls, gaps):
    """Σ pulls · gaps, added up arm by arm for each player and then player by player, as on every backend."""
    arms, players = pulls.shape
    total = 0.0
    for player in range(players):
        own = 0.0
        for arm in range(arms):
            own += pulls[arm, player] * gaps[player, arm]
        total += own
    return total


@out_of_line
def play(state, environment, participation, constants, key, log_horizon, first, last):
    """Play rounds `first` … `last`; return how many players were active in the last one.

    `log_horizon` is ln T, or negative for the anytime form, which takes ln max(t, 2).
    """
    pulls, sums, all_pulls, all_sums = state.pulls, state.sums, state.all_pulls, state.all_sums
    shares, shared, seen, work = state.shares, state.shared, state.seen, state.work
    pulled_at, looked_at = state.pulled_at, state.looked_at
    center, scale = state.center, state.scale
    active, arms, rewards, halves = state.active, state.arms, state.rewards, state.halves
    means, family, parameter = environment.means, environment.family, environment.parameter
    kind, probabilities = participation.kind, participation.probabilities
    mask, spans = participation.mask, participation.spans
    anytime = log_horizon < 0.0
    count = 0
    for t in range(first, last + 1):
        count = activate(active, rewards, kind, probabilities, mask, spans, t, key)
        log_T = math.log(max(t, 2)) if anytime else log_horizon

        if not REFRESH_AT_OWN_PULL:
            oldest = t - 2  # whose data everybody has when nobody ever misses a round
            if kind != CONCURRENT:
                for place in range(count):
                    oldest = min(oldest, looked_at[active[place]])
                    looked_at[active[place]] = t - 1
            for arm in range(pulled_at.size):
                if anytime or pulled_at[arm] > oldest:
                    N, S = everybodys(arm, all_pulls, all_sums, shared)
                    evaluate_arm(arm, active, count, pulls, sums, N, S, log_T, constants, work, center, scale)
        elif anytime:
            for place in range(count):
                player = active[place]
                for arm in range(pulled_at.size):
                    if SUMMARISED:
                        evaluate_summarised(state, arm, player, log_T, constants)
                    else:
                        N, S = seen[0, arm, player], seen[1, arm, player]
                        evaluate(arm, player, pulls, sums, N, S, log_T, constants, center, scale)

        if SAMPLED:
            choose_sampled(state, count, t, key, constants)
        else:
            choose(active, count, t, key, center, scale, halves, rewards, arms)

        for place in range(count):
            player, arm = active[place], arms[place]
            reward = draw_reward(family, parameter, means[player, arm], rewards[place], player, t, key)
            rewards[place] = reward
            pulls[arm, player] += 1
            sums[arm, player] += reward
            if not OWN_SUMS and not SUMMARISED:
                all_pulls[arm] += 1
                all_sums[arm] += reward
            if OWN_SUMS or not REFRESH_AT_OWN_PULL:
                pulled_at[arm] = t
            if SUMMARISED:
                state.squares[arm, player] += square(reward)
            if SAMPLED:
                state.successes[arm, player] += trial(reward, player, t, key)

        if OWN_SUMS:
            for place in range(count):
                contribute(arms[place], active[place], pulls, sums, constants, shares)
            for arm in range(pulled_at.size):
                if pulled_at[arm] == t:
                    sum_shares(arm, shares, shared)
        if SUMMARISED:
            state.summed[0] += count
            if due(state.summed[0], state.summed[1], center.shape[0]):
                summarise(state, constants, log_T)
            else:
                for place in range(count):
                    if follows(pulls[arms[place], active[place]]):
                        state.own_pulls[arms[place], active[place]] = pulls[arms[place], active[place]]
                        state.own_sums[arms[place], active[place]] = sums[arms[place], active[place]]
                        evaluate_summarised(state, arms[place], active[place], log_T, constants)
        elif REFRESH_AT_OWN_PULL:
            for place in range(count):
                arm, player = arms[place], active[place]
                N, S = everybodys(arm, all_pulls, all_sums, shared)
                if anytime:
                    seen[0, arm, player], seen[1, arm, player] = N, S
                else:
                    evaluate(arm, player, pulls, sums, N, S, log_T, constants, center, scale)
    return count


def begin(state, constants, log_T):
    """Form every shared sum, center and scale before the first round."""
    if SUMMARISED:
        summarise(state, constants, log_T)
        return
    pulls, sums, shares, shared = state.pulls, state.sums, state.shares, state.shared
    arms, players = pulls.shape
    for arm in range(arms):
        if OWN_SUMS:
            for player in range(players):
                contribute(arm, player, pulls, sums, constants, shares)
            sum_shares(arm, shares, shared)
        for player in range(players):
            N, S = shared[0, arm], shared[1, arm]
            state.seen[0, arm, player], state.seen[1, arm, player] = N, S
            evaluate(arm, player, pulls, sums, N, S, log_T, constants, state.center, state.scale)


def settle(state, constants, log_T, anytime):
    """Bring every center and scale up to date with all rounds done, as the next round would use them; for traces."""
    arms, players = state.pulls.shape
    for arm in range(arms):
        for player in range(players):
            if SUMMARISED:
                evaluate_summarised(state, arm, player, log_T, constants)
            elif not REFRESH_AT_OWN_PULL:
                N, S = everybodys(arm, state.all_pulls, state.all_sums, state.shared)
                evaluate(arm, player, state.pulls, state.sums, N, S, log_T, constants, state.center, state.scale)
            elif anytime:
                N, S = state.seen[0, arm, player], state.seen[1, arm, player]
                evaluate(arm, player, state.pulls, state.sums, N, S, log_T, constants, state.center, state.scale)


def everybodys(arm, all_pulls, all_sums, shared):
    """The arm's shared numbers, N and S."""
    if OWN_SUMS:
        return shared[0, arm], shared[1, arm]
    return all_pulls[arm] * 1.0, all_sums[arm] * STEP


def evaluate(arm, player, pulls, sums, N, S, log_T, constants, center, scale):
    """Bring one (player, arm) pair's center and scale up to date."""
    n, s = pulls[arm, player] * 1.0, sums[arm, player] * STEP
    center[player, arm], scale[player, arm] = index(n, s, N, S, center.shape[0], log_T, *constants)


def evaluate_arm(arm, active, count, pulls, sums, N, S, log_T, constants, work, center, scale):
    """Bring an arm's centers and scales up to date for all active players."""
    players = center.shape[0]
    if count < players:
        for place in range(count):
            evaluate(arm, active[place], pulls, sums, N, S, log_T, constants, center, scale)
        return
    for player in range(players):  # the same without gaps, which the compiler vectorises
        n, s = pulls[arm, player] * 1.0, sums[arm, player] * STEP
        work[0, player], work[1, player] = index(n, s, N, S, players, log_T, *constants)
    for player in range(players):
        center[player, arm], scale[player, arm] = work[0, player], work[1, player]


@out_of_line
def summarise(state, constants, log_T):
    """Make the summary anew, and with it every center and scale."""
    pulls, sums, of_arm, of_player = state.pulls, state.sums, state.of_arm, state.of_player
    center, scale, work = state.center, state.scale, state.work
    summary(pulls, sums, state.squares, of_arm, of_player, state.tables, *constants)
    state.summed[1] = state.summed[0]
    arms, players = pulls.shape
    for arm in range(arms):
        for player in range(players):
            state.own_pulls[arm, player], state.own_sums[arm, player] = pulls[arm, player], sums[arm, player]
        for player in range(players):
            n, s = pulls[arm, player] * 1.0, sums[arm, player] * STEP
            work[0, player], work[1, player] = index(n, s, of_arm[arm], of_player[player], players, log_T, *constants)
        for player in range(players):
            center[player, arm], scale[player, arm] = work[0, player], work[1, player]


def evaluate_summarised(state, arm, player, log_T, constants):
    """Form one (player, arm) pair's center and scale from its numbers."""
    n, s = state.own_pulls[arm, player] * 1.0, state.own_sums[arm, player] * STEP
    players = state.center.shape[0]
    state.center[player, arm], state.scale[player, arm] = index(
        n, s, state.of_arm[arm], state.of_player[player], players, log_T, *constants
    )


def contribute(arm, player, pulls, sums, constants, shares):
    """Bring a player's contribution to an arm's shared sums up to date."""
    n, s = pulls[arm, player] * 1.0, sums[arm, player] * STEP
    shares[0, arm, player], shares[1, arm, player] = contribution(n, s, *constants)


def sum_shares(arm, shares, shared):
    """Form an arm's shared sums anew, in player order, so that no rounding builds up."""
    a = 0.0
    b = 0.0
    for player in range(shares.shape[2]):
        a += shares[0, arm, player]
        b += shares[1, arm, player]
    shared[0, arm] = a
    shared[1, arm] = b


def choose(active, count, t, key, center, scale, halves, rewards, arms):
    """Write the arm of each active player into `arms`, and the random word of its reward into `rewards`."""
    if RANDOMISED:
        for start in range(0, count, TILE):
            stop = min(start + TILE, count)
            draw_halves(active, start, stop, t, key, halves)
            for place in range(start, stop):
                rewards[place] = halves[0, place - start] + (halves[1, place - start] << 16)
            for place in range(start, stop):
                arms[place] = pick(active[place], place - start, center, scale, halves, t, key)
    else:
        for place in range(count):
            rewards[place], _, _, _ = block(0, active[place], t, DRAW, key)
        for place in range(count):
            arms[place] = largest(center, active[place])


def choose_sampled(state, count, t, key, constants):
    """`choose` for a policy that samples its indices itself; the words of the rewards are the same."""
    pulls, words = state.pulls, state.words
    for place in range(count):
        player = state.active[place]
        state.rewards[place], _, _, _ = block(0, player, t, DRAW, key)
        for arm in range(pulls.shape[0]):
            words[0, arm], words[1, arm], words[2, arm], words[3, arm] = block(arm * BLOCKS, player, t, SAMPLE, key)
        first = 0  # the arm pulled most, whose index is likely to be the largest, makes the floor
        for arm in range(pulls.shape[0]):
            first = arm if pulls[arm, player] > pulls[first, player] else first
        best = first
        highest = sampled(state, first, player, -math.inf, t, key, constants)
        for arm in range(pulls.shape[0]):
            value = sampled(state, arm, player, highest, t, key, constants) if arm != first else -math.inf
            best = arm if value > highest else best
            highest = max(highest, value)
        state.arms[place] = best


def sampled(state, arm, player, floor, t, key, constants):
    """The sampled index of an arm if it is above the floor."""
    n, s, words = state.pulls[arm, player] * 1.0, state.successes[arm, player] * 1.0, state.words
    of_arm = words[0, arm], words[1, arm], words[2, arm], words[3, arm]
    return sample(n, s, floor, of_arm, arm, player, t, key, *constants)


def trial(reward, player, t, key):
    """1 with the reward as probability, else 0; a reward of 0 or 1 is itself.

    Agrawal and Goyal, "Analysis of Thompson sampling for the multi-armed bandit problem" (COLT 2012), Algorithm 2.
    """
    if reward == 0 or reward == GRID:
        return reward // GRID
    word, _, _, _ = block(0, player, t, TRIAL, key)
    return int(word < reward * 4294967296.0 / GRID)
