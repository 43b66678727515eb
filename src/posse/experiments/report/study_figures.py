"""Figures of any study, and of studies that the paper does not have."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import matplotlib
import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from posse.experiments.paper.figures import subpar_title
from posse.experiments.paper.panels import sheet
from posse.experiments.records import Records
from posse.experiments.summary import by_subpar, describe, mean_and_deviation, problem_means, schedule_words, settings
from posse.figures.canvas import add_legend, curve_style, finish, new_figure, round_numbers
from posse.figures.policy_looks import looks
from posse.figures.style import PRINT, WIDTH
from posse.policies.base import Look

SHEET = 12  # panels on a sheet


def study_sheet(records: Records, study: str, kind: str = "regret", *, page: int = 0) -> Figure:
    """Any study: a panel for each setting, twelve a page. `kind` is "regret", "pulls" or "regret by kind"."""
    rows = records.where(study=study)
    parts = settings(rows)[SHEET * page : SHEET * (page + 1)]
    panels = [(describe(setting, math_text=True, between="\n"), part) for setting, part in parts]
    return sheet(panels, looks(rows.distinct("policy")), kind)


def participation(records: Records, *, study: str = "participation") -> Figure:
    """Cumulative regret when players take turns or join at random: a row for each |I_5ε|, a column for each schedule.

    Where study "subpar" has the same problems with all players active, they come first.
    """
    rows = records.where(study=study)
    panels = []
    for v, part in by_subpar(rows).items():
        parts = [part.where(schedule=schedule) for schedule in rows.distinct("schedule")]
        if not any(schedule.startswith("Concurrent") for schedule in rows.distinct("schedule")):
            parts = [_same_problems(records.where(study="subpar"), part), *parts]
        panels += [
            (f"{subpar_title(v)}\n{textwrap.fill(schedule_words(str(one['schedule'][0])), 20)}".strip(), one)
            for one in parts
            if len(one)
        ]
    columns = len(panels) // len(by_subpar(rows))
    drawn = looks(rows.distinct("policy"))
    return sheet(panels, drawn, "regret", columns=columns if columns <= 4 else 3, one_scale=True)


def _same_problems(records: Records, others: Records) -> Records:
    """The records of the policies and problems that the others have too."""
    means = set(others.rows("means"))
    keep = [number for number, row in enumerate(records.rows("means")) if row in means]
    return Records(records.table.take(pa.array(keep, pa.int64()))).where(policy=others.distinct("policy"))


def regret_by_players(records: Records, *, study: str = "players") -> Figure:
    """Final regret against the number of players: in total, and for one player."""
    rows = records.where(study=study)
    drawn = looks(rows.distinct("policy"))
    parts = by_subpar(rows)
    with matplotlib.rc_context(PRINT):
        figure = new_figure(WIDTH, 0.4 + 2.7 * len(parts))
        for row, (v, part) in enumerate(parts.items()):
            for column, words in enumerate(("final regret, all players", "final regret a player")):
                axes = figure.add_subplot(len(parts), 2, 2 * row + column + 1)
                _draw_sizes(axes, part, drawn, each=column == 1)
                axes.set_ylabel(words)
                axes.set_title(subpar_title(v))
        return finish(figure, add_legend(figure, drawn), w_pad=1.5)


def _draw_sizes(axes: Axes, records: Records, drawn: Mapping[str, Look], *, each: bool) -> None:
    """Final regret over numbers of players: of all, or of each."""
    sizes = sorted(records.distinct("players"))
    for number, (label, look) in enumerate(drawn.items()):
        shift = 1 + 0.016 * (number - (len(drawn) - 1) / 2)  # so that whiskers do not hide one another
        rows = {size: records.where(policy=label, players=size) for size in sizes}
        points = [
            (size * shift, *mean_and_deviation(problem_means(part, "final_regret") / (size if each else 1)))
            for size, part in rows.items()
            if len(part)
        ]
        x, mean, deviation = np.array(points, float).reshape(-1, 3).T
        axes.errorbar(x, mean, deviation, elinewidth=0.9, capsize=2, **curve_style(label, look))
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_ylim(bottom=0)
    round_numbers(axes.yaxis, 6)
    axes.set_xlabel("players, M")
