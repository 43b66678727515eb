"""The picture of a plan: rewards lost as decisions go by, and what a wrong ε costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from posse.figures.canvas import new_figure, thousands
from posse.figures.style import INK, PRINT, SOFT
from posse.policies.base import Policy
from posse.simulation.statistics import paired_difference
from posse.text import figure_label

if TYPE_CHECKING:
    from posse.insight.planning.api import Plan

Line = str | tuple[int, tuple[float, ...]]
OTHER_COLORS = ("#332288", "#882255", "#117733", "#999933", SOFT)  # of policies without a look of their own
OTHER_LINES: tuple[Line, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.5, 1.5)))


def draw(plan: Plan) -> Figure:
    """Left, rewards lost over traffic for each policy compared; right, at the end, against the assumed ε."""
    with matplotlib.rc_context(PRINT):
        figure = new_figure(9.6, 3.7)
        left, right = figure.subplots(1, 2, width_ratios=(1, 0.82))
        _draw_traffic(left, plan)
        _draw_wrong_epsilon(right, plan)
        count = len(plan.result.problems)
        note = f"Means over {count} problems; bands: 95 % intervals of the difference to Ind-TS on the same problems."
        figure.text(0.01, 0.015, note, color=SOFT, fontsize=7.5)
        figure.tight_layout(w_pad=2.5, rect=(0, 0.04, 1, 1))
        return figure


def _draw_traffic(axes: Axes, plan: Plan) -> None:
    traffic = np.insert(plan.traffic, 0, 0.0)  # nothing is lost before the first decision
    if plan.days is not None:
        traffic *= plan.days / traffic[-1]
    lost = np.insert(plan.lost_over_time, 0, 0.0, axis=2)
    ends = [
        _curve(axes, traffic, lost[policy].T, lost[plan.alone].T, look, plan.labels[policy], gid=plan.labels[policy])
        for policy, look in _looks(plan).items()
    ]
    axes.set_xlim(0, traffic[-1])
    one = "" if (plan.decisions == plan.decisions[0]).all() else ", on average"
    across = f"decisions a player{one}" if plan.days is None else "days"
    axes.set(title="Rewards lost as decisions go by", xlabel=across, ylabel="rewards lost")
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(thousands))
    _name_ends(axes, ends)


def _draw_wrong_epsilon(axes: Axes, plan: Plan) -> None:
    across = np.array([plan.sweep_epsilons[0] / 1.1, plan.sweep_epsilons[-1] * 1.1])
    alone, ends = plan.lost[plan.alone], []
    for policy in (plan.alone, plan.pooled):
        look, name = _look(plan.result.policies[policy]), plan.labels[policy]
        ends.append(_curve(axes, across, np.tile(plan.lost[policy], (2, 1)), alone, look, name, gid=name))
    right, lost = plan.result.policies[plan.right], plan.lost[list(plan.sweep)]
    ends.append(_curve(axes, plan.sweep_epsilons, lost, alone, _look(right), right.name, marker="o", gid="sweep"))
    axes.axvline(plan.epsilon, color=INK, linewidth=0.8, linestyle=(0, (1.2, 1.2)))
    axes.set_xscale("log")
    axes.set_xlim(across[0], across[1])
    place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    axes.annotate("right ε", (plan.epsilon, 0.02), (3, 0), **place)
    shown = [e for e in plan.sweep_epsilons if np.isclose(e / plan.epsilon, (1 / 10, 1 / 3, 1, 3, 10)).any()]
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(shown, [f"{epsilon:.3g}" for epsilon in shown])
    axes.set(title="What a wrong ε costs", xlabel="ε given to the policy", ylabel="rewards lost in the end")
    _name_ends(axes, ends)


def _looks(plan: Plan) -> dict[int, tuple[Any, Line]]:
    """Color and line of each policy compared: the algorithm's own, paler if only a constant differs."""
    kinds: dict[type[Policy], list[int]] = {}
    for policy in sorted(plan.compared, key=lambda number: number not in (plan.alone, plan.right)):
        kinds.setdefault(type(plan.result.policies[policy]), []).append(policy)
    found: dict[int, tuple[Any, Line]] = {}
    for place, members in enumerate(kinds.values()):
        color, line = _look(plan.result.policies[members[0]], place)
        for number, policy in enumerate(members):
            share = 0.65 * number / (number + 1)
            paler = tuple(part + (1 - part) * share for part in to_rgb(color))
            found[policy] = (paler, OTHER_LINES[number % len(OTHER_LINES)] if number else line)
    return found


def _look(policy: Policy, place: int = 0) -> tuple[str, Line]:
    """Color and line of a policy; if it has none, a color by its place among the policies."""
    return (OTHER_COLORS[place % len(OTHER_COLORS)], "-") if policy.look is None else policy.look[:2]


def _curve(
    axes: Axes, x: np.ndarray, lost: np.ndarray, alone: np.ndarray, look: tuple[Any, Line], name: str, **line: Any
) -> tuple[float, str, Any]:
    """Draw the mean of `lost[place, problem]` with the interval of the difference to learning alone.

    Returns where it ends, its name and its color.
    """
    color, style = look
    mean = lost.mean(axis=1)
    intervals = [paired_difference(differences) for differences in lost - alone]
    low, high = (np.array([getattr(one, end) - one.mean for one in intervals]) for end in ("low", "high"))
    axes.fill_between(x, mean + low, mean + high, color=color, alpha=0.2, linewidth=0)
    axes.plot(x, mean, color=color, linestyle=style, **line)
    return mean[-1], name, color


def _name_ends(axes: Axes, ends: list[tuple[float, str, Any]]) -> None:
    """Leave room above, and write each curve's name where it ends, names pushed apart until none touch."""
    axes.yaxis.set_major_formatter(FuncFormatter(thousands))
    top = 1.1 * axes.get_ylim()[1]
    axes.set_ylim(0, top)
    ends = sorted(ends, key=lambda end: end[0])
    heights = np.array([end / top for end, _, _ in ends])
    gap = 0.066
    for _ in range(300):
        for place in np.flatnonzero(np.diff(heights) < gap - 1e-6):
            middle = heights[place : place + 2].mean()
            heights[place : place + 2] = middle - gap / 2, middle + gap / 2
        heights += max(0.0, 0.02 - heights[0]) - max(0.0, heights[-1] - 1)
    for (end, name, color), height in zip(ends, heights, strict=True):
        axes.plot([1, 1.03], [end / top, height], transform=axes.transAxes, color=color, linewidth=0.8, clip_on=False)
        axes.text(1.04, height, figure_label(name, 32), transform=axes.transAxes, va="center")
