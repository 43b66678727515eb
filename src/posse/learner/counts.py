"""What a learner has seen, as a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each player pulled each arm and what it earned, in the user's reward units."""

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
