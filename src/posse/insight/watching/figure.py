"""What was watched as a picture: choices beside what was expected, and what the adaptive part earns, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse.figures import matplotlib
from posse.figures.canvas import finish, new_figure, round_numbers
from posse.figures.style import BAND, BLUE, HOUSE, INK, OTHER_COLORS
from posse.text import figure_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from posse.insight.watching.api import Effect, ShareCheck, Watch

NORMAL = 3  # standard deviations on either side: at one look an arm is beyond them once in 370 times
MOST = 6  # arms in a panel: those farthest from what was expected


def draw(watch: Watch) -> Figure:
    """A panel for each check and each effect."""
    count = len(watch.checks) + len(watch.effects)
    with matplotlib.rc_context(HOUSE):
        figure = new_figure(7.2, 0.4 + 2.1 * count)
        panels = figure.subplots(count, 1, squeeze=False, sharex=True)[:, 0]
        for axes in panels:
            axes.axhline(0, color=INK, linewidth=0.8)
            round_numbers(axes.xaxis, 5, whole=True)
        for axes, check in zip(panels, watch.checks, strict=False):
            _draw_check(axes, check, watch.arms)
        for axes, effect in zip(panels[len(watch.checks) :], watch.effects, strict=True):
            _draw_effect(axes, effect)
        panels[-1].set_xlabel("decisions")
        return finish(figure)


def _draw_check(axes: Axes, check: ShareCheck, arms: tuple[str, ...]) -> None:
    """How often arms were chosen beyond what was expected; early looks may lack arms that came later."""
    there = [(*each, *[0.0] * (1 + len(arms) - len(each))) for each in check.path]
    at, *excess = np.array([(0.0,) * (1 + len(arms)), *there]).T
    normal = NORMAL * np.array([0.0, *check.deviations])
    axes.fill_between(at, -normal, normal, color=BAND, alpha=0.5, label=f"normal: {NORMAL} standard deviations")
    farthest = sorted(range(len(arms)), key=lambda arm: -float(np.abs(excess[arm]).max()))[:MOST]
    for color, arm in zip(OTHER_COLORS * MOST, sorted(farthest), strict=False):
        axes.plot(at, excess[arm], color=color, label=figure_label(arms[arm], 20))
    if check.alarm is not None:
        axes.axvspan(check.alarm.began, check.alarm.noticed, color=INK, alpha=0.15, linewidth=0)
    axes.margins(y=0.4)  # room for the names
    axes.legend(ncols=4, loc="upper left", frameon=False)
    alarm = "" if check.alarm is None else ": ALARM"
    what = "chosen" if check.about == "choices" else "with a reward"
    axes.set_title(f"{check.about}: how often {what} beyond what was expected{alarm}", loc="left")


def _draw_effect(axes: Axes, effect: Effect) -> None:
    """The average up to each look, with its interval; the first looks know too little to be drawn."""
    at, value, low, high = np.array(effect.path).T
    sure = np.isfinite(low) & np.isfinite(high)
    last = slice(int(sure.argmax() + sure.sum() // 8), None)
    axes.fill_between(at[last], low[last], high[last], color=BAND)
    axes.plot(at[last], value[last], color=BLUE)
    against = figure_label(effect.against, 30) if effect.control else "the holdout"
    axes.set_title(f"what adapting earns beyond {against}, a decision, on average so far", loc="left")
