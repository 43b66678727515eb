"""How much of a run is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from posse.experiments.spec.unit import Unit


class RunProgress:
    """How much of the work is done, including parts of units. `show` is called with the fraction done."""

    def __init__(self, units: Iterable[Unit], todo: Iterable[Unit], show: Callable[[float], None] | None) -> None:
        self.total = sum(unit.cost for unit in units)
        self.finished = self.total - sum(unit.cost for unit in todo)
        self.at_work: dict[str, float] = {}
        self.call = show

    def working(self, unit: Unit, fraction: float) -> None:
        """Note how much of a unit is done."""
        self.at_work[unit.id] = unit.cost * fraction

    def done(self, unit: Unit) -> None:
        """Note that a unit is done."""
        self.finished += unit.cost
        self.at_work.pop(unit.id, None)

    def show(self, complete: bool = False) -> None:
        """Show how much of all is done."""
        if self.call is not None:
            part = (self.finished + sum(list(self.at_work.values()))) / self.total
            self.call(1.0 if complete else min(part, 0.999))
