"""The numbers behind the verdicts on the paper's claims, and what is said where data is missing."""

from __future__ import annotations

import csv
import io
import math

import numpy as np
import pyarrow as pa
import pytest
from made_evaluation import LABELS, PROBLEMS, about, both, evaluation, row, table
from scipy import stats

from posse.experiments.paper.claims import RULE, holm, judge, small_form, to_csv, to_text
from posse.experiments.records import Records


class TestNumbers:
    """One comparison worked out by hand."""

    # The ratio of Ind-TS's mean of 18 to RobustAgg's mean of 20 is 0.9: −10 %. Ind-TS − 0.9 RobustAgg = 0, −2, 2, with
    # standard deviation 2 and standard error 2/√3; relative to 20, 0.1/√3. Student's quantile at 97.5 %, ν = 2: 4.3027,
    # half width 0.24842. t = −√3, and for ν = 2 the two-sided p is 1 − |t|/√(2 + t²) = 1 − √3/√5.
    pairs = ((9.0, 10.0), (16.0, 20.0), (29.0, 30.0))

    def rows(self, **other):
        rows = []
        for problem, (ind_ts, robustagg) in enumerate(self.pairs):
            rows += [row("Ind-TS", 5, problem, ind_ts, **other), row("RobustAgg(0.15)", 5, problem, robustagg, **other)]
        return rows

    def check(self, records):
        (finding,) = about(records, "ind-ts-beats-robustagg")
        assert finding.difference == pytest.approx(-0.1)
        assert (finding.low, finding.high) == pytest.approx((-0.34842, 0.14842), abs=1e-5)
        assert finding.p_value == pytest.approx(1 - math.sqrt(3 / 5))
        assert (finding.verdict, finding.problems) == ("undecided", 3)
        assert finding.explanation == (
            "Ind-TS is 10.0 % below RobustAgg in final regret; the interval is neither below 0 nor above 0"
        )

    def test_by_hand(self):
        self.check(table(self.rows()))

    def test_replications_of_a_problem_are_averaged_first(self):
        """Ind-TS twice as far from RobustAgg in one replication, equal in the other: still three units."""
        rows = []
        for problem, (ind_ts, robustagg) in enumerate(self.pairs):
            for replication, value in enumerate((2 * ind_ts - robustagg, robustagg)):
                rows.append(row("Ind-TS", 5, problem, value, replication=replication))
                rows.append(row("RobustAgg(0.15)", 5, problem, robustagg, replication=replication))
        self.check(table(rows))

    def test_order_of_rows_does_not_matter(self):
        self.check(table(self.rows()[::-1]))

    def test_other_studies_and_other_policies_are_not_looked_at(self):
        rows = [*self.rows(), row("Naive-Agg", 5, 0, 1.0), row("Ind-TS", 5, 9, 1.0, study="players")]
        self.check(table(rows))

    def test_runs_without_a_partner_are_not_used(self):
        rows = [*self.rows(), row("Ind-TS", 5, 3, 500.0), row("RobustAgg(0.15)", 5, 0, 500.0, replication=1)]
        self.check(table(rows))

    def test_runs_of_another_seed_are_not_partners(self):
        rows = [*self.rows(), row("Ind-TS", 5, 4, 500.0, seed="1"), row("RobustAgg(0.15)", 5, 4, 5.0, seed="2")]
        self.check(table(rows))

    def test_identical_rows_count_once_and_contradicting_ones_are_an_error(self):
        self.check(table(self.rows() + self.rows()))
        with pytest.raises(ValueError, match="two rows of Ind-TS on problem 0 with 5 subpar arms, replication 0"):
            judge(table([*self.rows(), row("Ind-TS", 5, 0, 8.0)]))

    def test_one_problem_gives_no_interval(self):
        (finding,) = about(table(self.rows()[:2]), "ind-ts-beats-robustagg")
        assert (finding.low, finding.high) == (-math.inf, math.inf)
        assert (finding.verdict, finding.p_value, finding.problems) == ("undecided", 1.0, 1)
        assert finding.explanation.endswith("too few problems for an interval")


class TestAgainstScipy:
    random = np.random.default_rng(5)
    first, second = random.normal(104, 6, 12), random.normal(100, 3, 12)
    ratio = first.mean() / second.mean()
    terms = ratio - 1 + (first - ratio * second) / second.mean()  # the delta method

    def records(self, a, b, v=0):
        rows = []
        for problem, (x, y) in enumerate(zip(self.first, self.second, strict=True)):
            rows += [row(LABELS[a], v, problem, x), row(LABELS[b], v, problem, y)]
        return table(rows)

    def test_lower(self):
        (finding,) = about(self.records("Ind-TS", "RobustAgg", 5), "ind-ts-beats-robustagg")
        expected = stats.ttest_1samp(self.terms, 0)
        assert finding.p_value == pytest.approx(expected.pvalue)
        assert (finding.low, finding.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))

    def test_on_par(self):
        (finding,) = about(self.records("RobustAgg-TS-V", "RobustAgg-TS"), "variant-on-par")
        within = max(
            stats.ttest_1samp(self.terms, 0.05, alternative="less").pvalue,
            stats.ttest_1samp(self.terms, -0.05, alternative="greater").pvalue,
        )
        outside = min(
            stats.ttest_1samp(self.terms, 0.05, alternative="greater").pvalue,
            stats.ttest_1samp(self.terms, -0.05, alternative="less").pvalue,
        )
        assert finding.p_value == pytest.approx(min(1, 2 * within, 2 * outside))


class TestHolm:
    def test_by_hand(self):
        # Sorted: 0.005·4 = 0.02; 0.01·3 = 0.03; 0.03·2 = 0.06; 0.04·1 = 0.04, raised to the 0.06 before it.
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])

    def test_edges(self):
        assert holm([]) == []
        assert holm([0.2]) == [0.2]
        assert holm([0.7, 0.6]) == [1.0, 1.0]

    def test_it_can_overrule_the_interval(self):
        # Twice the same three differences from 10: −2 − s, −2, −2 + s, with s chosen for t = −5.5.
        # For each v, ν = 2: p = 1 − 5.5/√(2 + 5.5²) = 0.0315. All v, ν = 5: standard deviation s·√(4/5), p = 0.0003.
        # Holm: 0.0003·3 holds; 0.0315·2 = 0.063, undecided at both v although each interval is below 0.
        s = 2 * math.sqrt(3) / 5.5
        rows = []
        for v in (0, 1):
            for problem, difference in enumerate((-2 - s, -2, -2 + s)):
                rows += [row("RobustAgg(0.15)", v, problem, 10 + difference), row("Ind-UCB", v, problem, 10.0)]
        at_0, at_1, overall = about(table(rows), "robustagg-beats-ind-ucb-elsewhere")
        for finding in (at_0, at_1):
            assert finding.high < 0
            assert finding.p_value == pytest.approx(2 * (1 - 5.5 / math.sqrt(2 + 5.5**2)))
            assert finding.verdict == "undecided"
            assert finding.explanation.endswith("the interval alone would decide, but many comparisons are made")
        assert overall.verdict == "holds"
        assert overall.problems == 6
        # Negative control: one v alone is one test, and decides.
        (alone,) = about(table([r for r in rows if r["n_subpar"] == 0]), "robustagg-beats-ind-ucb-elsewhere")
        assert alone.verdict == "holds"
        assert alone.p_value == pytest.approx(at_0.p_value / 2)

    def test_families_are_claims(self):
        """More tests of one claim do not make another claim stricter."""
        few, many = evaluation(counts=(5,)), evaluation(counts=(4, 5, 6, 7))
        (a,), (b,) = (about(records, "ind-ts-beats-robustagg") for records in (few, many))
        assert a == b


class TestMissingData:
    def claims(self, **kept):
        """What there are findings on, where the paper speaks of it or elsewhere."""
        return {finding.claim.id.removesuffix("-elsewhere") for finding in judge(evaluation(**kept))}

    def test_nothing(self):
        assert judge(table([])) == []
        assert judge(evaluation(study="players")) == []
        assert to_text([]) == "No claim of the paper can be judged from these records."

    def test_without_the_variant(self):
        kept = tuple(name for name in LABELS if name != "RobustAgg-TS-V")
        assert self.claims() - self.claims(algorithms=kept) == {"variant-on-par"}

    def test_only_the_ucb_kind(self):
        kept = self.claims(algorithms=("RobustAgg", "Ind-UCB"))
        assert kept == {
            "robustagg-beats-ind-ucb",
            "sharing-saves-on-subpar",
            "sharing-pulls-subpar-less",
            "sharing-alike-on-near-optimal",
            "subpar-pulled-rarely",
            "v9-sharing-wins",
        }

    def test_without_0_and_9(self):
        missing = {"v9-sharing-wins", "v0-does-not-hurt", "ts-gains-on-near-optimal"}
        assert self.claims() - self.claims(counts=(1, 8)) == missing

    def test_only_9(self):
        """No near-optimal arms."""
        kept = self.claims(counts=(9,))
        assert kept == {
            "robustagg-beats-ind-ucb",
            "ind-ts-beats-robustagg",
            "robustagg-ts-superior",
            "sharing-saves-on-subpar",
            "sharing-pulls-subpar-less",
            "subpar-pulled-rarely",
            "v9-sharing-wins",
            "variant-on-par",
            "transfer-at-5-epsilon",
        }
        assert not any("all v" in finding.case for finding in judge(evaluation(counts=(9,))))

    def test_all_v_is_left_out_where_an_algorithm_misses_one(self):
        kept = [(policy, v) != ("Ind-UCB", 8) for policy, v in evaluation().rows("policy", "n_subpar")]
        cases = [finding.case for finding in judge(evaluation().keep(kept))]
        assert "RobustAgg / Ind-UCB, v = 5" in cases
        assert "RobustAgg / Ind-UCB, v = 8" not in cases
        assert "RobustAgg / Ind-UCB, all v" not in cases
        assert "RobustAgg-TS / Ind-TS, all v" in cases

    def test_a_kind_of_arm_that_does_not_exist_is_left_out(self):
        findings = judge(evaluation())
        at = {(finding.claim.id.removesuffix("-elsewhere"), finding.case.rsplit(", ")[-1]) for finding in findings}
        assert ("sharing-saves-on-subpar", "v = 0") not in at
        assert ("sharing-saves-on-subpar", "v = 9") in at
        assert ("ts-pulls-near-optimal-less", "v = 9") not in at
        assert ("ts-pulls-near-optimal-less", "v = 0") in at

    def test_transfer_is_judged_only_where_the_theorem_is_silent(self):
        """With ε = 0.05 the arm with a gap of 0.8 is in I_10ε."""
        assert "transfer-at-5-epsilon" not in self.claims(epsilon=0.05)
        assert "sharing-saves-on-subpar" in self.claims(epsilon=0.05)
        large, small = evaluation(counts=(5,)), evaluation(counts=(5,), epsilon=0.05)
        (finding,) = about(Records(pa.concat_tables([pa.table(large), pa.table(small)])), "transfer-at-5-epsilon")
        assert finding.problems == PROBLEMS


class TestShown:
    findings = tuple(judge(evaluation(both("final", 0.8, "RobustAgg"))))

    def test_csv_has_everything(self):
        rows = list(csv.DictReader(io.StringIO(to_csv(self.findings))))
        assert len(rows) == len(self.findings)
        for shown, finding in zip(rows, self.findings, strict=True):
            assert shown["claim"] == finding.claim.id
            assert shown["text"] == finding.claim.text
            assert shown["source"] == finding.claim.source
            assert float(shown["difference"]) == finding.difference
            assert (float(shown["low"]), float(shown["high"])) == (finding.low, finding.high)
            assert shown["verdict"] == finding.verdict
            assert shown["explanation"] == finding.explanation

    def test_text_fits_counts_and_names_what_does_not_hold(self):
        levels = both("final", 0.8, "RobustAgg") | {("RobustAgg", "final", 9): 1.2}
        lines = to_text(judge(evaluation(levels))).splitlines()
        assert max(map(len, lines)) <= 110
        start = lines.index("RobustAgg has less regret than its counterpart, Ind-UCB. (Section 7, Figure 1 left)")
        assert lines[start + 1] == "  holds in 2 of 2 cases: −20.0 %"
        assert lines[start + 2] == "The same at other v. (our extension)"
        assert lines[start + 3] == "  holds in 3 of 4 cases, does not hold in 1: −20.0 % to +20.0 %"
        assert lines[start + 4].startswith("    not: RobustAgg / Ind-UCB, v = 9, +20.0 % [+18.9 %, +21.1 %]")
        assert lines[start + 5] == ""
        alone = to_text(judge(evaluation(levels, counts=(9,))))
        assert alone.startswith("At other v: RobustAgg has less regret than its counterpart, Ind-UCB. (our extension)")

    def test_a_small_form_says_so_and_the_full_one_does_not(self):
        """The paper has 50,000 rounds and 30 problems for each v."""
        small = small_form(evaluation())
        assert "10 rounds and 8 problems" in small
        assert "50,000 and 30" in small
        assert "mean little" in small
        assert " ".join(to_text(self.findings, small).split()).startswith(small)
        full = [row("Ind-TS", v, problem, horizon=50_000) for v in (8, 5) for problem in range(30)]
        assert small_form(table(full)) == ""
        assert "29 problems" in small_form(table(full[:-1]))
        assert "49,999 rounds" in small_form(table([one | {"horizon": 49_999} for one in full]))
        assert small_form(evaluation(study="players")) == ""

    def test_text_states_the_rule(self):
        assert " ".join(to_text(self.findings).split()).endswith(" ".join(RULE.split()))
        assert "Holm's rule at the 5 % level over all tests of one claim" in RULE

    def test_text_fits_with_infinite_and_large_intervals(self):
        levels = both("final", 400.0, "RobustAgg-TS", "RobustAgg-TS-V", "Ind-TS")
        wide = judge(evaluation(levels, wobble=0.9))
        single = judge(evaluation().keep([r % PROBLEMS == 0 for r in range(200)]))
        for findings in (wide, single):
            assert findings
            assert max(map(len, to_text(findings).splitlines())) <= 110
