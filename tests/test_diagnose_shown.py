"""How a diagnosis is shown: as text, as a figure, and by the command."""

from __future__ import annotations

import io
import json
import re

import matplotlib
import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_counts import EDGES, LOG, counts
from matplotlib.cbook import is_math_text

from posse.cli import main
from posse.insight import diagnose
from posse.insight.diagnosis.figure import MOST_ARMS, MOST_PLAYERS, _band
from posse.learner import Counts


class TestText:
    def test_what_holds_so_far_and_what_is_likely(self):
        fits = diagnose(counts(np.full((4, 1), 400), [[200], [220], [184], [205]], 0.1))
        assert fits.verdict == "ε = 0.1 holds so far; no two players are shown to differ at all"
        small = diagnose(counts(np.full((6, 1), 100), [[30], [50], [60], [40], [65], [38]], 0.05))
        assert not small.alarm
        assert small.verdict.startswith("ε = 0.05 is probably too small, but not shown to be;")

    @pytest.mark.parametrize(
        ("level", "contrast", "verdict"),
        [
            (0.0, 0.0, "No difference between players shows"),
            (0.1, 0.0, "Players differ in level; no difference in what the arms do shows"),
            (0.0, 0.1, "Players differ in what the arms do"),
            (0.15, 0.1, "Players differ in level and in what the arms do"),
        ],
    )
    def test_it_tells_levels_from_what_the_arms_do(self, level, contrast, verdict):
        random = np.random.default_rng(5)
        pulls = np.full((12, 2), 800)
        means = 0.4 + level * random.standard_normal((12, 1)) + contrast * random.choice([-1, 1], (12, 1)) * [-0.5, 0.5]
        assert diagnose(counts(pulls, random.binomial(pulls, np.clip(means, 0, 1)))).verdict == verdict

    @pytest.mark.parametrize("pulls", [[[10, 0], [0, 20]], [[10, 0], [20, 0]], [[10], [20]]])
    def test_where_no_run_can_be_planned_costs_are_left_out_and_no_plan_is_recommended(self, pulls):
        diagnosis = diagnose(counts(pulls, np.array(pulls) / 2), costs=True)
        assert diagnosis.costs is None
        assert "posse plan" not in str(diagnosis)

    def test_an_arm_without_rewards_is_compared_only_if_asked_for(self):
        table = counts([[10, 0], [20, 0]], [[5, 0], [5, 0]])
        assert "There is one arm with rewards, and nothing to compare it with." in " ".join(
            str(diagnose(table)).split()
        )
        assert diagnose(table, against="a2").compared == (0, 1)

    def test_players_that_differ_are_said_to_even_if_the_data_cannot_tell_in_what(self):
        diagnosis = diagnose(counts(np.full((2, 2), 1000), [[200, 250], [300, 450]]))
        assert diagnosis.bound > 0.1
        assert min(diagnosis.model.level_p, diagnosis.model.contrast_p) > 0.05
        assert diagnosis.model.difference_p < 1e-10
        assert diagnosis.verdict == "Players differ, but the data cannot tell levels from what the arms do"
        assert "No difference shows" not in str(diagnosis)

    def test_what_the_arms_do_is_not_taken_for_a_level_nor_its_means_for_no_difference(self):
        text = " ".join(str(diagnose(counts(np.full((2, 2), 10_000), [[2000, 2000], [4000, 3000]]))).split())
        assert "No difference shows that is the same on every arm: standard deviation" in text

    def test_the_questions_come_in_their_order(self):
        text = str(diagnose(counts(np.full((4, 2), 400), [[200, 190], [260, 240], [150, 160], [205, 200]], 0.3)))
        starts = ["Do players differ in level?", "Does what the arms do differ", "For whom?", "Which ε?", "Is ε right?"]
        places = [text.index(start) for start in starts]
        assert places == sorted(places)
        assert "posse plan --from LOG" in text

    def test_it_says_how_much_data_would_be_needed(self):
        text = str(diagnose(counts(np.full((4, 2), 20), [[10, 9], [8, 12], [9, 10], [11, 12]])))
        assert "rewards for each player and arm would do; the data is worth 20 for each" in " ".join(text.split())

    def test_more_data_than_can_be_had_is_called_so(self):
        text = " ".join(str(diagnose(counts(np.full((4, 2), 2000), [[600, 600.02]] * 4))).split())
        assert "more than 1,000,000 rewards for each player and arm would be needed, which is more than can be" in text
        assert "would do" not in text

    def test_players_are_listed_by_the_arm_that_is_likely_better_for_them(self):
        sums = [[600, 400]] * 7 + [[400, 600]] * 5
        found = diagnose(counts(np.full((12, 2), 2000), sums))
        names = [
            [player for player, row in zip(found.players, sums, strict=True) if row[0] == each] for each in (600, 400)
        ]
        first, second = (names[arm == 1] for arm in found.compared)
        text = " ".join(str(found).split())
        assert f"is likely better for {', '.join(first)}, and" in text
        assert f"is likely better for {', '.join(second)}. By player" in text
        assert found.to_dict()["effect_chances"] == pytest.approx(found.effect_chances.tolist())
        assert "likely better" not in str(diagnose(counts(np.full((12, 2), 2000), [[600, 400]] * 12)))

    def test_rewards_that_are_all_the_same_show_no_difference(self):
        zeros = diagnose(counts(np.full((3, 2), 40_000), np.zeros((3, 2))))
        assert zeros.verdict == "No difference between players shows"
        assert zeros.spread.low == pytest.approx(0, abs=1e-6)
        assert zeros.spread.high < 0.001

    def test_missing_rewards_are_counted(self):
        assert "1 of 5 are missing" in str(diagnose(LOG))
        assert "counts do not show whether any do" in str(diagnose(EDGES["one arm"]))


class TestFigure:
    def labels(self, figure):
        return [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.axes if axes.get_visible()]

    def test_a_panel_for_each_arm_with_players_by_mean(self):
        figure = diagnose(counts([[50, 50], [50, 0], [50, 50]], [[30, 10], [10, 0], [20, 20]], 0.1)).figure()
        assert self.labels(figure) == [["p2", "p3", "p1"], ["p1", "p3"]]

    def test_what_is_too_much_is_left_out_and_said(self):
        random = np.random.default_rng(0)
        pulls = np.full((42, 12), 200)
        diagnosis = diagnose(counts(pulls, random.binomial(pulls, random.random((42, 12)))))
        figure = diagnosis.figure()
        shown = self.labels(figure)
        assert len(shown) == MOST_ARMS
        assert {len(rows) for rows in shown} == {MOST_PLAYERS}
        worst = diagnosis.pairs[int(diagnosis.bounds.argmax())]
        assert any(set(worst) <= set(rows) for rows in shown)
        words = " ".join(text.get_text() for text in figure.texts)
        assert "2 arms with the least spread are left out" in words
        assert "those in the middle are left out" in words

    @settings(max_examples=25, deadline=None)
    @given(seed=st.integers(0, 10**6), epsilon=st.floats(0, 0.5))
    @example(seed=1, epsilon=0.0)  # ε is broken
    @example(seed=1, epsilon=0.5)  # ε holds
    def test_players_off_the_band_differ_by_more_than_epsilon_from_some_other(self, seed, epsilon):
        random = np.random.default_rng(seed)
        pulls = random.integers(1, 4000, (5, 1))
        diagnosis = diagnose(counts(pulls, random.binomial(pulls, random.uniform(0.3, 0.7, (5, 1))), epsilon))
        start, end = _band(diagnosis, 0)
        lower, upper = diagnosis.lower[:, 0], diagnosis.upper[:, 0]
        off = (lower > end + 1e-12) | (upper < start - 1e-12)
        assert off.any() == (lower.max() - upper.min() > epsilon)
        for player in np.flatnonzero(off):
            assert np.maximum(lower[player] - upper, lower - upper[player]).max() > epsilon

    def test_small_rates_have_enough_digits(self):
        small = counts(np.full((8, 2), 20_000), [[600 + 20 * p, 900 - 20 * p] for p in range(8)])
        texts = [text.get_text() for axes in diagnose(small).figure().axes for text in axes.texts]
        assert len(texts) == 2
        assert all(re.match(r"95 % of pairs: 0\.00\d*[1-9]", text) for text in texts)

    def test_names_are_shown_as_they_are(self):
        odd = Counts(("a $x^2$ b", "_b"), ("arm\nof two lines",), np.array([[9], [9]]), np.array([[3.0], [4.0]]))
        figure = diagnose(odd).figure()
        assert is_math_text("a $x^2$ b"), "the control: as it is, matplotlib would take this name for a formula"
        assert self.labels(figure) == [["a \\$x^2\\$ b", "_b"]]
        assert not is_math_text(self.labels(figure)[0][0])
        assert figure.axes[0].get_title(loc="left") == "arm of two lines"
        drawn = io.StringIO()
        with matplotlib.rc_context({"svg.fonttype": "none"}):
            figure.savefig(drawn, format="svg")
        assert all(f">{name}</text>" in drawn.getvalue() for name in ("a $x^2$ b", "_b", "arm of two lines"))


class TestCommand:
    @pytest.fixture
    def log(self, tmp_path):
        random = np.random.default_rng(1)
        player = np.repeat(["north", "south"], 800)
        reward = np.where(random.random(1600) < np.where(player == "north", 0.2, 0.7), 10.0, 0.0)
        path = tmp_path / "log.csv"
        pyarrow.csv.write_csv(pyarrow.table({"player": player, "arm": ["new"] * 1600, "sales": reward}), path)
        return path

    def test_it_prints_writes_and_draws(self, log, tmp_path, capsys):
        files = [tmp_path / "out.json", tmp_path / "out.svg", tmp_path / "out.html"]
        options = ["--reward", "sales", "--range", "0", "10", "--epsilon", "2"]
        outputs = ["--json", str(files[0]), "--figure", str(files[1]), "--report", str(files[2])]
        assert main(["diagnose", str(log), *options, *outputs]) == 0
        printed = capsys.readouterr().out
        assert "ε = 2 is broken by arm new: players south and north differ by at least 4." in " ".join(printed.split())
        written = json.loads(files[0].read_text())
        assert written["alarm"]
        assert written["pairs"] == [["south", "north"]]
        assert "<svg" in files[1].read_text()
        page = files[2].read_text()
        assert "ε = 2 is broken" in page
        assert "<svg" in page
        assert main(["diagnose", str(log), *options, "--json", "-"]) == 0
        assert json.loads(capsys.readouterr().out) == written

    def test_errors_are_one_line(self, log, capsys):
        assert main(["diagnose", str(log)]) == 2
        assert (
            capsys.readouterr().err
            == "posse: error: the log has no column 'reward'; its columns are player, arm, sales; say which of them is "
            "the reward: --reward COLUMN (reward=...)\n"
        )
        assert main(["diagnose", str(log), "--reward", "sales"]) == 2
        assert "reward 10, but rewards are in [0, 1]; give --range LOW HIGH" in capsys.readouterr().err

    def test_effects_are_drawn_into_a_file_of_their_own(self, log, tmp_path, capsys):
        two, picture = tmp_path / "two.csv", tmp_path / "effects.svg"
        table = pyarrow.csv.read_csv(log)
        pyarrow.csv.write_csv(table.set_column(1, "arm", [["old", "new"] * 800]), two)
        options = ["--reward", "sales", "--range", "0", "10", "--no-costs", "--effects-figure", str(picture)]
        assert main(["diagnose", str(two), *options]) == 0
        assert "<svg" in picture.read_text()
        assert main(["diagnose", str(log), *options]) == 2  # one arm
        assert "no effects to draw" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("option", "path", "message"),
        [
            ("--figure", "x", ", but expected a file that ends in .png, .svg, .pdf"),
            ("--figure", "x.txt", ", but expected a file that ends in"),
            ("--figure", "", ", but expected a file that ends in"),
            ("--figure", "nowhere/x.png", ", but there is no folder nowhere to write x.png in"),
            ("--effects-figure", "x.txt", ", but expected a file that ends in"),
            ("--json", "nowhere/x.json", ", but there is no folder nowhere to write x.json in"),
            ("--json", ".", " is a folder, but expected a file to write to"),
            ("--json", "", ", but expected a file to write to"),
        ],
    )
    def test_where_to_write_is_checked_first(self, log, tmp_path, monkeypatch, capsys, option, path, message):
        monkeypatch.chdir(tmp_path)
        assert main(["diagnose", str(log), "--reward", "sales", "--range", "0", "10", option, path]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert f"{option} {path!r}{message}" in printed.err
        assert list(tmp_path.iterdir()) == [log]
