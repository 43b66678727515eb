"""When a summary of everybody's data is made, and what it is made of; for all who run policies that have one."""

from __future__ import annotations

from posse.rewards import GRID


def due(pulls, before, players):
    """Whether a summary is due after so many pulls, the last one having been made after so many before.

    It is when the pulls since then reach a sixteenth of all, or 32 for each player: at every pull at first, and at
    a fixed cost for each pull later.
    """
    return 16 * (pulls - before) >= min(pulls, 512 * players) and pulls > before


def square(reward):
    """The square of a reward, in grid steps like the reward."""
    return (reward * reward + GRID // 2) // GRID
