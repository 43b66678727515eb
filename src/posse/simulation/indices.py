"""How the round loop forms centers and scales from what the policy knows, and notices those that are not numbers.

Of a Beta law, a and b below 1 or infinite are noticed in the same way.

What comes from `posse.policies.bound` is bound for each policy. Players and arms are unsigned here, as where they are
looked up, so that everything is compiled for one kind of number.
"""

import math

import numpy as np

from posse.compile import independent, masked, out_of_line
from posse.policies.beta_draw import is_law
from posse.policies.bound import AT_OWN_PULL, BETA, IMED, copy_own, expected_at, index_of, own_of, player_of
from posse.policies.state import see, shared_as_seen, shared_now
from posse.policies.statistics import COUNT
from posse.simulation.pick import FAR, NEAR, ROW, WIDTH, put_rough, rough_at
from posse.simulation.pick_beta import root_of_shape

BOUND_FOR_EACH_POLICY = True

LARGE = float(NEAR)


def evaluate(state, run, arm, player, shared, log_T, constants):
    """Form a pair's center and scale, from what is shared of the arm; return whether one is NaN."""
    at = rough_at(arm, player, run.center.shape[0])
    is_large = form(state, run, arm, player, at, shared, log_T, constants)
    return is_large and check_large(run, arm, player)


@out_of_line
def evaluate_rarely(state, run, arm, player, shared, log_T, constants):
    """`evaluate` as a call, compiled once for all who need it rarely."""
    return evaluate(state, run, arm, player, shared, log_T, constants)


def form(state, run, arm, player, at, shared, log_T, constants):
    """Form a pair's center and scale, with the rough ones at `at`; return whether they need `check_large`."""
    arms, players = run.center.shape
    own, known = own_of(state.indexed, (arm, player)), player_of(state.of_player, player)
    numbers = own, shared, known, expected_at(state.of_pair, (arm, player)), players, arms, log_T, constants
    run.center[arm, player], run.scale[arm, player] = center, scale = index_of(*numbers)
    if BETA:
        run.rough[at], run.rough[at + ROW] = root_of_shape(center), root_of_shape(scale)
    elif not IMED:
        run.rough[at], run.rough[at + ROW] = center, scale  # not by `put_rough`, so that an error names the index
    if BETA:
        return not is_law(center, scale)
    return not (abs(center) <= LARGE and abs(scale) <= LARGE)  # so if one is NaN


@out_of_line
def check_large(run, arm, player):
    """Let a pair have no bounds if single precision cannot hold them; return whether it is NaN."""
    center, scale = run.center[arm, player], run.scale[arm, player]
    if BETA:
        return not is_law(center, scale)
    if not (IMED or max(abs(center), abs(scale)) <= LARGE):
        put_rough(run.rough, rough_at(arm, player, run.center.shape[0]), FAR, 0.0)
    return math.isnan(center) or math.isnan(scale)


def evaluate_as_seen(state, run, arm, player, log_T, constants):
    """Form a pair's center and scale, from what the player has seen of the arm; return whether one is NaN."""
    return evaluate(state, run, arm, player, shared_as_seen(state, arm, (arm, player)), log_T, constants)


def evaluate_arm(state, run, arm, log_T, constants):
    """Form an arm's centers and scales for all players; return whether one is NaN."""
    players, shared = run.center.shape[1], shared_now(state, arm)
    some_large = False
    for first in range(0, players, WIDTH):
        count = min(WIDTH, players - first)
        some_large |= form_side_by_side(state, run, arm, first, count, shared, log_T, constants)
    some_nan = False
    for number in range(players if some_large else 0):
        some_nan |= check_large(run, arm, np.uint64(number))
    return some_nan


@masked
def form_side_by_side(state, run, arm, first, count, shared, log_T, constants):
    """Form an arm's centers and scales for some players; return whether any need `check_large`."""
    begin = rough_at(arm, np.uint64(first), run.center.shape[0])
    some_large = False
    for lane in range(count):
        player, at = np.uint64(first + lane), begin + np.uint64(lane)
        some_large |= form(state, run, arm, player, at, shared, log_T, constants)
    return some_large


def evaluate_pairs(state, run, players, arms, count, log_T, constants):
    """Form the centers and scales of `count` pulled pairs, from what is shared now; return whether one is NaN."""
    some_nan = False
    some_large = form_pairs(state, run, players, arms, count, log_T, constants)
    for pull in range(count if some_large else 0):
        some_nan |= check_large(run, arms[pull], players[pull])
    return some_nan


@independent
def form_pairs(state, run, players, arms, count, log_T, constants):
    """Form the centers and scales of `count` pulled pairs; return whether any need `check_large`."""
    some_large = False
    for pull in range(count):
        player, arm = players[pull], arms[pull]
        at = rough_at(arm, player, run.center.shape[0])
        some_large |= form(state, run, arm, player, at, shared_now(state, arm), log_T, constants)
    return some_large


@out_of_line
def evaluate_all(state, run, log_T, constants):
    """Form every center and scale; return whether one is NaN."""
    some_nan = False
    for number in range(run.center.shape[0]):
        arm = np.uint64(number)
        if AT_OWN_PULL:
            for player in range(run.center.shape[1]):
                see(state, arm, (arm, np.uint64(player)))
        some_nan |= evaluate_arm(state, run, arm, log_T, constants)
    return some_nan


@out_of_line
def evaluate_pulled(state, run, log_T, constants):
    """Form the centers and scales of pairs that were pulled since theirs were formed; return whether one is NaN."""
    some_nan = False
    for row in range(state.statistics[COUNT].shape[0]):
        for column in range(state.statistics[COUNT].shape[1]):
            arm, player = np.uint64(row), np.uint64(column)
            if state.indexed[COUNT][arm, player] != state.statistics[COUNT][arm, player]:
                copy_own(state.indexed, state.statistics, (arm, player))
                some_nan |= evaluate_rarely(state, run, arm, player, shared_now(state, arm), log_T, constants)
    return some_nan
