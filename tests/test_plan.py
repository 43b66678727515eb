"""Planning: what data gives, what is simulated and what is refused; test_plan_problems.py has the problems."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from made_plans import SMALL, small_plan, table
from test_plan_problems import drawn_counts

import posse
from posse.insight import Plan, plan
from posse.insight.planning.equal_shares import best_test
from posse.insight.planning.planned_run import guessed_problems
from posse.insight.planning.policies import plan_policies
from posse.learner import Counts, Learner

STROKE = Path(__file__).parents[2] / "shared" / "data" / "stroke-trial.csv"


@pytest.fixture
def small() -> Plan:
    return small_plan()


def test_rewards_that_vary_little_are_simulated_so():
    rewards = np.random.default_rng(1).beta(3, 7, 2000)
    found = plan(table(rewards), reward="sales", problems=2, decisions=50)
    family = found.result.problems[0].rewards
    assert isinstance(family, posse.rewards.Beta)
    assert family.concentration == pytest.approx(10, rel=0.15)


def test_units_are_the_user_s():
    """The same data in another unit: the same problems, everything told in that unit."""
    rewards = np.random.default_rng(1).integers(0, 2, 2000).astype(float)
    one = plan(table(rewards), reward="sales", problems=4, decisions=200)
    other = plan(table(-10 + 40 * rewards), reward="sales", reward_range=(-10, 30), problems=4, decisions=200)
    for a, b in zip(one.result.problems, other.result.problems, strict=True):
        assert a.means == pytest.approx(b.means, abs=1e-9)
    assert other.epsilon == pytest.approx(40 * one.epsilon, rel=0.06)  # each rounded to two digits
    assert other.mean_lost(other.alone).mean == pytest.approx(40 * one.mean_lost(one.alone).mean, rel=1e-6)
    assert other.attainable == pytest.approx(-10 * 800 + 40 * one.attainable, rel=1e-6)
    assert other.result.policies[other.right].epsilon == pytest.approx(other.epsilon / 40)
    assert f"RobustAgg-TS({other.epsilon:.3g})" in other.labels


def test_a_history_gives_players_arms_traffic_and_epsilon():
    pulls = np.array([[400, 100, 100], [50, 20, 30], [100, 100, 100], [0, 0, 0]])
    counts, _ = drawn_counts(0.05, 0.01, pulls, seed=3)
    found = plan(counts, problems=20)
    assert found.players == counts.players
    assert found.arms == counts.arms
    assert found.decisions.tolist() == [600, 100, 300, 1]
    assert found.epsilon == pytest.approx(max(found.model.spread().value, 0.2 * found.model.spread().high), rel=0.05)


def test_an_epsilon_given_beside_data_is_compared_and_not_called_right():
    counts, _ = drawn_counts(0.05, 0.01, np.full((4, 3), 200), seed=3)
    free, given = plan(counts, problems=10), plan(counts, problems=10, epsilon=0.6)
    assert given.result.problems == free.result.problems
    assert given.epsilon == free.epsilon < 0.3
    assert free.given is None
    assert given.labels[given.given] == "RobustAgg-TS(0.6)"
    assert given.result.policies[given.given].epsilon == 0.6
    assert given.given_epsilon == given.to_dict()["given_epsilon"] == 0.6
    assert "The ε given, 0.6, is above that interval." in given.assumed
    row = next(line for line in str(given).splitlines() if line.startswith("RobustAgg-TS(0.6)"))
    assert "sharing, ε as given" in row
    start = f"With ε = 0.6 as given, {0.6 / given.epsilon:.2g} times that, it loses "
    change = given.difference(given.given, given.right).mean
    said = next(line for line in given.conclusions() if line.startswith(start))
    assert f"{abs(change):.0f}" in said or f"{abs(change):.1f}" in said
    exact = plan(counts, problems=10, epsilon=free.epsilon)
    assert exact.given == exact.right
    assert not any("as given" in line for line in exact.conclusions())


def test_a_learner_s_counts_and_its_log_give_the_same_plan():
    learner = Learner(posse.IndTS(), arms=["x", "y"], players=["a", "b"], seed=1, reward_range=(0, 10))
    random = np.random.default_rng(2)
    for turn in range(400):
        decision = learner.choose("ab"[turn % 2])
        learner.observe(decision.id, 10.0 * random.integers(0, 2))
    learner.choose("a")  # its reward never comes
    plans = [plan(history, problems=3) for history in (learner.counts(), learner.log(), learner)]
    assert str(plans[0]) == str(plans[1]) == str(plans[2])
    assert plans[0].high == 10
    assert plans[0].decisions.tolist() == [200, 200]


def test_data_that_shows_no_difference_still_gives_an_epsilon():
    counts = Counts(("a", "b"), ("x", "y"), np.full((2, 2), 10**6), np.array([[2e5, 5e5], [2e5, 5e5]]))
    assert 1e-5 < plan(counts, decisions=50, problems=20, policies=[]).epsilon < 0.003


def test_columns_that_a_plan_does_not_need_do_not_matter():
    plain = table(np.random.default_rng(1).integers(0, 2, 200).astype(float))
    odd = plain.append_column("propensity", [["33%"] * 200]).append_column("holdout", [["yes"] * 200])
    assert str(plan(odd, reward="sales", problems=2)) == str(plan(plain, reward="sales", problems=2))


@pytest.mark.skipif(not STROKE.exists(), reason="the stroke trial's data is not here")
def test_the_stroke_trial():
    """Countries alike in the first outcome, far apart in the second, by a level that leaves the best arm alone."""
    alike, apart = (
        plan(STROKE, reward=reward, decisions=100, problems=4) for reward in ("alive_14_days", "independent_6_months")
    )
    assert alike.model.levels().high < 0.04 < 0.08 < apart.model.levels().low
    assert max(alike.model.contrasts().high, apart.model.contrasts().high) < 0.05
    assert apart.epsilon > 0.25


# What is simulated


def test_a_plan_is_a_simulation_of_its_problems(small):
    problems = guessed_problems(4, 2, 0.05, 0.2, 0.2, count=8, seed=3)
    policies = [posse.RobustAggTS(0.05), posse.IndTS(), posse.PosseTS()]
    result = posse.simulate(problems, policies, 300, seed=3)
    mine = [small.right, small.alone, small.learned]
    assert small.lost[mine].tolist() == result.final_regret[:, :, 0].tolist()
    assert small.lost_by_player[mine].tolist() == result.player_regret[:, :, 0].tolist()
    assert small.mean_lost(small.alone).mean == pytest.approx(result.summary()[1]["mean"])
    difference = result.difference("RobustAgg-TS(0.05)", "Ind-TS")
    assert small.difference(small.right, small.alone) == difference


def test_what_is_lost_is_what_is_missing_from_the_attainable(small):
    means = np.array([problem.means for problem in small.result.problems])
    assert small.attainable == pytest.approx(300 * means.max(axis=2).sum(axis=1))
    earned = np.einsum("abpk,bpk->ab", small.result.pulls[:, :, 0], means)
    assert small.attainable - earned == pytest.approx(small.lost)
    assert small.lost_by_random == pytest.approx(300 * (means.max(axis=2) - means.mean(axis=2)).sum(axis=1))
    single = (means.max(axis=2, keepdims=True) - means).sum(axis=1).min(axis=1)
    assert small.lost_by_one_arm == pytest.approx(300 * single, abs=1e-9)


def test_the_seed_decides_everything_and_threads_nothing(small):
    assert str(plan(**SMALL, seed=3, threads=1)) == str(small)
    assert str(plan(**SMALL, seed=4)) != str(small)


def test_traffic_may_differ_between_players():
    found = plan(arms=2, decisions=[40.0, 400, 2000], problems=10, policies=[])
    assert len(found.players) == 3
    assert found.result.horizon == 2000
    decisions = found.result.pulls[0, :, 0].sum(axis=-1)
    assert (decisions[:, 2] == 2000).all()
    assert decisions.mean(axis=0) == pytest.approx([40, 400, 2000], rel=0.12)
    assert found.traffic[-1] == pytest.approx(found.decisions.mean())
    assert "40 to 2,000 decisions each" in str(found)
    alone, learned = found.lost_by_player.mean(axis=1)[[found.alone, found.learned], 2]
    said = f"busiest player (2,000 decisions) loses {alone:.1f} alone and {learned:.1f} with PosseTS"
    assert said in str(found).replace("\n  ", " ")


def test_decisions_a_day():
    found = plan(players=2, arms=2, decisions=12.5, days=10, problems=2, policies=[])
    assert found.decisions.tolist() == [125, 125]
    assert "125 decisions each in 10 days" in str(found)
    assert found.figure().axes[0].get_xlabel() == "days"


def test_policies_of_one_s_own_are_compared_with_learning_alone(small):
    found = plan(**SMALL, seed=3, policies=[posse.IndUCB(), posse.RobustAggTS(0.15), posse.IndTS(c2=2)])
    assert [found.labels[n] for n in found.compared] == [
        "Ind-TS",
        "PosseTS",
        "Ind-UCB",
        "RobustAgg-TS(0.15)",
        "Ind-TS(c2=2)",
    ]
    assert found.lost[found.right].tolist() == small.lost[small.right].tolist()
    assert plan(**SMALL, policies=posse.IndUCB()).compared == (0, 1, 2)
    assert len(found.sweep) == len(found.sweep_epsilons) == 11


def test_policies_of_one_s_own_are_in_the_user_s_units():
    rewards = 100.0 * np.random.default_rng(1).integers(0, 2, 400)
    found = plan(
        table(rewards), reward="sales", reward_range=(0, 100), problems=2, decisions=20, policies=posse.RobustAggTS(4)
    )
    assert found.labels[found.compared[2]] == "RobustAgg-TS(4)"
    assert found.result.policies[found.compared[2]].epsilon == pytest.approx(0.04)
    with pytest.raises(ValueError, match="epsilon=400, but expected at most 100"):
        plan(table(rewards), reward="sales", reward_range=(0, 100), policies=posse.RobustAggTS(400))


def test_wrong_epsilons_stay_within_the_rewards():
    policies, roles = plan_policies(30.0, 100.0)
    assert roles.sweep_epsilons == pytest.approx([3, 6, 10, 15, 20, 30, 45, 60, 90])
    assert [policies[n].epsilon for n in roles.sweep] == pytest.approx(roles.sweep_epsilons / 100)


def test_progress_is_told():
    told: list[float] = []
    plan(**SMALL, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1


# Floor, holdout and equal shares


def test_floor_and_holdout_cost_what_equal_shares_lose(small):
    """Of two arms, a floor of 0.1 and a holdout of a quarter leave 0.75 · 0.8 of the decisions to the policy."""
    found = plan(**SMALL, seed=3, floor=0.1, holdout=0.25)
    assert found.forced == pytest.approx(0.4)
    assert found.lost == pytest.approx(0.6 * small.lost + 0.4 * small.lost_by_random)
    assert found.lost_by_player.sum(axis=2) == pytest.approx(found.lost)
    assert found.lost_over_time[..., -1] == pytest.approx(found.lost)
    assert found.lost_by("equal shares").tolist() == small.lost_by_random.tolist()
    assert found.test.lost.tolist() == small.test.lost.tolist()
    assert "a floor of 0.1 and a holdout of 0.25, 40 % of the decisions are drawn" in str(found).replace("\n  ", " ")


@pytest.mark.parametrize("policy", [posse.IndTS(), posse.PosseTS()], ids=lambda policy: policy.label)
def test_a_learner_with_floor_and_holdout_loses_about_that(policy):
    found = plan(
        players=3, arms=3, decisions=300, base=0.2, effect=0.3, epsilon=0.05, problems=8, floor=0.1, holdout=0.1
    )
    lost = []
    for seed, problem in enumerate(found.result.problems):
        learner = Learner(policy, ["0", "1", "2"], ["0", "1", "2"], 300, seed=seed, floor=0.1, holdout=0.1)
        gaps, random, total = problem.means.max(axis=1, keepdims=True) - problem.means, np.random.default_rng(seed), 0.0
        for _ in range(300):
            for decision in learner.choose(["0", "1", "2"]):
                player = int(decision.player)
                learner.observe(decision, float(random.random() < problem.means[player, int(decision.arm)]))
                total += float(gaps[player] @ list(decision.probabilities.values()))
        lost.append(total)
    assert np.mean(lost) == pytest.approx(found.mean_lost(policy.label).mean, rel=0.15)
    assert np.mean(lost) > 1.2 * found.result.final_regret[found.labels.index(policy.label)].mean(), "not free"


def test_a_policy_is_named_by_its_label_or_place(small):
    assert small.saving("PosseTS") == small.saving(small.learned)
    assert small.difference("Ind-TS", "PosseTS") == small.difference(small.alone, small.learned)
    assert small.saving("Ind-TS", "equal shares").mean == pytest.approx(
        1 - small.lost[small.alone].mean() / small.lost_by_random.mean()
    )
    with pytest.raises(ValueError, match=r"'Posse' is not in this plan; there are Ind-TS, .*, equal shares, then best"):
        small.saving("Posse")


def test_equal_shares_then_the_best_arm_loses_what_such_tests_lose(small):
    """Beside 300 tests of each problem, drawn reward by reward; another length loses more."""
    random, lost = np.random.default_rng(0), []
    length = round(small.test.part * 300)
    for problem in small.result.problems:
        gaps = (problem.means.max(axis=1, keepdims=True) - problem.means).sum(axis=0)
        for _ in range(300):
            arms = random.integers(0, 2, (4, length))
            rewards = random.random((4, length)) < np.take_along_axis(problem.means, arms, axis=1)
            shipped = np.argmax([rewards[arms == arm].mean() for arm in (0, 1)])
            lost.append(length * gaps.mean() + (300 - length) * gaps[shipped])
    assert small.test.lost.mean() == pytest.approx(np.mean(lost), rel=0.12)
    assert small.test.lost.mean() < small.lost_by_random.mean() / 4
    parts = np.array([0.5, 1.0])
    means = np.array([problem.means for problem in small.result.problems])
    assert best_test(means, 1.0, np.full((8, 4), 300), parts).part == 0.5


def test_levels_move_all_means_of_a_player_and_count_in_epsilon():
    options = {"players": 400, "arms": 3, "base": 0.03, "effect": 0.01, "epsilon": 0.001, "decisions": 1, "problems": 3}
    found = plan(**options, levels=0.02, policies=[])
    for k, problem in enumerate(found.result.problems):
        others = np.delete(problem.means, k, axis=1)
        assert others.min() >= 0.02 - 0.0005
        assert others.max() <= 0.04 + 0.0005
        assert np.ptp(others[:, 0]) > 0.018
        odds = np.log(problem.means / (1 - problem.means))
        assert odds[:, k] - odds.mean(axis=1) == pytest.approx(
            np.full(400, (odds[:, k] - odds.mean(axis=1)).mean()), abs=0.06
        )
        assert np.ptp(problem.means, axis=0).max() <= found.epsilon + 1e-3
    assert found.epsilon == pytest.approx(0.0275, abs=0.001)
    assert "earns between 0.02 and 0.04" in str(found)
    assert "at most ε = 0.0274 on an arm" in str(found).replace("\n  ", " ")
    with pytest.raises(ValueError, match=r"levels=0.06 around base=0.03, but expected less than 0.06"):
        plan(**options, levels=0.06)


# What is refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"players": 1}, "players=1, but expected a whole number of at least 2"),
        ({"arms": 1}, "arms=1"),
        ({"decisions": 0}, "decisions=0, but expected a number above 0"),
        ({"decisions": 0.2}, "decisions=0.2, but expected at least one"),
        ({"decisions": [10, 20], "players": 3}, "decisions are 2 numbers, but there are 3 players"),
        ({"days": 0}, "days=0"),
        ({"epsilon": 0}, "epsilon=0, but expected a number above 0 and at most 1"),
        ({"epsilon": 1.5}, "epsilon=1.5"),
        ({"effect": -0.1}, "effect=-0.1"),
        ({"base": 0.9, "effect": 0.2}, "base=0.9 with effect=0.2"),
        ({"problems": 1}, "problems=1, but expected a whole number of at least 2"),
        ({"seed": -1}, "seed=-1"),
        ({"floor": 0.4}, "floor=0.4, but expected a number in [0, 0.3333"),
        ({"holdout": 2}, "holdout=2"),
        ({"reward_range": (0, 5)}, "reward_range=(0, 5)"),
    ],
)
def test_a_guess_that_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        plan(**arguments)


def test_what_is_no_policy_is_refused():
    with pytest.raises(TypeError, match="'RobustAggTS' is no policy"):
        plan(policies=["RobustAggTS"])
    with pytest.raises(TypeError, match=r"'RobustAggTS' is no policy; expected one such as posse.RobustAggTS"):
        plan(policies="RobustAggTS")


def test_data_that_makes_no_sense_is_refused():
    counts = drawn_counts(0.05, 0.01, np.full((4, 3), 10), seed=0)[0]
    with pytest.raises(ValueError, match="players=4, but with a history this comes from the data"):
        plan(counts, players=4)
    with pytest.raises(ValueError, match="days=3, but how many decisions a day"):
        plan(counts, days=3)
    with pytest.raises(ValueError, match=r"epsilon=2, but expected a number above 0 and at most 1"):
        plan(counts, epsilon=2)
    with pytest.raises(ValueError, match="arm 'b' has no rewards on record"):
        plan(dataclasses.replace(counts, pulls=counts.pulls * [1, 0, 1], sums=counts.sums * [1, 0, 1]))
    with pytest.raises(
        ValueError, match=r"player 'p0' earned 99 with 10 pulls of arm 'a', but rewards are in \[0, 1\]"
    ):
        plan(dataclasses.replace(counts, sums=np.full((4, 3), 99.0)))
    with pytest.raises(ValueError, match="1 × 3 players and arms"):
        plan(Counts(("a",), counts.arms, counts.pulls[:1], counts.sums[:1]))
    with pytest.raises(ValueError, match=r"reward 7, but rewards are in \[0, 1\]; give --range LOW HIGH"):
        plan(table(np.full(50, 7.0)), reward="sales")
    with pytest.raises(ValueError, match="no column 'profit'"):
        plan(table(np.ones(50)), reward="profit")
    for wrong in ((3, 1), (1,), 5, (0, 1e300), (0, 1e-300)):
        with pytest.raises(ValueError, match=r"reward_range="):
            plan(table(np.ones(50)), reward="sales", reward_range=wrong)
