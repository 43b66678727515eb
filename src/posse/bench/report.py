"""What every benchmark reports: tables of figures, with the bars that they have to keep, as text and as JSON."""

from collections.abc import Iterator
from dataclasses import dataclass

from posse.text import align


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
        """The table for people, without bars."""
        columns = list(dict.fromkeys(column for row in self.rows.values() for column in row))
        table = [["", *columns]]
        for name, row in self.rows.items():
            cells = [str(row[column]) if column in row else "" for column in columns]
            table.append([name, *cells, "" if row else "not measured"])
        yield self.title
        yield from align(table, "<" + ">" * len(columns) + "<")

    def barred(self) -> dict[str, BenchFigure]:
        """The figures that have a bar, each by its row and column."""
        return {
            ", ".join(filter(None, (name, column))): figure
            for name, row in self.rows.items()
            for column, figure in row.items()
            if figure.bar
        }


@dataclass(frozen=True)
class BenchReport:
    """The figures of one run of the benchmark."""

    machine: str
    tables: list[BenchTable]

    def __str__(self) -> str:
        return "\n".join([self.machine, *(line for table in self.tables for line in ("", *table.lines()))])


@dataclass(frozen=True)
class BarReport:
    """The figures that have a bar, of one run or of several side by side.

    As text, a line for each figure: its value in each run, its bar, and whether it misses that.
    """

    runs: list[BenchReport]

    def __str__(self) -> str:
        lines, missed, count = [self.runs[0].machine], 0, 0
        for tables in zip(*(run.tables for run in self.runs), strict=True):
            runs = [table.barred() for table in tables]
            rows = []
            for name, figure in runs[0].items():
                values = [run[name] for run in runs]
                misses = sum(each.missed for each in values)
                mark = "← misses its bar" + (f" in {misses} of {len(runs)} runs" if len(runs) > 1 else "")
                rows.append([name, *map(str, values), figure.bar, mark if misses else ""])
                missed, count = missed + bool(misses), count + 1
            if rows:
                lines += ["", tables[0].title, *align(rows, "<" + ">" * (len(runs) + 1) + "<")]
        return "\n".join([*lines, "", f"{missed} of {count} bars are missed." if missed else f"All {count} bars hold."])
