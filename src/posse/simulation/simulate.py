"""simulate: policies on problems, on all cores or a GPU, with results that do not depend on how the work was cut."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from posse.checks import whole
from posse.policies.base import Policy
from posse.problem import Problem
from posse.rewards import GRID
from posse.schedule import Concurrent, Schedule
from posse.simulation.backend import check_backend
from posse.simulation.cpu import run_on_cpu
from posse.simulation.result import Result
from posse.simulation.work import Measurements, Progress, Tracker, Work
from posse.streams import check_seed
from posse.version import __version__

__all__ = ["MAX_PLAYER_ROUNDS", "Progress", "simulate"]

MAX_PLAYER_ROUNDS = 2**63 // GRID  # beyond it an arm's reward sum could overflow


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
    backend: str = "cpu",
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
        threads: how many threads to use on the CPU; all cores if omitted.
        progress: True for a bar on standard error, or a function that is called with the fraction done.
        anytime: use ln max(t, 2) in place of ln T, as if the horizon were not known.
        backend: "cpu", "cuda" for an NVIDIA GPU, or "auto" for a GPU where there is one. A GPU meets the same random
            numbers and rounds like the CPU but for logarithms and exponentials: docs/gpu.md.

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
    players = problem_list[0].players
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
    on_gpu = check_backend(backend) == "cuda"

    work = Work(problem_list, policy_list, replication_list, horizon, seed, schedule, rounds, anytime)
    found = Measurements(work)
    tracker = Tracker(horizon * math.prod(work.shape), progress)
    if on_gpu:
        from posse.simulation.cuda import run_on_gpu

        run_on_gpu(work, found, tracker)
    else:
        run_on_cpu(work, found, tracker, workers)
    return Result(
        regret=found.regret,
        checkpoints=rounds,
        pulls=found.pulls,
        late_pulls=found.late_pulls,
        reward=found.reward,
        player_regret=np.einsum("abrpk,bpk->abrp", found.pulls, np.array([problem.gaps for problem in problem_list])),
        policies=tuple(policy_list),
        problems=tuple(problem_list),
        replications=tuple(replication_list),
        horizon=horizon,
        seed=seed,
        schedule=schedule,
        anytime=anytime,
        version=__version__,
    )


def _check_problems(problems: Problem | Iterable[Problem]) -> list[Problem]:
    found = [problems] if isinstance(problems, Problem) else _as_list("problems", problems, "a posse.Problem")
    if not found:
        raise ValueError("no problems given")
    numbers: dict[Problem, int] = {}
    for number, problem in enumerate(found):
        if not isinstance(problem, Problem):
            raise TypeError(f"problem {number} is {problem!r}, but expected a posse.Problem")
        if problem.means.shape != found[0].means.shape:
            raise ValueError(
                f"problem {number} has {problem.players} players × {problem.arms} arms, but problem 0 has "
                f"{found[0].players} × {found[0].arms}; simulate problems of one shape in one call"
            )
        if numbers.setdefault(problem, number) != number:
            raise ValueError(
                f"problems {numbers[problem]} and {number} are the same, and would meet the same random numbers; "
                "to repeat a problem use replications=..., or give it another stream=..."
            )
    return found


def _check_policies(policies: Policy | Iterable[Policy]) -> list[Policy]:
    if isinstance(policies, type):
        raise TypeError(f"policies={policies.__name__}, but that is a class; make a policy of it, with its constants")
    expected = "a policy such as posse.RobustAggTS(0.15)"
    found = [policies] if isinstance(policies, Policy) else _as_list("policies", policies, expected)
    if not found:
        raise ValueError("no policies given")
    labels: dict[str, int] = {}
    for number, policy in enumerate(found):
        if not isinstance(policy, Policy):
            raise TypeError(f"policy {number} is {policy!r}, but expected {expected}")
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


def _as_list(name: str, things: object, expected: str) -> list[Any]:
    if isinstance(things, str) or not isinstance(things, Iterable):
        raise TypeError(f"{name}={things!r}, but expected {expected}, or a list of them")
    return list(things)
