"""A plan in words: what was assumed, a table, and what the numbers say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse.insight.text import count, item
from posse.policies.hier_ts import HierTS
from posse.policies.ind_ts import IndTS
from posse.policies.robustagg_tsv import RobustAggTSV
from posse.simulation import Difference

if TYPE_CHECKING:
    from posse.insight.planning.plan import Plan

WIDTH = 112
WRONG = {1 / 3: "a third of that ε", 3.0: "three times that ε"}


def to_text(plan: Plan) -> str:
    """Assumptions, table and conclusions, for the terminal."""
    assumed, concluded = (
        "\n".join(item(line, WIDTH) for line in lines) for lines in (_assumptions(plan), conclusions(plan))
    )
    return "\n\n".join([assumed, _table(plan), concluded])


def conclusions(plan: Plan) -> list[str]:
    """What the numbers say: what is at stake, what sharing saves, what a wrong ε and blind pooling cost."""
    found = [_stake(plan), _sharing(plan)]
    if plan.given is not None and plan.given_epsilon is not None and plan.given != plan.right:
        times = plan.given_epsilon / plan.epsilon
        found.append(_wrong(plan, f"ε = {plan.given_epsilon:g} as given, {times:.2g} times that,", plan.given))
    for factor, words in WRONG.items():
        near = np.isclose(plan.sweep_epsilons, factor * plan.epsilon)
        found += [_wrong(plan, words, plan.sweep[number]) for number in np.flatnonzero(near)]
    return [*found, _pooling(plan), *_hierarchy(plan), *_unequal_traffic(plan)]


def amount(value: float) -> str:
    """A number of rewards, to about three digits.

    >>> [amount(value) for value in (0.1234, -4.56, 38.2, 1234.5, -0.0)]
    ['0.12', '−4.6', '38', '1,234', '0']
    """
    size = abs(value)
    return _digits(value, 0 if size >= 20 else 1 if size >= 1 else 2 if size >= 0.1 else 3 if size else 0)


def with_interval(difference: Difference, scale: float = 1.0, unit: str = "") -> str:
    """A mean and its interval, to the digits that the interval's width allows.

    >>> with_interval(Difference(0.4123, 0.39, 0.431, 0.95, 20), 100, " %")
    '41 % [39, 43]'
    >>> with_interval(Difference(-0.3, -0.45, -0.15, 0.95, 20))
    '−0.3 [−0.5, −0.1]'
    """
    mean, low, high = (scale * value for value in (difference.mean, difference.low, difference.high))
    decimals = 0 if high - low >= 2 else 1 if high - low >= 0.2 else 2
    return f"{_digits(mean, decimals)}{unit} [{_digits(low, decimals)}, {_digits(high, decimals)}]"


def _digits(value: float, decimals: int) -> str:
    shown = f"{value:,.{decimals}f}".replace("-", "−")
    return shown.removeprefix("−") if not shown.strip("−0.,") else shown  # no minus before nothing


def _negative(difference: Difference) -> Difference:
    return Difference(-difference.mean, -difference.high, -difference.low, difference.level, difference.units)


def _assumptions(plan: Plan) -> list[str]:
    problems, seed = plan.result.problems, plan.result.seed
    share = np.mean([(p.means.argmax(axis=1) == p.means.mean(axis=0).argmax()).mean() for p in problems])
    lead = plan.unit * np.mean([np.diff(np.sort(problem.means, axis=1)[:, -2:]).mean() for problem in problems])
    return [
        f"{len(plan.players)} players, {len(plan.arms)} arms, {_traffic(plan)}: {plan.decisions.sum():,} in all.",
        *plan.assumed,
        f"{len(problems)} problems were drawn so, seed {seed}. In them, {100 * share:.0f} % of players have "
        "as their own best arm the one that is best over all players; a player's best arm leads its second best by "
        f"{lead:.2g} on average.",
    ]


def _traffic(plan: Plan) -> str:
    low, high = int(plan.decisions.min()), int(plan.decisions.max())
    shown = f"{count(high, 'decision')} each" if low == high else f"{low:,} to {high:,} decisions each"
    return shown if plan.days is None else f"{shown} in {count(plan.days, 'day')}"


def _table(plan: Plan) -> str:
    """A line for each policy compared."""
    names = [plan.labels[policy] for policy in plan.compared]
    roles = [_role(plan, policy) for policy in plan.compared]
    widths = max(map(len, [*names, "policy"])), max(map(len, roles))
    attainable = float(plan.attainable.mean())
    lines = [
        f"Rewards lost against always choosing each player's best arm, which earns {amount(attainable)}:",
        f"{'policy':<{widths[0]}}  {'':<{widths[1]}}  {'lost':>8}  {'a player':>8}  {'percent':>7}  "
        "saves, of what is lost alone (95 %)",
    ]
    for name, role, policy in zip(names, roles, plan.compared, strict=True):
        lost = plan.mean_lost(policy).mean
        percent = f"{100 * lost / attainable:.1f} %" if attainable > 0 else "–"
        saved = "" if policy == plan.alone else with_interval(plan.saving(policy), 100, " %")
        lines.append(
            f"{name:<{widths[0]}}  {role:<{widths[1]}}  {amount(lost):>8}  {amount(lost / len(plan.players)):>8}  "
            f"{percent:>7}  {saved}".rstrip()
        )
    return "\n".join(lines)


def _role(plan: Plan, number: int) -> str:
    """What a policy stands for, in a few words."""
    policy = plan.result.policies[number]
    if number == plan.alone:
        return "alone"
    if number == plan.right:
        return "sharing, right ε"
    if number == plan.given:
        return "sharing, ε as given"
    if number in plan.sweep:
        epsilon = plan.sweep_epsilons[plan.sweep.index(number)]
        return "sharing, ε too small" if epsilon < plan.epsilon else "sharing, ε too large"
    if number == plan.pooled:
        return "pooling blindly"
    if number in _exploring_less(plan):
        return "alone, exploring less"
    if isinstance(policy, RobustAggTSV):
        return "sharing, refreshed at once"
    return "hierarchy" if isinstance(policy, HierTS) else ""


def _exploring_less(plan: Plan) -> list[int]:
    """Ind-TS that explores as little as HierTS does unless told."""
    return [n for n in plan.compared if plan.result.policies[n] == IndTS(c2=0.25)]


def _stake(plan: Plan) -> str:
    return (
        f"Choosing at random throughout would lose {amount(float(plan.lost_by_random.mean()))}; learning alone "
        f"(Ind-TS) loses {with_interval(plan.mean_lost(plan.alone))}."
    )


def _sharing(plan: Plan) -> str:
    saving = plan.saving(plan.right)
    how = f"ε = {plan.epsilon:g} (RobustAgg-TS)"
    saved = f"saves {with_interval(saving, 100, ' %')} of what learning alone loses."
    if saving.low > 0:
        return f"Sharing with {how} {saved}"
    if saving.high < 0:
        more = with_interval(_negative(saving), 100, " %")
        savings = [plan.saving(policy) for policy in plan.sweep]
        best = int(np.argmax([other.mean for other in savings]))
        if savings[best].low > 0:
            return (
                f"Sharing with {how} loses {more} more than learning alone; the ε tried that does best, "
                f"{plan.sweep_epsilons[best]:.3g}, saves {with_interval(savings[best], 100, ' %')}."
            )
        return f"Sharing does not pay here: with {how} it loses {more} more than learning alone."
    return f"Sharing makes no clear difference here: with {how} it {saved}"


def _wrong(plan: Plan, words: str, policy: int) -> str:
    """What one wrong ε changes, and whether sharing with it is better than learning alone."""
    change, against_alone = plan.difference(policy, plan.right), _beside_alone(plan, policy)
    if change.low > 0:
        text = f"{with_interval(change)} more than with the right one"
        joined = "but" if against_alone.startswith("less") else "and"
    elif change.high < 0:
        text = f"{with_interval(_negative(change))} less than with the right one"
        joined = "but" if against_alone.startswith("more") else "and"
    else:
        text, joined = f"about as much as with the right one ({with_interval(change)} more)", "and"
    return f"With {words} it loses {text}, {joined} {against_alone}."


def _beside_alone(plan: Plan, policy: int) -> str:
    saving = plan.saving(policy)
    if saving.low > 0:
        return "less than learning alone"
    return "more than learning alone" if saving.high < 0 else "about as much as learning alone"


def _pooling(plan: Plan) -> str:
    return (
        f"Pooling blindly (Naive-Agg) loses {amount(plan.mean_lost(plan.pooled).mean)}, "
        f"{_beside_alone(plan, plan.pooled)}; the best single arm for all players, known from the start, "
        f"{amount(float(plan.lost_by_one_arm.mean()))}."
    )


def _hierarchy(plan: Plan) -> list[str]:
    """HierTS beside the policy that explores as much and learns alone, where both are compared."""
    hierarchy = [n for n in plan.compared if isinstance(plan.result.policies[n], HierTS)]
    alone = _exploring_less(plan)
    if not hierarchy or not alone:
        return []
    saving = plan.saving(hierarchy[0], alone[0])
    if saving.low > 0:
        what = f"saves {with_interval(saving, 100, ' %')} of its loss"
    elif saving.high < 0:
        what = f"loses {with_interval(_negative(saving), 100, ' %')} more"
    else:
        what = f"makes no clear difference ({with_interval(saving, 100, ' %')} saved)"
    first, second = plan.labels[hierarchy[0]], plan.labels[alone[0]]
    return [
        f"{first} explores less than Ind-TS; beside {second}, which learns alone and explores as little, it {what}."
    ]


def _unequal_traffic(plan: Plan) -> list[str]:
    """What busy and quiet players lose, where traffic differs."""
    ends = plan.decisions.max(), plan.decisions.min()
    if ends[0] == ends[1]:
        return []
    lost = plan.lost_by_player.mean(axis=1)
    busy, quiet = (
        [amount(float(lost[policy, plan.decisions == end].mean())) for policy in (plan.alone, plan.right)]
        for end in ends
    )
    return [
        f"The busiest player ({ends[0]:,} decisions) loses {busy[0]} alone and {busy[1]} sharing, the quietest "
        f"({ends[1]:,}) {quiet[0]} and {quiet[1]}."
    ]
