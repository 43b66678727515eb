"""The runner: the same bits however it runs, and wherever it is interrupted."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import signal
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor

import pytest
from small_runs import SMALL, TEXT, files, start, undisturbed

import posse
from posse.experiments import ResultStore, RunError, StoreError, parse, run
from posse.experiments.runs import runner
from posse.experiments.runs.store import file_content
from posse.experiments.spec.study import Unit
from posse.policies.bindings import bindings
from posse.simulation import engine


@pytest.fixture(scope="module")
def small():
    return parse(SMALL)


@pytest.fixture(scope="module")
def expected(small, tmp_path_factory):
    return undisturbed(small, tmp_path_factory.mktemp("undisturbed"))


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
    assert records.where(study="two") == alone


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
    assert again == first
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
    assert manifest["versions"].keys() == {"posse", "python", "numpy", "numba", "arro3-io"}
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
    assert after == fresh
    assert after != before
    assert ResultStore(tmp_path / "out").read() == fresh
    assert len(files(tmp_path / "out")) == len(files(tmp_path / "fresh"))
    assert len(files(tmp_path / "out" / "earlier")) == len(files(tmp_path / "fresh")), "nothing is thrown away"
    monkeypatch.undo()
    forget_the_code()
    monkeypatch.setattr(Unit, "run", None)
    assert run(small, tmp_path / "out") == before, "the old code finds its results again"
    assert ResultStore(tmp_path / "out").read() == before


def test_something_else_than_a_spec_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"spec='mine.toml', but expected a Spec; `posse.experiments.load`"):
        run("mine.toml", tmp_path)


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


def test_progress_is_of_what_the_run_has_to_do(small):
    """So that the time left can be told."""
    seen: list[float] = []
    todo = small.units()[:3]
    share = todo[0].cost / sum(unit.cost for unit in todo)
    progress = runner.RunProgress(todo, seen.append)
    progress.note(todo[0], 0.5)
    progress.show()
    progress.note_done(todo[0])
    progress.show()
    assert seen == pytest.approx([share / 2, share])


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


def test_dask_missing(small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'posse-bandits\[cluster\]'"):
        run(small, tmp_path, on="tcp://127.0.0.1:1")
