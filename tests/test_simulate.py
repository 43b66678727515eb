"""simulate: what it measures, that no cut of the work changes it, and what it refuses before it starts."""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import posse
from posse import IndTS, IndUCB, Problem, RobustAggTS
from posse.rewards import Beta
from posse.schedule import Concurrent, Random, Sequential

# The package's attribute of this name is the function.
cpu_module = importlib.import_module("posse.simulation.cpu")

PROBLEMS = posse.generate.subpar(2, count=3, players=4, arms=5, epsilon=0.1, seed=1)
PROBLEM = PROBLEMS[0]
POLICIES = [RobustAggTS(0.1), IndUCB()]
ARRAYS = ("regret", "pulls", "reward", "player_regret")


def assert_identical(a, b):
    """Bit for bit the same measurements."""
    for name in ARRAYS:
        assert np.array_equal(getattr(a, name), getattr(b, name)), name


def differ(a, b):
    return not np.array_equal(a.pulls, b.pulls)


@pytest.fixture(scope="module")
def result():
    return posse.simulate(PROBLEMS, POLICIES, 120, replications=4, seed=3, checkpoints=6)


class TestMeasurements:
    def test_shapes(self, result):
        assert result.regret.shape == (2, 3, 4, 6)
        assert result.pulls.shape == (2, 3, 4, 4, 5)
        assert result.reward.shape == (2, 3, 4)
        assert result.player_regret.shape == (2, 3, 4, 4)
        assert result.final_regret.shape == (2, 3, 4)

    def test_it_says_what_was_run(self, result):
        assert result.policies == tuple(POLICIES)
        assert result.labels == ("RobustAgg-TS(0.1)", "Ind-UCB")
        assert result.problems == tuple(PROBLEMS)
        assert result.replications == (0, 1, 2, 3)
        assert (result.horizon, result.seed, result.anytime) == (120, 3, False)
        assert result.schedule == Concurrent()
        assert result.version == posse.__version__

    def test_a_bare_problem_and_policy_will_do(self):
        bare = posse.simulate(PROBLEM, POLICIES[0], 30)
        assert_identical(bare, posse.simulate([PROBLEM], [POLICIES[0]], 30))
        assert bare.final_regret.shape == (1, 1, 1)

    def test_any_iterable_will_do(self):
        given = posse.simulate(iter(PROBLEMS), (policy for policy in POLICIES), 30, replications=range(2))
        assert_identical(given, posse.simulate(PROBLEMS, POLICIES, 30, replications=2))

    def test_every_active_player_pulls_one_arm_a_round(self, result):
        assert (result.pulls.sum(axis=-1) == 120).all()
        turns = posse.simulate(PROBLEM, POLICIES, 10, schedule=Sequential())
        assert turns.pulls.sum(axis=-1)[0, 0, 0].tolist() == [3, 3, 2, 2]

    def test_regret_is_pulls_times_gaps(self, result):
        gaps = np.array([problem.gaps for problem in PROBLEMS])[None, :, None]
        np.testing.assert_allclose(result.final_regret, (result.pulls * gaps).sum(axis=(-1, -2)), rtol=1e-12)
        np.testing.assert_allclose(result.player_regret, (result.pulls * gaps).sum(axis=-1), rtol=1e-12)

    def test_player_regret_sums_to_final_regret(self, result):
        np.testing.assert_allclose(result.player_regret.sum(axis=-1), result.final_regret, rtol=1e-12)

    def test_regret_never_falls(self, result):
        assert (np.diff(result.regret, axis=-1) >= 0).all()
        assert (np.diff(result.regret, axis=-1) > 0).any()

    def test_reward_is_the_sum_of_rewards(self):
        certain = Problem([[1.0, 1.0], [0.5, 0.5]], rewards="deterministic")
        assert posse.simulate(certain, POLICIES, 40).reward.tolist() == [[[60.0]], [[60.0]]]

    def test_regret_is_of_means_and_not_of_rewards(self):
        equal = Problem(np.full((3, 4), 0.5))
        assert not posse.simulate(equal, POLICIES, 50).regret.any()


class TestCheckpoints:
    def test_a_number_spaces_them_evenly_up_to_the_horizon(self):
        assert posse.simulate(PROBLEM, IndTS(), 100, checkpoints=4).checkpoints.tolist() == [25, 50, 75, 100]
        assert posse.simulate(PROBLEM, IndTS(), 10, checkpoints=3).checkpoints.tolist() == [3, 6, 10]
        assert posse.simulate(PROBLEM, IndTS(), 7, checkpoints=1).checkpoints.tolist() == [7]

    def test_there_are_no_more_of_them_than_rounds(self):
        assert posse.simulate(PROBLEM, IndTS(), 3).checkpoints.tolist() == [1, 2, 3]
        assert len(posse.simulate(PROBLEM, IndTS(), 1000).checkpoints) == 200

    def test_a_list_is_taken_as_it_is(self):
        result = posse.simulate(PROBLEM, IndTS(), 100, checkpoints=[0, 1, 30, 100])
        assert result.checkpoints.tolist() == [0, 1, 30, 100]
        assert result.regret[0, 0, 0, 0] == 0

    def test_they_do_not_change_what_happens(self):
        few = posse.simulate(PROBLEM, POLICIES, 100, checkpoints=[40])
        many = posse.simulate(PROBLEM, POLICIES, 100, checkpoints=range(1, 101))
        assert np.array_equal(few.pulls, many.pulls)
        assert np.array_equal(few.regret[..., 0], many.regret[..., 39])

    def test_pulls_and_reward_are_of_the_horizon_wherever_the_last_checkpoint_is(self):
        result = posse.simulate(PROBLEM, IndTS(), 100, checkpoints=[40])
        assert result.pulls.sum() == 400

    def test_a_checkpoint_is_what_a_shorter_run_ends_with(self):
        """For a policy that does not use the horizon."""
        long = posse.simulate(PROBLEMS, IndTS(), 90, checkpoints=[10, 35, 90])
        for number, horizon in enumerate([10, 35]):
            short = posse.simulate(PROBLEMS, IndTS(), horizon)
            assert np.array_equal(long.regret[..., number], short.final_regret)

    def test_but_not_for_a_policy_that_uses_it(self):
        long = posse.simulate(PROBLEMS, IndUCB(), 2000, checkpoints=[100])
        assert not np.array_equal(long.regret[..., 0], posse.simulate(PROBLEMS, IndUCB(), 100).final_regret)


class TestToldHorizon:
    """A policy that is told T plays as in the first rounds of a run of T rounds."""

    def test_too_long_and_too_short(self):
        for policy in (posse.PosseTS(), RobustAggTS(0.1), IndUCB()):
            long = posse.simulate(PROBLEMS, policy, 300, checkpoints=[30, 300])
            short = posse.simulate(PROBLEMS, policy, 30, checkpoints=[30])
            told_long = posse.simulate(PROBLEMS, policy, 30, checkpoints=[30], told_horizon=300)
            told_short = posse.simulate(PROBLEMS, policy, 300, checkpoints=[30, 300], told_horizon=30)
            assert np.array_equal(told_long.regret[..., 0], long.regret[..., 0])
            assert np.array_equal(told_short.regret[..., 0], short.regret[..., 0])
            assert told_short.told_horizon == 30

    def test_it_makes_a_difference(self):
        assert differ(posse.simulate(PROBLEMS, IndUCB(), 300), posse.simulate(PROBLEMS, IndUCB(), 300, told_horizon=3))

    def test_results_with_other_ones_are_not_merged(self):
        parts = [posse.simulate(PROBLEMS, IndTS(), 10, told_horizon=told) for told in (10, 20)]
        with pytest.raises(ValueError, match="told_horizon 10 and 20"):
            parts[0].merge(parts[1])


OPTIONS = {"horizon": 60, "replications": 3, "seed": 5, "checkpoints": 7, "schedule": Random(0.7)}


@pytest.fixture(scope="module")
def whole():
    return posse.simulate(PROBLEMS, POLICIES, **OPTIONS)


class TestTheCutDoesNotMatter:
    @pytest.mark.parametrize("threads", [1, 2, 5])
    def test_threads(self, whole, threads):
        assert_identical(posse.simulate(PROBLEMS, POLICIES, **OPTIONS, threads=threads), whole)

    @pytest.mark.parametrize("piece", [1, 60, 700, 1 << 30])
    def test_pieces(self, whole, piece, monkeypatch):
        monkeypatch.setattr(cpu_module, "PIECE", piece)
        assert_identical(posse.simulate(PROBLEMS, POLICIES, **OPTIONS), whole)

    def test_pieces_of_anytime_runs(self, monkeypatch):
        whole = posse.simulate(PROBLEMS, POLICIES, **OPTIONS, anytime=True)
        monkeypatch.setattr(cpu_module, "PIECE", 50)
        assert_identical(posse.simulate(PROBLEMS, POLICIES, **OPTIONS, anytime=True), whole)

    def test_subsets_and_order_of_problems(self, whole):
        part = posse.simulate([PROBLEMS[2], PROBLEMS[0]], POLICIES, **OPTIONS)
        assert np.array_equal(part.regret, whole.regret[:, [2, 0]])
        assert np.array_equal(part.pulls, whole.pulls[:, [2, 0]])

    def test_subsets_and_order_of_policies(self, whole):
        for number, policy in enumerate(POLICIES):
            alone = posse.simulate(PROBLEMS, policy, **OPTIONS)
            assert np.array_equal(alone.regret[0], whole.regret[number])
        assert np.array_equal(posse.simulate(PROBLEMS, POLICIES[::-1], **OPTIONS).regret, whole.regret[::-1])

    def test_subsets_and_order_of_replications(self, whole):
        part = posse.simulate(PROBLEMS, POLICIES, **(OPTIONS | {"replications": [2, 0]}))
        assert part.replications == (2, 0)
        assert np.array_equal(part.regret, whole.regret[:, :, [2, 0]])

    def test_other_seeds_and_replications_give_other_runs(self, whole):
        """Negative control: the runs above agree because they must, not because all runs do."""
        assert differ(whole, posse.simulate(PROBLEMS, POLICIES, **(OPTIONS | {"seed": 6})))
        for a, b in itertools.combinations(range(3), 2):
            assert not np.array_equal(whole.pulls[:, :, a], whole.pulls[:, :, b])


class TestPairing:
    def test_one_policy_under_two_labels_gives_one_result_twice(self):
        twice = posse.simulate(PROBLEMS, [IndTS(label="a"), IndTS(label="b")], 80, replications=2)
        assert np.array_equal(twice.pulls[0], twice.pulls[1])
        assert np.array_equal(twice.reward[0], twice.reward[1])

    @pytest.mark.parametrize("rewards", ["bernoulli", "uniform", Beta(2.0)], ids=str)
    def test_policies_that_pull_the_same_arm_in_a_round_get_the_same_reward(self, rewards):
        problem = Problem(PROBLEM.means, rewards=rewards)
        a, b = (posse.simulation.trace(problem, policy, 100) for policy in (IndTS(), IndUCB()))
        same = a.arms == b.arms
        assert 50 < same.sum() < same.size
        assert np.array_equal(a.rewards[same], b.rewards[same])
        assert not np.array_equal(a.rewards[~same], b.rewards[~same])

    def test_draws_of_one_policy_do_not_reach_the_rewards_of_another(self):
        """A policy without draws meets the rewards that one with draws meets, player by player."""
        problem = Problem(np.full((4, 3), 0.5))
        a, b = (posse.simulation.trace(problem, policy, 50) for policy in (RobustAggTS(0.1), IndUCB()))
        assert np.array_equal(a.rewards, b.rewards)


class TestAnytime:
    def test_it_differs_from_the_known_horizon(self):
        assert differ(posse.simulate(PROBLEM, IndUCB(), 300), posse.simulate(PROBLEM, IndUCB(), 300, anytime=True))

    def test_it_makes_no_difference_to_a_policy_without_a_horizon(self):
        a, b = (posse.simulate(PROBLEM, IndTS(), 300, anytime=anytime) for anytime in (True, False))
        assert_identical(a, b)

    def test_a_checkpoint_is_what_a_shorter_run_ends_with(self):
        long = posse.simulate(PROBLEMS, POLICIES, 200, checkpoints=[50], anytime=True)
        short = posse.simulate(PROBLEMS, POLICIES, 50, anytime=True)
        assert np.array_equal(long.regret[..., 0], short.final_regret)


class TestProgress:
    def test_a_function_hears_how_far_the_work_is(self, monkeypatch):
        monkeypatch.setattr(cpu_module, "PIECE", 1)
        heard = []
        posse.simulate(PROBLEMS, POLICIES, 50, progress=heard.append)
        assert heard[-1] == 1.0
        assert heard == sorted(heard)

    def test_an_error_in_it_stops_the_work(self):
        def fail(fraction):
            raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            posse.simulate(PROBLEM, IndTS(), 50, progress=fail)

    def test_the_bar_is_silent_for_short_work(self, capsys):
        posse.simulate(PROBLEM, IndTS(), 50, progress=True)
        assert capsys.readouterr().err == ""


def test_an_interrupt_ends_a_run_in_the_middle():
    """Ctrl-C on work for hours: the threads stop at their next piece, and Python at KeyboardInterrupt."""
    script = """
        import signal
        import posse
        signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests themselves run in the background
        problems = posse.generate.uniform(count=4)
        def say(fraction):
            if fraction > 0:
                print("running", flush=True)
        posse.simulate(problems, posse.IndTS(), 10**9, progress=say, threads=2)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert "KeyboardInterrupt" in error
    assert process.returncode in (-signal.SIGINT, 128 + signal.SIGINT)
