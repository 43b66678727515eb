"""posse bench --backend cuda: kernel time by the GPU's own events and wall time, beside all cores in the same run."""

import os
import pickle
import tempfile
import time
from typing import Any

import numpy as np

from posse.bench.report import BenchFigure, BenchReport, BenchTable, single
from posse.bench.setting import ARMS, EPSILON, HORIZON, PAPER_POLICIES, PLAYERS, run_alone, shipped, timed
from posse.generate import subpar
from posse.policies import Policy
from posse.problem import Problem
from posse.schedule import Concurrent
from posse.simulation import simulate
from posse.simulation.backend import check_backend
from posse.simulation.feedback import AT_ONCE
from posse.simulation.work import Measurements, Tracker, Work

MORE_POLICIES = ("PosseTS", "RobustPosseTS", "IndTSV", "HierTS")
MANY = 100  # replications of the 300 problems, for 30,000 runs
CROWD_PLAYERS, CROWD_ARMS, CROWD_PROBLEMS, CROWD_HORIZON = 2000, 20, 64, 100
REPETITIONS = 3

ALL_FIVE = "all five together"
NEW_PROCESS = "all five in a new process, warm cache"
PAPER = f"""
import sys, posse
problems = [problem for v in range(10) for problem in posse.generate.subpar(v, count=30, seed=1)]
policies = [posse.RobustAggTS({EPSILON}), posse.RobustAggTSV({EPSILON}), posse.RobustAgg({EPSILON}), posse.IndTS(),
            posse.IndUCB()]
posse.simulate(problems, policies, int(sys.argv[1]), backend="cuda")
"""
FIRST_USE = """
import pickle, sys, time, numba.cuda, posse
numba.cuda.current_context()
start = time.perf_counter()
posse.simulate(posse.generate.subpar(5)[0], pickle.loads(bytes.fromhex(sys.argv[1])), 10, backend="cuda")
print(time.perf_counter() - start)
"""

# Bars for a full run.
BARS = {  # ms
    ("RobustAgg-TS(0.15)", "kernel"): 75,
    ("PosseTS", "kernel"): 250,
    (ALL_FIVE, "kernel"): 300,
    (NEW_PROCESS, "wall"): 5_000,
}
LEAST_PLAYER_ROUNDS = 2e10  # a second
LEAST_OVER_CORES = 4  # of PosseTS with many players, in kernels
MOST_FOR_FIRST_USE = 5  # seconds, with empty caches


def run(quick: bool = False, note: Any = lambda text: None) -> BenchReport:
    """Take all measurements."""
    from numba import cuda

    check_backend("cuda")
    horizon = HORIZON // 10 if quick else HORIZON
    problems = [problem for n_subpar in range(10) for problem in subpar(n_subpar, count=30, seed=1)]
    five, more = ([shipped()[name] for name in names] for names in (PAPER_POLICIES, MORE_POLICIES))
    times = {}
    for policy in five + more:
        note(policy.label)
        times[policy.label] = _beside(problems, [policy], horizon)
    note("the paper's evaluation")
    times[ALL_FIVE] = _beside(problems, five, horizon)
    times[NEW_PROCESS] = {"wall": 1000 * timed(run_alone, PAPER, str(horizon))}
    note("30,000 runs")
    kernel, wall = _best(problems, five[:1], horizon // 10, MANY)
    seconds = {"kernel": kernel, "wall": wall, "all cores": times[five[0].label]["all cores"] / 100}
    player_rounds = len(problems) * MANY * PLAYERS * (horizon // 10)
    note("many players")
    crowded = subpar(5, count=CROWD_PROBLEMS, seed=1, players=CROWD_PLAYERS, arms=CROWD_ARMS)
    crowd = _beside(crowded, more[:1], CROWD_HORIZON)
    first_uses = {}
    for policy in five[:1] + more[:2]:
        note(f"the first use of {policy.label}")
        first_uses[policy.label] = _first_use(policy)
    name = cuda.get_current_device().name
    return gpu_report(
        name.decode() if isinstance(name, bytes) else str(name),
        horizon,
        times,
        {how: player_rounds / each for how, each in seconds.items()},
        crowd,
        first_uses,
    )


def gpu_report(
    gpu: str,
    horizon: int,
    times: dict[str, dict[str, float]],
    speeds: dict[str, float],
    crowd: dict[str, float],
    first_uses: dict[str, float],
) -> BenchReport:
    """The report on a GPU. A full run has bars.

    Args:
        gpu: its name.
        horizon: how many rounds were simulated.
        times: ms by what was simulated.
        speeds: player-rounds a second in 30,000 runs.
        crowd: ms of PosseTS with many players.
        first_uses: seconds by policy, with empty caches.
    """
    full = horizon == HORIZON
    bars = BARS if full else {}
    rows = {
        name: {how: BenchFigure(ms, most=bars.get((name, how))) for how, ms in row.items()}
        for name, row in times.items()
    }
    speed = {how: BenchFigure(each) for how, each in speeds.items()}
    speed["kernel"] = BenchFigure(speeds["kernel"], least=LEAST_PLAYER_ROUNDS if full else None)
    ratio = BenchFigure(crowd["all cores"] / crowd["kernel"], least=LEAST_OVER_CORES if full else None)
    crowd_row = {how: BenchFigure(ms) for how, ms in crowd.items()} | {"cores / kernel": ratio}
    most = {"most": MOST_FOR_FIRST_USE} if full else {}
    setup = f"M = {PLAYERS}, K = {ARMS}, 300 problems × {horizon:,} rounds"
    many_players = f"M = {CROWD_PLAYERS:,}, K = {CROWD_ARMS}, {CROWD_PROBLEMS} problems × {CROWD_HORIZON} rounds"
    timing = f"kernel time by the GPU's events, the quickest of {REPETITIONS}"
    return BenchReport(
        f"{gpu}, beside {os.cpu_count() or 1} cores of the same machine",
        [
            BenchTable("policies", f"ms, {setup}; {timing}", rows),
            BenchTable("many", "Player-rounds a second", {"RobustAgg-TS in 30,000 runs": speed}),
            BenchTable("crowd", f"ms, {many_players}; {timing}", {"PosseTS": crowd_row}),
            BenchTable(
                "first_uses",
                f"First use with empty caches: seconds, the quickest of {REPETITIONS}",
                {name: single(seconds, **most) for name, seconds in first_uses.items()},
            ),
        ],
    )


def _first_use(policy: Policy) -> float:
    """Seconds to the first result in a process that has the GPU's context, with empty caches of kernels."""
    seconds = []
    for _ in range(REPETITIONS):
        with tempfile.TemporaryDirectory() as empty:
            caches = {"NUMBA_CACHE_DIR": empty, "CUDA_CACHE_DISABLE": "1", "POSSE_QUIET": "1"}
            seconds.append(float(run_alone(FIRST_USE, pickle.dumps(policy).hex(), **caches)))
    return min(seconds)


def _beside(problems: list[Problem], policies: list[Policy], horizon: int) -> dict[str, float]:
    """ms on the GPU, in kernels and in all, and on all cores of the CPU."""
    kernel, wall = _best(problems, policies, horizon, 1)
    simulate(problems[:1], policies, 1)  # compiled before the clock runs
    cpu = timed(simulate, problems, policies, horizon)
    return {"kernel": kernel * 1000, "wall": wall * 1000, "all cores": cpu * 1000}


def _best(problems: list[Problem], policies: list[Policy], horizon: int, replications: int) -> tuple[float, float]:
    """Seconds on the GPU, from the start of the first kernel to the end of the last and in all, of the quickest try."""
    _on_gpu(problems[:2], policies, 2, 1)
    return min(_on_gpu(problems, policies, horizon, replications) for _ in range(REPETITIONS))


def _on_gpu(problems: list[Problem], policies: list[Policy], horizon: int, replications: int) -> tuple[float, float]:
    from numba import cuda

    from posse.simulation.cuda import run_on_gpu

    count = min(200, horizon)
    rounds = np.array([horizon * (k + 1) // count for k in range(count)])
    work = Work(
        problems, policies, list(range(replications)), horizon, 0, Concurrent(), rounds, False, horizon, AT_ONCE
    )
    start = time.perf_counter()
    launches = run_on_gpu(work, Measurements(work), Tracker(1, None))
    wall = time.perf_counter() - start
    first = launches[0][0]
    earliest = min(cuda.event_elapsed_time(first, before) for before, _ in launches)
    return (max(cuda.event_elapsed_time(first, after) for _, after in launches) - earliest) / 1000, wall
