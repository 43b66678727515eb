"""Logs from files and tables, good and bad, in one shape."""

from __future__ import annotations

import json

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

import posse
from posse.insight.logs import read_log

TABLE = pyarrow.table(
    {
        "player": ["b", "a", "a", "b"],
        "arm": ["y", "x", "y", "y"],
        "propensity": [0.5, 0.25, None, 0.5],
        "reward": [1.0, 0.0, 0.5, None],
    }
)


def with_column(name, values):
    return TABLE.set_column(TABLE.column_names.index(name), name, pyarrow.array(values))


def same(first, second):
    assert (first.players, first.arms, first.about) == (second.players, second.arms, second.about)
    for name in ("player", "arm", "reward", "propensity"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


class TestReading:
    def test_names_are_sorted_and_rows_stay_in_order(self):
        log = read_log(TABLE)
        assert (log.players, log.arms) == (("a", "b"), ("x", "y"))
        assert log.player.tolist() == [1, 0, 0, 1]
        assert log.arm.tolist() == [1, 0, 1, 1]

    def test_what_is_unknown_is_nan(self):
        log = read_log(TABLE)
        assert np.isnan(log.reward).tolist() == [False, False, False, True]
        assert np.isnan(log.propensity).tolist() == [False, False, True, False]
        assert log.missing == 1
        assert log.shared is None

    def test_counts_leave_out_rows_without_a_reward(self):
        counts = read_log(TABLE).counts()
        assert counts.pulls.tolist() == [[1, 1], [0, 1]]
        assert counts.sums.tolist() == [[0.0, 0.5], [0.0, 1.0]]
        assert (counts.low, counts.high, counts.epsilon) == (0.0, 1.0, None)

    def test_csv_and_parquet_say_the_same(self, tmp_path):
        pyarrow.csv.write_csv(TABLE, tmp_path / "log.csv")
        pyarrow.parquet.write_table(TABLE, tmp_path / "log.parquet")
        same(read_log(tmp_path / "log.csv"), read_log(TABLE))
        same(read_log(str(tmp_path / "log.parquet")), read_log(TABLE))

    def test_names_that_look_like_numbers_or_nothing_stay_names(self, tmp_path):
        (tmp_path / "log.csv").write_text("player,arm,reward\n007,NA,1\n7,null,0\n")
        log = read_log(tmp_path / "log.csv")
        assert (log.players, log.arms) == (("007", "7"), ("NA", "null"))

    @pytest.mark.parametrize("kind", [pyarrow.large_string(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())])
    def test_other_kinds_of_text_and_several_chunks(self, kind):
        halves = [TABLE.slice(0, 2), TABLE.slice(2)]
        chunked = pyarrow.concat_tables(
            [half.set_column(0, "player", half["player"].combine_chunks().cast(kind)) for half in halves]
        )
        same(read_log(chunked), read_log(TABLE))

    def test_players_may_be_numbers_and_rewards_true_or_false(self):
        log = read_log(with_column("player", [2, 1, 1, 2]).set_column(3, "reward", [[True, False, None, True]]))
        assert log.players == ("1", "2")
        np.testing.assert_array_equal(log.reward, [1.0, 0.0, np.nan, 1.0])

    def test_another_column_of_rewards(self):
        log = read_log(TABLE.append_column("sales", [[3.0, 4.0, 5.0, 6.0]]), reward="sales")
        assert log.reward.tolist() == [3.0, 4.0, 5.0, 6.0]

    def test_a_learners_log_brings_its_names_range_and_epsilon(self):
        learner = posse.Learner(
            posse.RobustAggTS(2), ["tea", "coffee"], ["north", "east"], seed=1, reward_range=(-5.0, 15.0)
        )
        learner.observe(learner.choose("north").id, 10.0)
        learner.choose("north")
        log = read_log(learner.log())
        assert (log.players, log.arms) == (("north", "east"), ("tea", "coffee"))
        assert log.missing == 1
        assert log.about["adaptive"] is True
        assert log.holdout.tolist() == [False, False]
        counts, own = log.counts(), learner.counts()
        assert counts.pulls.tolist() == own.pulls.tolist()
        np.testing.assert_allclose(counts.sums, own.sums, atol=1e-5)
        assert (counts.low, counts.high, counts.epsilon) == (-5.0, 15.0, 2.0)


class TestRefusing:
    @pytest.mark.parametrize(
        ("table", "expected"),
        [
            (TABLE.drop_columns(["player"]), "no column 'player'; its columns are arm, propensity, reward"),
            (TABLE.drop_columns(["arm"]), "no column 'arm'"),
            (TABLE.drop_columns(["reward"]), "no column 'reward'"),
            (TABLE.slice(0, 0), "no rows"),
            (with_column("player", ["a", None, "b", "b"]), "row 2 has no player"),
            (with_column("arm", ["x", "y", "", "y"]), "row 3 has no arm"),
            (with_column("reward", ["good", "bad", "good", "bad"]), "'reward' must hold numbers"),
            (with_column("reward", [1.0, np.inf, 0.0, 0.0]), "row 2 has reward=inf"),
            (with_column("propensity", [0.5, 0.0, 0.5, 0.5]), "row 2 has propensity=0"),
            (with_column("propensity", [0.5, 0.5, 1.5, 0.5]), "row 3 has propensity=1.5"),
            (with_column("propensity", [-0.5, 0.5, 0.5, 0.5]), "row 1 has propensity=-0.5"),
            (TABLE.append_column("arm", [["x"] * 4]), "column 'arm' 2 times"),
            (TABLE.replace_schema_metadata({"posse": "{"}), "what the log says of itself"),
            (TABLE.replace_schema_metadata({"posse": "[]"}), "what the log says of itself"),
            (TABLE.replace_schema_metadata({"posse": json.dumps({"reward_range": [0, 0.4]})}), r"in \[0, 0.4\]"),
        ],
    )
    def test_tables(self, table, expected):
        with pytest.raises(ValueError, match=expected):
            read_log(table)

    @pytest.mark.parametrize(
        ("name", "text", "expected"),
        [
            ("log.csv", "", "cannot be read"),
            ("log.csv", "player,arm,reward\n", "no rows"),
            ("log.csv", "player,arm,reward\na,x\n", "cannot be read"),
            ("log.parquet", "player,arm,reward\na,x,1\n", "cannot be read"),
            ("log.txt", "player,arm,reward\na,x,1\n", "ends in '.txt'"),
        ],
    )
    def test_files(self, tmp_path, name, text, expected):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=expected):
            read_log(tmp_path / name)

    def test_what_is_no_file_and_no_table(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"there is no file .*nowhere.csv"):
            read_log(tmp_path / "nowhere.csv")
        with pytest.raises(TypeError, match="is no log"):
            read_log([("a", "x", 1.0)])
