"""posse bench --backend cuda: kernel time by the GPU's own events and wall time, beside all cores in the same run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.bench.setting import ARMS, EPSILON, HORIZON, PAPER_POLICIES, PLAYERS, example, shipped
from posse.bench.stopwatch import timed
from posse.bench.table import BenchReport, mark, table
from posse.generate import subpar
from posse.policies import Policy
from posse.problem import Problem
from posse.schedule import Concurrent
from posse.simulation import simulate
from posse.simulation.backend import check_backend
from posse.simulation.work import Measurements, Tracker, Work

MANY = 100  # replications of the 300 problems, for 30,000 runs
REPETITIONS = 3

# Bars for a full run.
MOST_ROBUSTAGG_TS = 120  # ms in the kernel
MOST_PAPER_KERNEL = 0.5  # seconds
MOST_PAPER_PROCESS = 5  # seconds
LEAST_PLAYER_ROUNDS = 1e10  # a second


@dataclass(frozen=True)
class GpuReport(BenchReport):
    """All figures of a run on a GPU."""

    gpu: str
    cores: int
    horizon: int
    policies: list[dict[str, Any]]
    """For each policy on 300 problems: kernel and wall ms on the GPU, and ms on all cores of the CPU."""
    paper: dict[str, float]
    """The paper's five policies on 300 problems: kernel, wall and CPU seconds, and a new process's, cache warm."""
    many: dict[str, float]
    """RobustAgg-TS in 30,000 runs: player-rounds a second on the GPU, in kernels and in all, and on the CPU."""

    def to_text(self) -> str:
        """The figures as a table and sentences."""
        full, paper, many = self.horizon == HORIZON, self.paper, self.many
        rows = []
        for name, row in zip(PAPER_POLICIES, self.policies, strict=True):
            bar = MOST_ROBUSTAGG_TS if full and name == "RobustAggTS" else None
            kernel, wall, cpu = f"{row['kernel_ms']:.1f}", f"{row['wall_ms']:.1f}", f"{row['cpu_ms']:.0f}"
            rows.append((row["policy"], kernel, wall, cpu, mark(row["kernel_ms"], bar)))
        lines = [
            f"{self.gpu}, beside {self.cores} cores of the same machine. M = {PLAYERS}, K = {ARMS}, 300 problems × "
            f"{self.horizon:,} rounds; kernel time by the GPU's events, the quickest of {REPETITIONS}.",
            "",
            *table(("ms", "kernel", "wall", "all cores"), rows),
            "",
            f"all five together: {paper['kernel_seconds']:.3f} s in kernels, {paper['wall_seconds']:.3f} s in all; "
            f"{paper['cpu_seconds']:.1f} s on all cores  "
            + mark(paper["kernel_seconds"], MOST_PAPER_KERNEL if full else None),
            f"the same in a new process, warm cache: {paper['new_process_seconds']:.2f} s  "
            + mark(paper["new_process_seconds"], MOST_PAPER_PROCESS if full else None),
            f"RobustAgg-TS in 30,000 runs: {many['kernel']:.3g} player-rounds a second in kernels, {many['wall']:.3g} "
            f"in all, {many['cpu']:.3g} on all cores  " + mark(LEAST_PLAYER_ROUNDS if full else 0, many["kernel"]),
        ]
        return "\n".join(line.rstrip() for line in lines)


def run(quick: bool = False, note: Any = lambda text: None) -> GpuReport:
    """Take all measurements."""
    from numba import cuda

    check_backend("cuda")
    horizon = HORIZON // 10 if quick else HORIZON
    problems = [problem for n_subpar in range(10) for problem in subpar(n_subpar, count=30, seed=1)]
    five = [example(shipped()[name]) for name in PAPER_POLICIES]
    rows: list[dict[str, Any]] = []
    for policy in five:
        note(policy.label)
        rows.append({"policy": policy.label, **_beside(problems, [policy], horizon)})
    note("the paper's evaluation")
    paper = {name.replace("ms", "seconds"): ms / 1000 for name, ms in _beside(problems, five, horizon).items()}
    paper["new_process_seconds"] = _new_process(horizon)
    note("30,000 runs")
    player_rounds = len(problems) * MANY * PLAYERS * (horizon // 10)
    kernel, wall = _best(problems, five[:1], horizon // 10, MANY)
    cpu = len(problems) * PLAYERS * horizon / rows[0]["cpu_ms"] * 1000
    many = {"kernel": player_rounds / kernel, "wall": player_rounds / wall, "cpu": cpu}
    name = cuda.get_current_device().name
    return GpuReport(
        gpu=name.decode() if isinstance(name, bytes) else str(name),
        cores=os.cpu_count() or 1,
        horizon=horizon,
        policies=rows,
        paper=paper,
        many=many,
    )


def _beside(problems: list[Problem], policies: list[Policy], horizon: int) -> dict[str, float]:
    """ms on the GPU, in kernels and in all, and on all cores of the CPU."""
    kernel, wall = _best(problems, policies, horizon, 1)
    simulate(problems[:1], policies, 1)  # compiled before the clock runs
    cpu = timed(simulate, problems, policies, horizon)
    return {"kernel_ms": kernel * 1000, "wall_ms": wall * 1000, "cpu_ms": cpu * 1000}


def _best(problems: list[Problem], policies: list[Policy], horizon: int, replications: int) -> tuple[float, float]:
    """Seconds on the GPU, from the start of the first kernel to the end of the last and in all, of the quickest try."""
    _on_gpu(problems[:2], policies, 2, 1)
    return min(_on_gpu(problems, policies, horizon, replications) for _ in range(REPETITIONS))


def _on_gpu(problems: list[Problem], policies: list[Policy], horizon: int, replications: int) -> tuple[float, float]:
    from numba import cuda

    from posse.simulation.cuda import run_on_gpu

    count = min(200, horizon)
    rounds = np.array([horizon * (k + 1) // count for k in range(count)])
    work = Work(problems, policies, list(range(replications)), horizon, 0, Concurrent(), rounds, False)
    start = time.perf_counter()
    launches = run_on_gpu(work, Measurements(work), Tracker(1, None))
    wall = time.perf_counter() - start
    first = launches[0][0]
    earliest = min(cuda.event_elapsed_time(first, before) for before, _ in launches)
    return (max(cuda.event_elapsed_time(first, after) for _, after in launches) - earliest) / 1000, wall


NEW_PROCESS = """
import posse
problems = [problem for v in range(10) for problem in posse.generate.subpar(v, count=30, seed=1)]
policies = [posse.RobustAggTS({epsilon}), posse.RobustAggTSV({epsilon}), posse.RobustAgg({epsilon}), posse.IndTS(),
            posse.IndUCB()]
posse.simulate(problems, policies, {horizon}, backend="cuda")
"""


def _new_process(horizon: int) -> float:
    """Seconds from starting Python to the results of the paper's evaluation, kernels in the disk cache."""
    command = [sys.executable, "-c", NEW_PROCESS.format(epsilon=EPSILON, horizon=horizon)]
    return timed(subprocess.check_call, command)
