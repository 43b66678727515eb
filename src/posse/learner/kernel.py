"""The learner's arithmetic: plain Python on arrays, compiled once for each policy class.

How rewards change what is known is in `posse.policies.state`. What comes from `posse.policies.bound` is bound for each
policy. What a policy knows comes to `choose` and `observe`, which are called most, as a plain tuple: the compiler finds
its type in a fourth of the time.
"""

from __future__ import annotations

import math

from posse.compile import out_of_line
from posse.policies.beta_draw import is_law
from posse.policies.beta_propensity import fill_beta_propensities
from posse.policies.bound import (
    AT_OWN_PULL,
    BETA,
    IMED,
    RANDOMISED,
    SCHEDULED,
    SHARES,
    SUMS,
    UNTRIED,
    belief_of,
    expected_at,
    index_of,
    own_of,
    player_of,
    raised,
)
from posse.policies.imed import least_evidence
from posse.policies.propensity import draw, fill_propensities
from posse.policies.refresh import summary_is_due
from posse.policies.state import State, count_reward, share_everything, share_round, shared_as_seen, take_in_few
from posse.policies.statistics import COUNT
from posse.streams import DECISION, block

BOUND_FOR_EACH_POLICY = True

SHIFT = 2.0**-10  # by how much rewards are moved to see how far a center follows

CENTER, SCALE, WEIGHT, PROBABILITY = 0, 1, 2, 3  # the rows of `out`, one column an arm
LEAST_WANTED = 1e-6  # far more than the errors of probabilities
ROWS, HELD_OUT = 7, 3  # the rows of scratch, one column an arm, and which has the probabilities of the holdout


def evaluate(state, player, waiting, all_waiting, M, K, log_T, constants, out):
    """Fill a player's centers and scales, and the weight of other players' data in each center."""
    fill_indices(state, player, waiting, all_waiting, M, K, log_T, constants, out)
    for arm in range(all_waiting.size):
        out[WEIGHT, arm] = weight_of_others(
            state, player, arm, waiting, all_waiting, M, K, log_T, constants, out[CENTER, arm]
        )


def fill_indices(state, player, waiting, all_waiting, M, K, log_T, constants, out):
    """Fill a player's centers and scales.

    `waiting` is [arm, player], `all_waiting` [arm]: the pulls whose rewards have not come.
    """
    known = player_of(state.of_player, player)
    for arm in range(all_waiting.size):
        own, shared, expected = numbers_of(state, player, arm, waiting, all_waiting)
        out[CENTER, arm], out[SCALE, arm] = one_index(own, shared, known, expected, M, K, log_T, constants)


def numbers_of(state, player, arm, waiting, all_waiting):
    """What the index of a pair rests on: its own statistics, what is shared of the arm, and what is expected."""
    own, shared = own_of(state.indexed, (arm, player)), shared_as_seen(state, arm, (arm, player))
    if not RANDOMISED:
        own = with_waiting(own, waiting[arm, player])
        if SUMS:
            shared = with_waiting(shared, waiting[arm, player] if AT_OWN_PULL else all_waiting[arm])
    return own, shared, expected_at(state.of_pair, (arm, player))


@out_of_line
def weight_of_others(state, player, arm, waiting, all_waiting, M, K, log_T, constants, center):
    """The weight of other players' data in the center of a pair.

    It is how far the center follows if all others earn more, in parts of how far it follows if everybody does.
    """
    if SHARES and waiting.shape[1] > 1 and center < math.inf:  # one player alone has only its own data
        own, shared, expected = numbers_of(state, player, arm, waiting, all_waiting)
        known = player_of(state.of_player, player)
        others, from_others = raised(own[0], shared, expected, constants, SHIFT)
        everybody, from_all = raised(0.0, shared, expected, constants, SHIFT)
        more = (own[0], own[1] + SHIFT * own[0], *own[2:])
        by_others = one_index(own, others, known, from_others, M, K, log_T, constants)[0] - center
        by_all = one_index(more, everybody, known, from_all, M, K, log_T, constants)[0] - center
        if by_all > 0.0:
            return min(max(by_others / by_all, 0.0), 1.0)
    return 0.0


@out_of_line
def one_index(own, shared, known, expected, M, K, log_T, constants):
    """The policy's center and scale, compiled once for all who ask."""
    return index_of(own, shared, known, expected, M, K, log_T, constants)


def with_waiting(numbers, waiting):
    """Numbers whose count and sum, the first two, are as if the waiting pulls had earned the mean so far."""
    n, s = numbers[0], numbers[1]
    mean = s / n if n > 0.0 else UNTRIED
    return (n + waiting, s + waiting * mean, *numbers[2:])


def believe(state, M, K, log_T, constants, centers, scales):
    """Fill what the policy believes of every player and arm, [player, arm]."""
    for player in range(centers.shape[0]):
        for arm in range(centers.shape[1]):
            own, shared = own_of(state.indexed, (arm, player)), shared_as_seen(state, arm, (arm, player))
            known, expected = player_of(state.of_player, player), expected_at(state.of_pair, (arm, player))
            center, scale = belief_of(own, shared, known, expected, M, K, log_T, constants)
            if BETA:  # the mean and the standard deviation of a Beta law
                mean = center / (center + scale)
                center, scale = mean, math.sqrt(mean * (1.0 - mean) / (center + scale + 1.0))
            centers[player, arm], scales[player, arm] = center, scale


def weigh(available, mixture, serial, out, rows, work):
    """Fill each arm's probability of having the largest index, within the limits and mixed with the holdout.

    `mixture` is the floor, the limits, the holdout, and the number of decisions for which all arms count as equally
    likely to have the largest index. The limits are the least and the greatest share of each arm, [2, arm], or [2, 0]
    if there is only the floor. `rows` and `work` are scratch, [ROWS, arm] and what the propensities take.
    """
    floor, limits, holdout, burn_in = mixture
    count = 0
    for arm in range(available.size):
        if available[arm]:
            rows[0, count], rows[1, count] = out[CENTER, arm], out[SCALE, arm]
            count += 1
    if serial < burn_in:
        rows[2, :count] = 1.0 / count
    elif BETA:
        fill_beta_propensities(rows[0, :count], rows[1, :count], rows[2, :count], work)
    elif IMED:
        rows[2, :count] = 0.0
        rows[2, least_evidence(rows[0, :count], rows[1, :count])] = 1.0
    else:
        fill_propensities(rows[0, :count], rows[1, :count], rows[2, :count], work)
    if limits.size > 0:
        place = 0
        for arm in range(available.size):
            if available[arm]:
                rows[0, place], rows[1, place], rows[4, place] = limits[0, arm], limits[1, arm], 1.0
                place += 1
        limit(rows[0, :count], rows[1, :count], rows[2, :count], rows[5, :count])
        limit(rows[0, :count], rows[1, :count], rows[4, :count], rows[6, :count])
    uniform = holdout / count + (1.0 - holdout) * floor
    rest = (1.0 - holdout) * (1.0 - count * floor)
    place = 0
    for arm in range(available.size):
        out[PROBABILITY, arm] = 0.0
        if available[arm]:
            if limits.size > 0:
                rows[HELD_OUT, arm] = rows[6, place]
                out[PROBABILITY, arm] = holdout * rows[6, place] + (1.0 - holdout) * rows[5, place]
            else:
                rows[HELD_OUT, arm] = 1.0 / count
                out[PROBABILITY, arm] = uniform + rest * rows[2, place]
            place += 1


@out_of_line
def limit(least, most, wanted, share):
    """Fill shares that add up to 1: the least, and the rest in proportion to what is wanted, up to the greatest.

    So share = min(least + s · wanted, most), with one s for all. If less than a millionth is wanted of the arms below
    their greatest share, what it lacks of that is added by the room between their limits, so that nothing hangs on
    rounding errors. Limits that cannot be kept, because arms are missing, are scaled first.
    """
    low, high, left = 0.0, 0.0, 1.0
    for arm in range(share.size):
        low += least[arm]
        high += most[arm]
    for arm in range(share.size):
        if low > 1.0:
            least[arm] /= low
        if high < 1.0:
            most[arm] = most[arm] / high if high > 0.0 else 1.0
        share[arm] = least[arm]
        left -= least[arm]
    changed = True
    while changed:
        changed, total, room, rest = False, 0.0, 0.0, max(left, 0.0)
        for arm in range(share.size):
            if share[arm] < most[arm]:
                total += wanted[arm]
                room += most[arm] - least[arm]
        for arm in range(share.size):
            if share[arm] < most[arm]:
                lacking = max(LEAST_WANTED - total, 0.0) * (most[arm] - least[arm]) / room
                share[arm] = least[arm] + rest * (wanted[arm] + lacking) / max(total, LEAST_WANTED)
                if share[arm] >= most[arm]:
                    share[arm] = most[arm]
                    left -= most[arm] - least[arm]
                    changed = True


def choose(
    known, players, waiting, all_waiting, M, K, log_T, constants, offers, mixture, serial, key, out, drawn, rows, work
):
    """One round: draw an arm for each player from its exact probabilities, and whether the decision is held out.

    Both go into `drawn`, [player, 4], with the weight of others' data in the arm, and a sum that is no number if any
    index or probability is none, or any Beta law. `out`, [player, 4, arm], gets everything but the weights. `offers`
    says which arms there are for each player, or for all in one row. `serial` is the number of the first decision.

    The arm is drawn first. Given the arm, the decision belongs to the holdout with the holdout's part of the arm's
    probability. So a decision belongs to the holdout with the declared probability, and its arm then has equal shares.
    """
    state = State(*known)
    for place in range(players.size):
        numbers, number = out[place], serial + place
        fill_indices(state, players[place], waiting, all_waiting, M, K, log_T, constants, numbers)
        weigh(offers[place % offers.shape[0]], mixture, number, numbers, rows, work)
        high, low, coin, _ = block(0, 0, number, DECISION, key)
        arm = draw(numbers[PROBABILITY], (high * 2.0**20 + (low >> 12) + 0.5) * 2.0**-52)
        held_out = (coin + 0.5) * 2.0**-32 * numbers[PROBABILITY, arm] < mixture[2] * rows[HELD_OUT, arm]
        drawn[place, 0], drawn[place, 1] = arm, held_out
        drawn[place, 2] = weight_of_others(
            state, players[place], arm, waiting, all_waiting, M, K, log_T, constants, numbers[CENTER, arm]
        )
        drawn[place, 3] = numbers[PROBABILITY, arm]
        for each in range(numbers.shape[1]):
            drawn[place, 3] += numbers[CENTER, each] + numbers[SCALE, each]
            if BETA and not is_law(numbers[CENTER, each], numbers[SCALE, each]):
                drawn[place, 3] = math.nan


def observe(known, pulls, event, log_T, constants):
    """Take in one round's rewards: all counts and sums first, then what players see.

    `pulls` has the players, the arms, and the rewards in grid steps, [3, pull]. Return whether a summary is due, which
    the caller has to make. Event 0 has no pulls: everything that is shared is formed anew; return whether that says
    anything new. One kernel for both, because it takes long to compile.
    """
    state = State(*known)
    players, arms, rewards = pulls[0], pulls[1], pulls[2]
    if event == 0:
        return share_everything(state, log_T, constants)
    for place in range(players.size):
        count_reward(state, arms[place], players[place], rewards[place], event)
    if not SCHEDULED:
        share_round(state, players, arms, players.size, event, True, log_T, constants)
        return False
    state.summed[0] += players.size
    if summary_is_due(state.summed[0], state.summed[1], state.statistics[COUNT].shape[1]):
        return True
    take_in_few(state, players, arms, players.size)
    return False
