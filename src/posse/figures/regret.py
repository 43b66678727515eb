"""Regret over rounds: a curve for each policy."""

from collections.abc import Mapping

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from posse.figures.canvas import HouseFigure, add_legend, curve_style, new_figure, round_numbers
from posse.figures.policy_looks import looks
from posse.figures.style import PRINT, SOFT
from posse.policies.base import Look
from posse.text import plural

Curves = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""For each policy the rounds, and its regrets, [unit, round]; a unit is a problem or a replication."""


def draw(curves: Curves, unit: str, *, width: float = 1.0, bands: str = "± one standard deviation") -> HouseFigure:
    """A figure of regret over rounds, with the policies in their order; `unit` says what the mean is over.

    `width` is half the width of the bands in standard deviations, and `bands` says what they are.
    """
    found = looks(curves)
    drawn = {label: found[label] for label in curves}
    count = min(len(regret) for _, regret in curves.values())
    with matplotlib.rc_context(PRINT):
        figure = new_figure(5.4, 3.4)
        draw_regret(figure.add_subplot(), curves, drawn, width)
        note = f"Means over {plural(count, unit)}; bands: {bands}." if count > 1 else f"One {unit}."
        figure.text(0.01, 0.015, note, color=SOFT, fontsize=7.5)
        figure.tight_layout(rect=(0, 0.04, 1, 1 - add_legend(figure, drawn)))
        return figure


def draw_regret(axes: Axes, curves: Curves, drawn: Mapping[str, Look], width: float = 1.0) -> None:
    """A line and a band for each policy that has a curve; the band is `width` standard deviations on either side."""
    for number, (label, look) in enumerate(drawn.items()):
        if label not in curves:
            continue
        rounds, regret = curves[label]
        mean, half = regret.mean(axis=0), width * regret.std(axis=0, ddof=1) if len(regret) > 1 else 0.0
        low, high = np.maximum(mean - half, 0), mean + half
        axes.fill_between(rounds, low, high, color=look.color, alpha=0.16, linewidth=0)
        step = max(1, len(rounds) // 6)
        marks = step // 2 + number * step // (2 * len(drawn)), step
        axes.plot(rounds, mean, markevery=marks, **curve_style(label, look))
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    round_numbers(axes.xaxis, 4, whole=True)
    round_numbers(axes.yaxis, 5)
    axes.set_xlabel("round")
    axes.set_ylabel("cumulative regret")
