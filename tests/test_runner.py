"""The runner: the same bits however it runs, and wherever it is interrupted."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

import posse
from posse.experiments import ResultStore, RunError, StoreError, load, parse, run
from posse.experiments.runs import runner
from posse.experiments.runs.store import file_content
from posse.experiments.spec.study import Unit
from posse.policies.bindings import bindings
from posse.policies.user import import_file
from posse.simulation import engine

TEXT = """
title = "Many small units"
seed = 5

[[study]]
name = "one"
horizon = [{horizons}]
schedule = ["concurrent", {{ random = 0.5 }}]

[study.problems]
family = "subpar"
n_subpar = [0, 1, 2]
count = 2
players = 3
arms = 4

[[study.policies]]
name = ["RobustAggTS", "RobustAgg"]
epsilon = "problem"

[[study.policies]]
name = "IndTS"
"""
SMALL = TEXT.format(horizons="300, 500")
LARGE = TEXT.format(horizons=", ".join(str(5_000 + 10 * k) for k in range(10)))  # 60 units of some 10 ms


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


@pytest.fixture(scope="module")
def small():
    return parse(SMALL)


@pytest.fixture(scope="module")
def expected(small, tmp_path_factory):
    """The files of an undisturbed run on one thread."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run(small, folder, threads=1)
    assert len(files(folder)) == 12
    return files(folder)


def test_two_threads(small, expected, tmp_path):
    records = run(small, tmp_path, threads=2)
    assert files(tmp_path) == expected
    assert len(records) == 12 * 2 * 3
    assert records.distinct("horizon") == [300, 500]


def test_what_two_studies_share_is_simulated_once(small, expected, tmp_path, monkeypatch):
    study = SMALL[SMALL.index("[[study]]") :]
    both = parse(SMALL + study.replace('"one"', '"two"').replace("[0, 1, 2]", "[2, 3]"))
    done, simulated = [], Unit.run
    monkeypatch.setattr(Unit, "run", lambda unit, **how: done.append(unit) or simulated(unit, **how))
    records = run(both, tmp_path / "both", threads=1)
    assert len(done) == 12 + 4, "study two has four units of its own, and four that study one has too"
    alone = run(parse(both.text.replace(study, "", 1)), tmp_path / "alone", threads=1)
    assert files(tmp_path / "both") == expected | files(tmp_path / "alone")
    assert records.where(study="two").table.equals(alone.table)


def test_another_executor(small, expected, tmp_path):
    with ThreadPoolExecutor(3) as pool:
        run(small, tmp_path, executor=pool)
        assert pool.submit(int).result() == 0  # it is not ours to shut down
    assert files(tmp_path) == expected


def test_processes(small, expected, tmp_path):
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        run(small, tmp_path, executor=pool)
    assert files(tmp_path) == expected


def test_only_so_many_units_are_submitted_ahead(small, expected, tmp_path, monkeypatch):
    """However many units there are, a scheduler holds few of them."""

    class Counting(ThreadPoolExecutor):
        waiting = most = 0

        def submit(self, function, /, *arguments, **options) -> Future:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            return super().submit(function, *arguments, **options)

    write = ResultStore.write

    def written(self, unit, content):
        pool.waiting -= 1
        write(self, unit, content)

    monkeypatch.setattr(runner, "AHEAD", 3)
    monkeypatch.setattr(ResultStore, "write", written)
    with Counting(2) as pool:
        run(small, tmp_path, executor=pool)
    assert pool.most == 3
    assert files(tmp_path) == expected


def test_a_worker_with_other_code_is_refused(small):
    unit = pickle.loads(pickle.dumps(small.units()[0]))
    assert runner._run_unit(unit) == file_content(unit, unit.run())
    vars(unit)["id"] = "as other code names it"
    with pytest.raises(RunError, match=r"has posse .* with other code; install the same everywhere"):
        runner._run_unit(unit)


def test_twice_does_nothing(small, tmp_path, monkeypatch):
    first = run(small, tmp_path)
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir() if path.suffix}
    monkeypatch.setattr(Unit, "run", None)
    again = run(small, tmp_path)
    assert again.table.equals(first.table)
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir() if path.suffix} == before


def test_what_is_missing_is_computed(small, expected, tmp_path):
    run(small, tmp_path)
    for name in list(expected)[::3]:
        (tmp_path / name).unlink()
    run(small, tmp_path)
    assert files(tmp_path) == expected
    runs = json.loads((tmp_path / "manifest.json").read_text())["runs"]
    assert [each["units"] for each in runs] == [12, 4]


def test_the_manifest(small, tmp_path):
    run(small, tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["spec"] == SMALL
    assert manifest["seed"] == "5"
    assert manifest["versions"].keys() == {"posse", "python", "numpy", "numba", "pyarrow"}
    assert manifest["units"] == [unit.id for unit in small.units()]
    assert manifest["runs"][0]["finished"]


def other_index(n, s, N, S, M, log_T, c2):
    return -s / max(n, 1), 1.0


def forget_the_code():
    """Forget what is kept of policies' code, as a new process would have to after an edit."""
    for cached in (bindings, engine.kernels, engine._code_digest, vars(posse.Policy)["named_by"].__func__):
        cached.cache_clear()


def test_after_an_edit_of_a_policy_it_is_computed_anew(small, tmp_path, monkeypatch):
    """Results of the old code must not answer for the new, in the same folder, though the spec is the same."""
    before = run(small, tmp_path / "out")
    monkeypatch.setattr(posse.IndTS, "index", staticmethod(other_index))
    forget_the_code()
    after = run(small, tmp_path / "out")
    fresh = run(small, tmp_path / "fresh")
    assert after.table.equals(fresh.table)
    assert not after.table.equals(before.table)
    assert ResultStore(tmp_path / "out").read().table.equals(fresh.table)
    assert len(files(tmp_path / "out")) == 2 * len(files(tmp_path / "fresh")), "nothing is thrown away"
    monkeypatch.undo()
    forget_the_code()
    monkeypatch.setattr(Unit, "run", None)
    assert run(small, tmp_path / "out").table.equals(before.table), "the old code finds its results again"
    assert ResultStore(tmp_path / "out").read().table.equals(before.table)


def test_something_else_than_a_spec_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"spec='mine.toml', but expected a Spec; `posse.experiments.load`"):
        run("mine.toml", tmp_path)


OWN_POLICIES = """
from dataclasses import dataclass
import posse

@dataclass(frozen=True)
class OwnTS(posse.Policy):
    weight: float = 1.0
    shares = False
    look = posse.policies.base.Look("#123456", "-", "o", "")

    @staticmethod
    def index(n, s, N, S, M, log_T, weight):
        return (s + weight) / (n + 2 * weight), 1.0 / (n + 1.0)
"""
OWN_SPEC = """
[[study]]
name = "own"
horizon = 30
problems = { family = "uniform", count = 2, players = 2, arms = 3 }
policies = [{ name = "OwnTS", weight = [1, 2] }, { name = "IndTS" }]
"""


@pytest.fixture(scope="module")
def own_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "policies_of_mine.py").write_text(OWN_POLICIES)
    (folder / "own.toml").write_text(OWN_SPEC)
    return folder


def test_policies_of_ones_own_run_and_are_drawn_everywhere(own_files, tmp_path):
    """In a process of its own, as a user does it: without the import, the spec's error names what is there."""

    def posse(*arguments, fails=False):
        command = [sys.executable, "-c", "import sys, posse.cli; sys.exit(posse.cli.main())", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert (done.returncode != 0) == fails, done.stderr
        return done.stdout + done.stderr

    spec, own = own_files / "own.toml", own_files / "policies_of_mine.py"
    assert "line 6: study 'own', policy 1: name='OwnTS', but expected one of BayesUCB, BetaTS, HierTS" in posse(
        "run", spec, fails=True
    )
    text = posse("run", spec, "--import", own, "--out", "out")
    assert "OwnTS(weight=2)" in text
    posse("report", "out", "--import", own)
    assert "#123456" in (tmp_path / "out" / "figures" / "own.svg").read_text()
    assert "OwnTS(weight=2)" in posse("compare", "out", "out")
    spec.write_text(OWN_SPEC.replace("weight = [1, 2]", "weight = true"))
    assert f"{spec}, line 6: study 'own', policy 1: weight=True, but expected" in posse(
        "run", spec, "--import", own, fails=True
    )
    spec.write_text(OWN_SPEC)


def test_other_processes_import_policies_of_ones_own(own_files, tmp_path):
    """Processes that were started before the import, in which unpickling alone would not find the class."""
    script = """
    import sys
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context
    from posse.experiments import load, run
    from posse.policies.user import import_file

    if __name__ == "__main__":
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            pool.submit(int).result()
            import_file(sys.argv[2])
            spec = load(sys.argv[1])
            assert run(spec, sys.argv[3] + "/b", executor=pool).table.equals(run(spec, sys.argv[3] + "/a").table)
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(script))
    arguments = [own_files / "own.toml", own_files / "policies_of_mine.py", tmp_path]
    done = subprocess.run([sys.executable, tmp_path / "script.py", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_damaged_or_foreign_file_stops_it(small, tmp_path):
    run(small, tmp_path)
    name = next(iter(files(tmp_path)))
    good = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(good[:-7])
    with pytest.raises(StoreError, match=name):
        run(small, tmp_path)
    assert (tmp_path / name).read_bytes() == good[:-7]
    (tmp_path / name).write_bytes(good)
    with pytest.raises(StoreError, match="another experiment"):
        run(parse(SMALL.replace("seed = 5", "seed = 6")), tmp_path)


def test_a_failing_unit_is_named_and_the_others_are_kept(small, tmp_path, monkeypatch):
    bad = small.units()[7]
    plain = Unit.run

    def fail(self, threads=1, progress=None):
        if self.id == bad.id:
            raise ArithmeticError("boom")
        return plain(self, threads, progress)

    monkeypatch.setattr(Unit, "run", fail)
    with pytest.raises(RunError, match=rf"unit {bad.id} \(study 'one', problems 0–1, horizon .*ArithmeticError: boom"):
        run(small, tmp_path, threads=1)
    assert len(files(tmp_path)) >= 7


def test_an_interrupt_stops_units_at_work(tmp_path):
    """Ctrl-C in the middle of a long unit ends the run soon, and the next run goes on."""
    script = """
    import signal, sys
    from posse.experiments import load, run

    signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests themselves run in the background
    run(load(sys.argv[1]), sys.argv[2], threads=2, progress=lambda fraction: print(fraction, flush=True))
    """
    text = TEXT.format(horizons="300_000_000")
    (tmp_path / "spec.toml").write_text(text)
    with start(script, tmp_path / "spec.toml", tmp_path / "out") as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        process.stdout.read()
        assert process.wait(20) not in (0, None)
        assert time.monotonic() - begin < 10


def test_progress_ends_at_one(small, tmp_path):
    seen: list[float] = []
    run(small, tmp_path, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1
    for path in list(tmp_path.glob("*.parquet"))[::4]:
        path.unlink()
    again: list[float] = []
    run(small, tmp_path, progress=again.append)
    assert 0.5 < again[0] < again[-1] == 1, "what is there already counts"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"on": "moon"}, "moon"),
        ({"on": "tcp://x:1", "threads": 2}, "give one of them"),
        ({"threads": 0}, "threads=0"),
    ],
)
def test_wrong_options(small, tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        run(small, tmp_path, **options)


def test_a_second_run_at_the_same_time_is_refused(small, tmp_path):
    class Nested(ThreadPoolExecutor):
        def submit(self, function, /, *arguments, **options) -> Future:
            with pytest.raises(StoreError, match="another run is at work"):
                run(small, tmp_path)
            return super().submit(function, *arguments, **options)

    with Nested(1) as pool:
        run(small, tmp_path, executor=pool)


# Killed ----------------------------------------------------------------------------------------------------------


def start(script: str, *arguments: object) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(runner.__file__).parents[3])},
    )


KILLED = """
    import os, random, signal, sys, time
    from pathlib import Path
    from posse.experiments import load, run
    from posse.experiments.runs import runner

    spec, undisturbed, out = load(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    runner._compile(runner._policies(spec.units()))
    run(spec, undisturbed, threads=2)
    random.seed(7)
    made = lambda folder=out: len(list(folder.glob("unit-*")))
    for attempt in range(20):
        child = os.fork()  # no thread is alive here, and it spares an import for each attempt
        if child == 0:
            run(spec, out, threads=2)
            os._exit(0)
        enough = min(made() + random.randint(0, 4), made(undisturbed))  # by progress, not by time
        while made() < enough:
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        print(os.WIFSIGNALED(status), made(), flush=True)
    run(spec, out, threads=2)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_twenty_random_moments_and_resumed(tmp_path):
    (tmp_path / "spec.toml").write_text(LARGE)
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    with start(KILLED, tmp_path / "spec.toml", undisturbed, disturbed) as process:
        assert process.stdout is not None
        lines = process.stdout.read().split("\n")[:-1]
        assert process.wait() == 0
    counts = [int(line.split()[1]) for line in lines]
    assert sum(line.startswith("True") for line in lines) >= 10  # really killed, at different points
    assert len(set(counts)) >= 5
    assert len(files(undisturbed)) == 60
    assert files(disturbed) == files(undisturbed)
    assert not list(disturbed.glob(".*.tmp"))


KILLED_IN_A_WRITE = """
    import os, signal, sys
    from posse.experiments import load, run

    step, moment = sys.argv[3], int(sys.argv[4])
    plain, calls = getattr(os, step), []

    def killed(*arguments):
        calls.append(1)
        if len(calls) == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(*arguments)

    setattr(os, step, killed)
    run(load(sys.argv[1]), sys.argv[2], threads=1)
"""


@pytest.mark.parametrize(("step", "moment"), [("fsync", 7), ("replace", 4)])
def test_killed_in_the_middle_of_a_write(small, expected, tmp_path, step, moment):
    (tmp_path / "spec.toml").write_text(SMALL)
    out = tmp_path / "out"
    with start(KILLED_IN_A_WRITE, tmp_path / "spec.toml", out, step, moment) as process:
        assert process.wait() == -signal.SIGKILL
    assert list(out.glob(".*.tmp"))
    run(small, out)
    assert files(out) == expected
    assert not list(out.glob(".*.tmp"))


# On a cluster ----------------------------------------------------------------------------------------------------

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="needs Dask: pip install distributed"
)


@needs_dask
@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_that_loses_a_worker(tmp_path, monkeypatch):
    from distributed import LocalCluster

    monkeypatch.setattr(runner, "AHEAD", 8)  # so that units are submitted before and after
    text = TEXT.format(horizons=", ".join(str(30_000 + 10 * k) for k in range(8)))
    run(parse(text), tmp_path / "local")
    out = tmp_path / "cluster"
    victims = []
    with LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1", silence_logs=50
    ) as cluster:
        process_of = {name: worker.pid for name, worker in cluster.workers.items()}

        def kill_one() -> None:
            while len(files(out)) < 5:
                time.sleep(0.01)
            victims.append(len(files(out)))
            os.kill(process_of[1], signal.SIGKILL)

        killer = threading.Thread(target=kill_one, daemon=True)
        killer.start()
        run(parse(text), out, on=cluster.scheduler_address)
        killer.join(10)
    assert victims
    assert victims[0] < 48
    assert files(out) == files(tmp_path / "local")


@needs_dask
@pytest.mark.filterwarnings("default")
def test_dask_workers_import_policies_of_ones_own(own_files, tmp_path):
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1", silence_logs=50
    ) as cluster:
        import_file(own_files / "policies_of_mine.py")  # after the workers have started
        spec = load(own_files / "own.toml")
        there = run(spec, tmp_path / "there", on=cluster.scheduler_address)
    assert there.table.equals(run(spec, tmp_path / "here").table)


def test_dask_missing(small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'posse-bandits\[cluster\]'"):
        run(small, tmp_path, on="tcp://127.0.0.1:1")
