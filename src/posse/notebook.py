"""Records in short: a line and a small table, as text for a terminal and as HTML for a notebook."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from posse.text import GAP, WIDTH, align, shorten, wrap

ROWS = 10  # of a table, besides its headings
NAME = 30  # characters
PRINT = "print() says more."  # of a record with a longer text
SIDES = {"<": "left", ">": "right", "^": "center"}


class Summary(NamedTuple):
    """What to show of a record."""

    title: str
    table: Sequence[Sequence[str]] = ()
    """The headings, then the rows. Only the first ones are shown."""
    sides: str = "<>"  # how the columns are aligned, as in `posse.text.align`
    note: str = ""

    def text(self) -> str:
        """The summary in plain text.

        >>> print(Summary("Players: 2", [["player", "rewards"], ["north", "1,200"], ["south", "90"]]).text())
        Players: 2
        player  rewards
        north     1,200
        south        90
        """
        lines = [wrap(shorten(self.title, 1000)), *align(self._rows(), self.sides)]
        return "\n".join([*lines, *([wrap(self.note)] if self.note else [])])

    def html(self) -> str:
        """The summary for a notebook: without colors of its own, so that it suits a light and a dark one."""
        from html import escape

        rows = list(self._rows())
        sides = self.sides + self.sides[-1] * max(map(len, rows), default=0)
        columns = len(rows[0]) if rows else 0

        def line(cells: Sequence[str], tag: str) -> str:
            filled = zip([*cells, *[""] * (columns - len(cells))], sides, strict=False)
            style = "white-space:nowrap;text-align"
            made = (f'<{tag} style="{style}:{SIDES[side]}">{escape(cell.strip())}</{tag}>' for cell, side in filled)
            return f"<tr>{''.join(made)}</tr>"

        body = "".join(line(row, "td") for row in rows[1:])
        table = f"<table><thead>{line(rows[0], 'th')}</thead><tbody>{body}</tbody></table>" if rows else ""
        note = f"<p><small>{escape(self.note)}</small></p>" if self.note else ""
        return f'<div style="overflow-x:auto"><p><strong>{escape(self.title)}</strong></p>{table}{note}</div>'

    def _rows(self) -> Iterator[Sequence[str]]:
        """The rows that are shown, and how many are not."""
        yield from self.table[: ROWS + 1]
        if len(self.table) > ROWS + 1:
            yield [f"… {len(self.table) - ROWS - 1:,} more"]


class Summarized:
    """A record that shows a summary of itself, in a terminal and in a notebook."""

    __slots__ = ()

    def _summary(self) -> Summary:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        return self._summary().html()


def matrix(
    corner: str, rows: Sequence[str], columns: Sequence[str], cell: Callable[[int, int], str]
) -> list[list[str]]:
    """A table with a line for each of the rows; `cell` gives the text of a row and a column, for as many as fit a line.

    >>> matrix("", ["north", "south"], ["old", "new"], lambda row, column: str(10 * row + column))
    [['', 'old', 'new'], ['north', '0', '1'], ['south', '10', '11']]
    """
    made = [[corner, *(shorten(name, NAME) for name in rows[:ROWS])]]
    room = WIDTH - len("…") - max(map(len, made[0]))
    for place, name in enumerate(columns):
        column = [shorten(name, NAME), *(cell(row, place) for row in range(len(made[0]) - 1))]
        room -= len(GAP) + max(map(len, column))
        if room < len(GAP):
            made.append(["…"] * len(column))
            break
        made.append(column)
    return [*map(list, zip(*made, strict=True)), *([] for _ in rows[ROWS:])]  # the last ones are counted, not shown
