"""How the round loop forms centers and scales from what the policy knows, and notices those that are not numbers.

What comes from `posse.policies.bound` is bound for each policy. Players and arms are unsigned here, as where they are
looked up, so that everything is compiled for one kind of number.
"""

import numpy as np

from posse.compile import out_of_line
from posse.policies.bound import AT_OWN_PULL, BETA, RANDOMISED, copy_own, expected_at, index_of, own_of, player_of
from posse.policies.state import see, shared_as_seen, shared_now
from posse.policies.statistics import COUNT
from posse.simulation.pick import FAR, NEAR, WIDTH, put_rough, rough_place

BOUND_FOR_EACH_POLICY = True

# NaN is told by its bits, which without the sign are larger than those of infinity: the compiler takes for granted that
# there are no NaNs, and would leave out a comparison of floats, or of the bits of a float that it has just computed.
INFINITY = 0x7FF0000000000000
LARGE = int(np.float64(NEAR).view(np.int64))
NO_SIGN = 0x7FFFFFFFFFFFFFFF


def evaluate(state, run, arm, player, shared, log_T, constants):
    """Form a pair's center and scale, from this that is shared of the arm; return whether one is NaN."""
    arms, players = run.center.shape
    own, known = own_of(state.indexed, (arm, player)), player_of(state.of_player, player)
    expected = expected_at(state.of_pair, (arm, player))
    centers, scales = run.center[arm], run.scale[arm]
    centers[player], scales[player] = index_of(own, shared, known, expected, players, arms, log_T, constants)
    if RANDOMISED and not BETA:
        put_rough(run.rough, rough_place(arm, player, arms), centers[player], scales[player])
    return beyond(run, arm, player, LARGE) < 0 and check_large(run, arm, player)


def beyond(run, arm, player, bits):
    """Negative if a pair's center or scale is NaN, or further from 0 than the float of these bits."""
    room = bits - (run.center_bits[arm, player] & NO_SIGN)
    if RANDOMISED:
        room |= bits - (run.scale_bits[arm, player] & NO_SIGN)
    return room


@out_of_line
def check_large(run, arm, player):
    """Let a pair have no bounds, because single precision cannot hold them; return whether it is NaN."""
    if RANDOMISED and not BETA:
        put_rough(run.rough, rough_place(arm, player, run.center.shape[0]), FAR, 0.0)
    return beyond(run, arm, player, INFINITY) < 0


def evaluate_as_seen(state, run, arm, player, log_T, constants):
    """Form a pair's center and scale, from what the player has seen of the arm; return whether one is NaN."""
    return evaluate(state, run, arm, player, shared_as_seen(state, arm, (arm, player)), log_T, constants)


def evaluate_arm(state, run, arm, log_T, constants):
    """Form an arm's centers and scales for all players; in loops that the compiler vectorises."""
    arms, players = run.center.shape
    centers, scales = run.center[arm], run.scale[arm]
    shared = shared_now(state, arm)
    for number in range(players):
        each = np.uint64(number)
        own, known = own_of(state.indexed, (arm, each)), player_of(state.of_player, each)
        expected = expected_at(state.of_pair, (arm, each))
        centers[each], scales[each] = index_of(own, shared, known, expected, players, arms, log_T, constants)
    for first in range(0, players if RANDOMISED and not BETA else 0, WIDTH):
        place = rough_place(arm, np.uint64(first), arms)
        for player in range(first, min(first + WIDTH, players)):
            at = place + np.uint64(player - first)
            put_rough(run.rough, at, centers[player], scales[player])
    room = 0
    for player in range(players):
        room |= beyond(run, arm, np.uint64(player), LARGE)
    wrong = False
    for player in range(players if room < 0 else 0):
        if beyond(run, arm, np.uint64(player), LARGE) < 0:
            wrong |= check_large(run, arm, np.uint64(player))
    return wrong


@out_of_line
def evaluate_all(state, run, log_T, constants):
    """Form every center and scale; return whether one is NaN."""
    wrong = False
    for place in range(run.center.shape[0]):
        arm = np.uint64(place)
        if AT_OWN_PULL:
            for player in range(run.center.shape[1]):
                see(state, arm, (arm, np.uint64(player)))
        wrong |= evaluate_arm(state, run, arm, log_T, constants)
    return wrong


@out_of_line
def evaluate_pulled(state, run, log_T, constants):
    """Form the centers and scales of pairs that were pulled since theirs were formed; return whether one is NaN."""
    wrong = False
    for row in range(state.statistics[COUNT].shape[0]):
        for column in range(state.statistics[COUNT].shape[1]):
            arm, player = np.uint64(row), np.uint64(column)
            if state.indexed[COUNT][arm, player] != state.statistics[COUNT][arm, player]:
                copy_own(state.indexed, state.statistics, (arm, player))
                wrong |= evaluate(state, run, arm, player, shared_now(state, arm), log_T, constants)
    return wrong
