"""simulate: policies on problems, on all cores or a GPU, with results that do not depend on how the work was cut."""

import math
import os
from collections.abc import Iterable

import numpy as np

from posse.checks import whole
from posse.policies.base import Policy
from posse.problem import Problem
from posse.schedule import Concurrent, Schedule
from posse.simulation.backend import check_backend
from posse.simulation.cpu import run_on_cpu
from posse.simulation.feedback import AT_ONCE, Feedback
from posse.simulation.progress import Progress
from posse.simulation.result import Result
from posse.simulation.work import Measurements, Tracker, checked_work
from posse.version import __version__


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
    told_horizon: int | None = None,
    feedback: Feedback = AT_ONCE,
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
        told_horizon: the horizon that the policies are told, where it is not the true one.
        feedback: when policies get to know rewards; the default is the end of the round.
        backend: "cpu", "cuda" for an NVIDIA GPU, or "auto" for a GPU where there is one. A GPU meets the same random
            numbers and rounds like the CPU but for logarithms and exponentials: docs/gpu.md.

    >>> import posse
    >>> problem = posse.Problem([[0.9, 0.5], [0.8, 0.6]], epsilon=0.1)
    >>> result = posse.simulate(problem, [posse.PosseTS(), posse.RobustAggTS(0.1)], horizon=1000)
    >>> result.regret.shape
    (2, 1, 1, 200)
    """
    given = (problems, policies, horizon, seed, replications, schedule, checkpoints, anytime, told_horizon, feedback)
    work = checked_work(*given)
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress={progress!r}, but expected True or a function of the fraction done")
    workers = (os.cpu_count() or 1) if threads is None else whole("threads", threads, least=1)
    on_gpu = check_backend(backend) == "cuda"

    found = Measurements(work)
    tracker = Tracker(work.horizon * math.prod(work.shape), progress)
    if on_gpu:
        from posse.simulation.cuda import run_on_gpu

        run_on_gpu(work, found, tracker)
    else:
        run_on_cpu(work, found, tracker, workers)
    gaps = np.array([problem.at(work.horizon).gaps for problem in work.problems])
    measured = vars(found)
    player_regret = np.einsum("abrpk,bpk->abrp", found.pulls, gaps) + measured.pop("offset")
    return Result(**vars(work), **measured, player_regret=player_regret, version=__version__)
