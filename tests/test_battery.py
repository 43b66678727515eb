"""The battery: its baseline against the oracle and the exact law, its families, and what its report says of runs."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import re
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from test_report import check_self_contained

import naive
import posse
from posse import streams
from posse.cli import main
from posse.compile import bind
from posse.experiments import Records
from posse.experiments.battery.baseline import BetaBernoulliTS
from posse.experiments.battery.families import battery_spec
from posse.experiments.battery.figure import battery_figure
from posse.experiments.battery.report import to_text, write_battery
from posse.experiments.battery.score import ratio, score
from posse.experiments.records import SCHEMA
from posse.experiments.spec.study import PolicyChoice, Study
from posse.rewards import GRID, Beta
from posse.schedule import Arrivals, Concurrent, Random
from posse.simulation import trace
from posse.simulation.kernel import trial
from posse.simulation.sampling import BLOCKS, beta_draw

KEY = streams.key(7)
DRAW = bind(beta_draw)
TRIAL = bind(trial)


def words(arm, player, t, key=KEY):
    return tuple(int(word) for word in streams.block(arm * BLOCKS, player, t, streams.SAMPLE, key))


def draws(a, b, count, floor=-math.inf, arm=3):
    return np.array([DRAW(a, b, floor, words(arm, 1, t), arm, 1, t, KEY) for t in range(1, count + 1)])


# Beta-Bernoulli Thompson sampling ----------------------------------------------------------------------------------


def quantile(bits, of):
    """The normal quantile of (bits + ½) / 2^of, the upper half by symmetry."""
    if bits < 2 ** (of - 1):
        return NormalDist().inv_cdf((bits + 0.5) / 2**of)
    return -NormalDist().inv_cdf((2**of - bits - 0.5) / 2**of)


def slow_gamma(shape, normals, uniforms):
    """Marsaglia and Tsang, without the squeeze."""
    d = shape - 1 / 3
    for x, u in zip(normals, uniforms, strict=True):
        v = (1 + x / math.sqrt(9 * d)) ** 3
        if v > 0 and math.log(u) < x * x / 2 + d - d * v + d * math.log(v):
            return d * v
    raise AssertionError("eight attempts in vain")


def slow_beta(chance, a, b, arm, player, t):
    """The draw from the words as they are laid out: the first attempts at both Gammas in one block, the rest apart."""
    halves, first, second, last = chance.words(arm * BLOCKS, player, t, streams.SAMPLE)
    gammas = []
    for which, (shape, half, rest, uniform) in enumerate(
        [(a, halves >> 16, first, last >> 16), (b, halves % 2**16, second, last % 2**16)]
    ):
        start = arm * BLOCKS + 1 + which * BLOCKS // 2
        more, much_more, _, _ = chance.words(start, player, t, streams.SAMPLE)
        normals = [quantile((half * 2**32 + rest) * 2**16, 64)]
        uniforms = [(uniform * 2**48 + more * 2**16 + (much_more >> 16) + 0.5) / 2**64]
        for attempt in range(1, 8):
            w = chance.words(start + attempt, player, t, streams.SAMPLE)
            normals.append(quantile((w[0] >> 16) * 2**48 + w[1] * 2**16 + w[0] % 2**16, 64))
            uniforms.append((w[2] * 2**32 + w[3] + 0.5) / 2**64)
        gammas.append(slow_gamma(shape, normals, uniforms))
    return gammas[0] / (gammas[0] + gammas[1])


def oracle(problem, horizon, active, seed):
    """Agrawal and Goyal's algorithm for each player, one line at a time; yields {player: (arm, reward)}."""
    chance = naive.Chance(problem, Concurrent(), horizon, seed)
    M, K = problem.means.shape
    wins, losses = np.zeros((M, K)), np.zeros((M, K))
    for t in range(1, horizon + 1):
        pulled = {}
        for p in np.flatnonzero(active[t - 1]).tolist():
            theta = [slow_beta(chance, 1 + wins[p, i], 1 + losses[p, i], i, p, t) for i in range(K)]
            i = naive.argmax(theta)
            reward = chance.reward(t, p, i)
            success = chance.words(0, p, t, streams.TRIAL)[0] < reward * 2**32
            wins[p, i] += success
            losses[p, i] += not success
            pulled[p] = (i, reward)
        yield pulled


@pytest.mark.parametrize("rewards", [posse.rewards.Bernoulli(), Beta(2.0)], ids=str)
@pytest.mark.parametrize("who", [Concurrent(), Random(0.5), Arrivals()], ids=str)
def test_beta_bernoulli_ts_agrees_with_the_oracle(rewards, who):
    problem = posse.generate.uniform(players=3, arms=4, seed=2, rewards=rewards)[0]
    run = trace(problem, BetaBernoulliTS(), 60, seed=5, schedule=who)
    for t, pulled in enumerate(oracle(problem, 60, run.active, 5)):
        for player, (arm, reward) in pulled.items():
            assert run.arms[t, player] == arm, f"player {player} in round {t + 1}"
            assert run.rewards[t, player] == reward


@pytest.mark.parametrize(("a", "b"), [(1, 1), (1, 9), (40, 3), (700, 500), (1, 5000)])
def test_its_draws_have_the_beta_law(a, b):
    found = draws(float(a), float(b), 4000)
    assert stats.kstest(found, stats.beta(a, b).cdf).pvalue > 0.001
    assert stats.kstest(found, stats.beta(a * 1.1 + 0.2, b).cdf).pvalue < 0.001, "the check could not see another law"


def test_draws_of_different_arms_are_independent():
    one, other = draws(2.0, 3.0, 2000, arm=0), draws(2.0, 3.0, 2000, arm=1)
    assert abs(np.corrcoef(one, other)[0, 1]) < 4.5 / math.sqrt(2000)
    assert np.corrcoef(one, one + 0.5 * other)[0, 1] > 4.5 / math.sqrt(2000)


@pytest.mark.parametrize(
    ("a", "b", "floor"), [(1.0, 1.0, 0.5), (30.0, 70.0, 0.33), (900.0, 100.0, 0.9), (1.0, 50.0, 0.3)]
)
def test_a_floor_changes_nothing_above_it(a, b, floor):
    exact, cut = draws(a, b, 1500), draws(a, b, 1500, floor)
    assert np.array_equal(cut > floor, exact > floor)
    assert np.array_equal(cut[cut > floor], exact[exact > floor])


def test_a_reward_between_0_and_1_is_a_trial_with_that_chance():
    outcomes = [TRIAL(GRID // 4, 0, t, KEY) for t in range(1, 4001)]
    assert stats.binomtest(sum(outcomes), 4000, 0.25).pvalue > 0.001
    assert stats.binomtest(sum(outcomes), 4000, 0.29).pvalue < 0.001
    assert {TRIAL(GRID, 0, t, KEY) for t in range(1, 50)} == {1}
    assert {TRIAL(0, 0, t, KEY) for t in range(1, 50)} == {0}


def test_it_is_no_policy_of_posses_own():
    assert not hasattr(posse, "BetaBernoulliTS")
    assert "BetaBernoulliTS" not in posse.policies.__all__


# Families ----------------------------------------------------------------------------------------------------------


class TestFamilies:
    spec = battery_spec()

    def test_each_is_in_one_half_and_large_enough(self):
        for study in self.spec.studies:
            (problems,) = study.problems
            assert len({"A", "B"} & set(study.tags)) == 1, study.name
            assert problems.count >= 30, study.name
            assert problems.count * study.replications >= 100, study.name
            assert len(study.horizons) == 1, study.name

    def test_all_kinds_are_there(self):
        studies = self.spec.studies
        assert sum("paper" in study.tags for study in studies) == 10
        assert {problems.players for study in studies for problems in study.problems} >= {2, 5, 20, 100}
        assert {problems.arms for study in studies for problems in study.problems} >= {2, 10, 50}
        assert {study.horizons[0] for study in studies} >= {1_000, 1_000_000}
        assert all(study.horizons == (1_000_000,) for study in studies if "long" in study.tags)

    def test_each_has_every_policy_once(self):
        for study in self.spec.studies:
            names = [choice.policy.__name__ for choice in study.policies]
            assert len(set(names)) == len(names)
            assert {*posse.policies.__all__, "BetaBernoulliTS"} - set(names) == {"Policy", "Refresh", "all_policies"}

    def test_some_may_be_picked_by_name(self):
        spec = battery_spec(families=["late", "paper-3"], seed=9)
        assert [study.name for study in spec.studies] == ["late", "paper-3"]
        assert spec.seed == 9
        with pytest.raises(ValueError, match=r"^family='paper-10'.*expected one of paper-0, paper-1"):
            battery_spec(families=["paper-10"])
        with pytest.raises(TypeError, match=r"^families='late', but expected a list of names"):
            battery_spec(families="late")

    def test_quick_makes_all_of_them_small(self):
        quick = battery_spec(quick=True)
        assert [study.name for study in quick.studies] == [study.name for study in self.spec.studies]
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
policies = [{ name = "PosseTS" }, { name = "HierTS", spread = "problem" }, { name = ["IndTS", "BetaBernoulliTS"] }]
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
    found = [row for label, name in labels.items() if name in policies for row in rows("f", label, *policies[name])]
    study = Study("f", (), (), (10,), (), tags=tags)
    return score(Records(pa.Table.from_pylist(found, schema=SCHEMA)), [study, dataclasses.replace(study, name="g")])


HARD = np.arange(1, 41)[:, None] * np.ones((40, 3))


class TestScores:
    def test_means_tails_and_lock_ins_of_every_policy(self):
        (family,) = families(("A",), own=(HARD,), alone=(2 * HARD, 1))
        own, alone = family.scores
        assert (own.policy, alone.policy) == ("PosseTS", "Ind-TS")
        assert own.mean == 20.5
        assert own.tail == pytest.approx(np.quantile(HARD, 0.9))
        assert own.error == pytest.approx(np.arange(1, 41).std(ddof=1) / math.sqrt(40))
        assert (own.lock_ins, alone.lock_ins) == (0, 1)
        assert (family.problems, family.runs, family.half) == (40, 120, "A")

    def test_what_makes_a_problem_hard_cancels(self):
        (family,) = families((), own=(HARD,), alone=(2 * HARD,))
        assert family.to_alone.value == family.to_alone.low == family.to_alone.high == 0.5

    def test_the_interval_holds_the_true_ratio_about_as_often_as_it_says(self):
        rng = np.random.default_rng(1)
        pairs = [(rng.gamma(9, 1.2, (34, 3)), rng.gamma(9, 1, (34, 3))) for _ in range(150)]
        found = [ratio(*pair, lambda tables: tables.mean(axis=(1, 2))) for pair in pairs]
        assert 0.86 < np.mean([each.low <= 1.2 <= each.high for each in found]) <= 1
        assert np.mean([each.low <= 1.0 <= each.high for each in found]) < 0.2

    def test_a_policy_says_itself_whether_it_shares(self):
        """Also under a label of its own, and whatever its name begins with."""
        alone = PolicyChoice(posse.IndTSV, (), "Both")
        sharing = PolicyChoice(posse.NaiveAgg, (), "Ind-ustrious")
        found = [row for label in ("PosseTS", "Both", "Ind-ustrious", "Ind-UCB") for row in rows("f", label, HARD)]
        study = Study("f", (), (alone, sharing), (10,), ())
        (family,) = score(Records(pa.Table.from_pylist(found, schema=SCHEMA)), [study])
        assert {each.policy for each in family.scores if each.alone} == {"Both", "Ind-UCB"}

    def test_without_the_candidate_there_is_nothing_to_judge(self):
        (family,) = families(("paper",), alone=(HARD,), hier=(HARD,))
        assert (family.to_alone, family.to_other, family.bars) == (None, None, ())


class TestBars:
    def test_each_tag_asks_for_its_own(self):
        regrets = {"own": (HARD,), "alone": (3 * HARD,), "hier": (1.02 * HARD,), "robust": (10 * HARD,)}
        for tags, texts in {
            (): ["mean, no harm", "90th percentile, no harm"],
            ("long",): ["mean, no harm", "90th percentile, no harm", "lock-ins, no harm"],
            ("helps",): ["mean, no harm", "90th percentile, no harm", "mean, sharing helps"],
            ("paper",): ["mean, paper's family"] * 2 + ["mean, no harm", "90th percentile, no harm"],
        }.items():
            (family,) = families(tags, **regrets)
            assert [bar.text for bar in family.bars] == texts
            assert {bar.verdict for bar in family.bars} == {"won"}
            assert all(bar.sure for bar in family.bars)

    def test_the_paper_asks_for_much_less_than_robustagg_ts_and_no_more_than_the_best_other(self):
        (family,) = families(("paper",), own=(HARD,), alone=(9 * HARD,), hier=(0.9 * HARD,), robust=(5 * HARD,))
        bars = [(bar.against, bar.limit, bar.verdict) for bar in family.bars[:2]]
        assert bars == [("RobustAgg-TS", 0.15, "lost"), ("HierTS", 1.05, "lost")]

    def test_harm_is_lost_and_doubt_is_told(self):
        (family,) = families((), own=(1.3 * HARD,), alone=(HARD,))
        assert [(bar.verdict, bar.sure) for bar in family.bars] == [("lost", True), ("lost", True)]
        noisy = HARD * np.random.default_rng(0).choice([0.5, 1.7], (40, 1))
        (family,) = families((), own=(noisy,), alone=(HARD,))
        assert not family.bars[0].sure

    def test_lock_ins_are_lost_if_there_are_more_and_won_if_there_are_none(self):
        for locks, verdict in (((0, 0), "won"), ((1, 1), "won"), ((1, 0), "lost"), ((0, 1), "won")):
            (family,) = families(("long",), own=(HARD, locks[0]), alone=(HARD, locks[1]))
            assert family.bars[-1].verdict == verdict

    def test_no_regret_at_all_is_no_harm(self):
        (family,) = families((), own=(0 * HARD,), alone=(0 * HARD,))
        assert [bar.ratio.value for bar in family.bars] == [1.0, 1.0]


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
        for words in ("Mine", "mine", "Beta-Bernoulli TS", "HierTS", "mean, sharing helps", 'name = "mine"'):
            assert words in text

    def test_tables_and_json_say_the_same(self, folder):
        (family,) = json.loads((folder / "battery.json").read_text(encoding="utf-8"))
        with (folder / "scores.csv").open(encoding="utf-8") as file:
            scores = list(csv.DictReader(file))
        assert [row["policy"] for row in scores] == [each["policy"] for each in family["scores"]]
        assert [float(row["mean"]) for row in scores] == [each["mean"] for each in family["scores"]]
        assert {row["policy"] for row in scores if row["shares_nothing"] == "1"} == {"Ind-TS", "Beta-Bernoulli TS"}
        with (folder / "bars.csv").open(encoding="utf-8") as file:
            assert [row["verdict"] for row in csv.DictReader(file)] == [bar["verdict"] for bar in family["bars"]]

    def test_the_numbers_are_those_of_a_plain_simulation(self, folder):
        problems = posse.generate.structured(spread=0.02, players=3, arms=3, count=4)
        result = posse.simulate(problems, BetaBernoulliTS(), 50, replications=2)
        (family,) = json.loads((folder / "battery.json").read_text(encoding="utf-8"))
        (found,) = (each for each in family["scores"] if each["policy"] == "Beta-Bernoulli TS")
        assert found["mean"] == pytest.approx(result.final_regret.mean())
        assert found["lock_ins"] == result.lock_ins().mean()

    def test_started_again_nothing_is_computed(self, folder, capsys):
        before = sorted(path.stat().st_mtime_ns for path in (folder / "results").glob("*.parquet"))
        assert main(["battery", "--spec", str(folder.parent / "own.toml"), "--out", str(folder)]) == 0
        assert sorted(path.stat().st_mtime_ns for path in (folder / "results").glob("*.parquet")) == before
        assert re.search(r"(?m)^mine +B ", capsys.readouterr().out)

    def test_the_text_lists_what_was_lost(self):
        found = families(("A",), own=(1.3 * HARD,), alone=(HARD,))
        text = to_text(found)
        assert "f: mean, no harm: 1.30 [1.30, 1.30] × Ind-TS, limit 1.1" in text
        assert "mean, no harm: at most 1.1 × the best alone: 0 of 1 won, 0 of 1 won in half A" in text
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
