"""Result: what a simulation says, and parts that make a whole."""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys

import numpy as np
import pytest

import posse
from posse import IndTS, IndUCB, Problem, RobustAggTS, simulate
from posse.schedule import Sequential

PROBLEMS = posse.generate.subpar(2, count=3, players=4, arms=5, epsilon=0.1, seed=1)
PROBLEM = PROBLEMS[0]
POLICIES = [RobustAggTS(0.1), IndUCB()]
ARRAYS = ("regret", "pulls", "late_pulls", "reward", "player_regret")


@pytest.fixture(scope="module")
def result():
    return posse.simulate(PROBLEMS, POLICIES, 120, replications=4, seed=3, checkpoints=6)


def assert_identical(a, b):
    """Bit for bit the same measurements of the same runs."""
    assert (a.policies, a.problems, a.replications) == (b.policies, b.problems, b.replications)
    for name in ARRAYS:
        assert np.array_equal(getattr(a, name), getattr(b, name)), name


def cut(result, policies, problems, replications):
    """A part of a result, as `simulate` would have given it for a part of the work."""
    where = np.ix_(policies, problems, replications)
    return dataclasses.replace(
        result,
        policies=tuple(result.policies[number] for number in policies),
        problems=tuple(result.problems[number] for number in problems),
        replications=tuple(result.replications[number] for number in replications),
        **{name: getattr(result, name)[where] for name in ARRAYS},
    )


def in_order_of(merged, result):
    """A merged result with policies and problems in the order of another."""
    return cut(
        merged,
        [merged.policies.index(policy) for policy in result.policies],
        [merged.problems.index(problem) for problem in result.problems],
        [merged.replications.index(replication) for replication in result.replications],
    )


class TestLockIns:
    """A player is locked in if one bad arm has nearly all of its pulls in the last quarter."""

    problem = Problem([[0.9, 0.5, 0.89], [0.9, 0.5, 0.89], [0.9, 0.5, 0.89]])

    def result(self, late_pulls):
        base = simulate([self.problem], IndTS(), 100)
        return dataclasses.replace(base, late_pulls=np.array(late_pulls).reshape(1, 1, 1, 3, 3))

    @pytest.mark.parametrize("horizon", [1, 2, 3, 4, 5, 30, 101])
    def test_the_last_quarter_is_what_is_left_after_three_of_them(self, horizon):
        policies = [IndTS(), posse.RobustAgg(0.1)]
        schedule = posse.schedule.Random(0.7)
        result = simulate(self.problem, policies, horizon, schedule=schedule, seed=3, checkpoints=7)
        for number, policy in enumerate(policies):
            arms = posse.simulation.trace(self.problem, policy, horizon, schedule=schedule, seed=3).arms
            late = [[(arms[3 * horizon // 4 :, player] == arm).sum() for arm in range(3)] for player in range(3)]
            assert result.late_pulls[number, 0, 0].tolist() == late

    def test_measuring_them_changes_no_regret(self):
        """The run is the same however often it stops on the way."""
        stops = simulate(self.problem, IndTS(), 100, checkpoints=range(1, 101))
        few = simulate(self.problem, IndTS(), 100, checkpoints=[10, 100])
        assert np.array_equal(few.regret[..., 0], stops.regret[..., 9])
        assert np.array_equal(few.late_pulls, stops.late_pulls)

    def test_only_a_bad_arm_with_more_than_nine_in_ten_counts(self):
        result = self.result([[2, 23, 0], [3, 27, 0], [0, 1, 29]])
        assert result.lock_ins().tolist() == [[[1]]]  # 92 %; 90 %; an arm that is hardly worse
        assert result.lock_ins(share=0.8).item() == 2
        assert result.lock_ins(gap=0.005).item() == 2
        assert result.lock_ins(gap=0.5).item() == 0

    def test_who_did_not_act_is_not_locked_in(self):
        assert self.result(np.zeros((3, 3), int)).lock_ins().item() == 0

    def test_one_who_is_led_astray_is_caught(self):
        problem = Problem([[0.9, 0.1]] * 9 + [[0.1, 0.9]])
        result = simulate(problem, [posse.NaiveAgg(), IndTS()], 2000, replications=2)
        assert result.lock_ins().tolist() == [[[1, 1]], [[0, 0]]]

    def test_what_makes_no_sense_is_refused(self):
        with pytest.raises(ValueError, match=r"^gap=-1"):
            self.result(np.ones((3, 3), int)).lock_ins(gap=-1)
        with pytest.raises(ValueError, match=r"^share=1\.5"):
            self.result(np.ones((3, 3), int)).lock_ins(share=1.5)


class TestMerge:
    @pytest.mark.parametrize(
        "axes", [axes for axes in itertools.product([False, True], repeat=3) if any(axes)], ids=str
    )
    def test_parts_of_any_cut_in_any_order_make_the_whole(self, result, axes):
        sizes = result.final_regret.shape
        pieces = [
            [[number] for number in range(size)] if apart else [list(range(size))]
            for size, apart in zip(sizes, axes, strict=True)
        ]
        parts = [cut(result, *piece) for piece in itertools.product(*pieces)]
        assert_identical(parts[0].merge(*parts[1:]), result)
        np.random.default_rng(1).shuffle(parts)
        merged = parts[0].merge(*parts[1:])
        assert merged.replications == (0, 1, 2, 3)
        assert_identical(in_order_of(merged, result), result)

    def test_parts_that_were_really_run_apart(self):
        options = {"horizon": 40, "seed": 2, "checkpoints": [10, 40]}
        whole = posse.simulate(PROBLEMS, POLICIES, replications=2, **options)
        parts = [
            posse.simulate(PROBLEMS[:1], POLICIES, replications=2, **options),
            posse.simulate(PROBLEMS[1:], POLICIES[:1], replications=[0, 1], **options),
            posse.simulate(PROBLEMS[1:], POLICIES[1:], replications=[1], **options),
            posse.simulate(PROBLEMS[1:], POLICIES[1:], replications=[0], **options),
        ]
        assert_identical(parts[0].merge(*parts[1:]), whole)

    def test_a_block_of_its_own_shape_fits_beside_others(self, result):
        parts = [
            cut(result, [0, 1], [0], range(4)),
            cut(result, [0], [1, 2], range(4)),
            cut(result, [1], [2, 1], range(4)),
        ]
        assert_identical(parts[0].merge(*parts[1:]), result)

    def test_one_part_is_its_own_whole(self, result):
        assert_identical(result.merge(), result)
        assert_identical(result.merge(result), result)

    def test_overlaps_that_agree_are_fine(self, result):
        parts = [cut(result, [0, 1], [0, 1], range(4)), cut(result, [0, 1], [1, 2], range(4))]
        assert_identical(parts[0].merge(*parts[1:]), result)

    @pytest.mark.parametrize("name", ARRAYS)
    def test_overlaps_that_disagree_are_refused(self, result, name):
        changed = getattr(result, name).copy()
        changed[0, 0, 0] += 1
        with pytest.raises(ValueError, match=f"the same runs but differ in {name}"):
            result.merge(dataclasses.replace(result, **{name: changed}))

    def test_a_gap_is_refused_by_name(self, result):
        parts = [cut(result, [0], [0, 1, 2], range(4)), cut(result, [1], [0, 2], range(4))]
        with pytest.raises(ValueError, match="gap: Ind-UCB on problem 1, replication 0"):
            parts[0].merge(*parts[1:])

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"horizon": 121}, "horizon 120 and 121"),
            ({"seed": 4}, "seed 3 and 4"),
            ({"anytime": True}, "anytime False and True"),
            ({"schedule": Sequential()}, "schedules Concurrent.* and Sequential"),
            ({"checkpoints": [1, 2, 3, 4, 5, 120]}, "different checkpoints"),
            ({"checkpoints": [120]}, "different checkpoints"),
        ],
        ids=str,
    )
    def test_results_of_different_experiments_are_refused(self, result, options, message):
        given = {"horizon": 120, "seed": 3, "checkpoints": 6, "replications": 4} | options
        with pytest.raises(ValueError, match=f"cannot merge results with {message}"):
            result.merge(posse.simulate(PROBLEMS, POLICIES, **given))

    def test_results_of_different_versions_are_refused(self, result):
        with pytest.raises(ValueError, match="cannot merge results with version"):
            result.merge(dataclasses.replace(result, version="0"))

    def test_problems_of_different_shape_are_refused(self, result):
        other = posse.simulate(
            posse.generate.uniform(players=2, arms=3), POLICIES, 120, replications=4, seed=3, checkpoints=6
        )
        with pytest.raises(ValueError, match="different shape"):
            result.merge(other)

    def test_two_policies_of_one_label_are_refused(self):
        parts = [posse.simulate(PROBLEM, IndTS(c2, label="mine"), 10) for c2 in (1, 4)]
        with pytest.raises(ValueError, match="'mine'"):
            parts[0].merge(*parts[1:])


class TestResult:
    """Small numbers put in by hand: two policies, two problems, three replications."""

    @pytest.fixture
    def small(self, result):
        part = cut(result, [0, 1], [0, 1], [0, 1, 2])
        final = np.array([[[1.0, 2.0, 3.0], [5.0, 6.0, 10.0]], [[2.0, 2.0, 2.0], [3.0, 3.0, 3.0]]])
        reward = np.array([[[4.0, 4.0, 4.0], [8.0, 8.0, 8.0]], [[1.0] * 3] * 2])
        return dataclasses.replace(part, regret=np.stack([0 * final, final], axis=-1), reward=reward)

    def test_summary_has_a_row_for_each_policy(self, small):
        first, second = small.summary()
        assert first == {
            "policy": "RobustAgg-TS(0.1)",
            "mean": pytest.approx(4.5),
            "spread": pytest.approx(np.std([1, 2, 3, 5, 6, 10], ddof=1)),
            "standard_error": pytest.approx(np.std([2, 7], ddof=1) / math.sqrt(2)),
            "reward": 6.0,
        }
        assert (second["policy"], second["mean"], second["reward"]) == ("Ind-UCB", 2.5, 1.0)

    def test_with_one_problem_the_error_is_over_replications(self, small):
        row = cut(small, [0], [0], [0, 1, 2]).summary()[0]
        assert row["standard_error"] == pytest.approx(1 / math.sqrt(3))

    def test_one_run_has_no_spread(self, small):
        row = cut(small, [0], [0], [0]).summary()[0]
        assert math.isnan(row["spread"])
        assert math.isnan(row["standard_error"])

    def test_difference_is_paired_over_problems(self, small):
        """Problem averages differ by 0 and 4: mean 2, standard error 2; Student's t with one degree of freedom."""
        found = small.difference("RobustAgg-TS(0.1)", "Ind-UCB")
        assert (found.mean, found.units, found.level) == (2.0, 2, 0.95)
        assert (found.low, found.high) == pytest.approx((2 - 2 * 12.7062047, 2 + 2 * 12.7062047))

    def test_with_one_problem_it_is_over_replications(self, small):
        """Differences −1, 0 and 1."""
        found = cut(small, [0, 1], [0], [0, 1, 2]).difference(POLICIES[0], POLICIES[1], level=0.9)
        assert (found.mean, found.units) == (0.0, 3)
        assert found.high == pytest.approx(2.9199856 / math.sqrt(3))

    def test_the_other_way_round_it_has_the_other_sign(self, small):
        there, back = small.difference("RobustAgg-TS(0.1)", "Ind-UCB"), small.difference("Ind-UCB", "RobustAgg-TS(0.1)")
        assert (back.mean, back.low, back.high) == (-there.mean, -there.high, -there.low)

    def test_one_pair_says_nothing_for_certain(self, small):
        found = cut(small, [0, 1], [0], [2]).difference("RobustAgg-TS(0.1)", "Ind-UCB")
        assert (found.mean, found.low, found.high) == (1.0, -math.inf, math.inf)
        assert str(found) == "+1 (one run: no interval; raise replications)"

    @pytest.mark.parametrize("level", [0, 1, -0.5, 1.5, math.nan])
    def test_a_level_lies_between_0_and_1(self, small, level):
        with pytest.raises(ValueError, match=r"^level="):
            small.difference("RobustAgg-TS(0.1)", "Ind-UCB", level)

    def test_a_policy_is_found_by_label_or_by_itself(self, small):
        assert small.policy_number("Ind-UCB") == small.policy_number(IndUCB()) == 1
        assert small.policy_number("RobustAggTS") == small.policy_number("RobustAgg-TS") == 0
        with pytest.raises(KeyError, match=r"no policy 'Ind-TS'; there are 'RobustAgg-TS\(0\.1\)', 'Ind-UCB'"):
            small.policy_number(IndTS())
        two = posse.simulate(PROBLEM, [RobustAggTS(0.1), RobustAggTS(0.2)], 5)
        with pytest.raises(KeyError, match=r"'RobustAggTS' may be 'RobustAgg-TS\(0\.1\)' or 'RobustAgg-TS\(0\.2\)'"):
            two.policy_number("RobustAggTS")

    def test_arrow_has_a_row_for_each_policy_problem_replication_and_checkpoint(self, result):
        part = cut(result, [0, 1], [0, 1, 2], [1, 3])
        table = part.to_arrow()
        assert table.column_names == ["policy", "problem", "replication", "round", "regret"]
        assert table.num_rows == 2 * 3 * 2 * 6
        for row in table.to_pylist():
            where = (
                part.labels.index(row["policy"]),
                row["problem"],
                part.replications.index(row["replication"]),
                part.checkpoints.tolist().index(row["round"]),
            )
            assert row["regret"] == part.regret[where]

    def test_without_pyarrow_it_says_what_to_install(self, result, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'posse-bandits\[arrow\]'"):
            result.to_arrow()

    def test_repr_is_a_table_of_policies(self, result):
        head, columns, *rows, note = repr(result).splitlines()
        assert head.startswith("Result: 3 problems × 4 replications, horizon 120, seed 3, Concurrent()")
        assert columns.split()[:3] == ["policy", "final", "regret"]
        assert [row.split()[0] for row in rows] == list(result.labels)
        assert f"{result.summary()[0]['mean']:,.1f}" in rows[0]
        assert note == "sd over all runs; se over problems, each averaged over its replications."
        one = repr(posse.simulate(PROBLEM, IndTS(), 5))
        assert one.startswith("Result: 1 problem × 1 replication,")
        assert len(one.splitlines()) == 3, "where both are over the same there is nothing to tell apart"

    def test_repr_says_what_is_not_as_usual(self):
        late = posse.simulation.Feedback(delay=5, batch=2)
        result = posse.simulate(PROBLEM, [IndTS(), IndUCB()], 20, feedback=late, told_horizon=200)
        shown = " ".join(repr(result).split())
        assert "Concurrent(), rewards 5 rounds late in batches of 2 rounds, told horizon 200 policy" in shown
        assert "a policy without randomness (Ind-UCB) repeats its choice" in shown
        assert ", anytime" in repr(posse.simulate(PROBLEM, IndTS(), 20, anytime=True)).splitlines()[0]
        drawn = repr(dataclasses.replace(result, feedback=posse.simulation.Feedback()))
        assert "repeats its choice" not in drawn, "not where rewards are at once"
        assert "repeats its choice" not in repr(cut(result, [0], [0], [0])), "not of policies that draw"
