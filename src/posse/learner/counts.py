"""What a learner has seen, as a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posse.checks import number, store
from posse.notebook import Summarized, Summary, matrix
from posse.text import decimals, plural, shorten


@dataclass(frozen=True, eq=False, repr=False)
class Counts(Summarized):
    """How often each player pulled each arm and what it earned, in the user's reward units.

    >>> Counts(("north", "south"), ("old",), [[4], [5]], [[1.0], [3.5]]).sums.shape
    (2, 1)
    """

    players: tuple[str, ...]
    arms: tuple[str, ...]
    pulls: np.ndarray
    """Observed pulls, int64 [player, arm]."""
    sums: np.ndarray
    """Sums of rewards, float64 [player, arm]."""
    low: float = 0.0
    """The least reward that is possible."""
    high: float = 1.0
    """The greatest reward that is possible."""
    epsilon: float | None = None
    """The ε that the policy works with, None if it has none."""
    attributes: dict[str, tuple[str | None, ...]] | None = None
    """The value of each player, by attribute, as people read it; None where a value is missing."""
    squares: np.ndarray | None = None
    """Sums of squared rewards, moved from their range to [0, 1], float64 [player, arm].

    None if not known: then rewards are taken to vary like rewards of 0 and 1 with the same mean.
    """

    def __post_init__(self) -> None:
        shape = (len(self.players), len(self.arms))
        pulls, sums = _numbers("pulls", self.pulls, shape), _numbers("sums", self.sums, shape).astype(np.float64)
        if pulls.size and not (np.issubdtype(pulls.dtype, np.integer) and pulls.min() >= 0):
            expected = "whole numbers of at least 0, of an integer type"
            raise ValueError(f"pulls={pulls.tolist()!r:.60}, but expected {expected}")
        for player, arm in np.argwhere(~np.isfinite(sums)):
            pair = f"player {self.players[player]!r} has the sum {sums[player, arm]:g} for arm {self.arms[arm]!r}"
            raise ValueError(f"{pair}, but expected finite numbers")
        for name, values in (self.attributes or {}).items():
            if len(values) != len(self.players):
                expected = f"one for each of the {len(self.players)} players"
                raise ValueError(f"attribute {name!r} has {len(values)} values, but expected {expected}")
            for player, value in zip(self.players, values, strict=True):
                if not (value is None or (isinstance(value, str) and value)):
                    raise ValueError(f"player {player!r} has {name}={value!r}, but expected a text, or None if missing")
        if self.squares is not None:
            store(self, squares=_numbers("squares", self.squares, shape).astype(np.float64))
        low = number("low", self.low)
        store(self, pulls=pulls.astype(np.int64), sums=sums, low=low, high=number("high", self.high, above=low))

    def _summary(self) -> Summary:
        shape = f"{plural(len(self.players), 'player')} × {plural(len(self.arms), 'arm')}"
        epsilon = "" if self.epsilon is None else f", ε = {self.epsilon:g}"
        title = f"Counts: {shape}, {plural(int(self.pulls.sum()), 'reward')} in [{self.low:g}, {self.high:g}]{epsilon}"

        def cell(player: int, arm: int) -> str:
            pulls = self.pulls[player, arm]
            return f"{self._mean(pulls, self.sums[player, arm])} ({pulls:,})" if pulls else "–"

        return Summary(title, matrix("mean reward (pulls)", self.players, self.arms, cell))

    def by_arm(self) -> list[list[str]]:
        """A table with a line for each arm: how many rewards it has, and their mean."""
        totals = zip(self.arms, self.pulls.sum(axis=0), self.sums.sum(axis=0), strict=True)
        rows = [[shorten(arm), f"{pulls:,}", self._mean(pulls, total)] for arm, pulls, total in totals]
        return [["arm", "rewards", "mean reward"], *rows]

    def _mean(self, pulls: int, total: float) -> str:
        return f"{total / pulls:.{decimals(self.low, self.high, 3)}f}" if pulls else "–"


def _numbers(name: str, value: object, shape: tuple[int, int]) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name}={value!r:.60}, but expected an array [player, arm]") from None
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, but expected {shape}: players × arms")
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} is an array of {array.dtype}, but expected numbers")
    return array
