"""The picture of a plan: rewards lost as decisions go by, and what a wrong ε costs."""

from typing import TYPE_CHECKING, Any

import numpy as np

from posse.figures import matplotlib
from posse.figures.canvas import label_ends, legend_label, new_figure, round_numbers, thousands
from posse.figures.policy_looks import variant
from posse.figures.style import INK, OTHER_COLORS, PRINT, SOFT
from posse.insight.planning.equal_shares import EQUAL, TESTED
from posse.policies.base import Look, Policy
from posse.simulation.statistics import paired_difference

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from posse.insight.planning.api import Plan


def draw(plan: "Plan") -> "Figure":
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


def _draw_traffic(axes: "Axes", plan: "Plan") -> None:
    traffic = np.insert(plan.traffic, 0, 0.0)  # nothing is lost before the first decision
    if plan.days is not None:
        traffic *= plan.days / traffic[-1]
    lost = np.insert(plan.lost_over_time, 0, 0.0, axis=2)
    for policy, look in _looks(plan).items():
        _curve(axes, traffic, lost[policy].T, lost[plan.alone].T, look, plan.labels[policy])
    if plan.untold is not None:
        untold = np.insert(plan.over_time(plan.untold)[0], 0, 0.0, axis=1)
        look = variant(_looks(plan)[plan.learned], 1)
        _curve(axes, traffic, untold.T, lost[plan.alone].T, look, f"{plan.labels[plan.learned]}, not told")
    ends = np.array([0, plan.test.part, 1])[:, None]
    equal, tested = plan.lost_by(EQUAL), plan.lost_by(TESTED)
    for name, line, losses in (
        (EQUAL, ":", ends * equal),
        (TESTED, "-", np.array([0 * equal, ends[1] * equal, tested])),
    ):
        _curve(axes, ends[:, 0] * traffic[-1], losses, ends * lost[plan.alone][:, -1], Look(SOFT, line, "", ""), name)
    axes.set_xlim(0, traffic[-1])
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    axes.set_title("Rewards lost as decisions go by")
    one = "" if (plan.decisions == plan.decisions[0]).all() else ", on average"
    axes.set_xlabel(f"decisions a player{one}" if plan.days is None else "days")
    axes.set_ylabel("rewards lost")
    round_numbers(axes.xaxis, 4, whole=True)
    axes.yaxis.set_major_formatter(thousands)
    label_ends(axes)


def _draw_wrong_epsilon(axes: "Axes", plan: "Plan") -> None:
    across = np.array([plan.sweep_epsilons[0] / 1.1, plan.sweep_epsilons[-1] * 1.1])
    policies, alone = plan.result.policies, plan.lost[plan.alone]
    for policy in (plan.alone, plan.pooled, plan.learned):
        lost = np.tile(plan.lost[policy], (2, 1))
        _curve(axes, across, lost, alone, _look(policies[policy]), plan.labels[policy])
    right, lost = policies[plan.right], plan.lost[list(plan.sweep)]
    _curve(axes, plan.sweep_epsilons, lost, alone, _look(right), right.name, marker="o", gid="sweep")
    axes.axvline(plan.epsilon, color=INK, linewidth=0.8, linestyle=(0, (1.2, 1.2)))
    axes.set_xscale("log")
    axes.set_xlim(across[0], across[1])
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    axes.annotate(
        "right ε", (plan.epsilon, 0.02), (3, 0), xycoords=("data", "axes fraction"), textcoords="offset points"
    )
    shown = [e for e in plan.sweep_epsilons if np.isclose(e / plan.epsilon, (1 / 10, 1 / 3, 1, 3, 10)).any()]
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.set_xticks(shown, [f"{epsilon:.3g}" for epsilon in shown])
    axes.set_title("What a wrong ε costs")
    axes.set_xlabel("ε given to the policy")
    axes.set_ylabel("rewards lost in the end")
    axes.yaxis.set_major_formatter(thousands)
    label_ends(axes)


def _looks(plan: "Plan") -> dict[int, Look]:
    """The look of each policy compared: the algorithm's own, paler if only a constant differs."""
    kinds: dict[type[Policy], list[int]] = {}
    for policy in sorted(plan.compared, key=lambda number: number not in (plan.alone, plan.right)):
        kinds.setdefault(type(plan.result.policies[policy]), []).append(policy)
    found: dict[int, Look] = {}
    for place, members in enumerate(kinds.values()):
        look = _look(plan.result.policies[members[0]], place)
        found |= {policy: variant(look, number) for number, policy in enumerate(members)}
    return found


def _look(policy: Policy, place: int = 0) -> Look:
    """A policy's own look; if it has none, a color by its place among the policies."""
    return policy.look or Look(OTHER_COLORS[place % len(OTHER_COLORS)], "-", "", "")


def _curve(
    axes: "Axes", x: np.ndarray, lost: np.ndarray, alone: np.ndarray, look: Look, name: str, **style: Any
) -> None:
    """Draw the mean of `lost[place, problem]`, and the interval of its difference to learning alone around it."""
    mean = lost.mean(axis=1)
    intervals = [paired_difference(differences) for differences in lost - alone]
    low, high = (np.array([getattr(one, end) - one.mean for one in intervals]) for end in ("low", "high"))
    axes.fill_between(x, mean + low, mean + high, color=look.color, alpha=0.2, linewidth=0)
    axes.plot(x, mean, color=look.color, linestyle=look.line, label=legend_label(name), **{"gid": name, **style})
