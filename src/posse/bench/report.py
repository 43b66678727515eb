"""What every benchmark reports: tables of figures, with the bars that they have to keep, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from posse.text import align, to_json


@dataclass(frozen=True)
class BenchFigure:
    """A measured number, and the bar that it has to keep.

    >>> BenchFigure(0.31, most=0.3).missed, BenchFigure(0.29, most=0.3).missed, BenchFigure(5.0).missed
    (True, False, False)
    """

    value: float
    most: float | None = None
    least: float | None = None

    @property
    def missed(self) -> bool:
        """Whether it misses its bar."""
        too_much = self.most is not None and self.value > self.most
        return too_much or (self.least is not None and self.value < self.least)

    @property
    def bar(self) -> str:
        """The bar in short; nothing if there is none."""
        most = "" if self.most is None else f"≤ {_shown(self.most)}"
        return most if self.least is None else f"≥ {_shown(self.least)}"

    def __str__(self) -> str:
        return _shown(self.value)


Rows = dict[str, dict[str, BenchFigure]]
"""Figures by what was measured (the row) and in which way (the column). A row without any was not measured."""


def _shown(value: float) -> str:
    return f"{value:,.0f}" if 100 <= abs(value) < 1e6 else f"{value:.3g}"


def single(value: float | None, **bar: float) -> dict[str, BenchFigure]:
    """The row of a figure that stands alone; None if it could not be measured."""
    return {} if value is None else {"": BenchFigure(value, **bar)}


@dataclass(frozen=True)
class BenchTable:
    """Figures of one kind."""

    name: str  # for machines
    title: str  # for people: what was measured, and where
    rows: Rows

    def lines(self) -> Iterator[str]:
        """The table for people; a row with a figure that misses its bar is marked."""
        columns = list(dict.fromkeys(column for row in self.rows.values() for column in row))
        barred = {column for row in self.rows.values() for column in row if row[column].bar}
        head = [text for column in columns for text in ([column, "bar"] if column in barred else [column])]
        table = [["", *head]]
        for name, row in self.rows.items():
            cells = [name]
            for column in columns:
                shown = (str(row[column]), row[column].bar) if column in row else ("", "")
                cells += shown if column in barred else shown[:1]
            missed = any(figure.missed for figure in row.values())
            table.append([*cells, "← misses its bar" if missed else "" if row else "not measured"])
        yield self.title
        yield from align(table, "<" + ">" * len(head) + "<")


@dataclass(frozen=True)
class BenchReport:
    """The figures of one run of the benchmark."""

    machine: str
    tables: list[BenchTable]

    def to_text(self) -> str:
        """The figures for people."""
        return "\n".join([self.machine, *(line for table in self.tables for line in ("", *table.lines()))])

    def to_json(self) -> str:
        """The figures for machines."""
        return to_json(self)
