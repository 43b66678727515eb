"""Simulations on the CPU: every run on one of several threads."""

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from posse.policies.statistics import COUNT
from posse.rewards import GRID
from posse.simulation.engine import PolicyRun, check_scale
from posse.simulation.kernel import Measures
from posse.simulation.result import last_quarter
from posse.simulation.work import Measurements, Tracker, Work

PIECE = 1 << 23  # (player, arm) pairs between two looks at the clock: some tens of milliseconds


def run_on_cpu(work: Work, into: Measurements, tracker: Tracker, threads: int) -> None:
    """Do the work on so many threads."""
    kinds = {(type(policy), policy.forget is None): number for number, policy in enumerate(work.policies)}
    for number in kinds.values():
        new_run(work, (number, 0, 0)).advance(1)  # compile once, in the main thread, which receives Ctrl-C
    cells = list(itertools.product(*map(range, work.shape)))
    _run_all(cells, lambda cell: _run_cell(work, cell, into, tracker), tracker, threads)


def new_run(work: Work, cell: tuple[int, ...]) -> PolicyRun:
    """The run of a [policy, problem, replication] cell, before its first round."""
    policy, problem, replication = cell
    return PolicyRun(
        work.problems[problem],
        work.policies[policy],
        work.schedule,
        work.horizon,
        seed=work.seed,
        replication=work.replications[replication],
        anytime=work.anytime,
        told_horizon=work.told_horizon,
        feedback=work.feedback,
    )


def _run_cell(work: Work, cell: tuple[int, ...], into: Measurements, tracker: Tracker) -> None:
    """One run, from its first round to its last."""
    run = new_run(work, cell)
    measures = Measures(work.checkpoints, into.regret[cell])
    piece = max(1, PIECE // work.problems[cell[1]].means.size)
    early = last_quarter(work.horizon)
    for target in (early, work.horizon):
        while run.round < target:
            before = max(run.round, 0)
            run.advance(min(target, before + piece), measures)
            if not tracker.add(run.round - before):
                return
        if target == early:
            into.late_pulls[cell] = run.pulled_and_earned()[COUNT].T
    check_scale(run.policy, run.state.indexed, run.run.scale.T)
    pulled, earned = run.pulled_and_earned()
    into.pulls[cell] = pulled.T
    into.late_pulls[cell] = into.pulls[cell] - into.late_pulls[cell]
    into.reward[cell] = earned.sum() / GRID
    into.offset[cell] = run.run.offset


def _run_all(
    cells: Sequence[tuple[int, ...]], work: Callable[[tuple[int, ...]], None], tracker: Tracker, workers: int
) -> None:
    """Do the work for every cell on so many threads; an interrupt stops them at their next piece."""
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(work, cell) for cell in cells]
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
