"""Saving, loading, the log and its replay."""

from __future__ import annotations

import random

import pyarrow.parquet
import pytest
from busy_learner import busy

import posse
from posse.insight.logs import read_log
from posse.learner.roster import Roster
from posse.policies import all_policies
from posse.policies.statistics import COUNT
from posse.testing import example
from small_learner import ARMS, Clock, new, state

POLICIES = [example(cls) for cls in all_policies() if cls.__module__.startswith("posse.policies.")]


def test_who_is_here_as_somebody_holds_it_does_not_change_when_others_come_and_go():
    chance, roster, here, held = random.Random(1), Roster("player", []), [], []
    for step in range(200):
        held.append((roster.here, list(here)))
        place = chance.randrange(2 * len(here) + 1)
        if place >= len(here):
            roster.add(f"p{len(here)}")
            here.append(True)
        else:
            (roster.retire if here[place] else roster.add)(f"p{place}")
            here[place] = not here[place]
        assert (roster.count, roster.current(f"p{here.index(True)}")) == (sum(here), here.index(True)), step
    assert len(here) > 100
    assert all(array.tolist() == values for array, values in [*held, (roster.here, here)])
    part = roster.copy_of(["p7", "nobody", "p7", "p3"])
    assert list(part) == [("p7", here[7]), ("p3", here[3])]
    assert part.count == roster.count


def future(learner, steps=30):
    """What a learner decides from here on, told 1 for every decision."""
    seen = []
    for _ in range(steps):
        decisions = learner.choose(learner.players)
        seen += [(d.id, d.arm, d.propensity, d.shared) for d in decisions]
        learner.observe([(d.id, 1.0) for d in decisions])
    return seen


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
class TestEveryPolicy:
    @pytest.mark.parametrize("rewards", [0, 1, 3])
    def test_one_that_knows_next_to_nothing_can_be_saved(self, policy, rewards, tmp_path):
        learner = new(policy)
        for _ in range(rewards):
            learner.observe(learner.choose("north").id, 1.0)
        learner.save(tmp_path / "learner.json")
        assert state(posse.Learner.load(tmp_path / "learner.json")) == state(learner)

    def test_a_loaded_learner_goes_on_as_if_it_had_never_stopped(self, policy, tmp_path):
        learner, clock = busy(policy)
        learner.save(tmp_path / "learner.json")
        loaded = posse.Learner.load(tmp_path / "learner.json", clock=clock)
        assert state(loaded) == state(learner)
        assert future(loaded) == future(learner)

    def test_replaying_the_log_gives_the_same_state(self, policy, tmp_path):
        learner, clock = busy(policy)
        path = tmp_path / "log.parquet"
        pyarrow.parquet.write_table(learner.log(), path)
        table = pyarrow.parquet.read_table(path)
        again = posse.Learner.replay(table, clock=clock)
        assert state(again) == state(learner)
        assert again.log().equals(table, check_metadata=True)
        assert future(again) == future(learner)


class TestLog:
    def test_its_columns_are_the_documented_ones(self):
        learner, _ = busy(posse.RobustAggTS(0.1))
        table = learner.log()
        assert table.column_names == [
            "decision",
            "round",
            "player",
            "arm",
            "propensity",
            "probabilities",
            "holdout",
            "shared",
            "reward",
            "observed",
            "defaulted",
            "decided_at",
            "observed_at",
        ]
        rows = table.to_pylist()
        assert [row["round"] for row in rows] == sorted(row["round"] for row in rows)
        past = [row for row in rows if row["decision"] is None]
        assert [(row["player"], row["propensity"], row["reward"]) for row in past] == [
            ("north", None, 0.5),
            ("south", None, 0.25),
        ]
        assert sum(row["reward"] is None for row in rows) == len(learner.ledger.waiting)

    @pytest.mark.parametrize("policy", [posse.RobustAggTS(0.1), posse.IndUCB()])
    def test_it_has_the_probability_of_every_arm_that_was_available(self, policy, tmp_path):
        """None for an arm that was not available; 0 for one that was, but could not be chosen."""
        learner = new(policy)
        learner.record([("north", "tea", 1.0)] * 9)
        decisions = [learner.choose("north"), learner.choose("south", available=["cocoa", "tea"])]
        learner.add_arm("juice")
        learner.retire_arm("coffee")
        decisions += learner.choose(["north", "east"])
        learner.observe([(decision.id, 0.5) for decision in decisions[:3]])
        learner.save(tmp_path / "learner.json")
        loaded = posse.Learner.load(tmp_path / "learner.json")
        for table in (learner.log(), loaded.log(), posse.Learner.replay(learner.log()).log()):
            assert table["probabilities"].to_pylist()[:9] == [None] * 9
            logged = table["probabilities"].to_pylist()[9:]
            assert [len(row) for row in logged] == [3, 3, 4, 4]
            for row, decision in zip(logged, decisions, strict=True):
                named = dict(zip([*ARMS, "juice"], row, strict=False))
                assert {arm: p for arm, p in named.items() if p is not None} == decision.probabilities
                assert named[decision.arm] == decision.propensity

    def test_a_log_longer_than_one_part_is_whole(self, tmp_path, monkeypatch):
        monkeypatch.setattr(posse.learner.ledger, "PART", 100)
        learner, clock = busy(posse.RobustAggTS(0.1))
        learner.save(tmp_path / "learner.json")
        loaded = posse.Learner.load(tmp_path / "learner.json", clock=clock)
        assert loaded.log().equals(learner.log(), check_metadata=True)
        assert loaded.log().num_rows > 50
        assert future(loaded) == future(learner)
        assert loaded.log().equals(learner.log())

    def test_counts_of_the_log_are_the_learners(self):
        learner, clock = busy(posse.RobustAggTS(0.1))
        clock.now += learner.setup.patience  # before that, early rewards are in the learner's counts alone
        counts = read_log(learner.log()).counts()
        assert counts.pulls.tolist() == learner.state.known.statistics[COUNT].T.tolist()
        assert counts.epsilon == 0.1

    def test_a_log_with_missing_rows_is_refused(self):
        learner, _ = busy(posse.RobustAggTS(0.1))
        table = learner.log()
        answered = [row for row, reward in enumerate(table["reward"].to_pylist()) if reward is not None]
        rows = range(table.num_rows)
        for kept in (
            [row for row in rows if row not in answered[5:25]],
            [row for row in rows if row != answered[-1]],
            [*rows, table.num_rows - 1],
            [0, *list(rows)[:-1]],
        ):
            with pytest.raises(ValueError, match=r"the log was written with \d+ rows|lacks event"):
                posse.Learner.replay(table.take(kept))
        with pytest.raises(ValueError, match="no column 'shared'"):
            posse.Learner.replay(table.drop_columns(["shared"]))

    def test_the_order_of_rows_does_not_matter(self):
        learner, clock = busy(posse.RobustAggTS(0.1))
        table = learner.log()
        again = posse.Learner.replay(table.take(list(range(table.num_rows))[::-1]), clock=clock)
        assert list(again.ledger.waiting) == list(learner.ledger.waiting)
        assert future(again) == future(learner)

    def test_time_goes_on_where_it_was(self):
        clock = Clock()
        learner = new(clock=clock, default_reward=0.0, patience=60)
        learner.choose("north")
        clock.now = 500
        again = posse.Learner.replay(learner.log(), clock=clock)
        clock.now = 561
        again.choose("north")
        assert again.counts().pulls.sum() == 0

    def test_another_table_is_refused(self):
        with pytest.raises(ValueError, match="not a learner's log"):
            posse.Learner.replay(new().log().replace_schema_metadata(None))
