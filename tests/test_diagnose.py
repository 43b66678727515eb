"""Is ε right? All ways in and out of a diagnosis; test_diagnose_numbers.py has what it computes."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
from made_counts import EDGES, LOG, counts

import posse
from posse.insight import Diagnosis, diagnose
from posse.learner import Counts

STROKE = Path(__file__).parents[2] / "shared" / "data" / "stroke-trial.csv"
LEVEL = 0.05


class TestSources:
    def test_a_log_is_its_counts_in_the_order_of_first_rows(self):
        diagnosis = diagnose(LOG)
        assert diagnosis.players == ("south", "north")
        assert diagnosis.arms == ("b", "a")
        assert diagnosis.pulls.tolist() == [[2, 0], [0, 2]]
        assert diagnosis.means[0, 0] == 0.75
        assert np.isnan(diagnosis.means[0, 1])
        assert (diagnosis.decisions, diagnosis.missing) == (5, 1)
        assert diagnosis.shared == pytest.approx([0.6, 0.2])

    def test_rows_that_come_later_leave_the_intervals_of_others_as_they_were(self):
        more = {"player": ["east"] * 3, "arm": ["0"] * 3, "reward": [0.0, 1.0, 1.0], "shared": [0.0] * 3}
        longer = pyarrow.concat_tables([LOG, pyarrow.table(more)])
        assert (diagnose(longer).lower[:2, :2] == diagnose(LOG).lower).all()

    def test_a_learners_log_brings_its_order_range_and_epsilon(self):
        about = {"players": ["north", "south"], "arms": ["a", "b"], "reward_range": [-1, 1], "epsilon": 0.4}
        table = LOG.replace_schema_metadata({b"posse": json.dumps(about).encode()})
        diagnosis = diagnose(table)
        assert diagnosis.players == ("north", "south")
        assert (diagnosis.low, diagnosis.high, diagnosis.epsilon) == (-1, 1, 0.4)
        assert diagnose(table, epsilon=0.2).epsilon == 0.2

    def test_a_learner_is_its_counts_and_weights(self):
        class Learner:
            def counts(self):
                return counts([[100], [100]], [[20], [60]], epsilon=0.1)

            def shared_weights(self):
                return np.array([0.25, 0.75])

        diagnosis = diagnose(Learner())
        assert diagnosis.bound == diagnose(Learner().counts()).bound
        assert diagnosis.shared.tolist() == [0.25, 0.75]
        assert "Other players' data has 50% of the weight in decisions: from 25% (p1) to 75% (p2)." in str(diagnosis)
        assert diagnosis.missing is None

    def test_a_real_learner_and_its_log_say_the_same_and_the_log_keeps_those_who_retired(self):
        learner = posse.Learner(posse.RobustAggTS(20.0), ["x", "y"], ["north", "south"], reward_range=(0, 100))
        random = np.random.default_rng(0)
        for number in range(40):
            if number == 20:
                learner.join("east")
            for player in learner.players:
                decision = learner.choose(player)
                if number < 38:
                    learner.observe(decision.id, float(random.integers(0, 101)))
        itself, log = diagnose(learner), diagnose(learner.log())
        assert itself.players == log.players == ("north", "south", "east")
        assert itself.epsilon == log.epsilon == 20
        assert itself.lower == pytest.approx(log.lower, abs=1e-4)  # a learner keeps rewards on a grid
        assert itself.upper == pytest.approx(log.upper, abs=1e-4)
        assert log.missing == 6
        learner.retire("north")
        assert (diagnose(learner.log()).lower == log.lower).all()

    def test_decisions_that_were_given_up_are_missing_too(self):
        learner = posse.Learner(posse.RobustAggTS(0.1), ["x", "y"], ["a", "b"], waiting_limit=5)
        for number in range(40):
            decision = learner.choose("ab"[number % 2])
            if number % 4 == 0:
                learner.observe(decision.id, 1.0)
        log = diagnose(learner.log())
        assert (log.decisions, log.missing) == (40, 30)
        assert "30 of 40 are missing" in str(log)

    def test_rewards_of_the_past_are_no_decisions(self):
        decisions = pyarrow.array([None, "one", "two", None, "three"])
        told = LOG.append_column("decision", decisions).replace_schema_metadata({b"posse": b'{"schema": 1}'})
        diagnosis = diagnose(told)
        assert diagnosis.pulls.tolist() == diagnose(LOG).pulls.tolist()
        assert (diagnosis.decisions, diagnosis.missing) == (3, 1)
        assert diagnosis.shared == pytest.approx([0.65, 0.2])

    def test_a_learner_that_was_told_of_the_past_and_its_log_share_alike(self):
        learner = posse.Learner(posse.RobustAggTS(0.1), ["x", "y"], ["a", "b"])
        learner.record([(player, arm, reward) for player in "ab" for arm in "xy" for reward in (0.0, 1.0) * 20])
        for number in range(20):
            learner.observe(learner.choose("ab"[number % 2]).id, 1.0)
        assert np.mean(diagnose(learner.log()).shared) == pytest.approx(np.mean(diagnose(learner).shared), abs=0.05)

    def test_columns_that_are_not_needed_are_not_read(self):
        more = LOG.append_column("propensity", pyarrow.array(["33%"] * 5))
        more = more.append_column("holdout", pyarrow.array(["yes"] * 5))
        assert diagnose(more).to_dict() == diagnose(LOG).to_dict()

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_files(self, tmp_path, suffix):
        path = tmp_path / f"log.{suffix}"
        (pyarrow.csv.write_csv if suffix == "csv" else pyarrow.parquet.write_table)(LOG, path)
        assert diagnose(path).to_dict() == diagnose(LOG).to_dict()

    def test_other_ranges_are_the_same_in_other_units(self):
        unit = counts([[300, 50], [200, 70]], [[150, 20], [40, 30]], 0.1)
        money = counts(unit.pulls, -50 * unit.pulls + 200 * unit.sums, 20, -50, 150)
        first, second = diagnose(unit), diagnose(money)
        assert second.bound == pytest.approx(200 * first.bound)
        assert second.lower == pytest.approx(-50 + 200 * first.lower)
        assert second.upper == pytest.approx(-50 + 200 * first.upper)
        assert second.means == pytest.approx(-50 + 200 * first.means)
        assert second.spread == pytest.approx([200 * end for end in first.spread])
        assert second.alarm == first.alarm
        assert diagnose(dataclasses.replace(money, low=0, high=1), reward_range=(-50, 150)).bound == second.bound

    def test_what_is_wrong_is_named(self):
        good = counts([[3], [3]], [[1], [2]])
        with pytest.raises(ValueError, match="player 'p1' earned 4 with 3 pulls of arm 'a1', but rewards are in"):
            diagnose(counts([[3], [3]], [[4], [2]]))
        with pytest.raises(ValueError, match=r"row 3 has reward 7, but rewards are in \[0, 1\]; give --range"):
            diagnose(pyarrow.table({"player": ["p"] * 3, "arm": ["a"] * 3, "reward": [0.0, None, 7.0]}))
        with pytest.raises(ValueError, match=r"epsilon=1.5, but expected a number in \[0, 1\]"):
            diagnose(good, epsilon=1.5)
        with pytest.raises(ValueError, match="level=0"):
            diagnose(good, level=0)
        with pytest.raises(ValueError, match="level=5e-324"):
            diagnose(good, level=5e-324)
        for wrong in ((0, 0), 3, (0, 1e300), (0, 1e-300)):
            with pytest.raises(ValueError, match=r"reward_range=.*, but expected the least and the greatest reward"):
                diagnose(good, reward_range=wrong)
        with pytest.raises(ValueError, match="0 players and 1 arms"):
            diagnose(Counts((), ("a",), np.zeros((0, 1), np.int64), np.zeros((0, 1))))
        with pytest.raises(TypeError, match="is no log"):
            diagnose(3)


class TestCounts:
    def test_lists_become_arrays(self):
        made = Counts(("p",), ("a", "b"), [[1, 2]], [[0, 2]], 0, 3)
        assert (made.pulls.dtype, made.sums.dtype, made.high) == (np.int64, np.float64, 3.0)

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"pulls": [3, 3]}, r"pulls has shape \(2,\), but expected \(2, 1\): players × arms"),
            ({"sums": [[1.0]]}, r"sums has shape \(1, 1\), but expected \(2, 1\)"),
            ({"pulls": [[3.0], [3.0]]}, "expected whole numbers of at least 0"),
            ({"pulls": [[3], [-1]]}, "expected whole numbers of at least 0"),
            ({"pulls": [[3], [1, 2]]}, r"expected an array \[player, arm\]"),
            ({"sums": [[1.0], [math.nan]]}, "player 'q' has the sum nan for arm 'a', but expected finite numbers"),
            ({"low": 1.0}, "high=1.0, but expected a number above 1"),
            ({"high": math.inf}, "high=inf, but expected a number above 0"),
        ],
    )
    def test_what_cannot_be_counts_is_refused(self, changed, message):
        good = {"players": ("p", "q"), "arms": ("a",), "pulls": [[3], [3]], "sums": [[1.0], [2.0]]}
        assert Counts(**good).low == 0
        with pytest.raises(ValueError, match=message):
            Counts(**{**good, **changed})

    def test_words_are_no_numbers(self):
        with pytest.raises(TypeError, match="sums is an array of <U1, but expected numbers"):
            Counts(("p",), ("a",), [[1]], [["1"]])


class TestEdges:
    @pytest.mark.parametrize("name", EDGES)
    def test_are_told_written_and_drawn(self, name):
        diagnosis = diagnose(EDGES[name])
        assert (diagnosis.lower <= diagnosis.upper).all()
        assert json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))["bound"] == diagnosis.bound
        assert "void" in str(diagnosis)
        diagnosis.figure().canvas.draw()

    def test_one_player_has_nobody_to_compare_with(self):
        diagnosis = diagnose(EDGES["one player"])
        assert not diagnosis.alarm
        assert np.isnan(diagnosis.spreads.value).all()
        assert "Fewer than two players have rewards on record, so there is nobody to compare." in str(diagnosis)

    def test_equal_extremes_show_no_difference_and_opposite_ones_do(self):
        for name in ("only zeros", "only ones"):
            assert diagnose(EDGES[name]).bound == 0
        assert diagnose(counts([[50], [50]], [[0], [50]])).bound > 0.5


@pytest.mark.skipif(not STROKE.is_file(), reason="the stroke trial's data is not beside this checkout")
class TestStrokeTrial:
    def diagnosis(self, outcome: str) -> Diagnosis:
        return diagnose(STROKE, reward=outcome, epsilon=0.1)

    def test_countries_are_alike_in_survival(self):
        diagnosis = self.diagnosis("alive_14_days")
        assert not diagnosis.alarm
        assert diagnosis.model.level_p < 1e-6
        assert diagnosis.model.contrast_p > 0.1
        assert diagnosis.spread.high < 0.2
        assert diagnosis.missing == 0

    def test_and_not_in_independence(self):
        diagnosis = self.diagnosis("independent_6_months")
        assert diagnosis.alarm
        assert "UK" in diagnosis.pairs[int(diagnosis.bounds.argmax())]
        assert diagnosis.model.level_p < 1e-30
        assert diagnosis.model.contrast_p > 0.05
        assert diagnosis.spread.low > 0.2
        assert diagnosis.levels.low > 0.08
        assert diagnosis.missing == 150
