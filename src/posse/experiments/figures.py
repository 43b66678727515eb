"""Figures: records in, matplotlib figures out. An algorithm has one colour, line, marker and hatch in all of them.

Curves and bars are means over problems, each averaged over its replications (over replications where there is one
problem); bands and whiskers are one standard deviation.
"""

from __future__ import annotations

import dataclasses
import io
import math
import re
import textwrap
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from posse.experiments.records import KINDS, Records
from posse.insight import theory
from posse.problem import Problem

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so a file is the same on every machine
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "legend.handletextpad": 0.5,
    "legend.columnspacing": 1.2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#444444",
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "hatch.linewidth": 0.7,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "posse",
    "svg.fonttype": "path",
    "path.simplify": True,
}
DPI = 150
PAGE = 12  # panels on a sheet
WIDTH = 7.2  # inches, the text width of a printed page

Line = str | tuple[int, tuple[float, ...]]


@dataclasses.dataclass(frozen=True)
class Look:
    """How an algorithm is drawn."""

    colour: str | tuple[float, float, float]
    line: Line
    marker: str
    hatch: str


# Okabe and Ito's colours; in this order everywhere.
LOOKS = {
    "RobustAgg-TS": Look("#D55E00", "-", "o", ""),
    "RobustAgg-TS-V": Look("#CC79A7", (0, (3, 1, 1, 1, 1, 1)), "D", "xxxx"),
    "RobustAgg": Look("#0072B2", (0, (5, 1.5)), "s", "////"),
    "Ind-TS": Look("#009E73", (0, (6, 1.5, 1.5, 1.5)), "^", "----"),
    "Ind-UCB": Look("#E69F00", (0, (1.2, 1.2)), "v", "\\\\\\\\"),
    "Naive-Agg": Look("#56B4E9", (0, (8, 2)), "P", "++++"),
    "HierTS": Look("#000000", (0, (4, 1, 1, 1)), "X", "||||"),
}
VARIANT = "RobustAgg-TS-V"
OTHER_COLOURS = ("#332288", "#882255", "#117733", "#999933", "#AA4499", "#44AA99", "#666666")
OTHER_LINES: tuple[Line, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
OTHER_MARKERS = "<>ph*Hd"
OTHER_HATCHES = ("//", "\\\\", "xx", "||", "--", "++", "//-")

SETTING = ("n_subpar", "players", "arms", "epsilon", "rewards", "horizon", "schedule", "anytime")

Bound = Callable[[Problem, int], float]
Bounds = Mapping[str, Mapping[str, Bound]]
"""The panels of a theory figure: for each title, bounds by label, functions of a problem and a horizon."""


# What the records say


def family(label: str) -> str:
    """The algorithm that a policy's label names: what stands before its constants."""
    return label.split("(")[0].strip() or label


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """How to draw each policy, in the order in which policies are always shown.

    >>> list(looks(["Ind-UCB", "mine", "RobustAgg(0.15)", "RobustAgg-TS(0.15)"]))
    ['RobustAgg-TS(0.15)', 'RobustAgg(0.15)', 'Ind-UCB', 'mine']
    """
    known = list(LOOKS)
    families: dict[str, list[str]] = {}
    for label in sorted(set(labels)):
        families.setdefault(family(label), []).append(label)
    others = sorted(name for name in families if name not in LOOKS)
    found: dict[str, Look] = {}
    taken: set[int] = set()
    for name in sorted(families, key=lambda name: (known.index(name) if name in LOOKS else len(known), name)):
        look = LOOKS[name] if name in LOOKS else _other_look(name, taken, len(others))
        for number, label in enumerate(families[name]):
            found[label] = _shade(look, number)
    return found


def _other_look(name: str, taken: set[int], count: int) -> Look:
    """A look for an algorithm of the user's own: the same in every run, unless two want the same."""
    size = len(OTHER_COLOURS)
    slot = zlib.crc32(name.encode()) % size
    while slot in taken and len(taken) < min(size, count):
        slot = (slot + 1) % size
    taken.add(slot)
    return Look(OTHER_COLOURS[slot], OTHER_LINES[slot % len(OTHER_LINES)], OTHER_MARKERS[slot], OTHER_HATCHES[slot])


def _shade(look: Look, number: int) -> Look:
    """The look of the number-th policy of one algorithm, told apart by its constants only."""
    if number == 0:
        return look
    share = 0.65 * number / (number + 1)
    red, green, blue = (part + (1 - part) * share for part in to_rgb(look.colour))
    return dataclasses.replace(
        look,
        colour=(red, green, blue),
        line=OTHER_LINES[number % len(OTHER_LINES)],
        marker=OTHER_MARKERS[number % len(OTHER_MARKERS)],
    )


def units(records: Records, column: str) -> np.ndarray:
    """A column by problem, averaged over replications; by replication where there is one problem."""
    values = records[column].astype(float)
    keys = list(zip(records["problem"].tolist(), records["seed"].tolist(), strict=True))
    place = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    if len(place) == 1:
        return values
    where = np.array([place[key] for key in keys])
    sums = np.zeros((len(place), *values.shape[1:]))
    np.add.at(sums, where, values)
    counts = np.bincount(where).reshape(-1, *[1] * (values.ndim - 1))
    return sums / counts


def mean_and_deviation(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation over the first axis; the deviation of a single value is 0."""
    mean = values.mean(axis=0)
    return mean, values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros_like(mean)


def settings(records: Records) -> list[tuple[dict[str, Any], Records]]:
    """The records cut into runs of one setting: what varies between settings, and the rows.

    |I_5ε| counts as a setting where it was asked for, not where it merely differs from problem to problem of a family;
    a horizon does not where something else already tells it.
    """

    def group(columns: Sequence[str]) -> dict[tuple[Any, ...], list[int]]:
        rows: dict[tuple[Any, ...], list[int]] = {}
        for row, key in enumerate(zip(*(records.table.column(name).to_pylist() for name in columns), strict=True)):
            rows.setdefault(key, []).append(row)
        return rows

    columns = [column for column in SETTING if len(records.distinct(column)) > 1]
    for column, beside in (("n_subpar", ["policy", "problem", "replication", "seed"]), ("horizon", [])):
        rest = [other for other in columns if other != column]
        if column in columns and rest + beside and len(group(columns + beside)) == len(group(rest + beside)):
            columns = rest
    if not columns:
        return [({}, records)]
    return [
        (dict(zip(columns, key, strict=True)), Records(records.table.take(rows)))
        for key, rows in group(columns).items()
    ]


def _by_subpar(records: Records) -> dict[int | None, Records]:
    """The records by |I_5ε|, from the most subpar arms to the fewest, where it was asked for; else all under None."""
    if not any("n_subpar" in setting for setting, _ in settings(records)):
        return {None: records}
    return {v: records.where(n_subpar=v) for v in sorted(records.distinct("n_subpar"), reverse=True)}


SCHEDULES = (
    (r"Concurrent\(\)", "all players every round"),
    (r"Sequential\(order='turn'\)", "one player a round, in turn"),
    (r"Sequential\(order='random'\)", "one player a round, at random"),
    (r"Random\(probability=([0-9.e-]+)\)", r"each player with chance \1"),
)


def schedule_words(schedule: str) -> str:
    """A schedule in plain words.

    >>> schedule_words("Random(probability=0.5)")
    'each player with chance 0.5'
    """
    for pattern, words in SCHEDULES:
        if match := re.fullmatch(pattern, schedule):
            return match.expand(words)
    return _shorten(schedule, 40)


def describe(setting: Mapping[str, Any], *, math_text: bool = False, between: str = ", ") -> str:
    """A setting in a few words, for a title or a row of a table.

    >>> describe({"n_subpar": 8, "horizon": 50000})
    '|I_5ε| = 8, T = 50,000'
    """
    words = {
        "n_subpar": lambda value: f"$|\\mathcal{{I}}_{{5\\epsilon}}| = {value}$" if math_text else f"|I_5ε| = {value}",
        "players": lambda value: f"M = {value}",
        "arms": lambda value: f"K = {value}",
        "epsilon": lambda value: f"ε = {value:g}",
        "rewards": lambda value: f"{value.removesuffix('()')} rewards",
        "horizon": lambda value: f"T = {value:,}",
        "schedule": schedule_words,
        "anytime": lambda value: "anytime" if value else "known horizon",
    }
    return between.join(words[column](value) for column, value in setting.items())


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _plain(label: str) -> str:
    """A label that matplotlib shows as it is: no mathematics, no lines, not hidden by a leading underscore."""
    shown = _shorten(" ".join(label.split()), 40).replace("$", r"\$")
    return " " + shown if shown.startswith("_") else shown


# Drawing on axes


def _thousands(value: float, _position: int = 0) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,g}"


def _short_number(value: float) -> str:
    """About three digits: 0.28, 18.2, 1,234."""
    if value == 0 or value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.95 else f"{value:.2g}"


def _rounds(records: Records) -> np.ndarray:
    distinct = {tuple(rounds) for rounds in records.table.column("rounds").to_pylist()}
    if len(distinct) != 1:
        raise ValueError(f"the records mix {len(distinct)} different lists of checkpoints; draw one setting at a time")
    return np.array(distinct.pop())


def _draw_curves(axes: Axes, records: Records, drawn: Mapping[str, Look]) -> None:
    """Regret over rounds: a line and a band for each policy."""
    for number, (label, look) in enumerate(drawn.items()):
        rows = records.where(policy=label)
        if not len(rows):
            continue
        rounds = _rounds(rows)
        mean, deviation = mean_and_deviation(units(rows, "regret"))
        axes.fill_between(
            rounds, np.maximum(mean - deviation, 0), mean + deviation, color=look.colour, alpha=0.16, linewidth=0
        )
        step = max(1, len(rounds) // 6)
        axes.plot(
            rounds,
            mean,
            color=look.colour,
            linestyle=look.line,
            marker=look.marker,
            markevery=(step // 2 + number * step // (2 * len(drawn)), step),
            label=_plain(label),
            gid=label,
        )
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
    axes.yaxis.set_major_formatter(FuncFormatter(_thousands))
    axes.set_xlabel("round")
    axes.set_ylabel("cumulative regret")


def _label_ends(axes: Axes) -> None:
    """Write each curve's name where the curve ends, in place of a legend."""
    lines = sorted(axes.get_lines(), key=lambda line: np.asarray(line.get_ydata())[-1])
    low, high = axes.get_ylim()
    heights = np.array([np.asarray(line.get_ydata())[-1] for line in lines], float) / (high - low)
    gap = 0.062
    for _ in range(200):  # push neighbours apart until no two names touch
        close = np.flatnonzero(np.diff(heights) < gap - 1e-6)
        if not len(close):
            break
        for place in close:
            middle = heights[place : place + 2].mean()
            heights[place], heights[place + 1] = middle - gap / 2, middle + gap / 2
        heights += max(0.0, 0.01 - heights[0])
    for line, height in zip(lines, heights, strict=True):
        end = np.asarray(line.get_ydata())[-1] / (high - low)
        axes.plot(
            [1.0, 1.035],
            [end, height],
            transform=axes.transAxes,
            color=line.get_color(),
            linewidth=0.8,
            clip_on=False,
            gid="leader",
        )
        axes.text(1.045, height, str(line.get_label()), transform=axes.transAxes, va="center", fontsize=8.5)


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
            color=drawn[label].colour,
            hatch=drawn[label].hatch,
            edgecolor="white",
            linewidth=0,
            error_kw={"elinewidth": 0.9, "ecolor": "#222222", "capsize": 2},
            label=_plain(label),
            gid=label,
        )
        if numbers:
            for place, height, whisker in zip(places, mean, deviation, strict=True):
                text = _short_number(height)
                axes.annotate(
                    text, (place, height + whisker), (0, 2), textcoords="offset points", ha="center", fontsize=8
                )
    axes.set_xticks(range(len(groups)), groups if numbers else [group.replace("-", "-\n") for group in groups])
    axes.tick_params(axis="x", length=0)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(_thousands))


def _draw_pulls(axes: Axes, records: Records, drawn: Mapping[str, Look], *, numbers: bool = False) -> None:
    """Percentage of pulls of optimal, near-optimal and subpar arms."""
    heights = {}
    for label in drawn:
        rows = records.where(policy=label)
        if len(rows):
            pulls = units(rows, "pulls_by_kind")
            heights[label] = mean_and_deviation(100 * pulls / np.maximum(pulls.sum(axis=1, keepdims=True), 1))
    _draw_bars(axes, KINDS, heights, drawn, numbers=numbers)
    axes.set_ylim(0, 108 if numbers else 103)
    axes.set_yticks(range(0, 101, 20))
    axes.set_ylabel("% of pulls")


def _draw_kinds(axes: Axes, records: Records, drawn: Mapping[str, Look], *, numbers: bool = False) -> None:
    """Regret from near-optimal and from subpar arms; optimal ones cost nothing."""
    heights = {}
    for label in drawn:
        rows = records.where(policy=label)
        if len(rows):
            heights[label] = mean_and_deviation(units(rows, "regret_by_kind")[:, 1:])
    _draw_bars(axes, KINDS[1:], heights, drawn, numbers=numbers)
    axes.set_ylabel("cumulative regret")


Draw = Callable[..., None]


def _legend(figure: Figure, drawn: Mapping[str, Look], *, lines: bool = True, bars: bool = False) -> float:
    """A legend over the whole figure, for lines, bars or both; returns its height as a share of the figure's."""
    handles: list[Any] = []
    for look in drawn.values():
        line = Line2D([], [], color=look.colour, linestyle=look.line, marker=look.marker)
        bar = Patch(facecolor=look.colour, hatch=look.hatch, edgecolor="white", linewidth=0)
        handles.append((line, bar) if lines and bars else bar if bars else line)
    labels = [_plain(label) for label in drawn]
    width, height = figure.get_size_inches()
    length = 5.5 if lines and bars else 3.2
    rows = max(1, math.ceil(sum(0.19 + 0.11 * length + 0.063 * len(label) for label in labels) / (width - 0.1)))
    columns = max(1, math.ceil(len(labels) / rows))
    figure.legend(
        handles,
        labels,
        loc="upper center",
        ncols=columns,
        borderaxespad=0.3,
        handlelength=length,
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0.6)},
    )
    return (0.1 + 0.18 * math.ceil(len(labels) / columns)) / height


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), dpi=DPI)
    FigureCanvasAgg(figure)
    return figure


def _finish(figure: Figure, top: float = 0.0, **padding: float) -> Figure:
    figure.tight_layout(rect=(0, 0, 1, 1 - top), **padding)
    return figure


def _sheet(
    panels: Sequence[tuple[str, Records]],
    drawn: Mapping[str, Look],
    draw: Draw,
    *,
    columns: int | None = None,
    one_scale: bool = False,
) -> Figure:
    """Small panels of one kind, three in a row unless told, with one legend; `one_scale` for comparing the panels."""
    columns = columns or (2 if len(panels) == 4 else min(3, len(panels)))
    rows = math.ceil(len(panels) / columns)
    with matplotlib.rc_context(STYLE):
        figure = _figure(WIDTH if columns > 1 else 5.4, 0.4 + (2.4 if columns == 2 else 1.95) * rows)
        for number, (title, records) in enumerate(panels):
            axes = figure.add_subplot(rows, columns, number + 1)
            draw(axes, records, drawn)
            axes.set_title(title)
            if number % columns:
                axes.set_ylabel("")
            if number + columns < len(panels):
                axes.set_xlabel("")
        if one_scale:
            _share_scale(figure.axes, columns)
        return _finish(
            figure,
            _legend(figure, drawn, lines=draw is _draw_curves, bars=draw is not _draw_curves),
            h_pad=0.9,
            w_pad=0.6,
        )


def _share_scale(panels: Sequence[Axes], columns: int) -> None:
    """One scale upwards for all panels, written at the left; sideways only where the rounds end, which may differ."""
    top = max(axes.get_ylim()[1] for axes in panels)
    for number, axes in enumerate(panels):
        axes.set_ylim(0, top)
        axes.tick_params(labelleft=number % columns == 0)
        last = max(float(np.asarray(line.get_xdata())[-1]) for line in axes.get_lines())
        axes.set_xlim(0, last)
        axes.set_xticks([0, last], ["0", _thousands(last)])
        axes.get_xticklabels()[-1].set_horizontalalignment("right")


# Figures of the paper


def _paper_rows(records: Records, n_subpar: int | None, *, with_v: bool, study: str) -> Records:
    rows = records.where(study=study)
    if n_subpar is not None:
        rows = rows.where(n_subpar=n_subpar)
    others = [label for label in rows.distinct("policy") if family(label) != VARIANT]
    if others and not with_v:
        rows = rows.where(policy=others)
    if not len(rows):
        there = sorted(records.where(study=study).distinct("n_subpar"))
        raise ValueError(f"no records of study {study!r} with n_subpar={n_subpar}; there are {there}")
    return rows


def _study_looks(records: Records, study: str, rows: Records) -> dict[str, Look]:
    """The looks of the policies in the rows, as in every other figure of the study."""
    shown = set(rows.distinct("policy"))
    return {
        label: look for label, look in looks(records.where(study=study).distinct("policy")).items() if label in shown
    }


def regret(records: Records, n_subpar: int | None, *, with_v: bool = False, study: str = "subpar") -> Figure:
    """Cumulative regret on the problems with one |I_5ε|: mean ± one standard deviation over problems."""
    rows = _paper_rows(records, n_subpar, with_v=with_v, study=study)
    with matplotlib.rc_context(STYLE):
        figure = _figure(5.4, 3.2)
        axes = figure.add_subplot()
        _draw_curves(axes, rows, _study_looks(records, study, rows))
        _label_ends(axes)
        axes.set_xlim(0, _rounds(rows)[-1])
        axes.set_title(_title(n_subpar))
        return _finish(figure)


def comparison_with_v(records: Records, n_subpar: int | None, *, study: str = "subpar") -> Figure:
    """Cumulative regret with RobustAgg-TS-V among the algorithms, as in the paper's last figure."""
    return regret(records, n_subpar, with_v=True, study=study)


def pulls(records: Records, n_subpar: int | None, *, study: str = "subpar") -> Figure:
    """Percentage of pulls of optimal, near-optimal and subpar arms."""
    return _bar_figure(records, n_subpar, study, _draw_pulls)


def regret_by_kind(records: Records, n_subpar: int | None, *, study: str = "subpar") -> Figure:
    """Cumulative regret from near-optimal and from subpar arms."""
    return _bar_figure(records, n_subpar, study, _draw_kinds)


def _bar_figure(records: Records, n_subpar: int | None, study: str, draw: Draw) -> Figure:
    rows = _paper_rows(records, n_subpar, with_v=False, study=study)
    drawn = _study_looks(records, study, rows)
    with matplotlib.rc_context(STYLE):
        figure = _figure(5.4, 3.2)
        axes = figure.add_subplot()
        draw(axes, rows, drawn, numbers=len(drawn) <= 5)
        axes.set_title(_title(n_subpar))
        return _finish(figure, _legend(figure, drawn, lines=False, bars=True))


def _title(n_subpar: int | None) -> str:
    return "" if n_subpar is None else describe({"n_subpar": n_subpar}, math_text=True)


def figure_1(records: Records, n_subpar: Sequence[int] = (8, 5), *, study: str = "subpar") -> Figure:
    """The paper's Figure 1: regret, pulls and regret by kind of arm, a row for each |I_5ε|."""
    parts = [_paper_rows(records, v, with_v=False, study=study) for v in n_subpar]
    drawn = _study_looks(records, study, _paper_rows(records, None, with_v=False, study=study))
    with matplotlib.rc_context(STYLE):
        figure = _figure(WIDTH, 0.45 + 2.2 * len(parts))
        draws: tuple[Draw, ...] = (_draw_curves, _draw_pulls, _draw_kinds)
        for row, (v, rows) in enumerate(zip(n_subpar, parts, strict=True)):
            for column, draw in enumerate(draws):
                axes = figure.add_subplot(len(parts), 3, 3 * row + column + 1)
                draw(axes, rows, drawn)
                axes.set_title(f"{'abcdefgh'[row]}{column + 1}.  {_title(v)}", loc="left")
        return _finish(figure, _legend(figure, drawn, bars=True), h_pad=1.0, w_pad=1.0)


def overview_regret(records: Records, *, with_v: bool = False, study: str = "subpar") -> Figure:
    """Cumulative regret for every |I_5ε|, from the largest to the smallest, as in the paper's appendix."""
    return _overview(records, study, _draw_curves, with_v=with_v)


def overview_pulls(records: Records, *, study: str = "subpar") -> Figure:
    """Percentage of pulls by kind of arm for every |I_5ε|."""
    return _overview(records, study, _draw_pulls)


def overview_regret_by_kind(records: Records, *, study: str = "subpar") -> Figure:
    """Regret by kind of arm for every |I_5ε|."""
    return _overview(records, study, _draw_kinds)


def overview_with_v(records: Records, *, study: str = "subpar") -> Figure:
    """Cumulative regret with RobustAgg-TS-V for every |I_5ε|."""
    return _overview(records, study, _draw_curves, with_v=True)


def _overview(records: Records, study: str, draw: Draw, *, with_v: bool = False) -> Figure:
    rows = _paper_rows(records, None, with_v=with_v, study=study)
    panels = [(_title(v), rows.where(n_subpar=v)) for v in sorted(rows.distinct("n_subpar"), reverse=True)]
    return _sheet(panels, _study_looks(records, study, rows), draw)


# Figures that the paper does not have


def study_sheet(records: Records, study: str, kind: str = "regret", *, page: int = 0) -> Figure:
    """Any study: a panel for each setting, twelve a page. `kind` is "regret", "pulls" or "regret by kind"."""
    draws = {"regret": _draw_curves, "pulls": _draw_pulls, "regret by kind": _draw_kinds}
    rows = records.where(study=study)
    parts = settings(rows)[PAGE * page : PAGE * (page + 1)]
    panels = [(describe(setting, math_text=True, between="\n"), part) for setting, part in parts]
    return _sheet(panels, looks(rows.distinct("policy")), draws[kind])


def participation(records: Records, *, study: str = "participation") -> Figure:
    """Cumulative regret when players take turns or join at random: a row for each |I_5ε|, a column for each schedule.

    Where study "subpar" has the same problems with all players active, they come first.
    """
    rows = records.where(study=study)
    panels = []
    for v, part in _by_subpar(rows).items():
        parts = [part.where(schedule=schedule) for schedule in rows.distinct("schedule")]
        if not any(schedule.startswith("Concurrent") for schedule in rows.distinct("schedule")):
            parts = [_same_problems(records.where(study="subpar"), part), *parts]
        panels += [
            (f"{_title(v)}\n{textwrap.fill(schedule_words(str(one['schedule'][0])), 20)}".strip(), one)
            for one in parts
            if len(one)
        ]
    columns = len(panels) // len(_by_subpar(rows))
    drawn = looks(rows.distinct("policy"))
    return _sheet(panels, drawn, _draw_curves, columns=columns if columns <= 4 else 3, one_scale=True)


def _same_problems(records: Records, others: Records) -> Records:
    """The records of the policies and problems that the others have too."""
    means = {tuple(row) for row in others.table.column("means").to_pylist()}
    keep = [number for number, row in enumerate(records.table.column("means").to_pylist()) if tuple(row) in means]
    return Records(records.table.take(pa.array(keep, pa.int64()))).where(policy=others.distinct("policy"))


def regret_by_players(records: Records, *, study: str = "players") -> Figure:
    """Final regret against the number of players: in total, and for one player."""
    rows = records.where(study=study)
    drawn = looks(rows.distinct("policy"))
    parts = _by_subpar(rows)
    with matplotlib.rc_context(STYLE):
        figure = _figure(WIDTH, 0.4 + 2.7 * len(parts))
        for row, (v, part) in enumerate(parts.items()):
            for column, words in enumerate(("final regret, all players", "final regret a player")):
                axes = figure.add_subplot(len(parts), 2, 2 * row + column + 1)
                _draw_sizes(axes, part, drawn, each=column == 1)
                axes.set_ylabel(words)
                axes.set_title(_title(v))
        return _finish(figure, _legend(figure, drawn), w_pad=1.5)


def _draw_sizes(axes: Axes, records: Records, drawn: Mapping[str, Look], *, each: bool) -> None:
    """Final regret over numbers of players: of all, or of each."""
    sizes = sorted(records.distinct("players"))
    for number, (label, look) in enumerate(drawn.items()):
        shift = 1 + 0.016 * (number - (len(drawn) - 1) / 2)  # so that whiskers do not hide one another
        rows = {size: records.where(policy=label, players=size) for size in sizes}
        points = [
            (size * shift, *mean_and_deviation(units(part, "final_regret") / (size if each else 1)))
            for size, part in rows.items()
            if len(part)
        ]
        x, mean, deviation = np.array(points, float).reshape(-1, 3).T
        style: dict[str, Any] = {"color": look.colour, "linestyle": look.line, "marker": look.marker}
        axes.errorbar(x, mean, deviation, elinewidth=0.9, capsize=2, label=_plain(label), gid=label, **style)
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(_thousands))
    axes.set_xlabel("players, M")


# Theory beside practice


def theory_bounds() -> Bounds:
    """The paper's bounds, leading terms only: what Theorems 4.1 and 4.2 say with I_10ε, and would say with I_5ε."""
    return {
        "gap-dependent": {
            "each player alone": lambda problem, T: float(theory.individual_gap_dependent(problem, T)),
            "Theorem 4.1, with 10ε": lambda problem, T: float(theory.robustagg_ts_gap_dependent(problem, T)),
            "the same with 5ε": lambda problem, T: float(
                theory.robustagg_ts_gap_dependent(problem, T, 5 * problem.epsilon)
            ),
            "lower bound": lambda problem, T: float(theory.lower_bound_gap_dependent(problem, T)),
        },
        "gap-independent": {
            "each player alone": lambda problem, T: float(theory.individual_gap_independent(problem, T)),
            "Theorem 4.2, with 10ε": lambda problem, T: float(theory.robustagg_ts_gap_independent(problem, T)),
            "the same with 5ε; lower bound": lambda problem, T: float(theory.lower_bound_gap_independent(problem, T)),
        },
    }


# Wide and light below, thin and dark above, so that bounds that coincide are both seen.
BOUND_LINES: tuple[dict[str, Any], ...] = (
    {"color": "#c8c8c8", "linewidth": 5.0, "linestyle": "-"},
    {"color": "#000000", "linewidth": 1.1, "linestyle": "-"},
    {"color": "#000000", "linewidth": 1.1, "linestyle": (0, (5, 2))},
    {"color": "#000000", "linewidth": 1.1, "linestyle": (0, (1, 1.5))},
)


@dataclasses.dataclass(frozen=True)
class _Point:
    """Where theory and practice are compared: a place on the x axis, problems, a horizon, and measured regret."""

    x: int
    horizon: int
    problems: list[Problem]
    measured: dict[str, float]


def theory_over_subpar(records: Records, bounds: Bounds | None = None, *, study: str = "subpar") -> Figure:
    """Final regret beside the bounds' leading terms over |I_5ε|. A bound is the median over problems."""
    return _theory_over("n_subpar", records, bounds, study, r"subpar arms, $|\mathcal{I}_{5\epsilon}|$")


def theory_over_players(
    records: Records, n_subpar: int | None, bounds: Bounds | None = None, *, study: str = "players"
) -> Figure:
    """Final regret beside the bounds' leading terms over the number of players."""
    return _theory_over("players", records, bounds, study, "players, M", log=True, n_subpar=n_subpar)


def _theory_over(
    column: str,
    records: Records,
    bounds: Bounds | None,
    study: str,
    words: str,
    *,
    log: bool = False,
    n_subpar: int | None = None,
) -> Figure:
    rows = _paper_rows(records, n_subpar, with_v=False, study=study)
    drawn = _study_looks(records, study, rows)
    points = []
    for value in sorted(rows.distinct(column)):
        part = rows.where(**{column: value})
        final = {label: part.where(policy=label) for label in drawn}
        measured = {label: float(units(of, "final_regret").mean()) for label, of in final.items() if len(of)}
        points.append(_Point(value, max(part.distinct("horizon")), part.problems(), measured))
    ticks = [point.x for point in points]
    return _theory(points, drawn, bounds, words, log=log, ticks=ticks, title=_title(n_subpar))


def theory_over_time(
    records: Records, n_subpar: int | None, bounds: Bounds | None = None, *, study: str = "subpar"
) -> Figure:
    """Regret at checkpoints beside the bounds' leading terms for horizons of that length."""
    rows = _paper_rows(records, n_subpar, with_v=False, study=study)
    drawn = _study_looks(records, study, rows)
    rounds = _rounds(rows)
    wanted = np.geomspace(max(rounds[0], rounds[-1] / 300), rounds[-1], 16)
    chosen = sorted({int(np.abs(np.log(rounds / want)).argmin()) for want in wanted})
    problems = rows.problems()
    means = {label: units(rows.where(policy=label), "regret").mean(axis=0) for label in drawn}
    points = [
        _Point(t, t, problems, {label: float(mean[place]) for label, mean in means.items()})
        for place, t in zip(chosen, rounds[chosen].tolist(), strict=True)
    ]
    return _theory(points, drawn, bounds, "round", log=True, title=_title(n_subpar))


def _theory(
    points: Sequence[_Point],
    drawn: Mapping[str, Look],
    bounds: Bounds | None,
    xlabel: str,
    *,
    log: bool,
    ticks: Sequence[int] | None = None,
    title: str = "",
) -> Figure:
    """Measured regret and bounds, a panel for each kind of bound, on a log scale."""
    panels = theory_bounds() if bounds is None else bounds
    x = [point.x for point in points]
    with matplotlib.rc_context(STYLE):
        below = 0.52 + 0.18 * max((len(functions) for functions in panels.values()), default=0)
        height = 2.9 + below
        figure = _figure(WIDTH, height)
        top = 1 - _legend(figure, drawn) - 0.3 / height
        figure.subplots_adjust(left=0.105, right=0.985, top=top, bottom=below / height, wspace=0.14)
        first: Axes | None = None
        for number, (kind, functions) in enumerate(panels.items()):
            axes = figure.add_subplot(1, len(panels), number + 1, sharey=first)
            lines = []
            for place, (label, bound) in enumerate(functions.items()):
                heights = [float(np.median([bound(problem, p.horizon) for problem in p.problems])) for p in points]
                style = BOUND_LINES[place % len(BOUND_LINES)]
                lines += axes.plot(x, _positive(heights), label=label, gid=f"bound: {label}", zorder=1.8, **style)
            for label, look in drawn.items():
                measured = _positive([point.measured.get(label, math.nan) for point in points])
                style = {"color": look.colour, "linestyle": look.line, "marker": look.marker}
                axes.plot(x, measured, label=_plain(label), gid=label, **style)
            _log_axes(axes, log, ticks)
            axes.set_xlabel(xlabel)
            axes.set_title(f"{kind} bounds" + (f", {title}" if title else ""))
            under = -0.4 / (top * height - below)
            axes.legend(
                handles=lines, loc="upper left", bbox_to_anchor=(-0.02, under), borderaxespad=0, handletextpad=0.8
            )
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
        axis.set_major_formatter(FuncFormatter(_thousands))
        axis.set_minor_formatter(NullFormatter())
    if ticks is not None:
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.xaxis.set_minor_locator(NullLocator())


def _positive(values: Sequence[float]) -> np.ndarray:
    """The values that a log scale can show; the others as gaps."""
    heights = np.array(values, float)
    return np.where(np.isfinite(heights) & (heights > 0), heights, np.nan)


# All of them


@dataclasses.dataclass(frozen=True)
class Entry:
    """A figure that some records have data for."""

    name: str
    """The file's name, without ending."""
    section: str
    """Where it belongs: "paper", "studies", "theory", or "details" (one panel each, and what is of less interest)."""
    title: str
    caption: str
    draw: Callable[[], Figure]


SECTIONS = ("paper", "studies", "theory", "details")
BAND = "Lines are means over problems, bands one standard deviation."
WHISKERS = "Bars are means over problems, whiskers one standard deviation."
LEADING = (
    "Regret measured, in colour, beside the leading terms of the paper's bounds, in black and grey: without their "
    "unknown constants, as medians over problems. Compare the shapes, not the heights."
)


def catalogue(records: Records) -> list[Entry]:
    """Every figure for which the records have data, with a caption in plain words."""
    entries: list[Entry] = []
    for study in records.distinct("study"):
        rows = records.where(study=study)
        varied = {column for setting, _ in settings(rows) for column in setting}
        if study == "subpar" and varied <= {"n_subpar"}:
            entries += _paper_entries(rows)
        elif study == "players" and varied <= {"players", "n_subpar"}:
            entries += _players_entries(rows)
        else:
            entries += _study_entries(rows, study, apart=study in TITLES)
            if study == "participation" and varied <= {"n_subpar", "schedule"}:
                first = entries.index(next(entry for entry in entries if entry.name == "participation"))
                entries[first] = dataclasses.replace(entries[first], draw=partial(participation, records))
        if study == "small-epsilon" and varied <= {"n_subpar"}:
            entries.append(_small_epsilon_entry(rows))
    return sorted(entries, key=lambda entry: SECTIONS.index(entry.section))


def _facts(rows: Records) -> str:
    count = len(set(zip(rows["problem"].tolist(), rows["seed"].tolist(), strict=True)))
    horizons = sorted(rows.distinct("horizon"))
    rounds = f"{horizons[0]:,}" if len(horizons) == 1 else f"{horizons[0]:,} to {horizons[-1]:,}"
    return f"{count} problem{'s' * (count != 1)}, {rounds} rounds"


def _ten_epsilon(rows: Records) -> str:
    counts = [len(problem.subpar_10) for problem in rows.problems()]
    if max(counts) == 0:
        return "at 10ε, as the theorems have it, no arm here is subpar, and they promise no more than each player alone"
    return f"at 10ε, as the theorems have it, {np.mean(counts):.1f} arms a problem are subpar on average"


def _paper_entries(rows: Records) -> list[Entry]:
    values = sorted(rows.distinct("n_subpar"), reverse=True)
    facts = f"{_facts(rows)} for each number of subpar arms."
    with_v = any(family(label) == VARIANT for label in rows.distinct("policy"))
    entries: list[Entry] = []

    def add(name: str, section: str, title: str, caption: str, draw: Callable[[], Figure]) -> None:
        entries.append(Entry(name, section, title, caption, draw))

    if {8, 5} <= set(values):
        text = (
            "Eight of the arms subpar (above), and five (below). Left: cumulative regret over the rounds. Middle: "
            "which arms were pulled. Right: where the regret came from; optimal arms cost nothing. Means over "
            f"problems; bands and whiskers are one standard deviation. {facts}"
        )
        add("figure-1", "paper", "Figure 1 of the paper", text, lambda: figure_1(rows))
    if len(values) > 1:
        text = f"Cumulative regret, from many subpar arms to few. {BAND} {facts}"
        add("overview-regret", "paper", "Regret for every number of subpar arms", text, lambda: overview_regret(rows))
        text = f"Percentage of all pulls, by how good the arm is for the player who pulled it. {WHISKERS} {facts}"
        add("overview-pulls", "paper", "Which arms were pulled", text, lambda: overview_pulls(rows))
        text = f"Regret from near-optimal and from subpar arms; optimal arms cost nothing. {WHISKERS} {facts}"
        draw = lambda: overview_regret_by_kind(rows)  # noqa: E731
        add("overview-regret-by-kind", "paper", "Where the regret came from", text, draw)
        text = f"{LEADING} For each number of subpar arms at 5ε; {_ten_epsilon(rows)}."
        add("theory-subpar", "theory", "Theory and practice over subpar arms", text, lambda: theory_over_subpar(rows))
    if with_v and len(values) > 1:
        text = (
            "RobustAgg-TS refreshes the posteriors of what was pulled, which its analysis needs; RobustAgg-TS-V "
            f"refreshes all of them in every round. {BAND} {facts}"
        )
        add("overview-with-v", "paper", "The comparison with RobustAgg-TS-V", text, lambda: overview_with_v(rows))
    for v in values:
        where = f"|I_5ε| = {v}"
        section = "details" if len(values) > 1 else "paper"
        add(f"regret-v{v}", section, f"Regret, {where}", f"{BAND} {facts}", partial(regret, rows, v))
        add(f"pulls-v{v}", section, f"Which arms were pulled, {where}", f"{WHISKERS} {facts}", partial(pulls, rows, v))
        kinds = partial(regret_by_kind, rows, v)
        add(f"regret-by-kind-v{v}", section, f"Where the regret came from, {where}", f"{WHISKERS} {facts}", kinds)
        if with_v:
            variant = partial(comparison_with_v, rows, v)
            add(f"with-v-v{v}", section, f"With RobustAgg-TS-V, {where}", f"{BAND} {facts}", variant)
        if v in (8, 5) or len(values) == 1:
            text = f"{LEADING} Regret so far, beside the bounds for a horizon of that length."
            over_time = partial(theory_over_time, rows, v)
            add(f"theory-time-v{v}", "theory", f"Theory and practice over time, {where}", text, over_time)
    return entries


def _players_entries(rows: Records) -> list[Entry]:
    caption = (
        "Final regret against the number of players: in total, and for one player. Means over problems, whiskers one "
        f"standard deviation; points are set apart a little so that whiskers show. {_facts(rows)} a point."
    )
    entries = [Entry("players", "studies", "More players", caption, lambda: regret_by_players(rows))]
    for v in _by_subpar(rows) if len(rows.distinct("players")) > 1 else {}:
        title = "Theory and practice over the number of players" + ("" if v is None else f", |I_5ε| = {v}")
        name = "theory-players" + ("" if v is None else f"-v{v}")
        entries.append(Entry(name, "theory", title, LEADING, partial(theory_over_players, rows, v)))
    return entries


def _small_epsilon_entry(rows: Records) -> Entry:
    caption = (
        f"{LEADING} Players so alike (ε = {rows['epsilon'][0]:g}) that the two notions differ: {_ten_epsilon(rows)}."
    )
    several = any(setting for setting, _ in settings(rows))

    def draw() -> Figure:
        if several:
            return theory_over_subpar(rows, study="small-epsilon")
        return theory_over_time(rows, None, study="small-epsilon")

    return Entry("theory-small-epsilon", "theory", "Theory and practice for a small ε", caption, draw)


TITLES = {
    "participation": (
        "Who takes part",
        "The comparison when not everyone is active in every round: the protocol that the paper's theory covers and "
        "its experiments do not.",
    ),
    "small-epsilon": ("A small ε", "Players that are more alike than in the paper's problems."),
}


def _study_entries(rows: Records, study: str, *, apart: bool) -> list[Entry]:
    """Sheets of any study; `apart` keeps only the regret among the main figures."""
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", study).strip("-") or "study"
    title, words = TITLES.get(study, (study, ""))
    pages = math.ceil(len(settings(rows)) / PAGE)
    entries = []
    for kind, text in (("regret", BAND), ("pulls", WHISKERS), ("regret by kind", WHISKERS)):
        for page in range(pages):
            name = slug + ("" if kind == "regret" else f"-{kind.replace(' ', '-')}") + (f"-{page + 1}" if page else "")
            shown = f"{title}: {kind}" + (f", {page + 1} of {pages}" if pages > 1 else "")
            caption = f"{words} {text} {_facts(rows)} a panel.".strip()
            section = "details" if apart and kind != "regret" else "studies"
            entries.append(Entry(name, section, shown, caption, partial(study_sheet, rows, study, kind, page=page)))
    return entries


def to_bytes(figure: Figure, ending: str) -> bytes:
    """The figure as "png" or "svg"; the same figure gives the same bytes."""
    stream = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        # Straight to the canvas: figure.savefig() would draw everything twice.
        if ending == "png":
            FigureCanvasAgg(figure).print_png(stream, metadata={"Software": None})
            return stream.getvalue()
        FigureCanvasSVG(figure).print_svg(stream, metadata={"Date": None, "Creator": None})
    figure.dpi = DPI  # which print_svg() has changed
    # A hundredth of a point is enough, and halves the file.
    return re.sub(rb' d="[^"]*"', lambda path: re.sub(rb"(\.\d\d)\d+", rb"\1", path[0]), stream.getvalue())


def save_all(records: Records, folder: str | Path, *, processes: int = 1) -> list[Path]:
    """Write every figure for which the records have data, as PNG and SVG; returns the files.

    Several processes are faster; a script that asks for them needs `if __name__ == "__main__"`.
    """
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    names = [entry.name for entry in catalogue(records)]
    if processes == 1:
        _save(records, out, names)
    else:
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            for part in [pool.submit(_save, records, out, names[k::processes]) for k in range(processes)]:
                part.result()
    return [out / f"{name}.{ending}" for name in names for ending in ("png", "svg")]


def _save(records: Records, folder: Path, names: Sequence[str]) -> None:
    for entry in catalogue(records):
        if entry.name in names:
            figure = entry.draw()
            for ending in ("png", "svg"):
                (folder / f"{entry.name}.{ending}").write_bytes(to_bytes(figure, ending))
