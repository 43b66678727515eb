"""Result: what a simulation measured, and what it says."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import number
from posse.extras import extra
from posse.notebook import Summarized, Summary
from posse.policies.base import Policy
from posse.policies.labels import find_label
from posse.problem import Problem
from posse.schedule import Schedule
from posse.simulation.feedback import AT_ONCE, Feedback, note_on_late_rewards
from posse.simulation.statistics import Difference, interval_width, paired_difference
from posse.text import plural

if TYPE_CHECKING:
    import pyarrow
    from matplotlib.figure import Figure


MEASURED = ("regret", "pulls", "late_pulls", "reward", "player_regret")  # by policy, problem and replication


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Result(Summarized):
    """Measurements of policies on problems. Regret is pseudo-regret: true gaps, not noisy rewards.

    Axes, in this order: policy, problem, replication, then what the field is about.
    """

    regret: np.ndarray
    """Cumulative collective regret, [policy, problem, replication, checkpoint]."""
    checkpoints: np.ndarray
    """The rounds after which regret was measured, [checkpoint]."""
    pulls: np.ndarray
    """How often each player pulled each arm, [policy, problem, replication, player, arm]."""
    late_pulls: np.ndarray
    """How often in the last quarter of the horizon, rounds ⌊3T/4⌋ + 1 … T; like `pulls`."""
    reward: np.ndarray
    """Total reward, [policy, problem, replication]."""
    player_regret: np.ndarray
    """Final regret by player, [policy, problem, replication, player]."""
    policies: tuple[Policy, ...]
    problems: tuple[Problem, ...]
    replications: tuple[int, ...]
    horizon: int
    seed: int
    schedule: Schedule
    anytime: bool
    told_horizon: int
    """The horizon that the policies were told."""
    feedback: Feedback
    version: str
    """The version of posse that ran it."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The policies' labels, in the order of the first axis."""
        return tuple(policy.label for policy in self.policies)

    @property
    def final_regret(self) -> np.ndarray:
        """Regret at the horizon, [policy, problem, replication]."""
        return self.regret[..., -1] if self.checkpoints[-1] == self.horizon else self.player_regret.sum(axis=-1)

    def policy_number(self, which: str | Policy) -> int:
        """Where a policy stands on the first axis, found by its label, by itself, or by a class that it alone has."""
        return self.labels.index(find_label(which.label if isinstance(which, Policy) else which, self.labels))

    def summary(self) -> list[dict[str, Any]]:
        """For each policy: mean final regret, its standard deviation over runs, its standard error, mean reward.

        The standard error is over problems, each averaged over its replications, or over replications where there
        is one problem.
        """
        rows = []
        for place, label in enumerate(self.labels):
            final = self.final_regret[place]
            units = _units(final)
            error = units.std(ddof=1) / math.sqrt(len(units)) if len(units) > 1 else math.nan
            rows.append(
                {
                    "policy": label,
                    "mean": float(final.mean()),
                    "spread": float(final.std(ddof=1)) if final.size > 1 else math.nan,
                    "standard_error": float(error),
                    "reward": float(self.reward[place].mean()),
                }
            )
        return rows

    def difference(self, a: str | Policy, b: str | Policy, level: float = 0.95) -> Difference:
        """How much more regret policy `a` has than policy `b`, run by run on the same problems and noise.

        The interval is Student's t over problems (over replications where there is one problem).
        """
        pairs = self.final_regret[self.policy_number(a)] - self.final_regret[self.policy_number(b)]
        return paired_difference(_units(pairs), level)

    def lock_ins(self, gap: float = 0.02, share: float = 0.9) -> np.ndarray:
        """How many players are locked in on a bad arm at the end, [policy, problem, replication].

        A player is if it gave an arm that is worse than its best by more than `gap` more than `share` of its pulls
        in the last quarter of the horizon. A player that did not act there is not. Where means change, those of the
        last round count.
        """
        gap = number("gap", gap, least=0)
        share = number("share", share, least=0, most=1)
        bad = np.array([problem.at(self.horizon).gaps > gap for problem in self.problems])[None, :, None]
        much = self.late_pulls > share * self.late_pulls.sum(axis=-1, keepdims=True)
        return np.sum((bad & much).any(axis=-1), axis=-1)

    def merge(self, *others: Result) -> Result:
        """This result and others as one; together they must fill a table of policies × problems × replications.

        Parts may be cut by policy, by problem, by replication or all of them, in any order. Where parts overlap,
        they must agree.
        """
        parts = [self, *others]
        for part in others:
            _check_mergeable(self, part)
        policies = _union(part.policies for part in parts)
        labels = [policy.label for policy in policies]
        if len(set(labels)) < len(labels):
            twice = next(label for label in labels if labels.count(label) > 1)
            raise ValueError(f"cannot merge results in which two different policies are labelled {twice!r}")
        problems = _union(part.problems for part in parts)
        replications = sorted(_union(part.replications for part in parts))
        shape = (len(policies), len(problems), len(replications))
        filled = np.zeros(shape, bool)
        merged: dict[str, Any] = {
            name: np.zeros(shape + getattr(self, name).shape[3:], getattr(self, name).dtype) for name in MEASURED
        }
        for part in parts:
            where = np.ix_(
                [policies.index(policy) for policy in part.policies],
                [problems.index(problem) for problem in part.problems],
                [replications.index(replication) for replication in part.replications],
            )
            overlap = filled[where]
            for name, array in merged.items():
                if not np.array_equal(array[where][overlap], getattr(part, name)[overlap]):
                    raise ValueError(f"two parts have the same runs but differ in {name}")
                array[where] = getattr(part, name)
            filled[where] = True
        if not filled.all():
            policy, problem, replication = np.argwhere(~filled)[0]
            raise ValueError(
                f"the parts leave a gap: {policies[policy].label} on problem {problem}, "
                f"replication {replications[replication]}"
            )
        return dataclasses.replace(
            self, policies=tuple(policies), problems=tuple(problems), replications=tuple(replications), **merged
        )

    def plot(self, level: float | None = None) -> Figure:
        """Regret over rounds, a line for each policy: a matplotlib figure.

        A line is the mean over problems, each averaged over its replications, or over replications where there is one
        problem. Its band extends one standard deviation to either side. With a `level`, such as 0.95, the band is the
        mean's confidence interval in place of that: Student's t, for each round by itself.
        """
        from posse.figures.regret import draw

        curves = {
            label: (self.checkpoints, _units(regret)) for label, regret in zip(self.labels, self.regret, strict=True)
        }
        unit = "problem" if len(self.problems) > 1 else "replication"
        if level is None:
            return draw(curves, unit)
        width = interval_width(level, len(_units(self.regret[0])))
        return draw(curves, unit, width=width, bands=f"{100 * level:.4g} % confidence intervals of the means")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """What polars, pandas, DuckDB and others take a table from: `polars.DataFrame(result)`; see `to_arrow`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pyarrow.Table:
        """An Arrow table with a row for each policy, problem, replication and checkpoint."""
        with extra("arrow", "to_arrow()"):
            import pyarrow

        grid = np.indices(self.regret.shape).reshape(4, -1)
        return pyarrow.table(
            {
                "policy": pyarrow.array(np.array(self.labels)[grid[0]]),
                "problem": pyarrow.array(grid[1]),
                "replication": pyarrow.array(np.array(self.replications)[grid[2]]),
                "round": pyarrow.array(self.checkpoints[grid[3]]),
                "regret": pyarrow.array(self.regret.ravel()),
            }
        )

    def _summary(self) -> Summary:
        title = (
            f"Result: {plural(len(self.problems), 'problem')} × {plural(len(self.replications), 'replication')}, "
            f"horizon {self.horizon:,}, seed {self.seed}, {self.schedule}"
            + (f", rewards {self.feedback}" if self.feedback != AT_ONCE else "")
            + (", anytime" if self.anytime else "")
            + (f", told horizon {self.told_horizon:,}" if self.told_horizon != self.horizon else "")
        )
        rows = [["policy", f"{'final regret':>14}", f"{'± sd':>10}", f"{'± se':>10}"]]
        for row in self.summary():
            numbers = (row[name] for name in ("mean", "spread", "standard_error"))
            rows.append([row["policy"], *("–" if math.isnan(each) else f"{each:,.1f}" for each in numbers)])
        over = ", each averaged over its replications" if len(self.replications) > 1 else ""
        notes = [f"sd over all runs; se over problems{over}."] if over and len(self.problems) > 1 else []
        if self.feedback != AT_ONCE:
            notes += note_on_late_rewards(policy.label for policy in self.policies if not policy.randomised)
        return Summary(title, rows, note=" ".join(notes))


def last_quarter(horizon: int) -> int:
    """How many rounds are over when the last quarter of the horizon begins, ⌊3T/4⌋."""
    return 3 * horizon // 4


def _check_mergeable(first: Result, part: Result) -> None:
    for name in ("horizon", "told_horizon", "seed", "anytime", "feedback", "version"):
        a, b = getattr(first, name), getattr(part, name)
        if a != b:
            raise ValueError(f"cannot merge results with {name} {a!r} and {b!r}")
    if not np.array_equal(first.checkpoints, part.checkpoints):
        raise ValueError("cannot merge results with different checkpoints")
    if first.schedule != part.schedule:
        raise ValueError(f"cannot merge results with schedules {first.schedule} and {part.schedule}")
    if first.pulls.shape[3:] != part.pulls.shape[3:]:
        raise ValueError("cannot merge results for problems of different shape")


def _union(groups: Iterable[Sequence[Any]]) -> list[Any]:
    return list(dict.fromkeys(item for group in groups for item in group))


def _units(values: np.ndarray) -> np.ndarray:
    """The independent units of [problem, replication, ...]: problems, or replications of a single problem."""
    return values[0] if len(values) == 1 else values.mean(axis=1)
