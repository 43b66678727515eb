"""Panels of figures: curves, bars, and sheets of small panels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posse.experiments.records import KINDS, Records
from posse.experiments.summary import by_policy, mean_and_deviation, percentages, problem_means
from posse.figures.canvas import add_legend, curve_style, finish, legend_label, new_figure, round_numbers, thousands
from posse.figures.style import DARK, PRINT, WIDTH
from posse.policies.base import Look


def _short_number(value: float) -> str:
    """About three digits: 0.28, 18.2, 1,234."""
    if value == 0 or value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.95 else f"{value:.2g}"


def checkpoint_rounds(records: Records) -> np.ndarray:
    """The rounds of the checkpoints, which must be the same in all the records."""
    distinct = {tuple(rounds) for rounds in records.table.column("rounds").to_pylist()}
    if len(distinct) != 1:
        raise ValueError(f"the records mix {len(distinct)} different lists of checkpoints; draw one setting at a time")
    return np.array(distinct.pop())


def draw_curves(axes: Axes, records: Records, drawn: Mapping[str, Look]) -> None:
    """Regret over rounds: a line and a band for each policy."""
    for number, (label, look) in enumerate(drawn.items()):
        rows = records.where(policy=label)
        if not len(rows):
            continue
        rounds = checkpoint_rounds(rows)
        mean, deviation = mean_and_deviation(problem_means(rows, "regret"))
        low, high = np.maximum(mean - deviation, 0), mean + deviation
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


def _draw_bars(
    axes: Axes,
    groups: Sequence[str],
    heights: Mapping[str, tuple[np.ndarray, np.ndarray]],
    drawn: Mapping[str, Look],
    *,
    numbers: bool = False,
) -> None:
    """Bars of all policies, group by group; `numbers` writes the height over each bar."""
    labels = [label for label in drawn if label in heights]
    width = 0.84 / max(1, len(labels))
    for number, label in enumerate(labels):
        mean, deviation = heights[label]
        places = np.arange(len(groups)) + (number - (len(labels) - 1) / 2) * width
        axes.bar(
            places,
            mean,
            width * 0.92,
            yerr=deviation,
            color=drawn[label].color,
            hatch=drawn[label].hatch,
            edgecolor="white",
            linewidth=0,
            error_kw={"elinewidth": 0.9, "ecolor": DARK, "capsize": 2},
            label=legend_label(label),
            gid=label,
        )
        if numbers:
            above: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": 8}
            for place, height, whisker in zip(places, mean, deviation, strict=True):
                axes.annotate(_short_number(height), (place, height + whisker), (0, 2), **above)
    axes.set_xticks(range(len(groups)), groups if numbers else [group.replace("-", "-\n") for group in groups])
    axes.tick_params(axis="x", length=0)
    axes.set_ylim(bottom=0)
    round_numbers(axes.yaxis, 5)


def draw_pulls(axes: Axes, records: Records, drawn: Mapping[str, Look], *, numbers: bool = False) -> None:
    """Percentage of pulls of optimal, near-optimal and subpar arms."""
    pulls = by_policy(records, drawn, "pulls_by_kind")
    shares = {label: mean_and_deviation(percentages(values)) for label, values in pulls.items()}
    _draw_bars(axes, KINDS, shares, drawn, numbers=numbers)
    axes.set_ylim(0, 108 if numbers else 103)
    axes.set_yticks(range(0, 101, 20))
    axes.set_ylabel("% of pulls")


def draw_kinds(axes: Axes, records: Records, drawn: Mapping[str, Look], *, numbers: bool = False) -> None:
    """Regret from near-optimal and from subpar arms; optimal ones cost nothing."""
    regrets = by_policy(records, drawn, "regret_by_kind")
    heights = {label: mean_and_deviation(values[:, 1:]) for label, values in regrets.items()}
    _draw_bars(axes, KINDS[1:], heights, drawn, numbers=numbers)
    axes.set_ylabel("cumulative regret")


DRAWS: dict[str, Callable[..., None]] = {"regret": draw_curves, "pulls": draw_pulls, "regret by kind": draw_kinds}


def sheet(
    panels: Sequence[tuple[str, Records]],
    drawn: Mapping[str, Look],
    kind: str,
    *,
    columns: int | None = None,
    one_scale: bool = False,
) -> Figure:
    """Small panels of one kind with one legend, by default three in a row; `one_scale` makes panels comparable."""
    columns = columns or (2 if len(panels) == 4 else min(3, len(panels)))
    rows = math.ceil(len(panels) / columns)
    with matplotlib.rc_context(PRINT):
        figure = new_figure(WIDTH if columns > 1 else 5.4, 0.4 + (2.4 if columns == 2 else 1.95) * rows)
        for number, (title, records) in enumerate(panels):
            axes = figure.add_subplot(rows, columns, number + 1)
            DRAWS[kind](axes, records, drawn)
            axes.set_title(title)
            if number % columns:
                axes.set_ylabel("")
            if number + columns < len(panels):
                axes.set_xlabel("")
        if one_scale:
            _share_scale(figure.axes, columns)
        top = add_legend(figure, drawn, lines=kind == "regret", bars=kind != "regret")
        return finish(figure, top, h_pad=0.9, w_pad=0.6)


def _share_scale(panels: Sequence[Axes], columns: int) -> None:
    """Give all panels the same vertical scale, with numbers at the left only; horizontal scales end with the rounds."""
    top = max(axes.get_ylim()[1] for axes in panels)
    for number, axes in enumerate(panels):
        axes.set_ylim(0, top)
        axes.tick_params(labelleft=number % columns == 0)
        last = max(float(np.asarray(line.get_xdata())[-1]) for line in axes.get_lines())
        axes.set_xlim(0, last)
        axes.set_xticks([0, last], ["0", thousands(last)])
        axes.get_xticklabels()[-1].set_horizontalalignment("right")
