"""Two runs side by side, policy by policy, over what both have simulated."""

from dataclasses import dataclass

from posse.experiments import summary
from posse.experiments.records import Records, check_records
from posse.experiments.settings import SETTING, describe
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
    parts, others = (records.groups("study", *SETTING, "policy") for records in (first, second))
    varying = [name for name in SETTING if len(first.distinct(name)) > 1]
    rows = []
    for key, part in parts.items():
        if key in others:
            both = part, others[key]
            study, *values, label = key
            setting = dict(zip(SETTING, values, strict=True))
            shown = describe({name: setting[name] for name in varying})
            paired = summary.paired_runs(*both)
            common = sum(map(len, paired))
            same = set(part.rows(*RUN)) & set(others[key].rows(*RUN))
            runs = (len(part), len(others[key]))
            if common:
                pairs = summary.paired_units(paired)
                a, b = (float(mean) for mean in pairs.mean(axis=0))
                difference = paired_difference(pairs[:, 1] - pairs[:, 0])
            else:
                a, b = (float(records["final_regret"].mean()) for records in both)
                difference = None
            rows.append(ComparisonRow(study, shown, label, a, b, difference, runs, common, len(same) - common))
    return rows


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
    if found.mean == found.low == found.high == 0:
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
