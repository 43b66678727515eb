"""posse bench: what the simulator and the learner cost."""

import os
import pickle
import platform
import tempfile
import time
from collections.abc import Callable, Iterable

import numba
import numpy as np

from posse.bench import kernel, setting
from posse.bench.learner import measure_learner
from posse.bench.report import BenchReport, BenchTable, Rows, single
from posse.bench.setting import ARMS, PLAYERS, Stopwatch, is_shipped, peak_megabytes, processor_seconds
from posse.policies import Policy
from posse.version import __version__

HORIZON = setting.HORIZON

# The most time that a policy may take, as a share of NumPy's draws.
POLICY_BARS: dict[str, float] = {
    **dict.fromkeys(("RobustAggTS", "RobustAggTSV", "HierTS", "IndTS", "IndTSV", "BetaTS"), 0.15),
    **dict.fromkeys(("LinTS", "MixedTS", "TreeTS"), 0.15),
    **dict.fromkeys(("PosseTS", "RobustPosseTS"), 0.20),
    **dict.fromkeys(("RobustAgg", "NaiveAgg"), 0.40),
    "IndUCB": 0.15,
}
MOST_GROWTH = 2.1
MOST_MEMORY_GROWTH = 1.05
MOST_FOR_ATTRIBUTES = 1.5
LEAST_SPEED_UP = 200  # over naive.py
LEAST_TWO_THREADS = 1.8
MOST_FOR_PAPER = 60  # seconds
COMPILE_BARS = {"RobustAggTS": 3.0}  # processor seconds to the first result with an empty cache; 6 for all others

COMMAND = "from posse.cli import main; assert main() == 0"
SIMULATE = """
import sys, posse
posse.simulate(posse.generate.subpar(5)[0], posse.RobustAggTS(0.15), int(sys.argv[1]))
"""
FIRST_USE = """
import pickle, sys, posse
posse.simulate(posse.generate.subpar(5)[0], pickle.loads(bytes.fromhex(sys.argv[1])), 100)
"""
FIRST_DECISION = """
import pickle, sys, posse
learner = posse.Learner(pickle.loads(bytes.fromhex(sys.argv[1])), ["a", "b"], ["one", "other"])
learner.observe(learner.choose("one"), 1.0)
"""
LEARNERS = ("RobustAggTS", "HierTS", "RobustAgg", "PosseTS", "IndTS", "BetaTS")  # measured in a learner
FEW = ("RobustAggTS", "PosseTS")  # measured where it takes long
STARTS = {  # code, its argument, and the most processor seconds
    "import posse": ("import posse", "", 0.25),
    "posse --help": (COMMAND, "--help", 0.15),
    "first result, warm cache": (SIMULATE, "100", 0.8),
}


def run(
    quick: bool = False,
    named: list[Policy] | None = None,
    paper: bool = False,
    own: Iterable[Policy] = (),
    note: Callable[[str], None] = lambda text: None,
) -> BenchReport:
    """Take all measurements.

    Args:
        quick: shorter and rougher.
        named: the only policies to measure. The simulator's own figures are those of RobustAgg-TS, whatever is named.
        paper: whether to measure the paper's whole evaluation too.
        own: users' own policies, which are measured beside posse's if none are named.
        note: is called with what is measured now.
    """
    shipped = setting.shipped()
    robust, *_ = few = [shipped[name] for name in FEW]
    policies, learners = [*shipped.values(), *own], [*(shipped[name] for name in LEARNERS), *own]
    if named:
        policies = learners = few = named
    horizon, repetitions = (HORIZON // 10, 2) if quick else (HORIZON, 8)
    watch = Stopwatch()
    for number in range(1, repetitions + 1):
        for policy in policies:
            note(f"{policy.label}: ns a player-round, {number} of {repetitions}")
            kernel.time_policy(watch, policy, horizon)
        note(f"two threads, doubling, attributes, {number} of {repetitions}")
        kernel.time_threads(watch, robust, horizon)
        kernel.time_doubling(watch, robust, horizon // 2)
        kernel.time_attributes(watch, HORIZON)

    note("plain Python, size and memory")
    peaks = {rounds: peak_megabytes(SIMULATE, str(rounds)) for rounds in (horizon, 10 * horizon)}
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
        **{f"peak memory at T = {rounds:,}, MB": single(peak) for rounds, peak in peaks.items()},
        "peak memory at ten times the rounds, ×": single(peaks[10 * horizon] / peaks[horizon], most=MOST_MEMORY_GROWTH),
    }
    if paper:
        note("the paper's evaluation")
        rows |= measure_paper()
    note("start-up")
    start = measure_start([] if quick else policies, few, repetitions)
    note("the learner")
    sizes = (10, 500, 20_000) if quick else (60, 20_000, 1_000_000)
    setup = f"M = {PLAYERS}, K = {ARMS}, mean over |I_5ε| = {', '.join(map(str, kernel.SUBPAR_COUNTS))}"
    costs = kernel.policy_rows(watch, policies, horizon, POLICY_BARS)
    return BenchReport(
        f"posse {__version__}, Python {platform.python_version()}, NumPy {np.__version__}, numba {numba.__version__}, "
        f"{platform.machine()}, {os.cpu_count()} cores",
        [
            BenchTable("policies", f"ns a player-round on one thread, {setup}", costs),
            BenchTable("simulator", f"The simulator, with {robust.label}", rows),
            BenchTable("start", "Start-up: processor seconds of a new process", start),
            *measure_learner(*sizes, learners, few),
        ],
    )


def measure_start(policies: list[Policy], learners: list[Policy], repetitions: int) -> Rows:
    """What a new process takes to begin, and to use each policy for the first time with an empty cache of kernels.

    That of `learners` is also measured in a learner. Another process does not know users' own policies.
    """
    rows: Rows = {}
    for name, (code, argument, most) in STARTS.items():
        times = [processor_seconds(code, argument, PYTHONDONTWRITEBYTECODE="") for _ in range(repetitions)]
        rows[name] = single(min(times), most=most)  # the first one may have to write bytecode
    for policy in filter(is_shipped, policies):
        most = COMPILE_BARS.get(type(policy).__name__, 6.0)
        uses = {"first use of": FIRST_USE}
        if policy in learners:
            uses["a learner's first decision by"] = FIRST_DECISION
        for what, code in uses.items():
            with tempfile.TemporaryDirectory() as empty:
                seconds = processor_seconds(code, pickle.dumps(policy).hex(), NUMBA_CACHE_DIR=empty, POSSE_QUIET="1")
            rows[f"{what} {policy.label}, empty cache"] = single(seconds, most=most)
    return rows


def measure_paper() -> Rows:
    """The paper's evaluation at full size, with all studies, figures and the report, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        peak = peak_megabytes(COMMAND, "paper", "--out", folder)
        seconds = time.perf_counter() - start
    return {
        "posse paper, all of it, s": single(seconds, most=MOST_FOR_PAPER),
        "posse paper, all of it, peak memory in MB": single(peak),
    }
