"""Replay: what would a policy that learns have earned, judging from a log of fixed propensities?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from posse.insight.evaluation.model import Estimate
from posse.insight.evaluation.rows import Rows, unseen
from posse.insight.logs import by_cell
from posse.learner import Learner
from posse.policies.base import Policy
from posse.simulation.statistics import student_quantile


@dataclass(frozen=True, eq=False)
class Replay:
    """What came of the passes over a log."""

    times: np.ndarray  # in how many passes each row was used
    rows: np.ndarray  # how many rows were used, [pass, player]
    means: np.ndarray
    """Pseudo-rewards, which have no noise: for each row used, the mean reward of its cell, summed, [pass, player]."""


def check_replay(rows: Rows, policy: Policy) -> None:
    """An error if the log cannot say what the policy would have earned."""
    if rows.adaptive:
        raise ValueError(
            f"{policy.label} learns, and can be replayed only on a log of fixed propensities: the rows of a log that "
            "was itself learning cannot be shuffled; those that a learner held out can (holdout=True, --holdout)"
        )
    unseen(rows, np.ones(rows.shape), policy.label)


def replay(
    rows: Rows, policy: Policy, passes: int, seed: int, progress: Callable[[float], None] | None = None
) -> Replay:
    """Let the policy learn from shuffled logs, only from rows that have the arm it wants.

    Such a row is used with probability least propensity / propensity. Then a row is equally likely to be used whatever
    arm the policy wants, so the rows used are a run of the policy itself (Li, Chu, Langford and Wang, 2011, Theorem 1).
    """
    present = np.unique(rows.player)
    least = float(rows.propensity.min())
    cells, _ = _cells(rows)
    times = np.zeros(rows.reward.size)
    counts, means = np.zeros((2, passes, len(rows.players)))
    for number in range(passes):
        learner = Learner(
            policy,
            rows.arms,
            [rows.players[player] for player in present],
            max(1, round(rows.reward.size * least)),  # how many rows will be used
            reward_range=(rows.low, rows.high),
            keep_log=False,
            clock=lambda: 0.0,
        )
        used = _one_pass(rows, learner, least / rows.propensity, np.random.default_rng([seed, number]))
        times[used] += 1
        counts[number] = np.bincount(rows.player[used], minlength=len(rows.players))
        means[number] = np.bincount(rows.player[used], weights=cells[used], minlength=len(rows.players))
        if progress is not None:
            progress((number + 1) / passes)
    return Replay(times, counts, means)


def replay_estimates(rows: Rows, name: str, replayed: Replay, level: float) -> Iterator[Estimate]:
    """The mean reward of the rows used, with Student's interval: overall first, then player by player.

    Its variance is Σ u² σ² + v, where u is a row's share of all rows used: all passes share the log's rewards, so the
    noise σ² does not average out. v is the variance of the mean pseudo-reward between passes, because the log steers
    what is learned; it is not divided by the number of passes, because the same log steers all of them.
    """
    means, sizes = _cells(rows)
    squares = np.where(sizes > 1, (rows.reward - means) ** 2 * sizes / np.maximum(sizes - 1, 1), 0.25)
    for player in (None, *np.unique(rows.player)):
        columns = slice(None) if player is None else [player]
        counts, pseudo = replayed.rows[:, columns].sum(axis=1), replayed.means[:, columns].sum(axis=1)
        used = float(counts.mean())
        found, kind = (math.nan, 0.0, 1.0), "none"
        if counts.all():
            share = replayed.times * (player is None or rows.player == player) / counts.sum()
            variance = float(share**2 @ squares) + float((pseudo / counts).var(ddof=1))
            half = student_quantile(1 - level / 2, counts.size - 1) * math.sqrt(variance)
            value = float(share @ rows.reward)
            found, kind = (value, max(value - half, 0.0), min(value + half, 1.0)), "replay"
        value, low, high = (rows.low + (rows.high - rows.low) * each for each in found)
        who = None if player is None else rows.players[player]
        yield Estimate(name, who, value, low, high, "replay", kind, used, used, 1.0)


def _one_pass(rows: Rows, learner: Learner, chance: np.ndarray, rng: np.random.Generator) -> list[int]:
    """The rows used, in order."""
    order = rng.permutation(chance.size)
    used = []
    for row in order[rng.random(chance.size) < chance[order]].tolist():
        player, arm = rows.players[rows.player[row]], rows.arms[rows.arm[row]]
        center, scale = np.array(list(learner.indices(player).values())).T
        if int(np.argmax(center + scale * rng.standard_normal(center.size))) == rows.arm[row]:
            reward = rows.low + (rows.high - rows.low) * float(rows.reward[row])
            learner.record([(player, arm, min(reward, rows.high))])
            used.append(row)
    return used


def _cells(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """For each row, the mean reward of its player and arm, and how many rows they have."""
    sizes = rows.pulls()[rows.player, rows.arm]
    sums = by_cell(rows.player, rows.arm, rows.shape, rows.reward)
    return np.asarray(sums[rows.player, rows.arm] / sizes), sizes
