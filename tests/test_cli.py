"""The command line, as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import posse
from posse import bench
from posse.cli import main
from posse.cli.policies import named_policies
from posse.simulation.backend import BACKENDS


def test_without_a_command_it_helps(capsys):
    assert main([]) == 2
    assert "bench" in capsys.readouterr().out


def test_the_help_has_every_command_in_a_group(capsys):
    assert main([]) == 2
    shown = capsys.readouterr().out
    for title, commands in (
        ("Simulate", ("paper", "run", "init", "report", "compare", "battery")),
        ("Plan, check and judge from data", ("diagnose", "evaluate", "plan")),
        ("Run the decision service", ("serve", "demo", "db", "token")),
        ("Measure and prepare", ("bench",)),
    ):
        group = shown.split(f"{title}:\n")[1].split("\n\n")[0]
        assert [line.split()[0] for line in group.splitlines()][: len(commands)] == list(commands)
        assert all(len(line.split()) > 2 for line in group.splitlines())


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ValueError("seed=-1"), 2, "posse: error: seed=-1\n"),
        (TypeError("a list is no log"), 2, "posse: error: a list is no log\n"),
        (FileNotFoundError("there is no file x"), 2, "posse: error: there is no file x\n"),
        (RuntimeError("2 findings"), 1, "posse: error: 2 findings\n"),
        (
            ModuleNotFoundError("No module named 'x'", name="x"),
            1,
            "posse: error: this command needs x, which is not installed: pip install 'posse-bandits[experiments]'",
        ),
        (KeyboardInterrupt(), 130, "posse: interrupted\n"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_one_line_and_a_status(monkeypatch, capsys, error, status, said):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("posse.insight.diagnose", fail)
    assert main(["diagnose", "log.csv"]) == status
    assert capsys.readouterr().err.startswith(said)


def test_a_mistyped_command_names_the_one_that_was_meant(capsys):
    for line, said in ((["rum"], "run"), (["paper", "--backend", "cude"], "cuda")):
        with pytest.raises(SystemExit, match="2"):
            main(line)
        assert capsys.readouterr().err.endswith(f" (did you mean {said}?)\n")


def test_a_spec_that_is_not_there_names_the_command_that_writes_one(capsys, tmp_path):
    assert main(["run", str(tmp_path / "nope.toml")]) == 2
    said = f"posse: error: there is no file {tmp_path / 'nope.toml'}; `posse init nope.toml` writes an example\n"
    assert capsys.readouterr().err == said


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert posse.__version__ in capsys.readouterr().out


def test_bench_of_an_unknown_policy_says_which_there_are(capsys):
    assert main(["bench", "--policy", "Ind-UCV"]) == 2
    error = capsys.readouterr().err
    assert "--policy 'Ind-UCV' (did you mean IndUCB?), but expected one of " in error
    assert "BayesUCB, " in error


def test_bench_measures_and_writes_json(capsys, tmp_path, monkeypatch):
    """The real benchmark, made small, with a policy of the user's own: every figure is there and positive."""
    monkeypatch.setattr(bench.simulator, "HORIZON", 2000)
    out, own = tmp_path / "bench.json", tmp_path / "measured_policies.py"
    own.write_text(OWN_POLICY.format(name="MeasuredTS", default="= 0.5") + "POLICIES = [MeasuredTS(0.25)]\n")
    names = [word for name in ("RobustAgg-TS(0.1)", "Ind-UCB", "MeasuredTS") for word in ("--policy", name)]
    assert main(["bench", "--quick", *names, "--import", str(own), "--json", str(out)]) == 0
    shown = capsys.readouterr().out
    tables = {table["name"]: table["rows"] for table in json.loads(out.read_text())["tables"]}
    of_learner = ["learner", "many", "crowd", "attributes", "propensities"]
    assert list(tables) == ["policies", "simulator", "start", *of_learner]
    *policies, numpy, floor = tables["policies"]
    assert policies == ["RobustAgg-TS(0.1)", "Ind-UCB", "MeasuredTS(factor=0.25)"]
    costs = {name: {how: figure["value"] for how, figure in row.items()} for name, row in tables["policies"].items()}
    for name in policies:
        assert name in shown
        assert costs[name]["ns"] > costs[name]["ns"] / costs[name]["of floor"] > 0
        assert costs[name]["ns"] / costs[name]["of NumPy"] >= 0.999 * costs[numpy]["ns"] > costs[floor]["ns"] > 0
    assert [name for name, row in tables["learner"].items() if row] == [*policies, "RobustAgg-TS(0.1), new"]
    assert list(tables["many"]) == policies
    assert list(tables["crowd"]) == policies[:2], "another process does not know the user's own"
    assert min(figure["value"] for row in tables["learner"].values() for figure in row.values()) > 0
    assert all(figure["value"] > 0 for row in tables["crowd"].values() for figure in row.values())
    measured = {name.split(",")[0]: row[""]["value"] for name, row in tables["simulator"].items() if row}
    assert measured["speed-up over naive.py"] > 1
    assert {"doubling T", "doubling M", "doubling K", "peak memory at T = 200"} <= set(measured)
    assert min(measured.values()) > 0
    starts = {name: row[""]["value"] for name, row in tables["start"].items()}
    assert 0 < starts["import posse"] < starts["first result, warm cache"]
    assert starts["posse --help"] > 0
    assert "≤" not in shown, "bars are shown only if one asks for them"


OWN_POLICY = """
import dataclasses, math, posse

@dataclasses.dataclass(frozen=True)
class {name}(posse.Policy):
    factor: float {default}

    @staticmethod
    def index(n, s, N, S, M, log_T, factor):
        return (s + 0.5) / (n + 1), factor / math.sqrt(n + 1)
"""


def test_bench_takes_an_example_of_each_class_of_a_users_file(tmp_path):
    file = tmp_path / "default_policies.py"
    file.write_text(OWN_POLICY.format(name="DefaultTS", default="= 0.5"))
    (policy,) = bench.setting.from_file(file)
    assert policy.factor == 0.5


def test_bench_measures_a_policy_that_needs_a_constant(tmp_path):
    """Otherwise a new file in the policies' folder would stop every benchmark."""
    file = tmp_path / "bare_policies.py"
    file.write_text(OWN_POLICY.format(name="BareTS", default=""))
    (policy,) = own = bench.setting.from_file(file)
    assert policy.factor == 0.1
    assert [each.factor for each in named_policies(["BareTS", "BareTS(0.25)"], own)] == [0.1, 0.25]


def test_bench_says_what_its_list_cannot_have(capsys, tmp_path):
    file = tmp_path / "wrong_policies.py"
    file.write_text(OWN_POLICY.format(name="WrongTS", default="") + "POLICIES = [WrongTS]")
    assert main(["bench", "--import", str(file)]) == 2
    assert "wrong_policies.py: POLICIES has <class" in capsys.readouterr().err


def test_bench_of_the_service_takes_no_policies(capsys):
    assert main(["bench", "--service", "--import", "any.py"]) == 2
    assert "--import does not go with it" in capsys.readouterr().err


def report(ms: float) -> bench.report.BenchReport:
    figure = bench.report.BenchFigure
    rows = {
        "slow": {"ms": figure(ms, most=0.30)},
        "quick": {"ms": figure(0.29, most=0.30)},
        "little": {"ms": figure(1.0), "a second": figure(99, least=100)},
        "no bar": {"ms": figure(5.0)},
        "absent": {},
    }
    return bench.report.BenchReport("A machine", [bench.report.BenchTable("name", "A title", rows)])


def test_figures_are_shown_without_bars():
    assert str(report(0.31)).splitlines() == [
        "A machine",
        "",
        "A title",
        "          ms  a second",
        "slow    0.31",
        "quick   0.29",
        "little     1        99",
        "no bar     5",
        "absent                  not measured",
    ]


def test_missed_bars_are_marked():
    assert str(bench.report.BarReport([report(0.31)])).splitlines() == [
        "A machine",
        "",
        "A title",
        "slow, ms          0.31  ≤ 0.3  ← misses its bar",
        "quick, ms         0.29  ≤ 0.3",
        "little, a second    99  ≥ 100  ← misses its bar",
        "",
        "2 of 3 bars are missed.",
    ]


def test_bars_of_several_runs_stand_side_by_side(monkeypatch, capsys, tmp_path):
    runs = iter([report(0.31), report(0.2), report(0.4)])
    monkeypatch.setattr(bench.simulator, "run", lambda *_: next(runs))
    assert main(["bench", "--bars", "3", "--json", str(tmp_path / "runs.json")]) == 0
    shown = capsys.readouterr().out
    assert "slow, ms          0.31   0.2   0.4  ≤ 0.3  ← misses its bar in 2 of 3 runs" in shown.splitlines()
    assert "quick, ms         0.29  0.29  0.29  ≤ 0.3" in shown.splitlines()
    assert len(json.loads((tmp_path / "runs.json").read_text())["runs"]) == 3
    assert main(["bench", "--bars", "0"]) == 2
    assert "--bars=0, but expected a whole number of at least 1" in capsys.readouterr().err


def test_the_peak_of_another_process_leaves_out_ones_own_memory():
    filled = np.ones(50_000_000)
    assert 1 < bench.setting.peak_megabytes("") < 100 < filled.nbytes / 1e6


def test_the_report_of_a_gpu_marks_what_misses_its_bar():
    row = {"kernel": 121.0, "wall": 130.0, "all cores": 1000.0}
    times = {"RobustAgg-TS(0.15)": row, "Ind-TS": row, "all five together": {**row, "kernel": 250.0}}
    times["all five in a new process, warm cache"] = {"wall": 6000.0}
    many = {"kernel": 2e10, "wall": 1e10, "all cores": 1e9}
    measured = (times, many, {"kernel": 100.0, "wall": 110.0, "all cores": 399.0}, {"PosseTS": 5.1, "Ind-TS": 2.0})
    text = str(bench.report.BarReport([bench.gpu.gpu_report("a GPU", bench.gpu.HORIZON, *measured)]))
    marked = [line.split("  ")[0] for line in text.splitlines() if "← misses its bar" in line]
    assert marked == [
        "RobustAgg-TS(0.15), kernel",
        "all five in a new process, warm cache, wall",
        "PosseTS, cores / kernel",
        "PosseTS",
    ]
    assert "a GPU, beside" in text
    quick = str(bench.report.BarReport([bench.gpu.gpu_report("a GPU", 5000, *measured)]))
    assert not {"≤", "≥"} & set(quick), "a quick run has no bars"


def test_help_imports_neither_numpy_nor_numba():
    """They take half a second."""
    code = """
import sys
from posse.cli import main
try:
    main(["paper", "--help"])
finally:
    print({"numpy", "numba"} & set(sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "set()")
    assert f"{{{','.join(BACKENDS)}}}" in done.stdout


def test_looking_after_a_database_does_not_import_numba(tmp_path):
    """It takes half a second, and nothing is compiled."""
    code = """
import sys
from posse.cli import main
for line in ("db init", "token create --scope read", "token list", "experiment list", "audit", "db verify"):
    assert main([*line.split(), "--database", sys.argv[1]]) == 0
print("numba" in sys.modules)
"""
    command = [sys.executable, "-c", code, f"sqlite:///{tmp_path / 'posse.db'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_tokens_are_listed_in_columns(tmp_path, capsys):
    database = ["--database", f"sqlite:///{tmp_path / 'posse.db'}"]
    main(["db", "init", *database])
    main(["token", "create", "--scope", "admin", "--label", "mine", *database])
    main(
        ["token", "create", "--scope", "decide", "--scope", "reward", "--expires", "90d", "--label", "team", *database]
    )
    capsys.readouterr()
    main(["token", "list", *database])
    first, second = capsys.readouterr().out.splitlines()
    assert first == "1  admin          all experiments  never expires                 mine"
    assert second.index("team") == first.index("mine")
