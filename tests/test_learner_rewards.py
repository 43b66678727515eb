"""What a learner is told: late, wrong and missing rewards, and everything that `observe` takes for one."""

from __future__ import annotations

import re

import numpy as np
import pyarrow
import pytest

import posse
from posse.learner import ConflictingReward, UnknownDecision
from small_learner import ARMS, SHOPS, Clock, new, state


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

    def test_a_list_takes_what_is_refused_and_the_rest_counts(self):
        learner = new()
        first, second, third = learner.choose(SHOPS)
        learner.observe(first, 1.0)
        given = [(first.id, 0.0), (second.id, 1.0), (third, "0,5"), ("nobody", 1.0), (second.id, 0.0), (third, None)]
        refused = []
        assert learner.observe(given, refused=refused) == 1
        assert [decision for decision, _ in refused] == [first.id, third.id, "nobody", second.id, third.id]
        kinds = [ConflictingReward, TypeError, UnknownDecision, ConflictingReward, TypeError]
        assert [type(error) for _, error in refused] == kinds
        for row, (_, error) in zip((0, 2, 3), refused, strict=False):
            with pytest.raises(type(error), match=re.escape(str(error))):
                learner.observe(given[row : row + 1])
        assert learner.counts().sums.sum() == 2
        again = []
        assert learner.observe(Frame(decision=[first.id, third.id], reward=[0.0, 0.5]), refused=again) == 1
        assert [decision for decision, _ in again] == [first.id]

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

    @pytest.mark.parametrize("kind", [Frame, Stream, lambda **columns: pyarrow.table(columns)])
    def test_a_table_of_past_rewards_is_recorded(self, kind):
        learner, other = new(), new()
        learner.record(kind(day=[1, 2], player=["north", "south"], arm=["tea", "cocoa"], reward=[1.0, 0.5]))
        other.record([("north", "tea", 1.0), ("south", "cocoa", 0.5)])
        assert state(learner) == state(other)
        with pytest.raises(
            ValueError, match="the columns are shop, arm, reward, but expected 'player', 'arm' and 'reward'"
        ):
            learner.record(kind(shop=["north"], arm=["tea"], reward=[1.0]))

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
