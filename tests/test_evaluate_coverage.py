"""Judging policies from a log: how often intervals hold, over many seeds, with controls that fail."""

from __future__ import annotations

import math

import numpy as np
import pyarrow
import pyarrow.csv
import pytest
from made_logs import CHANCES, MEANS, randomised, table
from scipy.special import ndtr
from scipy.stats import binomtest

import posse
from evaluation_coverage import coverage_settings, measure
from posse.insight import evaluate
from posse.insight.evaluation import estimators


def thompson_logs(seed, logs, rounds, means):
    """Many logs of Thompson sampling with two arms, all at once: arms, propensities, rewards, [log, round, player]."""
    rng = np.random.default_rng(seed)
    shape = (logs, means.shape[0])
    pulls, sums = np.zeros((*shape, 2)), np.zeros((*shape, 2))
    kept = []
    for _ in range(rounds):
        center, variance = (sums + 0.5) / (pulls + 1), 0.25 / (pulls + 1)
        second = ndtr((center[..., 1] - center[..., 0]) / np.sqrt(variance.sum(axis=-1)))
        arm = (rng.random(shape) < second).astype(int)
        reward = (rng.random(shape) < means[np.arange(means.shape[0]), arm]) * 1.0
        kept.append((arm, np.where(arm == 1, second, 1 - second), reward))
        played = np.arange(2) == arm[..., None]
        pulls += played
        sums += played * reward[..., None]
    return [np.stack(parts, axis=1) for parts in zip(*kept, strict=True)]


def agrees(hits, trials, promised=0.95):
    """Whether a coverage is at least what was promised, as far as so many trials can tell."""
    return binomtest(int(hits), trials, promised, alternative="less").pvalue > 1e-3


LOTTERIES = {
    "0.2, or 1 with probability 0.005": (lambda rng, n: np.where(rng.random(n) < 0.005, 1.0, 0.2), 0.204, 200),
    "0.05, or 1 with probability 0.002": (lambda rng, n: np.where(rng.random(n) < 0.002, 1.0, 0.05), 0.0519, 800),
    "0.8, or 0 with probability 0.005": (lambda rng, n: np.where(rng.random(n) < 0.005, 0.0, 0.8), 0.796, 200),
    "always 0.5": (lambda rng, n: np.full(n, 0.5), 0.5, 200),
}


class TestSkewedRewards:
    RUNS = 120

    @pytest.mark.parametrize("name", LOTTERIES)
    def test_lotteries(self, name):
        draw, mean, rows = LOTTERIES[name]
        hits = ordinary = differences = 0
        for seed in range(self.RUNS):
            rng = np.random.default_rng(seed)
            arm = rng.choice(["x", "y"], size=2 * rows)
            log = table(["a"] * (2 * rows), arm, [0.5] * (2 * rows), draw(rng, 2 * rows))
            estimate = evaluate(log, "x", against="y").of("x")
            assert estimate.interval == "betting"
            hits += estimate.low <= mean <= estimate.high
            differences += estimate.difference.low <= 0 <= estimate.difference.high
            low, high = estimators.normal_interval(np.array(log["reward"])[arm == "x"], 0.05)
            ordinary += low <= mean <= high
            assert estimate.low < estimate.high
        assert agrees(hits, self.RUNS)
        assert agrees(differences, self.RUNS)
        if name != "always 0.5":
            assert not agrees(ordinary, self.RUNS, 0.93)

    def test_the_table_of_coverage(self):
        settings = {each.name: each for each in coverage_settings([200])}
        assert len(settings) == 12
        for setting in settings.values():  # their means are those of many draws
            drawn = setting.draw(np.random.default_rng(1), 400_000)
            assert 0 <= drawn.min() <= drawn.max() <= 1
            assert abs(drawn.mean() - setting.mean) < 4 * drawn.std() / math.sqrt(drawn.size)
        result = measure(settings["0.2, or 1 with probability 0.005"], runs=20)
        assert result.value >= 0.9 > result.normal

    def test_the_text_says_which_interval_and_why(self):
        rng = np.random.default_rng(1)
        rewards = LOTTERIES["0.2, or 1 with probability 0.005"][0](rng, 400)
        shown = " ".join(str(evaluate(table(["a"] * 400, ["x", "y"] * 200, [0.5] * 400, rewards))).split())
        assert "by betting, which holds for any rewards in their range: the rewards vary too little" in shown
        coins = " ".join(
            str(evaluate(table(["a"] * 400, ["x", "y"] * 200, [0.5] * 400, [0.0, 1.0, 1.0, 0.0] * 100))).split()
        )
        assert "normal, corrected for skewness: the rewards vary enough" in coins


class TestCoverageOnRandomisedLogs:
    RUNS = 150

    @pytest.fixture(scope="class")
    @classmethod
    def evaluations(cls):
        found = []
        for seed in range(cls.RUNS):
            log, player = randomised(np.random.default_rng(seed), 400)
            shares = np.bincount(player, minlength=2) / 400
            found.append((shares, evaluate(log, against="a0")))
        return found

    @pytest.mark.parametrize("arm", [0, 1, 2])
    def test_arms_overall_and_by_player(self, evaluations, arm):
        overall, by_player = 0, 0
        for shares, evaluation in evaluations:
            estimate = evaluation.of(f"a{arm}")
            overall += estimate.low <= shares @ MEANS[:, arm] <= estimate.high
            own = evaluation.of(f"a{arm}", "p0")
            by_player += own.low <= MEANS[0, arm] <= own.high
        assert agrees(overall, self.RUNS, 0.94)  # the normal law is an approximation
        assert agrees(by_player, self.RUNS, 0.94)

    def test_the_uniform_policy_and_the_logging_policy(self, evaluations):
        uniform, logged = 0, 0
        for shares, evaluation in evaluations:
            estimate = evaluation.of("uniform")
            uniform += estimate.low <= shares @ MEANS.mean(axis=1) <= estimate.high
            estimate = evaluation.of("logged")
            logged += estimate.low <= shares @ (MEANS * CHANCES).sum(axis=1) <= estimate.high
        assert agrees(uniform, self.RUNS, 0.94)
        assert agrees(logged, self.RUNS, 0.94)

    def test_differences(self, evaluations):
        hits = 0
        for shares, evaluation in evaluations:
            difference = evaluation.of("a2").difference
            hits += difference.low <= shares @ (MEANS[:, 2] - MEANS[:, 0]) <= difference.high
        assert agrees(hits, self.RUNS, 0.94)

    def test_rare_rewards_in_small_logs(self):
        """Where the normal interval would often have no width at all."""
        means = np.full((1, 2), 0.97)
        hits = ordinary = 0
        for seed in range(self.RUNS):
            log, _ = randomised(np.random.default_rng(seed), 60, means, np.array([[0.5, 0.5]]))
            estimate = evaluate(log, "a0").of("a0")
            assert estimate.interval == "betting"
            hits += estimate.low <= 0.97 <= estimate.high
            rewards = np.array([row["reward"] for row in log.to_pylist() if row["arm"] == "a0"])
            low, high = estimators.normal_interval(rewards, 0.05)
            ordinary += low <= 0.97 <= high
        assert agrees(hits, self.RUNS)
        assert not agrees(ordinary, self.RUNS, 0.94)

    def test_wrong_propensities_do_not_cover_and_are_noticed(self):
        hits, noticed = 0, 0
        for seed in range(50):
            log, player = randomised(np.random.default_rng(seed), 2000)
            wrong = log.set_column(2, "propensity", pyarrow.array(np.full(2000, 1 / 3)))
            shares = np.bincount(player, minlength=2) / 2000
            evaluation = evaluate(wrong, "a0", estimator="snips")
            estimate = evaluation.of("a0")
            hits += estimate.low <= shares @ MEANS[:, 0] <= estimate.high
            noticed += any("do not fit" in note for note in evaluation.notes)
        assert hits < 45
        assert noticed > 35


class TestCoverageOnAdaptiveLogs:
    RUNS = 150
    ROUNDS = 150
    MEANS = np.array([[0.5, 0.6], [0.45, 0.7]])

    @pytest.fixture(scope="class")
    @classmethod
    def logs(cls):
        arms, propensities, rewards = thompson_logs(11, cls.RUNS, cls.ROUNDS, cls.MEANS)
        player = np.tile(["p0", "p1"], cls.ROUNDS)
        return [
            table(player, [f"a{i}" for i in arms[run].ravel()], propensities[run].ravel(), rewards[run].ravel())
            for run in range(cls.RUNS)
        ]

    @pytest.mark.parametrize(("estimator", "kind"), [("auto", "weighted"), ("dr", "betting")])
    def test_arms_and_their_difference_overall_and_by_player(self, logs, estimator, kind):
        hits, kinds = np.zeros((3, 2)), []
        for log in logs:
            evaluation = evaluate(log, ["a0", "a1"], against="a0", estimator=estimator)
            assert evaluation.adaptive
            for place, (player, means) in enumerate(((None, self.MEANS.mean(axis=0)), ("p1", self.MEANS[1]))):
                one, other = (evaluation.of(f"a{arm}", player) for arm in (0, 1))
                found = other.difference
                truths = zip((one, other, found), (*means, means[1] - means[0]), strict=True)
                hits[:, place] += [each.low <= true <= each.high for each, true in truths]
                kinds += [one.interval == kind, other.interval == kind, found.kind == kind]
                if set(kinds[-3:]) == {True}:
                    assert found.value == pytest.approx(other.value - one.value)
        assert np.mean(kinds) > 0.9
        for number in hits.ravel():
            assert agrees(number, self.RUNS)

    def test_weights_make_differences_far_narrower_than_one_bet_and_that_narrower_than_two(self, logs):
        widths = []
        for log in logs[:50]:
            found = (evaluate(log, "a1", against="a0", estimator=each) for each in ("auto", "dr"))
            weighted, bet = (each.of("a1").difference for each in found)
            apart = evaluate(log, ["a0", "a1"], level=0.025, estimator="dr")
            ends = sum(each.high - each.low for each in (apart.of("a0"), apart.of("a1")))
            widths.append([weighted.high - weighted.low, bet.high - bet.low, ends])
        weighted, bet, two = np.mean(widths, axis=0)
        assert weighted < 0.75 * bet
        assert bet < 0.85 * two

    def test_the_plain_mean_of_the_worse_arm_does_not_cover(self, logs):
        hits = 0
        for log in logs:
            rows = [row["reward"] for row in log.to_pylist() if row["arm"] == "a0" and row["player"] == "p1"]
            hits += abs(np.mean(rows) - 0.45) <= 1.96 * np.std(rows) / math.sqrt(len(rows))
        assert not agrees(hits, self.RUNS)

    def test_dr_is_unbiased_where_the_plain_mean_is_not(self, logs):
        robust = np.array([evaluate(log, "a0", estimator="dr").of("a0", "p1").value for log in logs])
        plain = np.array(
            [
                np.mean([row["reward"] for row in log.to_pylist() if row["arm"] == "a0" and row["player"] == "p1"])
                for log in logs
            ]
        )
        errors = [values.std() / math.sqrt(self.RUNS) for values in (robust, plain)]
        assert abs(robust.mean() - 0.45) < 3.5 * errors[0]
        assert plain.mean() - 0.45 < -3.5 * errors[1]

    def test_a_learners_log(self):
        learner = posse.Learner(posse.IndTS(), ["x", "y"], ["a", "b"], seed=4)
        rng = np.random.default_rng(4)
        for _ in range(60):
            for decision in learner.choose(["a", "b"]):
                learner.observe(decision.id, float(rng.random() < (0.8 if decision.arm == "x" else 0.3)))
        learner.choose("a")
        learner.record([("a", "x", 1.0)])
        evaluation = evaluate(learner.log())
        assert evaluation.adaptive
        assert (evaluation.rows, evaluation.missing, evaluation.undrawn) == (120, 1, 1)
        assert evaluation.of("x").low <= 0.8 <= evaluation.of("x").high
        frozen = evaluate(learner.log(), learner)
        assert frozen.estimates[0].target == "Learner"
        assert frozen.estimates[0].value == pytest.approx(0.8, abs=0.15)

    def test_decisions_that_a_learner_held_out_are_a_randomised_log(self):
        learner = posse.Learner(posse.IndUCB(), ["x", "y"], ["a", "b"], seed=4, holdout=0.5)
        rng = np.random.default_rng(4)
        for _ in range(200):
            decision = learner.choose("ab"[rng.integers(2)])
            learner.observe(decision.id, float(rng.random() < (0.8 if decision.arm == "x" else 0.3)))
        evaluation = evaluate(learner.log(), ["x", "y", posse.IndTS()], holdout=True, passes=3)
        assert not evaluation.adaptive
        assert evaluation.rows == sum(learner.log()["holdout"].to_pylist())
        for arm, mean in (("x", 0.8), ("y", 0.3)):
            assert evaluation.of(arm).low <= mean <= evaluation.of(arm).high
        assert 0.5 < evaluation.of("Ind-TS").value < 0.9
        with pytest.raises(ValueError, match="a learner held out can"):
            evaluate(learner.log(), posse.IndTS())
        learner.add_arm("z")
        assert evaluate(learner.log(), "x", holdout=True).of("x").value == evaluation.of("x").value
        with pytest.raises(ValueError, match="came or went"):
            evaluate(learner.log().drop_columns(["probabilities"]), "x", holdout=True)
        with pytest.raises(ValueError, match="no decisions that were held out"):
            evaluate(table(["a"] * 4, ["x", "y"] * 2, [0.5] * 4, [1.0, 0.0, 1.0, 1.0]), "x", holdout=True)

    def test_held_out_decisions_need_to_know_how_they_were_drawn(self, tmp_path):
        learner = posse.Learner(posse.IndTS(), ["x", "y"], ["a"], seed=4, holdout=0.5)
        rng = np.random.default_rng(4)
        for _ in range(100):
            learner.observe(learner.choose("a").id, float(rng.random() < 0.5))
        log = learner.log().drop_columns(["probabilities"])  # a CSV file has no lists
        pyarrow.csv.write_csv(log, tmp_path / "log.csv")
        with pytest.raises(ValueError, match=r"arms came or went is not in this log.* a propensity of 0\.5 in those"):
            evaluate(tmp_path / "log.csv", "x", holdout=True)
        bare = log.replace_schema_metadata(None)
        equal = bare.set_column(bare.column_names.index("propensity"), "propensity", pyarrow.array([0.5] * 100))
        assert evaluate(equal, "x", holdout=True).of("x") == evaluate(log, "x", holdout=True).of("x")

    def test_decisions_that_were_given_up_are_missing_too(self):
        learner = posse.Learner(posse.IndTS(), ["x", "y"], ["a"], seed=4, waiting_limit=10)
        rng = np.random.default_rng(4)
        for number in range(200):
            decision = learner.choose("a")
            if number % 3 == 0:
                learner.observe(decision.id, float(rng.random() < 0.5))
        evaluation = evaluate(learner)
        assert evaluation.rows + evaluation.missing + evaluation.given_up == 200
        assert (evaluation.missing, evaluation.to_dict()["given_up"]) == (10, evaluation.given_up)
        assert f"10 rows without a reward and {evaluation.given_up} decisions that the learner gave up" in " ".join(
            str(evaluation).split()
        )

    def test_rows_that_could_play_nothing_else_are_said(self):
        log = table(["a"] * 6, ["x", "y"] * 3, [0.5, 0.5, 1.0, 0.4, 0.6, 0.3], [1.0, 0.0] * 3)
        assert any("16.7%" in note for note in evaluate(log, "y").notes)
