"""The round loop: plain Python that is compiled once for each policy class.

A round has five steps: who is active; what of the others' data they look at; which arms they pull; what that earns; and
whose indices change. `posse.policies.state` says how a reward changes what is known. What comes from
`posse.policies.bound` is bound for each policy.
"""

import math
from typing import NamedTuple

import numpy as np

from posse.compile import out_of_line
from posse.policies.beta_draw import BLOCKS, beta_draw
from posse.policies.bound import AT_OWN_PULL, BETA, IMED, RANDOMISED, SCHEDULED, index_of, own_of, player_of
from posse.policies.imed import least_evidence
from posse.policies.refresh import counts_at_once
from posse.policies.state import count_reward, see, share_everything, share_round, shared_as_seen, shared_now
from posse.policies.statistics import COUNT
from posse.rewards import draw_reward
from posse.schedule import CONCURRENT, activate
from posse.simulation.pick import draw_halves, largest, pick
from posse.streams import DRAW, SAMPLE, block

BOUND_FOR_EACH_POLICY = True

TILE = 32  # players whose random words are drawn together

# NaN is told by its bits, which without the sign are larger than those of infinity: the compiler takes for granted that
# there are no NaNs, and would leave out a comparison of floats.
INFINITY = 0x7FF0000000000000
NO_SIGN = 0x7FFFFFFFFFFFFFFF


class Environment(NamedTuple):
    """The problem, as the kernel takes it."""

    means: np.ndarray  # [player, arm]
    family: int
    parameter: float


class Run(NamedTuple):
    """What a run has beside what the policy knows: indices, and the current round."""

    center: np.ndarray  # [player, arm]
    scale: np.ndarray  # [player, arm]
    center_bits: np.ndarray  # the same memory as integers
    scale_bits: np.ndarray
    looked_at: np.ndarray  # [player], the last round whose data is in the player's indices, where players may miss one
    active: np.ndarray  # [place], the players of the current round, in order; the next three go with it
    arms: np.ndarray  # [place]
    chances: np.ndarray  # [place], the random words of the rewards
    rewards: np.ndarray  # [place], in grid steps
    halves: np.ndarray  # [half word, place in the tile]
    words: np.ndarray  # [word, arm], where indices are Beta draws
    column: np.ndarray  # [2, player], centers and scales of an arm on their way
    column_bits: np.ndarray  # the same memory as integers


class Clock(NamedTuple):
    """What the policy takes for ln T: that of the horizon, or with `anytime` ln max(t, 2) in round t."""

    log_horizon: float
    anytime: bool


class Measures(NamedTuple):
    """When a run is measured, and what it is measured by."""

    checkpoints: np.ndarray  # the rounds
    gaps: np.ndarray  # [player, arm]
    regret: np.ndarray  # [checkpoint], to be filled in


def log_of(t, clock):
    """What round t takes for ln T."""
    return math.log(max(t, 2)) if clock.anytime else clock.log_horizon


def advance(state, run, environment, participation, constants, key, clock, measures, begins, first, last):
    """Play rounds `first` … `last`, with the regret at checkpoints; return how many were active in the last round.

    A run that begins forms every index first. All of it is one call, because only one thread at a time can work between
    calls. Return −1 as soon as an index is not a number.
    """
    if begins:
        share_everything(state, constants)
        if evaluate_all(state, run, log_of(1, clock), constants):
            return -1
    number = 0
    while number < measures.checkpoints.size and measures.checkpoints[number] < first:
        number += 1
    count = 0
    while first <= last:
        stop = last
        if number < measures.checkpoints.size:
            stop = min(last, measures.checkpoints[number])
        count = play(state, run, environment, participation, constants, key, clock, first, stop)
        if count < 0:
            return count
        if number < measures.checkpoints.size and stop == measures.checkpoints[number]:
            measures.regret[number] = collective_regret(state.statistics[COUNT], measures.gaps)
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
def play(state, run, environment, participation, constants, key, clock, first, last):
    """Play rounds `first` … `last`; return how many players were active in the last one, or −1 for an index of NaN."""
    active, arms = run.active, run.arms
    kind, probabilities = participation.kind, participation.probabilities
    mask, spans = participation.mask, participation.spans
    count = 0
    wrong = False
    for t in range(first, last + 1):
        count = activate(active, run.chances, kind, probabilities, mask, spans, t, key)
        log_T = log_of(t, clock)
        if clock.anytime or not (AT_OWN_PULL or SCHEDULED):
            wrong |= look(state, run, count, kind == CONCURRENT, t, clock.anytime, log_T, constants)

        if BETA:
            choose_by_beta(state, run, count, t, key)
        else:
            choose(run, count, t, key)

        for place in range(count):
            player, arm = active[place], arms[place]
            mean, chance = environment.means[player, arm], run.chances[place]
            reward = draw_reward(environment.family, environment.parameter, mean, chance, player, t, key)
            run.rewards[place] = reward
            count_reward(state, arm, player, reward, t)

        if share_round(state, active, arms, count, t, clock.anytime, constants):
            wrong |= evaluate_all(state, run, log_T, constants)
        elif SCHEDULED or (AT_OWN_PULL and not clock.anytime):
            for place in range(count):
                player, arm = active[place], arms[place]
                if not SCHEDULED or counts_at_once(state.statistics[COUNT][arm, player]):
                    wrong |= evaluate(state, run, arm, player, shared_now(state, arm), log_T, constants)
        if wrong:
            return -1
    return count


def look(state, run, count, concurrent, t, anytime, log_T, constants):
    """Bring the active players' indices up to date, as far as their own pulls did not; return whether one is NaN."""
    arms = run.center.shape[1]
    wrong = False
    if AT_OWN_PULL or SCHEDULED:
        for place in range(count):
            for arm in range(arms):
                wrong |= evaluate_as_seen(state, run, arm, run.active[place], log_T, constants)
        return wrong
    oldest = t - 2  # whose data everybody has when nobody ever misses a round
    if not concurrent:
        for place in range(count):
            oldest = min(oldest, run.looked_at[run.active[place]])
            run.looked_at[run.active[place]] = t - 1
    for arm in range(arms):
        if anytime or state.pulled_at[arm] > oldest:
            if count < run.center.shape[0]:
                for place in range(count):
                    wrong |= evaluate_as_seen(state, run, arm, run.active[place], log_T, constants)
            else:
                wrong |= evaluate_arm(state, run, arm, log_T, constants)
    return wrong


def evaluate(state, run, arm, player, shared, log_T, constants):
    """Form a pair's center and scale, from this that is shared of the arm; return whether one is NaN."""
    own, known = own_of(state.indexed, (arm, player)), player_of(state.of_player, player)
    center, scale = index_of(own, shared, known, *run.center.shape, log_T, constants)
    run.center[player, arm], run.scale[player, arm] = center, scale
    wrong = INFINITY - (run.center_bits[player, arm] & NO_SIGN)
    if RANDOMISED:
        wrong |= INFINITY - (run.scale_bits[player, arm] & NO_SIGN)
    return wrong < 0


def evaluate_as_seen(state, run, arm, player, log_T, constants):
    """Form a pair's center and scale, from what the player has seen of the arm; return whether one is NaN."""
    return evaluate(state, run, arm, player, shared_as_seen(state, arm, (arm, player)), log_T, constants)


def evaluate_arm(state, run, arm, log_T, constants):
    """Form an arm's centers and scales for all players; without gaps, so that the compiler vectorises it."""
    (players, arms), column = run.center.shape, run.column
    shared = shared_now(state, arm)
    for player in range(players):
        own, known = own_of(state.indexed, (arm, player)), player_of(state.of_player, player)
        column[0, player], column[1, player] = index_of(own, shared, known, players, arms, log_T, constants)
    for player in range(players):
        run.center[player, arm], run.scale[player, arm] = column[0, player], column[1, player]
    wrong = 0
    for player in range(players):
        wrong |= INFINITY - (run.column_bits[0, player] & NO_SIGN)
        if RANDOMISED:
            wrong |= INFINITY - (run.column_bits[1, player] & NO_SIGN)
    return wrong < 0


@out_of_line
def evaluate_all(state, run, log_T, constants):
    """Form every center and scale; return whether one is NaN."""
    wrong = False
    for arm in range(run.center.shape[1]):
        if AT_OWN_PULL:
            for player in range(run.center.shape[0]):
                see(state, arm, (arm, player))
        wrong |= evaluate_arm(state, run, arm, log_T, constants)
    return wrong


def settle(state, run, clock, t, constants):
    """Bring every center and scale up to date, as round t will use them; for traces."""
    if AT_OWN_PULL and not clock.anytime:
        return  # they are
    log_T = log_of(t, clock)
    for arm in range(run.center.shape[1]):
        for player in range(run.center.shape[0]):
            evaluate_as_seen(state, run, arm, player, log_T, constants)


def choose(run, count, t, key):
    """Write the arm of each active player into `arms`, and the random word of its reward into `chances`."""
    active, arms, chances, halves = run.active, run.arms, run.chances, run.halves
    if RANDOMISED:
        for start in range(0, count, TILE):
            stop = min(start + TILE, count)
            draw_halves(active, start, stop, t, key, halves)
            for place in range(start, stop):
                chances[place] = halves[0, place - start] + (halves[1, place - start] << 16)
            for place in range(start, stop):
                arms[place] = pick(active[place], place - start, run.center, run.scale, halves, t, key)
    else:
        for place in range(count):
            chances[place], _, _, _ = block(0, active[place], t, DRAW, key)
        for place in range(count):
            if IMED:
                arms[place] = least_evidence(run.center[active[place]], run.scale[active[place]])
            else:
                arms[place] = largest(run.center, active[place])


def choose_by_beta(state, run, count, t, key):
    """`choose` where indices are Beta draws, `center` and `scale` their a and b; the words of rewards are the same."""
    pulls, words = state.statistics[COUNT], run.words
    for place in range(count):
        player = run.active[place]
        run.chances[place], _, _, _ = block(0, player, t, DRAW, key)
        for arm in range(pulls.shape[0]):
            words[0, arm], words[1, arm], words[2, arm], words[3, arm] = block(arm * BLOCKS, player, t, SAMPLE, key)
        first = 0  # the arm pulled most, whose index is likely to be the largest, makes the floor
        for arm in range(pulls.shape[0]):
            first = arm if pulls[arm, player] > pulls[first, player] else first
        best = first
        highest = beta_index(run, first, player, -math.inf, t, key)
        for arm in range(pulls.shape[0]):
            value = beta_index(run, arm, player, highest, t, key) if arm != first else -math.inf
            best = arm if value > highest else best
            highest = max(highest, value)
        run.arms[place] = best


def beta_index(run, arm, player, floor, t, key):
    """The index of an arm if it is above the floor, else anything up to the floor."""
    words = run.words[0, arm], run.words[1, arm], run.words[2, arm], run.words[3, arm]
    return beta_draw(run.center[player, arm], run.scale[player, arm], floor, words, arm, player, t, key)
