"""Figures in general: an empty one, its legend and its file."""

import io
import math
import re
from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from posse.figures.style import DPI, PRINT, SCREEN_DPI
from posse.policies.base import Look
from posse.text import figure_label


def legend_label(label: str) -> str:
    """A policy's label as matplotlib must get it to show it as it is, even if it begins with an underscore."""
    shown = figure_label(label, 40)
    return " " + shown if shown.startswith("_") else shown


def thousands(value: float, _position: float = 0) -> str:
    """A number with commas between thousands, for an axis."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,g}"


def curve_style(label: str, look: Look) -> dict[str, Any]:
    """The arguments of matplotlib's `plot` for a policy's curve."""
    drawn = {"color": look.color, "linestyle": look.line, "marker": look.marker}
    return {**drawn, "label": legend_label(label), "gid": label}


def round_numbers(axis: Axis, most: int, *, whole: bool = False) -> None:
    """Put at most `most` + 1 round numbers on an axis; if `whole`, no fractions."""
    axis.set_major_locator(MaxNLocator(most, integer=whole, steps=[1, 2, 5, 10] if whole else [1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(thousands)


def label_ends(axes: Axes) -> None:
    """Write each curve's label where the curve ends, in place of a legend."""
    low, high = axes.get_ylim()
    curves = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
    ends = {line: float(np.asarray(line.get_ydata())[-1]) / (high - low) for line in curves}
    lines = sorted(curves, key=ends.__getitem__)
    heights = np.array([ends[line] for line in lines])
    gap = 0.062
    for _ in range(200):  # push neighbors apart until no two labels touch
        close = np.flatnonzero(np.diff(heights) < gap - 1e-6)
        if not len(close):
            break
        for place in close:
            middle = heights[place : place + 2].mean()
            heights[place : place + 2] = middle - gap / 2, middle + gap / 2
        heights += max(0.0, 0.01 - heights[0]) - max(0.0, heights[-1] - 1)
    within: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
    for line, height in zip(lines, heights, strict=True):
        axes.plot([1, 1.035], [ends[line], height], color=line.get_color(), linewidth=0.8, gid="leader", **within)
        axes.text(1.045, height, str(line.get_label()), va="center", fontsize=8.5, **within)


class HouseFigure(Figure):
    """A figure that no window knows of. A notebook shows it as it is written to a file, without pyplot."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The picture, and the width at which to show it, which is smaller: so it is sharp on a fine screen."""
        return to_bytes(self, "png"), {"width": round(SCREEN_DPI * self.get_figwidth())}


def new_figure(width: float, height: float) -> HouseFigure:
    """An empty figure, of a size in inches."""
    figure = HouseFigure(figsize=(width, height), dpi=DPI)
    FigureCanvasAgg(figure)
    return figure


def finish(figure: Figure, top: float = 0.0, **padding: float) -> Figure:
    """The figure with its panels laid out below what takes the `top` share of its height."""
    figure.tight_layout(rect=(0, 0, 1, 1 - top), **padding)
    return figure


def add_legend(figure: Figure, drawn: Mapping[str, Look], *, lines: bool = True, bars: bool = False) -> float:
    """A legend over the whole figure, for lines, bars or both; returns its height as a share of the figure's.

    From the third row of the legend on, the figure grows with it.
    """
    handles: list[Any] = []
    for look in drawn.values():
        line = Line2D([], [], color=look.color, linestyle=look.line, marker=look.marker)
        bar = Patch(facecolor=look.color, hatch=look.hatch, edgecolor="white", linewidth=0)
        handles.append((line, bar) if lines and bars else bar if bars else line)
    labels = [legend_label(label) for label in drawn]
    width, height = figure.get_size_inches()
    length = 5.5 if lines and bars else 3.2
    widths = [0.19 + 0.11 * length + 0.063 * len(label) for label in labels]
    rows, columns = 1, len(labels) or 1
    while sum(max(part, default=0) for part in np.array_split(widths, columns)) > width - 0.1 and columns > 1:
        rows += 1
        columns = math.ceil(len(labels) / rows)
    height += 0.18 * max(0, rows - 2)
    figure.set_size_inches(width, height)
    side_by_side = {tuple: HandlerTuple(ndivide=None, pad=0.6)}
    place: dict[str, Any] = {"loc": "upper center", "ncols": columns, "borderaxespad": 0.3}
    figure.legend(handles, labels, handlelength=length, handler_map=side_by_side, **place)
    return (0.1 + 0.18 * rows) / float(height)


def to_bytes(figure: Figure, ending: str) -> bytes:
    """The figure as "png" or "svg"; the same figure gives the same bytes."""
    stream = io.BytesIO()
    with matplotlib.rc_context(PRINT):
        # Straight to the canvas: figure.savefig() would draw everything twice.
        canvas: Any = figure.canvas  # the one of new_figure(), which remembers how large texts are
        if ending == "png":
            canvas.print_png(stream, metadata={"Software": None})
            return stream.getvalue()
        FigureCanvasSVG(figure).print_svg(stream, metadata={"Date": None, "Creator": None})
    figure.set_canvas(canvas)
    figure.dpi = DPI  # which print_svg() has changed
    # A hundredth of a point is enough, and halves the file.
    return re.sub(rb' d="[^"]*"', lambda path: re.sub(rb"(?<=\.\d\d)\d+", b"", path[0]), stream.getvalue())
