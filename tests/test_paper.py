"""The paper's evaluation and the commands around it, made small."""

from __future__ import annotations

import gc
import html

import pytest

from posse.cli import main
from posse.experiments import ResultStore, parse, run
from posse.experiments.report.comparison import compare, comparison_text
from posse.experiments.spec.shipped_specs import paper_spec, shipped


class TestPaperSpec:
    def test_full_size_is_the_papers(self):
        (own,) = (study for study in paper_spec().studies if study.name == "subpar")
        assert own.horizons == (50_000,)
        assert [problems.parameters["n_subpar"] for problems in own.problems] == list(range(10))
        assert {(p.count, p.players, p.arms, p.parameters["epsilon"]) for p in own.problems} == {(30, 20, 10, 0.15)}
        names = [choice.policy.__name__ for choice in own.policies]
        assert sorted(names) == ["IndTS", "IndUCB", "RobustAgg", "RobustAggTS", "RobustAggTSV"]

    def test_options_change_what_they_name(self):
        spec = paper_spec(horizon=123, instances=4, subpar=[8, 5], seed=7)
        own, *others = spec.studies
        assert spec.seed == 7
        assert own.horizons == (123,)
        assert [problems.parameters["n_subpar"] for problems in own.problems] == [8, 5]
        assert {problems.count for problems in own.problems} == {4}
        assert {problems.count for study in others for problems in study.problems} == {2}

    def test_quick_keeps_all_ten_and_yields_to_what_is_said(self):
        own = paper_spec(quick=True, horizon=99).studies[0]
        assert len(own.problems) == 10
        assert own.horizons == (99,)
        assert own.problems[0].count == 6

    def test_own_only_is_the_papers_own_study(self):
        assert [study.name for study in paper_spec(own_only=True).studies] == ["subpar"]

    @pytest.mark.parametrize(
        ("option", "named"),
        [
            ({"horizon": 0}, "horizon"),
            ({"instances": 0}, "instances"),
            ({"subpar": [10]}, "subpar"),
            ({"seed": -1}, "seed"),
        ],
    )
    def test_impossible_options_are_refused_by_name(self, option, named):
        with pytest.raises(ValueError, match=f"^{named}"):
            paper_spec(**option)


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    """A small evaluation, as a user runs it."""
    out = tmp_path_factory.mktemp("paper")
    assert main(["paper", "--horizon", "100", "--instances", "3", "--subpar", "8,5", "--out", str(out)]) == 0
    return out


def test_paper_writes_figures_tables_results_and_report(paper):
    names = {path.stem for path in (paper / "figures").glob("*.png")}
    assert names == {path.stem for path in (paper / "figures").glob("*.svg")}
    wanted = {"figure-1", "overview-regret", "overview-pulls", "overview-regret-by-kind", "overview-with-v"}
    assert wanted | {"participation", "players"} <= names
    assert any("theory" in name for name in names)
    page = (paper / "report.html").read_text()
    assert "RobustAgg-TS(0.15)" in page
    assert "claim" in page.lower()
    assert {path.name for path in (paper / "tables").glob("*.csv")} >= {"final-regret.csv", "claims.csv", "theory.csv"}
    records = ResultStore(paper / "results").read()
    assert set(records.distinct("study")) == {"subpar", "participation", "players", "small-epsilon"}


def test_the_report_holds_the_spec_that_was_run(paper):
    """Not the shipped one: it was made smaller."""
    page = html.unescape((paper / "report.html").read_text())
    spec = page[page.rindex("<pre>") + len("<pre>") : page.rindex("</pre>")]
    assert [unit.id for unit in parse(spec).units()] == ResultStore(paper / "results").manifest()["units"]
    assert "50000" not in spec


def test_run_again_it_simulates_nothing_and_writes_the_same_report(paper, capsys):
    page = (paper / "report.html").read_text()
    before = {path: path.stat().st_mtime_ns for path in (paper / "results").glob("[!.]*")}
    (paper / "report.html").unlink()
    assert main(["paper", "--horizon", "100", "--instances", "3", "--subpar", "8,5", "--out", str(paper)]) == 0
    assert before == {path: path.stat().st_mtime_ns for path in (paper / "results").glob("[!.]*")}
    assert (paper / "report.html").read_text() == page
    shown = capsys.readouterr().out
    assert "RobustAgg-TS(0.15)" in shown
    assert "holds" in shown


def test_init_writes_an_example_that_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    example = tmp_path / "experiment.toml"
    assert example.read_text() == shipped("example.toml")
    assert main(["init"]) == 2, "an existing file is not overwritten"
    example.write_text(example.read_text().replace("5000", "50").replace("[1000, 10000]", "[50, 60]"))
    assert main(["run", "experiment.toml"]) == 0
    assert (tmp_path / "results" / "experiment" / "report.html").exists()
    assert "final regret" in capsys.readouterr().out


def test_a_wrong_spec_names_line_and_field(tmp_path, capsys):
    path = tmp_path / "wrong.toml"
    path.write_text(shipped("example.toml").replace("horizon = 5000", "horizon = -5"))
    assert main(["run", str(path)]) == 2
    error = capsys.readouterr().err
    assert "horizon" in error
    assert "line" in error


@pytest.mark.parametrize(
    "argv",
    [
        ["run", "nowhere.toml"],
        ["report", "nowhere"],
        ["compare", "nowhere", "elsewhere"],
        ["paper", "--subpar", "eight"],
        ["paper", "--horizon", "-1"],
        ["paper", "--horizon", "10", "--on", "somewhere", "--out", "unused"],
    ],
    ids=" ".join,
)
def test_mistakes_get_a_line_not_a_traceback(argv, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    assert capsys.readouterr().err.strip().splitlines()[-1].startswith("posse: error: ")


def run_of(seed, tmp_path):
    out = tmp_path / str(seed)
    return run(paper_spec(own_only=True, horizon=100, instances=2, subpar=[8], seed=seed), out / "results")


def test_compare_pairs_what_is_the_same_and_says_what_is_not(tmp_path, capsys):
    first, other = run_of(1, tmp_path), run_of(2, tmp_path)
    same = compare(first, first)
    assert len(same) == 5
    assert all(row.difference.mean == 0 for row in same)
    assert "the same" in comparison_text(same, "a", "b")
    assert all(row.difference is None for row in compare(first, other)), "other seeds are other runs"
    assert compare(first, first.take([])) == []
    wider = run(paper_spec(own_only=True, horizon=100, instances=2, subpar=[8, 5], seed=1), tmp_path / "wider")
    assert [row.difference.mean for row in compare(first, wider)] == [0] * 5, "a part of a larger run is found in it"
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "1"), str(tmp_path / "2")]) == 0
    assert "RobustAgg-TS(0.15)" in capsys.readouterr().out


def test_report_is_rebuilt_from_results_alone(tmp_path, capsys):
    run_of(3, tmp_path)
    assert main(["report", str(tmp_path / "3")]) == 0
    assert (tmp_path / "3" / "report.html").exists()
    assert "final regret" in capsys.readouterr().out


def test_a_study_that_is_called_like_the_papers_but_has_an_algorithm_twice_is_reported(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("posse.experiments.report.run_report.write_report", lambda *_, **given: given["findings"])
    policies = '[{ name = "RobustAggTS", epsilon = [0.1, 0.15] }, { name = "IndTS" }]'
    problems = '{ family = "subpar", n_subpar = 8, count = 2 }'
    run(
        parse(f'[[study]]\nname = "subpar"\nhorizon = 20\nproblems = {problems}\npolicies = {policies}'),
        tmp_path / "results",
    )
    assert main(["report", str(tmp_path)]) == 0
    assert "report: None" in capsys.readouterr().out


def test_report_on_a_part_of_a_run_says_so(tmp_path, capsys):
    run(paper_spec(own_only=True, horizon=50, instances=1, subpar=[8, 5]), tmp_path / "results")
    next((tmp_path / "results").glob("unit-*.parquet")).unlink()
    assert main(["report", str(tmp_path)]) == 0
    assert "1 of 2 units" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [{"subpar": 8}, {"horizon": "long"}, {"instances": 2.5}])
def test_options_of_another_kind_say_what_is_expected(wrong):
    with pytest.raises(TypeError, match=rf"^{next(iter(wrong))}=.*, but expected"):
        paper_spec(**wrong)


def test_an_edited_policy_of_the_users_is_another_unit():
    """Results of the old code must not answer for the new."""
    ids = []
    for formula in ("s - n", "n - s"):
        scope = {}
        exec(OWN_POLICY.replace("FORMULA", formula), scope)
        own = scope["OwnPolicy"]
        text = OWN_SPEC.replace("OwnPolicy", own.__name__)
        ids.append([unit.id for unit in parse(text).units()])
        del own, scope
        gc.collect()
    assert ids[0] != ids[1]


OWN_POLICY = """
from dataclasses import dataclass
from posse.policies import Policy

@dataclass(frozen=True)
class OwnPolicy(Policy):
    @staticmethod
    def index(n, s, N, S, M, log_T):
        return FORMULA, 1.0
"""

OWN_SPEC = """
[[study]]
name = "own"
horizon = 10
problems = { family = "uniform", count = 1, players = 2, arms = 2 }
policies = [{ name = "OwnPolicy" }]
"""
