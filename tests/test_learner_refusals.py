"""What a learner refuses, by name, and that it changes nothing then."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import posse
from small_learner import ARMS, Clock, new, state


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
            ({"default_reward": 0.0, "patience": 0}, "patience in seconds=0"),
            ({"waiting_limit": 0}, "waiting_limit=0"),
            ({"keep_log": 1}, "keep_log=1"),
            ({"reward_range": (0, 5e-324)}, "between 1e-100 and 1e.100 wide"),
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
