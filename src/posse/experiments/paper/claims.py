"""The claims table: what the paper's evaluation says, and whether the records bear it out.

A *relative difference* of A against B is the mean over problems of A − B, divided by B's mean (which is taken as it
is); its interval is Student's t over problems, a problem's replications averaged first. Every finding is one test:

- *lower*: holds if the interval is below 0, does not hold if it is above 0;
- *on par*: holds if the interval is within ± 5 %, does not hold if it is wholly outside;
- *not worse*: holds if the interval ends at or below + 5 %, does not hold if it begins above;

and is undecided otherwise. The p-value is twice the smallest one-sided level at which the data would decide, so that
p ≤ 5 % says just what the 95 % interval says. It is then corrected by Holm's rule; see RULE.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from posse.experiments.paper import verdicts
from posse.experiments.paper.verdicts import DifferenceEstimate, Rule, Verdict
from posse.experiments.records import Records
from posse.experiments.summary import csv_text
from posse.figures.policy_looks import algorithm
from posse.problem import Problem

STUDY = "subpar"
WIDTH = 110
RULE = (
    "Differences are relative to the mean of the algorithm after the slash, paired by problem, with plain 95 % "
    "Student's t intervals over problems ('v = 9 vs' another: the one relative difference minus the other, with "
    "Welch's interval). Verdicts follow Holm's rule at the 5 % level over all tests of one claim, so that a claim with "
    "many cases is not decided by chance in one of them. 'On par' means an interval within ± 5 %, 'does not do worse' "
    "one that ends below + 5 %."
)

ALGORITHMS = ("RobustAgg-TS", "RobustAgg-TS-V", "RobustAgg", "Ind-TS", "Ind-UCB")


@dataclass(frozen=True)
class Claim:
    """Something the paper says about its experiments."""

    id: str
    text: str  # the claim, in our words
    source: str  # where the paper says it


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


COUNTERPARTS = (("RobustAgg-TS", "Ind-TS"), ("RobustAgg", "Ind-UCB"))
"""An algorithm that shares, and the same without sharing."""


def judge(records: Records) -> list[ClaimFinding]:
    """The findings on every claim that the records of study "subpar" can speak to.

    All numbers v of subpar arms in the records are looked at. A case is left out if its v or one of its policies is
    missing, if no problem was run with both policies, or if the reference is 0 (no arm of that kind exists, such as
    near-optimal ones at v = 9); "all v" pools the problems, and only if every v is there. Holm's rule counts the
    cases that are left.
    """
    runs = _Runs(records.where(study=STUDY))
    findings: list[ClaimFinding] = []
    for *claim, tests in _tests(runs):
        findings += _decide(Claim(*claim), [test for test in tests if test is not None])
    return findings


def by_claim(findings: Iterable[ClaimFinding]) -> dict[Claim, list[ClaimFinding]]:
    """The findings on each claim."""
    found: dict[Claim, list[ClaimFinding]] = {}
    for finding in findings:
        found.setdefault(finding.claim, []).append(finding)
    return found


def to_csv(findings: Iterable[ClaimFinding]) -> str:
    """The findings as CSV, one row each, numbers in full."""
    columns = [field.name for field in fields(ClaimFinding) if field.name != "claim"]
    rows = [[*vars(finding.claim).values(), *(getattr(finding, name) for name in columns)] for finding in findings]
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


REGRET = "final regret"
PULLS_NEAR_OPTIMAL = "pulls of near-optimal arms"
PULLS_SUBPAR = "pulls of subpar arms"
REGRET_NEAR_OPTIMAL = "regret on near-optimal arms"
REGRET_SUBPAR = "regret on subpar arms"


def _measured(row: dict[str, Any]) -> dict[str, float]:
    """What was measured in a run."""
    return {
        REGRET: row["final_regret"],
        PULLS_NEAR_OPTIMAL: row["pulls_by_kind"][1],
        PULLS_SUBPAR: row["pulls_by_kind"][2],
        REGRET_NEAR_OPTIMAL: row["regret_by_kind"][1],
        REGRET_SUBPAR: row["regret_by_kind"][2],
    }


@dataclass(frozen=True)
class _Test:
    """One case of a claim: an estimate, in words too, and the one-sided p-values of the claim and of its opposite."""

    case: str
    measure: str
    estimate: DifferenceEstimate
    statement: str
    rule: Rule
    p_holds: float
    p_fails: float

    @property
    def p_value(self) -> float:
        return min(1.0, 2 * self.p_holds, 2 * self.p_fails)


class _Runs:
    """The measurements by algorithm, problem and replication."""

    def __init__(self, records: Records) -> None:
        labels = _labels(records.distinct("policy"))
        of_problem = ("players", "arms", "epsilon", "horizon", "schedule", "anytime", "seed", "problem", "n_subpar")
        self.rows: dict[str, dict[tuple[Any, ...], dict[int, dict[str, float]]]] = {
            name: {} for name in labels.values()
        }
        self.nothing_at_10: dict[tuple[Any, ...], bool] = {}
        for row in records.where(policy=list(labels)).table.to_pylist():
            problem = tuple(row[name] for name in of_problem)
            if problem not in self.nothing_at_10:
                means = np.reshape(row["means"], (row["players"], row["arms"]))
                self.nothing_at_10[problem] = len(Problem(means, row["epsilon"]).subpar_10) == 0
            replications = self.rows[labels[row["policy"]]].setdefault(problem, {})
            if replications.setdefault(row["replication"], _measured(row)) != _measured(row):
                raise ValueError(
                    f"two rows of {row['policy']} on problem {row['problem']} with {row['n_subpar']} subpar arms, "
                    f"replication {row['replication']}, differ"
                )
        self.subpar_counts = sorted({problem[-1] for problem in self.nothing_at_10})

    def compare(
        self, a: str, b: str, measure: str, v: int | None = None, beyond_theorem: bool = False
    ) -> DifferenceEstimate | None:
        """The relative difference of a against b, at v subpar arms or at all; None where it is not defined."""
        pairs = []
        of_a, of_b = self.rows.get(a, {}), self.rows.get(b, {})
        for problem in sorted(of_a.keys() & of_b.keys()):
            both = sorted(of_a[problem].keys() & of_b[problem].keys())
            if both and (v is None or problem[-1] == v) and (self.nothing_at_10[problem] or not beyond_theorem):
                pairs.append([np.mean([of[problem][r][measure] for r in both]) for of in (of_a, of_b)])
        if not pairs:
            return None
        first, second = np.array(pairs).T
        reference = float(second.mean())
        if reference == 0:
            return None
        relative = (first - second) / reference
        error = float(relative.std(ddof=1)) / math.sqrt(len(pairs)) if len(pairs) > 1 else math.inf
        return DifferenceEstimate(float(relative.mean()), error, len(pairs) - 1, len(pairs))

    def test(
        self, a: str, b: str, measure: str, v: int | None, rule: Rule = verdicts.LOWER, beyond_theorem: bool = False
    ) -> _Test | None:
        """A rule applied to the relative difference of a against b."""
        estimate = self.compare(a, b, measure, v, beyond_theorem)
        if estimate is None:
            return None
        case = f"{a} / {b}, " + ("all v" if v is None else f"v = {v}")
        statement = f"{a} is {_more(estimate.difference)} {b} in {measure}"
        return _Test(case, measure, estimate, statement, rule, *rule.p_values(estimate))

    def most_savings_at_9(self, a: str, b: str) -> _Test | None:
        """Whether the relative difference at v = 9 is below that at every other v.

        The problems differ, so the interval is Welch's. The comparison that contradicts the claim most decides. If it
        supports the claim, all others do. If it contradicts the claim, its p-value is multiplied by the number of
        comparisons (Bonferroni).
        """
        best = self.compare(a, b, REGRET, 9)
        found = {v: self.compare(a, b, REGRET, v) for v in self.subpar_counts if v != 9}
        others = {v: estimate for v, estimate in found.items() if estimate is not None}
        if best is None or not others:
            return None
        less = {v: verdicts.welch(best, estimate) for v, estimate in others.items()}
        rival = max(less, key=lambda v: (less[v].below(0), less[v].difference))
        statement = (
            f"{a} is {_more(best.difference)} {b} in final regret at v = 9, and {_more(others[rival].difference)} it "
            f"at v = {rival}, the hardest to beat"
        )
        p_holds, p_fails = verdicts.LOWER.p_values(less[rival])
        case = f"{a} / {b}, v = 9 vs {rival}"
        return _Test(case, REGRET, less[rival], statement, verdicts.LOWER, p_holds, len(less) * p_fails)


def _tests(runs: _Runs) -> Iterator[tuple[str, str, str, list[_Test | None]]]:
    """Every claim (id, text, source) with its tests; None for those that the records cannot give."""
    counts = runs.subpar_counts

    def each_and_all(a: str, b: str) -> list[_Test | None]:
        each = [runs.test(a, b, REGRET, v) for v in counts]
        return [*each, runs.test(a, b, REGRET, None)] if len(counts) > 1 and None not in each else each

    yield (
        "robustagg-beats-ind-ucb",
        "RobustAgg has less regret than its counterpart, Ind-UCB.",
        "Section 6, Figure 1 left",
        each_and_all("RobustAgg", "Ind-UCB"),
    )
    yield (
        "ind-ts-beats-robustagg",
        "Even with half of the arms subpar, Ind-TS, which shares nothing, has less regret than RobustAgg.",
        "Section 6, Figure 1 left",
        [runs.test("Ind-TS", "RobustAgg", REGRET, 5)],
    )
    others = ("RobustAgg", "Ind-TS", "Ind-UCB")
    yield (
        "robustagg-ts-superior",
        "RobustAgg-TS has less regret than each other algorithm.",
        "Section 6, Figure 1 left; Appendix E",
        [test for other in others for test in each_and_all("RobustAgg-TS", other)],
    )
    kinds = (("RobustAgg-TS", "RobustAgg"), ("Ind-TS", "Ind-UCB"))
    yield (
        "ts-pulls-near-optimal-less",
        "Thompson sampling pulls near-optimal arms less often than the UCB algorithm of its kind.",
        "Section 6, Figure 1 middle; Appendix E",
        [runs.test(a, b, PULLS_NEAR_OPTIMAL, v) for a, b in kinds for v in counts],
    )
    yield (
        "sharing-saves-on-subpar",
        "Sharing saves regret on subpar arms.",
        "Section 6, Figure 1 right; Appendix E",
        [runs.test(a, b, REGRET_SUBPAR, v) for a, b in COUNTERPARTS for v in counts],
    )
    yield (
        "sharing-alike-on-near-optimal",
        "On near-optimal arms sharing changes little: regret there is on par with the counterpart's.",
        "Section 6, Figure 1 right; Appendix E",
        [runs.test(a, b, REGRET_NEAR_OPTIMAL, v, verdicts.ON_PAR) for a, b in COUNTERPARTS for v in counts],
    )
    yield (
        "v9-favourable",
        "v = 9, one arm best for everybody and all others subpar, is where sharing saves most.",
        "Appendix E",
        [runs.most_savings_at_9(a, b) for a, b in COUNTERPARTS],
    )
    yield (
        "v0-does-not-hurt",
        "v = 0, no arm is subpar: RobustAgg-TS does not do worse than Ind-TS.",
        "Appendix E",
        [runs.test("RobustAgg-TS", "Ind-TS", REGRET, 0, verdicts.NOT_WORSE)],
    )
    yield (
        "variant-on-par",
        "RobustAgg-TS-V, which refreshes every posterior in every round, is on par with RobustAgg-TS.",
        "Appendix E.1",
        [runs.test("RobustAgg-TS-V", "RobustAgg-TS", REGRET, v, verdicts.ON_PAR) for v in counts],
    )
    yield (
        "transfer-at-5-epsilon",
        "Transfer works on the arms of I_5ε although I_10ε, of which the theorems speak, is empty: "
        "they are pulled less.",
        "Section 6, last paragraph",
        [runs.test("RobustAgg-TS", "Ind-TS", PULLS_SUBPAR, v, beyond_theorem=True) for v in counts],
    )


def _decide(claim: Claim, tests: Sequence[_Test]) -> list[ClaimFinding]:
    """The verdicts on the tests of one claim, by Holm's rule over them."""
    findings = []
    for test, p_value in zip(tests, verdicts.holm([test.p_value for test in tests]), strict=True):
        estimate, rule = test.estimate, test.rule
        verdict: Verdict = "undecided"
        if p_value <= 1 - verdicts.LEVEL:
            verdict, where = ("holds", rule.holds) if test.p_holds < test.p_fails else ("does not hold", rule.fails)
            reason = f"the interval is {where}"
        elif estimate.freedom < 1:
            reason = "too few problems for an interval"
        elif 2 * min(rule.p_values(estimate)) <= 1 - verdicts.LEVEL:
            reason = "the interval alone would decide, but many comparisons are made"
        else:
            reason = f"the interval is neither {rule.holds} nor {rule.fails}"
        numbers = (estimate.difference, *estimate.interval(), estimate.problems, p_value)
        findings.append(ClaimFinding(claim, test.case, test.measure, *numbers, verdict, f"{test.statement}; {reason}"))
    return findings


def _labels(labels: Sequence[str]) -> dict[str, str]:
    """The paper's name of each of its algorithms, by the label of the policy; an error if two policies share one."""
    for name in ALGORITHMS:
        same = [label for label in labels if algorithm(label) == name]
        if len(same) > 1:
            raise ValueError(f"policies {', '.join(map(repr, same))} are all {name}, but expected at most one")
    return {label: algorithm(label) for label in labels if algorithm(label) in ALGORITHMS}


def _more(difference: float) -> str:
    """A relative difference in words: "3.2 % below"."""
    return f"{abs(100 * difference):.1f} % {'above' if difference > 0 else 'below'}"


def _count(cases: Sequence[ClaimFinding]) -> str:
    """How often a claim holds, in words."""
    if len(cases) == 1:
        return f"Verdict: {cases[0].verdict}."
    counts = Counter(finding.verdict for finding in cases)
    others = [f", {verdict} in {counts[verdict]}" for verdict in ("does not hold", "undecided") if counts[verdict]]
    return f"Holds in {counts['holds']} of {len(cases)} cases{''.join(others)}."
