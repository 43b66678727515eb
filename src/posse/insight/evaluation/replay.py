"""Replay: what would a policy that learns have earned, judging from a log of fixed propensities?"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.insight.evaluation.model import Estimate, Evaluator, Interval, ScoredTarget
from posse.insight.evaluation.rows import Rows, unseen
from posse.insight.logs import by_cell
from posse.learner import Learner
from posse.policies.base import Law, Policy
from posse.simulation.statistics import student_quantile


@dataclass(frozen=True, eq=False)
class Replay:
    """What came of the passes over a log."""

    name: str
    times: np.ndarray  # in how many passes each row was used
    rows: np.ndarray  # how many rows were used, [pass, group]
    means: np.ndarray
    """Pseudo-rewards, which have no noise: for each row used, the mean reward of its cell, summed, [pass, group]."""


def check_replay(rows: Rows, policy: Policy) -> None:
    """An error if the log cannot say what the policy would have earned."""
    if rows.adaptive:
        raise ValueError(
            f"{policy.label} learns, and can be replayed only on a log of fixed propensities: the rows of a log that "
            "was itself learning cannot be shuffled; those that a learner held out can (holdout=True, --holdout)"
        )
    if rows.offered is not None:
        raise ValueError(f"{policy.label} cannot be replayed: not all arms were on offer in every row")
    unseen(rows, np.ones(rows.shape), policy.label)


def replay(
    rows: Rows, policy: Policy, passes: int, seed: int, progress: Callable[[float], None] | None = None
) -> Replay:
    """Let the policy learn from shuffled logs, only from rows that have the arm it wants.

    Such a row is used with probability least propensity / propensity. Then a row is equally likely to be used whatever
    arm the policy wants, so the rows used are a run of the policy itself (Li, Chu, Langford and Wang, 2011, Theorem 1).
    It is told the players' attributes.
    """
    attributes, players = _known(rows)
    least = float(rows.propensity.min())
    cells, _ = _cells(rows)
    times = np.zeros(rows.reward.size)
    counts, means = np.zeros((2, passes, len(rows.groups)))
    for number in range(passes):
        learner = Learner(
            policy,
            rows.arms,
            players,
            max(1, round(rows.reward.size * least)),  # how many rows will be used
            reward_range=(rows.low, rows.high),
            keep_log=False,
            attributes=attributes,
            clock=lambda: 0.0,
        )
        used = _one_pass(rows, learner, least / rows.propensity, np.random.default_rng([seed, number]))
        times[used] += 1
        counts[number] = np.bincount(rows.group[used], minlength=len(rows.groups))
        means[number] = np.bincount(rows.group[used], weights=cells[used], minlength=len(rows.groups))
        if progress is not None:
            progress((number + 1) / passes)
    return Replay(policy.label, times, counts, means)


def _known(rows: Rows) -> tuple[dict[str, str], dict[str, dict[str, str | None]]]:
    """The log's attributes, declared, and what is known of each player; by numbers, as a log may have any names."""
    columns = [
        {value: f"value {number}" for number, value in enumerate(dict.fromkeys(values)) if value is not None}
        for values in rows.attributes.values()
    ]
    players = {}
    for player in np.unique(rows.player).tolist():
        given = zip(columns, rows.attributes.values(), strict=True)
        players[rows.players[player]] = {
            f"attribute_{place}": named.get(values[player]) for place, (named, values) in enumerate(given)
        }
    return {f"attribute_{place}": "category" for place in range(len(columns))}, players


@dataclass(frozen=True, eq=False)
class Shares:
    """A value as a weighted sum of a group's rewards, and how its expectation varies between passes."""

    value: float
    shares: np.ndarray
    pseudo: np.ndarray  # [pass]; all 0 for a fixed policy

    def interval(self, squares: np.ndarray, level: float) -> Interval:
        """Student's interval. Its variance is Σ u² σ² + v, where u is a row's share of the value.

        All passes share the log's rewards, so the noise σ² does not average out. v is the variance of the mean
        pseudo-reward between passes, because the log steers what is learned; it is not divided by the number of passes,
        because the same log steers all of them.
        """
        variance = float(self.shares**2 @ squares) + float(self.pseudo.var(ddof=1))
        half = student_quantile(1 - level / 2, self.pseudo.size - 1) * math.sqrt(variance)
        return Interval(self.value, self.value - half, self.value + half, "replay", math.sqrt(variance))

    def minus(self, other: "Shares") -> "Shares":
        """The difference: rows that both use count once, and passes that shuffled the log alike are compared."""
        return Shares(self.value - other.value, self.shares - other.shares, self.pseudo - other.pseudo)


class Replays:
    """Replayed policies judged, alone and beside others, by the rows of one evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator, self.rows = evaluator, evaluator.rows
        means, sizes = _cells(self.rows)
        self.squares = np.where(sizes > 1, (self.rows.reward - means) ** 2 * sizes / np.maximum(sizes - 1, 1), 0.25)

    def estimates(self, replayed: Replay) -> list[Estimate]:
        """The mean reward of the rows used, overall first, then group by group."""
        rows, estimates = self.rows, []
        for group in rows.each_group():
            used = float(replayed.rows[:, _columns(group)].sum(axis=1).mean())
            found = self._shares(replayed, group, 0)
            interval = Interval(math.nan, 0.0, 1.0, "none")
            if found is not None:
                interval = found.interval(self.squares[self.evaluator.chosen(group)], self.evaluator.level)
            ends = interval.value, max(interval.low, 0.0), min(interval.high, 1.0)
            value, low, high = (rows.low + (rows.high - rows.low) * each for each in ends)
            who = None if group is None else rows.groups[group]
            estimates.append(Estimate(replayed.name, who, value, low, high, "replay", interval.kind, used, used, 1.0))
        return estimates

    def differences(self, first: Replay | ScoredTarget, second: Replay | ScoredTarget) -> list[Interval]:
        """The differences of two policies of which at least one was replayed, overall first, then group by group."""
        passes = next(len(each.rows) for each in (first, second) if isinstance(each, Replay))
        span, differences = self.rows.high - self.rows.low, []
        for group in self.rows.each_group():
            one, other = (self._shares(each, group, passes) for each in (first, second))
            if one is None or other is None:
                differences.append(Interval(math.nan, -span, span, "none"))
                continue
            found = one.minus(other).interval(self.squares[self.evaluator.chosen(group)], self.evaluator.level)
            low, high = max(found.low, -1.0) * span, min(found.high, 1.0) * span
            differences.append(Interval(found.value * span, low, high, "replay", found.error * span))
        return differences

    def _shares(self, judged: Replay | ScoredTarget, group: int | None, passes: int) -> Shares | None:
        """None where nothing is known."""
        chosen = self.evaluator.chosen(group)
        if isinstance(judged, ScoredTarget):
            found = self.evaluator.shares(judged, group)
            return None if found is None else Shares(*found, np.zeros(passes))
        counts, pseudo = (each[:, _columns(group)].sum(axis=1) for each in (judged.rows, judged.means))
        if not counts.all():
            return None
        shares = judged.times[chosen] / counts.sum()
        return Shares(float(shares @ self.rows.reward[chosen]), shares, pseudo / counts)


def _columns(group: int | None) -> Any:
    return slice(None) if group is None else [group]


def _one_pass(rows: Rows, learner: Learner, chance: np.ndarray, rng: np.random.Generator) -> list[int]:
    """The rows used, in order."""
    order = rng.permutation(chance.size)
    used = []
    for row in order[rng.random(chance.size) < chance[order]].tolist():
        player, arm = rows.players[rows.player[row]], rows.arms[rows.arm[row]]
        if _wanted(learner, player, rng) == rows.arm[row]:
            reward = rows.low + (rows.high - rows.low) * float(rows.reward[row])
            learner.record([(player, arm, min(reward, rows.high))])
            used.append(row)
    return used


def _wanted(learner: Learner, player: str, rng: np.random.Generator) -> int:
    """The arm that the player would choose now."""
    if learner.state.setup.policy.law is not Law.NORMAL:
        chances = list(learner.probabilities(player).values())
        return int(rng.choice(len(chances), p=chances))
    center, scale = np.array(list(learner.indices(player).values())).T
    return int(np.argmax(center + scale * rng.standard_normal(center.size)))


def _cells(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """For each row, the mean reward of its player and arm, and how many rows they have."""
    sizes = rows.pulls()[rows.player, rows.arm]
    sums = by_cell(rows.player, rows.arm, rows.shape, rows.reward)
    return np.asarray(sums[rows.player, rows.arm] / sizes), sizes
