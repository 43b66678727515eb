"""How far players differ in problems drawn from data, in words."""

from __future__ import annotations

import numpy as np

from posse.insight.text import listed
from posse.learner import Counts
from posse.problem import Problem

MOST_ARMS_SHOWN = 8


def spread_in_words(counts: Counts, problems: list[Problem]) -> list[str]:
    """Arm means, what players vary by in all their arms and arm by arm, and how far they differ on each arm."""
    unit = counts.high - counts.low
    means = np.array([problem.means for problem in problems])
    level, own = (unit * part for part in level_and_own(means))
    found = [
        f"Means over players: {_by_arm(counts, [f'{m:.3g}' for m in counts.low + unit * means.mean(axis=(0, 1))])}.",
        f"Noise taken out, players vary by {_typical(level)} (standard deviation; the median, and what nine of ten "
        f"problems have) in what all their arms share and by {_typical(own)} arm by arm.",
    ]
    if not interaction_freedom(counts.pulls > 0):
        found.append(
            "These two cannot be told apart here, as players have rewards on record for too few arms: the problems "
            "leave both possible."
        )
    ranges = unit * np.ptp(means, axis=1)
    by_arm = _by_arm(counts, [_typical(column) for column in ranges.T])
    return [*found, f"The most by which players differ, likewise: {by_arm}."]


def level_and_own(means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviations over players of levels and of own deviations, of means [problem, player, arm].

    By analysis of variance: own² is the mean square of the interaction, level² the variance of the players' averages
    less own²/(number of arms).

    >>> level_and_own(np.array([[[0.1, 0.2], [0.3, 0.4]]]))[1].round(9).tolist()
    [0.0]
    """
    _, players, arms = means.shape
    averages = means.mean(axis=2)
    rest = means - averages[:, :, None] - means.mean(axis=1, keepdims=True) + means.mean(axis=(1, 2), keepdims=True)
    own = (rest**2).sum(axis=(1, 2)) / ((players - 1) * (arms - 1))
    return np.sqrt(np.maximum(averages.var(axis=1, ddof=1) - own / arms, 0)), np.sqrt(own)


def interaction_freedom(known: np.ndarray) -> int:
    """Degrees of freedom that cells with data, known[player, arm], leave for own deviations beside levels and arms.

    Cells − players − arms + connected parts of the graph in which a cell joins its player and its arm.

    >>> interaction_freedom(np.ones((2, 2), bool)), interaction_freedom(np.eye(2, dtype=bool))
    (1, 0)
    """
    players = known.any(axis=1)
    part = np.arange(len(known))  # the least player known to be in the same part
    for _ in range(len(known)):
        of_arm = np.where(known, part[:, None], len(known)).min(axis=0)
        lower = np.where(known, of_arm, len(known)).min(axis=1)
        if (lower == part)[players].all():
            break
        part = np.where(players, lower, part)
    return int(known.sum() - players.sum() - known.any(axis=0).sum()) + len(np.unique(part[players]))


def _typical(values: np.ndarray) -> str:
    middle, low, high = np.quantile(values, (0.5, 0.05, 0.95))
    return f"{middle:.2g} [{low:.2g}, {high:.2g}]"


def _by_arm(counts: Counts, shown: list[str]) -> str:
    return listed((f"{name} {text}" for name, text in zip(counts.arms, shown, strict=True)), MOST_ARMS_SHOWN)
