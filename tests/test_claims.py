"""The claims table on constructed records with a known verdict."""

from __future__ import annotations

import math

import numpy as np
import pytest
from made_evaluation import COUNTS, LABELS, about, both, evaluation, row, table

from posse.experiments.paper.claims import judge

FINAL_AT_9 = {("RobustAgg-TS", "final", 9): 0.2, ("RobustAgg", "final", 9): 0.2}
FINAL_AT_8 = {("RobustAgg-TS", "final", 8): 0.2, ("RobustAgg", "final", 8): 0.2}
SHARING = ("RobustAgg-TS", "RobustAgg")

UCB_LOSES_NEAR = both("near regret", 1.5, "RobustAgg", "Ind-UCB")
UCB_LOSES_SUBPAR = both("subpar regret", 1.5, "RobustAgg", "Ind-UCB")
NEAR_COSTS_MORE = both("near regret", 1.5, *LABELS)

# claim, number of findings, levels, verdict on every one of them
VERDICTS = [
    ("robustagg-beats-ind-ucb", 2, both("final", 0.8, "RobustAgg"), "holds"),
    ("robustagg-beats-ind-ucb", 2, both("final", 1.2, "RobustAgg"), "does not hold"),
    ("robustagg-beats-ind-ucb", 2, {}, "undecided"),
    ("ind-ts-beats-robustagg", 1, both("final", 0.8, "Ind-TS"), "holds"),
    ("ind-ts-beats-robustagg", 1, both("final", 1.2, "Ind-TS"), "does not hold"),
    ("ind-ts-beats-robustagg", 1, {}, "undecided"),
    ("robustagg-ts-superior", 9, both("final", 0.5, "RobustAgg-TS"), "holds"),
    ("robustagg-ts-superior", 9, both("final", 1.5, "RobustAgg-TS"), "does not hold"),
    ("robustagg-ts-superior", 9, {}, "undecided"),
    ("ts-pulls-near-optimal-less", 4, both("near pulls", 0.7, "RobustAgg-TS", "Ind-TS"), "holds"),
    ("ts-pulls-near-optimal-less", 4, both("near pulls", 1.3, "RobustAgg-TS", "Ind-TS"), "does not hold"),
    ("ts-pulls-near-optimal-less", 4, {}, "undecided"),
    ("ts-loses-less-on-near-optimal", 4, UCB_LOSES_NEAR, "holds"),
    ("ts-loses-less-on-near-optimal", 4, both("near regret", 1.3, "RobustAgg-TS", "Ind-TS"), "does not hold"),
    ("ts-loses-less-on-near-optimal", 4, {}, "undecided"),
    ("ts-gains-on-near-optimal", 4, UCB_LOSES_NEAR, "holds"),
    ("ts-gains-on-near-optimal", 4, UCB_LOSES_SUBPAR, "does not hold"),
    ("ts-gains-on-near-optimal", 4, NEAR_COSTS_MORE, "undecided"),
    ("sharing-alike-on-near-optimal", 4, {}, "holds"),
    ("sharing-alike-on-near-optimal", 4, both("near regret", 1.2, *SHARING), "does not hold"),
    ("sharing-alike-on-near-optimal", 4, both("near regret", 0.8, *SHARING), "does not hold"),
    ("sharing-alike-on-near-optimal", 4, both("near regret", 1.05, *SHARING), "undecided"),
    ("sharing-pulls-subpar-less", 4, both("subpar pulls", 0.3, *SHARING), "holds"),
    ("sharing-pulls-subpar-less", 4, both("subpar pulls", 1.3, *SHARING), "does not hold"),
    ("sharing-pulls-subpar-less", 4, {}, "undecided"),
    ("subpar-pulled-rarely", 8, both("subpar pulls", 0.005, *LABELS), "holds"),
    ("subpar-pulled-rarely", 8, both("subpar pulls", 0.02, *LABELS), "does not hold"),
    ("subpar-pulled-rarely", 8, both("subpar pulls", 1 / 99, *LABELS), "undecided"),
    ("sharing-saves-on-subpar", 4, both("subpar regret", 0.3, *SHARING), "holds"),
    ("sharing-saves-on-subpar", 4, both("subpar regret", 1.3, *SHARING), "does not hold"),
    ("sharing-saves-on-subpar", 4, {}, "undecided"),
    ("transfer-at-5-epsilon", 4, both("subpar pulls", 0.3, "RobustAgg-TS"), "holds"),
    ("transfer-at-5-epsilon", 4, both("subpar pulls", 1.3, "RobustAgg-TS"), "does not hold"),
    ("transfer-at-5-epsilon", 4, {}, "undecided"),
    ("v9-sharing-wins", 4, FINAL_AT_9, "holds"),
    ("v9-sharing-wins", 4, both("final", 1.3, *SHARING), "does not hold"),
    ("v9-sharing-wins", 4, FINAL_AT_8, "undecided"),
    ("v0-does-not-hurt", 1, {}, "holds"),
    ("v0-does-not-hurt", 1, both("final", 0.5, "RobustAgg-TS"), "holds"),
    ("v0-does-not-hurt", 1, both("final", 1.2, "RobustAgg-TS"), "does not hold"),
    ("v0-does-not-hurt", 1, both("final", 1.05, "RobustAgg-TS"), "undecided"),
    ("variant-on-par", 5, {}, "holds"),
    ("variant-on-par", 5, both("final", 1.2, "RobustAgg-TS-V"), "does not hold"),
    ("variant-on-par", 5, both("final", 0.8, "RobustAgg-TS-V"), "does not hold"),
    ("variant-on-par", 5, both("final", 0.95, "RobustAgg-TS-V"), "undecided"),
]


@pytest.mark.parametrize(("claim", "count", "levels", "verdict"), VERDICTS)
def test_a_constructed_evaluation_has_its_known_verdict(claim, count, levels, verdict):
    findings = about(evaluation(levels), claim)
    assert len(findings) == count
    assert {finding.verdict for finding in findings} == {verdict}


def test_every_claim_is_tested_all_three_ways():
    claims = {finding.claim.id for finding in judge(evaluation(NEAR_COSTS_MORE)) if not finding.claim.extension}
    for claim in claims:
        assert {verdict for id_, _, _, verdict in VERDICTS if id_ == claim} == {"holds", "does not hold", "undecided"}
    assert claims == {id_ for id_, *_ in VERDICTS}


def test_findings_differ_by_case():
    """The claim can hold at one v and not at another."""
    records = evaluation({("RobustAgg", "final", 0): 1.2, ("RobustAgg", "final", 8): 0.8})
    said, beyond = (
        {finding.case: finding.verdict for finding in about(records, claim)}
        for claim in ("robustagg-beats-ind-ucb", "robustagg-beats-ind-ucb-elsewhere")
    )
    assert said == {"RobustAgg / Ind-UCB, v = 5": "undecided", "RobustAgg / Ind-UCB, v = 8": "holds"}
    assert beyond == {
        "RobustAgg / Ind-UCB, v = 0": "does not hold",
        "RobustAgg / Ind-UCB, v = 1": "undecided",
        "RobustAgg / Ind-UCB, v = 9": "undecided",
        "RobustAgg / Ind-UCB, all v": "undecided",
    }


def test_what_the_paper_does_not_say_is_an_extension():
    """Section 7 speaks of v = 8 and v = 5, the abstract of all problems, and Appendix E of v = 9 and v = 0."""
    spoken = {"v = 8", "v = 5"}
    elsewhere = {"v = 0", "v = 9", "v = 1", "all v"}
    at = {}
    for finding in judge(evaluation(NEAR_COSTS_MORE)):
        at.setdefault(finding.claim, set()).add(finding.case.rsplit(", ")[-1])
        assert finding.claim.extension == (finding.claim.source == "our extension")
    for claim, places in at.items():
        if claim.extension:
            assert places <= elsewhere | ({"v = 8"} if "ind-ts" in claim.id else set())
        elif claim.source.startswith("Section 7, Figure 1"):
            assert places <= spoken
    named = {claim.id: places for claim, places in at.items()}
    assert named["robustagg-ts-superior"] == {"v = 8", "v = 5", "all v"}
    assert named["v0-does-not-hurt"] == {"v = 0"}
    assert named["v9-sharing-wins"] == {"v = 9"}


def test_the_main_reason_is_told_in_shares_of_the_regret():
    """TS 60 + 50, UCB 100 + 30: 40 saved on near-optimal arms, 20 lost on subpar ones, 60 of 130 apart."""
    rows = []
    for problem in range(3):
        rows += [row(LABELS["RobustAgg-TS"], 8, problem, 110.0, regret=(0.0, 60.0, 50.0))]
        rows += [row(LABELS["RobustAgg"], 8, problem, 130.0, regret=(0.0, 100.0, 30.0))]
    (finding,) = about(table(rows), "ts-gains-on-near-optimal")
    assert finding.difference == pytest.approx(-60 / 130)
    assert finding.measure.endswith("relative to final regret")
    none_near = [row | {"n_subpar": 9, "regret_by_kind": [0.0, 0.0, 50.0]} for row in rows]
    assert about(table(none_near), "ts-gains-on-near-optimal-elsewhere") == []


def test_an_algorithm_alone_is_judged_by_its_share_of_pulls():
    rows = [row("Ind-TS", 8, problem, pulls=(900, 100 - few, few)) for problem, few in enumerate((1, 4, 7))]
    (finding,) = about(table(rows), "subpar-pulled-rarely")
    assert (finding.case, finding.verdict) == ("Ind-TS, v = 8", "undecided")
    assert finding.difference == pytest.approx(0.004)
    assert finding.claim.percent(finding.difference) == "0.4 %"
    assert finding.explanation.startswith("pulls of subpar arms are 0.4 % of all pulls of Ind-TS")


LIMITS = {"lower": (-math.inf, 0), "on par": (-0.05, 0.05), "not worse": (-math.inf, 0.05), "rare": (-math.inf, 0.01)}


@pytest.mark.parametrize("seed", range(4))
def test_a_verdict_never_contradicts_its_interval(seed):
    """Holm's rule makes verdicts rarer, and changes none."""
    random = np.random.default_rng(seed)
    measures = ("final", "near pulls", "near regret", "subpar pulls", "subpar regret")
    levels = {(name, what, v): random.normal(1, 0.04) for name in LABELS for what in measures for v in COUNTS}
    seen = set()
    for finding in judge(evaluation(levels, wobble=0.03)):
        bottom, top = LIMITS[finding.claim.holds]
        holds = bottom <= finding.low and finding.high <= top
        fails = finding.low > top or finding.high < bottom
        allowed = {"undecided"} | ({"holds"} if holds else set()) | ({"does not hold"} if fails else set())
        assert finding.verdict in allowed, finding
        seen.add(finding.verdict)
    assert len(seen) == 3, "the numbers do not put the rule to the test"


def test_two_policies_of_one_name_are_an_error():
    rows = [row("Ind-TS", 5, 0), row("Ind-TS(c2=2)", 5, 0)]
    with pytest.raises(ValueError, match=r"'Ind-TS', 'Ind-TS\(c2=2\)' are all Ind-TS"):
        judge(table(rows))
