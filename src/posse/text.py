"""Text for people: tables, names, numbers and lists; and plain values for JSON."""

import dataclasses
import datetime
import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

WIDTH = 120
GAP = "  "


def align(rows: Iterable[Sequence[str]], sides: str = "<>") -> list[str]:
    """The rows of a table as lines, each column as wide as its longest cell.

    `sides` says how each column is aligned: "<" left, ">" right, "^" centered. The last sign holds for all further
    columns. A row may have fewer cells than others.

    >>> print("\\n".join(align([["policy", "lost", "note"], ["Ind-TS", "1,200"], ["PosseTS", "90", "fine"]], "<><")))
    policy    lost  note
    Ind-TS   1,200
    PosseTS     90  fine
    """
    rows = [list(row) for row in rows]
    columns = max(map(len, rows), default=0)
    widths = [max(len(row[place]) for row in rows if place < len(row)) for place in range(columns)]
    sides += sides[-1] * (columns - len(sides))
    return [
        GAP.join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=False)).rstrip()
        for row in rows
    ]


def align_blocks(
    first: Sequence[Sequence[str]], others: Iterable[Sequence[str]], width: int = WIDTH
) -> list[list[str]]:
    """Columns as tables of at most `width` characters: each has the first columns, and as many others as fit.

    >>> for table in align_blocks([["", "north", "south"]], [["x", "1", "2"], ["y", "3", "4"]], width=9):
    ...     print(table)
    ['       x', 'north  1', 'south  2']
    ['       y', 'north  3', 'south  4']
    """

    def room(columns: Iterable[Sequence[str]]) -> int:
        return sum(len(GAP) + max(map(len, column)) for column in columns) - len(GAP)

    blocks = [list(first)]
    for column in others:
        if len(blocks[-1]) > len(first) and room([*blocks[-1], column]) > width:
            blocks.append(list(first))
        blocks[-1].append(column)
    return [align(zip(*columns, strict=True)) for columns in blocks]


def shorten(text: str, most: int = 30) -> str:
    """A text, such as a name, in one line of at most `most` characters; a longer one ends in "…".

    >>> shorten("no-aspirin+no-heparin", 11), shorten("two\\nlines", 11)
    ('no-aspirin…', 'two lines')
    """
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def figure_label(text: str, most: int) -> str:
    """A text as matplotlib must get it to show it as it is: in one short line, and "$" does not begin a formula.

    >>> print(figure_label("5 $ or\\n10 $", 30))
    5 \\$ or 10 \\$
    """
    return shorten(text, most).replace("$", r"\$")


def listed(names: Iterable[str], most: int = 12) -> str:
    """Names separated by commas; if there are more than `most`, the first ones and how many more there are.

    >>> listed(["north", "east", "south"], most=2)
    'north, east and 1 more'
    """
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def plural(number: int, noun: str) -> str:
    """A number and its noun, with an "s" unless the number is 1.

    >>> plural(1, "decision"), plural(1200, "decision")
    ('1 decision', '1,200 decisions')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def moment(seconds: float) -> str:
    """A moment, in seconds since 1970, as a date and a time.

    >>> moment(1_760_000_000), moment(1e300)
    ('2025-10-09 08:53 UTC', 'after the year 9999')
    """
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return "after the year 9999"


def wrap(text: str, width: int = WIDTH) -> str:
    """A paragraph in lines of at most `width` characters."""
    return textwrap.fill(text, width, break_on_hyphens=False, break_long_words=False)


def bullets(sentences: Iterable[str], width: int = WIDTH) -> str:
    """Sentences as a bulleted list, wrapped at `width`."""
    item = textwrap.TextWrapper(width, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(map(item.fill, sentences))


def decimals(low: float, high: float, for_unit: int) -> int:
    """How many decimals suit rewards in [low, high], if `for_unit` of them suit rewards in [0, 1].

    >>> decimals(0, 1, 3), decimals(0, 100, 3), decimals(0, 0.01, 3)
    (3, 1, 5)
    """
    return max(0, for_unit - math.floor(math.log10(high - low)))


def interval_decimals(low: float, high: float) -> int:
    """How many decimals show two significant digits of half the interval's width, at most 6.

    >>> interval_decimals(0.011, 0.019), interval_decimals(1.02, 1.31), interval_decimals(-400, 400)
    (4, 2, 0)
    """
    half = (high - low) / 2
    return min(max(0, 1 - math.floor(math.log10(half))), 6) if half > 0 else 4


def fixed(value: float, digits: int, sign: str = "") -> str:
    """A number with that many decimals, commas between thousands, and a true minus sign; a sign is "+" or "".

    >>> fixed(-1234.5, 1), fixed(0.5, 1, "+"), fixed(-0.004, 2, "+")  # 0 gets no sign
    ('−1,234.5', '+0.5', '0.00')
    """
    shown = f"{value:{sign},.{digits}f}".replace("-", "−")
    return shown if shown.strip("+−0.,") else shown.lstrip("+−")


def with_ends(value: float, low: float, high: float, sign: str = "") -> str:
    """A value and the ends of its interval, with the digits that the interval's width allows; a sign is "+" or "".

    >>> with_ends(0.41234, 0.391, 0.4312), with_ends(-1.2, -3.25, 0.81, "+")
    ('0.412 [0.391, 0.431]', '−1.2 [−3.2, +0.8]')
    """
    digits = interval_decimals(low, high)
    shown, *ends = (fixed(each, digits, sign) for each in (value, low, high))
    return f"{shown} [{', '.join(ends)}]"


def plain(value: Any) -> Any:
    """A value as JSON can hold it: records become dictionaries, arrays and tuples lists, NaN and infinities None.

    >>> import numpy as np
    >>> plain({"values": np.array([0.5, np.nan]), "range": (0, 1)})
    {'values': [0.5, None], 'range': [0, 1]}
    """
    if hasattr(value, "tolist"):  # an array or a number of NumPy, which is not imported for it
        value = value.tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_json(value: Any, indent: int | None = 1) -> str:
    """The JSON text of any value that `plain` understands.

    >>> import numpy as np
    >>> to_json({"ε": np.float64(0.1), "mean": np.nan}, indent=None)
    '{"ε": 0.1, "mean": null}'
    """
    return json.dumps(plain(value), indent=indent, ensure_ascii=False, allow_nan=False)
