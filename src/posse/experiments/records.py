"""The results of runs: a table with one row for each run, which any Arrow tool reads."""

import io
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from arro3.core import Array, DataType, Field, RecordBatch, Schema, Table, list_array, list_flatten, list_offsets
from arro3.core.types import ArrowArrayExportable, ArrowStreamExportable
from arro3.io import read_ipc_stream, write_ipc_stream

from posse.experiments.settings import describe, settings
from posse.notebook import NAME, Summarized, Summary
from posse.policies.labels import matching_labels
from posse.problem import Problem
from posse.simulation import Result
from posse.simulation.feedback import AT_ONCE
from posse.text import listed, plural, shorten

SCHEMA_VERSION = 3
READABLE = (1, 2, 3)  # version 1 has no lock_ins, which are null then; before 3, the family is in the metadata only

TEXT, WHOLE, REAL = DataType.string(), DataType.int64(), DataType.float64()
WHOLES, REALS = (DataType.list(Field("element", kind)) for kind in (WHOLE, REAL))  # named as Parquet names it
SCHEMA = Schema(
    [
        Field("study", TEXT),  # which part of an experiment, such as "subpar"
        Field("policy", TEXT),  # label
        Field("problem", WHOLE),  # number within the study's family
        Field("replication", WHOLE),
        Field("n_subpar", WHOLE),  # |I_5ε|
        Field("players", WHOLE),
        Field("arms", WHOLE),
        Field("epsilon", REAL),
        Field("rewards", TEXT),  # the reward family
        Field("horizon", WHOLE),
        Field("schedule", TEXT),  # and the feedback, where rewards are late
        Field("anytime", DataType.bool()),
        Field("seed", TEXT),  # as text: seeds may exceed 64 bits
        Field("rounds", WHOLES),  # checkpoints
        Field("regret", REALS),  # cumulative collective regret at the checkpoints
        Field("final_regret", REAL),
        Field("reward", REAL),
        Field("pulls_by_kind", WHOLES),  # of arms that are optimal, near-optimal, subpar in the last round
        Field("regret_by_kind", REALS),  # NaN where means change, and kinds with them
        Field("lock_ins", WHOLE),  # players on a bad arm at the end: see `Result.lock_ins`
        Field("means", REALS),  # the problem in the first round, players × arms, row by row
        Field("family", TEXT),  # the family of problems: see `family_text`
    ],
    metadata={"posse_schema": str(SCHEMA_VERSION)},
)

FIELDS = [SCHEMA.field(name) for name in SCHEMA.names]

KINDS = ("optimal", "near-optimal", "subpar")


def from_result(
    result: Result, study: str, problem_numbers: Iterable[int] | None = None, family: str | None = None
) -> "Records":
    """The rows of a simulation; `problem_numbers` say where its problems stand in their family."""
    numbers = list(range(len(result.problems)) if problem_numbers is None else problem_numbers)
    rows = []
    lock_ins = result.lock_ins()
    schedule = str(result.schedule) + (f"; rewards {result.feedback}" if result.feedback != AT_ONCE else "")
    same: dict[str, Any] = {"study": study, "schedule": schedule, "horizon": result.horizon}
    same |= {"anytime": result.anytime, "seed": str(result.seed), "rounds": result.checkpoints}
    same["family"] = family
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
    arrays = [_array([row[field.name] for row in rows], field.type) for field in FIELDS]
    return Records(Table.from_arrays(arrays, schema=SCHEMA))


def _array(values: Sequence[Any], kind: DataType) -> Array:
    """The values of a column as Arrow has them."""
    if not DataType.is_list(kind):
        return Array(values, kind)
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
    return list_array(Array.from_numpy(offsets), Array.from_numpy(np.concatenate(values)), type=kind)


def with_later_columns(batch: RecordBatch, family: str | None = None) -> RecordBatch:
    """The rows with the columns that older versions of posse did not have: this family, and no lock-ins."""
    for name, value in (("lock_ins", None), ("family", family)):
        if name not in batch.column_names:
            field = SCHEMA.field(name)
            batch = batch.append_column(field, Array([value] * batch.num_rows, field.type))
    return batch


def check_records(name: str, value: Any) -> None:
    """An error if an argument is no records."""
    if not isinstance(value, Records):
        raise TypeError(f"{name}={value!r}, but expected Records, from `posse.experiments.run` or `.read`")


class Records(Summarized):
    """Rows with NumPy access: `records["final_regret"]`, `records.where(policy="Ind-TS", n_subpar=8)`.

    Made from any table that has these columns and the Arrow stream, such as one of pyarrow, polars or DuckDB. Columns
    that older versions of posse did not have may be missing.
    """

    def __init__(self, table: ArrowStreamExportable | ArrowArrayExportable) -> None:
        given = with_later_columns(RecordBatch.from_arrow(table))
        columns = [given.column(field.name).cast(field.type) for field in FIELDS]
        self._batch = RecordBatch.from_arrays(columns, schema=SCHEMA)

    def __len__(self) -> int:
        return self._batch.num_rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Records) and self._batch.equals(other._batch)

    def __reduce__(self) -> tuple[Any, ...]:
        content = io.BytesIO()
        write_ipc_stream(self._batch, content)
        return _unpickled, (content.getvalue(),)

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
        return Table.from_batches([self._batch]).__arrow_c_stream__(requested_schema)

    def __getitem__(self, column: str) -> np.ndarray:
        """A column as an array: [row], or [row, item] for the list columns (rows must then be of one length)."""
        if column not in SCHEMA.names:
            raise KeyError(f"no column {column!r}; there are {', '.join(SCHEMA.names)}")
        array = self._batch.column(column)
        if DataType.is_list(array.type):
            longest = np.diff(list_offsets(array).to_numpy()).max(initial=0)
            return list_flatten(array).to_numpy().reshape(len(self), longest)
        if array.null_count or DataType.is_string(array.type):
            return np.array(self._values(column))
        return array.to_numpy()

    def _values(self, column: str) -> list[Any]:
        """A column as Python's own values; lists as tuples."""
        array = self._batch.column(column)
        if DataType.is_list(array.type):
            values, offsets = (part.to_numpy().tolist() for part in (list_flatten(array), list_offsets(array)))
            return [tuple(values[start:stop]) for start, stop in itertools.pairwise(offsets)]
        return array.to_pylist() if array.null_count else array.to_numpy().tolist()

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
        return self if kept.all() else self.take(np.flatnonzero(kept))

    def take(self, rows: Sequence[int] | np.ndarray) -> "Records":
        """The rows with these numbers, in this order."""
        return Records(self._batch.take(Array.from_numpy(np.asarray(rows, np.int64))))

    def distinct(self, column: str) -> list[Any]:
        """The values of a column in the order in which they first appear."""
        return list(dict.fromkeys(self._values(column)))

    def rows(self, *columns: str) -> Iterator[tuple[Any, ...]]:
        """The values of some columns, row by row; lists as tuples."""
        return zip(*map(self._values, columns), strict=True)

    def groups(self, *columns: str) -> "dict[tuple[Any, ...], Records]":
        """The rows that agree in some columns, by their values there."""
        places: dict[tuple[Any, ...], list[int]] = {}
        for row, key in enumerate(self.rows(*columns)):
            places.setdefault(key, []).append(row)
        return {key: self.take(rows) for key, rows in places.items()}

    def problems(self) -> list[Problem]:
        """The distinct problems of the rows, rebuilt from their means and ε, which is all that gaps and bounds need."""
        distinct = dict.fromkeys(self.rows("players", "arms", "epsilon", "means"))
        return [Problem(np.reshape(means, (players, arms)), epsilon) for players, arms, epsilon, means in distinct]


def _unpickled(content: bytes) -> Records:
    return Records(read_ipc_stream(content))
