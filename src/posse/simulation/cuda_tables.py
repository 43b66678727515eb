"""What runs know and where it lies on a GPU.

Tables of players and arms are flat, [arm · players + player], so that neighbouring lanes read neighbouring numbers.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from posse.policies.bindings import made_function
from posse.problem import Problem
from posse.streams import MAX_ROUND


class GpuProblems(NamedTuple):
    """The problems of a call."""

    starts: Any  # [problem, segment], the first round of each stretch in which means do not change
    means: Any  # [problem, segment, pair]
    gaps: Any  # [problem, segment, pair]
    families: Any  # [problem]
    parameters: Any  # [problem]


def by_segment(problems: Sequence[Problem]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First rounds [problem, segment], means and gaps [problem, segment, pair]; a segment too many never begins."""
    segments = [problem.segments for problem in problems]
    shape = len(problems), max(map(len, segments))
    starts, tables = np.full(shape, MAX_ROUND), np.zeros((2, *shape, problems[0].means.size))
    for number, each in enumerate(segments):
        for place, (first, problem) in enumerate(each):
            starts[number, place] = first
            tables[:, number, place] = problem.means.T.ravel(), problem.gaps.T.ravel()
    return starts, *tables


class RunTables(NamedTuple):
    """What runs have beside what the policy knows, with the run as first axis; or, without it, what one run has."""

    key: Any  # [2]
    problem: Any  # [1], its number
    arms: Any  # [player], the arm of the round, or −1, where a thread has several players
    counters: Any  # [3 · arm + …], pulls since the totals, and rewards in two parts; where they lie here at all
    refreshed_at: Any  # [player], the last round whose data is in the player's indices
    center: Any  # [pair]
    scale: Any  # [pair]
    rough: Any  # [2 · pair + …], center and scale in single precision: see `posse.simulation.cuda_pick`
    summarised: Any  # the statistics as a summary takes them, [arm, player]
    expecting: Any  # what is expected of pairs, likewise
    nan: Any  # [1], 1 if an index was not a number, or a Beta law is none
    early: Any  # [pair], pulls before the last quarter
    player_regret: Any  # [player]
    regret: Any  # [checkpoint]
    uncounted: Any  # pulls and reward sums of pairs, offset of players' regrets: see `posse.simulation.kernel.Run`
    offset: Any  # [player]
    late_arms: Any  # [row · players + player], arms whose rewards are late, or −1
    late_rewards: Any  # [row · players + player]


TUPLES = ("statistics", "indexed", "summarised", "totals", "contributions", "seen", "uncounted", "of_pair", "expecting")
"""What is a tuple here, of an array for each number: to find a place in one of several axes would take longer."""


@functools.cache
def of_run(record: Any, statistics: int, shared: int, expected: int) -> Any:
    """A function that takes one run out of all arrays of a record, for so many numbers of each kind."""
    sizes = statistics, statistics, statistics, 2, shared, shared, 2, expected, expected
    counts = dict(zip(TUPLES, sizes, strict=True))

    def part(name: str) -> str:
        places = ", ".join(f"record.{name}[{place}][run]" for place in range(counts.get(name, 0)))
        return f"({places},)" if places else f"record.{name}[run]"

    parts = ", ".join(map(part, record._fields))
    return made_function("record, run", f"{record.__name__}({parts})", **{record.__name__: record})


@functools.cache
def by_arm(record: Any) -> Any:
    """A function that gives what a policy knows with tables [arm, player], as a summary takes it."""
    tables = {"statistics": "own.summarised", "of_pair": "own.expecting"}
    parts = ", ".join(tables.get(name, f"state.{name}") for name in record._fields)
    return made_function("state, own", f"{record.__name__}({parts})", **{record.__name__: record})


class GpuClock(NamedTuple):
    """Which rounds to play, and when to measure."""

    first: int
    last: int
    early: int  # the last round before the last quarter
    log_horizon: float
    checkpoints: Any
    checkpoint: int  # the number of the first that is not before `first`
    half_life: int  # see `posse.simulation.kernel.Clock`
    delay: int
    batch: int


class Lane(NamedTuple):
    """Which thread this is: one of `lanes`, for a player or several, in one of `groups` that share the work."""

    number: Any
    lanes: Any
    group: Any
    groups: Any
    mask: Any  # the lanes of the run, where it has a warp
    players: Any  # of the run


def lane_in_block(thread, threads, players):
    """Which lane a thread of a block is: groups of as many lanes as there are players, as far as they go."""
    lanes = min(players, threads)
    groups = threads // lanes
    group = thread // lanes
    lane = thread - group * lanes
    return Lane(lane if group < groups else players, lanes, group, groups, 0, players)


def dealt_to_lane(lane, count):
    """`dealt` on a GPU. A thread that stands in no whole group takes nothing."""
    lanes = lane.groups * lane.lanes
    return range(lane.group * lane.lanes + lane.number, count if lane.group < lane.groups else 0, lanes)


def round_of(checkpoints, number):
    """The round of a checkpoint, or −1 after the last one."""
    return checkpoints[number] if number < checkpoints.size else -1


def pair_of(arm, player, players):
    """Where a pair stands in flat tables, in 32 bits; unsigned, as the compiler would provide for negative places."""
    return np.uint32(np.uint32(arm) * np.uint32(players) + np.uint32(player))
