"""Judging policies from a log: closed forms by hand, ways in and out; test_evaluate_intervals.py has the intervals."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow
import pyarrow.csv
import pytest
from made_logs import MEANS, randomised, rows_of, table

import posse
from posse.insight import evaluate
from posse.insight.evaluation import estimators
from posse.insight.evaluation.model import Evaluator
from posse.insight.evaluation.replay import replay
from posse.insight.evaluation.text import doubtful_arms


class TestEstimatorsByHand:
    # player a: x at 1/2 earned 1; y at 1/2 earned 0; x at 1/4 earned 0; y at 3/4 earned 1
    LOG = table(["a"] * 4, ["x", "y", "x", "y"], [0.5, 0.5, 0.25, 0.75], [1.0, 0.0, 0.0, 1.0])

    def test_ips_is_the_mean_of_weighted_rewards(self):
        assert evaluate(self.LOG, "x", estimator="ips").of("x").value == pytest.approx((2 * 1 + 4 * 0) / 4)
        y = evaluate(self.LOG, "y", estimator="ips").of("y")
        assert y.value == pytest.approx((2 * 0 + 4 / 3) / 4)

    def test_snips_divides_by_the_weights(self):
        assert evaluate(self.LOG, "x", estimator="snips").of("x").value == pytest.approx(2 / 6)
        assert evaluate(self.LOG, "y", estimator="snips").of("y").value == pytest.approx((4 / 3) / (2 + 4 / 3))

    def test_rows_effective_rows_and_the_largest_weight(self):
        estimate = evaluate(self.LOG, "x").of("x", "a")
        assert (estimate.rows, estimate.largest_weight) == (2, 4)
        assert estimate.effective_rows == pytest.approx(36 / 20)

    def test_dr_on_an_adaptive_log_uses_the_past_alone(self):
        # with k = 10: q starts at 1/2; after x earned 1 its arm mean is 6/11, shrunk: (1 + 60/11)/11
        x2 = (1 + 10 * 6 / 11) / 11
        after = (1 + 10 * 6 / 12) / 12
        scores = [0.5 + 2 * (1 - 0.5), x2, x2 + 4 * (0 - x2), after]
        assert evaluate(self.LOG, "x", estimator="dr").of("x").value == pytest.approx(np.mean(scores))

    def test_the_logging_policy_is_the_plain_mean(self):
        estimate = evaluate(self.LOG, "logged").of("logged")
        assert (estimate.value, estimate.estimator) == (0.5, "mean")

    def test_rewards_in_other_units_give_values_in_those_units(self):
        moved = self.LOG.set_column(3, "reward", pyarrow.array([30.0, 10.0, 10.0, 30.0]))
        estimate = evaluate(moved, "x", estimator="snips", reward_range=(10, 30)).of("x")
        assert estimate.value == pytest.approx(10 + 20 * 2 / 6)
        assert 10 <= estimate.low <= estimate.value <= estimate.high <= 30


def slow_shrunken(rows, player, arm):
    """The model's value for a cell, from (player, arm, reward) triples."""
    of_arm = [r for p, a, r in rows if a == arm]
    mean = (sum(of_arm) + 5) / (len(of_arm) + 10)
    own = [r for p, a, r in rows if a == arm and p == player]
    return (sum(own) + 10 * mean) / (len(own) + 10)


class TestModels:
    rng = np.random.default_rng(3)
    player, arm, reward = rng.integers(2, size=40), rng.integers(3, size=40), rng.random(40)
    triples = tuple(zip(player.tolist(), arm.tolist(), reward.tolist(), strict=True))

    def test_from_the_past_is_what_a_slow_loop_gives(self):
        model = estimators.from_the_past(self.player, self.arm, self.reward, (2, 3))
        for t in range(40):
            slow = [slow_shrunken(self.triples[:t], self.player[t], arm) for arm in range(3)]
            np.testing.assert_allclose(model[t], slow)

    def test_cross_fitted_is_what_a_slow_loop_gives(self):
        model = estimators.cross_fitted(self.player, self.arm, self.reward, (2, 3))
        seen: dict[tuple[int, int], int] = {}
        folds = []
        for p, a, _ in self.triples:
            seen[p, a] = seen.get((p, a), -1) + 1
            folds.append(seen[p, a] % 5)
        for t in range(40):
            others = [row for row, fold in zip(self.triples, folds, strict=True) if fold != folds[t]]
            np.testing.assert_allclose(model[t], [slow_shrunken(others, self.player[t], arm) for arm in range(3)])


def learners_log(seed, rounds, during=lambda learner, number: None, arms=("x", "y", "z")):
    """The log of a learner for which z has mean 0.8 and all else 0.4; `during` may change it, or restrict a choice."""
    learner = posse.Learner(posse.IndTS(), arms, ["a", "b"], seed=seed, horizon=1000)
    rng = np.random.default_rng(seed)
    for number in range(rounds):
        offered = during(learner, number)
        decision = learner.choose("ab"[rng.integers(2)], available=offered)
        learner.observe(decision.id, float(rng.random() < (0.8 if decision.arm == "z" else 0.4)))
    return learner.log()


def late(learner, number):
    if number == 60:
        learner.add_arm("z")


def early(learner, number):
    if number == 40:
        learner.retire_arm("z")


class TestArmsThatWereNotAlwaysOnOffer:
    RUNS = 60

    @pytest.mark.parametrize(
        ("change", "arms", "estimator"),
        [(late, ("x", "y"), "dr"), (late, ("x", "y"), "ips"), (early, ("x", "y", "z"), "ips")],
    )
    def test_an_arm_that_came_or_went_is_judged_by_the_time_it_was_there(self, change, arms, estimator):
        right, wrong = [], []
        for seed in range(self.RUNS):
            log = learners_log(seed, 100, change, arms)
            right.append(evaluate(log, "z", estimator=estimator).of("z").value)
            told_nothing = log.drop_columns(["probabilities"])
            wrong.append(evaluate(told_nothing, "z", estimator=estimator).of("z").value)
        errors = [np.std(values) / math.sqrt(self.RUNS) for values in (right, wrong)]
        assert abs(np.mean(right) - 0.8) < 3.5 * errors[0]
        assert np.mean(wrong) - 0.8 < -3.5 * errors[1]

    def test_it_is_said_and_arms_that_stayed_are_judged_by_everything(self):
        evaluation = evaluate(learners_log(1, 200, late, ("x", "y")), against="logged")
        first = next(note for note in evaluation.notes if note.startswith("z is judged by"))
        assert "of the 200 rows" in first
        assert not any(note.startswith(("x is judged", "logged is judged")) for note in evaluation.notes)
        assert evaluation.of("z").difference is not None
        assert evaluation.of("z", "a").low <= 0.8 <= evaluation.of("z", "a").high

    def test_arms_that_never_met_are_not_judged_together(self):
        def swapped(learner, number):
            if number == 100:
                learner.retire_arm("x")
                learner.add_arm("z")

        log = learners_log(1, 200, swapped, ("x", "y"))
        evaluation = evaluate(log, against="x")
        assert any(note.startswith("uniform is left out: in no row were all of") for note in evaluation.notes)
        assert evaluation.of("z").difference is None
        assert evaluation.of("y").difference is not None
        with pytest.raises(ValueError, match="in no row were all of x, z on offer"):
            evaluate(log, {"*": {"x": 0.5, "z": 0.5}})

    def test_a_player_who_was_gone_by_then_has_no_value(self):
        learner = posse.Learner(posse.IndTS(), ["x", "y"], ["a", "b"], seed=1)
        for number in range(90):
            if number == 30:
                learner.add_arm("z")
            learner.observe(learner.choose("b" if number < 30 else "a").id, 0.5)
        evaluation = evaluate(learner, "z")
        assert math.isnan(evaluation.of("z", "b").value)
        assert evaluation.of("z", "a").value == pytest.approx(0.5, abs=0.1)
        assert "—" in str(evaluation)

    def test_a_restricted_choice_judges_what_it_could_have_played(self):
        """Without the column that says so, only the weights of z show that it was not always on offer."""
        rng = np.random.default_rng(1)
        log = learners_log(1, 400, lambda learner, number: ["x", "y"] if rng.random() < 0.75 else None)
        known, untold = evaluate(log), evaluate(log.drop_columns(["probabilities"]))
        assert known.of("z").low <= 0.8 <= known.of("z").high < untold.of("z").high
        assert any(note.startswith("z is judged by") for note in known.notes)
        assert any("always on offer" in note and "z (average 0.2" in note for note in untold.notes)
        assert not any("z (average" in note for note in known.notes)
        always = evaluate(learners_log(1, 400)).notes
        assert not any("z (average" in note for note in always)

    def test_an_arm_that_came_back_is_judged_by_both_times(self):
        def away(learner, number):
            if number in (60, 120):
                (learner.retire_arm if number == 60 else learner.add_arm)("z")

        found = evaluate(learners_log(1, 180, away), "z")
        assert "z is judged by 120 of the 180 rows" in found.notes[0]
        assert found.of("z").low <= 0.8 <= found.of("z").high

    def test_a_policy_without_chance_judges_each_arm_by_its_own_rows(self):
        """Its arms are played surely or not at all. Of 80 intervals of 95 % hardly five or more should miss."""
        missed = 0
        for seed in range(40):
            learner, rng = posse.Learner(posse.IndUCB(), ["x", "y"], ["a"], seed=seed), np.random.default_rng(seed)
            for _ in range(150):
                learner.observe(learner.choose("a"), float(rng.random() < 0.5))
            found = evaluate(learner)
            assert any(note.startswith("uniform is left out") for note in found.notes)
            for each in (found.of("x"), found.of("y")):
                missed += not each.low <= 0.5 <= each.high
                assert each.high - each.low < 0.7
        assert missed <= 5

    def test_held_out_decisions_with_a_restricted_choice_fit(self):
        learner = posse.Learner(posse.IndTS(), ["x", "y", "z"], ["a"], seed=1, holdout=0.9)
        rng = np.random.default_rng(1)
        for _ in range(400):
            offered = ["x", "y"] if rng.random() < 0.75 else None
            learner.observe(learner.choose("a", available=offered).id, float(rng.random() < 0.5))
        found = evaluate(learner, holdout=True)
        assert found.of("z").low <= 0.5 <= found.of("z").high
        assert not any("do not fit" in note for note in found.notes)
        with pytest.raises(ValueError, match="cannot be replayed: not all arms were on offer"):
            evaluate(learner, posse.IndTS(), holdout=True)


class TestDoubts:
    @pytest.mark.parametrize(
        ("rows", "chances"), [(1, [0.5, 0.5]), (10, [1 / 3] * 3), (60, [0.8, 0.1, 0.1]), (100, [0.999, 0.001])]
    )
    def test_small_logs_with_right_propensities_are_not_accused(self, rows, chances):
        accused = caught = 0
        for seed in range(400):
            rng = np.random.default_rng(seed)
            log, _ = randomised(rng, rows, np.full((1, len(chances)), 0.5), np.array([chances]))
            accused += any(doubtful_arms(rows_of(log)))
        assert accused == 0
        for seed in range(20):  # the control: 0.8 said to be 1/3
            log, _ = randomised(np.random.default_rng(seed), 200, np.full((1, 3), 0.5), np.array([[0.8, 0.1, 0.1]]))
            wrong = log.set_column(2, "propensity", pyarrow.array(np.full(200, 1 / 3)))
            caught += any(doubtful_arms(rows_of(wrong)))
        assert caught == 20

    def test_many_players_with_few_rows_each_are_not_accused(self):
        """Half of them play at 0.8 to 0.2, half at 0.2 to 0.8: whose arms were all seen is itself chance."""
        chances = np.tile([[0.8, 0.2], [0.2, 0.8]], (100, 1))
        for seed in range(20):
            log, _ = randomised(np.random.default_rng(seed), 600, np.full((200, 2), 0.5), chances)
            assert not any(doubtful_arms(rows_of(log)))
        many, _ = randomised(np.random.default_rng(0), 30_000, np.full((200, 2), 0.5), chances)
        assert not any(doubtful_arms(rows_of(many)))
        swapped = np.where(np.array(many["propensity"]) > 0.5, 0.2, 0.8)  # the control
        assert any(doubtful_arms(rows_of(many.set_column(2, "propensity", pyarrow.array(swapped)))))

    def test_propensities_that_add_up_to_too_little_are_noticed(self):
        log = table(["a"] * 200, ["x", "y"] * 100, [0.3] * 200, [1.0, 0.0] * 100)
        assert any("x (average 1.67" in note and "do not fit" in note for note in evaluate(log, "x").notes)

    def test_propensities_may_be_rounded_to_two_digits(self):
        rng = np.random.default_rng(1)
        arms = [f"a{arm}" for arm in rng.integers(6, size=300)]
        evaluation = evaluate(table(["p"] * 300, arms, [0.17] * 300, [1.0, 0.0] * 150))
        assert not evaluation.notes
        assert not evaluation.adaptive


class TestReplay:
    def test_it_finds_what_simulation_finds(self):
        """IndUCB and IndTS over their first 300 decisions, from logs in which arms had unequal chances."""
        rng = np.random.default_rng(8)
        log, _ = randomised(rng, 1500)
        policies = [posse.IndTS(), posse.IndUCB()]
        evaluation = evaluate(log, policies, passes=5)
        for policy in policies:
            truth = posse.simulate(
                posse.Problem(MEANS), policy, 300, replications=300, schedule=posse.schedule.Sequential("random")
            )
            estimate = evaluation.of(policy.label)
            assert estimate.rows == pytest.approx(300, abs=40)
            assert estimate.low <= truth.reward.mean() / 300 <= estimate.high
            assert estimate.high - estimate.low < 0.3

    def test_without_rejection_it_would_be_wrong(self):
        """The control: said to be uniform, a log with unequal chances is used too often where its arms are frequent."""
        means = np.array([[0.1, 0.9]])
        log, _ = randomised(np.random.default_rng(1), 1200, means, np.array([[0.9, 0.1]]))
        wrong = log.set_column(2, "propensity", pyarrow.array(np.full(1200, 0.5)))
        policy = posse.IndTS()
        right = replay(rows_of(log), policy, 4, 0)
        biased = replay(rows_of(wrong), policy, 4, 0)
        truth = posse.simulate(posse.Problem(means), policy, 120, replications=200).reward.mean() / 120
        assert right.means.sum() / right.rows.sum() == pytest.approx(truth, abs=0.06)
        assert biased.means.sum() / biased.rows.sum() < truth - 0.1

    def test_a_seed_gives_the_same_again(self):
        log, _ = randomised(np.random.default_rng(2), 200)
        first, again, other = (evaluate(log, posse.IndTS(), passes=2, seed=seed) for seed in (1, 1, 2))
        assert first == again
        assert first.estimates != other.estimates

    def test_an_adaptive_log_is_refused(self):
        log = table(["a"] * 4, ["x", "y"] * 2, [0.5, 0.5, 0.3, 0.7], [1.0, 0.0] * 2)
        with pytest.raises(ValueError, match="fixed propensities"):
            evaluate(log, posse.IndTS())
        assert evaluate(log, posse.IndTS(), adaptive=False, passes=2).of("Ind-TS").rows > 0

    def test_rewards_in_other_units(self):
        log, _ = randomised(np.random.default_rng(2), 300)
        wide = log.set_column(3, "reward", pyarrow.array(np.array(log["reward"]) * 50 - 20))
        plain = evaluate(log, posse.RobustAggTS(0.1), passes=2).estimates
        moved = evaluate(wide, posse.RobustAggTS(5), reward_range=(-20, 30), passes=2).estimates
        for one, other in zip(plain, moved, strict=True):
            assert other.value == pytest.approx(one.value * 50 - 20)


class TestOverlap:
    def test_an_arm_that_a_player_never_had_is_an_error_that_names_both(self):
        log = table(["a", "a", "b", "b"], ["x", "y", "x", "x"], [0.5, 0.5, 1.0, 1.0], [1.0, 0.0, 1.0, 0.0])
        with pytest.raises(ValueError, match="arm 'y' for player 'b'"):
            evaluate(log, "y")
        with pytest.raises(ValueError, match="arm 'y' for player 'b'"):
            evaluate(log, posse.IndTS())
        assert evaluate(log, {"a": "y", "b": "x"}).of("table").value == pytest.approx(0.25, abs=0.2)
        assert evaluate(log, "y", players=["a"]).of("y").rows == 1

    def test_judging_everything_leaves_out_what_cannot_be_judged_and_says_so(self):
        log = table(["a", "a", "b", "b"], ["x", "y", "x", "x"], [0.5, 0.5, 1.0, 1.0], [1.0, 0.0, 1.0, 0.0])
        evaluation = evaluate(log)
        assert {estimate.target for estimate in evaluation.estimates} == {"logged", "x"}
        assert sum("is left out" in note for note in evaluation.notes) == 2

    def test_an_arm_that_chance_denied_a_player_is_no_error(self):
        log = table(["a", "a", "a", "b"], ["x", "y", "x", "x"], [0.5] * 4, [1.0, 0.0, 1.0, 0.0])
        evaluation = evaluate(log, "y")
        assert math.isnan(evaluation.of("y", "b").value)
        assert evaluation.of("y").rows == 1
        assert "—: no row of that player" in str(evaluation)
        assert json.loads(json.dumps(evaluation.to_dict()))["estimates"][2]["value"] is None

    @staticmethod
    def many_players(available=None):
        """The log of a learner with sixty shops, eight decisions each; the last shop is offered only some arms."""
        shops, rng = [f"p{number}" for number in range(60)], np.random.default_rng(3)
        learner = posse.Learner(posse.IndTS(), ["x", "y", "z"], shops, seed=3, floor=0.05, clock=lambda: 0.0)
        for shop in shops * 8:
            decision = learner.choose(shop, available=available if shop == "p59" else None)
            learner.observe(decision, float(rng.random() < (0.8 if decision.arm == "z" else 0.4)))
        return learner.log()

    def test_an_arm_that_a_learner_could_have_played_is_judged_for_many_players(self):
        """Hardly a shop has played every arm, but each could have in every row."""
        found = evaluate(self.many_players(), ["x", "uniform", "best"], against="logged")
        for target, truth in (("x", 0.4), ("uniform", 1.6 / 3), ("best", 0.8)):
            assert found.of(target).low <= truth <= found.of(target).high <= found.of(target).low + 0.5
        assert any(math.isnan(found.of("x", player).value) for player in found.players)

    def test_an_arm_that_was_never_on_offer_to_a_player_is_judged_by_the_others(self):
        found = evaluate(self.many_players(["y", "z"]), "x")
        assert found.notes[0].startswith("x is judged by 472 of the 480 rows")
        assert math.isnan(found.of("x", "p59").value)


def test_no_interval_is_computed_twice(monkeypatch):
    asked, plain = [], Evaluator._computed_interval

    def counted(self, scored, player, level):
        asked.append((scored.name, player, level))
        return plain(self, scored, player, level)

    monkeypatch.setattr(Evaluator, "_computed_interval", counted)
    log, _ = randomised(np.random.default_rng(2), 300)
    evaluate(log, against="a0")
    assert len(asked) == len(set(asked))
    assert sum(level == 0.05 for _, _, level in asked) == 5 * 3  # targets, players and overall
