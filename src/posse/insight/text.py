"""Words, numbers and names as all of insight writes them, and plain values for JSON."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from typing import Any

import numpy as np

WIDTH = 120


def cut(name: str, most: int) -> str:
    """A name of at most so many characters; one that is longer ends in …

    >>> cut("no-aspirin+no-heparin", 11)
    'no-aspirin…'
    """
    return name if len(name) <= most else f"{name[: most - 1]}…"


def in_figure(name: str, most: int) -> str:
    """A name that matplotlib shows as it is: no mathematics, one line, at most so many characters.

    >>> print(in_figure("5 $ or\\n10 $", 30))
    5 \\$ or 10 \\$
    """
    return cut(" ".join(name.split()), most).replace("$", r"\$")


def listed(names: Iterable[str], most: int = 12) -> str:
    """Names with commas between them, the first ones only if they are many.

    >>> listed(["north", "east", "south"], most=2)
    'north, east and 1 more'
    """
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def count(number: int, what: str) -> str:
    """So many of something.

    >>> count(1, "decision"), count(1200, "decision")
    ('1 decision', '1,200 decisions')
    """
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def item(sentence: str, width: int = WIDTH) -> str:
    """A sentence as an item of a list, in lines that are not too long."""
    return textwrap.fill(sentence, width, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)


def decimals(low: float, high: float, for_unit: int) -> int:
    """How many digits after the point suit rewards in [low, high], if so many suit those in [0, 1].

    >>> decimals(0, 1, 3), decimals(0, 100, 3), decimals(0, 0.01, 3)
    (3, 1, 5)
    """
    return max(0, for_unit - math.floor(math.log10(high - low)))


def plain(value: Any) -> Any:
    """A value as JSON can hold it: arrays and tuples become lists, numbers that are not finite None.

    >>> plain({"values": np.array([0.5, np.nan]), "range": (0, 1)})
    {'values': [0.5, None], 'range': [0, 1]}
    """
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
