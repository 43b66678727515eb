"""Summaries among many players of whom few have data: the same bits as with a column for each player."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import posse
from posse.learner import runs
from posse.learner.runs import add_times, runs_of

REGIONS = {"region": ["north", "south", "east"], "age": [30, 50]}


class TestAdding:
    @settings(max_examples=300, deadline=None, derandomize=True)
    @given(
        st.floats(-1e6, 1e6),
        st.one_of(st.floats(-10, 10), st.floats(-1e-15, 1e-15), st.sampled_from([1.5 * 2.0**-52, 0.5, -(2.0**-53)])),
        st.integers(0, 3000),
    )
    @example(1.0, 1.0, 2000)
    @example(1.0 + 2.0**-52, 1.5 * 2.0**-52, 2000)  # ties are rounded to even
    @example(-1.0, 1e-3, 2000)  # through 0
    @example(1.0, 2.0**-53, 2000)
    @example(0.0, 0.1, 2000)
    def test_a_value_many_times_as_in_a_loop(self, total, value, times):
        expected = total
        for _ in range(times):
            expected += value
        assert add_times(total, value, times) == expected

    def test_it_is_not_a_product(self):
        """Negative control: rounding differs."""
        assert add_times(0.0, 0.1, 1000) != 100.0


class TestColumns:
    def test_players_without_data_next_to_each_other_are_one(self):
        has_data = np.zeros(1000, bool)
        has_data[[0, 5, 6, 400]] = True
        last, times, some = runs_of(has_data)
        assert last.tolist() == [0, 4, 5, 6, 399, 400, 999]
        assert times.tolist() == [1, 4, 1, 1, 393, 1, 599]
        assert some.tolist() == [True, False, True, True, False, True, False]

    @pytest.mark.parametrize("players", [0, 5, 255])
    def test_few_players_have_their_own(self, players):
        assert runs_of(np.zeros(players, bool)) is None

    def test_many_with_data_have_their_own(self):
        assert runs_of(np.arange(1000) % 3 == 0) is None
        assert runs_of(np.arange(1000) % 5 == 0) is not None


def life(policy, told, seed, players=300):
    """What a learner says and knows, again and again, while players act, join, and an arm comes."""
    chance = random.Random(seed)
    regions, ages = [*REGIONS["region"], None], [20, 40, 60, None]
    attributes = {"attributes": REGIONS} if told else {}

    def known():
        return {"region": chance.choice(regions), "age": chance.choice(ages)} if told else {}

    first = {str(player): known() for player in range(players)}
    learner = posse.Learner(policy, ["a", "b", "c"], first if told else list(first), seed=seed, **attributes)
    seen, busy = [], [str(player) for player in chance.sample(range(players), 12)]
    for step in range(160):
        player = chance.choice(busy) if chance.random() < 0.8 else str(chance.randrange(players))
        decision = learner.choose(player)
        means = {"a": 0.3, "b": 0.9 if int(player) % 2 else 0.1, "c": 0.5, "d": 0.6}
        learner.observe(decision, float(chance.random() < means[decision.arm]))
        seen.append((decision.probabilities, decision.arm, decision.shared))
        if step % 20 == 7:
            learner.join(f"new {step}", known() or None)
            seen.append(learner.probabilities(f"new {step}"))
        if step == 70:
            learner.record([(str(player), "a", 1.0) for player in range(3)])
        if step == 90:
            learner.add_arm("d")
        if step % 50 == 49:
            seen.append([numbers.tolist() for numbers in learner.state.beliefs()])
    everything = learner.state.all_known()
    return seen, {name: getattr(everything, name).tolist() for name in (*learner.state.core.kept, "of_pair")}


@pytest.mark.parametrize("policy", [posse.PosseTS(), posse.PosseTS(0.2), posse.PosseTS(forget=80)], ids=str)
@pytest.mark.parametrize("told", [False, True], ids=["names", "attributes"])
def test_a_learner_is_the_same_as_with_a_column_for_each_player(policy, told, monkeypatch):
    made = []
    monkeypatch.setattr("posse.learner.core.runs_of", lambda has_data: made.append(runs_of(has_data)) or made[-1])
    small = life(policy, told, seed=3)
    assert any(each is not None for each in made)
    monkeypatch.setattr(runs, "MANY", 10**9)
    made.clear()
    large = life(policy, told, seed=3)
    assert all(each is None for each in made)
    assert repr(small) == repr(large)


def test_a_file_holds_what_was_not_looked_up(tmp_path):
    learner = posse.Learner(posse.PosseTS(), ["a", "b"], range(400), seed=1)
    for player in (3, 17, 255):
        learner.observe(learner.choose(player), 1.0)
    learner.save(tmp_path / "learner")
    again = posse.Learner.load(tmp_path / "learner")
    assert all(again.probabilities(player) == learner.probabilities(player) for player in range(400))


def test_a_player_asked_for_twice_in_a_round_is_told_the_same():
    """By attributes one player may come several times in one call."""
    learner = posse.Learner(arms=["a", "b"], players=range(400), attributes=REGIONS, seed=1)
    who = {"region": "north", "age": 20}
    learner.observe(learner.choose(who), 1.0)
    one, other = learner.choose([who, who])
    assert one.probabilities == other.probabilities


def test_more_values_of_attributes_than_players_may_be_told_of():
    """Scratch has a place for each value; that of the players alone would be too small."""
    learner = posse.Learner(arms=["a", "b"], attributes={"town": "category", "road": "category"}, seed=1)
    for player in range(300):
        learner.join(str(player), {"town": f"town {player}", "road": f"road {player}"})
    learner.observe(learner.choose("7"), 1.0)
    assert sum(learner.probabilities("8").values()) == pytest.approx(1)
