"""What the simulator's kernel costs: ns for each policy, threads, growth, and plain Python beside it."""

import functools
import importlib
import math
import os
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from posse.bench.report import BenchFigure, Rows
from posse.bench.setting import ARMS, PLAYERS, Stopwatch, timed
from posse.compile import bind
from posse.generate import structured, subpar, uniform
from posse.policies import Law, Policy
from posse.policies.posse_ts import PosseTS
from posse.problem import Problem
from posse.schedule import Concurrent
from posse.simulation import simulate
from posse.simulation.engine import PolicyRun
from posse.simulation.pick import WIDTH, draw_words
from posse.simulation.pick_beta import draw_beta_words

SUBPAR_COUNTS = (0, 5, 8)
PIECES = 50
NUMPY_DRAWS = 100  # fills of a players × arms array for each piece


def new_run(problem: Problem, policy: Policy, horizon: int) -> PolicyRun:
    """A run as `simulate` makes it."""
    return PolicyRun(problem, policy, Concurrent(), horizon, seed=0)


def time_policy(watch: Stopwatch, policy: Policy, horizon: int) -> None:
    """Time a policy's rounds, NumPy's draws and the bare random words, piece by piece in turns."""
    generator, out = np.random.default_rng(0), np.empty((PLAYERS, ARMS))

    def draws() -> None:
        for _ in range(NUMPY_DRAWS):
            if policy.law is Law.BETA:
                generator.beta(run.run.center, run.run.scale)
            else:
                generator.standard_normal(out=out)

    for n_subpar in SUBPAR_COUNTS:
        run = new_run(subpar(n_subpar, seed=1)[0], policy, horizon)
        words = _word_draws(run, horizon // PIECES)
        for piece in range(PIECES):
            watch.time((policy, "rounds", n_subpar, piece), run.advance, horizon * (piece + 1) // PIECES)
            watch.time((policy, "draws", n_subpar, piece), draws)
            watch.time((policy, "words", n_subpar, piece), words)


def policy_rows(watch: Stopwatch, policies: list[Policy], horizon: int, bars: Mapping[str, float]) -> Rows:
    """ns a player-round, averaged over the problems, beside NumPy's draws and the bare random words."""
    player_rounds, drawn = PLAYERS * horizon, len(SUBPAR_COUNTS) * PIECES * NUMPY_DRAWS * PLAYERS
    rows: Rows = {}
    numpy_ns: dict[str, float] = {}
    floor_ns: dict[str, float] = {}
    for policy in policies:
        costs = [watch.total(policy, "rounds", n_subpar) / player_rounds * 1e9 for n_subpar in SUBPAR_COUNTS]
        ns = float(np.mean(costs))
        law = "Beta" if policy.law is Law.BETA else "normal"
        draws_ns = watch.total(policy, "draws") / drawn * 1e9
        numpy_ns[law] = min(numpy_ns.get(law, math.inf), draws_ns)
        words_ns = watch.total(policy, "words") / len(SUBPAR_COUNTS) / player_rounds * 1e9
        floor_ns[law] = max(floor_ns.get(law, 0.0), words_ns)
        rows[policy.label] = {
            "ns": BenchFigure(ns),
            "of NumPy": BenchFigure(ns / draws_ns, most=bars.get(type(policy).__name__)),
            "of floor": BenchFigure(ns / words_ns),
            **{f"ns at {v}": BenchFigure(cost) for v, cost in zip(SUBPAR_COUNTS, costs, strict=True)},
        }
    for law, ns in numpy_ns.items():
        rows[f"NumPy's {ARMS} {law} draws"] = {"ns": BenchFigure(ns)}
        rows[f"the floor: random words of {law} draws alone"] = {"ns": BenchFigure(floor_ns[law])}
    return rows


def draw_only(words: Any, beta_words: Any, players: Any, rounds: Any, times: int, key: Any) -> None:
    """Draw the random words of these players and rounds so many times, and do nothing else."""
    for _ in range(times):
        draw_words(words, players, rounds, players.size, key)
        draw_beta_words(beta_words, players, rounds, players.size, beta_words.size // (2 * WIDTH), key)


_compiled = functools.cache(bind)


def _word_draws(run: PolicyRun, rounds: int) -> Callable[[], None]:
    """The floor: the random words that the policy needs, drawn as the kernel draws them."""
    together = WIDTH // PLAYERS  # rounds whose words are drawn at once
    players = np.tile(np.arange(PLAYERS, dtype=run.run.active.dtype), together)
    arrays = run.run.words.copy(), run.run.beta_words.copy(), players, np.repeat(np.arange(1, together + 1), PLAYERS)
    floor = _compiled(draw_only)
    floor(*arrays, 1, run.key)
    return lambda: floor(*arrays, -(-rounds // together), run.key)


def time_threads(watch: Stopwatch, policy: Policy, horizon: int) -> None:
    """Time eight problems on one thread and on two, in turns: often and briefly, as two cores are rarely idle."""
    problems, rounds = subpar(5, count=8, seed=1), max(horizon // 5, 5_000)
    for _ in range(5):
        for threads in (1, 2) if (os.cpu_count() or 1) > 1 else ():
            work = functools.partial(simulate, problems, policy, rounds, threads=threads)
            watch.time(("threads", threads), work)


def time_doubling(watch: Stopwatch, policy: Policy, horizon: int) -> None:
    """Time runs with twice the rounds, players and arms, and the run that they are compared with."""
    cases = {
        "base": (PLAYERS, ARMS, horizon),
        "T": (PLAYERS, ARMS, 2 * horizon),
        "M": (2 * PLAYERS, ARMS, horizon),
        "K": (PLAYERS, 2 * ARMS, horizon),
    }
    for name, (players, arms, rounds) in cases.items():
        run = new_run(subpar(arms // 2, seed=1, players=players, arms=arms)[0], policy, rounds)
        for piece in range(PIECES):
            watch.time(("doubling", name, piece), run.advance, rounds * (piece + 1) // PIECES)


def time_attributes(watch: Stopwatch, horizon: int) -> None:
    """Time PosseTS on a problem whose players have attributes with eight values in all, told them and not."""
    options: dict[str, Any] = {"players": PLAYERS, "arms": ARMS, "explained": 0.5, "spread": 0.277}
    told = structured(attributes={"region": 2, "device": 2, "channel": 4}, low=0.3, high=0.7, **options)[0]
    for name, problem in (("told", told), ("not told", told.without_attributes())):
        run = new_run(problem, PosseTS(), horizon)
        for piece in range(PIECES):
            watch.time(("attributes", name, piece), run.advance, horizon * (piece + 1) // PIECES)


def measure_large(policy: Policy, rounds: int) -> float:
    """ns a player-round with 2,000 players and 200 arms."""
    problem = uniform(players=2000, arms=200, seed=1)[0]
    run = new_run(problem, policy, 10 * rounds)
    run.advance(2)
    return timed(run.advance, 2 + rounds) / (rounds * problem.players) * 1e9


def measure_naive(policy: Policy, horizon: int) -> float | None:
    """How many times faster than the plain Python of tests/naive.py, which draws from Python's own generator.

    None if the benchmark does not run in a checkout of the repository.
    """
    folder = Path(__file__).resolve().parents[3] / "tests"
    if not (folder / "naive.py").exists():
        return None
    sys.path.insert(0, str(folder))
    try:
        naive = importlib.import_module("naive")
    finally:
        sys.path.remove(str(folder))
    problem = subpar(5, seed=1)[0]
    chance = random.Random(0)
    rounds = 100

    def play() -> None:
        for _ in naive.robustagg_ts(
            PLAYERS,
            ARMS,
            rounds,
            lambda t: math.log(horizon),
            lambda t: range(PLAYERS),
            lambda t, p, i: chance.gauss(0.0, 1.0),
            lambda t, p, i: 1.0 if chance.random() < problem.means[p, i] else 0.0,
            *policy.constants(),
        ):
            pass

    slow = min(timed(play) for _ in range(3)) / rounds
    fast = min(timed(lambda: new_run(problem, policy, horizon).advance(horizon)) for _ in range(3)) / horizon
    return slow / fast
