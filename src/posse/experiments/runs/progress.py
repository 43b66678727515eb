"""How much of a run is done."""

from __future__ import annotations

from collections.abc import Iterable

from posse.experiments.spec.study import Unit
from posse.simulation.progress import Bar
from posse.simulation.work import Progress


class RunProgress:
    """How much of the work is done, including parts of units; `progress` is that of `posse.experiments.run`."""

    def __init__(self, units: Iterable[Unit], todo: Iterable[Unit], progress: Progress) -> None:
        self.done = {unit.id: unit.cost for unit in units}
        self.total = sum(self.done.values())
        self.done |= {unit.id: 0.0 for unit in todo}
        self.report = Bar() if progress is True else progress or None

    def note(self, unit: Unit, fraction: float = 1.0) -> None:
        """Note how much of a unit is done."""
        self.done[unit.id] = unit.cost * fraction

    def show(self, complete: bool = False) -> None:
        """Show how much of all is done."""
        if self.report is not None:
            self.report(1.0 if complete else min(sum(self.done.values()) / self.total, 0.999))
