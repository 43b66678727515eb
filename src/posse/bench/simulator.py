"""posse bench: what the simulator and the learner cost."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterable

import numba
import numpy as np

from posse.bench import kernel, setting
from posse.bench.learner import measure_learner
from posse.bench.report import BenchReport, BenchTable, Rows, single
from posse.bench.setting import ARMS, PAPER_POLICIES, PLAYERS, Stopwatch, example, from_file, peak_megabytes, timed
from posse.generate import subpar
from posse.version import __version__

HORIZON = setting.HORIZON

# The most time that a policy may take, as a share of NumPy's draws.
POLICY_BARS: dict[str, float] = {
    "RobustAggTS": 0.30,
    "RobustAggTSV": 0.30,
    "HierTS": 0.30,
    "IndTS": 0.30,
    "PosseTS": 0.45,  # or half as much again as RobustAgg-TS, if that is measured too
    "RobustAgg": 0.40,
    "NaiveAgg": 0.40,
    "IndUCB": 0.15,
}
MOST_GROWTH = 2.3
MOST_FOR_ATTRIBUTES = 1.5
MOST_START_UP = 1.5  # seconds
LEAST_SPEED_UP = 200  # over naive.py
LEAST_TWO_THREADS = 1.8
PAPER_PROBLEMS = 300

PAPER = "from posse.cli import main; assert main() == 0"
SIMULATE = """
import sys, posse
posse.simulate(posse.generate.subpar(5)[0], posse.RobustAggTS(0.15), int(sys.argv[1]))
"""


def run(
    quick: bool = False,
    names: list[str] | None = None,
    paper: bool = False,
    imports: Iterable[str] = (),
    note: Callable[[str], None] = lambda text: None,
) -> BenchReport:
    """Take all measurements.

    Args:
        quick: shorter and rougher.
        names: the class names of the policies to measure; all if empty.
        paper: whether to measure the paper's whole evaluation too.
        imports: files with users' own policies, which are measured beside posse's.
        note: is called with what is measured now.
    """
    own = [policy for file in imports for policy in from_file(file)]
    shipped = [example(cls) for cls in setting.shipped().values()]
    known = {type(policy).__name__ for policy in (*shipped, *own)}
    unknown = set(names or ()) - known
    if unknown:
        raise ValueError(f"no policy {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    policies = [policy for policy in (*shipped, *own) if not names or type(policy).__name__ in names]
    robust = next(policy for policy in shipped if type(policy).__name__ == "RobustAggTS")
    horizon, repetitions = (HORIZON // 10, 2) if quick else (HORIZON, 8)
    watch = Stopwatch()
    for number in range(1, repetitions + 1):
        for policy in policies:
            note(f"{policy.label}: ns a player-round, {number} of {repetitions}")
            kernel.time_policy(watch, policy, horizon)
        note(f"two threads, doubling, start-up, {number} of {repetitions}")
        kernel.time_threads(watch, robust, horizon)
        kernel.time_doubling(watch, robust, horizon // 2)
        kernel.time_attributes(watch, HORIZON)
        watch.time(("start-up",), peak_megabytes, SIMULATE, "100")  # from the start to a first result

    note("plain Python, size and memory")
    base = watch.total("doubling", "base")
    one, two = (watch.best.get(("threads", threads)) for threads in (1, 2))
    rows: Rows = {
        "speed-up over naive.py, × (needs a checkout of the repository)": single(
            kernel.measure_naive(robust, horizon), least=LEAST_SPEED_UP
        ),
        "two threads against one, × (needs two cores)": single(
            one / two if one and two else None, least=LEAST_TWO_THREADS
        ),
        **{
            f"doubling {name}, × the time": single(watch.total("doubling", name) / base, most=MOST_GROWTH)
            for name in ("T", "M", "K")
        },
        "PosseTS told attributes of eight values, × not told": single(
            watch.total("attributes", "told") / watch.total("attributes", "not told"), most=MOST_FOR_ATTRIBUTES
        ),
        "2,000 players and 200 arms, ns a player-round": single(kernel.measure_large(robust, 20 if quick else 100)),
        **{
            f"peak memory at T = {rounds:,}, MB": single(peak_megabytes(SIMULATE, str(rounds)))
            for rounds in (horizon, 10 * horizon)
        },
        "new process to first result, warm cache, s": single(watch.best[("start-up",)], most=MOST_START_UP),
    }
    if paper:
        note("the paper's evaluation")
        rows |= measure_paper()
    note("the learner")
    learner = measure_learner(10 if quick else 60, 500 if quick else 20_000, own)
    setup = f"M = {PLAYERS}, K = {ARMS}, mean over |I_5ε| = {', '.join(map(str, kernel.SUBPAR_COUNTS))}"
    costs = kernel.policy_rows(watch, policies, horizon, POLICY_BARS)
    return BenchReport(
        f"posse {__version__}, Python {platform.python_version()}, NumPy {np.__version__}, numba {numba.__version__}, "
        f"{platform.machine()}, {os.cpu_count()} cores",
        [
            BenchTable("policies", f"ns a player-round on one thread, {setup}", costs),
            BenchTable("simulator", "The simulator", rows),
            *learner,
        ],
    )


def measure_paper() -> Rows:
    """The paper's own evaluation at full size, with figures and report, in a process of its own.

    It may take 1.3 × (kernel time on one thread ÷ cores) + 20 s. The kernel time is measured on three of the ten
    families of problems and scaled up.
    """
    work = 0.0
    for n_subpar in kernel.SUBPAR_COUNTS:
        problem = subpar(n_subpar, seed=1)[0]
        for policy in (example(setting.shipped()[name]) for name in PAPER_POLICIES):
            kernel.new_run(problem, policy, HORIZON).advance(1)
            work += min(timed(kernel.new_run(problem, policy, HORIZON).advance, HORIZON) for _ in range(5))
    allowed = 1.3 * work * PAPER_PROBLEMS / len(kernel.SUBPAR_COUNTS) / (os.cpu_count() or 1) + 20
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        peak = peak_megabytes(PAPER, "paper", "--own-only", "--out", folder)
        seconds = time.perf_counter() - start
    name = "the paper's own evaluation at full size, with figures and report"
    return {f"{name}, s": single(seconds, most=allowed), f"{name}, peak memory in MB": single(peak)}
