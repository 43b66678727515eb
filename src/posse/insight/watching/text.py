"""What was watched in words. Each sentence is made here once, for the command line, pages and the dashboard."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from posse.text import align, bullets, interval_decimals, plural, shorten, with_ends

if TYPE_CHECKING:
    from posse.insight.watching.api import Effect, GuardState, ShareCheck, Watch
    from posse.insight.watching.evidence import WatchEvidence

WHAT = {
    "choices": ("choices follow their probabilities", "the log's probabilities are not those of what was done"),
    "rewards": ("rewards arrive alike for all arms", "rewards of some arms are lost or late, so means are not fair"),
}


def to_text(watch: Watch) -> str:
    """How much was seen, the checks, the effects, the guards, and notes."""
    lines = [*(check_sentence(each, watch.arms) for each in watch.checks), *map(effect_sentence, watch.effects)]
    guards = "\n".join(align(guard_table(watch.guards))) if watch.guards else ""
    return "\n\n".join(part for part in (seen(watch), bullets(lines), guards, bullets(watch.notes)) if part)


def seen(watch: Watch) -> str:
    """How much was seen."""
    return f"{plural(watch.decisions, 'decision')}, {watch.answered:,} with rewards, {plural(len(watch.arms), 'arm')}"


def overall_table(watch: Watch) -> list[list[str]]:
    """A line for each check, effect and guard below the headings, alarms first."""
    rows = [
        (each.alarm is None, [WHAT[each.about][0], f"{each.decisions:,}", "ALARM" if each.alarm else "no alarm"])
        for each in watch.checks
    ]
    for effect in watch.effects:
        earned = with_ends(effect.value, effect.low, effect.high, "+")
        against = f"the control {shorten(effect.against)!r}" if effect.control else "the holdout"
        rows.append((True, [f"adaptive part minus {against}", f"{effect.decisions:,}", earned]))
    for guard, (outcome, arm, decisions, mean, bound, _) in zip(
        watch.guards, guard_table(watch.guards)[1:], strict=True
    ):
        state = f"{'ALARM, ' if guard.alarm else ''}{mean}, {bound}"
        rows.append((not guard.alarm, [f"{outcome} of {arm}", decisions, state]))
    return [["", "decisions", "found"], *(row for _, row in sorted(rows, key=lambda pair: pair[0]))]


def check_sentence(check: ShareCheck, arms: Sequence[str]) -> str:
    """What a check says."""
    fine, broken = WHAT[check.about]
    needed = f"an alarm takes {1 / check.level:,.0f} : 1"
    if check.alarm is None:
        evidence = math.exp(min(check.evidence, 700.0))
        seen = f"{plural(check.decisions, 'decision')} show{'s' * (check.decisions == 1)}"
        return f"{fine}, as far as {seen} (evidence {evidence:,.1f} : 1; {needed})"
    found = check.alarm
    which = "whichever arm was the likeliest" if found.arm is None else f"arm {arms[found.arm]!r}"
    often = "too often" if found.observed > found.expected else "too rarely"
    digits = interval_decimals(0, 100 * abs(found.observed - found.expected))
    there = "chosen" if check.about == "choices" else "among the decisions with rewards"
    return (
        f"ALARM: {which} is {there} {often}: {found.observed:.{digits}%} of decisions {found.began + 1:,} to "
        f"{found.noticed:,}, where its probabilities say {found.expected:.{digits}%}; {broken}"
    )


def effect_sentence(effect: Effect) -> str:
    """What the adaptive part earns, a decision and in total."""
    against = f"the control {effect.against!r}" if effect.control else "the holdout"
    verdict = f"the adaptive part earns {'less' if effect.high < 0 else 'more'} than {against}"
    if effect.low <= 0 <= effect.high:
        verdict = f"whether {verdict} is not clear yet"
    each, count = with_ends(effect.value, effect.low, effect.high, "+"), effect.decisions
    total = with_ends(count * effect.value, count * effect.low, count * effect.high, "+")
    return f"{verdict}: {each} a decision, {total} in all {plural(count, 'decision')}"


def guard_table(guards: Sequence[GuardState]) -> list[list[str]]:
    """A line for each outcome and arm, below the headings."""
    rows = [["outcome", "arm", "decisions", "mean", "bound", "alarm"]]
    for each in guards:
        mean = "—" if each.mean is None else with_ends(each.mean, each.low, each.high)
        bound = f"at {'most' if each.at_most else 'least'} {each.bound:g}"
        names = shorten(each.outcome), shorten(each.arm)
        rows.append([*names, f"{each.decisions:,}", mean, bound, "ALARM" if each.alarm else "no"])
    return rows


def missing(evidence: WatchEvidence, setup: Mapping[str, Any]) -> Iterator[str]:
    """What cannot be said, and why."""
    if evidence.answers is None:
        yield (
            "whether rewards arrive alike is not checked: decisions without a reward get the default reward, so a "
            "missing reward is no fault"
        )
    if setup["holdout"] == 1:
        yield "arms were drawn with fixed shares throughout, so there is no adaptive part"
    elif evidence.against_holdout is None and evidence.against_control is None:
        yield (
            "what the adaptive part earns cannot be said, because the experiment has neither a holdout nor a control; "
            "the next one may begin with holdout=0.1 or control='ARM'"
        )
    elif evidence.answered == 0:
        yield "what the adaptive part earns cannot be said before the first reward"
    elif evidence.choices.alarm or (evidence.answers and evidence.answers.alarm):
        yield "the alarm makes what the adaptive part earns doubtful: it rests on the logged probabilities"
