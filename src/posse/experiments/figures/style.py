"""How figures look: a page's style, and the colour, line, marker and hatch of each algorithm."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterable
from typing import Any

from matplotlib.colors import to_rgb

from posse.figures.style import HOUSE

STYLE: dict[str, Any] = {
    **HOUSE,
    "legend.fontsize": 8,
    "legend.handlelength": 3.2,
    "legend.handletextpad": 0.5,
    "legend.columnspacing": 1.2,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "hatch.linewidth": 0.7,
    "svg.fonttype": "path",
    "path.simplify": True,
}
DPI = 150
PAGE = 12  # panels on a sheet
WIDTH = 7.2  # inches, the text width of a printed page

Line = str | tuple[int, tuple[float, ...]]


@dataclasses.dataclass(frozen=True)
class Look:
    """How an algorithm is drawn."""

    colour: str | tuple[float, float, float]
    line: Line
    marker: str
    hatch: str


# Okabe and Ito's colours; in this order everywhere.
LOOKS = {
    "RobustAgg-TS": Look("#D55E00", "-", "o", ""),
    "RobustAgg-TS-V": Look("#CC79A7", (0, (3, 1, 1, 1, 1, 1)), "D", "xxxx"),
    "RobustAgg": Look("#0072B2", (0, (5, 1.5)), "s", "////"),
    "Ind-TS": Look("#009E73", (0, (6, 1.5, 1.5, 1.5)), "^", "----"),
    "Ind-UCB": Look("#E69F00", (0, (1.2, 1.2)), "v", "\\\\\\\\"),
    "Naive-Agg": Look("#56B4E9", (0, (8, 2)), "P", "++++"),
    "HierTS": Look("#000000", (0, (4, 1, 1, 1)), "X", "||||"),
}
VARIANT = "RobustAgg-TS-V"
OTHER_COLOURS = ("#332288", "#882255", "#117733", "#999933", "#AA4499", "#44AA99", "#666666")
OTHER_LINES: tuple[Line, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
OTHER_MARKERS = "<>ph*Hd"
OTHER_HATCHES = ("//", "\\\\", "xx", "||", "--", "++", "//-")


def family(label: str) -> str:
    """The algorithm that a policy's label names: what stands before its constants."""
    return label.split("(")[0].strip() or label


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """How to draw each policy, in the order in which policies are always shown.

    >>> list(looks(["Ind-UCB", "mine", "RobustAgg(0.15)", "RobustAgg-TS(0.15)"]))
    ['RobustAgg-TS(0.15)', 'RobustAgg(0.15)', 'Ind-UCB', 'mine']
    """
    known = list(LOOKS)
    families: dict[str, list[str]] = {}
    for label in sorted(set(labels)):
        families.setdefault(family(label), []).append(label)
    others = sorted(name for name in families if name not in LOOKS)
    found: dict[str, Look] = {}
    taken: set[int] = set()
    for name in sorted(families, key=lambda name: (known.index(name) if name in LOOKS else len(known), name)):
        look = LOOKS[name] if name in LOOKS else _other_look(name, taken, len(others))
        for number, label in enumerate(families[name]):
            found[label] = _shade(look, number)
    return found


def _other_look(name: str, taken: set[int], count: int) -> Look:
    """A look for an algorithm of the user's own: the same in every run, unless two want the same."""
    size = len(OTHER_COLOURS)
    slot = zlib.crc32(name.encode()) % size
    while slot in taken and len(taken) < min(size, count):
        slot = (slot + 1) % size
    taken.add(slot)
    return Look(OTHER_COLOURS[slot], OTHER_LINES[slot % len(OTHER_LINES)], OTHER_MARKERS[slot], OTHER_HATCHES[slot])


def _shade(look: Look, number: int) -> Look:
    """The look of the number-th policy of one algorithm, told apart by its constants only."""
    if number == 0:
        return look
    share = 0.65 * number / (number + 1)
    red, green, blue = (part + (1 - part) * share for part in to_rgb(look.colour))
    return dataclasses.replace(
        look,
        colour=(red, green, blue),
        line=OTHER_LINES[number % len(OTHER_LINES)],
        marker=OTHER_MARKERS[number % len(OTHER_MARKERS)],
    )
