"""What every report has in common: text with marks for missed bars, tables, and JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from posse.text import align, to_json


class BenchReport(ABC):
    """The figures of one run of the benchmark; a record."""

    @abstractmethod
    def to_text(self) -> str:
        """The figures for people; a figure that misses its bar is marked."""

    def to_json(self) -> str:
        """The figures for machines."""
        return to_json(self)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table as lines: text on the left, numbers on the right. A cell beyond the head, such as a mark, follows."""
    return align([head, *rows], "<" + ">" * (len(head) - 1) + "<")


def mark(value: float, bar: float | None) -> str:
    """A mark if the value is above its bar.

    >>> mark(0.31, 0.30), mark(0.29, 0.30), mark(5.0, None)
    ('← misses its bar', '', '')
    """
    return "← misses its bar" if bar is not None and value > bar else ""


def at_most(text: str, value: float, bar: float, unit: str = "") -> str:
    """A figure with its bar, and a mark if it is above.

    >>> at_most("start: 1.60 s", 1.6, 1.5, " s")
    'start: 1.60 s (bar: at most 1.5 s)  ← misses its bar'
    """
    return f"{text} (bar: at most {bar:.4g}{unit})  {mark(value, bar)}".rstrip()


def at_least(text: str, value: float, bar: float) -> str:
    """A figure with its bar, and a mark if it is below."""
    return f"{text} (bar: at least {bar:g})  {mark(bar, value)}".rstrip()
