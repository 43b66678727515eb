"""Tables: final regrets and two runs side by side for the terminal, and what the records say as CSV."""

import dataclasses
import itertools
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
from posse.problem import Problem
from posse.simulation.statistics import Difference, paired_difference, ratio_terms
from posse.text import align, align_blocks, shorten, with_ends

TERMINAL = 110  # columns

WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


@dataclasses.dataclass(frozen=True)
class RegretCell:
    """Final regret of one policy in one setting."""

    mean: float
    deviation: float  # the standard deviation over problems
    count: int  # how many problems (or replications, of a single problem)
    lowest: bool  # whether no other policy has a lower mean
    difference: Difference | None  # relative to the row's first policy, paired; None if it is that one

    @property
    def starred(self) -> str:
        """Mean ± deviation, with a star if it is the lowest of its row."""
        return " ± ".join(self.shown) + ("*" if self.lowest else " ")

    @property
    def shown(self) -> list[str]:
        """Mean and deviation, with enough decimals for three digits of the mean."""
        decimals = 0 if self.mean >= 100 or self.mean == 0 else min(6, 2 - math.floor(math.log10(self.mean)))
        return [f"{value:,.{decimals}f}" for value in (self.mean, self.deviation)]

    @property
    def percent(self) -> str:
        """The relative difference in per cent with its 95 % interval."""
        if self.difference is None:
            return "–"
        value, low, high = (100 * each for each in (self.difference.mean, self.difference.low, self.difference.high))
        return with_ends(value, low, high, "+") if math.isfinite(low) else f"{value:+.1f}"


@dataclasses.dataclass(frozen=True)
class RegretTable:
    """The final regrets of a study: a row for each setting, a column for each policy."""

    study: str
    title: str  # the study's name for people
    policies: list[str]
    over: str  # what means and standard deviations are over
    rows: list[tuple[dict[str, Any], Records, dict[str, RegretCell]]]

    @property
    def reference(self) -> str:
        """What differences are relative to."""
        firsts = {next(iter(cells)) for *_, cells in self.rows}
        return firsts.pop() if len(firsts) == 1 else "the first policy of the row"

    @property
    def compared(self) -> list[str]:
        """The policies that have a difference to another."""
        cells = [cells for *_, cells in self.rows]
        return [label for label in self.policies if any(label in row and row[label].difference for row in cells)]


def regret_tables(records: Records) -> list[RegretTable]:
    """The final regrets, study by study."""
    tables = []
    for study in records.distinct("study"):
        of_study = records.where(study=study)
        policies = summary.written_order(of_study)
        rows = []
        for setting, part in summary.settings(of_study):
            values = summary.by_policy(part, policies, "final_regret")
            least = min(value.mean() for value in values.values())
            first = part.where(policy=next(iter(values)))
            cells: dict[str, RegretCell] = {}
            for label, value in values.items():
                mean, deviation = summary.mean_and_deviation(value)
                difference = _relative_difference(first, part.where(policy=label)) if cells else None
                cells[label] = RegretCell(float(mean), float(deviation), len(value), bool(mean <= least), difference)
            rows.append((setting, part, cells))
        over = summary.spread_over(of_study)
        tables.append(RegretTable(study, WORDS["studies"].get(study, study), policies, over, rows))
    return tables


def regret_table(records: Records) -> str:
    """Final regrets for the terminal, with a star at the lowest of each row, and differences to the first policy."""
    parts = []
    for table in regret_tables(records):
        names = [shorten(summary.describe(setting) or "all problems", 60) for setting, _, _ in table.rows]
        columns = [
            [shorten(label, 26) + " ", *(cells[label].starred if label in cells else "– " for *_, cells in table.rows)]
            for label in table.policies
        ]
        blocks = align_blocks([["final regret", *names]], columns, TERMINAL)
        lines = [shorten(table.title, TERMINAL), *itertools.chain(*blocks)]
        parts.append([*lines, f"mean ± one standard deviation over {table.over}; * the lowest mean of the row"])
        columns = [
            [shorten(label, 26), *(cells[label].percent if label in cells else "–" for *_, cells in table.rows)]
            for label in table.compared
        ]
        if columns:
            blocks = align_blocks([["difference in %", *names]], columns, TERMINAL)
            what = f"relative to {shorten(table.reference, 40)}, paired over {table.over}, with 95 % intervals"
            parts.append([*itertools.chain(*blocks), what])
    return "\n\n".join(map("\n".join, parts))


def write_tables(
    records: Records, folder: str | Path, findings: Sequence[ClaimFinding] | None = None
) -> list[RegretTable]:
    """Write final regrets, pulls and regret by kind of arm, the bounds of each problem, and the claims as CSV.

    A column of the setting is empty if it differs from row to row of the records. Returns the tables of final regrets.
    """
    found = regret_tables(records)
    names = [f"{what}_{how}" for what in ("percent_of_pulls", "regret") for how in ("mean", "standard_deviation")]
    final: list[list[Any]] = [["study", *summary.SETTING, "policy", "problems", "mean", "standard_deviation", "lowest"]]
    final[0] += ["relative_to", "difference", "low", "high"]
    kinds: list[list[Any]] = [["study", *summary.SETTING, "policy", "kind", *names]]
    for table in found:
        for part, label, cell in ((part, *each) for _, part, cells in table.rows for each in cells.items()):
            rows = part.where(policy=label)
            values = [rows.distinct(column) for column in summary.SETTING]
            key = [table.study, *(value[0] if len(value) == 1 else "" for value in values), label]
            final.append([*key, cell.count, cell.mean, cell.deviation, int(cell.lowest)])
            if (paired := cell.difference) is not None:
                final[-1] += [table.reference, paired.mean, paired.low, paired.high]
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
            pairs = _pairs(part, others[key])
            difference = paired_difference(pairs[:, 1] - pairs[:, 0]) if len(pairs) else None
            rows.append(ComparisonRow(study, shown, label, a, b, difference))
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


def _relative_difference(first: Records, second: Records) -> Difference | None:
    """Of the second to the first, as a share of the first one's mean; None where that is 0 or nothing is in common."""
    a, b = _pairs(first, second).T
    return paired_difference(ratio_terms(b - a, a)) if a.any() else None


def _pairs(first: Records, second: Records) -> np.ndarray:
    """Final regrets of both, a row for each problem, averaged over the replications that both have.

    If there is only one problem, a row for each replication.
    """
    names = ("seed", "problem", "replication", "final_regret")
    tables = [{tuple(key): regret for *key, regret in part.rows(*names)} for part in (first, second)]
    by_problem: dict[tuple[Any, ...], list[list[float]]] = {}
    for key in tables[0]:
        if key in tables[1]:
            by_problem.setdefault(key[:-1], []).append([table[key] for table in tables])
    units = list(by_problem.values())
    return np.reshape(units[0] if len(units) == 1 else [np.mean(runs, axis=0) for runs in units], (-1, 2))
