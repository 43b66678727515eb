"""The battery in one picture: every policy's regret beside that of the best policy that shares nothing."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from posse.experiments.battery.score import CANDIDATE, HELPS, PAPER, BatteryFamily
from posse.figures.canvas import legend_label, new_figure
from posse.figures.policy_looks import looks
from posse.figures.style import FAVORABLE, INK, MIDDLE, PRINT, WIDTH
from posse.policies.base import Look

LEAST, MOST = 0.03, 30.0  # ratios beyond are drawn at the edge


def battery_figure(families: Sequence[BatteryFamily]) -> Figure:
    """A row for each family: ratios of mean final regret to the best policy that shares nothing, on a log scale.

    The candidate is the large dot, with its 95 % interval; the shaded strip is up to 1.1, "no harm".
    """
    shown = [family for family in families if family.best(alone=True) is not None]
    if not shown:
        raise ValueError("no family has a policy that shares nothing to compare with")
    drawn = looks({score.policy for family in shown for score in family.scores} | {CANDIDATE})
    own_color = drawn.pop(CANDIDATE).color
    with matplotlib.rc_context(PRINT):
        figure = new_figure(WIDTH, 1.1 + 0.165 * len(shown))
        height = figure.get_size_inches()[1]
        axes = figure.add_axes((0.27, 0.45 / height, 0.68, 1 - 1.1 / height))
        _prepare(axes, shown)
        for row, family in enumerate(shown):
            _draw_row(axes, row, family, drawn, own_color)
        own = Line2D([], [], color=own_color, marker="o", markersize=6, linewidth=1.6)
        marks = [
            Line2D([], [], color=look.color, marker=look.marker, linestyle="none", markersize=4)
            for look in drawn.values()
        ]
        names = [f"{CANDIDATE}, 95 % interval", *map(legend_label, drawn)]
        figure.legend(
            [own, *marks], names, loc="upper center", ncols=5, borderaxespad=0.3, handlelength=1.6, fontsize=7.5
        )
    return figure


def _prepare(axes: Axes, families: Sequence[BatteryFamily]) -> None:
    """The rows, the scale, the line at 1 and a rule after the paper's families."""
    axes.set_xscale("log")
    axes.set_xlim(LEAST / 1.1, MOST * 1.1)
    axes.set_ylim(len(families) - 0.5, -0.5)
    axes.axvspan(LEAST / 1.1, 1.1, color=FAVORABLE, linewidth=0, zorder=0)
    axes.axvline(1.0, color=INK, linewidth=0.9, zorder=1)
    axes.set_yticks(range(len(families)), [legend_label(family.name) for family in families], fontsize=7)
    for label, family in zip(axes.get_yticklabels(), families, strict=True):
        label.set_fontweight("bold" if HELPS in family.tags else "normal")
    for row, family in enumerate(families):
        axes.text(1.012, row, family.half, transform=axes.get_yaxis_transform(), va="center", fontsize=7)
        if row and (PAPER in family.tags) != (PAPER in families[row - 1].tags):
            axes.axhline(row - 0.5, color=MIDDLE, linewidth=0.7)
    axes.text(1.012, -0.7, "half", transform=axes.get_yaxis_transform(), va="bottom", fontsize=7)
    axes.grid(True, axis="both")
    axes.tick_params(axis="y", length=0)
    ticks = [0.03, 0.1, 0.3, 1, 3, 10, 30]
    axes.set_xticks(ticks, [f"{tick:g}×" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("mean final regret, times that of the best policy that shares nothing")


def _draw_row(axes: Axes, row: int, family: BatteryFamily, drawn: dict[str, Look], own_color: str) -> None:
    means = {score.policy: score.mean for score in family.scores}
    base = means[str(family.best(alone=True))]
    for policy, mean in means.items():
        if policy != CANDIDATE and base > 0:
            x, look = _cut(mean / base), drawn[policy]
            axes.plot(x, row, marker=look.marker, color=look.color, markersize=3.4, alpha=0.75, zorder=3)
    if family.to_alone is not None:
        found = family.to_alone
        axes.plot([_cut(found.low), _cut(found.high)], [row, row], color=own_color, linewidth=1.6, zorder=4)
        axes.plot(_cut(found.value), row, marker="o", color=own_color, markersize=6, zorder=5, gid=f"{CANDIDATE} {row}")


def _cut(value: float) -> float:
    return min(max(value, LEAST), MOST)
