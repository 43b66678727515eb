"""The guard: what is known of the outcomes of each arm, and which arms were shown to cross a bound."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from posse.confidence import evidence_above
from posse.outcomes import ALARM_LEVEL, Outcome
from posse.rewards import GRID

COUNT, SUM, ALARM = range(3)


class OutcomeValue(NamedTuple):
    """A value of an outcome that came of a decision."""

    serial: int
    outcome: int  # its place in the set-up
    player: int
    arm: int
    value: float


class Guard:
    """Counts and sums of each outcome's values by arm, on a grid so that their order does not matter.

    An arm crosses a bound once the evidence for it, which holds at all times at once, reaches

        ln(arms at the start × outcomes with a bound / ALARM_LEVEL).

    So while no arm's mean crosses its bound, for no player and at no time, there is ever a false alarm among the arms
    of the start with a probability of at most ALARM_LEVEL. An arm that is added later has the same share of the level.
    """

    def __init__(self, outcomes: Mapping[str, Outcome], arms: int) -> None:
        self.outcomes = list(outcomes.values())
        self.tallies = np.zeros((3, len(self.outcomes), arms), np.int64)
        """Counts, sums in steps of the grid, and alarms, [outcome, arm] each."""
        bounds = [each for each in self.outcomes if each.bound is not None]
        self._enough = math.log(arms * max(len(bounds), 1) / ALARM_LEVEL)

    def grow(self, arms: int) -> None:
        """Make room for arms that were added."""
        self.tallies = np.pad(self.tallies, ((0, 0), (0, 0), (0, arms - self.tallies.shape[2])))

    def steps(self, outcome: int, value: float) -> int:
        """A value in steps of the grid on [0, 1]; two values are the same if these are."""
        return round(self.outcomes[outcome].on_unit(value) * GRID)

    def add(self, values: Iterable[OutcomeValue]) -> None:
        """Count values."""
        for each in values:
            self.tallies[COUNT, each.outcome, each.arm] += 1
            self.tallies[SUM, each.outcome, each.arm] += self.steps(each.outcome, each.value)

    def crossed(self, values: Collection[OutcomeValue]) -> list[tuple[int, int]]:
        """Outcomes and arms of these values that cross their bound and have raised no alarm before."""
        pairs = {(each.outcome, each.arm) for each in values if self.outcomes[each.outcome].bound is not None}
        found = sorted(pair for pair in pairs if not self.tallies[ALARM][pair])
        if not found:
            return []
        evidence = self.evidence(*map(list, zip(*found, strict=True)))
        return [pair for pair, known in zip(found, evidence.tolist(), strict=True) if known >= self._enough]

    def evidence(self, outcomes: list[int], arms: list[int]) -> np.ndarray:
        """ln of the evidence that these outcomes, each with a bound, cross it on these arms."""
        counts, sums, _ = self.tallies[:, outcomes, arms]
        sums = sums / GRID
        chosen = [self.outcomes[place] for place in outcomes]
        bounds = np.array([each.on_unit(each.bound or 0.0) for each in chosen])
        mirrored = np.array([each.at_least is not None for each in chosen])
        return evidence_above(counts, np.where(mirrored, counts - sums, sums), np.where(mirrored, 1 - bounds, bounds))
