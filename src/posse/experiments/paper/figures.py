"""Figures of the paper."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.figure import Figure

from posse.experiments.paper.panels import DRAWS, checkpoint_rounds, sheet
from posse.experiments.records import Records
from posse.experiments.summary import describe
from posse.figures.canvas import add_legend, finish, label_ends, new_figure
from posse.figures.policy_looks import algorithm, looks
from posse.figures.style import PRINT, WIDTH
from posse.policies.base import Look

VARIANT = "RobustAgg-TS-V"


def paper_rows(
    records: Records, n_subpar: int | None, *, study: str, with_v: bool = False
) -> tuple[Records, dict[str, Look]]:
    """The records of a study with one |I_5ε| (any if None), with RobustAgg-TS-V or not; an error if there are none.

    With them come the looks of their policies, the same as in every other figure of the study.
    """
    of_study = records.where(study=study)
    rows = of_study if n_subpar is None else of_study.where(n_subpar=n_subpar)
    others = [label for label in rows.distinct("policy") if algorithm(label) != VARIANT]
    if others and not with_v:
        rows = rows.where(policy=others)
    if not len(rows):
        there = sorted(of_study.distinct("n_subpar"))
        raise ValueError(f"no records of study {study!r} with n_subpar={n_subpar}; there are {there}")
    shown = rows.distinct("policy")
    return rows, {label: look for label, look in looks(of_study.distinct("policy")).items() if label in shown}


def panel(records: Records, kind: str, n_subpar: int | None, *, with_v: bool = False, study: str = "subpar") -> Figure:
    """One panel on the problems with one |I_5ε|: mean ± one standard deviation over problems.

    `kind` is "regret" (cumulative), "pulls" (percentages by kind of arm) or "regret by kind" (of arm); `with_v` shows
    RobustAgg-TS-V among the algorithms, as in the paper's last figure.
    """
    rows, drawn = paper_rows(records, n_subpar, with_v=with_v, study=study)
    with matplotlib.rc_context(PRINT):
        figure = new_figure(5.4, 3.2)
        axes = figure.add_subplot()
        axes.set_title(subpar_title(n_subpar))
        if kind != "regret":
            DRAWS[kind](axes, rows, drawn, numbers=len(drawn) <= 5)
            return finish(figure, add_legend(figure, drawn, lines=False, bars=True))
        DRAWS[kind](axes, rows, drawn)
        label_ends(axes)
        axes.set_xlim(0, checkpoint_rounds(rows)[-1])
        return finish(figure)


def overview(records: Records, kind: str, *, with_v: bool = False, study: str = "subpar") -> Figure:
    """A panel for every |I_5ε|, from the largest to the smallest, as in the paper's appendix."""
    rows, drawn = paper_rows(records, None, with_v=with_v, study=study)
    panels = [(subpar_title(v), rows.where(n_subpar=v)) for v in sorted(rows.distinct("n_subpar"), reverse=True)]
    return sheet(panels, drawn, kind)


def figure_1(records: Records, n_subpar: Sequence[int] = (8, 5), *, study: str = "subpar") -> Figure:
    """The paper's Figure 1: regret, pulls and regret by kind of arm, a row for each |I_5ε|."""
    parts = [paper_rows(records, v, study=study)[0] for v in n_subpar]
    _, drawn = paper_rows(records, None, study=study)
    with matplotlib.rc_context(PRINT):
        figure = new_figure(WIDTH, 0.45 + 2.2 * len(parts))
        for row, (v, rows) in enumerate(zip(n_subpar, parts, strict=True)):
            for column, draw in enumerate(DRAWS.values()):
                axes = figure.add_subplot(len(parts), 3, 3 * row + column + 1)
                draw(axes, rows, drawn)
                axes.set_title(f"{'abcdefgh'[row]}{column + 1}.  {subpar_title(v)}", loc="left")
        return finish(figure, add_legend(figure, drawn, bars=True), h_pad=1.0, w_pad=1.0)


def subpar_title(n_subpar: int | None) -> str:
    """The title of a panel with one |I_5ε|; none for all of them."""
    return "" if n_subpar is None else describe({"n_subpar": n_subpar}, math_text=True)
