"""Runs that are killed, or whose cluster loses a worker, go on where they stopped."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from small_runs import LARGE, SMALL, TEXT, files, needs_dask, start, undisturbed

from posse.experiments import parse, run
from posse.experiments.runs import runner


@pytest.fixture(scope="module")
def small():
    return parse(SMALL)


@pytest.fixture(scope="module")
def expected(small, tmp_path_factory):
    return undisturbed(small, tmp_path_factory.mktemp("undisturbed"))


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
