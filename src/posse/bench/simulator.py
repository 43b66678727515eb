"""posse bench: what the simulator and the learner cost."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from posse.bench import kernel, process, setting
from posse.bench.learner import LearnerReport, measure_learner
from posse.bench.setting import ARMS, PLAYERS, example, from_file
from posse.bench.stopwatch import Stopwatch
from posse.bench.table import BenchReport, at_least, at_most, mark, table
from posse.policies import Policy
from posse.version import __version__

HORIZON = setting.HORIZON

# The most time that a policy may take, as a share of NumPy's draws.
POLICY_BARS: dict[str, float] = {
    "RobustAggTS": 0.30,
    "RobustAggTSV": 0.30,
    "HierTS": 0.30,
    "IndTS": 0.30,
    "PosseTS": 0.45,  # or half as much again as RobustAgg-TS took in the same run
    "RobustAgg": 0.40,
    "NaiveAgg": 0.40,
    "IndUCB": 0.15,
}
MOST_GROWTH = 2.3
MOST_START_UP = 1.5  # seconds
LEAST_SPEED_UP = 200  # over naive.py
LEAST_TWO_THREADS = 1.8


@dataclass(frozen=True)
class SimulatorReport(BenchReport):
    """All figures of a run."""

    machine: dict[str, Any]
    policies: list[dict[str, Any]]
    """For each policy: ns a player-round, and its ratios to NumPy's draws and to the floor."""
    numpy_ns: float
    """What NumPy needs for the normal draws of one player-round."""
    floor_ns: float
    """What the random words alone of one player-round need, if every arm is drawn."""
    naive_speedup: float | None
    """RobustAgg-TS against tests/naive.py; None if there is no such file."""
    two_threads: float | None
    """Speed on two threads over speed on one; None on a single core."""
    doubling: dict[str, float]
    """By how much the time grows when T, M or K doubles."""
    large: dict[str, Any]
    """A large case, 2,000 players and 200 arms."""
    memory_mb: dict[str, float]
    """Peak memory of a process that simulates, by horizon."""
    startup_seconds: float
    """From the start of a process to its first result, with a warm cache."""
    learner: LearnerReport
    paper: dict[str, float] | None = None
    """The paper's own evaluation at full size: wall seconds, what the bar allows, and peak memory in MB."""

    def to_text(self) -> str:
        """The figures as tables and sentences."""
        on = self.machine
        rows = [
            (
                row["label"],
                f"{row['ns']:.1f}",
                f"{row['to_numpy']:.3f}",
                "" if row["bar"] is None else f"{row['bar']:.3g}",
                f"{row['to_floor']:.1f}",
                mark(row["to_numpy"], row["bar"]),
            )
            for row in self.policies
        ]
        lines = [
            f"posse {on['posse']}, Python {on['python']}, NumPy {on['numpy']}, numba {on['numba']}, {on['machine']}, "
            f"{on['cores']} cores",
            "",
            f"One thread, M = {PLAYERS}, K = {ARMS}, mean over |I_5ε| = {', '.join(map(str, kernel.SUBPAR_COUNTS))}. "
            f"NumPy's {ARMS} normal draws: {self.numpy_ns:.0f} ns. Random words alone: {self.floor_ns:.1f} ns.",
            "",
            *table(("policy", "ns a player-round", "of NumPy", "bar", "of floor"), rows),
            "",
            *self._others(),
            "",
            self.learner.to_text(),
        ]
        return "\n".join(lines)

    def _others(self) -> list[str]:
        speed_up, two, large, start = self.naive_speedup, self.two_threads, self.large, self.startup_seconds
        lines = [
            "speed-up over naive.py: not measured (needs a checkout of the repository, with tests/naive.py)"
            if speed_up is None
            else at_least(f"speed-up over naive.py: {speed_up:.0f} ×", speed_up, LEAST_SPEED_UP),
            "two threads against one: not measured (a single core)"
            if two is None
            else at_least(f"two threads against one: {two:.2f} ×", two, LEAST_TWO_THREADS),
            *(at_most(f"doubling {name}: {x:.2f} × the time", x, MOST_GROWTH) for name, x in self.doubling.items()),
            f"large, M = {large['players']:,}, K = {large['arms']}: {large['ns'] / 1000:.2f} µs a player-round, "
            f"{large['ns_a_draw']:.1f} ns a draw",
            "peak memory: " + ", ".join(f"{mb:.0f} MB at {name}" for name, mb in self.memory_mb.items()),
            at_most(f"new process to first result, warm cache: {start:.2f} s", start, MOST_START_UP, " s"),
        ]
        if self.paper is not None:
            text = f"the paper's own evaluation, full size with figures and report: {self.paper['seconds']:.0f} s"
            text += f" and {self.paper['peak_memory_mb']:.0f} MB at the peak"
            unit = f" s = 1.3 × {self.paper['kernel_seconds']:.0f} s kernel time ÷ cores + 20 s"
            lines.append(at_most(text, self.paper["seconds"], self.paper["allowed_seconds"], unit))
        return lines


def run(
    quick: bool = False,
    names: list[str] | None = None,
    paper: bool = False,
    imports: Iterable[str] = (),
    note: Callable[[str], None] = lambda text: None,
) -> SimulatorReport:
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
        watch.time(("start-up",), process.simulation_memory, 100)  # from the start to a first result
    rows = _policy_rows(watch, policies, horizon)

    def measured(what: str, work: Callable[..., Any], *args: Any) -> Any:
        note(what)
        return work(*args)

    return SimulatorReport(
        machine=_machine(),
        policies=rows,
        numpy_ns=min(row["numpy_ns"] for row in rows),
        floor_ns=max(row["floor_ns"] for row in rows),
        naive_speedup=measured("naive.py", kernel.measure_naive, robust, horizon),
        two_threads=kernel.threads_figure(watch),
        doubling=kernel.doubling_figures(watch),
        large=measured("2,000 players × 200 arms", kernel.measure_large, robust, 20 if quick else 100),
        memory_mb={
            f"T={rounds:,}": measured("memory", process.simulation_memory, rounds) for rounds in (horizon, 10 * horizon)
        },
        startup_seconds=watch.best[("start-up",)],
        learner=measured("the learner", measure_learner, 10 if quick else 60, 500 if quick else 20_000, own),
        paper=measured("the paper's evaluation", process.measure_paper) if paper else None,
    )


def _policy_rows(watch: Stopwatch, policies: list[Policy], horizon: int) -> list[dict[str, Any]]:
    rows = [
        kernel.policy_figures(watch, policy, horizon, POLICY_BARS.get(type(policy).__name__)) for policy in policies
    ]
    found = {row["policy"]: row for row in rows}
    if "PosseTS" in found and "RobustAggTS" in found:
        found["PosseTS"]["bar"] = 1.5 * found["RobustAggTS"]["to_numpy"]
    return rows


def _machine() -> dict[str, Any]:
    """What it ran on."""
    return {
        "posse": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }
