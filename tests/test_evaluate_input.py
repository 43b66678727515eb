"""What `evaluate` says of names, groups, and logs that are wrong."""

from __future__ import annotations

import numpy as np
import pyarrow
import pyarrow.csv
import pytest
from made_logs import randomised, table

import posse
from posse.insight import evaluate


class TestGroupsAndDifferences:
    def test_results_by_any_column_are_those_of_its_rows(self):
        log, _ = randomised(np.random.default_rng(4), 900)
        week = np.arange(900) // 300
        by_week = evaluate(log.append_column("week", pyarrow.array(week)), ["a1", "logged"], against="a0", by="week")
        assert (by_week.by, by_week.players, by_week.player_rows) == ("week", ("0", "1", "2"), (300, 300, 300))
        for number in range(3):
            alone = evaluate(log.slice(300 * number, 300), "logged").of("logged")
            found = by_week.of("logged", str(number))
            assert (found.value, found.low, found.high) == pytest.approx((alone.value, alone.low, alone.high))
        assert by_week.of("a1").value == evaluate(log, "a1").of("a1").value
        shown = str(by_week)
        assert "3 values of week" in shown
        assert "minus a0:\nweek  rows" in shown

    def test_values_of_a_column_come_in_their_order(self):
        log, _ = randomised(np.random.default_rng(4), 900)
        week = np.array(["10", "9", "late", "nan"])[np.repeat([0, 0, 0, 0, 1, 1, 2, 3, 3], 100)]
        found = evaluate(log.append_column("week", pyarrow.array(week)), "logged", by="week")
        assert (found.players, found.player_rows) == (("9", "10", "late", "nan"), (200, 400, 100, 200))

    def test_a_page_says_whom_its_tables_leave_out(self):
        log, _ = randomised(np.random.default_rng(4), 900)
        group = pyarrow.array(np.arange(900) % 25)
        found = evaluate(log.append_column("hour", group), "logged", by="hour")
        for text in (str(found), found.report()):
            assert "5 more hours with 180 rows are in to_dict() and in --json" in text

    def test_differences_by_player_are_shown_and_shrunk_to_their_mean(self):
        log, _ = randomised(np.random.default_rng(4), 2000)
        evaluation = evaluate(log, "a1", against="a0")
        raw, shrunken = zip(
            *((each.value, each.shrunken) for each in (evaluation.of("a1", name).difference for name in ("p0", "p1"))),
            strict=True,
        )
        assert min(raw) <= min(shrunken) <= max(shrunken) <= max(raw)
        assert evaluation.of("a1").difference.shrunken is None
        for player in ("p0", "p1"):
            assert f"{evaluation.of('a1', player).difference.value:+.3f} [" in str(evaluation)
        assert "−" in str(turned := evaluate(log, "a0", against="a1"))
        assert "-0" not in str(turned), "one minus sign throughout"

    def test_digits_follow_the_interval(self):
        rng = np.random.default_rng(1)
        rates = table(["a"] * 4000, rng.choice(["x", "y"], 4000), [0.5] * 4000, (rng.random(4000) < 0.01) * 1.0)
        shown = str(evaluate(rates, "x"))
        estimate = evaluate(rates, "x").of("x")
        assert f"{estimate.value:.4f}  [{estimate.low:.4f}, {estimate.high:.4f}]" in shown
        spend = rates.set_column(3, "reward", pyarrow.array(rng.exponential(2, 4000).clip(0, 499)))
        evaluation = evaluate(spend, "x", reward_range=(-50, 499))
        estimate = evaluation.of("x")
        assert 0.1 < estimate.high - estimate.low < 2
        assert f"[{estimate.low:.2f}, {estimate.high:.2f}]" in str(evaluation)

    @pytest.mark.parametrize("against", ["a0", posse.IndUCB()])
    def test_replayed_policies_have_paired_differences(self, against):
        log, _ = randomised(np.random.default_rng(3), 900)
        evaluation = evaluate(log, [posse.IndTS(), "a1", posse.IndUCB()], against=against, passes=4)
        found = evaluation.of("Ind-TS").difference
        other = evaluation.of("Ind-UCB") if isinstance(against, posse.IndUCB) else evaluate(log, "a0").of("a0")
        assert found.kind == "replay"
        assert found.value == pytest.approx(evaluation.of("Ind-TS").value - other.value)
        assert found.low < found.value < found.high
        halves = sum((each.high - each.low) ** 2 for each in (evaluation.of("Ind-TS"), other))
        assert (found.high - found.low) ** 2 < 1.6 * halves
        assert evaluation.of("a1").difference is not None
        assert evaluation.of("Ind-TS", "p0").difference.shrunken is not None


class TestNames:
    def test_an_arm_may_be_called_like_a_policy(self):
        log = table(["a"] * 4, ["uniform", "logged"] * 2, [0.5] * 4, [1.0, 0.0, 1.0, 1.0])
        evaluation = evaluate(log)
        assert [each.target for each in evaluation.estimates if each.player is None] == ["logged", "uniform"]
        assert evaluation.of("uniform").value == 1.0
        assert "uniform is an arm here, not the policy" in evaluation.notes

    def test_rows_are_counted_in_the_whole_log(self):
        log = table(["a", "b", "b"], ["x", "x", "y"], [0.5] * 3, [1.0, 0.0, 7.0])
        with pytest.raises(ValueError, match="row 3 has reward 7"):
            evaluate(log, "x", players=["b"])

    def test_only_what_is_needed_must_be_right(self):
        odd = TestHostileInput.LOG.append_column("holdout", [["yes"] * 4]).append_column("shared", [["?"] * 4])
        assert evaluate(odd, "x").rows == 3
        with pytest.raises(ValueError, match="column 'holdout' must hold numbers"):
            evaluate(odd, "x", holdout=True)


class TestHostileInput:
    LOG = table(["a"] * 4, ["x", "y"] * 2, [0.5] * 4, [1.0, 0.0, None, 1.0])

    @pytest.mark.parametrize(
        ("target", "options", "expected"),
        [
            ("z", {}, "no arm 'z'; its arms are x, y$"),
            ("IndTS", {}, "no arm 'IndTS'; .* a policy is given as an object, such as posse.RobustAggTS"),
            ("RobustAggTS(0.1)", {}, "a policy is given as an object"),
            (3, {}, "no arm '3'"),
            (0.5, {}, "0.5 is no policy"),
            ({"b": "x"}, {}, "nothing for player 'a'"),
            ({"a": "z"}, {}, "no arm 'z'"),
            ({"a": {"x": 0.5}}, {}, "add up to 0.5"),
            ({"a": {"x": 1.5, "y": -0.5}}, {}, "expected a number in"),
            ("x", {"level": 0}, "level=0"),
            ("x", {"level": 1e-17}, r"level=1e-17, but expected a number in \[1e-12, 0.5\]"),
            ("x", {"level": 0.7}, "level=0.7"),
            ("x", {"estimator": "magic"}, "estimator='magic'"),
            ("x", {"adaptive": "yes"}, "adaptive='yes'"),
            ("x", {"reward": "sales"}, "no column 'sales'"),
            ("x", {"reward_range": (0.0, 0.5)}, r"row 1 has reward 1, .* in \[0, 0.5\]; give --range"),
            ("x", {"reward_range": 3}, "reward_range=3"),
            ("x", {"reward_range": (1, 0)}, r"reward_range=\(1, 0\)"),
            ("x", {"players": ["nobody"]}, "no player 'nobody'"),
            ("x", {"passes": 1}, "passes=1"),
            ("x", {"against": "z"}, "no arm 'z'"),
            ([], {}, "at least one policy"),
            (["x", "y", "x"], {}, "2 targets are called 'x'"),
        ],
    )
    def test_errors_name_the_value(self, target, options, expected):
        with pytest.raises((ValueError, TypeError), match=expected):
            evaluate(self.LOG, target, **options)

    def test_no_propensities_no_judgement(self):
        with pytest.raises(ValueError, match="no column 'propensity'"):
            evaluate(self.LOG.drop_columns(["propensity"]))
        empty = self.LOG.set_column(2, "propensity", pyarrow.array([None] * 4, pyarrow.float64()))
        with pytest.raises(ValueError, match="no row has both"):
            evaluate(empty)

    def test_propensities_that_add_up_to_more_than_one(self):
        with pytest.raises(ValueError, match=r"player 'a' .* add up to 1.6"):
            evaluate(table(["a", "a"], ["x", "y"], [0.8, 0.8], [1.0, 0.0]))

    def test_missing_rewards_and_propensities_are_counted_and_said(self):
        log = table(["a"] * 4, ["x", "y"] * 2, [0.5, 0.5, 0.5, None], [1.0, 0.0, None, 1.0])
        evaluation = evaluate(log, "x")
        assert (evaluation.rows, evaluation.missing, evaluation.undrawn) == (2, 1, 1)
        assert "1 row without a reward" in str(evaluation)
        assert "reward of 2 decisions, 1 player, 2 arms" in str(evaluation)

    def test_an_unknown_estimate_says_what_there_is(self):
        with pytest.raises(ValueError, match="judged were x"):
            evaluate(self.LOG, "x").of("y")


class TestDraws:
    """Intervals take every row for a draw, so a log must not have been drawn player by player."""

    def log(self, drawn, rows=400, players=20):
        rng = np.random.default_rng(4)
        player = np.repeat(np.arange(players), rows)
        day = np.tile(np.arange(rows) // 40, players)
        arm = {
            "by player": rng.integers(4, size=players)[player],
            "by day": rng.integers(4, size=(players, rows // 40 + 1))[player, day],
            "by row": rng.integers(4, size=player.size),
        }[drawn]
        names = [f"p{each}" for each in player], [f"a{each}" for each in arm]
        return table(*names, np.full(player.size, 0.25), (rng.random(player.size) < 0.3) * 1.0)

    @pytest.mark.parametrize(("rows", "players"), [(400, 20), (3, 60)])
    def test_arms_that_were_drawn_once_for_each_player_are_refused(self, rows, players):
        with pytest.raises(ValueError, match=rf"drawn once for each player.*: {players} of {players} players"):
            evaluate(self.log("by player", rows, players), "a1")
        assert evaluate(self.log("by row", rows, players), "a1").rows == rows * players  # negative control

    def test_one_row_for_each_player_is_the_way_out(self):
        means = self.log("by player").group_by(["player", "arm"]).aggregate([("reward", "mean"), ("propensity", "min")])
        means = means.rename_columns(["player", "arm", "reward", "propensity"])
        found = evaluate(means, "a1").of("a1")
        assert found.low < 0.3 < found.high

    def test_arms_that_were_drawn_for_batches_are_noted(self):
        assert "drawn one by one would" in " ".join(evaluate(self.log("by day"), "a1").notes)
        assert "drawn one by one would" not in " ".join(evaluate(self.log("by row"), "a1").notes)

    def test_an_arm_that_nothing_else_could_replace_is_no_draw(self):
        log = table(["p0"] * 50 + ["p1"] * 50, ["a0"] * 50 + ["a1"] * 50, [1.0] * 100, [0.0, 1.0] * 50)
        assert evaluate(log, "logged").of("logged").value == 0.5
