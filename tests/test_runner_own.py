"""Policies of one's own run everywhere: on threads, in other processes and on a cluster."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from html import unescape

import pytest
from small_runs import needs_dask

from posse.experiments import load, run
from posse.policies.user import import_file

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


CLINICS = "clinic,A,B,C\nnorth,0.6,0.5,0.1\nsouth,0.5,0.7,0.2\n"


OWN_SPEC = """
[[study]]
name = "own"
horizon = 30
problems = { file = "clinics.csv" }
policies = [{ name = "OwnTS", weight = [1, 2] }, { name = "IndTS" }]
"""


@pytest.fixture(scope="module")
def own_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "policies_of_mine.py").write_text(OWN_POLICIES)
    (folder / "own.toml").write_text(OWN_SPEC)
    (folder / "clinics.csv").write_text(CLINICS)
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
    page = unescape((tmp_path / "out" / "report.html").read_text())
    again = page[page.index("How to reproduce this</h2>") :]
    assert "posse run experiment.toml --import policies_of_mine.py" in again
    assert all(text in again for text in (OWN_SPEC, CLINICS, OWN_POLICIES)), "nothing else is needed to run it again"
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
            assert run(spec, sys.argv[3] + "/b", executor=pool) == run(spec, sys.argv[3] + "/a")
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(script))
    arguments = [own_files / "own.toml", own_files / "policies_of_mine.py", tmp_path]
    done = subprocess.run([sys.executable, tmp_path / "script.py", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


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
    assert there == run(spec, tmp_path / "here")
