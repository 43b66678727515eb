"""The claims table: what the paper's evaluation says, and whether the records bear it out.

The claims are data, in claims.toml. A *relative difference* of A against B is the mean over problems of A − B, divided
by B's mean (which is taken as it is); its interval is Student's t over problems, a problem's replications averaged
first. Every finding is one test by one of RULES. The p-value is twice the smallest one-sided level at which
the data would decide, so that p ≤ 5 % says just what the 95 % interval says. It is then corrected by Holm's rule.
"""

from __future__ import annotations

import itertools
import math
import textwrap
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from posse.experiments.records import Records
from posse.experiments.summary import csv_text
from posse.figures.policy_looks import algorithm
from posse.problem import Problem
from posse.simulation.statistics import student_cdf, student_quantile

Verdict = Literal["holds", "does not hold", "undecided"]
MARGIN = 0.05
LEVEL = 0.95
STUDY = "subpar"
WIDTH = 110
PROBLEM = ("players", "arms", "epsilon", "horizon", "schedule", "anytime", "seed", "problem", "n_subpar")
MEASURES: dict[str, Callable[[dict[str, Any]], float]] = {  # of a row of the records
    "final regret": lambda row: row["final_regret"],
    "pulls of near-optimal arms": lambda row: row["pulls_by_kind"][1],
    "pulls of subpar arms": lambda row: row["pulls_by_kind"][2],
    "regret on near-optimal arms": lambda row: row["regret_by_kind"][1],
    "regret on subpar arms": lambda row: row["regret_by_kind"][2],
}


@dataclass(frozen=True)
class DifferenceEstimate:
    """A difference, its standard error and degrees of freedom; with 0 of these, nothing can be concluded."""

    difference: float
    error: float
    freedom: int
    problems: int

    def interval(self) -> tuple[float, float]:
        if self.freedom < 1:
            return -math.inf, math.inf
        half = student_quantile((1 + LEVEL) / 2, self.freedom) * self.error
        return self.difference - half, self.difference + half

    def below(self, limit: float) -> float:
        """The one-sided p-value of "the true difference is below the limit"."""
        distance = self.difference - limit
        if self.freedom < 1:
            return 1.0
        if self.error == 0:
            return 0.0 if distance < 0 else 1.0
        return min(max(student_cdf(distance / self.error, self.freedom), 0.0), 1.0)

    def above(self, limit: float) -> float:
        """The one-sided p-value of "the true difference is above the limit"."""
        return DifferenceEstimate(-self.difference, self.error, self.freedom, self.problems).below(-limit)


@dataclass(frozen=True)
class Rule:
    """A claim that a difference is between two limits. It holds if the interval is there, fails if it is beyond."""

    low: float
    high: float
    holds: str  # where the interval is if the claim holds
    fails: str

    def p_values(self, estimate: DifferenceEstimate) -> tuple[float, float]:
        """The one-sided p-values of the claim and of its opposite."""
        return (
            max(estimate.below(self.high), estimate.above(self.low)),
            min(estimate.above(self.high), estimate.below(self.low)),
        )


RULES = {
    "lower": Rule(-math.inf, 0.0, "below 0", "above 0"),
    "on par": Rule(-MARGIN, MARGIN, "within ± 5 %", "outside ± 5 %"),
    "not worse": Rule(-math.inf, MARGIN, "below + 5 %", "above + 5 %"),
}


@dataclass(frozen=True)
class Claim:
    """Something the paper says about its experiments, and how it is tested; claims.toml explains the fields."""

    id: str
    text: str  # the claim, in our words
    source: str  # where the paper says it
    pairs: tuple[tuple[str, str], ...] = ()
    measure: str = "final regret"
    at: str | int = "each"
    holds: str = "lower"
    only_beyond_theorems: bool = False


@dataclass(frozen=True)
class ClaimFinding:
    """What the records say about one case of a claim."""

    claim: Claim
    case: str  # which algorithms, at which number v of subpar arms
    measure: str
    difference: float  # the relative difference of the first algorithm against the second; 0.1 is ten per cent more
    low: float  # the lower end of its plain 95 % interval
    high: float
    problems: int  # how many problems it rests on
    p_value: float  # adjusted by Holm's rule
    verdict: Verdict
    explanation: str


_DATA = tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))
RULE: str = _DATA["rule"]
CLAIMS = [Claim(**{**claim, "pairs": tuple(map(tuple, claim["pairs"]))}) for claim in _DATA["claim"]]
ALGORITHMS = {name for claim in CLAIMS for pair in claim.pairs for name in pair}


def judge(records: Records) -> list[ClaimFinding]:
    """The findings on every claim that the records of study "subpar" can speak to.

    All numbers v of subpar arms in the records are looked at. A case is left out if its v or one of its policies is
    missing, if no problem was run with both policies, or if the reference is 0 (no arm of that kind exists, such as
    near-optimal ones at v = 9); "all v" pools the problems, and only if every v is there. Holm's rule counts the
    cases that are left.
    """
    runs = _Runs(records.where(study=STUDY))
    return [finding for claim in CLAIMS for finding in _decide(claim, list(_tests(claim, runs)))]


def by_claim(findings: Iterable[ClaimFinding]) -> dict[Claim, list[ClaimFinding]]:
    """The findings on each claim, which stand together."""
    return {claim: list(cases) for claim, cases in itertools.groupby(findings, key=lambda finding: finding.claim)}


def to_csv(findings: Iterable[ClaimFinding]) -> str:
    """The findings as CSV, one row each, numbers in full."""
    columns = [field.name for field in fields(ClaimFinding) if field.name != "claim"]
    rows = [
        [each.claim.id, each.claim.text, each.claim.source, *(getattr(each, name) for name in columns)]
        for each in findings
    ]
    return csv_text([["claim", "text", "source", *columns], *rows])


def to_text(findings: Sequence[ClaimFinding]) -> str:
    """The findings as a table of at most 110 columns, claim by claim, with the rule for many comparisons below."""
    if not findings:
        return "No claim of the paper can be judged from these records."
    case = max(len(finding.case) for finding in findings)
    lines = [f"{'':{case + 2}}  {'difference':>10}  {'95 % interval':>20}  {'problems':>8}  {'Holm p':>7}  verdict"]
    for claim, cases in by_claim(findings).items():
        lines += ["", *textwrap.wrap(f"{claim.text} ({claim.source}) {_count(cases)}", WIDTH)]
        for finding in cases:
            interval = f"[{100 * finding.low:+.1f}, {100 * finding.high:+.1f}]"
            p_value = "< 0.001" if finding.p_value < 0.001 else f"{finding.p_value:.3f}"
            lines.append(
                f"  {finding.case:{case}}  {100 * finding.difference:>+8.1f} %  {interval:>20}  {finding.problems:>8}  "
                f"{p_value:>7}  {finding.verdict}"
            )
    return "\n".join([*lines, "", *textwrap.wrap(RULE, WIDTH)])


Test = tuple[str, str, DifferenceEstimate, tuple[float, float]]
"""A case of a claim, its statement, its estimate, and the one-sided p-values of the claim and of its opposite."""


class _Runs:
    """What was measured, by algorithm, problem and replication."""

    def __init__(self, records: Records) -> None:
        labels = {label: algorithm(label) for label in records.distinct("policy") if algorithm(label) in ALGORITHMS}
        for name in labels.values():
            same = [label for label in labels if labels[label] == name]
            if len(same) > 1:
                raise ValueError(f"policies {', '.join(map(repr, same))} are all {name}, but expected at most one")
        self.measured: dict[str, dict[tuple[Any, ...], dict[str, float]]] = {name: {} for name in ALGORITHMS}
        self.beyond_theorems: dict[tuple[Any, ...], bool] = {}  # by problem: whether I_10ε is empty
        for row in records.where(policy=list(labels)).table.drop_columns(["rounds", "regret"]).to_pylist():
            problem = tuple(row[name] for name in PROBLEM)
            if problem not in self.beyond_theorems:
                means = np.reshape(row["means"], (row["players"], row["arms"]))
                self.beyond_theorems[problem] = len(Problem(means, row["epsilon"]).subpar_10) == 0
            measured = {name: read(row) for name, read in MEASURES.items()}
            runs = self.measured[labels[row["policy"]]]
            if runs.setdefault((problem, row["replication"]), measured) != measured:
                raise ValueError(
                    f"two rows of {row['policy']} on problem {row['problem']} with {row['n_subpar']} subpar arms, "
                    f"replication {row['replication']}, differ"
                )
        self.subpar_counts = sorted({problem[-1] for problem in self.beyond_theorems})

    def compare(self, claim: Claim, pair: tuple[str, str], v: int | None) -> DifferenceEstimate | None:
        """The relative difference of a pair, at v subpar arms or at all; None where it is not defined."""
        first, second = (self.measured[name] for name in pair)
        values = []
        for problem, runs in itertools.groupby(sorted(first.keys() & second.keys()), key=lambda run: run[0]):
            if v in (None, problem[-1]) and (self.beyond_theorems[problem] or not claim.only_beyond_theorems):
                both = list(runs)
                values.append([np.mean([of[run][claim.measure] for run in both]) for of in (first, second)])
        a, b = np.array(values).reshape(-1, 2).T
        if not b.any():
            return None
        relative = (a - b) / float(b.mean())
        error = float(relative.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
        return DifferenceEstimate(float(relative.mean()), error, len(values) - 1, len(values))


def _tests(claim: Claim, runs: _Runs) -> Iterator[Test]:
    """The tests of a claim that the records can give."""
    each = [claim.at] if isinstance(claim.at, int) else runs.subpar_counts
    for pair in claim.pairs:
        found = {v: estimate for v in each if (estimate := runs.compare(claim, pair, v)) is not None}
        if claim.at == "9 against others":
            yield from _most_savings_at_9(claim, pair, found)
            continue
        cases = {f"v = {v}": estimate for v, estimate in found.items()}
        if claim.at == "each and all" and len(found) == len(each) > 1 and (pooled := runs.compare(claim, pair, None)):
            cases["all v"] = pooled
        for case, estimate in cases.items():
            statement = f"{pair[0]} is {_more(estimate)} {pair[1]} in {claim.measure}"
            yield f"{' / '.join(pair)}, {case}", statement, estimate, RULES[claim.holds].p_values(estimate)


def _most_savings_at_9(claim: Claim, pair: tuple[str, str], found: dict[int, DifferenceEstimate]) -> Iterator[Test]:
    """Whether the relative difference at v = 9 is below that at every other v.

    The problems differ, so the interval is Welch's. The comparison that contradicts the claim most decides. If it
    supports the claim, all others do. If it contradicts the claim, its p-value is multiplied by the number of
    comparisons (Bonferroni).
    """
    less = {v: welch(found[9], estimate) for v, estimate in found.items() if v != 9 and 9 in found}
    if less:
        rival = max(less, key=lambda v: (less[v].below(0), less[v].difference))
        statement = (
            f"{pair[0]} is {_more(found[9])} {pair[1]} in {claim.measure} at v = 9, and {_more(found[rival])} it "
            f"at v = {rival}, the hardest to beat"
        )
        p_holds, p_fails = RULES[claim.holds].p_values(less[rival])
        yield f"{' / '.join(pair)}, v = 9 vs {rival}", statement, less[rival], (p_holds, len(less) * p_fails)


def _decide(claim: Claim, tests: Sequence[Test]) -> Iterator[ClaimFinding]:
    """The verdicts on the tests of one claim, by Holm's rule over them."""
    rule = RULES[claim.holds]
    adjusted = holm([min(1.0, 2 * min(p_values)) for *_, p_values in tests])
    for (case, statement, estimate, (p_holds, p_fails)), p_value in zip(tests, adjusted, strict=True):
        verdict: Verdict = "undecided"
        if p_value <= 1 - LEVEL:
            verdict, where = ("holds", rule.holds) if p_holds < p_fails else ("does not hold", rule.fails)
            reason = f"the interval is {where}"
        elif estimate.freedom < 1:
            reason = "too few problems for an interval"
        elif 2 * min(rule.p_values(estimate)) <= 1 - LEVEL:
            reason = "the interval alone would decide, but many comparisons are made"
        else:
            reason = f"the interval is neither {rule.holds} nor {rule.fails}"
        numbers = (estimate.difference, *estimate.interval(), estimate.problems, p_value)
        yield ClaimFinding(claim, case, claim.measure, *numbers, verdict, f"{statement}; {reason}")


def _more(estimate: DifferenceEstimate) -> str:
    """A relative difference in words: "3.2 % below"."""
    return f"{abs(100 * estimate.difference):.1f} % {'above' if estimate.difference > 0 else 'below'}"


def _count(cases: Sequence[ClaimFinding]) -> str:
    """How often a claim holds, in words."""
    if len(cases) == 1:
        return f"Verdict: {cases[0].verdict}."
    counts = Counter(finding.verdict for finding in cases)
    others = [f", {verdict} in {counts[verdict]}" for verdict in ("does not hold", "undecided") if counts[verdict]]
    return f"Holds in {counts['holds']} of {len(cases)} cases{''.join(others)}."


def welch(a: DifferenceEstimate, b: DifferenceEstimate) -> DifferenceEstimate:
    """The difference of two independent estimates, with Welch's degrees of freedom, rounded down."""
    difference = a.difference - b.difference
    problems = a.problems + b.problems
    if min(a.freedom, b.freedom) < 1:
        return DifferenceEstimate(difference, math.inf, 0, problems)
    squares = a.error**2, b.error**2
    total = sum(squares)
    if total == 0:
        return DifferenceEstimate(difference, 0.0, a.freedom + b.freedom, problems)
    freedom = total**2 / (squares[0] ** 2 / a.freedom + squares[1] ** 2 / b.freedom)
    return DifferenceEstimate(difference, math.sqrt(total), int(freedom), problems)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: sorted p_(1) ≤ … ≤ p_(m), the j-th becomes max over i ≤ j of min(1, (m − i + 1) p_(i)).

    Holm, "A simple sequentially rejective multiple test procedure" (1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for done, number in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - done) * p_values[number]))
        adjusted[number] = largest
    return adjusted
