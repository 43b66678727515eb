"""What the records say, for figures and tables: means over problems, settings, and settings in words."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from posse.experiments.records import Records
from posse.text import plural, shorten

FEWEST = 4  # problems, or replications of one, for which an interval is shown
SETTING = ("n_subpar", "players", "arms", "epsilon", "rewards", "horizon", "schedule", "anytime")


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


def settings(records: Records) -> list[tuple[dict[str, Any], Records]]:
    """The records by setting: the columns that vary between settings with their values, and the rows.

    The number of subpar arms, |I_5ε|, is part of the setting if the spec asked for it, not if it merely varies between
    the problems of a family. The horizon is left out if the other columns already determine it.
    """
    columns = [column for column in SETTING if len(records.distinct(column)) > 1]
    for column, beside in (("n_subpar", ["policy", "problem", "replication", "seed"]), ("horizon", [])):
        rest = [other for other in columns if other != column]
        with_it, without_it = (set(records.rows(*names, *beside)) for names in (columns, rest))
        if column in columns and rest + beside and len(with_it) == len(without_it):
            columns = rest
    if not columns:
        return [({}, records)]
    return [(dict(zip(columns, key, strict=True)), part) for key, part in records.groups(*columns).items()]


def by_subpar(records: Records) -> dict[int | None, Records]:
    """The records by |I_5ε|, from the most subpar arms to the fewest; all under None if it was not asked for."""
    if not any("n_subpar" in setting for setting, _ in settings(records)):
        return {None: records}
    return {v: records.where(n_subpar=v) for v in sorted(records.distinct("n_subpar"), reverse=True)}


SCHEDULES = (
    (r"Concurrent\(\)", "all players every round"),
    (r"Sequential\(order='turn'\)", "one player a round, in turn"),
    (r"Sequential\(order='random'\)", "one player a round, at random"),
    (r"Arrivals\(stay=True\)", "players arrive one after another"),
    (r"Arrivals\(stay=False\)", "players one after another, each alone"),
    (r"Late\(share=([0-9.e-]+), players=1\)", r"one player from share \1 of the rounds on"),
    (r"Random\(probability=([0-9.e-]+)\)", r"each player with chance \1"),
    (r"Zipf\(exponent=([0-9.e-]+)\)", r"player k with chance 1/k^\1"),
)


def feedback_columns(schedule: str) -> tuple[str, int, int]:
    """The schedule of a record alone, and when rewards come: after so many further rounds, and in batches of so many.

    >>> feedback_columns("Concurrent(); rewards 1,000 rounds late in batches of 5 rounds")
    ('Concurrent()', 1000, 5)
    >>> feedback_columns("Concurrent()")
    ('Concurrent()', 0, 1)
    """
    schedule, _, feedback = schedule.partition("; rewards ")
    found = (re.search(pattern, feedback) for pattern in (r"([0-9,]+) rounds? late", r"batches of ([0-9,]+) "))
    delay, batch = (match and int(match[1].replace(",", "")) for match in found)
    return schedule, delay or 0, batch or 1


def schedule_words(schedule: str) -> str:
    """A schedule in plain words.

    >>> schedule_words("Random(probability=0.5)")
    'each player with chance 0.5'
    """
    schedule, late, feedback = schedule.partition("; ")
    for pattern, words in SCHEDULES:
        if match := re.fullmatch(pattern, schedule):
            return match.expand(words) + late + feedback
    return shorten(schedule, 40) + late + feedback


def describe(setting: Mapping[str, Any], *, between: str = ", ") -> str:
    """A setting in a few words, for a title or a row of a table.

    >>> describe({"n_subpar": 8, "horizon": 50000})
    '8 subpar arms, T = 50,000'
    """
    words = {
        "n_subpar": lambda value: plural(value, "subpar arm"),
        "players": lambda value: f"M = {value}",
        "arms": lambda value: f"K = {value}",
        "epsilon": lambda value: f"ε = {value:g}",
        "rewards": lambda value: f"{value.removesuffix('()')} rewards",
        "horizon": lambda value: f"T = {value:,}",
        "schedule": schedule_words,
        "anytime": lambda value: "anytime" if value else "known horizon",
    }
    return between.join(words[column](value) for column, value in setting.items())


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """A table as CSV, numbers in full."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()
