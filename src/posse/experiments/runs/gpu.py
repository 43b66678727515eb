"""Units of work on a GPU: many at a time, because a unit alone would leave most of it idle."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from posse.experiments.records import from_result
from posse.experiments.runs.progress import RunProgress
from posse.experiments.runs.store import ResultStore
from posse.experiments.spec.unit import Unit
from posse.problem import Problem
from posse.simulation import Result

TOGETHER = 4e9  # player-rounds that are simulated together: a few seconds, so that little is lost at an interrupt


def run_on_gpu(todo: list[Unit], store: ResultStore, progress: RunProgress) -> None:
    """Run the units, and store each when its simulation is done."""
    for units, problems in _batches(todo):

        def watch(fraction: float, units: list[Unit] = units) -> None:
            for unit in units:
                progress.working(unit, fraction)
            progress.show()

        together = [problem for part in problems for problem in part]
        result = units[0].simulate(together, progress=watch, backend="cuda")
        start = 0
        for unit, part in zip(units, problems, strict=True):
            mine = _of_problems(result, start, start + len(part))
            store.write(unit, from_result(mine, unit.study, range(unit.start, unit.stop)))
            progress.done(unit)
            start += len(part)
        progress.show()
    progress.show(complete=True)


def _batches(todo: list[Unit]) -> Iterator[tuple[list[Unit], list[list[Problem]]]]:
    """Batches of units that differ only in their problems, each with its problems."""
    by_setting: dict[object, list[Unit]] = {}
    for unit in todo:
        shape = unit.problems.players, unit.problems.arms
        setting = unit.policies, unit.horizon, unit.schedule, unit.replications, unit.checkpoints, unit.anytime
        by_setting.setdefault((unit.study, shape, setting, unit.seed), []).append(unit)
    for alike in by_setting.values():
        units: list[Unit] = []
        problems: list[list[Problem]] = []
        met: set[Problem] = set()
        for unit in alike:
            mine = unit.problems.make(unit.start, unit.stop, unit.seed)
            full = sum(other.cost for other in units) + unit.cost > TOGETHER
            if units and (full or met.intersection(mine)):
                yield units, problems
                units, problems, met = [], [], set()
            units.append(unit)
            problems.append(mine)
            met.update(mine)
        yield units, problems


def _of_problems(result: Result, start: int, stop: int) -> Result:
    """The part of a result that is about these problems."""
    measured = ("regret", "pulls", "late_pulls", "reward", "player_regret")
    parts = {name: getattr(result, name)[:, start:stop] for name in measured}
    return dataclasses.replace(result, problems=result.problems[start:stop], **parts)
