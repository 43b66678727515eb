"""An index that is not a number: runs and learners stop, and say which policy, player and arm and with what numbers."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import pytest

import posse
from posse.policies import Policy, Refresh
from posse.schedule import Concurrent, Fixed

FROM, WHERE = "first", "in_scale"


def root(n, first):
    return math.sqrt(first - 0.5 - n)  # of a negative number from the pull with this number on


@dataclass(frozen=True)
class AtOwnPull(Policy):
    """Its center or its scale is NaN from so many pulls on."""

    first: float
    in_scale: float = 0.0

    refresh = Refresh.OWN_PULL

    @staticmethod
    def index(n, s, first, in_scale):
        return (0.5, root(n, first)) if in_scale > 0.0 else (root(n, first), 1.0)


class AtAnyPull(AtOwnPull):
    refresh = Refresh.ANY_PULL


class BySchedule(AtOwnPull):
    refresh = Refresh.SCHEDULE
    shared = ("pulls",)
    moved_by_others = "pulls"

    @staticmethod
    def others_weight():
        return 1.0

    @staticmethod
    def summary(n, of_arm):
        for arm in range(n.shape[0]):
            of_arm[arm, 0] = n[arm, 0]


POLICIES = [AtOwnPull, AtAnyPull, BySchedule]
PROBLEM = posse.Problem(np.full((3, 2), 0.5))
ONLY_PLAYER_1 = Fixed(np.tile([False, True, False], (60, 1)))


@pytest.mark.parametrize("cls", POLICIES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("in_scale", [0.0, 1.0], ids=["center", "scale"])
class TestEveryRefresh:
    def test_from_the_beginning(self, cls, in_scale):
        """It is noticed before the first round."""
        found = r"(center nan, scale 1)|(center 0\.5, scale nan)"
        with pytest.raises(ValueError, match=r"gives an index that is not a number") as caught:
            posse.simulate(PROBLEM, cls(0.0, in_scale, label="wrong one"), 60)
        message = str(caught.value)
        assert message.startswith("wrong one gives an index that is not a number: ")
        assert bool(re.search(found, message).group(2)) == in_scale
        assert "for player 0, arm 0 with n=0, s=0; see what " + cls.__name__ + ".index divides by" in message

    @pytest.mark.parametrize("anytime", [False, True], ids=["horizon", "anytime"])
    @pytest.mark.parametrize("who", [Concurrent(), ONLY_PLAYER_1], ids=["all", "one"])
    def test_only_from_the_third_pull_on(self, cls, in_scale, anytime, who):
        with pytest.raises(ValueError, match="is not a number") as caught:
            posse.simulate(PROBLEM, cls(3.0, in_scale), 60, schedule=who, anytime=anytime)
        player, arm, n, s = re.search(r"for player (\d), arm (\d) with n=(\d+), s=(\d+)", str(caught.value)).groups()
        assert n == "3"
        assert int(s) <= 3
        assert player == "1" if who is ONLY_PLAYER_1 else player in "012"
        assert arm in "01"

    def test_a_run_that_ends_before_it_is_left_alone(self, cls, in_scale):
        """The negative control."""
        assert posse.simulate(PROBLEM, cls(100.0, in_scale), 60).pulls.sum() == 180

    def test_the_learner_stops_too(self, cls, in_scale):
        learner = posse.Learner(cls(3.0, in_scale), ["x", "y"], ["a", "b"])
        learner.record([("b", "y", 1.0)] * 2)
        learner.choose("b")
        learner.record([("b", "y", 0.0)])
        with pytest.raises(
            ValueError, match=rf"{re.escape(learner.setup.policy.label)} gives no usable index"
        ) as caught:
            learner.choose("b")
        assert "player 1, arm 1" in str(caught.value)
        assert "nan" in str(caught.value)
        assert "n=3, s=2" in str(caught.value)
        assert (learner.rounds, learner.decisions, len(learner.ledger.waiting)) == (3, 1, 1)
        assert learner.choose("a").arm in "xy"  # whose numbers are fine


@dataclass(frozen=True)
class Boundless(Policy):
    """Its scale has no bound, so no arm has a probability."""

    @staticmethod
    def index(n, s):
        return 0.5, math.inf


def test_a_learner_refuses_an_infinite_scale():
    learner = posse.Learner(Boundless(), ["a", "b"], ["p"])
    with pytest.raises(ValueError, match=r"^Boundless gives no usable index for player 0, arm 0 with n=0"):
        learner.choose("p")
    assert learner.decisions == 0


@dataclass(frozen=True)
class Negative(Policy):
    """Its scale is negative after a reward of 1."""

    @staticmethod
    def index(n, s):
        return 0.5, 0.5 - s


def test_a_learner_names_the_arm_whose_scale_is_negative():
    learner = posse.Learner(Negative(), ["a", "b", "c"], ["p"])
    learner.record([("p", "b", 1.0)])
    with pytest.raises(ValueError, match=r"arm 1 with n=1, s=1, q=1: center 0.5 and scale -0.5, but expected numbers"):
        learner.choose("p")


@pytest.mark.parametrize(("policy", "shown"), [(Boundless(), "inf"), (Negative(), r"-[\d.]+")], ids=["inf", "negative"])
def test_a_simulation_refuses_a_scale_that_no_normal_law_has(policy, shown):
    found = rf"^{policy.label} gives the scale {shown} for player \d, arm \d with n=\d+, s=\d+, but expected"
    with pytest.raises(ValueError, match=found):
        posse.simulate(PROBLEM, policy, 20)


def test_numbers_of_other_laws_are_no_scales():
    """The negative control: IMED's second number is a count. An arm without a pull may have an infinite center."""
    for policy in (posse.IMED(), posse.BetaTS(), posse.IndUCB()):
        assert posse.simulate(posse.Problem(np.full((2, 5), 0.5)), policy, 2).pulls.sum() == 4


WRONG = 0.0, 0.99, -3.0, math.inf, math.nan, 1.0


@dataclass(frozen=True)
class NoLaw(posse.BetaTS):
    """From the pull with this number on, its a is one of these."""

    first: float = 0.0
    which: int = 0

    @staticmethod
    def index(n, s, first, which):
        return (WRONG[int(which)] if n >= first else 1.0 + s), 1.0 + n - s


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("first", [0.0, 3.0])
def test_a_beta_law_that_is_none(which, first):
    with pytest.raises(ValueError, match=r"gives a=\S+, b=\S+ of a Beta law for player \d, arm \d with n=") as caught:
        posse.simulate(PROBLEM, NoLaw(first=first, which=which), 60)
    assert f"gives a={WRONG[which]:g}, b=" in str(caught.value)
    assert f" with n={first:g}, s=" in str(caught.value)
    assert str(caught.value).endswith("but expected finite numbers of at least 1")


def test_the_smallest_beta_law_is_one():
    posse.simulate(PROBLEM, NoLaw(which=5), 60)


@pytest.mark.parametrize("which", range(5))
def test_a_learner_refuses_it_too(which):
    learner = posse.Learner(NoLaw(first=1.0, which=which), ["a", "b"], ["one"], horizon=100)
    first = learner.choose("one")
    learner.observe(first, 1.0)
    rows = len(learner.log())
    with pytest.raises(ValueError, match=r"gives no usable index for player 0, arm \d with n=1, s=1, q=1: ") as caught:
        learner.choose("one")
    told = f"a={WRONG[which]:g}, b=1 of a Beta law, but expected finite numbers of at least 1"
    assert str(caught.value).endswith(told)
    assert len(learner.log()) == rows
