"""Tables: final regrets and two runs side by side for the terminal, and what the records say as CSV."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posse.experiments import summary
from posse.experiments.paper.claims import ClaimFinding, to_csv
from posse.experiments.records import KINDS, Records, check_records
from posse.experiments.report.theory import PAPER_BOUNDS
from posse.figures.policy_looks import looks
from posse.problem import Problem
from posse.simulation.statistics import Difference, paired_difference
from posse.text import align, align_blocks, shorten

TERMINAL = 110  # columns

WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


@dataclasses.dataclass(frozen=True)
class RegretCell:
    """Final regret of one policy in one setting."""

    mean: float
    deviation: float  # the standard deviation over problems
    count: int  # how many problems (or replications, of a single problem)
    lowest: bool  # whether no other policy has a lower mean

    def __str__(self) -> str:
        return " ± ".join(self.shown)

    @property
    def shown(self) -> list[str]:
        """Mean and deviation, with enough decimals for three digits of the mean."""
        decimals = 0 if self.mean >= 100 or self.mean == 0 else min(6, 2 - math.floor(math.log10(self.mean)))
        return [f"{value:,.{decimals}f}" for value in (self.mean, self.deviation)]


@dataclasses.dataclass(frozen=True)
class RegretTable:
    """The final regrets of a study: a row for each setting, a column for each policy."""

    study: str
    title: str  # the study's name for people
    policies: list[str]
    rows: list[tuple[dict[str, Any], Records, dict[str, RegretCell]]]


def regret_tables(records: Records) -> list[RegretTable]:
    """The final regrets, study by study."""
    tables = []
    for study in records.distinct("study"):
        of_study = records.where(study=study)
        policies = list(looks(of_study.distinct("policy")))
        rows = []
        for setting, part in summary.settings(of_study):
            values = summary.by_policy(part, policies, "final_regret")
            least = min(value.mean() for value in values.values())
            cells = {}
            for label, value in values.items():
                mean, deviation = summary.mean_and_deviation(value)
                cells[label] = RegretCell(float(mean), float(deviation), len(value), bool(mean <= least))
            rows.append((setting, part, cells))
        tables.append(RegretTable(study, WORDS["studies"].get(study, study), policies, rows))
    return tables


def regret_table(records: Records) -> str:
    """Final regrets for the terminal: mean ± one standard deviation, the lowest of each row marked with a star."""
    parts = []
    for table in regret_tables(records):
        names = [shorten(summary.describe(setting) or "all problems", 44) for setting, _, _ in table.rows]
        columns = [
            [shorten(label, 26) + " "]
            + [
                f"{cells[label]}{'*' if cells[label].lowest else ' '}" if label in cells else "– "
                for *_, cells in table.rows
            ]
            for label in table.policies
        ]
        blocks = align_blocks([["final regret", *names]], columns, TERMINAL)
        parts.append("\n".join([shorten(table.title, TERMINAL), *(line for block in blocks for line in block)]))
    note = "mean ± one standard deviation over problems; * the lowest mean of the row"
    return "\n\n".join([*parts, note])


def write_tables(
    records: Records, folder: str | Path, findings: Sequence[ClaimFinding] | None = None
) -> list[RegretTable]:
    """Write final regrets, pulls and regret by kind of arm, the bounds of each problem, and the claims as CSV.

    A column of the setting is empty if it differs from row to row of the records. Returns the tables of final regrets.
    """
    found = regret_tables(records)
    names = [f"{what}_{how}" for what in ("percent_of_pulls", "regret") for how in ("mean", "standard_deviation")]
    final: list[list[Any]] = [["study", *summary.SETTING, "policy", "problems", "mean", "standard_deviation", "lowest"]]
    kinds: list[list[Any]] = [["study", *summary.SETTING, "policy", "kind", *names]]
    for table in found:
        for part, label, cell in ((part, *each) for _, part, cells in table.rows for each in cells.items()):
            rows = part.where(policy=label)
            values = [rows.distinct(column) for column in summary.SETTING]
            key = [table.study, *(value[0] if len(value) == 1 else "" for value in values), label]
            final.append([*key, cell.count, cell.mean, cell.deviation, int(cell.lowest)])
            shares = summary.mean_and_deviation(summary.percentages(summary.problem_means(rows, "pulls_by_kind")))
            regrets = summary.mean_and_deviation(summary.problem_means(rows, "regret_by_kind"))
            for number, kind in enumerate(KINDS):
                kinds.append([*key, kind, *(float(array[number]) for array in (*shares, *regrets))])
    tables = {"final-regret": final, "by-kind": kinds, "theory": _theory_rows(records)}
    texts = {name: summary.csv_text(rows) for name, rows in tables.items()}
    if findings is not None:
        texts["claims"] = to_csv(findings)
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (out / f"{name}.csv").write_text(text, encoding="utf-8")
    return found


def _theory_rows(records: Records) -> Iterator[list[Any]]:
    bounds = {f"{kind}: {label}": bound for kind, of in PAPER_BOUNDS.items() for label, bound in of.items()}
    columns = ("study", "n_subpar", "players", "arms", "epsilon", "horizon", "problem")
    yield [*columns, "n_subpar_10", *bounds]
    for *key, means in dict.fromkeys(records.rows(*columns, "means")):
        row = dict(zip(columns, key, strict=True))
        problem = Problem(np.reshape(means, (row["players"], row["arms"])), row["epsilon"])
        yield [*key, len(problem.subpar_10), *(float(bound(problem, row["horizon"])) for bound in bounds.values())]


@dataclasses.dataclass(frozen=True)
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
    parts, others = (records.groups("study", *summary.SETTING, "policy") for records in (first, second))
    varying = [name for name in summary.SETTING if len(first.distinct(name)) > 1]
    rows = []
    for key, part in parts.items():
        if key in others:
            study, *values, label = key
            setting = dict(zip(summary.SETTING, values, strict=True))
            shown = summary.describe({name: setting[name] for name in varying})
            a, b = (float(records["final_regret"].mean()) for records in (part, others[key]))
            rows.append(ComparisonRow(study, shown, label, a, b, _difference(part, others[key])))
    return rows


def comparison_text(rows: list[ComparisonRow], first: str, second: str) -> str:
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
