"""What runs know and where it lies on a GPU.

Tables of players and arms are flat, [arm · players + player], so that neighbouring lanes read neighbouring numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Problems(NamedTuple):
    """The problems of a call."""

    means: Any  # [problem, pair]
    gaps: Any  # [problem, pair]
    families: Any  # [problem]
    parameters: Any  # [problem]


class Tables(NamedTuple):
    """All that runs know, with the run as first axis; or, without it, all that one run knows.

    Counts and sums are exact integers, sums in steps of the reward grid. What a policy has no use for has size 1.
    """

    key: Any  # [2]
    problem: Any  # [1], its number
    pulls: Any  # [pair]
    sums: Any  # [pair]
    all_pulls: Any  # [arm]
    all_sums: Any  # [arm]
    pulled_at: Any  # [arm], the last round in which anybody pulled it
    arms: Any  # [player], the arm of the round, or −1
    counters: Any  # [3 · arm + …], the round's pulls, and its rewards in two parts; where they lie here at all
    looked_at: Any  # [player], the last round whose data is in the player's indices
    center: Any  # [pair]
    scale: Any  # [pair]
    rough: Any  # [3 · pair + …], low and high center and scale: see `posse.simulation.cuda_pick`
    count_share: Any  # [pair], and the next: what each player contributes to the shared sums
    sum_share: Any
    count_shared: Any  # [arm], and the next: the sums of the contributions
    sum_shared: Any
    count_seen: Any  # [pair], and the next: N and S as the player last saw them, for the anytime form
    sum_seen: Any
    successes: Any  # [pair], rewards turned into trials, where the policy samples its indices itself
    squares: Any  # [pair], sums of squared rewards, where the policy has a summary
    own_pulls: Any  # [pair], and the next: what is in the indices, where the policy has a summary
    own_sums: Any
    summed: Any  # [1], everybody's pulls at the last summary
    early: Any  # [pair], pulls before the last quarter
    player_regret: Any  # [player]
    regret: Any  # [checkpoint]


class Summaries(NamedTuple):
    """What the summary takes and fills, [run, …] or […]; the first three are those of `Tables`, [arm, player]."""

    pulls: Any
    sums: Any
    squares: Any
    of_arm: Any
    of_player: Any
    work: Any


class Clock(NamedTuple):
    """Which rounds to play, and when to measure."""

    first: int
    last: int
    early: int  # the last round before the last quarter
    log_horizon: float
    checkpoints: Any
    checkpoint: int  # the number of the first that is not before `first`


class Place(NamedTuple):
    """Which thread this is: one of `lanes`, each for a player, in one of `groups` that share the work on indices."""

    lane: Any
    lanes: Any
    group: Any
    groups: Any
    mask: Any  # the lanes of the run, where it has a warp


def place_in_block(thread, threads, players):
    """The place of a thread of a block: groups of as many lanes as there are players, as far as they go."""
    lanes = min(players, threads)
    groups = threads // lanes
    group = thread // lanes
    lane = thread - group * lanes
    return Place(lane if group < groups else players, lanes, group, groups, 0)


def of_run(tables, run):
    """The tables of one run."""
    return Tables(
        tables.key[run],
        tables.problem[run],
        tables.pulls[run],
        tables.sums[run],
        tables.all_pulls[run],
        tables.all_sums[run],
        tables.pulled_at[run],
        tables.arms[run],
        tables.counters[run],
        tables.looked_at[run],
        tables.center[run],
        tables.scale[run],
        tables.rough[run],
        tables.count_share[run],
        tables.sum_share[run],
        tables.count_shared[run],
        tables.sum_shared[run],
        tables.count_seen[run],
        tables.sum_seen[run],
        tables.successes[run],
        tables.squares[run],
        tables.own_pulls[run],
        tables.own_sums[run],
        tables.summed[run],
        tables.early[run],
        tables.player_regret[run],
        tables.regret[run],
    )


def summaries_of_run(summaries, run):
    """The summary's arrays of one run."""
    return Summaries(
        summaries.pulls[run],
        summaries.sums[run],
        summaries.squares[run],
        summaries.of_arm[run],
        summaries.of_player[run],
        summaries.work[run],
    )


def round_of(checkpoints, number):
    """The round of a checkpoint, or −1 after the last one."""
    return checkpoints[number] if number < checkpoints.size else -1


def pair_of(arm, player, players):
    """Where a pair stands in flat tables; unsigned, as the compiler would provide for negative places."""
    return np.uint64(arm) * np.uint64(players) + np.uint64(player)


def total_of(numbers):
    """The sum of a few whole numbers."""
    total = 0
    for number in range(numbers.size):
        total += numbers[number]
    return total
