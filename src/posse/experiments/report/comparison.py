"""Two runs side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.experiments.records import Records, check_records
from posse.experiments.summary import SETTING, describe
from posse.simulation.statistics import Difference, paired_difference
from posse.text import align


@dataclass(frozen=True)
class ComparisonRow:
    """A policy in one setting of both runs."""

    study: str
    setting: str
    policy: str
    first: float
    second: float
    difference: Difference | None
    """Of the second to the first, over the runs that both have (same problem, seed and replication); None if none."""


def compare(first: Records, second: Records) -> list[ComparisonRow]:
    """Mean final regret in both, for every policy and setting that both have."""
    check_records("first", first)
    check_records("second", second)
    parts, others = (records.groups("study", *SETTING, "policy") for records in (first, second))
    varying = [name for name in SETTING if len(first.distinct(name)) > 1]
    rows = []
    for key, part in parts.items():
        if key in others:
            study, *values, label = key
            setting = dict(zip(SETTING, values, strict=True))
            shown = describe({name: setting[name] for name in varying})
            a, b = (float(records["final_regret"].mean()) for records in (part, others[key]))
            rows.append(ComparisonRow(study, shown, label, a, b, _difference(part, others[key])))
    return rows


def to_text(rows: list[ComparisonRow], first: str, second: str) -> str:
    """The comparison as a table for the terminal."""
    if not rows:
        return "The two runs have no study, setting and policy in common."
    table = [["study", "policy", "A", "B", "B − A, 95 % interval"]]
    for row in rows:
        name = f"{row.study}: {row.setting}" if row.setting else row.study
        table.append([name, row.policy, f"{row.first:,.1f}", f"{row.second:,.1f}", _shown(row.difference)])
    return "\n".join([f"A = {first}", f"B = {second}", "", *align(table, "<<>><")])


def _shown(difference: Difference | None) -> str:
    if difference is None:
        return "no runs in common"
    if difference.mean == difference.low == difference.high == 0:
        return "the same"
    interval = f" [{difference.low:,.1f}, {difference.high:,.1f}]" if math.isfinite(difference.low) else ""
    return f"{difference.mean:+,.1f}{interval}"


def _difference(first: Records, second: Records) -> Difference | None:
    """Paired over problems, each averaged over the replications that both have."""
    names = ("seed", "problem", "replication", "final_regret")
    tables = [{tuple(key): regret for *key, regret in part.rows(*names)} for part in (first, second)]
    by_problem: dict[tuple[Any, ...], list[float]] = {}
    for key in tables[0].keys() & tables[1].keys():
        by_problem.setdefault(key[:-1], []).append(tables[1][key] - tables[0][key])
    if not by_problem:
        return None
    units = list(by_problem.values())
    return paired_difference(np.array(units[0] if len(units) == 1 else [np.mean(values) for values in units]))
