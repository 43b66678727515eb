"""The learner as a practitioner meets it: choose, observe, late and wrong rewards, joiners, limits."""

from __future__ import annotations

import copy
import pickle
import threading
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow
import pytest
from scipy import stats

import posse
from posse.learner import ConflictingReward, UnknownDecision

ARMS = ["tea", "coffee", "cocoa"]
SHOPS = ["north", "south", "east"]


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def new(policy=None, **options):
    options = {"arms": ARMS, "players": SHOPS, "seed": 3, **options}
    return posse.Learner(policy or posse.RobustAggTS(0.1), **options)


def state(learner):
    """Everything that decides, to be compared."""
    return (
        *(getattr(learner.state.known, name).tolist() for name in learner.state.core.kept),
        learner.state.waiting.tolist(),
        learner.rounds,
        learner.decisions,
        learner.events,
        learner.state.player_roster.names,
        learner.state.player_roster.here.tolist(),
        learner.state.arm_roster.names,
        learner.state.arm_roster.here.tolist(),
    )


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


class TestRewards:
    def test_a_reward_counts_once_however_often_it_is_reported(self):
        learner = new()
        decision = learner.choose("north")
        assert learner.observe(decision.id, 1.0) == 1
        after = state(learner)
        assert learner.observe(decision.id, 1) == 0
        assert learner.observe({decision.id: 1.0}) == 0
        assert state(learner) == after
        assert learner.counts().pulls.sum() == 1

    def test_another_reward_for_the_same_decision_is_refused(self):
        learner = new()
        decision = learner.choose("north")
        learner.observe(decision.id, 1.0)
        with pytest.raises(ConflictingReward, match=f"{decision.id} already has the reward 1; 0.5 is refused"):
            learner.observe(decision.id, 0.5)
        assert learner.counts().sums.sum() == 1

    @pytest.mark.parametrize("reward", [float("nan"), float("inf"), -0.1, 1.1, "1", None, [1]])
    def test_what_is_no_reward_is_refused_by_name(self, reward):
        learner = new()
        decision = learner.choose("north")
        before = state(learner)
        with pytest.raises((ValueError, TypeError), match=decision.id):
            learner.observe(decision.id, reward)
        assert state(learner) == before

    @pytest.mark.parametrize(
        "identity", ["", "0", "7-00000000", "0-00000000", "x-12345678", "-1-12345678", 0, None, "٣-00000000"]
    )
    def test_an_unknown_decision_is_refused(self, identity):
        learner = new()
        learner.choose("north")
        before = state(learner)
        with pytest.raises(UnknownDecision, match="is not"):
            learner.observe([(identity, 1.0)])
        assert state(learner) == before

    def test_a_decision_of_another_learner_is_refused(self):
        mine, other = new(), new(seed=4)
        mine.choose("north")
        with pytest.raises(UnknownDecision):
            mine.observe(other.choose("north").id, 1.0)

    def test_a_batch_with_one_bad_report_changes_nothing(self):
        learner = new()
        first, second = learner.choose(["north", "south"])
        before = state(learner)
        with pytest.raises(ValueError, match=second.id):
            learner.observe([(first.id, 1.0), (second.id, 2.0)])
        with pytest.raises(ConflictingReward, match="two rewards, 1 and 0"):
            learner.observe([(first.id, 1.0), (first.id, 0.0)])
        assert state(learner) == before
        assert learner.observe([(first.id, 1.0), (second.id, 0.0), (first.id, 1.0)]) == 2

    def test_rewards_come_late_and_in_any_order_and_give_the_same_counts(self):
        decisions = None
        ends = []
        for order in (1, -1):
            learner = new()
            decisions = [learner.choose("south") for _ in range(20)]
            for place in range(20)[::order]:
                learner.observe(decisions[place].id, place / 20)
            ends.append((learner.counts().pulls.tolist(), learner.counts().sums.tolist()))
        assert ends[0] == ends[1]

    def test_the_last_pull_is_the_one_whose_reward_came_last(self):
        """RobustAgg-TS sees others' data when a reward of its own for the arm comes, not when it chooses."""
        learner = new(players=["north", "south"], arms=["tea"])
        mine = learner.choose("north")
        learner.record([("south", "tea", 1.0)] * 10)
        assert learner.state.known.seen[0, 0, 0] == 0
        learner.observe(mine.id, 0.0)
        assert learner.state.known.seen[:, 0, 0].tolist() == [11, 10]
        learner.record([("south", "tea", 1.0)])
        assert learner.state.known.seen[:, 0, 0].tolist() == [11, 10]

    def test_waiting_pulls_count_for_policies_without_randomness(self):
        """With rewards that are late, Ind-UCB tries all arms instead of one again and again."""
        learner = new(posse.IndUCB(), horizon=1000)
        assert [learner.choose("north").arm for _ in range(3)] == ARMS
        assert {learner.choose("north").arm for _ in range(30)} == set(ARMS)

    @pytest.mark.parametrize("policy", [posse.RobustAgg(0.1), posse.NaiveAgg()])
    def test_waiting_pulls_of_others_count_too_where_their_data_does(self, policy):
        learner = new(policy, horizon=1000)
        assert {learner.choose(shop).arm for shop in SHOPS * 5} == set(ARMS)

    def test_waiting_pulls_do_not_count_for_thompson_sampling(self):
        learner = new(posse.IndTS())
        before = learner.probabilities("north")
        for _ in range(20):
            learner.choose("north")
        assert learner.probabilities("north") == before

    def test_once_all_rewards_came_waiting_leaves_no_trace(self):
        learner = new(posse.IndUCB(), horizon=1000)
        decisions = [learner.choose("north") for _ in range(9)]
        learner.observe([(decision.id, 0.25) for decision in decisions])
        direct = new(posse.IndUCB(), horizon=1000)
        direct.record([("north", decision.arm, 0.25) for decision in decisions])
        assert learner.indices("north") == direct.indices("north")

    def test_memory_is_bounded_when_rewards_never_come(self):
        learner = new(waiting_limit=50)
        decisions = [learner.choose("north") for _ in range(500)]
        assert len(learner.ledger.waiting) == 50
        assert learner.ledger.given_up == 450
        assert learner.state.waiting.sum() == 50
        with pytest.raises(UnknownDecision, match="given up when 50 newer ones waited"):
            learner.observe(decisions[0].id, 1.0)
        assert learner.observe(decisions[-50].id, 1.0) == 1

    def test_without_a_log_answers_are_bounded_too(self):
        learner = new(waiting_limit=10, keep_log=False)
        decisions = []
        for _ in range(100):
            decisions.append(learner.choose("north"))
            learner.observe(decisions[-1].id, 1.0)
        assert len(learner.ledger.answers) == 10
        assert learner.observe(decisions[-1].id, 1.0) == 0
        with pytest.raises(UnknownDecision):
            learner.observe(decisions[0].id, 1.0)
        assert learner.counts().pulls.sum() == 100
        with pytest.raises(ValueError, match="keeps no log"):
            learner.log()

    def test_a_default_reward_is_taken_after_the_time_limit(self):
        clock = Clock()
        learner = new(default_reward=0.25, patience=60, clock=clock)
        late = learner.choose("north")
        clock.now += 30
        later = learner.choose("south")
        clock.now += 30
        learner.choose("east")
        assert learner.counts().sums.sum() == 0.25
        assert learner.observe(later.id, 1.0) == 1
        with pytest.raises(ConflictingReward, match=r"0\.25, taken by default after 60 s; 1 is refused"):
            learner.observe(late.id, 1.0)
        assert learner.observe(late.id, 0.25) == 0
        assert learner.log().column("defaulted").to_pylist() == [True, False, None]

    def test_a_clock_that_goes_back_takes_nothing_too_early(self):
        clock = Clock()
        learner = new(default_reward=0.0, patience=60, clock=clock)
        learner.choose("north")
        clock.now -= 500
        learner.choose("north")
        assert learner.ledger.waiting[1].decided_at == 1000
        clock.now = 1059
        learner.choose("north")
        assert learner.counts().pulls.sum() == 0


class Frame:
    """Columns by name, as pandas and polars have them."""

    def __init__(self, **columns):
        self.columns, self.data = list(columns), columns

    def __getitem__(self, name):
        return self.data[name]


class Stream:
    """A table that is known by its Arrow stream alone."""

    def __init__(self, **columns):
        self.table = pyarrow.table(columns)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class TestFormsOfReports:
    """Everything that `observe` takes in place of an id and a number."""

    @pytest.mark.parametrize("reward", [True, np.True_])
    def test_a_decision_stands_for_its_id_and_a_truth_value_for_a_number(self, reward):
        learner = new()
        one, two, three, four = (learner.choose("north") for _ in range(4))
        assert learner.observe(one, reward) == 1
        assert learner.observe(two.id, not reward) == 1
        assert learner.observe({three: reward, four.id: False, one: 1.0}) == 2
        assert learner.observe([(one, 1.0), [two, 0]]) == 0
        assert learner.counts().sums.sum() == 2
        learner.record([("north", "tea", reward)])
        assert learner.counts().sums.sum() == 3

    @pytest.mark.parametrize("identity", ["decision", "id"])
    @pytest.mark.parametrize("kind", [Frame, Stream, lambda **columns: pyarrow.table(columns)])
    def test_a_table_has_the_decisions_and_rewards_in_columns(self, kind, identity):
        learner = new()
        ids = [decision.id for decision in learner.choose(SHOPS)]
        table = {identity: ids, "shop": SHOPS, "reward": [1.0, 0.5, 0.25]}
        assert learner.observe(kind(**table)) == 3
        assert learner.counts().sums.sum() == 1.75
        before = state(learner)
        assert learner.observe(kind(**{name: values[:0] for name, values in table.items()})) == 0
        with pytest.raises(ConflictingReward):
            learner.observe(kind(**table | {"reward": [1.0, 0.5, 0.0]}))
        with pytest.raises(
            ValueError, match=r"the columns are .*shop.*, but expected 'decision' or 'id', and 'reward'"
        ):
            learner.observe(kind(**{identity: ids, "shop": SHOPS}))
        with pytest.raises(ValueError, match="but expected 'decision'"):
            learner.observe(kind(shop=SHOPS, reward=[1.0, 1.0, 1.0]))
        with pytest.raises(UnknownDecision, match="'north' is not known"):
            learner.observe(kind(decision=SHOPS, reward=[True, True, True]))
        assert state(learner) == before

    @pytest.mark.parametrize("name", ["pandas", "polars"])
    def test_a_real_data_frame(self, name):
        library, learner = pytest.importorskip(name), new()
        ids = [decision.id for decision in learner.choose(SHOPS)]
        assert learner.observe(library.DataFrame({"decision": ids, "reward": [True, False, True]})) == 3

    def test_a_row_without_a_reward_is_refused_and_nothing_is_taken(self):
        learner = new()
        one, two = learner.choose(["north", "south"])
        for reward in (None, float("nan")):
            with pytest.raises((ValueError, TypeError), match=two.id):
                learner.observe(Frame(decision=[one.id, two.id], reward=[1.0, reward]))
        assert learner.counts().pulls.sum() == 0

    def test_whole_numbers_name_players_and_arms(self, tmp_path):
        """They become strings, also in what comes back."""
        learner = posse.Learner(posse.IndTS(), arms=range(3), players=[1, np.int64(2)])
        decision = learner.choose(1, available=[0, "2"])
        assert (decision.player, learner.players, learner.arms) == ("1", ("1", "2"), ("0", "1", "2"))
        assert set(decision.probabilities) == {"0", "2"}
        learner.record([(2, 1, 1.0)])
        learner.join(np.int64(7))
        learner.add_arm(3)
        learner.retire("1")
        learner.retire_arm(0)
        assert [made.player for made in learner.choose([2, "7"])] == ["2", "7"]
        assert learner.probabilities(7, [3]) == {"3": 1.0}
        learner.save(tmp_path / "learner.json")
        for again in (posse.Learner.load(tmp_path / "learner.json"), posse.Learner.replay(learner.log())):
            assert state(again) == state(learner)
        with pytest.raises(TypeError, match="a name is a string"):
            learner.choose(True)
        with pytest.raises(ValueError, match="player '7' is here already"):
            learner.join(7)


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

    def test_a_learner_may_begin_without_players(self):
        learner = new(players=())
        with pytest.raises(ValueError, match=r"no player 'north'; there are none \(join adds one\)"):
            learner.choose("north")
        learner.join("north")
        assert learner.choose("north").player == "north"


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"arms": []}, "no arms given"),
            ({"arms": ["tea", "tea"]}, "arm 'tea' is named twice"),
            ({"arms": "tea"}, "expected names"),
            ({"arms": [1.0, 2.0]}, "a name is a string"),
            ({"arms": [True]}, "a name is a string"),
            ({"arms": [1, "1"]}, "arm '1' is named twice"),
            ({"arms": [""]}, "1 to 200 printable characters"),
            ({"arms": ["a\0b"]}, "printable"),
            ({"players": ["x" * 201]}, "1 to 200"),
            ({"players": 5}, "expected names"),
            ({"horizon": 0}, "horizon=0"),
            ({"horizon": 1.5}, "horizon=1.5"),
            ({"seed": -1}, "seed=-1"),
            ({"reward_range": (1, 0)}, "lowest < highest"),
            ({"reward_range": (0, float("inf"))}, "highest reward"),
            ({"reward_range": 5}, "expected .lowest, highest."),
            ({"floor": 0.4}, "3 arms can have at most 0.3333"),
            ({"floor": -0.1}, "floor=-0.1"),
            ({"holdout": 1.5}, "holdout=1.5"),
            ({"default_reward": 0.0}, "both or neither"),
            ({"default_reward": 2.0, "patience": 5}, "default_reward=2.0"),
            ({"default_reward": 0.0, "patience": 0}, "patience=0"),
            ({"waiting_limit": 0}, "waiting_limit=0"),
            ({"keep_log": 1}, "keep_log=1"),
            ({"reward_range": (0, 5e-324)}, "lowest < highest"),
            ({"arms": [" "]}, "printable"),
            ({"clock": 5}, "clock=5"),
        ],
    )
    def test_a_wrong_set_up_is_named(self, options, message):
        with pytest.raises((ValueError, TypeError), match=message):
            new(**options)

    def test_a_class_is_no_policy(self):
        with pytest.raises(TypeError, match="expected a policy such as"):
            new(posse.RobustAggTS)

    @pytest.mark.parametrize(
        "act",
        [
            lambda learner: learner.choose("west"),
            lambda learner: learner.choose(["north", "north"]),
            lambda learner: learner.choose(["north", "west"]),
            lambda learner: learner.choose(5),
            lambda learner: learner.choose("north", available=[]),
            lambda learner: learner.choose("north", available=["juice"]),
            lambda learner: learner.choose("north", available="tea"),
            lambda learner: learner.observe([("a", 1, 2)]),
            lambda learner: learner.observe(["0-00000000"]),
            lambda learner: learner.observe(["0-00000000"], 1.0),
            lambda learner: learner.record([("west", "tea", 1.0)]),
            lambda learner: learner.record([("north", "tea", 1.0), ("north", "juice", 1.0)]),
            lambda learner: learner.record([("north", "tea", 1.0), ("north", "tea", 7.0)]),
            lambda learner: learner.record([("north", "tea")]),
            lambda learner: learner.record(5),
            lambda learner: learner.observe(5),
            lambda learner: learner.observe(learner.choose, 1.0),
            lambda learner: learner.join("west", knows_others="no"),
            lambda learner: learner.join("north"),
            lambda learner: learner.join(""),
            lambda learner: learner.retire("west"),
            lambda learner: learner.add_arm("tea"),
            lambda learner: learner.retire_arm("juice"),
        ],
    )
    def test_a_wrong_call_changes_nothing(self, act):
        learner = new()
        learner.choose("north")
        before = state(learner)
        with pytest.raises((ValueError, TypeError)):
            act(learner)
        assert state(learner) == before

    def test_a_clock_without_a_time_is_refused(self):
        clock = Clock()
        learner = new(clock=clock)
        clock.now = float("nan")
        with pytest.raises(ValueError, match="the clock says nan"):
            learner.choose("north")
        assert learner.rounds == 0

    def test_a_policy_without_a_usable_index_changes_nothing(self):
        @dataclass(frozen=True)
        class Broken(posse.Policy):
            @staticmethod
            def index(n, s, N, S, M, log_T):
                return float("nan"), 1.0

        learner = new(Broken())
        before = state(learner)
        with pytest.raises(ValueError, match="Broken gives no usable index"):
            learner.choose(["north", "south"])
        assert state(learner) == before

    def test_numbers_of_other_kinds_are_taken_and_saved(self, tmp_path):
        learner = new(
            horizon=np.int64(100),
            seed=np.int64(5),
            floor=np.float32(0.125),
            holdout=Fraction(1, 4),
            reward_range=np.array([0, 10]),
            waiting_limit=np.int32(7),
            default_reward=Decimal(0),
            patience=np.int64(60),
            players=[np.str_("north"), "south"],
        )
        decision = learner.choose("north")
        learner.observe(decision.id, Decimal("2.5"))
        learner.save(tmp_path / "learner.json")
        assert posse.Learner.load(tmp_path / "learner.json").counts().sums.sum() == pytest.approx(2.5)

    def test_a_copy_is_refused(self):
        for act in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="save it and load it"):
                act(new())

    def test_a_floor_that_another_arm_would_break_refuses_the_arm(self):
        learner = new(floor=0.3)
        with pytest.raises(ValueError, match=r"4 arms can have at most 0\.25"):
            learner.add_arm("juice")
        assert learner.arms == tuple(ARMS)


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
