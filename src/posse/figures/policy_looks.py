"""The color, line, marker and hatch of each policy: the same in every figure."""

import zlib
from collections.abc import Iterable

from matplotlib.colors import to_hex, to_rgb

from posse.figures.style import OTHER_COLORS
from posse.policies.base import Look, all_policies
from posse.policies.labels import algorithm

OTHER_LINES: tuple[str | tuple[int, tuple[float, ...]], ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1.2, 1.2)),
    (0, (6, 1.5, 1.5, 1.5)),
    (0, (3, 1, 1, 1, 1, 1)),
)
OTHER_MARKERS = "<>ph*Hd"
OTHER_HATCHES = ("//", "\\\\", "xx", "||", "--", "++", "//-")


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """How to draw each policy, in the given order, which does not change the looks.

    A policy says itself how it looks. One that does not gets a look from its name.

    >>> list(looks(["PosseTS", "mine", "Ind-TS", "PosseTS"]))
    ['PosseTS', 'mine', 'Ind-TS']
    """
    labels = list(dict.fromkeys(labels))
    # A subclass must not pass for its parent: what counts is the look that a class itself has.
    known = {cls.name or cls.__name__: own for cls in all_policies() if (own := vars(cls).get("look")) is not None}
    by_algorithm: dict[str, list[str]] = {}
    for label in sorted(labels):
        by_algorithm.setdefault(algorithm(label), []).append(label)
    others = sum(name not in known for name in by_algorithm)
    found: dict[str, Look] = {}
    taken: set[int] = set()
    for name in sorted(by_algorithm):
        look = known[name] if name in known else _other_look(name, taken, others)
        for number, label in enumerate(by_algorithm[name]):
            found[label] = variant(look, number)
    return {label: found[label] for label in labels}


def _other_look(name: str, taken: set[int], count: int) -> Look:
    """A look made from a name: the same in every run, unless two names want the same one."""
    size = len(OTHER_COLORS)
    slot = zlib.crc32(name.encode()) % size
    while slot in taken and len(taken) < min(size, count):
        slot = (slot + 1) % size
    taken.add(slot)
    return Look(OTHER_COLORS[slot], OTHER_LINES[slot % len(OTHER_LINES)], OTHER_MARKERS[slot], OTHER_HATCHES[slot])


def variant(look: Look, number: int) -> Look:
    """The look of the number-th policy of one algorithm, which differs from the first in its constants only."""
    if number == 0:
        return look
    share = 0.65 * number / (number + 1)
    lighter = to_hex([part + (1 - part) * share for part in to_rgb(look.color)])
    line, marker = OTHER_LINES[number % len(OTHER_LINES)], OTHER_MARKERS[number % len(OTHER_MARKERS)]
    return look._replace(color=lighter, line=line, marker=marker)
