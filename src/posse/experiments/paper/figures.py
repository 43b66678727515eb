"""Figures of the paper."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.figure import Figure

from posse.experiments.paper.panels import (
    Draw,
    checkpoint_rounds,
    draw_curves,
    draw_kinds,
    draw_pulls,
    label_ends,
    sheet,
)
from posse.experiments.records import Records
from posse.experiments.summary import describe
from posse.figures.canvas import add_legend, finish, new_figure
from posse.figures.looks import algorithm, looks
from posse.figures.style import PRINT, WIDTH
from posse.policies.base import Look

VARIANT = "RobustAgg-TS-V"


def paper_rows(records: Records, n_subpar: int | None, *, with_v: bool, study: str) -> Records:
    """The records of a study with one |I_5ε| (any if None), with RobustAgg-TS-V or not; an error if there are none."""
    rows = records.where(study=study)
    if n_subpar is not None:
        rows = rows.where(n_subpar=n_subpar)
    others = [label for label in rows.distinct("policy") if algorithm(label) != VARIANT]
    if others and not with_v:
        rows = rows.where(policy=others)
    if not len(rows):
        there = sorted(records.where(study=study).distinct("n_subpar"))
        raise ValueError(f"no records of study {study!r} with n_subpar={n_subpar}; there are {there}")
    return rows


def study_looks(records: Records, study: str, rows: Records) -> dict[str, Look]:
    """The looks of the policies in the rows, as in every other figure of the study."""
    shown = set(rows.distinct("policy"))
    return {
        label: look for label, look in looks(records.where(study=study).distinct("policy")).items() if label in shown
    }


def regret(records: Records, n_subpar: int | None, *, with_v: bool = False, study: str = "subpar") -> Figure:
    """Cumulative regret on the problems with one |I_5ε|: mean ± one standard deviation over problems."""
    rows = paper_rows(records, n_subpar, with_v=with_v, study=study)
    with matplotlib.rc_context(PRINT):
        figure = new_figure(5.4, 3.2)
        axes = figure.add_subplot()
        draw_curves(axes, rows, study_looks(records, study, rows))
        label_ends(axes)
        axes.set_xlim(0, checkpoint_rounds(rows)[-1])
        axes.set_title(subpar_title(n_subpar))
        return finish(figure)


def comparison_with_v(records: Records, n_subpar: int | None, *, study: str = "subpar") -> Figure:
    """Cumulative regret with RobustAgg-TS-V among the algorithms, as in the paper's last figure."""
    return regret(records, n_subpar, with_v=True, study=study)


def pulls(records: Records, n_subpar: int | None, *, study: str = "subpar") -> Figure:
    """Percentage of pulls of optimal, near-optimal and subpar arms."""
    return _bar_figure(records, n_subpar, study, draw_pulls)


def regret_by_kind(records: Records, n_subpar: int | None, *, study: str = "subpar") -> Figure:
    """Cumulative regret from near-optimal and from subpar arms."""
    return _bar_figure(records, n_subpar, study, draw_kinds)


def _bar_figure(records: Records, n_subpar: int | None, study: str, draw: Draw) -> Figure:
    rows = paper_rows(records, n_subpar, with_v=False, study=study)
    drawn = study_looks(records, study, rows)
    with matplotlib.rc_context(PRINT):
        figure = new_figure(5.4, 3.2)
        axes = figure.add_subplot()
        draw(axes, rows, drawn, numbers=len(drawn) <= 5)
        axes.set_title(subpar_title(n_subpar))
        return finish(figure, add_legend(figure, drawn, lines=False, bars=True))


def subpar_title(n_subpar: int | None) -> str:
    """The title of a panel with one |I_5ε|; none for all of them."""
    return "" if n_subpar is None else describe({"n_subpar": n_subpar}, math_text=True)


def figure_1(records: Records, n_subpar: Sequence[int] = (8, 5), *, study: str = "subpar") -> Figure:
    """The paper's Figure 1: regret, pulls and regret by kind of arm, a row for each |I_5ε|."""
    parts = [paper_rows(records, v, with_v=False, study=study) for v in n_subpar]
    drawn = study_looks(records, study, paper_rows(records, None, with_v=False, study=study))
    with matplotlib.rc_context(PRINT):
        figure = new_figure(WIDTH, 0.45 + 2.2 * len(parts))
        draws: tuple[Draw, ...] = (draw_curves, draw_pulls, draw_kinds)
        for row, (v, rows) in enumerate(zip(n_subpar, parts, strict=True)):
            for column, draw in enumerate(draws):
                axes = figure.add_subplot(len(parts), 3, 3 * row + column + 1)
                draw(axes, rows, drawn)
                axes.set_title(f"{'abcdefgh'[row]}{column + 1}.  {subpar_title(v)}", loc="left")
        return finish(figure, add_legend(figure, drawn, bars=True), h_pad=1.0, w_pad=1.0)


def overview_regret(records: Records, *, with_v: bool = False, study: str = "subpar") -> Figure:
    """Cumulative regret for every |I_5ε|, from the largest to the smallest, as in the paper's appendix."""
    return _overview(records, study, draw_curves, with_v=with_v)


def overview_pulls(records: Records, *, study: str = "subpar") -> Figure:
    """Percentage of pulls by kind of arm for every |I_5ε|."""
    return _overview(records, study, draw_pulls)


def overview_regret_by_kind(records: Records, *, study: str = "subpar") -> Figure:
    """Regret by kind of arm for every |I_5ε|."""
    return _overview(records, study, draw_kinds)


def overview_with_v(records: Records, *, study: str = "subpar") -> Figure:
    """Cumulative regret with RobustAgg-TS-V for every |I_5ε|."""
    return _overview(records, study, draw_curves, with_v=True)


def _overview(records: Records, study: str, draw: Draw, *, with_v: bool = False) -> Figure:
    rows = paper_rows(records, None, with_v=with_v, study=study)
    panels = [(subpar_title(v), rows.where(n_subpar=v)) for v in sorted(rows.distinct("n_subpar"), reverse=True)]
    return sheet(panels, study_looks(records, study, rows), draw)
