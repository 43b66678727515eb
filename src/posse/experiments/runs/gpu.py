"""Units of work on a GPU: many at a time, because a unit alone would leave most of it idle."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterator

import pyarrow as pa

from posse.experiments.records import from_result
from posse.experiments.runs.progress import RunProgress
from posse.experiments.spec.study import Unit
from posse.problem import Problem
from posse.simulation import Result

Batch = list[tuple[Unit, list[Problem]]]

TOGETHER = 4e9  # player-rounds that are simulated together: a few seconds, so that little is lost at an interrupt


def run_on_gpu(todo: list[Unit], progress: RunProgress) -> Generator[tuple[Unit, pa.Table], None, None]:
    """The units with their results."""
    for batch in _batches(todo):

        def watch(fraction: float, batch: Batch = batch) -> None:
            for unit, _ in batch:
                progress.note(unit, fraction)
            progress.show()

        unit, _ = batch[0]
        together = [problem for _, problems in batch for problem in problems]
        result = unit.simulate(together, progress=watch, backend="cuda")
        start = 0
        for unit, problems in batch:
            mine = _of_problems(result, start, start + len(problems))
            yield unit, from_result(mine, unit.study, range(unit.start, unit.stop))
            start += len(problems)


def _batches(todo: list[Unit]) -> Iterator[Batch]:
    """Batches of units that differ only in their problems."""
    by_setting: dict[object, list[Unit]] = {}
    for unit in todo:
        shape = unit.problems.players, unit.problems.arms
        setting = unit.policies, unit.horizon, unit.schedule, unit.replications, unit.checkpoints, unit.anytime
        by_setting.setdefault((unit.study, shape, setting, unit.seed), []).append(unit)
    for alike in by_setting.values():
        batch: Batch = []
        met: set[Problem] = set()
        for unit in alike:
            problems = unit.problems.make(unit.start, unit.stop, unit.seed)
            full = sum(other.cost for other, _ in batch) + unit.cost > TOGETHER
            if batch and (full or met.intersection(problems)):
                yield batch
                batch, met = [], set()
            batch.append((unit, problems))
            met.update(problems)
        yield batch


def _of_problems(result: Result, start: int, stop: int) -> Result:
    """The part of a result that is about these problems."""
    measured = ("regret", "pulls", "late_pulls", "reward", "player_regret")
    parts = {name: getattr(result, name)[:, start:stop] for name in measured}
    return dataclasses.replace(result, problems=result.problems[start:stop], **parts)
