"""A plan in words: what was assumed, a table, and conclusions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse.insight.hierarchy.model import PlayerModel
from posse.insight.planning.equal_shares import EQUAL, TESTED
from posse.insight.planning.policies import role
from posse.learner import Counts
from posse.simulation import Difference
from posse.text import align, bullets, fixed, listed, plural

if TYPE_CHECKING:
    from posse.insight.planning.api import Plan

WIDTH = 112
SIDES = "<<>>><"  # of the table's columns
MOST_ARMS_SHOWN = 8
LATE = 0.8  # the part of experiments that has ended by then; the other part that is told is half of them
NOT_TOLD = (
    "These two cannot be told apart here, because players have rewards on record for too few arms: all differences "
    "count as levels."
)
LEVELS = (
    "That is beyond their levels: with the arms other than the best a player earns between {:.4g} and {:.4g}, and the "
    "best arm moves by as much on the logit scale. So players differ by at most ε = {:g} on an arm."
)
WRONG = {1 / 3: "a third of that ε", 3.0: "three times that ε"}


def to_text(plan: Plan) -> str:
    """Assumptions, table and conclusions, for the terminal."""
    assumed, concluded = (bullets(lines, WIDTH) for lines in (_assumptions(plan), conclusions(plan)))
    return "\n".join([assumed, "", table_title(plan), *align(policy_table(plan), SIDES), "", concluded])


def conclusions(plan: Plan) -> list[str]:
    """What is at stake, what PosseTS saves, what sharing with an ε saves, and what a wrong ε and pooling cost."""
    found = [
        f"Equal shares throughout would lose {amount(plan.mean_lost(EQUAL).mean)}, equal shares {_test_length(plan)} "
        f"and then the best arm for all players {amount(plan.mean_lost(TESTED).mean)}; learning alone (Ind-TS) loses "
        f"{with_interval(plan.mean_lost(plan.alone))}.",
        _learned(plan),
        *_worth(plan),
        _sharing(plan),
    ]
    if plan.given is not None and plan.given_epsilon is not None and plan.given != plan.right:
        times = plan.given_epsilon / plan.epsilon
        found.append(_wrong(plan, f"ε = {plan.given_epsilon:g} as given, {times:.2g} times that,", plan.given))
    for factor, words in WRONG.items():
        near = np.isclose(plan.sweep_epsilons, factor * plan.epsilon)
        found += [_wrong(plan, words, plan.sweep[number]) for number in np.flatnonzero(near)]
    found.append(
        f"Pooling blindly (Naive-Agg) loses {amount(plan.mean_lost(plan.pooled).mean)}, "
        f"{_beside_alone(plan, plan.pooled)}; the best single arm for all players, known from the start, would lose "
        f"{amount(float(plan.lost_by_one_arm.mean()))}."
    )
    return [*found, *_unequal_traffic(plan), _ending(plan)]


def amount(value: float) -> str:
    """A number of rewards, to about three digits.

    >>> [amount(value) for value in (0.1234, -4.56, 38.2, 1234.5, -0.0)]
    ['0.12', '−4.6', '38', '1,234', '0']
    """
    size = abs(value)
    return fixed(value, 0 if size >= 20 else 1 if size >= 1 else 2 if size >= 0.1 else 3 if size else 0)


def with_interval(difference: Difference, scale: float = 1.0, unit: str = "") -> str:
    """A mean and its interval, with as many decimals as the interval's width allows.

    >>> with_interval(Difference(-0.3, -0.45, -0.15, 0.95, 20))
    '−0.3 [−0.5, −0.1]'
    """
    mean, low, high = (scale * value for value in (difference.mean, difference.low, difference.high))
    digits = 0 if high - low >= 2 else 1 if high - low >= 0.2 else 2
    return f"{fixed(mean, digits)}{unit} [{fixed(low, digits)}, {fixed(high, digits)}]"


def percent(saving: Difference) -> str:
    """A share and its interval in percent.

    >>> percent(Difference(0.4123, 0.39, 0.431, 0.95, 20))
    '41 % [39, 43]'
    """
    return with_interval(saving, 100, " %")


def guess_in_words(
    base: float, effect: float, asked: float, right: float, narrowest: float, levels: float, total: float | None
) -> tuple[str, ...]:
    """What a guess assumes, if `asked` is the ε asked for and `right` the one that there is room for.

    If players differ in level, they differ by `total` in all.
    """
    narrower = "" if narrowest >= right else f", or {narrowest:.3g} where they would leave [0, 1] otherwise"
    no_room = (
        f"There is no room for ε = {asked:g}: means that stay in [0, 1] around {base + effect:.4g} and {base:.4g} "
        f"lie within {right:.3g}. So ε = {right:.3g} is taken.",
    )
    return (
        f"The best arm earns {base + effect:.4g} a decision on average over players, the others {base:.4g}; rewards "
        "are 0 or 1.",
        *(no_room if right < asked else ()),
        f"For each arm, the players' means lie anywhere within {'ε = ' if total is None else ''}{right:g}{narrower}.",
        *(() if total is None else (LEVELS.format(base - levels / 2, base + levels / 2, total),)),
    )


def history_in_words(counts: Counts, model: PlayerModel, right: float, given: float | None) -> tuple[str, ...]:
    """What problems drawn from data are like; `right` is the ε that is planned for, `given` the user's."""
    arms = np.flatnonzero(model.there[1])
    means = [f"{counts.arms[arm]} {mean:.3g}" for arm, mean in zip(arms, model.known.mean(axis=(0, 1)), strict=True)]
    spreads = model.spreads()
    by_arm = [f"{counts.arms[arm]} {spreads.at(place).text()}" for place, arm in enumerate(arms)]
    found = [
        f"The problems are what {plural(int(counts.pulls.sum()), 'reward')} on record leave possible, by the model of "
        "`posse diagnose`.",
        f"Means over players: {listed(means, MOST_ARMS_SHOWN)}.",
        f"Without sampling noise, the players' levels have standard deviation {model.levels().text()}, and what "
        f"the arms do beyond that {model.contrasts().text()}.",
        *(() if model.tells_contrasts else (NOT_TOLD,)),
        f"95 % of the pairs of players differ by less than, arm by arm: {listed(by_arm, MOST_ARMS_SHOWN)}.",
        f"ε = {right:g}: on the arm where players differ most, 95 % of the pairs differ by less than "
        f"{model.spread().text()}.",
    ]
    if given is not None:
        low, high = model.spread()[1:]
        where = "below that interval" if given < low else "above that interval" if given > high else "within it"
        found.append(f"The ε given, {given:g}, is {where}.")
    return tuple(found)


def _negative(difference: Difference) -> Difference:
    return Difference(-difference.mean, -difference.high, -difference.low, difference.level, difference.units)


def _assumptions(plan: Plan) -> list[str]:
    problems, seed = plan.result.problems, plan.result.seed
    share = np.mean([(p.means.argmax(axis=1) == p.means.mean(axis=0).argmax()).mean() for p in problems])
    lead = plan.unit * np.mean([np.diff(np.sort(problem.means, axis=1)[:, -2:]).mean() for problem in problems])
    return [
        f"{len(plan.players)} players, {len(plan.arms)} arms, {_traffic(plan)}: {plan.decisions.sum():,} in all.",
        *plan.assumed,
        *_forced(plan),
        f"{len(problems)} problems were drawn so, seed {seed}. In them, the arm that is best over all players is also "
        f"the best for {100 * share:.0f} % of the players; a player's best arm leads its second best by {lead:.2g} on "
        "average.",
    ]


def _traffic(plan: Plan) -> str:
    low, high = int(plan.decisions.min()), int(plan.decisions.max())
    shown = f"{plural(high, 'decision')} each" if low == high else f"{low:,} to {high:,} decisions each"
    return shown if plan.days is None else f"{shown} in {plural(plan.days, 'day')}"


def _forced(plan: Plan) -> list[str]:
    """What floor and holdout mean, and how their cost is computed."""
    if not plan.forced:
        return []
    given = [f"a floor of {plan.floor:g}"] * (plan.floor > 0) + [f"a holdout of {plan.holdout:g}"] * (plan.holdout > 0)
    return [
        f"With {' and '.join(given)}, {100 * plan.forced:.3g} % of the decisions are drawn with equal shares. The "
        "others are taken to lose as much as without; in fact a policy learns from all of them."
    ]


def _test_length(plan: Plan) -> str:
    """How long the test with equal shares takes."""
    if plan.days is not None:
        return f"for {plan.test.part * plan.days:.2g} of {plural(plan.days, 'day')}"
    return f"for {100 * plan.test.part:.0f} % of the run"


def _ending(plan: Plan) -> str:
    """After how many decisions the experiment can end."""
    named = "these least shares" if plan.forced else f"a policy and --floor {plan.least_shares[-1]:g}"
    half, late = (
        [_when(plan, plan.decisions_to_ship(least, part)) for least in plan.least_shares] for part in (0.5, LATE)
    )
    after = " and ".join(f"{each} with {how}" for each, how in zip(half, ("equal shares", named), strict=False))
    return (
        f"`posse conclude` can say which arm to ship for everybody after {after}, in half of the experiments; in "
        f"{100 * LATE:.0f} % of them after {' and '.join(late)}. The run has {plan.decisions.sum():,} decisions."
        + ("" if plan.forced else " With neither floor nor holdout there may be no end.")
    )


def _when(plan: Plan, decisions: float) -> str:
    """A number of decisions of all players, to two digits, and the days that they take."""
    most = 100 * int(plan.decisions.sum())
    if decisions > most:
        return f"more than {most:,} decisions"
    shown = f"about {float(f'{decisions:.2g}'):,.0f} decisions"
    days = 0 if plan.days is None else decisions / plan.decisions.sum() * plan.days
    return f"{shown} ({float(f'{days:.2g}'):,g} days)" if days else shown


def table_title(plan: Plan) -> str:
    """What the table is about."""
    earned = amount(float(plan.attainable.mean()))
    return f"Rewards lost against always choosing each player's best arm, which earns {earned}:"


def policy_table(plan: Plan) -> list[list[str]]:
    """A line for each policy compared, below the headings."""
    attainable = float(plan.attainable.mean())
    rows = [["policy", "", "lost", "a player", "percent", "saves, of what is lost alone (95 %)"]]

    def add(label: str, role: str, lost: float, saving: Difference | None) -> None:
        share = f"{100 * lost / attainable:.1f} %" if attainable > 0 else "–"
        saved = "" if saving is None else percent(saving)
        rows.append([label, role, amount(lost), amount(lost / len(plan.players)), share, saved])

    for policy in plan.compared:
        saving = None if policy == plan.alone else plan.saving(policy)
        add(plan.labels[policy], _role(plan, policy), plan.mean_lost(policy).mean, saving)
        if policy == plan.learned and plan.lost_untold is not None:
            told = "the same, attributes not told"
            add(plan.labels[policy], told, float(plan.lost_untold.mean()), plan.saving_untold)
    for name, how in ((EQUAL, "throughout"), (TESTED, _test_length(plan))):
        add(name, how, plan.mean_lost(name).mean, plan.saving(name))
    return rows


def _role(plan: Plan, number: int) -> str:
    """What a policy stands for in this plan, in a few words."""
    roles: dict[int | None, str] = {plan.pooled: "pooling blindly", plan.alone: "alone"}
    for policy, epsilon in zip(plan.sweep, plan.sweep_epsilons, strict=True):
        roles[policy] = "sharing, ε too small" if epsilon < plan.epsilon else "sharing, ε too large"
    roles |= {plan.given: "sharing, ε as given", plan.right: "sharing, right ε"}  # the right one, if they are the same
    return roles.get(number) or role(plan.result.policies[number])


def _sharing(plan: Plan) -> str:
    saving, how = plan.saving(plan.right), f"ε = {plan.epsilon:g} (RobustAgg-TS)"
    if saving.high >= 0:
        unclear = f"a stated ε makes no clear difference here: with {how} it"
        return (
            f"Sharing with {how if saving.low > 0 else unclear} saves {percent(saving)} of what learning alone loses."
        )
    more, savings = percent(_negative(saving)), [plan.saving(policy) for policy in plan.sweep]
    best = int(np.argmax([other.mean for other in savings]))
    if savings[best].low > 0:
        return (
            f"Sharing with {how} loses {more} more than learning alone; the ε tried that does best, "
            f"{plan.sweep_epsilons[best]:.3g}, saves {percent(savings[best])}."
        )
    return f"Sharing with a stated ε does not pay here: with {how} it loses {more} more than learning alone."


def _wrong(plan: Plan, words: str, policy: int) -> str:
    """What one wrong ε changes, and whether sharing with it is better than learning alone."""
    change, against_alone = plan.difference(policy, plan.right), _beside_alone(plan, policy)
    text, turn = f"about as much as with the right one ({with_interval(change)} more)", ""
    if change.low > 0:
        text, turn = f"{with_interval(change)} more than with the right one", "less"
    elif change.high < 0:
        text, turn = f"{with_interval(_negative(change))} less than with the right one", "more"
    return (
        f"With {words} it loses {text}, {'but' if turn and against_alone.startswith(turn) else 'and'} {against_alone}."
    )


def _beside_alone(plan: Plan, policy: int) -> str:
    saving = plan.saving(policy)
    if saving.low > 0:
        return "less than learning alone"
    return "more than learning alone" if saving.high < 0 else "about as much as learning alone"


def _learned(plan: Plan) -> str:
    """What PosseTS saves, and how much of that is due to sharing if its like that learns alone is compared too."""
    saved = f"PosseTS, which needs no ε, saves {percent(plan.saving(plan.learned))} of what Ind-TS loses"
    if plan.learned_alone is None:
        return f"{saved}."
    other = percent(plan.saving(plan.learned, plan.learned_alone))
    return f"{saved}, and {other} of what Ind-TS-V loses, which models the noise as PosseTS does and learns alone."


def _worth(plan: Plan) -> list[str]:
    """What telling PosseTS the players' attributes is worth."""
    if plan.worth is None or plan.lost_untold is None:
        return []
    told, untold = (amount(float(lost.mean())) for lost in (plan.lost[plan.learned], plan.lost_untold))
    losses = f"it loses {told} if it is told and {untold} if it is not"
    if plan.worth.low > 0:
        return [f"Telling PosseTS the attributes saves {percent(plan.worth)} of its loss: {losses}."]
    if plan.worth.high < 0:
        more = percent(_negative(plan.worth))
        return [f"Telling PosseTS the attributes does not pay here: it loses {more} more: {losses}."]
    return [
        f"Telling PosseTS the attributes makes no clear difference here: {losses}, a saving of {percent(plan.worth)}."
    ]


def _unequal_traffic(plan: Plan) -> list[str]:
    """What the busiest and the quietest player lose, if traffic differs."""
    ends = plan.decisions.max(), plan.decisions.min()
    if ends[0] == ends[1]:
        return []
    lost = plan.lost_by_player.mean(axis=1)
    busy, quiet = (
        [amount(float(lost[policy, plan.decisions == end].mean())) for policy in (plan.alone, plan.learned)]
        for end in ends
    )
    return [
        f"The busiest player ({ends[0]:,} decisions) loses {busy[0]} alone and {busy[1]} with PosseTS; the quietest "
        f"({ends[1]:,}) loses {quiet[0]} and {quiet[1]}."
    ]
