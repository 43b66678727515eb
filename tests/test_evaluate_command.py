"""`posse evaluate` as a command, and on a real trial."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv
import pytest
from made_logs import randomised

import posse
from posse.cli import main
from posse.cli.evaluate import read_table
from posse.cli.policies import read_policy
from posse.insight import evaluate
from posse.insight.evaluation.targets import FixedPolicy
from posse.insight.evaluation.text import overall_table
from posse.insight.logs import read_log

STROKE = Path(__file__).parents[2] / "shared" / "data" / "stroke-trial.csv"


class TestCommandLine:
    @pytest.fixture
    def log(self, tmp_path):
        made, _ = randomised(np.random.default_rng(0), 300)
        pyarrow.csv.write_csv(made, tmp_path / "log.csv")
        return str(tmp_path / "log.csv")

    def test_everything_by_default(self, log, capsys):
        assert main(["evaluate", log]) == 0
        shown = capsys.readouterr().out
        for name in ("logged", "uniform", "a0", "a1", "a2", "p0", "p1", "95 % interval"):
            assert name in shown

    def test_targets_of_every_kind(self, log, capsys, tmp_path):
        (tmp_path / "best.json").write_text('{"p0": "a2", "p1": {"a1": 0.5, "a2": 0.5}}')
        (tmp_path / "mine.csv").write_text("player;arm;probability\np0;a2;1\np1;a1;0,25\np1;a0;0,75\n")
        out = tmp_path / "out.json"
        wanted = ["uniform", "a0", str(tmp_path / "best.json"), str(tmp_path / "mine.csv"), "IndUCB"]
        options = [part for policy in wanted for part in ("--policy", policy)]
        options += ["--against", "logged", "--passes", "2", "--json", str(out)]
        assert main(["evaluate", log, *options]) == 0
        assert "minus logged" in capsys.readouterr().out
        written = json.loads(out.read_text())
        assert [each["target"] for each in written["estimates"] if each["player"] is None] == [
            "uniform",
            "a0",
            "best",
            "mine",
            "Ind-UCB",
        ]

    def test_columns_by_other_names_give_the_same_answer(self, log, capsys, tmp_path):
        made = pyarrow.csv.read_csv(log)
        lost = pyarrow.array(1 - made["reward"].to_numpy())
        channel = pyarrow.array(["web"] * made.num_rows)
        other = pyarrow.table(
            {"zip": made["player"], "channel": channel, "variant": made["arm"], "day30": lost, "e": made["propensity"]}
        )
        pyarrow.csv.write_csv(other, tmp_path / "other.csv")
        options = ["--player", "zip, channel", "--arm", "variant", "--reward", "1 - day30", "--propensity", "e"]
        values = []
        for line in ([log], [str(tmp_path / "other.csv"), *options]):
            assert main(["evaluate", *line, "--json", "-"]) == 0
            values.append([each["value"] for each in json.loads(capsys.readouterr().out)["estimates"]])
        assert values[0] == values[1]
        only = ["--only", "p0 / web", "--policy", "a1", "--propensity", "empirical"]
        assert main(["evaluate", str(tmp_path / "other.csv"), *options, *only]) == 0
        shown = capsys.readouterr().out
        assert "1 - day30 of" in shown
        assert "how often each player's rows have the arm" in " ".join(shown.split())

    def test_totals_stand_beside_values(self, log):
        headings, *rows = overall_table(found := evaluate(log, ["logged", posse.IndTS()], passes=2))
        total = headings.index("total")
        assert float(rows[0][total].replace(",", "")) == pytest.approx(found.rows * found.of("logged").value, rel=0.01)
        assert rows[1][total] == "—"  # it learns, so it would go on to earn something else

    def test_a_report_is_one_page_with_pictures(self, log, tmp_path):
        page = tmp_path / "report.html"
        options = ["--policy", "a1", "--policy", "logged", "--against", "a0", "--report", str(page)]
        assert main(["evaluate", log, *options]) == 0
        text = page.read_text()
        assert text.count("<svg") == 3  # overall, and two policies by player
        assert text.count("<table>") == 3
        for words in ("minus a0", "Differences by player", "corrected for skewness", "p0", "shrunken"):
            assert words in text
        assert not re.search(r'(src|href)="(?!#|data:)', text)
        assert main(["evaluate", log, "--report", str(tmp_path / "report.txt")]) == 2

    def test_a_figure_is_drawn_into_a_file(self, log, tmp_path):
        picture = tmp_path / "values.svg"
        assert main(["evaluate", log, "--policy", "a1", "--against", "a0", "--figure", str(picture)]) == 0
        assert "<svg" in picture.read_text()

    def test_json_alone(self, log, capsys):
        assert main(["evaluate", log, "--policy", "a0", "--json", "-"]) == 0
        assert json.loads(capsys.readouterr().out)["rows"] == 300

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (["--policy", "Nobody(1)"], "RobustAggTS"),
            (["--policy", "RobustAggTS(2)"], "epsilon=2"),
            (["--policy", "RobustAggTS("], "a name and numbers"),
            (["--policy", "RobustAggTS(x)"], "a name and numbers"),
            (["--policy", "RobustAggTS()"], "epsilon"),
            (["--policy", "nowhere.json"], "nowhere.json"),
            (["--policy", "z"], "its arms are a0, a1, a2"),
            (["--arm", "z"], "no column 'z'"),
            (["--player", "player,z"], "no column 'z'"),
            (["--propensity", "1/0"], "propensity=inf"),
            (["--reward", "reward +"], "neither a column nor a calculation"),
            (["--json", ""], "--json ''"),
            (["--json", "nowhere/out.json"], "there is no folder nowhere"),
            (["--range", "0", "0.5"], "give --range LOW HIGH"),
        ],
    )
    def test_errors(self, log, capsys, options, expected):
        assert main(["evaluate", log, *options]) == 2
        assert expected in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("name", "text", "expected"),
        [
            ("t.json", "{", "no JSON"),
            ("t.json", "[1]", "expected {player: arm}"),
            ("t.csv", "a,b\n1,2\n", "player, arm, probability"),
            ("t.csv", "player,arm,probability\np,x,much\n", "line 2"),
            ("t.csv", "player,arm\np,x\np,x\n", "twice"),
        ],
    )
    def test_tables_that_are_none(self, tmp_path, name, text, expected):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=expected):
            read_table(tmp_path / name)

    def test_policies_by_name(self):
        assert read_policy("IndTS") == posse.IndTS()
        assert read_policy("RobustAggTS(0.1, c1=2)") == posse.RobustAggTS(0.1, c1=2)
        alone = posse.IndTSV(), posse.KLUCBPlusPlus(), posse.IMED(forget=9)
        for policy in (*alone, posse.RobustAggTSV(0.1), posse.NaiveAgg(), posse.RobustAggTS(0.1, c1=2)):
            assert read_policy(policy.label) == policy


@pytest.mark.skipif(not STROKE.exists(), reason="the stroke trial's data is not here")
class TestStrokeTrial:
    @pytest.mark.parametrize("outcome", ["alive_14_days", "independent_6_months"])
    def test_all_estimators_agree_with_the_means_of_the_trial(self, outcome):
        rows = read_log(STROKE, outcome)
        known = ~np.isnan(rows.reward)
        for estimator in ("auto", "ips"):
            evaluation = evaluate(STROKE, reward=outcome, estimator=estimator)
            assert not evaluation.adaptive
            for number, arm in enumerate(rows.arms):
                estimate = evaluation.of(arm)
                assert estimate.low <= rows.reward[known & (rows.arm == number)].mean() <= estimate.high
                assert estimate.interval == "normal"

    def test_its_text_fits_a_terminal_and_says_what_is_missing(self):
        text = str(evaluate(STROKE, reward="independent_6_months", against="no-aspirin+no-heparin"))
        assert max(map(len, text.splitlines())) <= 120
        assert "150 rows without a reward" in text

    def test_a_policy_for_each_country(self):
        counts = read_log(STROKE, "independent_6_months").counts()
        best = counts.arms[int((counts.sums.sum(axis=0) / counts.pulls.sum(axis=0)).argmax())]
        everywhere = FixedPolicy("everywhere", {"UK": {best: 1.0}, "*": best})
        one = evaluate(STROKE, everywhere, reward="independent_6_months").of("everywhere")
        assert one.value == evaluate(STROKE, best, reward="independent_6_months").of(best).value
