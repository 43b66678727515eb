"""The GPU's benchmark: kernel time by the device's own events and wall time, beside the CPU engine in the same run."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np

from posse.bench.setting import ARMS, EPSILON, PLAYERS
from posse.generate import subpar
from posse.policies import Policy, all_policies
from posse.problem import Problem
from posse.schedule import Concurrent
from posse.simulation import simulate
from posse.simulation.backend import check_backend
from posse.simulation.work import Measurements, Tracker, Work

HORIZON = 50_000
PAPER_POLICIES = ("RobustAggTS", "RobustAggTSV", "RobustAgg", "IndTS", "IndUCB")
MANY = 100  # replications of the 300 problems, for 30,000 runs
REPETITIONS = 3

# What the figures must not exceed, or, for the last, must reach.
BARS: dict[str, float] = {
    "RobustAggTS ms": 120,
    "paper kernel seconds": 0.5,
    "paper wall seconds": 5,
    "player-rounds a second": 1e10,
}


@dataclasses.dataclass
class GpuReport:
    """All figures of a run."""

    gpu: str
    cores: int
    horizon: int
    policies: list[dict[str, Any]]
    """For each policy on 300 problems: kernel and wall ms on the GPU, and ms on all cores of the CPU."""
    paper: dict[str, float]
    """The paper's five policies on 300 problems: kernel, wall and CPU seconds, and a new process's, cache warm."""
    many: dict[str, float]
    """RobustAgg-TS in 30,000 runs: player-rounds a second on the GPU, in kernels and in all, and on the CPU."""

    def to_json(self) -> str:
        """The report for machines."""
        return json.dumps(dataclasses.asdict(self), indent=2)


def run(quick: bool = False, note: Any = lambda text: None) -> GpuReport:
    """Take all measurements."""
    from numba import cuda

    check_backend("cuda")
    horizon = HORIZON // 10 if quick else HORIZON
    problems = [problem for n_subpar in range(10) for problem in subpar(n_subpar, count=30, seed=1)]
    five = [_example(name) for name in PAPER_POLICIES]
    rows: list[dict[str, Any]] = []
    for policy in five:
        note(f"{policy.label}")
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


def _example(name: str) -> Policy:
    cls: Any = next(cls for cls in all_policies() if cls.__name__ == name)
    return cls(EPSILON) if "epsilon" in cls.constant_names() else cls()


def _beside(problems: list[Problem], policies: list[Policy], horizon: int) -> dict[str, float]:
    """ms on the GPU, in kernels and in all, and on all cores of the CPU."""
    kernel, wall = _best(problems, policies, horizon, 1)
    simulate(problems[:1], policies, 1)  # compiled before the clock runs
    start = time.perf_counter()
    simulate(problems, policies, horizon)
    return {"kernel_ms": kernel * 1000, "wall_ms": wall * 1000, "cpu_ms": (time.perf_counter() - start) * 1000}


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
    start = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - start


def render(report: GpuReport) -> str:
    """The report as text; a figure that misses its bar is marked."""
    full = report.horizon == HORIZON
    lines = [
        f"{report.gpu}, beside {report.cores} cores of the same machine. M = {PLAYERS}, K = {ARMS}, 300 problems × "
        f"{report.horizon:,} rounds; kernel time by the GPU's events, the quickest of {REPETITIONS}.",
        "",
        f"{'ms':<24}{'kernel':>10}{'wall':>10}{'all cores':>12}",
    ]
    for row in report.policies:
        bar = BARS["RobustAggTS ms"] if full and row["policy"].startswith("RobustAgg-TS(") else None
        lines.append(
            f"{row['policy']:<24}{row['kernel_ms']:>10.1f}{row['wall_ms']:>10.1f}{row['cpu_ms']:>12.0f}"
            + _mark(row["kernel_ms"], bar)
        )
    paper, many = report.paper, report.many
    lines += [
        "",
        f"all five together: {paper['kernel_seconds']:.3f} s in kernels, {paper['wall_seconds']:.3f} s in all"
        + _mark(paper["kernel_seconds"], BARS["paper kernel seconds"] if full else None)
        + f"; {paper['cpu_seconds']:.1f} s on all cores",
        f"the same in a new process, warm cache: {paper['new_process_seconds']:.2f} s"
        + _mark(paper["new_process_seconds"], BARS["paper wall seconds"] if full else None),
        f"RobustAgg-TS in 30,000 runs: {many['kernel']:.3g} player-rounds a second in kernels, {many['wall']:.3g} in "
        f"all, {many['cpu']:.3g} on all cores" + _mark(BARS["player-rounds a second"] if full else 0, many["kernel"]),
    ]
    return "\n".join(lines)


def _mark(value: float, bar: float | None) -> str:
    return "  ← misses its bar" if bar is not None and value > bar else ""
