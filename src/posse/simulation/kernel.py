"""The round loop: plain Python that is compiled for each policy class, and once more for runs that are TIMED.

A round has five steps: who is active, which is drawn for several rounds at once; their centers and scales, if others'
data or the round changed them; which arms they pull; what that earns; and what is shared, with the centers and scales
that it changes. `posse.policies.state` says how a reward changes what is known. Names from `posse.policies.bound` are
constants and functions of the policy: `if BETA` is decided when the loop is compiled, and costs a run nothing.

Shapes are named by what they are counted by. A *slot* is one player in one of the rounds that were drawn ahead, and a
*pull* one active player in the current round, both in order of the players. A problem's arrays begin with the
player, those of a run with the arm, so that players are side by side.
"""

import math
from typing import NamedTuple

import numpy as np

from posse.compile import out_of_line
from posse.policies.bound import AT_OWN_PULL, BETA, IMED, RANDOMISED, SCHEDULED
from posse.policies.imed import least_evidence
from posse.policies.refresh import counts_at_once
from posse.policies.state import (
    ALL,
    FEW,
    PULLED,
    count_reward,
    fade,
    fades_at,
    share_everything,
    share_round,
    shared_now,
)
from posse.policies.statistics import COUNT, STEPS, SUM
from posse.rewards import BERNOULLI, draw_bernoulli, draw_other
from posse.schedule import CONCURRENT, activate
from posse.simulation.indices import (
    evaluate_all,
    evaluate_arm,
    evaluate_as_seen,
    evaluate_pairs,
    evaluate_pulled,
    evaluate_rarely,
)
from posse.simulation.pick import WIDTH, bound_draws, draw_words, gather_rough, pick
from posse.simulation.pick_beta import draw_beta_words, pick_beta
from posse.streams import MAX_ROUND

BOUND_FOR_EACH_POLICY = True

TIMED = False  # means change, rewards are late, or the policy forgets; set by `posse.simulation.engine.kernels`


class Environment(NamedTuple):
    """The problem, as the kernel takes it."""

    means: np.ndarray  # [player, arm], those of the round
    family: int
    parameter: float
    gaps: np.ndarray  # [player, arm], those of the round
    starts: np.ndarray  # [change], the first round of the means that follow
    later_means: np.ndarray  # [change, player, arm]
    later_gaps: np.ndarray  # [change, player, arm]


class Run(NamedTuple):
    """What a run has beside what the policy knows: centers and scales, and the current round."""

    center: np.ndarray  # [arm, player], of an index center + scale · normal; a of a Beta law; for IMED the mean
    scale: np.ndarray  # [arm, player]; b of a Beta law; for IMED the pulls
    refreshed_at: np.ndarray  # [player], the last round whose data is in its indices, where players may miss one
    active: np.ndarray  # [slot], the players of the current round and some that follow
    rounds: np.ndarray  # [slot], the round of each
    reward_words: np.ndarray  # [slot], the random word of its reward, once `choose` drew it; scratch of `activate`
    begins: np.ndarray  # [round], the first slot of each of these rounds, and the first that is free
    arms: np.ndarray  # [pull], the arm
    rewards: np.ndarray  # [pull], what it earns, in grid steps
    words: np.ndarray  # random words for rewards and normal draws; this and the next four are flat tables of `pick`
    beta_words: np.ndarray  # random words for Beta draws
    bounds: np.ndarray  # of normal draws; for Beta laws of X / Y
    rough: np.ndarray  # centers and scales in single precision; for Beta laws the roots of their shapes
    top: np.ndarray  # what `bound_indices` finds
    uncounted: np.ndarray  # [2, arm, player], pulls and reward sums that statistics lack: late ones and forgotten ones
    offset: np.ndarray  # [player], regret beyond pulls · gaps of the round, because gaps were others before
    late_count: np.ndarray  # [row], how many late rewards of a round are kept in its row of the next three
    late_players: np.ndarray  # [row, pull]
    late_arms: np.ndarray  # [row, pull]
    late_rewards: np.ndarray  # [row, pull]
    arrived_players: np.ndarray  # [pull], those of all rewards that arrive together
    arrived_arms: np.ndarray  # [pull]


class Clock(NamedTuple):
    """What depends on the round: ln T, which with `anytime` is ln max(t, 2) in round t; forgetting; late rewards."""

    log_horizon: float
    anytime: bool
    half_life: int  # of what is remembered, in rounds; 0: nothing is forgotten
    delay: int  # see `posse.simulation.feedback`
    batch: int


class Measures(NamedTuple):
    """When a run is measured, and what is measured."""

    checkpoints: np.ndarray  # the rounds
    regret: np.ndarray  # [checkpoint], to be filled in


def log_of(t, clock):
    """What round t takes for ln T."""
    return math.log(max(t, 2)) if clock.anytime else clock.log_horizon


def advance(state, run, environment, participation, constants, key, clock, measures, is_new, first, last):
    """Play rounds `first` … `last`, with the regret at checkpoints; return how many were active in the last round.

    A new run forms every center and scale first. All of it is one compiled call: between calls, Python's lock lets one
    thread run at a time. Return −1 as soon as a center or scale is not a number.
    """
    if is_new:
        share_everything(state, log_of(1, clock), constants)
        if evaluate_all(state, run, log_of(1, clock), constants):
            return -1
    number = 0
    while number < measures.checkpoints.size and measures.checkpoints[number] < first:
        number += 1
    change = 0
    while change < environment.starts.size and environment.starts[change] < first:
        change += 1
    count = 0
    while first <= last:
        if TIMED and change < environment.starts.size and environment.starts[change] == first:
            change_means(state, run, environment, change)
            change += 1
        stop = min(last, measures.checkpoints[number]) if number < measures.checkpoints.size else last
        if TIMED:
            stop = min(stop, end_of_stretch(environment.starts, change, clock.half_life, first))
        count = play(state, run, environment, participation, constants, key, clock, first, stop)
        if count < 0:
            return count
        if TIMED and clock.half_life > 0 and fades_at(stop, clock.half_life) > 0:
            keep_forgotten(state, run, 1)
            fade(state, fades_at(stop, clock.half_life), log_of(stop, clock), constants)
            keep_forgotten(state, run, -1)
            if evaluate_all(state, run, log_of(stop, clock), constants):
                return -1
        if number < measures.checkpoints.size and stop == measures.checkpoints[number]:
            measures.regret[number] = collective_regret(state, run, environment.gaps)
            number += 1
        first = stop + 1
    return count


def end_of_stretch(starts, change, half_life, first):
    """The last round of the stretch from `first` on: means change after it, or something is forgotten at its end."""
    last = starts[change] - 1 if change < starts.size else MAX_ROUND
    if half_life > 0:
        step = STEPS * (first - 1) // half_life + 1
        last = min(last, -(-step * half_life // STEPS))  # rounded up
    return last


def keep_forgotten(state, run, sign):
    """Add pulls and reward sums to the uncounted ones before some are forgotten, and with −1 take away what is left."""
    for number in range(SUM + 1):
        for arm in range(run.uncounted.shape[1]):
            for player in range(run.uncounted.shape[2]):
                run.uncounted[number, arm, player] += sign * state.statistics[number, arm, player]


def collective_regret(state, run, gaps):
    """Σ pulls · gaps, added up arm by arm for each player and then player by player, as on every backend."""
    arms, players = state.statistics[COUNT].shape
    total = 0.0
    for player in range(players):
        own = run.offset[player]
        for arm in range(arms):
            own += (state.statistics[COUNT, arm, player] + run.uncounted[COUNT, arm, player]) * gaps[player, arm]
        total += own
    return total


def change_means(state, run, environment, change):
    """Switch to the next means; `offset` takes up the difference, so that the regret so far stays the same."""
    for player in range(environment.means.shape[0]):
        for arm in range(environment.means.shape[1]):
            pulls = state.statistics[COUNT, arm, player] + run.uncounted[COUNT, arm, player]
            new = environment.later_gaps[change, player, arm]
            run.offset[player] += pulls * (environment.gaps[player, arm] - new)
            environment.gaps[player, arm] = new
            environment.means[player, arm] = environment.later_means[change, player, arm]


@out_of_line
def play(state, run, environment, participation, constants, key, clock, first, last):
    """Play rounds `first` … `last`; return how many were active in the last one, or −1 if a center or scale is NaN."""
    concurrent = participation.kind == CONCURRENT
    count = 0
    while first <= last:
        ahead = activate_ahead(run, participation, first, last, key)  # 1. who is active, for several rounds at once
        for t in range(first, first + ahead):
            begin, end = run.begins[t - first], run.begins[t - first + 1]
            count = end - begin
            active, reward_words = run.active[begin:end], run.reward_words[begin:end]
            log_T = log_of(t, clock)
            # 2. their centers and scales: with `anytime`, or if others' pulls change them at once
            refreshes = clock.anytime or not (AT_OWN_PULL or SCHEDULED)
            if refreshes and refresh_active(state, run, active, concurrent, t, clock.anytime, log_T, constants):
                return -1
            choose(state, run, begin, end, run.begins[ahead], t, key)  # 3. which arms they pull; fills `reward_words`
            earn(run, environment, active, reward_words, t, key)  # 4. what that earns, which counts now or later
            if TIMED:
                keep_late(run, active, t)
                arrived = count_late(state, run, clock.delay, clock.batch, t)
                players, arms = run.arrived_players, run.arrived_arms
            else:
                count_rewards(state, run, active, t)
                players, arms, arrived = active, run.arms, count
            # 5. what is shared, and the centers and scales that it changes
            if learn(state, run, players, arms, arrived, t, clock.anytime, log_T, constants):
                return -1
        first += ahead
    return count


def earn(run, environment, active, reward_words, t, key):
    """Draw the reward of each active player."""
    family, parameter = environment.family, environment.parameter
    for pull in range(active.size if family == BERNOULLI else 0):
        run.rewards[pull] = draw_bernoulli(environment.means[active[pull], run.arms[pull]], reward_words[pull])
    for pull in range(active.size if family != BERNOULLI else 0):
        player, mean = active[pull], environment.means[active[pull], run.arms[pull]]
        run.rewards[pull] = draw_other(family, parameter, mean, reward_words[pull], player, t, key)


def count_rewards(state, run, active, t):
    """Count the round's pulls and rewards."""
    for pull in range(active.size):
        count_reward(state, run.arms[pull], active[pull], run.rewards[pull], t)


def activate_ahead(run, participation, first, last, key):
    """Write who is active in rounds `first` …, as many as fit; return how many rounds that are.

    Random words do not depend on what a run saw, and those of several rounds at once fill whole vectors. Rounds that
    stand together fit in WIDTH slots. A round of more players stands alone.
    """
    kind, probabilities = participation.kind, participation.probabilities
    mask, spans = participation.mask, participation.spans
    players, slots, ahead = run.arms.size, 0, 0
    while first + ahead <= last and ahead < WIDTH and (slots == 0 or slots + players <= WIDTH):
        active, scratch = run.active[slots : slots + players], run.reward_words[slots : slots + players]
        count = activate(active, scratch, kind, probabilities, mask, spans, first + ahead, key)
        rounds = run.rounds[slots : slots + count]
        for number in range(count):
            rounds[number] = first + ahead
        slots += count
        ahead += 1
        run.begins[ahead] = slots
    return ahead


def learn(state, run, players, arms, count, t, anytime, log_T, constants):
    """Share what was counted, and form the centers and scales that it changes; return whether one is NaN.

    With `anytime` they are formed before they are used.
    """
    some_nan = False
    changed = share_round(state, players, arms, count, t, anytime, log_T, constants)
    if anytime:
        return False
    if AT_OWN_PULL:
        some_nan = evaluate_pairs(state, run, players, arms, count, log_T, constants)
    elif SCHEDULED and changed == ALL:
        some_nan = evaluate_all(state, run, log_T, constants)
    elif SCHEDULED and changed == PULLED:
        some_nan = evaluate_pulled(state, run, log_T, constants)
    elif SCHEDULED and changed == FEW:
        for pull in range(count):
            player, arm = players[pull], arms[pull]
            if counts_at_once(state.statistics[COUNT][arm, player]):
                some_nan |= evaluate_rarely(state, run, arm, player, shared_now(state, arm), log_T, constants)
    return some_nan


def keep_late(run, active, t):
    """Keep the rewards of round t, which nobody knows yet."""
    row = t % run.late_count.size
    run.late_count[row] = active.size
    for pull in range(active.size):
        player, arm, reward = active[pull], run.arms[pull], run.rewards[pull]
        run.late_players[row, pull], run.late_arms[row, pull], run.late_rewards[row, pull] = player, arm, reward
        run.uncounted[COUNT, arm, player] += 1
        run.uncounted[SUM, arm, player] += reward


def count_late(state, run, delay, batch, t):
    """Count the rewards that arrive at the end of round t, as those of one round; return how many there are."""
    arrived = 0
    if t % batch == 0:
        for earlier in range(max(t - delay - batch, 0) + 1, t - delay + 1):
            row = earlier % run.late_count.size
            for pull in range(run.late_count[row]):
                player, arm = run.late_players[row, pull], run.late_arms[row, pull]
                reward = run.late_rewards[row, pull]
                count_reward(state, arm, player, reward, t)
                run.uncounted[COUNT, arm, player] -= 1
                run.uncounted[SUM, arm, player] -= reward
                run.arrived_players[arrived], run.arrived_arms[arrived] = player, arm
                arrived += 1
    return arrived


def refresh_active(state, run, active, concurrent, t, anytime, log_T, constants):
    """Form the active players' centers and scales that others' data changed, or with `anytime` the round.

    Return whether one is NaN.
    """
    arms, players = run.center.shape
    some_nan = False
    if AT_OWN_PULL or SCHEDULED:
        for pull in range(active.size):
            for arm in range(arms):
                some_nan |= evaluate_as_seen(state, run, np.uint64(arm), active[pull], log_T, constants)
        return some_nan
    oldest = t - 2  # if nobody misses a round, all were refreshed at the start of round t − 1, by data up to t − 2
    if not concurrent:
        for pull in range(active.size):
            oldest = min(oldest, run.refreshed_at[active[pull]])
            run.refreshed_at[active[pull]] = t - 1
    for arm in range(arms):
        if anytime or state.pulled_at[arm] > oldest:
            if active.size < players:
                for pull in range(active.size):
                    some_nan |= evaluate_as_seen(state, run, np.uint64(arm), active[pull], log_T, constants)
            else:
                some_nan |= evaluate_arm(state, run, np.uint64(arm), log_T, constants)
    return some_nan


def refresh_all(state, run, clock, t, constants):
    """Bring every center and scale up to date, as round t will use them; for traces."""
    if AT_OWN_PULL and not clock.anytime:
        return  # they already are
    log_T = log_of(t, clock)
    for arm in range(run.center.shape[0]):
        for player in range(run.center.shape[1]):
            evaluate_as_seen(state, run, np.uint64(arm), np.uint64(player), log_T, constants)


def choose(state, run, begin, end, slot_count, t, key):
    """Write the arms of the players in slots `begin` … `end` − 1 into `arms`.

    Rounds ahead use `slot_count` slots. Random words are drawn once for all rounds that stand together, and for WIDTH
    slots at a time.
    """
    for start in range(begin, end, WIDTH):
        if start % WIDTH == 0:
            draw(run, start, min(start + WIDTH, slot_count), key)
        stop = min(start + WIDTH, end)
        players, arms = run.active[start:stop], run.arms[start - begin : stop - begin]
        if IMED:
            for pull in range(players.size):
                player = players[pull]
                arms[pull] = least_evidence(run.center[:, player], run.scale[:, player])
        else:
            tile_at = gather_rough(run.rough, players, run.center.shape[0])
            words = run.beta_words if BETA else run.words
            tables = run.rough, tile_at, words, run.bounds, np.uint64(start % WIDTH), run.top, run.center, run.scale
            if BETA:
                pick_beta(*tables, state.statistics[COUNT], players, arms, t, key)
            else:
                pick(*tables, players, arms, t, key)


@out_of_line
def draw(run, start, stop, key):
    """Draw the random words of some slots, and bound what arms draw with them."""
    draw_words(run.words, run.active[start:], run.rounds[start:], stop - start, key)
    reward_words = run.reward_words[start:stop]
    for number in range(stop - start):
        reward_words[number] = run.words[number]
    if BETA:
        draw_beta_words(run.beta_words, run.active[start:], run.rounds[start:], stop - start, run.center.shape[0], key)
    elif RANDOMISED:
        bound_draws(run.words, run.bounds, stop - start, run.center.shape[0])
