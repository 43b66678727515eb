"""Tables: final regrets and two runs side by side for the terminal, and what the records say as CSV."""

import dataclasses
import itertools
import math
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posse.experiments import summary
from posse.experiments.paper.claims import ClaimFinding, to_csv
from posse.experiments.records import KINDS, Records
from posse.experiments.report.theory import PAPER_BOUNDS
from posse.experiments.settings import SETTING, describe, feedback_columns, settings
from posse.policies.base import all_policies
from posse.policies.labels import algorithm, matching_labels
from posse.problem import Problem
from posse.simulation.feedback import note_on_late_rewards
from posse.simulation.statistics import Difference, paired_difference, ratio_terms
from posse.text import align_blocks, shorten, with_ends

TERMINAL = 110  # columns

FINAL = (  # the columns of final-regret.csv after those of the setting
    *("problems", "replications", "mean", "over", "standard_deviation", "standard_error"),
    *("median_run", "worst_run", "lock_ins_a_run", "lowest", "reference"),
    *("regret_difference", "regret_difference_low", "regret_difference_high"),
    *("percent_difference", "percent_difference_low", "percent_difference_high"),
)
WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


@dataclasses.dataclass(frozen=True)
class RegretCell:
    """Final regret of one policy in one setting."""

    mean: float
    deviation: float  # the standard deviation over problems; NaN of a single one
    count: int  # how many problems (or replications, of a single problem)
    lowest: bool  # whether no other policy has a lower mean
    runs: np.ndarray  # the final regret of every run
    lock_ins: float  # players locked in on a bad arm at the end, a run; NaN where that was not measured
    relative: Difference | None = None  # to the reference, in parts of its mean, paired; None if it is that one
    difference: Difference | None = None  # the same in regret

    @property
    def starred(self) -> str:
        """Mean ± deviation, with a star if it is the lowest of its row."""
        return " ± ".join(self.shown) + ("*" if self.lowest else " ")

    @property
    def shown(self) -> list[str]:
        """Mean and deviation, with enough decimals for three digits of the mean."""
        return [self._text(self.mean), "–" if math.isnan(self.deviation) else self._text(self.deviation)]

    @property
    def single_runs(self) -> str:
        """The median and the worst of all runs, and lock-ins."""
        shown = [self._text(value) for value in (np.median(self.runs), self.runs.max())]
        return " / ".join([*shown, "–" if math.isnan(self.lock_ins) else f"{self.lock_ins:.3g}"])

    def _text(self, regret: float) -> str:
        digits = 0 if self.mean >= 100 or self.mean == 0 else min(6, 2 - math.floor(math.log10(self.mean)))
        return f"{regret:,.{digits}f}"

    @property
    def percent(self) -> str:
        """The relative difference in percent with its 95 % interval, if there are enough units for one."""
        if self.relative is None:
            return "–"
        value, low, high = (100 * each for each in (self.relative.mean, self.relative.low, self.relative.high))
        if value == low == high == 0:
            return "the same"
        if self.relative.units < summary.FEWEST:
            return f"{value:+.1f}".replace("-", "−")
        return with_ends(value, low, high, "+")


@dataclasses.dataclass(frozen=True)
class RegretTable:
    """The final regrets of a study: a row for each setting, a column for each policy."""

    study: str
    title: str  # the study's name for people
    policies: list[str]
    over: str  # what means and standard deviations are over
    rows: list[tuple[dict[str, Any], Records, dict[str, RegretCell]]]
    references: list[str]  # by row: the policy that others are compared with

    @property
    def reference(self) -> str:
        """What differences are relative to."""
        algorithms = {algorithm(label) for label in self.references}
        several = f"the row's {algorithms.pop()}" if len(algorithms) == 1 else "the first policy of the row"
        return self.references[0] if len(set(self.references)) == 1 else several

    @property
    def compared(self) -> list[str]:
        """The policies that have a difference to another."""
        cells = [cells for *_, cells in self.rows]
        return [label for label in self.policies if any(label in row and row[label].relative for row in cells)]

    @property
    def notes(self) -> list[str]:
        """What has to be said of some cells: differences without an interval, and late rewards."""
        found = [cell.relative for *_, cells in self.rows for cell in cells.values() if cell.relative]
        few = [f"Fewer than {summary.FEWEST} {self.over} are too few for an interval."]
        return (few if any(each.units < summary.FEWEST for each in found) else []) + self.late

    @property
    def late(self) -> list[str]:
        """A note on late rewards, if policies without randomness meet them."""
        without = {cls.name or cls.__name__ for cls in all_policies() if not cls.randomised}
        schedules = {schedule for _, part, _ in self.rows for schedule in part.distinct("schedule")}
        late = any(feedback_columns(schedule)[1:] != (0, 1) for schedule in schedules)
        return note_on_late_rewards(label for label in self.policies if algorithm(label) in without) if late else []


def regret_tables(records: Records, reference: str = "") -> list[RegretTable]:
    """The final regrets, study by study, with differences to a reference: the first policy of each row if omitted.

    The reference is a label, or an algorithm or class that one policy of a row has; a row without it keeps the first.
    """
    labels = records.distinct("policy")
    if reference and not matching_labels(reference, labels):
        raise ValueError(f"reference {reference!r}, but the policies are {', '.join(map(repr, labels))}")
    tables = []
    for study in records.distinct("study"):
        of_study = records.where(study=study)
        policies = summary.written_order(of_study)
        rows, references = [], []
        for setting, part in settings(of_study):
            values = summary.by_policy(part, policies, "final_regret")
            least = min(value.mean() for value in values.values())
            references.append(_reference(reference, list(values)))
            first = part.where(policy=references[-1])
            cells: dict[str, RegretCell] = {}
            for label, value in values.items():
                runs = part.where(policy=label)
                mean, deviation = summary.mean_and_deviation(value)
                paired = summary.paired_runs(first, runs) if label != references[-1] else []
                cells[label] = RegretCell(
                    float(mean),
                    float(deviation) if len(value) > 1 else math.nan,
                    len(value),
                    bool(mean <= least),
                    runs["final_regret"],
                    float(runs["lock_ins"].astype(float).mean()),
                    *_differences(paired),
                )
            rows.append((setting, part, cells))
        over = summary.spread_over(of_study)
        title = WORDS["studies"].get(study, study)
        tables.append(RegretTable(study, title, policies, over, rows, references))
    return tables


def _differences(paired: Sequence[np.ndarray]) -> tuple[Difference | None, Difference | None]:
    """The differences of a cell to the reference, relative and in regret; None where nothing is paired, or it is 0."""
    if not paired:
        return None, None
    a, b = summary.paired_units(paired).T
    return paired_difference(ratio_terms(b - a, a)) if a.any() else None, paired_difference(b - a)


def _reference(which: str, labels: Sequence[str]) -> str:
    """The policy of a row that others are compared with."""
    found = matching_labels(which, labels) if which else []
    if len(found) > 1:
        raise ValueError(f"reference {which!r} may be {' or '.join(map(repr, found))}; give one of these labels")
    return found[0] if found else labels[0]


def regret_table(records: Records, reference: str = "") -> str:
    """Final regrets for the terminal, with a star at the lowest of each row, and differences to a reference."""
    parts = []
    for table in regret_tables(records, reference):
        names = [shorten(describe(setting) or "all problems", 80) for setting, _, _ in table.rows]
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
        parts[-1] += [line for note in table.notes for line in textwrap.wrap(note, TERMINAL)]
    return "\n\n".join(map("\n".join, parts))


def write_tables(
    records: Records, folder: str | Path, findings: Sequence[ClaimFinding] | None = None, reference: str = ""
) -> list[RegretTable]:
    """Write final regrets, pulls and regret by kind of arm, the bounds of each problem, and the claims as CSV.

    A column of the setting is empty if it differs from row to row of the records. Returns the tables of final regrets.
    """
    found = regret_tables(records, reference)
    names = [f"{what}_{how}" for what in ("percent_of_pulls", "regret") for how in ("mean", "standard_deviation")]
    before, after = ["study", *SETTING], ["delay", "batch", "policy"]
    final: list[list[Any]] = [[*before, *after, *FINAL]]
    kinds: list[list[Any]] = [[*before, *after, "kind", *names]]
    for table in found:
        for (_, part, cells), reference in zip(table.rows, table.references, strict=True):
            for label, cell in cells.items():
                rows = part.where(policy=label)
                key = [table.study, *_setting_columns(rows), label]
                final.append([*key, *_final_columns(cell, rows, reference)])
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


def _setting_columns(rows: Records) -> Iterator[Any]:
    """The values of a setting, the schedule alone, then delay and batch; empty where rows differ."""
    found = [rows.distinct(column) for column in SETTING]
    values = dict(zip(SETTING, (value[0] if len(value) == 1 else "" for value in found), strict=True))
    values["schedule"], *feedback = feedback_columns(values["schedule"])
    return itertools.chain(values.values(), feedback)


def _final_columns(cell: RegretCell, rows: Records, reference: str) -> Iterator[Any]:
    """The cells under FINAL; an interval of a single unit is empty."""
    problems = len(set(rows.rows("problem", "seed")))
    yield from (problems, len(rows.distinct("replication")), cell.mean)
    yield "problems" if problems > 1 else "replications"
    yield from (cell.deviation, cell.deviation / math.sqrt(cell.count)) if cell.count > 1 else ("", "")
    yield from (float(np.median(cell.runs)), float(cell.runs.max()))
    yield from ("" if math.isnan(cell.lock_ins) else cell.lock_ins, int(cell.lowest))
    yield reference if cell.difference else ""
    for found, unit in ((cell.difference, 1), (cell.relative, 100)):
        ends = (found.mean, found.low, found.high) if found else ()
        yield from (unit * end if math.isfinite(end) else "" for end in ends)
        yield from [""] * (3 - len(ends))


def _theory_rows(records: Records) -> Iterator[list[Any]]:
    bounds = {f"{kind}: {label}": bound for kind, of in PAPER_BOUNDS.items() for label, bound in of.items()}
    columns = ("study", "n_subpar", "players", "arms", "epsilon", "horizon", "family", "problem")
    yield [*columns, "n_subpar_10", *bounds]
    for *key, means in dict.fromkeys(records.rows(*columns, "means")):
        row = dict(zip(columns, key, strict=True))
        problem = Problem(np.reshape(means, (row["players"], row["arms"])), row["epsilon"])
        yield [*key, len(problem.subpar_10), *(float(bound(problem, row["horizon"])) for bound in bounds.values())]
