"""An evaluation as pictures: intervals of the targets, and the differences by player."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from posse.figures import matplotlib
from posse.figures.canvas import finish, new_figure
from posse.figures.style import BLUE, HOUSE, INK, VERMILION
from posse.insight.evaluation.model import Estimate, Interval
from posse.text import figure_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from posse.insight.evaluation.api import Evaluation

MOST = 40  # lines in a panel


def draw_overall(evaluation: Evaluation) -> Figure:
    """A panel with the values overall, and one with their differences if there are any."""
    overall = [each for each in evaluation.estimates if each.player is None][:MOST]
    panels: list[tuple[str, Sequence[Estimate | Interval | None]]] = [(evaluation.reward, overall)]
    if evaluation.against is not None:
        panels.append((f"minus {evaluation.against}", [each.difference for each in overall]))
    return _panels([each.target for each in overall], panels)


def draw_differences(evaluation: Evaluation, target: str) -> Figure:
    """The differences of one target by player, raw with their intervals and shrunken."""
    players = evaluation.players[:MOST]
    differences = [evaluation.of(target, player).difference for player in players]
    return _panels(list(players), [(f"{target} minus {evaluation.against}", differences)])


def _panels(names: list[str], panels: Sequence[tuple[str, Sequence[Estimate | Interval | None]]]) -> Figure:
    with matplotlib.rc_context({**HOUSE, "axes.grid.axis": "x", "axes.spines.left": False, "ytick.left": False}):
        figure = new_figure(7.2, 0.9 + 0.22 * len(names))
        made = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, (title, found) in zip(made, panels, strict=True):
            _panel(axes, title, found)
        figure.axes[0].set_yticks(range(len(names)), [figure_label(name, 30) for name in names])
        figure.axes[0].set_ylim(len(names) - 0.5, -0.5)
        return finish(figure)


def _panel(axes: Axes, title: str, found: Sequence[Estimate | Interval | None]) -> None:
    """An interval in each line; a diamond is a shrunken value, and a line marks no difference."""
    axes.set_title(figure_label(title, 50), loc="left")
    for line, each in enumerate(found):
        if each is None or math.isnan(each.value):
            continue
        axes.plot([each.low, each.high], [line, line], color=BLUE, linewidth=1.4)
        axes.plot([each.value], [line], "o", color=BLUE, markersize=4)
        if isinstance(each, Interval) and each.shrunken is not None:
            axes.plot([each.shrunken], [line], "D", color=VERMILION, markersize=3.5)
    if any(isinstance(each, Interval) for each in found):
        axes.axvline(0, color=INK, linewidth=0.8)
