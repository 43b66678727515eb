"""Policies with a summary: a second stage over everybody's data, now and then."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

import posse
import posse.testing
from posse.policies import Refresh
from posse.policies.refresh import summary_is_due
from posse.policies.statistics import BASIC, COUNT, SQUARES, SUM, add_square
from posse.rewards import GRID
from test_learner_agreement import HORIZON, OPTIONS, PROBLEM, feed, indices

STEP = 1.0 / GRID


@dataclass(frozen=True)
class ShrinkTS(posse.Policy):
    """Shrinks a player's mean to the arm's and its own level, with the noise that all rewards show together."""

    weight: float = 20.0

    refresh = Refresh.SCHEDULE
    shared = ("mean", "variance")
    of_player = ("level",)
    work_tables = 1
    moved_by_others = "mean"

    @staticmethod
    def others_weight():
        return 1.0

    @staticmethod
    def summary(n, s, q, of_arm, of_player, work, weight):
        arms, players = n.shape
        for arm in range(arms):
            N = 2.0
            S = 1.0
            Q = 0.75
            for player in range(players):
                work[arm, player] = s[arm, player] * STEP
                N += n[arm, player]
                S += work[arm, player]
                Q += q[arm, player] * STEP
            of_arm[arm, 0] = S / N
            of_arm[arm, 1] = max(Q / N - (S / N) ** 2, 0.0) + 0.01
        for player in range(players):
            level = 0.0
            count = weight
            for arm in range(arms):
                level += work[arm, player] - n[arm, player] * of_arm[arm, 0]
                count += n[arm, player]
            of_player[player, 0] = level / count

    @staticmethod
    def index(n, s, mean, variance, level, log_T, weight):
        expected = mean + level
        return (s + weight * expected) / (n + weight), math.sqrt(variance / (n + weight)) + 1e-3 * log_T / (n + 1)


def test_it_keeps_the_contract():
    posse.testing.check_policy(ShrinkTS())


@pytest.mark.parametrize("anytime", [False, True])
def test_the_learner_has_the_simulators_numbers_after_every_round(anytime):
    policy = ShrinkTS()
    for schedule in (posse.schedule.Concurrent(), posse.schedule.Random(0.5)):
        run = posse.simulation.trace(PROBLEM, policy, HORIZON, seed=6, schedule=schedule, anytime=anytime)
        learner = feed(policy, run, 0, None if anytime else HORIZON)
        for t in range(HORIZON):
            centers, scales = indices(learner)
            np.testing.assert_allclose(centers, run.centers[t], rtol=1e-12)
            np.testing.assert_allclose(scales, run.scales[t], rtol=1e-12)
            feed(policy, run, t + 1, None, t, learner)


def test_a_learner_with_it_is_saved_and_replayed(tmp_path):
    learner = posse.Learner(ShrinkTS(), OPTIONS, ["a", "b"])
    for t in range(50):
        learner.observe(learner.choose("ab"[t % 2]).id, t % 3 / 2)
    learner.join("c")
    learner.add_arm("new")
    learner.observe(learner.choose("c").id, 1.0)
    learner.save(tmp_path / "learner.json")
    for other in (posse.Learner.load(tmp_path / "learner.json"), posse.Learner.replay(learner.log())):
        for name in ("statistics", "indexed", "of_arm", "of_player", "summed"):
            assert np.array_equal(getattr(other.state.known, name), getattr(learner.state.known, name)), name
        assert other.indices("c") == learner.indices("c")


def test_its_shared_weight_is_that_of_the_arms_mean():
    learner = posse.Learner(ShrinkTS(), ["x"], ["a", "b"])
    learner.record([("a", "x", 1.0)] * 60)
    assert learner.shared_weights() == pytest.approx([20 / 80, 1.0])


def test_a_summary_is_due_often_at_first_and_rarely_later():
    made = [0]
    for pulls in range(1, 20_000):
        if summary_is_due(pulls, made[-1], 2):
            made.append(pulls)
    assert made[:17] == list(range(17))
    gaps = np.diff(made)
    assert (np.diff(gaps) >= 0).all()
    assert gaps[-1] == 128


def test_squares_are_exact_on_the_grid():
    assert [add_square(0, step) for step in (0, GRID)] == [0, GRID]
    for reward in (1, 12345, GRID // 3, GRID - 1, *range(4096, 5794)):  # squares from one step to two
        assert abs(add_square(7, reward) - 7 - reward**2 / GRID) <= 0.5


def test_tables_of_statistics_have_each_in_its_place():
    assert [BASIC[place].name for place in (COUNT, SUM, SQUARES)] == ["n", "s", "q"]


def test_a_summary_without_its_refresh_is_refused():
    @dataclass(frozen=True)
    class Wrong(ShrinkTS):
        refresh = Refresh.OWN_PULL

    with pytest.raises(TypeError, match=r"a summary goes with refresh = Refresh\.SCHEDULE"):
        Wrong()


def test_wrong_arguments_are_refused():
    @dataclass(frozen=True)
    class Wrong(ShrinkTS):
        @staticmethod
        def index(n, s, arm):
            return 0.0, 1.0

    offered = "n, s, q, mean, variance, level, M, K, log_T, weight"
    with pytest.raises(TypeError, match=rf"Wrong\.index takes 'arm', but it can take only: {offered}"):
        Wrong()


def test_looking_at_indices_changes_the_summary_by_no_bit():
    learner = posse.Learner(arms=["a", "b"], players=["p", "q"])
    learner.observe(learner.choose("p").id, 1.0)
    means = learner.state.known.of_arm[:, 0]
    for mean in np.random.default_rng(1).uniform(0.4991, 0.5, 30):  # past a power of two
        means[:] = mean
        learner.probabilities("q")
        assert means.tolist() == [mean, mean]


alone, shrink = posse.IndTSV.summary, ShrinkTS.summary


@dataclass(frozen=True)
class AlwaysNew(posse.IndTSV):
    """Ind-TS-V with a summary that never says that it left everything as it was."""

    @staticmethod
    def summary(n, s, q, of_player, lane):
        alone(n, s, q, of_player, lane)


@dataclass(frozen=True)
class NeverNew(ShrinkTS):
    """A mistake: the summary says that it left everything as it was, and did not."""

    @staticmethod
    def summary(n, s, q, of_arm, of_player, work, weight):
        shrink(n, s, q, of_arm, of_player, work, weight)
        return False


def runs_differ(one, other, horizon=2000, **options):
    """Whether two policies pull other arms, once pairs have more pulls than count at once."""
    problem = posse.Problem(np.random.default_rng(8).random((4, 3)), rewards="uniform")
    pulls = [posse.simulate(problem, policy, horizon, seed=2, **options).pulls for policy in (one, other)]
    return not np.array_equal(*pulls)


@pytest.mark.parametrize("options", [{}, {"feedback": posse.simulation.Feedback(3, 5)}], ids=str)
def test_what_a_summary_left_as_it_was_need_not_be_formed_anew(options):
    assert not runs_differ(posse.IndTSV(), AlwaysNew(), **options)


def test_what_it_changed_must_be():
    """Negative control."""
    assert runs_differ(ShrinkTS(), NeverNew())
