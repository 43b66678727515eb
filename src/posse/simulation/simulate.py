"""simulate: policies on problems, on all cores, with results that do not depend on how the work was cut."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from posse.checks import whole
from posse.policies.base import Policy
from posse.problem import Problem
from posse.rewards import GRID
from posse.schedule import Concurrent, Schedule
from posse.simulation.engine import Run
from posse.simulation.progress import Bar
from posse.simulation.result import Result, last_quarter
from posse.streams import check_seed
from posse.version import __version__

PIECE = 1 << 23  # (player, arm) pairs between two looks at the clock: some tens of milliseconds
MAX_PLAYER_ROUNDS = 2**63 // GRID  # beyond it an arm's reward sum could overflow

Progress = Callable[[float], None] | bool | None


def simulate(
    problems: Problem | Iterable[Problem],
    policies: Policy | Iterable[Policy],
    horizon: int,
    *,
    seed: int = 0,
    replications: int | Iterable[int] = 1,
    schedule: Schedule = Concurrent(),
    checkpoints: int | Iterable[int] = 200,
    threads: int | None = None,
    progress: Progress = None,
    anytime: bool = False,
) -> Result:
    """Run every policy on every problem, and measure regret.

    Every policy meets the same active players and the same reward noise, so comparisons are paired. The result is
    the same bit for bit for any number of threads, and a part of the work gives that part of the result.

    Args:
        problems: one problem or several of the same shape.
        policies: one policy or several with different labels.
        horizon: how many rounds to play, T.
        seed: a non-negative integer.
        replications: how many times to repeat each problem with fresh noise, or which repetitions (numbers from 0).
        schedule: who is active in a round.
        checkpoints: after which rounds to measure regret: a number of evenly spaced ones, the last at the horizon,
            or the rounds themselves.
        threads: how many threads to use; all cores if omitted.
        progress: True for a bar on standard error, or a function that is called with the fraction done.
        anytime: use ln max(t, 2) in place of ln T, as if the horizon were not known.

    >>> import posse
    >>> problem = posse.Problem([[0.9, 0.5], [0.8, 0.6]], epsilon=0.1)
    >>> result = posse.simulate(problem, [posse.RobustAggTS(0.1), posse.IndUCB()], horizon=1000)
    >>> result.regret.shape
    (2, 1, 1, 200)
    """
    problem_list = _check_problems(problems)
    policy_list = _check_policies(policies)
    horizon = whole("horizon", horizon, least=1)
    seed = check_seed(seed)
    replication_list = _check_replications(replications)
    if not isinstance(schedule, Schedule):
        raise TypeError(f"schedule={schedule!r}, but expected a schedule such as posse.schedule.Sequential()")
    players, arms = problem_list[0].means.shape
    schedule.participation(players, horizon)
    if horizon * players > MAX_PLAYER_ROUNDS:
        raise ValueError(
            f"horizon={horizon} with {players} players, but sums are exact only up to {MAX_PLAYER_ROUNDS} player-rounds"
        )
    rounds = _check_checkpoints(checkpoints, horizon)
    if not isinstance(anytime, bool):
        raise TypeError(f"anytime={anytime!r}, but expected True or False")
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress={progress!r}, but expected True or a function of the fraction done")
    workers = (os.cpu_count() or 1) if threads is None else whole("threads", threads, least=1)

    shape = (len(policy_list), len(problem_list), len(replication_list))
    regret = np.empty((*shape, len(rounds)))
    pulls = np.empty((*shape, players, arms), np.int64)
    late_pulls = np.empty_like(pulls)
    reward = np.empty(shape)

    def new_run(cell: tuple[int, ...]) -> Run:
        policy, problem, replication = cell
        return Run(
            problem_list[problem],
            policy_list[policy],
            schedule,
            horizon,
            seed=seed,
            replication=replication_list[replication],
            anytime=anytime,
        )

    def work(cell: tuple[int, ...], tracker: Tracker) -> None:
        run = new_run(cell)
        gaps = problem_list[cell[1]].gaps
        piece = max(1, PIECE // (players * arms))
        early = last_quarter(horizon)
        for target in sorted({*rounds.tolist(), early, horizon}):
            while run.round < target:
                before = run.round
                run.advance(min(target, run.round + piece))
                if not tracker.add(run.round - before):
                    return
            if target == early:
                late_pulls[cell] = run.state.pulls.T
            number = np.searchsorted(rounds, target)
            if number < len(rounds) and rounds[number] == target:
                regret[(*cell, number)] = (run.state.pulls.T * gaps).sum()
        pulls[cell] = run.state.pulls.T
        late_pulls[cell] = pulls[cell] - late_pulls[cell]
        reward[cell] = run.state.sums.sum() / GRID

    for number in {type(policy): number for number, policy in enumerate(policy_list)}.values():
        new_run((number, 0, 0)).advance(1)  # compile here, where Ctrl-C is heard, and once
    cells = list(itertools.product(*map(range, shape)))
    _run_all(cells, work, Tracker(horizon * len(cells), progress), workers)
    return Result(
        regret=regret,
        checkpoints=rounds,
        pulls=pulls,
        late_pulls=late_pulls,
        reward=reward,
        player_regret=np.einsum("abrpk,bpk->abrp", pulls, np.array([problem.gaps for problem in problem_list])),
        policies=tuple(policy_list),
        problems=tuple(problem_list),
        replications=tuple(replication_list),
        horizon=horizon,
        seed=seed,
        schedule=schedule,
        anytime=anytime,
        version=__version__,
    )


class Tracker:
    """Counts rounds done over all threads, and tells them to stop."""

    def __init__(self, total: int, progress: Progress) -> None:
        self.total = total
        self.done = 0
        self.stopped = False
        self.lock = threading.Lock()
        self.report: Callable[[float], None] | None = Bar() if progress is True else progress or None

    def add(self, rounds: int) -> bool:
        """Note that so many rounds are done; False if the work is to stop."""
        with self.lock:
            self.done += rounds
        return not self.stopped

    def show(self) -> None:
        """Report how far the work is."""
        if self.report is not None:
            self.report(self.done / self.total)


def _run_all(
    cells: Sequence[tuple[int, ...]],
    work: Callable[[tuple[int, ...], Tracker], None],
    tracker: Tracker,
    workers: int,
) -> None:
    """Do the work for every cell on so many threads; an interrupt stops them at their next piece."""
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(work, cell, tracker) for cell in cells]
        try:
            waiting = set(futures)
            while waiting:
                done, waiting = wait(waiting, timeout=0.1, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                tracker.show()
        except BaseException:
            tracker.stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _check_problems(problems: Problem | Iterable[Problem]) -> list[Problem]:
    found = [problems] if isinstance(problems, Problem) else _as_list("problems", problems)
    if not found:
        raise ValueError("no problems given")
    for number, problem in enumerate(found):
        if not isinstance(problem, Problem):
            raise TypeError(f"problem {number} is {problem!r}, but expected a posse.Problem")
        if problem.means.shape != found[0].means.shape:
            raise ValueError(
                f"problem {number} has {problem.players} players × {problem.arms} arms, but problem 0 has "
                f"{found[0].players} × {found[0].arms}; simulate problems of one shape in one call"
            )
        if problem in found[:number]:
            raise ValueError(
                f"problems {found.index(problem)} and {number} are the same, and would meet the same random numbers; "
                "to repeat a problem use replications=..., or give it another stream=..."
            )
    return found


def _check_policies(policies: Policy | Iterable[Policy]) -> list[Policy]:
    if isinstance(policies, type):
        raise TypeError(f"policies={policies.__name__}, but that is a class; make a policy of it, with its constants")
    found = [policies] if isinstance(policies, Policy) else _as_list("policies", policies)
    if not found:
        raise ValueError("no policies given")
    labels: dict[str, int] = {}
    for number, policy in enumerate(found):
        if not isinstance(policy, Policy):
            raise TypeError(f"policy {number} is {policy!r}, but expected a policy such as posse.RobustAggTS(0.15)")
        if policy.label in labels:
            raise ValueError(
                f"policies {labels[policy.label]} and {number} are both labelled {policy.label!r}; give one a label=..."
            )
        labels[policy.label] = number
        policy.for_rewards()
    return found


def _check_replications(replications: int | Iterable[int]) -> list[int]:
    if isinstance(replications, Iterable):
        found = [whole("replications", number, least=0) for number in replications]
        if not found or len(set(found)) < len(found):
            raise ValueError(f"replications={found}, but expected at least one number, each once")
        return found
    return list(range(whole("replications", replications, least=1)))


def _check_checkpoints(checkpoints: int | Iterable[int], horizon: int) -> np.ndarray:
    if isinstance(checkpoints, Iterable):
        rounds = np.array([whole("checkpoints", number, least=0, most=horizon) for number in checkpoints], np.int64)
        if not len(rounds) or (np.diff(rounds) <= 0).any():
            raise ValueError(f"checkpoints={rounds.tolist()}, but expected rounds in increasing order, at least one")
        return rounds
    count = min(whole("checkpoints", checkpoints, least=1), horizon)
    return np.array([horizon * (k + 1) // count for k in range(count)], np.int64)


def _as_list(name: str, things: object) -> list[Any]:
    if not isinstance(things, Iterable):
        raise TypeError(f"{name}={things!r}, but expected one or a list of them")
    return list(things)
