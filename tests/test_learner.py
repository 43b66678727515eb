"""The learner as a practitioner meets it: choose, units, joiners, many threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from scipy import stats

import posse
from small_learner import ARMS, SHOPS, new


class TestChoosing:
    def test_a_decision_says_all_there_is_to_know(self):
        decision = new().choose("north")
        assert decision.player == "north"
        assert decision.arm in ARMS
        assert list(decision.probabilities) == ARMS
        assert sum(decision.probabilities.values()) == pytest.approx(1)
        assert decision.propensity == decision.probabilities[decision.arm]
        assert (decision.round, decision.shared, decision.holdout) == (1, 0.0, False)

    def test_a_list_of_players_is_one_round(self):
        learner = new()
        decisions = learner.choose(["north", "east"])
        assert [decision.player for decision in decisions] == ["north", "east"]
        assert {decision.round for decision in decisions} == {1}
        assert learner.choose("north").round == 2
        assert learner.choose([]) == []
        assert learner.rounds == 3

    def test_players_of_one_round_do_not_see_each_others_waiting_pulls(self):
        learner = new(posse.NaiveAgg(), horizon=100)
        arms = {decision.arm for decision in learner.choose(SHOPS)}
        assert len(arms) == 1

    def test_the_same_seed_gives_the_same_decisions(self):
        assert [new().choose("north").arm for _ in range(3)] == [new().choose("north").arm for _ in range(3)]
        one, two = (new(seed=seed, arms=[str(k) for k in range(50)]) for seed in (1, 2))
        assert [one.choose("north").arm for _ in range(5)] != [two.choose("north").arm for _ in range(5)]

    def test_only_available_arms_are_chosen(self):
        learner = new()
        learner.record([("north", "tea", 1.0)] * 50 + [("north", "cocoa", 0.0)] * 50)
        decision = learner.choose("north", available=["coffee", "cocoa"])
        assert set(decision.probabilities) == {"coffee", "cocoa"}
        assert sum(decision.probabilities.values()) == pytest.approx(1, abs=1e-12)
        everything = learner.probabilities("north")
        assert (
            decision.probabilities["coffee"] > everything["coffee"] / (everything["coffee"] + everything["cocoa"]) / 2
        )
        assert learner.choose("north", available=["cocoa"]).propensity == 1

    def test_restricted_probabilities_are_those_of_the_restricted_race(self):
        """Two arms: the closed form."""
        learner = new(posse.IndTS())
        learner.record([("north", "tea", 1.0)] * 3 + [("north", "cocoa", 0.0)] * 5)
        (c1, s1), (c2, s2) = (learner.indices("north")[arm] for arm in ("tea", "cocoa"))
        expected = stats.norm.cdf((c1 - c2) / np.hypot(s1, s2))
        assert learner.probabilities("north", ["tea", "cocoa"])["tea"] == pytest.approx(expected, abs=1e-9)

    def test_the_floor_is_the_least_probability(self):
        learner = new(posse.IndTS(), floor=0.05)
        learner.record(
            [("north", "tea", 1.0)] * 10_000 + [("north", arm, 0.0) for arm in ARMS[1:] for _ in range(9999)]
        )
        probabilities = learner.probabilities("north")
        assert probabilities == pytest.approx({"tea": 0.9, "coffee": 0.05, "cocoa": 0.05}, abs=1e-9)
        assert learner.probabilities("north", ["coffee", "tea"]) == pytest.approx(
            {"tea": 0.95, "coffee": 0.05}, abs=1e-9
        )

    def test_the_holdout_is_uniform_and_as_large_as_said(self):
        learner = new(posse.IndTS(), holdout=0.3, floor=0.01)
        learner.record([("north", "tea", 1.0)] * 500 + [("north", arm, 0.0) for arm in ARMS[1:] for _ in range(500)])
        decisions = [learner.choose("north") for _ in range(6000)]
        held = [decision.arm for decision in decisions if decision.holdout]
        assert stats.binomtest(len(held), len(decisions), 0.3).pvalue > 1e-4
        assert stats.chisquare([held.count(arm) for arm in ARMS]).pvalue > 1e-4
        rest = [decision.arm for decision in decisions if not decision.holdout]
        assert rest.count("tea") / len(rest) > 0.96
        probability = decisions[0].probabilities["coffee"]
        assert probability == pytest.approx(0.3 / 3 + 0.7 * 0.01, abs=1e-9)
        chosen = sum(decision.arm == "coffee" for decision in decisions)
        assert stats.binomtest(chosen, len(decisions), probability).pvalue > 1e-4
        assert all(decision.shared == 0 for decision in decisions if decision.holdout)


class TestRange:
    def test_rewards_and_epsilon_are_in_the_users_units(self):
        euros = new(posse.RobustAggTS(5.0), reward_range=(-10, 40))
        unit = new(posse.RobustAggTS(0.1))
        rewards = [("north", "tea", 0.5), ("south", "tea", 0.75), ("south", "cocoa", 0.0)]
        unit.record(rewards)
        euros.record([(shop, arm, -10 + 50 * reward) for shop, arm, reward in rewards])
        assert euros.indices("south") == unit.indices("south")
        assert euros.counts().sums.tolist() == pytest.approx(np.array([[15, 0, 0], [27.5, 0, -10], [0, 0, 0]]))
        assert (euros.counts().low, euros.counts().high, euros.counts().epsilon) == (-10, 40, 5)

    def test_the_spread_of_hierts_is_in_the_users_units(self):
        assert new(posse.HierTS(2.0), reward_range=(0, 20)).state.core.policy == posse.HierTS(0.1)

    def test_outside_the_range_is_refused(self):
        learner = new(reward_range=(-1, 1))
        decision = learner.choose("north")
        with pytest.raises(ValueError, match=r"expected a number in \[-1, 1\]"):
            learner.observe(decision.id, 1.5)
        assert learner.observe(decision.id, -1) == 1

    def test_an_epsilon_beyond_the_range_is_refused(self):
        with pytest.raises(ValueError, match=r"epsilon=5, but expected at most 2: rewards are in \[-1, 1\]"):
            new(posse.RobustAggTS(5), reward_range=(-1, 1))
        with pytest.raises(ValueError, match="epsilon=5"):
            posse.simulate(posse.Problem([[0.5]]), posse.RobustAggTS(5), 10)


class TestHorizon:
    def test_past_the_horizon_time_takes_over(self):
        short, anytime = new(posse.IndUCB(), horizon=5), new(posse.IndUCB())
        for learner in (short, anytime):
            for _ in range(20):
                learner.record([("north", "tea", 0.5)])
        assert short.indices("north") == anytime.indices("north")
        long = new(posse.IndUCB(), horizon=10**6)
        for _ in range(20):
            long.record([("north", "tea", 0.5)])
        assert long.indices("north") != anytime.indices("north")


class TestComingAndGoing:
    def test_a_new_player_starts_from_what_the_others_know(self):
        learner = new()
        learner.record([("north", "tea", 1.0)] * 200 + [("south", "coffee", 0.0)] * 200)
        learner.join("west")
        learner.join("far west", knows_others=False)
        assert learner.indices("west")["tea"][0] == pytest.approx(1.1)
        assert learner.indices("far west")["tea"] == (0.0, 1.0)
        learner.record([("far west", "tea", 1.0)])
        assert learner.indices("far west")["tea"][0] == pytest.approx(1.1)

    def test_players_count_in_the_formulas(self):
        learner = new()
        learner.record([("north", "tea", 0.5)] * 30)
        scale = learner.indices("north")["tea"][1]
        assert scale == pytest.approx((30 - 3) ** -0.5)
        learner.join("west")
        assert learner.indices("north")["tea"][1] == pytest.approx((30 - 4) ** -0.5)
        learner.retire("south")
        learner.retire("west")
        assert learner.indices("north")["tea"][1] == pytest.approx((30 - 2) ** -0.5)

    def test_a_retired_player_leaves_its_knowledge_and_may_come_back(self):
        learner = new()
        decision = learner.choose("south")
        learner.record([("south", "tea", 1.0)] * 40)
        learner.retire("south")
        assert learner.players == ("north", "east")
        with pytest.raises(ValueError, match="player 'south' has retired"):
            learner.choose("south")
        learner.observe(decision.id, 0.5)
        learner.record([("north", "tea", 1.0)])
        assert learner.indices("north")["tea"][0] > 1
        learner.join("south")
        assert learner.counts().pulls[1].sum() == 41

    def test_arms_come_and_go(self):
        learner = new()
        decision = learner.choose("north", available=["tea"])
        learner.add_arm("juice")
        learner.retire_arm("tea")
        assert learner.arms == ("coffee", "cocoa", "juice")
        assert set(learner.choose("north").probabilities) == {"coffee", "cocoa", "juice"}
        learner.observe(decision.id, 1.0)
        with pytest.raises(ValueError, match="arm 'tea' has retired"):
            learner.choose("north", available=["tea"])
        learner.retire_arm("coffee")
        learner.retire_arm("cocoa")
        with pytest.raises(ValueError, match="'juice' is the last one"):
            learner.retire_arm("juice")
        learner.add_arm("tea")
        assert learner.state.known.statistics[0, 0, 0] == 1

    def test_an_unknown_name_is_compared_with_those_there_are(self):
        learner = new()
        with pytest.raises(ValueError, match=r"no player 'nort' \(did you mean north\?\); there are north"):
            learner.choose("nort")
        with pytest.raises(ValueError, match=r"no arm 'coffe' \(did you mean coffee\?\); there are"):
            learner.choose("north", available=["coffe"])

    def test_a_learner_may_begin_without_players(self):
        learner = new(players=())
        with pytest.raises(ValueError, match=r"no player 'north'; there are none \(join adds one\)"):
            learner.choose("north")
        learner.join("north")
        assert learner.choose("north").player == "north"


def test_many_threads_lose_nothing():
    learner = new(posse.RobustAgg(0.1), horizon=1000)

    def work(shop):
        for _ in range(150):
            decision = learner.choose(shop)
            learner.observe(decision.id, 0.5)

    threads = [threading.Thread(target=work, args=(shop,)) for shop in SHOPS * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert learner.decisions == learner.rounds == 900
    assert learner.counts().pulls.sum() == 900
    assert learner.counts().sums.sum() == 450
    assert not learner.state.waiting.any()
    assert len(set(learner.log().column("decision").to_pylist())) == 900
