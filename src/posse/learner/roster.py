"""Who is here: names in the order in which they came, and which of them have retired."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posse.checks import did_you_mean
from posse.learner.setup import Name, check_name
from posse.text import listed

MOST_COMPARED = 500  # names that an unknown one is compared with: a service must not be busy for long with an error


class PlayerError(ValueError):
    """A player cannot be found, or not as it was given. `others` says who there is, which not everybody may know."""

    def __init__(self, text: str, others: str) -> None:
        super().__init__(text + others)
        self.text, self.others = text, others


class Roster:
    """Players or arms. A name keeps its place for good, so that old data stays where it is."""

    def __init__(self, kind: str, names: list[str]) -> None:
        self.kind = kind
        self.names = list(names)
        self.here = self._room = np.ones(len(names), np.bool_)  # what is in `here` never changes: others may hold it
        self.count = len(names)  # of those that are here
        self._places = {name: place for place, name in enumerate(names)}

    @classmethod
    def of(cls, kind: str, entries: list[tuple[str, bool]]) -> Roster:
        """The roster with these names, each here or retired."""
        roster = cls(kind, [name for name, _ in entries])
        roster.here[:] = [here for _, here in entries]
        roster.count = int(roster.here.sum())
        return roster

    def __iter__(self) -> Iterator[tuple[str, bool]]:
        """Names, and whether each is here."""
        return zip(self.names, self.here.tolist(), strict=True)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def copy_of(self, names: list[str]) -> Roster:
        """A small roster with only those of these names that are on it, to try changes out; `count` is that of all."""
        places = [(name, self._places[name]) for name in dict.fromkeys(names) if name in self]
        part = Roster.of(self.kind, [(name, bool(self.here[place])) for name, place in places])
        part.count = self.count
        return part

    def listed(self) -> list[tuple[int, str]]:
        """Place and name of those that are here."""
        return [(place, name) for place, name in enumerate(self.names) if self.here[place]]

    def place(self, name: Name) -> int:
        """The place of a name, retired or not."""
        found = self._places.get(name) if isinstance(name, str) else None  # most are known: no check is needed
        if found is not None:
            return found
        checked = check_name(self.kind, name)
        if checked not in self._places:
            hint = did_you_mean(checked, self.names[:MOST_COMPARED])
            there = f"{hint}; there are {listed(self.names, 10) or 'none'}"
            if self.kind == "player":
                raise PlayerError(f"no player {checked!r}", f"{there} (join adds one)")
            raise ValueError(f"no arm {checked!r}{there} (add_arm adds one)")
        return self._places[checked]

    def current(self, name: Name) -> int:
        """The place of a name that is here."""
        place = self.place(name)
        if not self.here[place]:
            raise ValueError(f"{self.kind} {str(name)!r} has retired")
        return place

    def add(self, name: Name) -> None:
        """Take a name in, or back."""
        checked = check_name(self.kind, name)
        place = self._places.setdefault(checked, len(self.names))
        if place == len(self.names):
            self.names.append(checked)
            if place == self._room.size:
                self._room = np.append(self.here, np.ones(place + 4, np.bool_))
            self.here = self._room[: place + 1]
        elif self.here[place]:
            raise ValueError(f"{self.kind} {checked!r} is here already")
        else:
            self.here = self._room = self.here.copy()
            self.here[place] = True
        self.count += 1

    def rename(self, place: int, name: str) -> None:
        """Give the one at a place another name."""
        del self._places[self.names[place]]
        self.names[place] = name
        self._places[name] = place

    def retire(self, name: Name) -> None:
        """Let a name go; the last arm cannot."""
        place = self.current(name)
        if self.kind == "arm" and self.count == 1:
            raise ValueError(f"arm {str(name)!r} is the last one, and at least one must be offered")
        self.here = self._room = self.here.copy()
        self.here[place] = False
        self.count -= 1
