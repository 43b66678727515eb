"""The names that kernels leave open and each policy fills: `posse.policies.bindings` makes them from its declaration.

The compiler binds them in every module that says BOUND_FOR_EACH_POLICY. The values here only say what they are. A
`table` has an array for each number, in which `pair` is the place of a player and an arm.
"""

from typing import Any

RANDOMISED = True
BETA = False  # indices are Beta draws
IMED = False  # indices compare arms with the best
UNTRIED = 1.0  # the mean that waiting pulls of an arm without rewards count with
SHARES = True  # indices rest on other players' data too
SUMS = True  # what is shared of an arm is everybody's count and reward sum
SCHEDULED = False  # what is shared comes from a summary that is made by a schedule
SHARED_SUMMARY = False  # several threads can share the work on a summary
WELCOMES = False  # somebody may join without a new summary
AT_OWN_PULL = True  # a player sees what is shared of an arm when it pulls the arm itself
NOTHING = (0.0,)  # shared numbers to which nobody has added


def provided(*numbers: Any) -> Any:
    """Stands for a function that a policy provides: whoever calls it has forgotten to bind the kernel."""
    raise TypeError("this function is a policy's; expected posse.compile to bind it before the kernel runs")


index_of = provided  # (own, shared, of_player, expected, M, K, log_T, constants): the policy's center and scale
belief_of = provided  # (the same): center and scale of what the policy believes
raised = (
    provided  # (n, shared, expected, constants, by): the two if others had earned more; with n = 0, if everybody had
)
contribution_of = provided  # (own, constants): what a player adds to the shared numbers of an arm
fill_summary = provided  # (state, log_T, constants, lane): fill what a summary makes
greet = provided  # (state, player, log_T, constants): fill what is expected of a player that has just joined

own_of = provided  # (table, pair): a pair's statistics, in their units
remember = provided  # (table, pair, reward): take one reward into the statistics of a pair
fade_own = provided  # (table, pair, turn): forget a step of a half-life of a pair's statistics; see `fade`
copy_own = provided  # (target, source, pair): copy the statistics of a pair that its index takes

numbers_at = provided  # (table, pair): what a table of shared numbers holds for a pair
put_numbers = provided  # (table, pair, values): write that
shared_of = provided  # (of_arm, arm): what is shared of an arm
put_shared = provided  # (of_arm, arm, values): write that
added = provided  # (one, other): the sums of two players' shared numbers
player_of = provided  # (of_player, player): what is known of a player
expected_at = provided  # (of_pair, pair): what is expected of a pair


def dealt(lane: Any, count: int) -> range:
    """The numbers below `count` that fall to one of the threads that share the work on a summary: here all of them."""
    return range(count)


def barrier(lane: Any) -> None:
    """Wait for the other threads that share the work on a summary: here there are none."""


# Threads of a team add up a sum together, each with the value of a player of its own. Here a thread is a team.


def dealt_to_teams(lane: Any, count: int) -> range:
    """The numbers below `count` that fall to one of the teams among the threads: here all of them."""
    return range(count)


def by_team(lane: Any, players: int) -> range:
    """The players that the first thread of a team takes, one after the other: here all of them."""
    return range(players)


def member(lane: Any, first: int) -> int:
    """The player that this thread of a team takes while the first thread takes player `first`."""
    return first


def in_order(total: Any, value: Any, lane: Any, first: int) -> Any:
    """A sum with the values of a team's threads more, in the order of their players, `first` before all others."""
    return total + value


def in_any_order(total: Any, value: Any, lane: Any, first: int) -> Any:
    """`in_order` for whole numbers, whose sum does not depend on their order."""
    return total + value


ALONE = 0  # the lane of the only thread


def players_of(lane: Any, columns: int) -> int:
    """How many players the columns of a summary's tables stand for: here each for one."""
    return columns


def plus(total: float, value: float, lane: Any, column: int) -> float:
    """`in_order`, where a column may stand for several players: here for one."""
    return total + value
