"""Theory beside practice: measured regret and the leading terms of the paper's bounds."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from posse.experiments.records import Records
from posse.experiments.report.figures import checkpoint_rounds, paper_rows, subpar_title
from posse.experiments.summary import by_policy
from posse.figures.canvas import add_legend, curve_style, new_figure, thousands
from posse.figures.style import BLACK, LIGHT, PRINT, WIDTH
from posse.insight import theory
from posse.policies.base import Look
from posse.problem import Problem

Bound = Callable[[Problem, int], Any]
Point = tuple[int, int, list[Problem], dict[str, float]]
"""Where theory and practice are compared: a place on the x axis, a horizon, problems, and measured regret by policy."""
Bounds = Mapping[str, Mapping[str, Bound]]
"""The panels of a theory figure: for each title, bounds by label, functions of a problem and a horizon."""


# The paper's bounds, leading terms only: what Theorems 4.1 and 4.2 say with I_10ε, and would say with I_5ε.
PAPER_BOUNDS: Bounds = {
    "gap-dependent": {
        "each player alone": theory.individual_gap_dependent,
        "Theorem 4.1, with 10ε": theory.robustagg_ts_gap_dependent,
        "the same with 5ε": lambda problem, T: theory.robustagg_ts_gap_dependent(problem, T, 5 * problem.epsilon),
        "lower bound": theory.lower_bound_gap_dependent,
    },
    "gap-independent": {
        "each player alone": theory.individual_gap_independent,
        "Theorem 4.2, with 10ε": theory.robustagg_ts_gap_independent,
        "the same with 5ε; lower bound": theory.lower_bound_gap_independent,
    },
}

# Wide and light below, thin and dark above, so that bounds that coincide are both seen.
BOUND_LINES: tuple[dict[str, Any], ...] = (
    {"color": LIGHT, "linewidth": 5.0, "linestyle": "-"},
    {"color": BLACK, "linewidth": 1.1, "linestyle": "-"},
    {"color": BLACK, "linewidth": 1.1, "linestyle": (0, (5, 2))},
    {"color": BLACK, "linewidth": 1.1, "linestyle": (0, (1, 1.5))},
)


# What theory is drawn over: the label of the axis, whether it is a log scale, and whether every value has a tick.
AXES = {
    "n_subpar": ("subpar arms, v", False, True),
    "players": ("players, M", True, True),
    "round": ("round", True, False),
}


def theory_over(records: Records, column: str, n_subpar: int | None = None, bounds: Bounds = PAPER_BOUNDS) -> Figure:
    """A study's final regret beside the bounds' leading terms, medians over problems, over "n_subpar" or "players"."""
    rows, drawn = paper_rows(records, n_subpar)
    points: list[Point] = []
    for value in sorted(rows.distinct(column)):
        part = rows.where(**{column: value})
        measured = {label: float(of.mean()) for label, of in by_policy(part, drawn, "final_regret").items()}
        points.append((value, max(part.distinct("horizon")), part.problems(), measured))
    return _theory(points, drawn, bounds, column, subpar_title(n_subpar))


def theory_over_time(records: Records, n_subpar: int | None, bounds: Bounds = PAPER_BOUNDS) -> Figure:
    """A study's regret at checkpoints beside the bounds' leading terms for horizons of that length."""
    rows, drawn = paper_rows(records, n_subpar)
    rounds = checkpoint_rounds(rows)
    wanted = np.geomspace(max(rounds[0], rounds[-1] / 300), rounds[-1], 16)
    chosen = sorted({int(np.abs(np.log(rounds / want)).argmin()) for want in wanted})
    problems = rows.problems()
    means = {label: regret.mean(axis=0) for label, regret in by_policy(rows, drawn, "regret").items()}
    points = [
        (t, t, problems, {label: float(mean[place]) for label, mean in means.items()})
        for place, t in zip(chosen, rounds[chosen].tolist(), strict=True)
    ]
    return _theory(points, drawn, bounds, "round", subpar_title(n_subpar))


def _theory(points: Sequence[Point], drawn: Mapping[str, Look], panels: Bounds, over: str, title: str) -> Figure:
    """Measured regret and bounds over one of `AXES`, a panel for each kind of bound, on a log scale."""
    x = [x for x, *_ in points]
    xlabel, log, ticks = AXES[over]
    with matplotlib.rc_context(PRINT):
        below = 0.52 + 0.18 * max((len(functions) for functions in panels.values()), default=0)
        figure = new_figure(WIDTH, 2.9 + below)
        legend = add_legend(figure, drawn)
        height = figure.get_size_inches()[1]
        top = 1 - legend - 0.3 / height
        figure.subplots_adjust(left=0.105, right=0.985, top=top, bottom=below / height, wspace=0.14)
        first: Axes | None = None
        for number, (kind, functions) in enumerate(panels.items()):
            axes = figure.add_subplot(1, len(panels), number + 1, sharey=first)
            lines = []
            for place, (label, bound) in enumerate(functions.items()):
                heights = [
                    np.median([float(bound(problem, T)) for problem in problems]) for _, T, problems, _ in points
                ]
                style = BOUND_LINES[place % len(BOUND_LINES)]
                lines += axes.plot(x, _positive(heights), label=label, gid=f"bound: {label}", zorder=1.8, **style)
            for label, look in drawn.items():
                regrets = _positive([measured.get(label, math.nan) for *_, measured in points])
                axes.plot(x, regrets, **curve_style(label, look))
            _log_axes(axes, log, x if ticks else None)
            axes.set_xlabel(xlabel)
            axes.set_title(f"{kind} bounds" + (f", {title}" if title else ""))
            under = (-0.02, -0.4 / (top * height - below))
            axes.legend(handles=lines, loc="upper left", bbox_to_anchor=under, borderaxespad=0, handletextpad=0.8)
            if first is None:
                first = axes
                axes.set_ylabel("regret (log scale)")
            else:
                axes.tick_params(labelleft=False)
        return figure


def _log_axes(axes: Axes, log: bool, ticks: Sequence[int] | None) -> None:
    """A log scale upwards, and also sideways if `log`; whole numbers at the ticks."""
    scaled: list[Axis] = []
    if any(np.isfinite(np.asarray(line.get_ydata(), float)).any() for line in axes.get_lines()):
        axes.set_yscale("log")
        low, high = axes.get_ylim()  # of all panels so far, which share it
        few = high < 100 * low
        axes.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=12))
        scaled.append(axes.yaxis)
    if log:
        axes.set_xscale("log")
        scaled.append(axes.xaxis)
    for axis in scaled:
        axis.set_major_formatter(thousands)
        axis.set_minor_formatter(NullFormatter())
    if ticks is not None:
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.xaxis.set_minor_locator(NullLocator())


def _positive(values: Sequence[float]) -> np.ndarray:
    """The values that a log scale can show; the others as gaps."""
    heights = np.array(values, float)
    return np.where(np.isfinite(heights) & (heights > 0), heights, np.nan)
