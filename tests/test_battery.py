"""The battery: its families, and what its report says of runs."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import re

import numpy as np
import pyarrow as pa
import pytest
from test_report import check_self_contained

import posse
from posse.cli import main
from posse.experiments import Records
from posse.experiments.battery.report import battery_figure, to_text, write_battery
from posse.experiments.battery.score import paper_mean, ratio, score
from posse.experiments.records import SCHEMA
from posse.experiments.spec.shipped_specs import battery_spec
from posse.experiments.spec.study import BLIND, KNOWS_GROUPS, PolicyChoice, Study

# Families ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spec():
    return battery_spec()


class TestFamilies:
    def test_each_is_in_one_half_and_large_enough(self, spec):
        for study in spec.studies:
            (problems,) = study.problems
            assert len({"A", "B"} & set(study.tags)) == 1, study.name
            assert problems.count >= 30, study.name
            assert problems.count * study.replications >= 100, study.name
            assert len(study.horizons) == 1, study.name

    def test_all_kinds_are_there(self, spec):
        studies = spec.studies
        assert sum("paper" in study.tags for study in studies) == 10
        assert {problems.players for study in studies for problems in study.problems} >= {2, 5, 20, 100}
        assert {problems.arms for study in studies for problems in study.problems} >= {2, 10, 50}
        assert {study.horizons[0] for study in studies} >= {1_000, 1_000_000}
        assert all(study.horizons == (1_000_000,) for study in studies if "long" in study.tags)

    def test_those_who_know_groups_know_groups_of_ten_or_more(self, spec):
        known = [study for study in spec.studies if study.knows_groups]
        assert len(known) >= 8
        for study in known:
            (problem,) = study.problems[0].part(0, 1).make(0)
            assert min(part.players for part in problem.by_group()) >= 10, study.name
            assert len(problem.by_group()) > 1, study.name

    def test_attributes_explain_what_the_tags_say_in_both_halves(self, spec):
        known = [study for study in spec.studies if study.blind]
        assert len(known) >= 16
        assert known == [study for study in spec.studies if study.problems[0].parameters.get("attributes")]
        assert abs(sum("A" in study.tags for study in known) - len(known) / 2) <= 1
        found = set()
        for study in known:
            parameters = study.problems[0].parameters
            for tag in study.tags:
                if tag.startswith("explained-"):
                    assert tag == f"explained-{100 * parameters['explained']:g}", study.name
                    assert [parameters["interactions"], parameters["missing"], parameters["rare"]] == [None] * 3
                    found.add((tag, study.tags[0]))
        assert found == {(f"explained-{share}", half) for share in (90, 50, 0) for half in "AB"}

    def test_the_base_case_of_attributes_is_as_it_is_described(self, spec):
        (study,) = (study for study in spec.studies if study.name == "attributes-90")
        problems = study.problems[0].make(0)
        assert (problems[0].means.shape, study.horizons) == ((60, 5), (1000,))
        deviation = math.sqrt(np.mean([problem.means.var(axis=0) for problem in problems]))
        assert deviation == pytest.approx(0.08, abs=0.002)

    def test_horizons_are_told_wrong_by_ten_both_ways_in_both_halves(self, spec):
        wrong = {(study.told, tag) for study in spec.studies for tag in study.tags if study.told != 1}
        assert wrong == {(0.1, "A"), (0.1, "B"), (10, "A"), (10, "B")}

    def test_each_has_every_policy_once(self, spec):
        for study in spec.studies:
            names = [choice.policy.__name__ for choice in study.policies if "forget" not in dict(choice.constants)]
            told = {"LinTS", "MixedTS", "TreeTS"}  # where players have attributes, the first two in two forms
            assert len(set(names)) == len(names) - 2 * study.blind
            assert [names.count(name) for name in sorted(told)] == [2 * study.blind, 2 * study.blind, study.blind]
            assert set(posse.policies.__all__) - set(names) - (set() if study.blind else told) == {
                "Law",
                "Look",
                "Policy",
                "Refresh",
                "RobustPosseTS",  # examples/studies/guarantee.py measures what its guarantee costs
                "Statistic",
                "all_policies",
                "several",
            }

    def test_some_may_be_picked_by_name(self):
        spec = battery_spec(families=["late", "paper-3"], seed=9)
        assert [study.name for study in spec.studies] == ["late", "paper-3"]
        assert spec.seed == 9
        with pytest.raises(ValueError, match=r"^family='paper-10'.*expected one of paper-0, paper-1"):
            battery_spec(families=["paper-10"])
        with pytest.raises(TypeError, match=r"^families='late', but expected a list of names"):
            battery_spec(families="late")

    def test_quick_makes_all_of_them_small(self, spec):
        quick = battery_spec(quick=True)
        assert [study.name for study in quick.studies] == [study.name for study in spec.studies]
        assert max(study.horizons[0] for study in quick.studies) == 3000
        assert {study.replications for study in quick.studies} == {1}
        assert {study.problems[0].count for study in quick.studies} == {8}

    def test_families_of_ones_own(self, tmp_path):
        (tmp_path / "own.toml").write_text(OWN, encoding="utf-8")
        assert [study.tags for study in battery_spec(tmp_path / "own.toml").studies] == [("B", "helps")]
        (tmp_path / "grid.toml").write_text(OWN.replace("horizon = 50", "horizon = [50, 60]"), encoding="utf-8")
        with pytest.raises(ValueError, match="family 'mine' has several settings"):
            battery_spec(tmp_path / "grid.toml")


OWN = """
title = "Mine"
[[study]]
name = "mine"
tags = ["B", "helps"]
horizon = 50
replications = 2
problems = { family = "structured", spread = 0.02, players = 3, arms = 3, count = 4 }
policies = [{ name = "PosseTS" }, { name = "HierTS", spread = "problem" }, { name = ["IndTS", "BetaTS"] }]
"""


# Scores and bars ---------------------------------------------------------------------------------------------------


def rows(study, policy, regrets, locks=0):
    """Records of a policy with these regrets, [problem, replication]."""
    shared = dict.fromkeys(("rewards", "schedule"), "") | {"players": 2, "arms": 2, "horizon": 10, "seed": "0"}
    return [
        {
            "study": study,
            "policy": policy,
            "problem": b,
            "replication": r,
            "final_regret": x,
            "lock_ins": locks,
            **shared,
        }
        for b, of_problem in enumerate(regrets)
        for r, x in enumerate(of_problem)
    ]


def families(tags, **policies):
    labels = {"PosseTS": "own", "Ind-TS": "alone", "HierTS(0.1)": "hier", "RobustAgg-TS(0.15)": "robust"}
    labels |= {KNOWS_GROUPS: "knows", BLIND: "blind"}
    found = [row for label, name in labels.items() if name in policies for row in rows("f", label, *policies[name])]
    study = Study("f", (), (), (10,), (), tags=tags)
    return score(
        Records(pa.Table.from_pylist(found, schema=pa.schema(SCHEMA))), [study, dataclasses.replace(study, name="g")]
    )


HARD = np.arange(1, 41)[:, None] * np.ones((40, 3))


class TestScores:
    def test_means_tails_and_lock_ins_of_every_policy(self):
        (family,) = families(("A",), own=(HARD,), alone=(2 * HARD, 1))
        own, alone = family.scores
        assert (own.policy, alone.policy) == ("PosseTS", "Ind-TS")
        assert own.mean == 20.5
        assert own.tail == pytest.approx(np.quantile(HARD, 0.99))
        assert own.worst == 40
        assert own.error == pytest.approx(np.arange(1, 41).std(ddof=1) / math.sqrt(40))
        assert (own.lock_ins, alone.lock_ins) == (0, 1)
        assert (family.problems, family.runs, family.half) == (40, 120, "A")

    def test_what_makes_a_problem_hard_cancels(self):
        (family,) = families((), own=(HARD,), alone=(2 * HARD,))
        assert family.to_alone.value == family.to_alone.low == family.to_alone.high == 0.5

    def test_the_interval_holds_the_true_ratio_about_as_often_as_it_says(self):
        rng = np.random.default_rng(1)
        pairs = [(rng.gamma(9, 1.2, (34, 3)), rng.gamma(9, 1, (34, 3))) for _ in range(150)]
        found = [ratio(*pair) for pair in pairs]
        assert 0.86 < np.mean([each.low <= 1.2 <= each.high for each in found]) <= 1
        assert np.mean([each.low <= 1.0 <= each.high for each in found]) < 0.2

    def test_a_policy_says_itself_whether_it_shares(self):
        """Also under a label of its own, and whatever its name begins with."""
        alone = PolicyChoice(posse.IndTSV, (), "Both")
        sharing = PolicyChoice(posse.NaiveAgg, (), "Ind-ustrious")
        found = [row for label in ("PosseTS", "Both", "Ind-ustrious", "Ind-UCB") for row in rows("f", label, HARD)]
        study = Study("f", (), (alone, sharing), (10,), ())
        (family,) = score(Records(pa.Table.from_pylist(found, schema=pa.schema(SCHEMA))), [study])
        assert {each.policy for each in family.scores if each.alone} == {"Both", "Ind-UCB"}

    def test_two_policies_of_one_algorithm_are_both_there(self):
        """The candidate is the one without other constants, however good or bad the other one is."""
        regrets = {"PosseTS": 1, "PosseTS(forget=50)": 4, "RobustAgg-TS(0.05)": 2, "RobustAgg-TS(0.15)": 3, "Ind-TS": 5}
        found = [row for label, times in regrets.items() for row in rows("f", label, times * HARD)]
        study = Study("f", (), (), (10,), ())
        (family,) = score(Records(pa.Table.from_pylist(found, schema=pa.schema(SCHEMA))), [study])
        assert {each.policy: each.mean for each in family.scores} == {
            label: 20.5 * times for label, times in regrets.items()
        }
        assert (family.best(), family.to_other.value, family.best(alone=True)) == ("RobustAgg-TS(0.05)", 0.5, "Ind-TS")

    def test_without_the_candidate_there_is_nothing_to_judge(self):
        (family,) = families(("paper",), alone=(HARD,), hier=(HARD,))
        assert (family.to_alone, family.to_other, family.bars) == (None, None, ())


TAILS = ["99th percentile", "worst run"]


def bar_of(family, text):
    (bar,) = (bar for bar in family.bars if bar.text == text)
    return bar


class TestBars:
    def test_each_tag_asks_for_its_own(self):
        regrets = {"own": (HARD,), "alone": (3 * HARD,), "hier": (1.02 * HARD,), "robust": (10 * HARD,)}
        for tags, texts in {
            (): ["mean"],
            ("long",): ["mean", "lock-ins"],
            ("helps",): ["mean", "mean, sharing helps"],
            ("paper",): ["mean", "mean, paper's family"],
        }.items():
            (family,) = families(tags, **regrets)
            assert [bar.text for bar in family.bars] == texts + TAILS
            assert {bar.verdict for bar in family.bars} == {"won"}
            assert all(bar.sure for bar in family.bars)

    def test_the_paper_asks_for_much_less_than_robustagg_ts_and_no_more_than_the_best_other(self):
        (family,) = families(("paper",), own=(HARD,), alone=(9 * HARD,), hier=(0.9 * HARD,), robust=(5 * HARD,))
        bars = [(bar.against, bar.limit, bar.verdict) for bar in family.bars[:2]]
        assert bars == [("HierTS", 1.05, "lost"), ("RobustAgg-TS", 0.14, "lost")]

    def test_who_knows_the_groups_is_a_bar_of_its_own_and_not_the_best_other(self):
        for times, verdict in ((1.4, "won"), (1.6, "lost")):
            (family,) = families((), own=(times * HARD,), alone=(2 * HARD,), knows=(HARD,))
            assert (family.best(), family.best(alone=True)) == ("Ind-TS", "Ind-TS")
            known = next(bar for bar in family.bars if bar.rival == KNOWS_GROUPS)
            assert (known.limit, known.ratio.value, known.verdict) == (1.5, pytest.approx(times), verdict)

    @pytest.mark.parametrize(("share", "limit"), [(90, 0.65), (50, 0.9), (0, 1.03)])
    def test_attributes_must_be_worth_what_they_explain(self, share, limit):
        """Beside PosseTS that is not told them, which is not one of the other policies."""
        for times, verdict in ((limit - 0.01, "won"), (limit + 0.01, "lost")):
            (family,) = families((f"explained-{share}",), own=(times * HARD,), alone=(2 * HARD,), blind=(HARD,))
            assert family.best() == "Ind-TS"
            bar = bar_of(family, f"mean, attributes explain {share} %")
            assert (bar.against, bar.limit, bar.verdict) == (BLIND, limit, verdict)
        (family,) = families((), own=(HARD,), alone=(2 * HARD,), blind=(4 * HARD,))
        assert BLIND not in [bar.against for bar in family.bars]
        assert family.to_blind.value == 0.25
        assert "  0.25 [0.25, 0.25]  " in to_text([family])

    def test_harm_is_lost_and_doubt_is_told(self):
        (family,) = families((), own=(1.06 * HARD,), alone=(HARD,))
        assert [(bar.verdict, bar.sure) for bar in family.bars] == [("lost", True), ("won", True), ("won", True)]
        noisy = HARD * np.random.default_rng(0).choice([0.5, 1.7], (40, 1))
        (family,) = families((), own=(noisy,), alone=(HARD,))
        assert not family.bars[0].sure

    def test_a_run_far_above_the_mean_is_lost_however_good_the_mean_is(self):
        """One run of 120 is beyond the 99th percentile; three are not."""
        for count, worst, verdicts in (
            (1, 9, "won won"),
            (1, 12, "won lost"),
            (3, 5, "lost won"),
            (3, 30, "lost lost"),
        ):
            regrets = np.ones((40, 3))
            regrets[:count, 0] = worst * (120 - count) / (120 - worst * count)  # so many times the mean of all
            (family,) = families((), own=(regrets,), alone=(9 * regrets,))
            assert [bar_of(family, text).verdict for text in TAILS] == verdicts.split()
            assert bar_of(family, "worst run").ratio.value == pytest.approx(worst)

    def test_the_mean_of_the_papers_ten(self):
        found = []
        for number in range(10):
            (family,) = families(("paper",), own=((number + 1) * HARD,), robust=(100 * HARD,))
            found.append(family)
        bar = paper_mean(found)
        assert (bar.ratio.value, bar.limit, bar.verdict) == (pytest.approx(0.055), 0.085, "won")
        assert bar.ratio.low == pytest.approx(bar.ratio.high), "nothing is random in these"
        assert paper_mean(found[1:]) is None
        assert "mean of the paper's ten: at most 0.085 × RobustAgg-TS: 1 of 1 won\n" in to_text(found)

    def test_its_interval_is_as_wide_as_that_of_the_mean_of_ten_independent_ratios(self):
        rng = np.random.default_rng(2)
        found = []
        for _ in range(10):
            (family,) = families(("paper",), own=(rng.gamma(4, 0.02, (40, 3)),), robust=(np.ones((40, 3)),))
            found.append(family)
        widths = [bar.ratio.high - bar.ratio.low for family in found for bar in family.bars[1:2]]
        interval = paper_mean(found).ratio
        assert interval.low < interval.value < interval.high
        assert interval.high - interval.low == pytest.approx(np.mean(widths) / math.sqrt(10), rel=0.1)

    def test_lock_ins_are_lost_if_there_are_more_and_won_if_there_are_none(self):
        for locks, verdict in (((0, 0), "won"), ((1, 1), "won"), ((1, 0), "lost"), ((0, 1), "won")):
            (family,) = families(("long",), own=(HARD, locks[0]), alone=(HARD, locks[1]))
            assert bar_of(family, "lock-ins").verdict == verdict

    def test_no_regret_at_all_is_no_harm(self):
        (family,) = families((), own=(0 * HARD,), alone=(0 * HARD,))
        assert [bar.ratio.value for bar in family.bars] == [1.0, 1.0, 1.0]


# The report --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    base = tmp_path_factory.mktemp("battery")
    (base / "own.toml").write_text(OWN, encoding="utf-8")
    assert main(["battery", "--spec", str(base / "own.toml"), "--out", str(base / "out"), "--threads", "1"]) == 0
    return base / "out"


class TestReport:
    def test_the_page_needs_nothing_beside_it_and_says_all(self, folder):
        page = check_self_contained((folder / "battery.html").read_text(encoding="utf-8"))
        text = "".join(page.text)
        assert {"short", "picture", "families", "regret", "bars", "reproduce"} <= page.ids
        for words in ("Mine", "mine", "Beta-TS", "HierTS", "mean, sharing helps", 'name = "mine"'):
            assert words in text

    def test_tables_and_json_say_the_same(self, folder):
        (family,) = json.loads((folder / "battery.json").read_text(encoding="utf-8"))
        with (folder / "scores.csv").open(encoding="utf-8") as file:
            scores = list(csv.DictReader(file))
        assert [row["policy"] for row in scores] == [each["policy"] for each in family["scores"]]
        assert [float(row["mean"]) for row in scores] == [each["mean"] for each in family["scores"]]
        assert {row["policy"] for row in scores if row["shares_nothing"] == "1"} == {"Ind-TS", "Beta-TS"}
        with (folder / "bars.csv").open(encoding="utf-8") as file:
            assert [row["verdict"] for row in csv.DictReader(file)] == [bar["verdict"] for bar in family["bars"]]

    def test_the_numbers_are_those_of_a_plain_simulation(self, folder):
        problems = posse.generate.structured(spread=0.02, players=3, arms=3, count=4)
        result = posse.simulate(problems, posse.BetaTS(), 50, replications=2)
        (family,) = json.loads((folder / "battery.json").read_text(encoding="utf-8"))
        (found,) = (each for each in family["scores"] if each["policy"] == "Beta-TS")
        assert found["mean"] == pytest.approx(result.final_regret.mean())
        assert found["lock_ins"] == result.lock_ins().mean()

    def test_who_is_not_told_the_attributes_is_in_it(self, tmp_path, capsys):
        known = 'blind = true\nproblems = { family = "structured", attributes = { region = 3 }, arms = 3, count = 4 }'
        text = re.sub("problems = .*", known, OWN).replace('"helps"', '"explained-90"')
        (tmp_path / "own.toml").write_text(text, encoding="utf-8")
        assert main(["battery", "--spec", str(tmp_path / "own.toml"), "--out", str(tmp_path / "out")]) == 0
        assert f"mean, attributes explain 90 %: at most 0.65 × {BLIND}: " in capsys.readouterr().out
        (family,) = json.loads((tmp_path / "out" / "battery.json").read_text(encoding="utf-8"))
        assert BLIND in [each["policy"] for each in family["scores"]]
        assert "the same problems without the players" in (tmp_path / "out" / "battery.html").read_text(
            encoding="utf-8"
        )

    def test_started_again_nothing_is_computed(self, folder, capsys):
        before = sorted(path.stat().st_mtime_ns for path in (folder / "results").glob("*.parquet"))
        assert main(["battery", "--spec", str(folder.parent / "own.toml"), "--out", str(folder)]) == 0
        assert sorted(path.stat().st_mtime_ns for path in (folder / "results").glob("*.parquet")) == before
        assert re.search(r"(?m)^mine +B ", capsys.readouterr().out)

    def test_the_text_lists_what_was_lost(self):
        found = families(("A",), own=(1.3 * HARD,), alone=(HARD,))
        text = to_text(found)
        assert "f: mean: 1.30 [1.30, 1.30] × Ind-TS, limit 1.05" in text
        assert "mean: at most 1.05 × the best other: 0 of 1 won, 0 of 1 won in half A" in text
        assert "No bar is lost." in to_text(families((), own=(HARD,), alone=(HARD,)))

    def test_the_picture_has_the_candidate_where_its_ratio_is(self):
        (family,) = families((), own=(HARD,), alone=(2 * HARD,))
        other = dataclasses.replace(family, name="f2", to_alone=dataclasses.replace(family.to_alone, value=99.0))
        (axes,) = battery_figure([family, other]).axes
        dots = {line.get_gid(): line.get_xdata()[0] for line in axes.get_lines() if line.get_gid()}
        assert dots == {"PosseTS 0": 0.5, "PosseTS 1": 30.0}
        assert [label.get_text() for label in axes.get_yticklabels()] == ["f", "f2"]

    def test_nothing_to_report_is_an_error(self, tmp_path):
        with pytest.raises(ValueError, match="no families"):
            write_battery([], tmp_path, title="")
