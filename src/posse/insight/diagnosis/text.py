"""A diagnosis in words: the answers to five questions, or six if players have attributes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posse.insight.diagnosis.attributes import SIGNIFICANT as SIGNIFICANT
from posse.insight.diagnosis.attributes import explained
from posse.insight.planning.planned_run import PART
from posse.insight.planning.text import percent
from posse.text import align, decimals, listed, plural, shorten, wrap

if TYPE_CHECKING:
    from posse.insight.diagnosis.api import Diagnosis
    from posse.insight.planning.api import Plan

SHOWN = 8  # players in the table of effects
LISTED = 50  # players for whom an arm is likely better
LIKELY = 0.9  # the chance from which on it is called so
MOST_NEEDED = 1_000_000  # rewards of a player and arm that anybody may hope for
NOBODY = "Fewer than two players have rewards on record, so there is nobody to compare."
AS_BINARY = (
    "Counts alone do not say how much rewards vary: it is taken to be as much as rewards of 0 and 1 of the same mean. "
    "If they vary less, as rates of a day do, the log itself shows much more."
)
NOT_ADDITIVE = "(Levels alone make differences of rewards vary a little; ratios of odds they leave alike.)"
UNTOLD = "the data cannot tell levels from what the arms do"
POWER = 2.8  # standard errors between nothing and what is found in four of five cases: 1.96 + 0.84


class DiagnosisAnswer(NamedTuple):
    """A question, the answer in sentences, and perhaps a table."""

    question: str
    sentences: str
    table: Sequence[Sequence[str]] = ()
    sides: str = "<>>>><"  # how the table's columns are aligned


def answers(diagnosis: Diagnosis) -> list[DiagnosisAnswer]:
    """The answers in their order; none if there is nobody to compare."""
    if not diagnosis.model.comparable:
        return []
    found = [_level(diagnosis), _contrast(diagnosis)]
    if diagnosis.shares is not None:
        found.append(DiagnosisAnswer("What explains it?", *explained(diagnosis, diagnosis.shares), "<><<<"))
    return [*found, _for_whom(diagnosis), _which(diagnosis), _stated(diagnosis)]


def to_text(diagnosis: Diagnosis) -> str:
    """The answers, how much is shared, and what would make all of it void."""
    parts = [
        "\n".join([wrap(f"{question} {sentences}"), *align(table, sides)])
        for question, sentences, table, sides in answers(diagnosis)
    ]
    rewards, players = int(diagnosis.pulls.sum()), len(diagnosis.players)
    read = f"{plural(rewards, 'reward')} of {plural(players, 'player')} on {plural(len(diagnosis.arms), 'arm')}."
    return "\n\n".join([read, *(parts or [NOBODY]), "\n".join(map(wrap, conditions(diagnosis)))])


def conditions(diagnosis: Diagnosis) -> list[str]:
    """How much is shared, what is taken for granted or left out, and what would make all of it void."""
    found = [_shared(diagnosis), None if diagnosis.data.counts.squares is not None else AS_BINARY, *diagnosis.notes]
    return [line for line in (*found, _void(diagnosis)) if line is not None]


def headline(diagnosis: Diagnosis) -> str:
    """The verdict in one line: about ε if there is one, else about how players differ.

    >>> from posse.insight.diagnosis.api import diagnose
    >>> from posse.learner import Counts
    >>> counts = Counts(("north", "south"), ("old",), np.array([[400], [400]]), np.array([[80.0], [240.0]]))
    >>> print(headline(diagnose(counts, epsilon=0.1)))
    ε = 0.1 is broken by arm old: players south and north differ by at least 0.255
    """
    epsilon = diagnosis.epsilon
    if not diagnosis.model.comparable:
        return NOBODY
    if diagnosis.alarm:
        return f"ε = {epsilon:g} is broken by {_proven(diagnosis)}"
    if epsilon is not None:
        likely = "is probably too small, but not shown to be" if epsilon < diagnosis.spread.low else "holds so far"
        return f"ε = {epsilon:g} {likely}; {_proven(diagnosis)}"
    levels, effects = diagnosis.model.level_p < SIGNIFICANT, diagnosis.model.contrast_p < SIGNIFICANT
    if levels and effects:
        return "Players differ in level and in what the arms do"
    if levels:
        return "Players differ in level; no difference in what the arms do shows"
    if effects:
        return "Players differ in what the arms do"
    return f"Players differ, but {UNTOLD}" if diagnosis.differ else "No difference between players shows"


def _proven(diagnosis: Diagnosis) -> str:
    arm = int(diagnosis.bounds.argmax())
    pair = diagnosis.pairs[arm]
    if pair is None:
        return "no two players are shown to differ at all"
    first, second = map(shorten, pair)
    name, least = shorten(diagnosis.arms[arm]), f"{diagnosis.bound:{_decimals(diagnosis)}}"
    return f"arm {name}: players {first} and {second} differ by at least {least}"


def _level(diagnosis: Diagnosis) -> DiagnosisAnswer:
    model = diagnosis.model
    players = plural(int(model.there[0].sum()), "player")
    levels = diagnosis.levels
    shown = f"standard deviation {levels.text()} between {players}, {_p(model.level_p)}"
    # If what the arms do differs, so do means over the arms, by chance: that is no level.
    by_chance = model.contrast_p < SIGNIFICANT and levels.low > 0
    otherwise = "No difference shows that is the same on every arm" if by_chance else None
    return DiagnosisAnswer("Do players differ in level?", f"{_yes(diagnosis, model.level_p, otherwise)}: {shown}.")


def _contrast(diagnosis: Diagnosis) -> DiagnosisAnswer:
    model = diagnosis.model
    question = "Does what the arms do differ between players?"
    if not model.tells_contrasts:
        return DiagnosisAnswer(question, "The data cannot tell: players have rewards on too few of the same arms.")
    odds = model.odds_deviation(diagnosis.level).text()
    shown = (
        f"{_yes(diagnosis, model.contrast_p)}: standard deviation {diagnosis.contrasts.text()} beyond their levels, "
        f"{_p(model.contrast_p)}; on the scale of log-odds τ = {odds}; I² = {100 * model.i_squared:.0f} % of the "
        "variation seen is not noise."
    )
    if model.contrast_p < SIGNIFICANT:
        return DiagnosisAnswer(question, shown)
    # Where rates differ, equal odds ratios are different differences.
    odd = f" {NOT_ADDITIVE}" if diagnosis.contrasts.low > 0 else ""
    return DiagnosisAnswer(question, f"{shown}{odd} {_needed(diagnosis)}".strip())


def _needed(diagnosis: Diagnosis) -> str:
    """How many rewards would show contrasts as large as the lead of the best arm, in four of five cases."""
    model, lead = diagnosis.model, abs(float(diagnosis.effect.value)) / diagnosis.model.unit
    mean = float((model.known.mean() - diagnosis.low) / model.unit)
    players, arms = (int(there.sum()) for there in model.there)
    variance = mean * (1 - mean) * model.dispersion
    if lead < 1e-9 or variance < 1e-12:
        return ""
    each = POWER * math.sqrt(2 / max((players - 1) * (arms - 1), 1)) * variance / lead**2
    cells = diagnosis.pulls[diagnosis.pulls > 0]
    have = len(cells) / float((1 / cells).sum())
    first, second = (shorten(diagnosis.arms[arm]) for arm in diagnosis.compared)
    needed = f"about {plural(math.ceil(each), 'reward')} for each player and arm"
    if each > MOST_NEEDED:
        return (
            f"To show differences as large as the lead of {first} over {second}, more than {MOST_NEEDED:,} rewards for "
            "each player and arm would be needed, which is more than can be had: that lead is next to nothing."
        )
    if each <= have:
        return f"There is enough data to show differences as large as the lead of {first} over {second}."
    return (
        f"To show differences as large as the lead of {first} over {second}, {needed} would do; the data is worth "
        f"{have:,.0f} for each (the harmonic mean)."
    )


def _for_whom(diagnosis: Diagnosis) -> DiagnosisAnswer:
    first, second = diagnosis.compared
    if first == second:
        return DiagnosisAnswer("For whom?", "There is one arm with rewards, and nothing to compare it with.")
    effects, overall = diagnosis.effects, diagnosis.effect
    values = effects.value
    there = np.flatnonzero(diagnosis.model.there[0])
    order = there[np.argsort(values[there], kind="stable")]
    names = [shorten(diagnosis.arms[arm]) for arm in (first, second)]
    above, below = int((effects.low[there] > 0).sum()), int((effects.high[there] < 0).sum())
    half = SHOWN // 2
    ends = f": the {half} largest and the {half} smallest (to_dict() and --json have all)" if len(order) > SHOWN else ""
    title = (
        f"{names[0]} minus {names[1]} is {overall.text('+')} with each player counted alike, and "
        f"{diagnosis.effect_by_traffic.text('+')} by traffic. Of the {len(there)} players' own intervals, {above} "
        f"{'lies' if above == 1 else 'lie'} above 0 and {below} below.{_sides(diagnosis, there)} By player, drawn "
        f"together as far as the data allows{ends}:"
    )
    shown = order if len(order) <= SHOWN else np.concatenate([order[:half], order[-half:]])
    rows = [["", "rewards", "difference"]]
    for player in shown[::-1]:
        pulls = f"{diagnosis.pulls[player].sum():,}"
        rows.append([shorten(diagnosis.players[player]), pulls, effects.at(player).text("+")])
    if len(order) > SHOWN:
        rows.insert(1 + half, [f"… {len(order) - SHOWN:,} more …", "", ""])
    return DiagnosisAnswer("For whom?", title, rows)


def _sides(diagnosis: Diagnosis, there: np.ndarray) -> str:
    """Who is likely better off with which of the two arms, if each is likely better for somebody."""
    chances, found = diagnosis.effect_chances[there], []
    for arm, likely in zip(diagnosis.compared, (chances >= LIKELY, chances <= 1 - LIKELY), strict=True):
        names = [shorten(diagnosis.players[player]) for player in there[likely]]
        if not names:
            return ""
        found.append(f"{shorten(diagnosis.arms[arm])} is likely better for {listed(names, LISTED)}")
    unclear = len(there) - int(((chances >= LIKELY) | (chances <= 1 - LIKELY)).sum())
    rest = f" ({plural(unclear, 'player')} could be either)" if unclear else ""
    return f" With a chance of at least {100 * LIKELY:g} % each, {found[0]}, and {found[1]}{rest}."


def _which(diagnosis: Diagnosis) -> DiagnosisAnswer:
    spread = diagnosis.spread
    found = (
        f"95 % of the pairs of players differ by less than {spread.text()} on the arm where they differ "
        "most. Levels count in this, because RobustAgg-TS shares whole means. PosseTS needs no ε."
    )
    if diagnosis.costs is None:
        costs = " `posse plan --from LOG` says what each choice costs." if plannable(diagnosis.pulls) else ""
        return DiagnosisAnswer("Which ε?", f"{found}{costs}")
    plan = diagnosis.costs
    savings = [plan.saving(policy) for policy in plan.sweep]
    best = int(np.argmax([saving.mean for saving in savings]))
    learned, ahead = plan.saving(plan.learned), savings[best]
    advice = "PosseTS" if learned.mean >= ahead.mean else f"RobustAgg-TS with ε = {plan.sweep_epsilons[best]:.2g}"
    if max(learned.mean, ahead.mean) <= 0:
        advice = "learning alone"
    title = (
        f"{found} The ε that most pairs keep need not be the one that saves most. With as much traffic again, "
        f"{advice} would do best here. Each choice saves, of what learning alone loses:"
    )
    rows = [["", "saves", ""], ["PosseTS", percent(plan.saving(plan.learned)), "no ε"]]
    for place in dict.fromkeys((best, plan.sweep.index(plan.right))):
        which = "the best ε tried" if place == best else _right(plan)
        rows.append([f"RobustAgg-TS({plan.sweep_epsilons[place]:.3g})", percent(savings[place]), which])
    if plan.given is not None and plan.given not in (plan.right, plan.sweep[best]):
        rows.append([plan.labels[plan.given], percent(plan.saving(plan.given)), "the ε stated"])
    rows.append(["Naive-Agg", percent(plan.saving(plan.pooled)), "pools blindly"])
    return DiagnosisAnswer("Which ε?", title, rows)


def _right(plan: Plan) -> str:
    """What the ε is that a plan takes for right."""
    spread = None if plan.model is None else plan.model.spread()
    return "the ε above" if spread is None or spread.value >= PART * spread.high else "a fifth of the end above"


def plannable(pulls: np.ndarray) -> bool:
    """Whether a run can be planned from these pulls, [player, arm]: arms have rewards, and some arm two players'."""
    players = (pulls > 0).sum(axis=0)
    return bool(len(players) > 1 and players.min() > 0 and players.max() > 1)


def _stated(diagnosis: Diagnosis) -> DiagnosisAnswer:
    others = len(diagnosis.broken) - 1
    more = f" Also by {plural(others, 'other arm')}." if others > 0 else ""
    stated = f"None is stated; {_proven(diagnosis)}" if diagnosis.epsilon is None else headline(diagnosis)
    guaranteed = f"(Guaranteed: the chance of ever raising a false alarm is at most {diagnosis.level:g}.)"
    return DiagnosisAnswer("Is ε right?", f"{stated}.{more} {guaranteed}", arm_table(diagnosis))


def why_no_estimate(diagnosis: Diagnosis, arm: int) -> str:
    """Why an arm has no estimate."""
    return "too few rewards from two players" if diagnosis.pulls[:, arm].any() else "no rewards"


def arm_table(diagnosis: Diagnosis) -> list[list[str]]:
    """A line for each arm below the headings: how much is known, and how far players differ on it."""
    spreads, show = diagnosis.spreads, _decimals(diagnosis)
    rows = [["arm", "rewards", "players", "at least", "95 % of pairs within", "between"]]
    for arm, name in enumerate(diagnosis.arms):
        pulls = diagnosis.pulls[:, arm]
        row = [shorten(name), f"{pulls.sum():,}", str((pulls > 0).sum()), f"{diagnosis.bounds[arm]:{show}}"]
        spread = spreads.at(arm)
        row += ["–" if math.isnan(spread.value) else spread.text()]
        row += [" and ".join(map(shorten, diagnosis.pairs[arm] or ("–",)))]
        rows.append([*row, "← broken"] if name in diagnosis.broken else row)
    return rows


def _shared(diagnosis: Diagnosis) -> str | None:
    shared = diagnosis.shared
    if shared is None or np.isnan(shared).all():
        return None
    least, most = int(np.nanargmin(shared)), int(np.nanargmax(shared))
    text = f"Other players' data has {np.nanmean(shared):.0%} of the weight in decisions"
    if f"{shared[least]:.0%}" == f"{shared[most]:.0%}":
        return f"{text}, for every player."
    return (
        f"{text}: from {shared[least]:.0%} ({shorten(diagnosis.players[least])}) "
        f"to {shared[most]:.0%} ({shorten(diagnosis.players[most])})."
    )


def _void(diagnosis: Diagnosis) -> str:
    void = "All this is void if rewards go missing because of their value"
    if diagnosis.data.log is not None and diagnosis.data.log.early is not None:
        return f"{void}; a decision whose reward does not come in time counts with the default reward."
    if diagnosis.missing is None:
        return f"{void}; counts do not show whether any do."
    return f"{void}; {diagnosis.missing:,} of {diagnosis.decisions:,} are missing."


def _yes(diagnosis: Diagnosis, p: float, otherwise: str | None = None) -> str:
    """Yes, or what can be said without a small p-value."""
    if p < SIGNIFICANT:
        return "Yes"
    neither = not min(diagnosis.model.level_p, diagnosis.model.contrast_p) < SIGNIFICANT
    untold = neither and diagnosis.model.tells_contrasts and diagnosis.differ
    return otherwise or (f"They differ, but {UNTOLD}" if untold else "No difference shows")


def _p(p: float) -> str:
    return f"p = {p:.2g}" if p >= 1e-99 else "p < 1e-99"


def _decimals(diagnosis: Diagnosis) -> str:
    """A number format with three decimals for rewards in [0, 1], fewer for wider ranges, more for narrower ones."""
    return f".{decimals(diagnosis.low, diagnosis.high, 3)}f"
