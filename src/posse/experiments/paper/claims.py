"""The claims table: what the paper's evaluation says, and whether the records bear it out.

The claims are data, in claims.toml; what goes beyond the paper's words is an *extension*. A *relative difference* of A
against B is the mean over problems of A − B, divided by B's mean; its interval is that of a ratio of two means
(`ratio_terms`) over problems, a problem's replications averaged first. Every finding is one test by one of RULES. The
p-value is twice the smallest one-sided level at which the data would decide, so that p ≤ 5 % says just what the 95 %
interval says. It is then corrected by Holm's rule.
"""

import dataclasses
import functools
import itertools
import math
import textwrap
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from posse.experiments.paper.estimates import LEVEL, RULES, DifferenceEstimate, holm
from posse.experiments.records import Records
from posse.experiments.summary import csv_text
from posse.policies.labels import algorithm
from posse.problem import Problem
from posse.simulation.statistics import ratio_terms
from posse.text import plural

Verdict = Literal["holds", "does not hold", "undecided"]
STUDY = "subpar"
WIDTH = 110
PROBLEM = ("players", "arms", "epsilon", "horizon", "schedule", "anytime", "seed", "family", "problem", "n_subpar")
COLUMNS = (*PROBLEM, "policy", "replication", "means", "final_regret", "pulls_by_kind", "regret_by_kind")
MEASURES: dict[str, Callable[[dict[str, Any]], float]] = {  # of a row of the records
    "final regret": lambda row: row["final_regret"],
    "pulls of near-optimal arms": lambda row: row["pulls_by_kind"][1],
    "pulls of subpar arms": lambda row: row["pulls_by_kind"][2],
    "all pulls": lambda row: sum(row["pulls_by_kind"]),
    "regret on near-optimal arms": lambda row: row["regret_by_kind"][1],
    "regret on subpar arms": lambda row: row["regret_by_kind"][2],
    "regret on near-optimal arms minus that on subpar arms": lambda row: (  # 0, as if missing, if none is near-optimal
        row["regret_by_kind"][1] and row["regret_by_kind"][1] - row["regret_by_kind"][2]
    ),
}


@dataclass(frozen=True)
class Claim:
    """Something the paper says about its experiments, and how it is tested; claims.toml explains the fields."""

    id: str
    text: str  # the claim, in our words
    source: str  # where the paper says it
    pairs: tuple[tuple[str, ...], ...] = ()
    measure: str = "final regret"
    relative_to: str = ""  # the measure itself if empty
    at: str | tuple[int | str, ...] = "each"
    holds: str = "lower"
    only_beyond_theorems: bool = False
    extension: bool = False  # our own: judged where `at` is not

    def is_about(self, place: int | str) -> bool:
        """Whether the claim is about a number v of subpar arms, or about "all" of them together."""
        return isinstance(place, int) if self.at == "each" else (place in self.at) != self.extension

    def percent(self, share: float) -> str:
        """A relative difference with its sign, or a share without."""
        if not math.isfinite(share):
            return "∞" if share > 0 else "−∞"
        return f"{100 * share:.2g} %" if self.holds == "rare" else f"{100 * share:+.1f} %".replace("-", "−")


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


def _with_extension(*, pairs: Sequence[Sequence[str]], elsewhere: bool = False, **data: Any) -> Iterator[Claim]:
    """A claim of claims.toml, and its extension to where the paper does not speak."""
    at = data.pop("at", "each")
    claim = Claim(**data, pairs=tuple(map(tuple, pairs)), at=at if isinstance(at, str) else tuple(at))
    yield claim
    if elsewhere:
        yield dataclasses.replace(
            claim,
            id=f"{claim.id}-elsewhere",
            text=f"At other v: {claim.text}",
            source="our extension",
            extension=True,
        )


_DATA = tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))
RULE: str = _DATA["rule"]
PAPER: dict[str, Any] = _DATA["paper"]
CLAIMS = [claim for data in _DATA["claim"] for claim in _with_extension(**data)]
ALGORITHMS = {name for claim in CLAIMS for pair in claim.pairs for name in pair}


def judge(records: Records) -> list[ClaimFinding]:
    """The findings on every claim that the records of study "subpar" can speak to.

    All numbers v of subpar arms in the records are looked at. A case is left out if its v or one of its policies is
    missing, if no problem was run with both policies, or if the reference is 0 (no arm of that kind exists, such as
    near-optimal ones at v = 9); "all v" pools the problems, and only if no v is left out. Holm's rule counts the
    cases that are left.
    """
    runs = _Runs(records.matching(study=STUDY))
    return [finding for claim in CLAIMS for finding in _decide(claim, list(_tests(claim, runs)))]


def small_form(records: Records) -> str:
    """In which way this evaluation is smaller than the paper's, in words; empty if it is not."""
    own = records.matching(study=STUDY)
    if not len(own):
        return ""
    rounds = max(own.distinct("horizon"))
    problems = min(len(set(part.rows("problem", "seed"))) for part in own.groups("n_subpar").values())
    if rounds >= PAPER["rounds"] and problems >= PAPER["problems"]:
        return ""
    return (
        f"This is a small form of the paper's evaluation: {rounds:,} rounds and {plural(problems, 'problem')} for each "
        f"number of subpar arms, where the paper has {PAPER['rounds']:,} and {PAPER['problems']}. Verdicts at this "
        "size mean little: with few problems many intervals are too wide to decide, and in few rounds the algorithms "
        "have not yet learned what tells them apart later."
    )


def by_claim(findings: Iterable[ClaimFinding]) -> dict[Claim, list[ClaimFinding]]:
    """The findings on each claim, which stand together."""
    return {claim: list(cases) for claim, cases in itertools.groupby(findings, key=lambda finding: finding.claim)}


def texts(findings: Iterable[ClaimFinding]) -> list[str]:
    """The texts of the claims in their order; an extension says only where, if the claim itself stands before it."""
    claims = list(by_claim(findings))
    return [
        "The same at other v." if before and claim.id == f"{before.id}-elsewhere" else claim.text
        for before, claim in itertools.pairwise([None, *claims])
        if claim
    ]


def to_csv(findings: Iterable[ClaimFinding]) -> str:
    """The findings as CSV, one row each, numbers in full."""
    columns = [field.name for field in dataclasses.fields(ClaimFinding) if field.name != "claim"]
    rows = [
        [each.claim.id, each.claim.text, each.claim.source, *(getattr(each, name) for name in columns)]
        for each in findings
    ]
    return csv_text([["claim", "text", "source", *columns], *rows])


def to_text(findings: Sequence[ClaimFinding], note: str = "") -> str:
    """The findings in at most 110 columns: how often each claim holds, where it does not, and the rules.

    `note` is said first, and is that of `small_form`.
    """
    if not findings:
        return "No claim of the paper can be judged from these records."
    lines = textwrap.wrap(note, WIDTH)
    for text, (claim, cases) in zip(texts(findings), by_claim(findings).items(), strict=True):
        lines += [""] if text == claim.text else []
        lines += textwrap.wrap(f"{text} ({claim.source})", WIDTH)
        lines += textwrap.wrap(f"{count(cases)}: {span(cases)}", WIDTH, initial_indent="  ", subsequent_indent="  ")
        for case in cases:
            if case.verdict == "does not hold" and len(cases) > 1:
                interval = f"[{claim.percent(case.low)}, {claim.percent(case.high)}]"
                lines.append(f"    not: {case.case}, {claim.percent(case.difference)} {interval}")
    return "\n".join([*lines, "", *textwrap.wrap(RULE, WIDTH)]).lstrip("\n")


def count(cases: Sequence[ClaimFinding]) -> str:
    """How often a claim holds, in words."""
    if len(cases) == 1:
        return cases[0].verdict
    counts = Counter(finding.verdict for finding in cases)
    others = [f", {verdict} in {counts[verdict]}" for verdict in ("does not hold", "undecided") if counts[verdict]]
    return f"holds in {counts['holds']} of {len(cases)} cases{''.join(others)}"


def span(cases: Sequence[ClaimFinding]) -> str:
    """The smallest and the largest difference of a claim's cases."""
    shown = [cases[0].claim.percent(share) for share in sorted(case.difference for case in cases)]
    return shown[0] if shown[0] == shown[-1] else f"{shown[0]} to {shown[-1]}"


Test = tuple[str, str, DifferenceEstimate]
"""A case of a claim, its statement and its estimate."""


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
        for values in records.where(policy=list(labels)).rows(*COLUMNS):
            row = dict(zip(COLUMNS, values, strict=True))
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
        self.compare = functools.cache(self._compare)  # several claims are about the same difference
        self.subpar_counts = sorted({problem[-1] for problem in self.beyond_theorems})

    def _compare(
        self, pair: tuple[str, ...], measure: str, relative_to: str, only_beyond_theorems: bool
    ) -> dict[int | str, DifferenceEstimate]:
        """The relative difference of a pair at each v where it is defined, and at "all" if it is at each of several v.

        Of one algorithm alone, it is what is measured, relative to what the claim says.
        """
        first, second = self.measured[pair[0]], self.measured[pair[-1]]
        values: dict[int | str, list[list[float]]] = {v: [] for v in self.subpar_counts}
        for problem, runs in itertools.groupby(sorted(first.keys() & second.keys()), key=lambda run: run[0]):
            if self.beyond_theorems[problem] or not only_beyond_theorems:
                both = list(runs)
                means = [(first, measure), (second, measure), (second, relative_to or measure)]
                values[problem[-1]].append([float(np.mean([of[run][what] for run in both])) for of, what in means])
        if len(values) > 1 and all(values.values()):
            values["all"] = [row for rows in values.values() for row in rows]
        estimates = {place: _relative(rows, alone=len(pair) == 1) for place, rows in values.items()}
        found = {place: estimate for place, estimate in estimates.items() if estimate is not None}
        if len(found) < len(estimates):
            found.pop("all", None)
        return found


def _relative(values: list[list[float]], *, alone: bool) -> DifferenceEstimate | None:
    """The mean of a − b over b's reference, or of a over it if a stands alone; None where there is nothing to measure.

    Values are a, b and the reference, by problem.
    """
    a, b, reference = np.array(values).reshape(-1, 3).T
    if not b.any():
        return None
    relative = ratio_terms(a if alone else a - b, reference)
    error = float(relative.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    return DifferenceEstimate(float(relative.mean()), error, len(values) - 1, len(values))


def _tests(claim: Claim, runs: _Runs) -> Iterator[Test]:
    """The tests of a claim that the records can give."""
    for pair in claim.pairs:
        found = runs.compare(pair, claim.measure, claim.relative_to, claim.only_beyond_theorems)
        for place, estimate in found.items():
            if claim.is_about(place):
                case = f"{' / '.join(pair)}, {'all v' if place == 'all' else f'v = {place}'}"
                yield case, _statement(claim, pair, estimate), estimate


def _statement(claim: Claim, pair: tuple[str, ...], estimate: DifferenceEstimate) -> str:
    if len(pair) == 1:
        return f"{claim.measure} are {claim.percent(estimate.difference)} of {claim.relative_to} of {pair[0]}"
    words = f"{pair[0]} is {_more(estimate)} {pair[1]} in {claim.measure}"
    return f"{words}, relative to {claim.relative_to}" if claim.relative_to else words


def _decide(claim: Claim, tests: Sequence[Test]) -> Iterator[ClaimFinding]:
    """The verdicts on the tests of one claim, by Holm's rule over them."""
    rule = RULES[claim.holds]
    one_sided = [rule.p_values(estimate) for *_, estimate in tests]
    adjusted = holm([min(1.0, 2 * min(p_values)) for p_values in one_sided])
    for (case, statement, estimate), (p_holds, p_fails), p_value in zip(tests, one_sided, adjusted, strict=True):
        verdict: Verdict = "undecided"
        if p_value <= 1 - LEVEL:
            verdict, where = ("holds", rule.holds) if p_holds < p_fails else ("does not hold", rule.fails)
            reason = f"the interval is {where}"
        elif estimate.freedom < 1:
            reason = "too few problems for an interval"
        elif 2 * min(p_holds, p_fails) <= 1 - LEVEL:
            reason = "the interval alone would decide, but many comparisons are made"
        else:
            reason = f"the interval is neither {rule.holds} nor {rule.fails}"
        numbers = (estimate.difference, *estimate.interval(), estimate.problems, p_value)
        measure = f"{claim.measure}, relative to {claim.relative_to}" if claim.relative_to else claim.measure
        yield ClaimFinding(claim, case, measure, *numbers, verdict, f"{statement}; {reason}")


def _more(estimate: DifferenceEstimate) -> str:
    """A relative difference in words: "3.2 % below"."""
    return f"{abs(100 * estimate.difference):.1f} % {'above' if estimate.difference > 0 else 'below'}"
