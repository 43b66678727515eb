"""What a policy knows while it runs, and how a reward changes it; the same for the simulator and the learner.

What comes from `posse.policies.bound` is bound for each policy.
"""

from typing import NamedTuple

import numpy as np

from posse.compile import independent
from posse.policies.base import Policy
from posse.policies.bound import (
    ALONE,
    AT_OWN_PULL,
    NOTHING,
    SCHEDULED,
    SUMS,
    WELCOMES,
    added,
    contribution_of,
    copy_own,
    fade_own,
    fill_summary,
    greet,
    numbers_at,
    own_of,
    put_numbers,
    put_shared,
    remember,
    shared_of,
)
from posse.policies.refresh import Refresh, counts_at_once, summary_is_due
from posse.policies.statistics import COUNT, STEP, STEPS, SUM, Statistic

BOUND_FOR_EACH_POLICY = True


def pair_of(arm, player, players):
    """Where a pair stands in tables; on a GPU they are flat."""
    return arm, player


class State(NamedTuple):
    """All that a policy knows. Statistics are exact integers, so that sums do not depend on the order of rewards."""

    statistics: np.ndarray  # int64 [statistic, arm, player]
    totals: np.ndarray  # int64 [2, arm], everybody's counts and reward sums, where the policy shares those
    contributions: np.ndarray  # float64 [number, arm, player], what each player adds, where the policy says it
    of_arm: np.ndarray  # float64 [arm, number], what is shared of each arm, where it is not the totals
    of_player: np.ndarray  # float64 [player, number], what is known of each player, and of one who joins
    of_pair: np.ndarray  # float64 [number, arm, player], what is expected of each pair before its own data
    of_value: np.ndarray  # float64 [number, arm, column], what is known of each value of an attribute on each arm
    columns: np.ndarray  # int64 [player, part], with the next two the attributes: `posse.attributes.Coded`
    weights: np.ndarray  # float64 [player, part]
    part_of: np.ndarray  # int64 [column]
    indexed: np.ndarray  # int64 [statistic, arm, player], the statistics that are in the indices
    seen: np.ndarray  # float64 [number, arm, player], the shared numbers as the player last saw them, at its own pull
    summed: np.ndarray  # int64 [3], everybody's pulls now and at the last summary, and how many players it had
    pulled_at: np.ndarray  # int64 [arm], the last round in which anybody's pull of it counted, where it matters
    work: np.ndarray  # float64 [row, number], scratch of the summary


def state_shapes(
    policy: Policy, statistics: tuple[Statistic, ...], players: int, arms: int, parts: int = 0, columns: int = 0
) -> dict[str, tuple[type, tuple[int, ...]]]:
    """Type and shape of each array of a state, for players with so many parts and columns of attributes.

    Without a shape, `indexed` is another name for `statistics`.
    """
    pairs, shared = (arms, players), len(policy.shared)
    parts, columns = (parts, columns) if policy.of_value else (0, 0)
    rows = policy.work_tables * arms + policy.work_rows + (policy.work_columns * arms if columns else 0)
    sums = policy.contribution is None and policy.summary is None
    shapes: dict[str, tuple[type, tuple[int, ...]]] = {
        "statistics": (np.int64, (len(statistics), *pairs)),
        "totals": (np.int64, (2, arms if sums else 0)),
        "contributions": (np.float64, (shared, *(pairs if policy.contribution else (0, 0)))),
        "of_arm": (np.float64, (0 if sums else arms, shared)),
        "of_player": (np.float64, (players + 1, len(policy.of_player))),
        "of_pair": (np.float64, (len(policy.of_pair), *pairs)),
        "of_value": (np.float64, (len(policy.of_value), arms, columns)),
        "columns": (np.int64, (players, parts)),
        "weights": (np.float64, (players, parts)),
        "part_of": (np.int64, (columns,)),
        "seen": (np.float64, (shared, *(pairs if policy.refresh is Refresh.OWN_PULL else (0, 0)))),
        "summed": (np.int64, (3,)),
        "pulled_at": (np.int64, (arms,)),
        "work": (np.float64, (rows, max(players, arms, columns, 16))),
    }
    if policy.refresh is Refresh.SCHEDULE:
        shapes["indexed"] = shapes["statistics"]
    return shapes


def shared_now(state, arm):
    """What is shared of an arm at this moment."""
    if SUMS:
        return state.totals[COUNT][arm] * 1.0, state.totals[SUM][arm] * STEP
    return shared_of(state.of_arm, arm)


def shared_as_seen(state, arm, pair):
    """What is shared of an arm, as the player sees it."""
    if AT_OWN_PULL:
        return numbers_at(state.seen, pair)
    return shared_now(state, arm)


def see(state, arm, pair):
    """Let a player see what is shared of an arm."""
    put_numbers(state.seen, pair, shared_now(state, arm))


def count_reward(state, arm, player, reward, t):
    """Count one pull in round t, and its reward."""
    remember(state.statistics, (arm, player), reward)
    if SUMS:
        state.totals[COUNT][arm] += 1
        state.totals[SUM][arm] += reward
    if not (SCHEDULED or (SUMS and AT_OWN_PULL)):
        state.pulled_at[arm] = t


ALL, PULLED, FEW = 3, 2, 1  # pairs whose indices a round changes: see `share_round`


def share_round(state, players, arms, count, t, keep_seen, log_T, constants):
    """Bring what is shared up to date with round t, whose rewards are all counted.

    `players` and `arms` are those of the round's `count` pulls. `keep_seen` says that centers and scales are formed
    later, so that what each player saw at its pull must be kept for them. Return whose indices a schedule changes: ALL
    after a summary; PULLED if it says nothing new, which leaves it to the caller to take in those pairs' data; FEW if
    pulls of the round count at once; or 0.
    """
    if SCHEDULED:
        state.summed[0] += count
        if summary_is_due(state.summed[0], state.summed[1], state.statistics[COUNT].shape[1]):
            if make_summary(state, log_T, constants) or keep_seen:
                take_in_everything(state)
                return ALL
            return PULLED
        return FEW if take_in_few(state, players, arms, count) else 0
    if not SUMS:
        contribute_pulled(state, players, arms, count, constants)
        for arm in range(state.pulled_at.size):
            if state.pulled_at[arm] == t:
                add_contributions(state, arm, state.statistics[COUNT].shape[1])
    if AT_OWN_PULL and keep_seen:
        for pull in range(count):
            see(state, arms[pull], (arms[pull], players[pull]))
    return 0


def take_in_few(state, players, arms, count):
    """Let pulls of a round count at once, before the next summary, where a player has few of an arm.

    Return whether there were any.
    """
    counted = False
    for pull in range(count):
        if counts_at_once(state.statistics[COUNT][arms[pull], players[pull]]):
            copy_own(state.indexed, state.statistics, (arms[pull], players[pull]))
            counted = True
    return counted


@independent
def contribute_pulled(state, players, arms, count, constants):
    """Bring what each of these players adds to the shared numbers of an arm up to date."""
    for pull in range(count):
        contribute(state, (arms[pull], players[pull]), constants)


def contribute(state, pair, constants):
    """Bring what a player adds to the shared numbers of an arm up to date."""
    own = own_of(state.statistics, pair)
    put_numbers(state.contributions, pair, contribution_of(own, constants))


def add_contributions(state, arm, players):
    """Form the shared numbers of an arm anew, in player order, so that no rounding builds up."""
    total = NOTHING
    for player in range(players):
        total = added(total, numbers_at(state.contributions, pair_of(arm, player, players)))
    put_shared(state.of_arm, arm, total)


def make_summary(state, log_T, constants):
    """Make the summary; return whether it says anything new."""
    new = fill_summary(state, log_T, constants, ALONE) is not False
    state.summed[1], state.summed[2] = state.summed[0], state.statistics[COUNT].shape[1]
    return new


def take_in_everything(state):
    """Let the indices be formed from everything that is remembered."""
    for arm in range(state.statistics[COUNT].shape[0]):
        for player in range(state.statistics[COUNT].shape[1]):
            copy_own(state.indexed, state.statistics, (arm, player))


def fades_at(t, half_life):
    """The number of the step of a half-life that ends with round t, from 1; 0 if none does."""
    step = STEPS * t // half_life
    return step if step > STEPS * (t - 1) // half_life else 0


def turn_of(arm, player, step):
    """How a pair's count is rounded: up if its fraction is at least 1 − (turn + ½) / 8. In 8 steps all turns come."""
    return (arm + player + 5 * step) % STEPS


def fade(state, step, log_T, constants):
    """Forget an eighth of a half-life of everything, and let every player see what is left.

    Counts stay whole, rounded up or down in turns, so that on average they are right and nothing stays for ever.
    """
    arms, players = state.statistics[COUNT].shape
    pulls = 0
    for arm in range(arms):
        if SUMS:
            state.totals[COUNT][arm], state.totals[SUM][arm] = 0, 0
        for player in range(players):
            fade_own(state.statistics, (arm, player), turn_of(arm, player, step))
            pulls += state.statistics[COUNT][arm, player]
            if SUMS:
                state.totals[COUNT][arm] += state.statistics[COUNT][arm, player]
                state.totals[SUM][arm] += state.statistics[SUM][arm, player]
    if SCHEDULED:
        state.summed[0] = pulls
    share_everything(state, log_T, constants)
    if AT_OWN_PULL:
        for arm in range(arms):
            for player in range(players):
                see(state, arm, (arm, player))


def welcome(state, player, log_T, constants):
    """Take in a player that has just joined, in the last place, and return True; or False if a summary is needed.

    It is once an eighth of the players have come since the last one. So a join costs little among many players, and few
    players know of each other at once.
    """
    if WELCOMES and 8 * (player + 1 - state.summed[2]) < player + 1:
        for number in range(state.of_player.shape[1]):
            state.of_player[player + 1, number] = state.of_player[player, number]
        greet(state, player, log_T, constants)
        return True
    for number in range(state.of_player.shape[1]):
        state.of_player[player, number] = 0.0  # nothing is known of it, so that the summary looks at it
    return False


def expect_players(state, players, log_T, constants):
    """Fill what is expected of these players' pairs, from what a summary has said."""
    for number in range(players.size):
        greet(state, players[number], log_T, constants)


def share_everything(state, log_T, constants):
    """Form everything that is shared, as before the first round and when players or arms have come.

    Return whether it says anything new.
    """
    if SCHEDULED:
        new = make_summary(state, log_T, constants)
        take_in_everything(state)
        return new
    if not SUMS:
        for arm in range(state.statistics[COUNT].shape[0]):
            for player in range(state.statistics[COUNT].shape[1]):
                contribute(state, (arm, player), constants)
            add_contributions(state, arm, state.statistics[COUNT].shape[1])
    return True
