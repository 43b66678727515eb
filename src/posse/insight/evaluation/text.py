"""An evaluation in words: its tables, and what a reader should know before trusting it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from posse.insight.evaluation.estimators import FOLDS
from posse.insight.evaluation.model import Estimate, Interval, ScoredTarget
from posse.insight.evaluation.rows import Rows, average_weight
from posse.insight.evaluation.targets import FIRST_JUDGE, Target
from posse.insight.logs import left_out as left_out_rewards
from posse.text import align, align_blocks, bullets, fixed, interval_decimals, listed, plural, shorten, with_ends

if TYPE_CHECKING:
    from posse.insight.evaluation.api import Evaluation

LISTED = 50  # segments for which an arm is best
SHOWN = 20  # players in the text: those with most rows
HANDFUL = 30  # fewer effective rows than this are called a handful
CERTAIN = 1 - 1e-12  # from this propensity on, nothing else could have been played
WHY = {
    "normal": "normal, corrected for skewness: the rewards vary enough for their range",
    "weighted": "normal, from rows weighted by how freely the log could choose. They hold for one look at the log, if "
    "the arms' means stay the same over time; those of estimator dr do not need that, and are wider",
    "betting": "by betting, which holds for any rewards in their range: {}",
    "martingale": "from bounds that hold for any rewards in their range: the rewards vary too little for a normal "
    "interval, or rows are few, and choices depended on earlier rewards",
    "replay": "Student's, with the variance between passes of the replay",
}
"""Why an interval is of its kind."""
FEW = "the rewards vary too little for a normal interval, or rows are few, so a rare large reward may not have come yet"
LEARNED = (
    "choices depended on earlier rewards, so errors need not be normal. For differences between arms, `posse diagnose` "
    "has narrower intervals, from a model of the players"
)


def to_text(evaluation: Evaluation) -> str:
    """What was judged from how much data, the values overall and by player, and notes."""
    parts = [headline(evaluation), "\n".join(align(overall_table(evaluation)))]
    for title, columns in player_tables(evaluation) if len(evaluation.players) > 1 else ():
        made = ["\n".join(block) for block in align_blocks(columns[:2], columns[2:])]  # as many as fit a line
        parts += [f"{title}\n{made[0]}" if title else made[0], *made[1:]]
    parts += [f"… {more}" for more in left_out(evaluation)]
    return "\n\n".join([*parts, bullets([*kinds_of_intervals(evaluation), *evaluation.notes])])


def headline(evaluation: Evaluation) -> str:
    """How much data there is, and how its arms were chosen."""
    groups = plural(len(evaluation.players), "player" if evaluation.by == "player" else "value")
    groups += "" if evaluation.by == "player" else f" of {evaluation.by}"
    return (
        f"{evaluation.reward} of {plural(evaluation.rows, 'decision')}, {groups}, "
        f"{plural(len(evaluation.arms), 'arm')}, chosen "
        + ("by a policy that learns" if evaluation.adaptive else "at random, not by what was learned")
    )


def overall_table(evaluation: Evaluation) -> list[list[str]]:
    """A line for each target, below the line of headings."""
    against = [] if evaluation.against is None else [f"minus {shorten(evaluation.against, 19)}"]
    interval = f"{100 * (1 - evaluation.level):g} % interval"
    rows = [["", "value", interval, "total", *against, "rows", "effective", "largest weight"]]
    for each in evaluation.estimates:
        if each.player is None:
            difference = [_shown(each.difference, "+")] if against else []
            value, _, ends = _shown(each).partition(" ")
            sizes = [f"{each.rows:,.0f}", f"{each.effective_rows:,.0f}", f"{each.largest_weight:,.3g}"]
            rows.append(
                [shorten(each.target, 40), value, ends or value, _total(each, evaluation.rows), *difference, *sizes]
            )
    return rows


def player_tables(evaluation: Evaluation) -> list[tuple[str, list[list[str]]]]:
    """Values by player, and differences by player if there are any: a title, and columns that begin with a heading."""
    players = evaluation.players[:SHOWN]
    targets = [each.target for each in evaluation.estimates if each.player is None]
    values, differences = [], []
    for target in targets:
        found = [evaluation.of(target, player) for player in players]
        values.append([shorten(target, 24), *map(_shown, found)])
        if any(each.difference for each in found):
            differences.append([shorten(target, 24), *(_shown(each.difference, "+") for each in found)])
            differences.append(["shrunken", *(_shrunken(each) for each in found)])
    first = [[evaluation.by, *players], ["rows", *(f"{rows:,}" for rows in evaluation.player_rows[:SHOWN])]]
    tables = [("", [*first, *values])]
    if differences:
        tables.append((f"minus {evaluation.against}:", [*first, *differences]))
    return tables


def left_out(evaluation: Evaluation) -> list[str]:
    """Where the players are that the tables leave out, if there are any."""
    if len(evaluation.players) <= SHOWN:
        return []
    more = plural(len(evaluation.players) - SHOWN, f"more {evaluation.by}")
    return [f"{more} with {sum(evaluation.player_rows[SHOWN:]):,} rows are in to_dict() and in --json"]


def _shown(found: Estimate | Interval | None, sign: str = "") -> str:
    """A value with its interval; — where there is none."""
    if found is None or math.isnan(found.value):
        return "—"
    return with_ends(found.value, found.low, found.high, sign)


def _total(estimate: Estimate, rows: int) -> str:
    """What so many decisions would earn; a policy that learns earns something else later."""
    if math.isnan(estimate.value) or estimate.estimator == "replay":
        return "—"
    return fixed(rows * estimate.value, min(interval_decimals(rows * estimate.low, rows * estimate.high), 2))


def _shrunken(estimate: Estimate) -> str:
    found = estimate.difference
    if found is None or found.shrunken is None:
        return "—"
    digits = interval_decimals(-2 * found.shrunken_error, 2 * found.shrunken_error)
    return f"{fixed(found.shrunken, digits, '+')} ± {fixed(2 * found.shrunken_error, digits)}"


def kinds_of_intervals(evaluation: Evaluation) -> Iterator[str]:
    """Which kinds of intervals there are, for what, and why."""
    several = len(evaluation.players) > 1
    for kind, why in WHY.items():
        whole = [each.target for each in evaluation.estimates if each.interval == kind and each.player is None]
        parts = several * sum(each.interval == kind and each.player is not None for each in evaluation.estimates)
        if whole or parts:
            by_player = [f"{plural(parts, 'value')} by {evaluation.by}"] if parts else []
            names = listed([*(shorten(name, 24) for name in whole), *by_player])
            yield f"intervals of {names}: {why.format(LEARNED if evaluation.adaptive else FEW)}"
    yield from _wider_differences(evaluation)
    if any(each.difference and each.difference.shrunken is not None for each in evaluation.estimates):
        yield (
            "shrunken: the difference pulled towards those of the others, the more so the less sure it is, with the "
            f"same mean over all rows; the better guess for one {evaluation.by}. The raw difference is unbiased, "
            f"because it uses no other {evaluation.by}'s rows"
        )


def _wider_differences(evaluation: Evaluation) -> Iterator[str]:
    """Which differences overall have another kind of interval than their values, and why."""
    names = [
        shorten(each.target, 24)
        for each in evaluation.estimates
        if each.player is None and each.difference and each.difference.kind == "betting" != each.interval
    ]
    if names:
        why = "one of the two was chosen too rarely" if evaluation.adaptive else "the differences vary too little"
        yield (
            f"intervals of the differences of {listed(names)} overall: by betting, which makes them wider: {why} for a "
            "normal interval"
        )


def target_warnings(rows: Rows, everything: Rows, scored: ScoredTarget, *, learned: bool) -> Iterator[str]:
    """What to know about one target: by which rows it is judged, and in which ones it could not have been played."""
    part, whole = rows.arm.size, everything.arm.size
    if part < whole and not learned:
        yield (
            f"{scored.name} is judged by {part:,} of the {whole:,} rows: those in which all that it plays was on offer"
        )
    blind = float(((rows.propensity >= CERTAIN) & (scored.weights < CERTAIN)).mean())
    if blind > 0:
        yield (
            f"{scored.name}: in {blind:.1%} of the rows the log could play nothing else. They say nothing about "
            "it; its interval allows for that, its value does not"
        )


def learned(targets: Sequence[Target], rows: Rows) -> Iterator[str]:
    """How targets were learned from the log, and what it says is best."""
    if not targets:
        return
    how = f"rows are dealt to {FOLDS} parts, and each of the last {FOLDS - FIRST_JUDGE} judges what those before it say"
    if rows.adaptive:
        how = f"what the first {rows.arm.size // 2:,} rows say is best is judged by the others"
    yield f"learned from the log are {listed(each.name for each in targets)}: {how}"
    for each in targets:
        by_arm: dict[str, list[str]] = {}
        for segment, arm in each.learned.items():
            by_arm.setdefault(arm, []).append(segment)
        best = "; ".join(f"{arm} for {listed(segments, LISTED)}" for arm, segments in by_arm.items())
        yield f"{each.name}, as all rows say: {best}"


def clustered(players: int, rows: Rows) -> Iterator[str]:
    """What it means if so many players have arms more or less often than draws row by row would give."""
    if players:
        yield (
            f"{players:,} of {plural(len(rows.players), 'player')} have an arm more or less often than rows drawn one "
            "by one would: propensities are wrong, or arms were drawn for whole batches, such as a player's day. Then "
            "intervals are too narrow; give one row for each batch, with its mean reward"
        )


def doubtful_arms(rows: Rows) -> Iterator[str]:
    """Arms whose weights do not average 1, as they must if propensities are right."""
    found = [(name, *average_weight(rows, arm)) for arm, name in enumerate(rows.arms)]
    far = [
        f"{shorten(name, 40)} (average {mean:.3g} ± {error:.2g})"
        for name, mean, error, allowed in found
        if abs(mean - 1) > allowed
    ]
    if far and rows.adaptive:
        yield (
            f"the weights of an arm average 1 if it is always on offer, but see {listed(far)}: it was not always on "
            "offer, or was played rarely. The intervals allow for both, but values may lean to where the model starts "
            "(dr) or to the least reward (ips)"
        )
    elif far:
        yield f"weights should average 1, but see {listed(far)}: the propensities do not fit what was played"


def general_warnings(rows: Rows, estimates: Sequence[Estimate], level: float, by: str) -> Iterator[str]:
    """What to know about the whole evaluation, if results are shown `by` this."""
    for each in estimates:
        if each.player is None and each.estimator == "replay":
            yield f"{each.target} learns: the value is that of its first {each.rows:,.0f} decisions; longer runs differ"
    few = [each.target for each in estimates if each.player is None and each.effective_rows < HANDFUL]
    if few:
        yield f"fewer than {HANDFUL} effective rows, a handful of decisions: {listed(few)}"
    by_player = [each for each in estimates if each.player is not None]
    if len(rows.players) > 1 and by_player:
        few_rows = sum(each.effective_rows < HANDFUL for each in by_player)
        if few_rows:
            yield f"{few_rows:,} of the {len(by_player):,} values by {by} rest on fewer than {HANDFUL} effective rows"
    if any(math.isnan(each.value) for each in by_player):
        yield f"—: no row of that {by} has an arm that the policy plays, while it was on offer"
    if len(by_player) * level >= 1:
        yield (
            f"each interval misses the truth with probability {level:g}: among these {len(estimates):,}, "
            f"expect up to {len(estimates) * level:.0f} misses"
        )
    yield from (each.rstrip(".") for each in left_out_rewards(rows.early, rows.given_up))
    if rows.early is None and (rows.missing or rows.given_up):
        gone = f" and {plural(rows.given_up, 'decision')} that the learner gave up" if rows.given_up else ""
        yield (
            f"{plural(rows.missing, 'row')} without a reward{gone} are left out, which is right only if rewards are "
            "not missing because of their value"
        )
    if rows.undrawn:
        yield (
            f"{plural(rows.undrawn, 'row')} without a propensity are left out: nobody knows how likely their arms were"
        )
