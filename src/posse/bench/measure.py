"""The measurements."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import json
import math
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np

from posse.bench.gpu import PAPER_POLICIES
from posse.bench.learner import measure_learner
from posse.bench.setting import ARMS, EPSILON, PLAYERS
from posse.compile import bind
from posse.generate import subpar, uniform
from posse.policies import Policy, all_policies
from posse.problem import Problem
from posse.schedule import Concurrent
from posse.simulation import simulate
from posse.simulation.engine import Run
from posse.simulation.pick import draw_halves
from posse.streams import DRAW, block
from posse.version import __version__

HORIZON = 50_000
SUBPAR_COUNTS = (0, 5, 8)
PIECES = 50
NUMPY_DRAWS = 100  # fills of a players × arms array for each piece

# What the figures must not exceed, or, for the last three, must reach.
BARS: dict[str, float] = {
    "RobustAggTS": 0.30,
    "RobustAggTSV": 0.30,
    "HierTS": 0.30,
    "IndTS": 0.30,
    "PosseTS": 0.45,  # half as much again as RobustAgg-TS: as its bar allows, or as it took in the same run
    "RobustAgg": 0.40,
    "NaiveAgg": 0.40,
    "IndUCB": 0.15,
    "doubling": 2.3,
    "start-up seconds": 1.5,
    "speed-up over naive.py": 200,
    "two threads": 1.8,
}
LEARNER_BARS = {
    "pair": 100.0,
    "100": 50.0,
    "1e+06": 200.0,
}  # µs: choose and observe; propensities by the scales' factor


@dataclasses.dataclass
class Report:
    """All figures of a benchmark run."""

    machine: dict[str, Any]
    policies: list[dict[str, Any]]
    """For each policy: ns a player-round, and its ratios to NumPy's draws and to the floor."""
    numpy_ns: float
    """What NumPy needs for the normal draws of one player-round."""
    floor_ns: float
    """What the random words of one player-round alone need, where every arm is drawn."""
    naive_speedup: float | None
    """RobustAgg-TS against tests/naive.py; None where that file is not at hand."""
    two_threads: float | None
    """Speed on two threads over speed on one; None on a single core."""
    doubling: dict[str, float]
    """By how much the time grows when T, M or K doubles."""
    large: dict[str, Any]
    """A large case, 2,000 players and 200 arms."""
    memory_mb: dict[str, float]
    """Peak memory of a process that simulates, by horizon."""
    startup_seconds: float
    """A new process to its first result, with a warm cache."""
    learner: dict[str, Any]
    """The learner: µs for a choose and an observe, beside other libraries', and for exact propensities."""
    paper: dict[str, float] | None = None
    """The paper's own evaluation at full size: wall seconds, what the bar allows, and peak memory in MB."""

    def to_json(self) -> str:
        """The report for machines."""
        return json.dumps(dataclasses.asdict(self), indent=2)


def run(
    quick: bool = False,
    names: list[str] | None = None,
    paper: bool = False,
    note: Callable[[str], None] = lambda text: None,
) -> Report:
    """Take all measurements, on request that of the paper's whole evaluation too; `note` is told what is at work."""
    shipped = [cls for cls in all_policies() if cls.__module__.startswith("posse.policies.")]
    chosen = [cls for cls in shipped if not names or cls.__name__ in names]
    unknown = set(names or ()) - {cls.__name__ for cls in shipped}
    if unknown:
        known = ", ".join(cls.__name__ for cls in shipped)
        raise ValueError(f"no policy {', '.join(sorted(unknown))}; there are {known}")
    horizon = HORIZON // 10 if quick else HORIZON
    policies = [example(cls) for cls in chosen]
    robust = example(next(cls for cls in shipped if cls.__name__ == "RobustAggTS"))
    repetitions = 2 if quick else 8
    watch = Stopwatch()
    for number in range(1, repetitions + 1):
        for policy in policies:
            note(f"{policy.label}: ns a player-round, {number} of {repetitions}")
            time_policy(watch, policy, horizon)
        note(f"two threads, doubling, start-up, {number} of {repetitions}")
        time_threads(watch, robust, horizon)
        time_doubling(watch, robust, horizon // 2)
        watch.time(("start-up",), start_up)
    rows = [policy_figures(watch, policy, horizon) for policy in policies]
    bar_for_posse_ts(rows)
    note("naive.py")
    naive_speedup = measure_naive(robust, horizon)
    note("2,000 players × 200 arms")
    large = measure_large(robust, 20 if quick else 100)
    note("memory")
    memory = {f"T={rounds:,}": peak_memory(rounds) for rounds in (horizon, 10 * horizon)}
    note("the learner")
    learner = measure_learner(blocks=10 if quick else 60, past=500 if quick else 20_000)
    evaluation = None
    if paper:
        note("the paper's evaluation")
        evaluation = measure_paper({cls.__name__: example(cls) for cls in shipped})
    return Report(
        machine=machine(),
        policies=rows,
        numpy_ns=min(row["numpy_ns"] for row in rows),
        floor_ns=max(row["floor_ns"] for row in rows),
        naive_speedup=naive_speedup,
        two_threads=threads_figure(watch),
        doubling=doubling_figures(watch),
        large=large,
        memory_mb=memory,
        startup_seconds=watch.best[("start-up",)],
        learner=learner,
        paper=evaluation,
    )


def example(cls: type[Policy]) -> Policy:
    """The policy as it is benchmarked: where it needs to be told, ε = 0.15, or the spread that goes with it."""
    needed = {field.name for field in dataclasses.fields(cls) if field.default is dataclasses.MISSING}
    constants: dict[str, Any] = {"epsilon": EPSILON, "spread": EPSILON / math.sqrt(12)}
    return cls(**{name: value for name, value in constants.items() if name in needed})


def machine() -> dict[str, Any]:
    """What it ran on."""
    return {
        "posse": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


class Stopwatch:
    """The shortest time that each thing took. All take turns, so that a noisy spell does not meet one thing alone."""

    def __init__(self) -> None:
        self.best: dict[Any, float] = {}

    def time(self, name: Any, work: Callable[..., object], *args: object) -> None:
        """Time it once more."""
        self.best[name] = min(self.best.get(name, math.inf), timed(work, *args))

    def total(self, *name: Any) -> float:
        """The sum over all pieces of what begins with this name."""
        return sum(seconds for key, seconds in self.best.items() if key[: len(name)] == name)


def time_policy(watch: Stopwatch, policy: Policy, horizon: int) -> None:
    """A policy's rounds, NumPy's draws and the bare random words, piece by piece in turns."""
    for n_subpar in SUBPAR_COUNTS:
        run_ = new_run(subpar(n_subpar, seed=1)[0], policy, horizon)
        normals, words = numpy_draws(), word_draws(run_, policy, horizon // PIECES)
        for piece in range(PIECES):
            watch.time((policy, "rounds", n_subpar, piece), run_.advance, horizon * (piece + 1) // PIECES)
            watch.time((policy, "normals", n_subpar, piece), normals)
            watch.time((policy, "words", n_subpar, piece), words)


def policy_figures(watch: Stopwatch, policy: Policy, horizon: int) -> dict[str, Any]:
    """ns a player-round, averaged over the problems, beside NumPy's draws and the bare random words."""
    player_rounds = PLAYERS * horizon
    costs = [watch.total(policy, "rounds", n_subpar) / player_rounds * 1e9 for n_subpar in SUBPAR_COUNTS]
    drawn = len(SUBPAR_COUNTS) * PIECES * NUMPY_DRAWS * PLAYERS
    ns, numpy_ns = float(np.mean(costs)), watch.total(policy, "normals") / drawn * 1e9
    floor_ns = watch.total(policy, "words") / len(SUBPAR_COUNTS) / player_rounds * 1e9
    name = type(policy).__name__
    return {
        "policy": name,
        "label": policy.label,
        "ns": ns,
        "ns_by_subpar": dict(zip(map(str, SUBPAR_COUNTS), costs, strict=True)),
        "numpy_ns": numpy_ns,
        "floor_ns": floor_ns,
        "to_numpy": ns / numpy_ns,
        "to_floor": ns / floor_ns,
        "bar": BARS.get(name),
    }


def bar_for_posse_ts(rows: list[dict[str, Any]]) -> None:
    """PosseTS may cost half as much again as RobustAgg-TS, where both were measured."""
    found = {row["policy"]: row for row in rows}
    if "PosseTS" in found and "RobustAggTS" in found:
        found["PosseTS"]["bar"] = 1.5 * found["RobustAggTS"]["to_numpy"]


def new_run(problem: Problem, policy: Policy, horizon: int) -> Run:
    """A run as `simulate` makes it."""
    return Run(problem, policy, Concurrent(), horizon, seed=0)


def numpy_draws() -> Callable[[], None]:
    """NumPy drawing K normals a player-round into a preallocated array."""
    generator, out = np.random.default_rng(0), np.empty((PLAYERS, ARMS))

    def draw() -> None:
        for _ in range(NUMPY_DRAWS):
            generator.standard_normal(out=out)

    return draw


def draw_only(active, halves, rewards, randomised, rounds, key):  # type: ignore[no-untyped-def]
    """The random words of so many rounds, and nothing else."""
    for t in range(1, rounds + 1):
        if randomised:
            draw_halves(active, 0, active.size, t, key, halves)
        else:
            for place in range(active.size):
                rewards[place], _, _, _ = block(0, active[place], t, DRAW, key)


@functools.cache
def floor_kernel() -> Callable[..., None]:
    """The floor, compiled."""
    return bind(draw_only)


def word_draws(run_: Run, policy: Policy, rounds: int) -> Callable[[], None]:
    """The floor: the random words that the policy needs, drawn as the kernel draws them."""
    arrays = np.arange(PLAYERS, dtype=run_.state.active.dtype), run_.state.halves.copy(), run_.state.rewards.copy()
    floor_kernel()(*arrays, policy.randomised, 1, run_.key)
    return lambda: floor_kernel()(*arrays, policy.randomised, rounds, run_.key)


def timed(work: Callable[..., object], *args: object) -> float:
    """How long it takes, in seconds."""
    start = time.perf_counter()
    work(*args)
    return time.perf_counter() - start


def measure_naive(policy: Policy, horizon: int) -> float | None:
    """How many times faster than the plain Python of tests/naive.py, which draws from Python's own generator."""
    module = load_naive()
    if module is None:
        return None
    problem = subpar(5, seed=1)[0]
    chance = random.Random(0)
    rounds = 100

    def play() -> None:
        algorithm: Iterator[Any] = module.robustagg_ts(
            PLAYERS,
            ARMS,
            rounds,
            lambda t: math.log(horizon),
            lambda t: range(PLAYERS),
            lambda t, p, i: chance.gauss(0.0, 1.0),
            lambda t, p, i: 1.0 if chance.random() < problem.means[p, i] else 0.0,
            *policy.constants(),
        )
        for _ in algorithm:
            pass

    slow = min(timed(play) for _ in range(3)) / rounds
    fast = min(timed(lambda: new_run(problem, policy, horizon).advance(horizon)) for _ in range(3)) / horizon
    return slow / fast


def load_naive() -> ModuleType | None:
    """tests/naive.py, where the benchmark runs in a checkout of the repository."""
    path = Path(__file__).resolve().parents[3] / "tests" / "naive.py"
    if not path.exists():
        return None
    spec = importlib.util.spec_from_file_location("naive", path)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))  # it has a second file beside it
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def time_threads(watch: Stopwatch, policy: Policy, horizon: int) -> None:
    """Eight problems on one thread and on two, in turns; short and often, for two cores are rarely quiet at once."""
    problems, rounds = subpar(5, count=8, seed=1), max(horizon // 5, 5_000)
    for _ in range(5):
        for threads in (1, 2) if (os.cpu_count() or 1) > 1 else ():
            watch.time(
                ("threads", threads), lambda threads=threads: simulate(problems, policy, rounds, threads=threads)
            )


def threads_figure(watch: Stopwatch) -> float | None:
    """Speed on two threads over speed on one."""
    return watch.best[("threads", 1)] / watch.best[("threads", 2)] if ("threads", 2) in watch.best else None


def time_doubling(watch: Stopwatch, policy: Policy, horizon: int) -> None:
    """Twice the rounds, the players and the arms, and the run that they are compared with."""
    cases = {
        "base": (PLAYERS, ARMS, horizon),
        "T": (PLAYERS, ARMS, 2 * horizon),
        "M": (2 * PLAYERS, ARMS, horizon),
        "K": (PLAYERS, 2 * ARMS, horizon),
    }
    for name, (players, arms, rounds) in cases.items():
        run_ = new_run(subpar(arms // 2, seed=1, players=players, arms=arms)[0], policy, rounds)
        for piece in range(PIECES):
            watch.time(("doubling", name, piece), run_.advance, rounds * (piece + 1) // PIECES)


def doubling_figures(watch: Stopwatch) -> dict[str, float]:
    """Time after doubling over time before."""
    return {name: watch.total("doubling", name) / watch.total("doubling", "base") for name in ("T", "M", "K")}


def measure_large(policy: Policy, rounds: int) -> dict[str, Any]:
    """2,000 players and 200 arms."""
    problem = uniform(players=2000, arms=200, seed=1)[0]
    run_ = new_run(problem, policy, 10 * rounds)
    run_.advance(2)
    ns = timed(run_.advance, 2 + rounds) / (rounds * problem.players) * 1e9
    return {"players": problem.players, "arms": problem.arms, "ns": ns, "ns_a_draw": ns / problem.arms}


PAPER_PROBLEMS = 300


def measure_paper(policies: dict[str, Policy]) -> dict[str, float]:
    """The paper's own evaluation at full size, figures and report included, in a process of its own.

    Allowed are 1.3 × (single-thread kernel time ÷ cores) + 20 s; the kernel time is measured on three of the ten
    families, and scaled.
    """
    kernel = 0.0
    for n_subpar in SUBPAR_COUNTS:
        problem = subpar(n_subpar, seed=1)[0]
        for name in PAPER_POLICIES:
            new_run(problem, policies[name], HORIZON).advance(1)
            kernel += min(timed(new_run(problem, policies[name], HORIZON).advance, HORIZON) for _ in range(5))
    kernel *= PAPER_PROBLEMS / len(SUBPAR_COUNTS)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", PAPER, "paper", "--own-only", "--out", folder]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "kernel_seconds": kernel,
        "allowed_seconds": 1.3 * kernel / (os.cpu_count() or 1) + 20,
        "peak_memory_mb": int(done.stdout.splitlines()[-1]) / 1e6,
    }


PAPER = """
import resource, sys
from posse.cli import main
status = main()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak * (1 if sys.platform == "darwin" else 1024))
sys.exit(status)
"""

SIMULATE = """
import time, resource, sys
start = time.perf_counter()
import posse
posse.simulate(posse.generate.subpar(5)[0], posse.RobustAggTS(0.15), {horizon})
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak * (1 if sys.platform == "darwin" else 1024))
"""


def peak_memory(horizon: int) -> float:
    """Peak memory of a process that runs one simulation, in MB."""
    done = subprocess.run(
        [sys.executable, "-c", SIMULATE.format(horizon=horizon)], capture_output=True, text=True, check=True
    )
    return int(done.stdout) / 1e6


def start_up() -> None:
    """From starting Python to a first result, kernels in the disk cache."""
    subprocess.run([sys.executable, "-c", SIMULATE.format(horizon=100)], capture_output=True, check=True)
