"""Figures: panels of curves and bars, the paper's figures, sheets of any study, and what some studies have besides."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import TICKRIGHT
from matplotlib.ticker import NullLocator

from posse.experiments import summary
from posse.experiments.records import KINDS, Records
from posse.experiments.settings import describe, settings
from posse.figures import canvas, regret
from posse.figures.policy_looks import looks
from posse.figures.style import DARK, LIGHT, PRINT, SOFT, WIDTH
from posse.policies.base import Look
from posse.policies.labels import algorithm
from posse.simulation.statistics import interval_width

VARIANT = "RobustAgg-TS-V"
SHEET = 12  # panels on a sheet
COLUMNS = ((0.78, 1.4), (2.75, 1.68), (5.5, 1.27))  # of Figure 1: left edges and widths in inches, scales outside


def _short_number(value: float) -> str:
    """About three digits: 0.28, 18.2, 1,234."""
    if value == 0 or value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.95 else f"{max(value, 0.001):.{2 if value >= 0.0095 else 1}g}"


def checkpoint_rounds(records: Records) -> np.ndarray:
    """The rounds of the checkpoints, which must be the same in all the records."""
    distinct = records.distinct("rounds")
    if len(distinct) != 1:
        raise ValueError(f"the records mix {len(distinct)} different lists of checkpoints; draw one setting at a time")
    return np.array(distinct[0])


def draw_curves(axes: Axes, records: Records, drawn: Mapping[str, Look], level: float | None = None) -> None:
    """Regret over rounds: a line and a band for each policy; of one standard deviation, or the mean's interval."""
    parts = {label: records.matching(policy=label) for label in drawn}
    curves = {
        label: (checkpoint_rounds(rows), summary.problem_means(rows, "regret"))
        for label, rows in parts.items()
        if len(rows)
    }
    width = 1.0 if level is None else interval_width(level, min(len(values) for _, values in curves.values()))
    regret.draw_regret(axes, curves, drawn, width)


def draw_bars(axes: Axes, records: Records, drawn: Mapping[str, Look], column: str, *, numbers: bool = False) -> None:
    """Bars of all policies by kind of arm; `numbers` writes the height over each bar.

    They are percentages of the pulls ("pulls_by_kind") or regrets ("regret_by_kind"; optimal arms cost nothing). If the
    bars of subpar arms would be too small to see, they have a scale of their own at the right.
    """
    pulls = column == "pulls_by_kind"
    kinds = KINDS if pulls else KINDS[1:]
    values = summary.by_policy(records, drawn, column)
    shown = {label: summary.percentages(each) if pulls else each[:, 1:] for label, each in values.items()}
    heights = {label: summary.mean_and_deviation(each) for label, each in shown.items()}
    tops = np.max([mean + deviation for mean, deviation in heights.values()], axis=0)
    scale = _own_scale(float(tops[-1]), 100.0 if pulls else 1.05 * float(tops[:-1].max()))
    scales = np.array([1.0] * (len(kinds) - 1) + [scale])
    width = 0.84 / max(1, len(values))
    texts = [_short_number(height) for mean, _ in heights.values() for height in mean]
    size = min(8.0, 430 / len(kinds) * width / max(map(len, texts))) if numbers else 8.0  # so that numbers do not touch
    above: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": size}
    whiskers = {"elinewidth": 0.9, "ecolor": DARK, "capsize": 2}
    for number, (label, (mean, deviation)) in enumerate(heights.items()):
        places = np.arange(len(kinds)) + (number - (len(values) - 1) / 2) * width
        look: dict[str, Any] = {
            "color": drawn[label].color,
            "hatch": drawn[label].hatch,
            "edgecolor": "white",
            "linewidth": 0,
        }
        names: dict[str, Any] = {"label": canvas.legend_label(label), "gid": label}
        there = tops > 0
        at, high, ends = places[there], (mean / scales)[there], ((mean + deviation) / scales)[there]
        axes.bar(at, high, width * 0.92, yerr=ends - high, error_kw=whiskers, **look, **names)
        for place, end, value in zip(at, ends, mean[there], strict=True) if numbers else ():
            axes.annotate(_short_number(value), (place, end), (0, 2), **above)
    for place in np.flatnonzero(tops == 0):
        axes.annotate("none", (place, 0), (0, 2), **above, color=SOFT)
    words = list(kinds) if numbers else [kind.replace("-", "-\n") for kind in kinds]
    words[-1] += "" if scale == 1 else " (right scale)" if numbers else "\n(right)"
    axes.set_xticks(range(len(kinds)), words)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.55, len(kinds) - 0.45)
    axes.set_ylim(bottom=0)
    canvas.round_numbers(axes.yaxis, 5)
    axes.set_ylabel("% of pulls" if pulls else "cumulative regret")
    if pulls:
        axes.set_ylim(0, 108 if numbers else 103)
        axes.set_yticks(range(0, 101, 20))
    if scale < 1:
        _draw_own_scale(axes, len(kinds) - 1.5, scale)


def _own_scale(own: float, common: float) -> float:
    """What the tallest bars of their own scale are multiplied by: 0.2, 0.1, 0.05, …; 1 if they need none."""
    if not 0 < own <= 0.2 * common:
        return 1.0
    digits = math.floor(math.log10(own / common))
    return next(scale for step in (1, 2, 5, 10) if (scale := step * 10.0**digits) * common >= own)


def _draw_own_scale(axes: Axes, left: float, scale: float) -> None:
    """The scale at the right of the bars beyond `left`, with numbers at the heights of those at the left.

    A second axis would do the same, and take twice as long to draw.
    """
    axes.axvline(left, color=LIGHT, linewidth=0.8)
    axes.spines["right"].set_visible(True)
    ticks = [tick for tick in axes.get_yticks() if tick <= axes.get_ylim()[1]]
    at_right = axes.get_yaxis_transform()
    style: dict[str, Any] = {"color": matplotlib.rcParams["ytick.color"], "clip_on": False}
    size = matplotlib.rcParams["ytick.major.size"]
    axes.add_line(
        Line2D([1] * len(ticks), ticks, transform=at_right, linestyle="", marker=TICKRIGHT, markersize=size, **style)
    )
    words: dict[str, Any] = {"fontsize": matplotlib.rcParams["ytick.labelsize"], "va": "center_baseline"}
    words |= {"xycoords": at_right, "textcoords": "offset points", "gid": "right scale"}
    for tick in ticks:
        axes.annotate(f"{scale * tick:,.4g}", (1, tick), (6, 0), **words)


DRAWS: dict[str, Callable[..., None]] = {
    "regret": draw_curves,
    "pulls": partial(draw_bars, column="pulls_by_kind"),
    "regret by kind": partial(draw_bars, column="regret_by_kind"),
}


def sheet(panels: Sequence[tuple[str, Records]], drawn: Mapping[str, Look], kind: str, **how: Any) -> Figure:
    """Small panels of one kind with one legend; `how` says more about what is drawn."""
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    with matplotlib.rc_context(PRINT):
        lines = max(title.count("\n") for title, _ in panels)
        height = {1: 2.8, 2: 2.4}.get(columns, 1.95 + 0.16 * max(0, lines - 1))
        figure = canvas.new_figure(WIDTH if columns > 1 else 5.4, 0.4 + height * rows)
        for number, (title, records) in enumerate(panels):
            axes = figure.add_subplot(rows, columns, number + 1)
            DRAWS[kind](axes, records, drawn, **how)
            axes.set_title(title)
            if number % columns:
                axes.set_ylabel("")
            if number + columns < len(panels):
                axes.set_xlabel("")
        top = canvas.add_legend(figure, drawn, lines=kind == "regret", bars=kind != "regret")
        return canvas.finish(figure, top, h_pad=0.9, w_pad=0.6)


def paper_rows(records: Records, n_subpar: int | None, *, with_v: bool = False) -> tuple[Records, dict[str, Look]]:
    """The records with one |I_5ε| (any if None), with RobustAgg-TS-V or not; an error if there are none.

    With them come the looks of their policies, the same as in every other figure of these records.
    """
    rows = records if n_subpar is None else records.where(n_subpar=n_subpar)
    others = [label for label in rows.distinct("policy") if algorithm(label) != VARIANT]
    if others and not with_v:
        rows = rows.where(policy=others)
    shown = rows.distinct("policy")
    return rows, {label: look for label, look in looks(records.distinct("policy")).items() if label in shown}


def panel(records: Records, kind: str, n_subpar: int | None, *, with_v: bool = False) -> Figure:
    """One panel on a study's problems with one |I_5ε|: mean ± one standard deviation over problems.

    `kind` is "regret" (cumulative), "pulls" (percentages by kind of arm) or "regret by kind" (of arm); `with_v` shows
    RobustAgg-TS-V among the algorithms, as in the paper's last figure.
    """
    rows, drawn = paper_rows(records, n_subpar, with_v=with_v)
    how = {} if kind == "regret" else {"numbers": len(drawn) <= 5}
    return sheet([(subpar_title(n_subpar), rows)], drawn, kind, **how)


def overview(records: Records, kind: str, *, with_v: bool = False) -> Figure:
    """A panel for every |I_5ε| of a study, from the largest to the smallest, as in the paper's appendix."""
    rows, drawn = paper_rows(records, None, with_v=with_v)
    panels = [(subpar_title(v), rows.where(n_subpar=v)) for v in sorted(rows.distinct("n_subpar"), reverse=True)]
    return sheet(panels, drawn, kind)


def figure_1(records: Records, n_subpar: Sequence[int] = (8, 5)) -> Figure:
    """The paper's Figure 1, of one study: regret, pulls and regret by kind of arm, a row for each |I_5ε|."""
    parts = [paper_rows(records, v)[0] for v in n_subpar]
    _, drawn = paper_rows(records, None)
    with matplotlib.rc_context(PRINT):
        figure = canvas.new_figure(WIDTH, 0.4 + 2.2 * len(parts))
        canvas.add_legend(figure, drawn, bars=True)
        height = figure.get_size_inches()[1]
        for row, (v, rows) in enumerate(zip(n_subpar, parts, strict=True)):
            bottom = 0.55 + 2.2 * (len(parts) - 1 - row)
            for column, (draw, (left, width)) in enumerate(zip(DRAWS.values(), COLUMNS, strict=True)):
                axes = figure.add_axes((left / WIDTH, bottom / height, width / WIDTH, 1.4 / height))
                draw(axes, rows, drawn)
                axes.set_title(f"{'abcdefgh'[row]}{column + 1}.  {subpar_title(v)}", loc="left")
        return figure


def subpar_title(n_subpar: int | None) -> str:
    """The title of a panel with one |I_5ε|; none for all of them."""
    return "" if n_subpar is None else describe({"n_subpar": n_subpar})


def study_sheet(records: Records, kind: str = "regret", *, page: int = 0, **how: Any) -> Figure:
    """Any one study: a panel for each setting, twelve a page. `kind` is "regret", "pulls" or "regret by kind".

    Of regret, `level=0.95` shows intervals of the means, in place of standard deviations.
    """
    parts = settings(records)[SHEET * page : SHEET * (page + 1)]
    panels = [(describe(setting, between="\n"), part) for setting, part in parts]
    return sheet(panels, looks(summary.written_order(records)), kind, **how)


def regret_by_players(records: Records) -> Figure:
    """Final regret of a study against the number of players: in total, and for one player."""
    drawn = looks(records.distinct("policy"))
    parts = summary.by_subpar(records)
    with matplotlib.rc_context(PRINT):
        figure = canvas.new_figure(WIDTH, 0.4 + 2.7 * len(parts))
        for row, (v, part) in enumerate(parts.items()):
            for column, words in enumerate(("final regret, all players", "final regret a player")):
                axes = figure.add_subplot(len(parts), 2, 2 * row + column + 1)
                _draw_sizes(axes, part, drawn, each=column == 1)
                axes.set_ylabel(words)
                axes.set_title(subpar_title(v))
        return canvas.finish(figure, canvas.add_legend(figure, drawn), w_pad=1.5)


def _draw_sizes(axes: Axes, records: Records, drawn: Mapping[str, Look], *, each: bool) -> None:
    """Final regret over numbers of players: of all, or of each."""
    sizes = sorted(records.distinct("players"))
    for number, (label, look) in enumerate(drawn.items()):
        shift = 1 + 0.016 * (number - (len(drawn) - 1) / 2)  # so that whiskers do not hide one another
        points = []
        for (size,), rows in records.matching(policy=label).groups("players").items():
            regrets = summary.problem_means(rows, "final_regret") / (size if each else 1)
            points.append((size * shift, *summary.mean_and_deviation(regrets)))
        x, mean, deviation = np.array(sorted(points), float).reshape(-1, 3).T
        axes.errorbar(x, mean, deviation, elinewidth=0.9, capsize=2, **canvas.curve_style(label, look))
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_ylim(bottom=0)
    canvas.round_numbers(axes.yaxis, 6)
    axes.set_xlabel("players, M")
