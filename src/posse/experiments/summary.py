"""What the records say, for figures and tables: means over problems, and pairs of runs."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from posse.experiments.records import Records
from posse.experiments.settings import settings

FEWEST = 4  # problems, or replications of one, for which an interval is shown


def problem_means(records: Records, column: str) -> np.ndarray:
    """A column by problem, averaged over replications; by replication if there is only one problem."""
    values = records[column].astype(float)
    keys = list(records.rows("problem", "seed"))
    place = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    if len(place) == 1:
        return values
    where = np.array([place[key] for key in keys])
    sums = np.zeros((len(place), *values.shape[1:]))
    np.add.at(sums, where, values)
    counts = np.bincount(where).reshape(-1, *[1] * (values.ndim - 1))
    return sums / counts


def spread_over(records: Records) -> str:
    """What `problem_means` has a row for, in the settings of the records: "problems", or "replications" of one."""
    several = {len(part.distinct("problem")) > 1 or len(part.distinct("seed")) > 1 for _, part in settings(records)}
    return " or ".join("problems" if each else "replications" for each in sorted(several, reverse=True))


def written_order(records: Records) -> list[str]:
    """The policies as the spec has them; one whose label depends on the setting has its labels side by side."""
    places: dict[str, int] = {}
    for _, part in settings(records):
        places = {label: place for place, label in enumerate(part.distinct("policy"))} | places
    return sorted(records.distinct("policy"), key=places.__getitem__)


def by_policy(records: Records, labels: Iterable[str], column: str) -> dict[str, np.ndarray]:
    """A column of each policy that has records, by problem."""
    parts = {label: records.matching(policy=label) for label in labels}
    return {label: problem_means(rows, column) for label, rows in parts.items() if len(rows)}


def paired_runs(first: Records, second: Records) -> list[np.ndarray]:
    """Final regrets of both in the runs that both have: for each problem, [replication, which of the two].

    Runs belong together if problem, seed and replication are the same; a problem is known by its number and its means.
    """
    names = ("seed", "problem", "means", "replication", "final_regret")
    tables = [{tuple(key): regret for *key, regret in part.rows(*names)} for part in (first, second)]
    by_problem: dict[tuple[Any, ...], list[list[float]]] = {}
    for key in tables[0]:
        if key in tables[1]:
            by_problem.setdefault(key[:-1], []).append([table[key] for table in tables])
    return [np.array(runs) for runs in by_problem.values()]


def paired_units(paired: Sequence[np.ndarray]) -> np.ndarray:
    """A row for each problem of `paired_runs`, averaged over replications; for each replication of a single problem."""
    return np.reshape(paired[0] if len(paired) == 1 else [runs.mean(axis=0) for runs in paired], (-1, 2))


def percentages(pulls: np.ndarray) -> np.ndarray:
    """Counts of pulls, [problem, kind of arm], as percentages of the problem's pulls."""
    return np.asarray(100 * pulls / np.maximum(pulls.sum(axis=1, keepdims=True), 1))


def mean_and_deviation(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation over the first axis; the deviation of a single value is 0."""
    mean = values.mean(axis=0)
    return mean, values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros_like(mean)


def by_subpar(records: Records) -> dict[int | None, Records]:
    """The records by |I_5ε|, from the most subpar arms to the fewest; all under None if it was not asked for."""
    if not any("n_subpar" in setting for setting, _ in settings(records)):
        return {None: records}
    return {v: records.where(n_subpar=v) for v in sorted(records.distinct("n_subpar"), reverse=True)}


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """A table as CSV, numbers in full."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()
