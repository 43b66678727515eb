"""Two runs side by side, policy by policy, over what both have simulated."""

import math
from dataclasses import dataclass

from posse.experiments import summary
from posse.experiments.records import Records, check_records
from posse.experiments.settings import SETTING, describe, settings
from posse.simulation.statistics import Difference, paired_difference
from posse.text import align, plural

RUN = ("seed", "problem", "replication")


@dataclass(frozen=True)
class ComparisonRow:
    """A policy in one setting of both."""

    study: str
    setting: str
    policy: str
    first: float
    """Mean final regret over the runs that both have (same problem, seed and replication), or else over all."""
    second: float
    difference: Difference | None
    """Of the second to the first, over the runs that both have; None if there are none."""
    runs: tuple[int, int]
    """How many each has."""
    common: int
    """How many both have."""
    other_problems: int
    """How many have the same seed, number of the problem and replication, but other means."""


def compare(first: Records, second: Records) -> list[ComparisonRow]:
    """Mean final regret in both, for every policy and setting that both have."""
    check_records("first", first)
    check_records("second", second)
    rows = []
    studies = second.groups("study")
    for (study,), of_study in first.groups("study").items():
        for setting, part in settings(of_study) if (study,) in studies else ():
            # Problems of one setting may differ in their numbers of subpar arms.
            alike = {name: part[name][0] for name in SETTING if len(part.distinct(name)) == 1}
            others = studies[study,].matching(**alike).groups("policy")
            for (policy,), own in part.groups("policy").items():
                if (policy,) in others:
                    rows.append(_row(study, describe(setting), policy, own, others[policy,]))
    return rows


def _row(study: str, setting: str, policy: str, first: Records, second: Records) -> ComparisonRow:
    """One policy in a setting of both."""
    runs = len(first), len(second)
    paired = summary.paired_runs(first, second)
    common = sum(map(len, paired))
    others = len(set(first.rows(*RUN)) & set(second.rows(*RUN))) - common
    difference = None
    a, b = first["final_regret"], second["final_regret"]
    if common:
        a, b = summary.paired_units(paired).T
        difference = paired_difference(b - a)
    return ComparisonRow(study, setting, policy, float(a.mean()), float(b.mean()), difference, runs, common, others)


def comparison_text(rows: list[ComparisonRow], first: str, second: str) -> str:
    """The comparison as a table for the terminal."""
    if not rows:
        return "The two runs have no study, setting and policy in common."
    table = [["study", "policy", "A", "B", "B − A, 95 % interval", "runs in both"]]
    for row in rows:
        name = f"{row.study}: {row.setting}" if row.setting else row.study
        numbers = f"{row.first:,.1f}", f"{row.second:,.1f}"
        table.append([name, row.policy, *numbers, _shown(row), _in_both(row)])
    lines = [f"A = {first}", f"B = {second}", "", *align(table, "<<>><")]
    lines.append("A and B are means of final regret over the runs in both, or over all of their own if there are none.")
    return "\n".join(lines)


def _shown(row: ComparisonRow) -> str:
    found = row.difference
    if found is None:
        return "the problems differ" if row.other_problems else "no runs in common"
    if found.mean == 0 and found.high in (0, math.inf):
        return "the same"
    few = "one run: no" if found.units == 1 else "too few for an"
    ends = f"[{found.low:,.1f}, {found.high:,.1f}]" if found.units >= summary.FEWEST else f"({few} interval)"
    return f"{found.mean:+,.1f} {ends}"


def _in_both(row: ComparisonRow) -> str:
    first, second = row.runs
    text = f"{row.common:,}" if first == second == row.common else f"{row.common:,} of {first:,} and {second:,}"
    if row.common and row.other_problems:
        text += f"; {plural(row.other_problems, 'other')} have another problem"
    return text
