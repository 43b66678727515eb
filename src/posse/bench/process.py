"""What whole processes need: start-up, memory, and the paper's evaluation."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from posse.bench.kernel import SUBPAR_COUNTS, new_run
from posse.bench.setting import HORIZON, PAPER_POLICIES, example, shipped
from posse.bench.stopwatch import timed
from posse.generate import subpar

PAPER_PROBLEMS = 300

PEAK = """
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak * (1 if sys.platform == "darwin" else 1024))
"""
PAPER = f"""
import resource, sys
from posse.cli import main
status = main()
{PEAK}
sys.exit(status)
"""
SIMULATE = f"""
import resource, sys
import posse
posse.simulate(posse.generate.subpar(5)[0], posse.RobustAggTS(0.15), int(sys.argv[1]))
{PEAK}
"""


def peak_megabytes(code: str, *arguments: str) -> float:
    """Run Python code that prints its peak memory last, and return that in MB."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1]) / 1e6


def simulation_memory(horizon: int) -> float:
    """Peak memory of a process that runs one simulation, in MB."""
    return peak_megabytes(SIMULATE, str(horizon))


def measure_paper() -> dict[str, float]:
    """The paper's own evaluation at full size, with figures and report, in a process of its own.

    It may take 1.3 × (kernel time on one thread ÷ cores) + 20 s. The kernel time is measured on three of the ten
    families of problems and scaled up.
    """
    kernel = 0.0
    for n_subpar in SUBPAR_COUNTS:
        problem = subpar(n_subpar, seed=1)[0]
        for policy in (example(shipped()[name]) for name in PAPER_POLICIES):
            new_run(problem, policy, HORIZON).advance(1)
            kernel += min(timed(new_run(problem, policy, HORIZON).advance, HORIZON) for _ in range(5))
    kernel *= PAPER_PROBLEMS / len(SUBPAR_COUNTS)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        peak = peak_megabytes(PAPER, "paper", "--own-only", "--out", folder)
        seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "kernel_seconds": kernel,
        "allowed_seconds": 1.3 * kernel / (os.cpu_count() or 1) + 20,
        "peak_memory_mb": peak,
    }
