"""Logs from files and tables, good and bad, in one shape."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

import posse
from posse.insight.columns import Columns
from posse.insight.logs import read_log, with_range
from posse.learner import Counts

TABLE = pyarrow.table(
    {
        "player": ["b", "a", "a", "b"],
        "arm": ["y", "x", "y", "y"],
        "propensity": [0.5, 0.25, None, 0.5],
        "reward": [1.0, 0.0, 0.5, None],
    }
)


EVERYTHING = ("propensity", "shared", "holdout", "observed", "decision")


def with_column(name, values):
    return TABLE.set_column(TABLE.column_names.index(name), name, pyarrow.array(values))


def same(first, second):
    assert (first.players, first.arms, first.about) == (second.players, second.arms, second.about)
    for name in ("player", "arm", "reward"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


class TestReading:
    def test_names_are_sorted_and_rows_stay_in_order(self):
        log = read_log(TABLE)
        assert (log.players, log.arms) == (("a", "b"), ("x", "y"))
        assert log.player.tolist() == [1, 0, 0, 1]
        assert log.arm.tolist() == [1, 0, 1, 1]

    @pytest.mark.parametrize("kind", ["float32", "float64"])
    def test_nan_is_a_missing_value_of_an_attribute(self, kind):
        size = pyarrow.array(np.array([2, np.nan, np.nan, 2], kind))
        assert read_log(TABLE.append_column("size", size), attributes="size").attributes == {"size": (None, "2")}

    def test_what_is_unknown_is_nan(self):
        log = read_log(TABLE, also=EVERYTHING)
        assert np.isnan(log.reward).tolist() == [False, False, False, True]
        assert np.isnan(log.propensity).tolist() == [False, False, True, False]
        assert log.missing == 1
        assert log.shared is None

    def test_counts_leave_out_rows_without_a_reward(self):
        counts = read_log(TABLE).counts()
        assert counts.pulls.tolist() == [[1, 1], [0, 1]]
        assert counts.sums.tolist() == [[0.0, 0.5], [0.0, 1.0]]
        assert (counts.low, counts.high, counts.epsilon) == (0.0, 1.0, None)

    def test_a_reward_may_be_a_comparison_with_a_word(self):
        table = TABLE.append_column("bought", pyarrow.array(["ja", "nein", "", None]))
        rewards = read_log(table, "1 - (bought == 'nein')").reward
        assert rewards[:2].tolist() == [1, 0]
        assert np.isnan(rewards[2:]).all()
        with pytest.raises(ValueError, match="no row has bought == 'Ja'; it is ja, nein"):
            read_log(table, "bought == 'Ja'")

    def test_days_are_sorted_as_days_and_shown_without_a_time(self):
        days = ["03.04.2024", "27.03.2024", "1.5.2023", "27.03.2024"]
        assert read_log(TABLE.append_column("day", [days]), by="day").groups == ("1.5.2023", "27.03.2024", "03.04.2024")
        times = pyarrow.array(np.array(["2024-04-03", "2024-03-27", "NaT", "2024-03-27"], "datetime64[ns]"))
        assert read_log(TABLE.append_column("day", times), by="day").groups == ("2024-03-27", "2024-04-03", "no day")
        hours = pyarrow.array(np.array(["2024-04-03T12", "2024-03-27", "NaT", "2024-03-27"], "datetime64[s]"))
        assert "2024-03-27 00:00:00" in read_log(TABLE.append_column("day", hours), by="day").groups

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
        log = read_log(TABLE.append_column("sales", [[3.0, 4.0, 5.0, 6.0]]), "sales", reward_range=(0, 10))
        assert log.reward.tolist() == [3.0, 4.0, 5.0, 6.0]

    def test_a_learners_log_brings_its_names_range_and_epsilon(self):
        learner = posse.Learner(
            posse.RobustAggTS(2), ["tea", "coffee"], ["north", "east"], seed=1, reward_range=(-5.0, 15.0)
        )
        learner.observe(learner.choose("north").id, 10.0)
        learner.choose("north")
        log = read_log(learner.log(), also=EVERYTHING)
        assert (log.players, log.arms) == (("north", "east"), ("tea", "coffee"))
        assert log.missing == 1
        assert log.about["adaptive"] is True
        assert log.holdout.tolist() == [False, False]
        counts, own = log.counts(), learner.counts()
        assert counts.pulls.tolist() == own.pulls.tolist()
        np.testing.assert_allclose(counts.sums, own.sums, atol=1e-5)
        assert (counts.low, counts.high, counts.epsilon) == (-5.0, 15.0, 2.0)

    def test_a_learner_is_its_log_and_knows_what_it_gave_up_and_what_it_was_told(self):
        learner = posse.Learner(posse.IndTS(), ["x", "y"], ["a"], seed=1, waiting_limit=2)
        learner.record([("a", "x", 1.0)])
        for _ in range(5):
            learner.choose("a")
        log = read_log(learner, also=EVERYTHING)
        assert (log.missing, log.given_up) == (2, 3)
        assert log.is_decision.tolist() == [False, True, True]
        assert np.isnan(log.observed).tolist() == [False, True, True]
        assert (read_log(TABLE).given_up, read_log(TABLE, also=EVERYTHING).is_decision) == (0, None)

    def test_only_what_is_asked_for_is_read(self):
        table = TABLE.append_column("holdout", [["yes"] * 4]).append_column("shared", [["50 %"] * 4])
        table = table.set_column(2, "propensity", pyarrow.array(["33%"] * 4))
        log = read_log(table)
        assert (log.propensity, log.holdout, log.shared) == (None, None, None)
        strangers = table.append_column("observed", [["today"] * 4]).append_column("decision", [["buy", None] * 2])
        log = read_log(strangers, also=["observed", "decision"])
        assert (log.observed, log.is_decision) == (None, None)
        for name in ("propensity", "holdout", "shared"):
            with pytest.raises(ValueError, match=f"column '{name}' must hold numbers"):
                read_log(table, also=[name])

    def test_rows_that_are_kept_take_all_their_columns_along(self):
        log = read_log(TABLE, also=EVERYTHING).kept(np.array([True, False, False, True]))
        assert (log.player.tolist(), log.propensity.tolist(), log.holdout) == ([1, 1], [0.5, 0.5], None)

    @pytest.mark.parametrize("kind", ["pandas", "polars", "duckdb", "lazy"])
    def test_data_frames(self, kind):
        module = pytest.importorskip("polars" if kind == "lazy" else kind)
        columns = {"player": ["b", "a"], "arm": [10, 9], "reward": [1.0, None]}
        if kind == "duckdb":
            frame = module.sql("select * from (values ('b', 10, 1.0), ('a', 9, null)) as log(player, arm, reward)")
        else:
            frame = module.DataFrame(columns).lazy() if kind == "lazy" else module.DataFrame(columns)
        log = read_log(frame)
        assert (log.players, log.arms, log.missing) == (("a", "b"), ("9", "10"), 1)

    def test_a_data_frame_with_names_and_numbers_in_one_column(self):
        frame = pytest.importorskip("pandas").DataFrame({"player": ["a", 3], "arm": [1, 2], "reward": [1.0, None]})
        with pytest.raises(ValueError, match=r"DataFrame cannot be made an Arrow table.*player"):
            read_log(frame)


class TestColumns:
    LOG = TABLE.append_column("week", [[1, 1, 2, 2]]).append_column("day30", [[1, 0, None, 1]])

    def test_several_columns_are_the_player_together(self):
        for player in ("player, week", ["player", "week"]):
            log = read_log(self.LOG, Columns(player=player))
            assert log.players == ("a / 1", "a / 2", "b / 1", "b / 2")
            assert log.player.tolist() == [2, 0, 1, 3]
        assert read_log(self.LOG, Columns(player=["player", "week"]), in_order=True).players[0] == "b / 1"
        same_names = {"one": ["a / b", "a"], "two": ["c", "b / c"], "arm": [1, 1], "reward": [1, 0]}
        with pytest.raises(ValueError, match="give different players the same name"):
            read_log(same_names, Columns(player="one,two"))

    @pytest.mark.parametrize(
        ("formula", "expected"),
        [
            ("1 - day30", [0, 1, np.nan, 0]),
            ("-(day30 + week) / 2", [-1, -0.5, np.nan, -1.5]),
            ("2 * week", [2, 2, 4, 4]),
        ],
    )
    def test_a_reward_may_be_a_calculation(self, formula, expected):
        np.testing.assert_array_equal(read_log(self.LOG, formula, reward_range=(-2, 4)).reward, expected)

    @pytest.mark.parametrize(
        ("formula", "expected"),
        [
            ("1 - sales", "no column 'sales'"),
            ("__import__('os')", "no column '__import__'"),
            ("day30.real", "no calculation"),
            ("day30 ** 2", "no calculation"),
            ("day30 if week else 1", "no calculation"),
            ("'a' + day30", "no calculation"),
            ("True", "no calculation"),
            ("day30 + 1" + "0" * 400, "no calculation"),
            ("-" * 90_000 + "day30", "neither a column nor a calculation"),
            ("1 -", "neither a column nor a calculation"),
            ("day30 / (week - 1)", "row 1 has day30 / .* expected a finite number"),
            ("arm + 1", "column 'arm' must hold numbers"),
        ],
    )
    def test_anything_else_is_refused(self, formula, expected):
        with pytest.raises(ValueError, match=expected):
            read_log(self.LOG, formula)

    def test_a_column_may_be_called_like_a_calculation(self):
        log = read_log(TABLE.append_column("1 - day30", [[0.0, 1.0, 0.5, 1.0]]), "1 - day30")
        assert log.reward.tolist() == [0.0, 1.0, 0.5, 1.0]

    @pytest.mark.parametrize(
        ("propensity", "expected"),
        [
            ("1/3", [1 / 3] * 4),
            (0.25, [0.25] * 4),
            ("week / 4", [0.25, 0.25, 0.5, 0.5]),
            ("empirical", [1, 0.5, 0.5, 1]),
        ],
    )
    def test_propensities(self, propensity, expected):
        log = read_log(self.LOG, Columns(propensity=propensity), also=["propensity"])
        np.testing.assert_allclose(log.propensity, expected)

    def test_a_propensity_that_is_named_must_be_there(self):
        with pytest.raises(ValueError, match="no column 'chance'"):
            read_log(self.LOG, Columns(propensity="chance"), also=["propensity"])
        assert read_log(self.LOG.drop_columns(["propensity"]), also=["propensity"]).propensity is None

    def test_names_that_are_numbers_or_truth_values(self):
        log = read_log({"player": [10.0, 9.0], "arm": [True, False], "reward": [1, 0]})
        assert (log.players, log.arms) == (("9", "10"), ("False", "True"))

    def test_all_arms_probabilities_of_a_learners_log(self):
        about = {"posse": json.dumps({"players": ["a", "b"], "arms": ["x", "y"]})}
        whole = TABLE.append_column("probabilities", [[[0.5, 0.5], [1.0, 0.0], [0.25, 0.75], [0.5, 0.5]]])
        log = read_log(whole.replace_schema_metadata(about), also=["probabilities"])
        assert log.probabilities.tolist() == [[0.5, 0.5], [1.0, 0.0], [0.25, 0.75], [0.5, 0.5]]
        gaps = TABLE.append_column("probabilities", [[[1.0], [None, 1.0], None, [0.5, 0.5]]])
        log = read_log(gaps.replace_schema_metadata(about), also=["probabilities"])
        np.testing.assert_array_equal(log.probabilities, [[1, 0], [0, 1], [np.nan, np.nan], [0.5, 0.5]])
        assert read_log(whole, also=["probabilities"]).probabilities is None  # a stranger's column

    @pytest.mark.parametrize("by", ["arm", "day30"])
    def test_rows_are_not_grouped_by_what_came_after_the_choice(self, by):
        with pytest.raises(ValueError, match=f"by='{by}', but rows can be grouped only by what was known before"):
            read_log(self.LOG, "1 - day30", by=by)

    def test_rows_can_be_grouped_by_any_column(self):
        log = read_log(self.LOG, by="week")
        assert (log.groups, log.group.tolist()) == (("1", "2"), [0, 0, 1, 1])


class TestRepeatedIds:
    IDS = ("0-000000ff", "1-000000ff", None, "0-000000ff")

    @pytest.mark.parametrize(
        ("column", "ids"), [("decision", IDS), ("id", (3, 4, 5, 3)), ("id", ("a", "b", None, "a"))]
    )
    def test_they_are_refused_with_id_and_rows(self, column, ids, tmp_path):
        log = TABLE.append_column(column, [list(ids)])
        with pytest.raises(ValueError, match=f"rows 1 and 4 have the same {column}, {ids[0]!r}"):
            read_log(log)
        pyarrow.csv.write_csv(log, tmp_path / "log.csv")
        with pytest.raises(ValueError, match=f"rows 1 and 4 have the same {column}"):
            read_log(tmp_path / "log.csv")
        assert read_log(tmp_path / "log.csv", Columns(id="none")).player.size == 4
        twice_empty = TABLE.append_column(column, [[*ids[:2], None, None]])
        pyarrow.csv.write_csv(twice_empty, tmp_path / "empty.csv")
        assert read_log(tmp_path / "empty.csv").player.size == 4
        assert read_log(TABLE.append_column(column, [[*ids[:3], None]])).player.size == 4

    def test_any_column_can_be_the_id_and_other_decisions_are_none(self):
        log = TABLE.append_column("visit", [[1, 2, 2, 3]]).append_column("decision", [["buy"] * 4])
        assert read_log(log).player.size == 4
        with pytest.raises(ValueError, match="rows 2 and 3 have the same visit, 2"):
            read_log(log, Columns(id="visit"))

    def test_a_learners_log_twice(self):
        learner = posse.Learner(posse.IndTS(), ["x", "y"], ["a"], seed=1)
        learner.observe(learner.choose("a").id, 1.0)
        learner.record([("a", "x", 1.0), ("a", "x", 1.0)])
        log = learner.log()
        assert read_log(log).player.size == 3
        for insight in (posse.insight.evaluate, posse.insight.diagnose):
            with pytest.raises(ValueError, match="have the same decision"):
                insight(pyarrow.concat_tables([log, log]))


class TestTheRangeOfRewards:
    COUNTS = Counts(("a", "b"), ("x",), np.array([[2], [0]]), np.array([[1.5], [0.0]]))
    EURO = with_column("reward", [30.0, -2.0, None, 5.0])

    def test_what_was_given_goes_before_what_is_known(self):
        log = read_log(self.EURO, reward_range=(-10, 50))
        assert (log.counts().low, log.counts().high) == (-10.0, 50.0)
        assert (with_range(self.COUNTS).high, with_range(self.COUNTS, [0, 7]).high) == (1.0, 7.0)
        told = self.EURO.replace_schema_metadata({"posse": json.dumps({"reward_range": [-2, 30]})})
        assert read_log(told).counts().high == 30.0

    @pytest.mark.parametrize(
        ("what", "given", "expected"),
        [
            (EURO, None, "row 1 has reward 30, but rewards are in [0, 1]; give --range LOW HIGH (reward_range=(low, "),
            (EURO, (0, 50), "row 2 has reward -2, but rewards are in [0, 50]; give --range"),
            (COUNTS, (0, 0.5), "player 'a' earned 1.5 with 2 pulls of arm 'x', but rewards are in [0, 0.5]; give --r"),
            (EURO, 3, "reward_range=3, but expected the least and the greatest reward"),
            (EURO, (1, 0), "reward_range=(1, 0), but expected"),
            (EURO, (0, 1, 2), "reward_range=(0, 1, 2), but expected"),
            (EURO, ("0", "1"), "reward_range=('0', '1'), but expected"),
            (EURO, (0, np.inf), "but expected the least"),
            (EURO, (0, 1e300), "but expected the least"),
            (COUNTS, (0, 1e-300), "but expected the least"),
        ],
    )
    def test_whatever_is_wrong_is_a_value_error_that_says_what_to_give(self, what, given, expected):
        with pytest.raises(ValueError, match=re.escape(expected)):
            with_range(what, given) if isinstance(what, Counts) else read_log(what, reward_range=given)


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
            (with_column("propensity", [0.5, 1e-300, 0.5, 0.5]), "row 2 has propensity=1e-300"),
            (with_column("propensity", [0.5, 0.5, 1.5, 0.5]), "row 3 has propensity=1.5"),
            (with_column("propensity", [-0.5, 0.5, 0.5, 0.5]), "row 1 has propensity=-0.5"),
            (TABLE.append_column("arm", [["x"] * 4]), "column 'arm' 2 times"),
            (TABLE.replace_schema_metadata({"posse": "{"}), "what the log says of itself"),
            (TABLE.replace_schema_metadata({"posse": "[]"}), "what the log says of itself"),
            (TABLE.rename_columns(["player;arm;reward", "a", "b", "c"]), "separated by semicolons"),
            (TABLE.rename_columns(["player\tarm\treward", "a", "b", "c"]), "separated by tabs"),
            (with_column("player", [["a"], ["b"], ["a"], ["b"]]), "column 'player' holds list<.*, but expected names"),
            (with_column("player", [1.0, np.nan, 1.0, 2.0]), "row 2 has no player; every row needs one"),
            (with_column("arm", [b"\xff", b"y", b"y", b"y"]), "column 'arm' holds binary, but expected names"),
        ],
    )
    def test_tables(self, table, expected):
        with pytest.raises(ValueError, match=expected):
            read_log(table, also=EVERYTHING)

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
        with pytest.raises(TypeError, match="a list is no log; expected a path"):
            read_log([("a", "x", 1.0)])
