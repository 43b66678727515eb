"""The results of runs: a table with one row for each run, which any Arrow tool reads."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from posse.experiments.settings import describe, settings
from posse.notebook import NAME, Summarized, Summary
from posse.policies.labels import matching_labels
from posse.problem import Problem
from posse.simulation import Result
from posse.simulation.feedback import AT_ONCE
from posse.text import listed, plural, shorten

SCHEMA_VERSION = 2
READABLE = (1, 2)  # version 1 has no lock_ins; they are null

SCHEMA = pa.schema(
    [
        ("study", pa.string()),  # which part of an experiment, such as "subpar"
        ("policy", pa.string()),  # label
        ("problem", pa.int64()),  # number within the study's family
        ("replication", pa.int64()),
        ("n_subpar", pa.int64()),  # |I_5ε|
        ("players", pa.int64()),
        ("arms", pa.int64()),
        ("epsilon", pa.float64()),
        ("rewards", pa.string()),  # the reward family
        ("horizon", pa.int64()),
        ("schedule", pa.string()),  # and the feedback, where rewards are late
        ("anytime", pa.bool_()),
        ("seed", pa.string()),  # as text: seeds may exceed 64 bits
        ("rounds", pa.list_(pa.int64())),  # checkpoints
        ("regret", pa.list_(pa.float64())),  # cumulative collective regret at the checkpoints
        ("final_regret", pa.float64()),
        ("reward", pa.float64()),
        ("pulls_by_kind", pa.list_(pa.int64())),  # of arms that are optimal, near-optimal, subpar in the last round
        ("regret_by_kind", pa.list_(pa.float64())),  # NaN where means change, and kinds with them
        ("lock_ins", pa.int64()),  # players on a bad arm at the end: see `Result.lock_ins`
        ("means", pa.list_(pa.float64())),  # the problem in the first round, players × arms, row by row
    ],
    metadata={"posse_schema": str(SCHEMA_VERSION)},
)

KINDS = ("optimal", "near-optimal", "subpar")


def from_result(result: Result, study: str, problem_numbers: Iterable[int] | None = None) -> pa.Table:
    """The rows of a simulation; `problem_numbers` say where its problems stand in their family."""
    numbers = list(range(len(result.problems)) if problem_numbers is None else problem_numbers)
    rows = []
    lock_ins = result.lock_ins()
    schedule = str(result.schedule) + (f"; rewards {result.feedback}" if result.feedback != AT_ONCE else "")
    same: dict[str, Any] = {"study": study, "schedule": schedule, "horizon": result.horizon}
    same |= {"anytime": result.anytime, "seed": str(result.seed), "rounds": result.checkpoints}
    for b, problem in enumerate(result.problems):
        kinds, known = problem.at(result.horizon).kinds(), math.nan if problem.changes else 1.0
        of_problem: dict[str, Any] = {name: getattr(problem, name) for name in ("players", "arms", "epsilon")}
        of_problem |= {"problem": numbers[b], "n_subpar": len(problem.subpar_5)}
        of_problem |= {"rewards": str(problem.rewards), "means": problem.means.ravel()}
        for a, policy in enumerate(result.policies):
            for r, replication in enumerate(result.replications):
                pulls = result.pulls[a, b, r]
                lost = pulls * problem.gaps
                row = {"policy": policy.label, "replication": replication, "lock_ins": int(lock_ins[a, b, r])}
                row |= {name: getattr(result, name)[a, b, r] for name in ("regret", "final_regret", "reward")}
                row["pulls_by_kind"] = [int(pulls[kinds == kind].sum()) for kind in range(3)]
                row["regret_by_kind"] = [known * float(lost[kinds == kind].sum()) for kind in range(3)]
                rows.append(same | of_problem | row)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def check_records(name: str, value: Any) -> None:
    """An error if an argument is no records."""
    if not isinstance(value, Records):
        raise TypeError(f"{name}={value!r}, but expected Records, from `posse.experiments.run` or `.read`")


class Records(Summarized):
    """Rows with NumPy access: `records["final_regret"]`, `records.where(policy="Ind-TS", n_subpar=8)`."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.select(SCHEMA.names)

    def __len__(self) -> int:
        return self.table.num_rows

    def _summary(self) -> Summary:
        policies, studies = self.distinct("policy"), self.distinct("study")
        rows = [["study", "setting", "policy", "runs", "mean final regret"]]
        for (study,), of_study in self.groups("study").items():
            for setting, of_setting in settings(of_study):
                for (policy,), part in of_setting.groups("policy").items():
                    names = (shorten(name, NAME) for name in (study, describe(setting) or "–", policy))
                    rows.append([*names, f"{len(part):,}", f"{part['final_regret'].mean():,.1f}"])
        if {row[1] for row in rows[1:]} <= {"–"}:
            rows = [[row[0], *row[2:]] for row in rows]
        several = "policy" if len(policies) == 1 else "policies"
        title = f"Records: {plural(len(self), 'run')}, {len(policies):,} {several}, {listed(studies, 5)}"
        return Summary(title, rows, "<" * (len(rows[0]) - 2) + ">")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """What polars, pandas, DuckDB and others take a table from: `polars.DataFrame(records)`."""
        return self.table.__arrow_c_stream__(requested_schema)

    def __getitem__(self, column: str) -> np.ndarray:
        """A column as an array: [row], or [row, item] for the list columns (rows must then be of one length)."""
        if column not in SCHEMA.names:
            raise KeyError(f"no column {column!r}; there are {', '.join(SCHEMA.names)}")
        return np.array(self.table.column(column).to_pylist())

    def where(self, **conditions: Any) -> "Records":
        """The rows whose columns have the given values; a value may be a list of allowed ones.

        A policy may be given by its label, or by its name or class: `policy="RobustAggTS"`, whatever its constants. An
        error names the values there are if a column has none of the given ones.
        """
        for column, value in conditions.items():
            there = self.distinct(column) if column in SCHEMA.names else []
            given = self._listed(value)
            if column == "policy":
                given = [label for each in given for label in (matching_labels(each, there) or [each])]
                conditions[column] = given
            if given and there and not any(each in there for each in given):
                shown = listed([repr(each) for each in there])
                raise ValueError(f"no rows with {column}={value!r}; there are {shown}")
        return self.matching(**conditions)

    def matching(self, **conditions: Any) -> "Records":
        """The rows whose columns have just these values, or one of a list of values; perhaps none."""
        keep = np.ones(len(self), bool)
        for column, value in conditions.items():
            allowed = self._listed(value)
            keep &= np.isin(self[column], allowed) if allowed else False
        return self.keep(keep)

    @staticmethod
    def _listed(value: Any) -> list[Any]:
        """The values that a condition allows."""
        return list(value) if isinstance(value, (list, tuple, set, range)) else [value]

    def keep(self, mask: Sequence[bool] | np.ndarray) -> "Records":
        """The rows for which the mask is true."""
        kept = np.asarray(mask, bool)
        return self if kept.all() else Records(self.table.filter(pa.array(kept)))

    def distinct(self, column: str) -> list[Any]:
        """The values of a column in the order in which they first appear."""
        return list(dict.fromkeys(self.table.column(column).to_pylist()))

    def rows(self, *columns: str) -> Iterator[tuple[Any, ...]]:
        """The values of some columns, row by row; lists as tuples."""
        values = [self.table.column(name).to_pylist() for name in columns]
        return zip(*([tuple(v) if isinstance(v, list) else v for v in column] for column in values), strict=True)

    def groups(self, *columns: str) -> "dict[tuple[Any, ...], Records]":
        """The rows that agree in some columns, by their values there."""
        places: dict[tuple[Any, ...], list[int]] = {}
        for row, key in enumerate(self.rows(*columns)):
            places.setdefault(key, []).append(row)
        return {key: Records(self.table.take(rows)) for key, rows in places.items()}

    def problems(self) -> list[Problem]:
        """The distinct problems of the rows, rebuilt from their means and ε, which is all that gaps and bounds need."""
        distinct = dict.fromkeys(self.rows("players", "arms", "epsilon", "means"))
        return [Problem(np.reshape(means, (players, arms)), epsilon) for players, arms, epsilon, means in distinct]
