"""`posse plan`: what it prints, writes, reads and refuses."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.csv
import pytest
from made_plans import small_plan, table

from posse.cli import main
from posse.insight import Plan

GUESS = [
    "plan",
    "--players",
    "4",
    "--arms",
    "2",
    "--epsilon",
    "0.05",
    "--effect",
    "0.2",
    "--problems",
    "8",
    "--seed",
    "3",
]


@pytest.fixture
def small() -> Plan:
    return small_plan()


def test_the_command_prints_the_plan_and_writes_figure_and_json(small, capsys, tmp_path):
    figure, numbers = tmp_path / "plan.png", tmp_path / "plan.json"
    assert main([*GUESS, "--decisions", "300", "--figure", str(figure), "--json", str(numbers)]) == 0
    assert capsys.readouterr().out == f"{small}\n"
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert json.loads(numbers.read_text()) == small.to_dict()


def test_the_command_prints_json_alone(small, capsys):
    assert main([*GUESS, "--decisions", "300", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == small.to_dict()


def test_the_command_reads_a_log(capsys, tmp_path):
    rewards = 5.0 * np.random.default_rng(1).integers(0, 2, 2000)
    pyarrow.csv.write_csv(table(rewards), tmp_path / "log.csv")
    options = ["--from", str(tmp_path / "log.csv"), "--reward", "sales", "--range", "0", "5"]
    assert main(["plan", *options, "--problems", "3", "--decisions", "20,30,40,50", "--days", "2"]) == 0
    out = capsys.readouterr().out
    assert "4 players, 2 arms, 40 to 100 decisions each in 2 days: 280 in all." in out
    assert "what 2,000 rewards on record leave possible, by the model" in out
    assert "Means over players: " in out


def test_the_command_checks_where_to_write_before_it_simulates(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("posse.insight.plan", lambda *_, **__: pytest.fail("it simulated"))
    folder = tmp_path / "folder.png"
    folder.mkdir()
    for option, file, message in (
        ("--figure", tmp_path / "no" / "p.png", f"there is no folder {tmp_path / 'no'} to write"),
        ("--figure", folder, "but expected a file"),
        ("--json", tmp_path / "no" / "p.json", f"there is no folder {tmp_path / 'no'} to write"),
        ("--json", tmp_path, "but expected a file"),
        ("--json", "", "--json '', but expected a file"),
        ("--figure", "", "--figure '', but expected a file that ends in"),
    ):
        assert main(["plan", option, str(file)]) == 2
        shown = capsys.readouterr()
        assert message in shown.err
        assert shown.out == ""


def test_the_command_prints_before_it_saves(small, capsys, tmp_path, monkeypatch):
    def fail(plan: Plan) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Plan, "figure", fail)
    assert main([*GUESS, "--decisions", "300", "--figure", str(tmp_path / "p.png")]) == 2
    shown = capsys.readouterr()
    assert shown.out == f"{small}\n"
    assert "the disk is full" in shown.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--figure", "plan.doc"], "--figure 'plan.doc', but expected a file that ends in .png, .svg, .pdf"),
        (["--range", "0", "5"], "--range is about the rewards of a log"),
        (["--reward", "sales"], "--reward sales, but that is a column of a log"),
        (["--from", "nowhere.csv"], "there is no file nowhere.csv"),
        (["--epsilon", "2"], "epsilon=2.0, but expected"),
        (["--policy", "Nobody(1)"], "--policy 'Nobody(1)', but expected one of BayesUCB, BetaTS"),
        (["--from", "nowhere.csv", "--base", "0.1"], "base=0.1, but with a history this comes from the data"),
    ],
)
def test_the_command_refuses_with_a_line(options, message, capsys):
    assert main(["plan", *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith("posse: error: ")
    assert message in error
