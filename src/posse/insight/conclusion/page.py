"""A conclusion on one page of HTML, which needs nothing beside it and prints well."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse.insight.conclusion import text
from posse.insight.report import templates
from posse.insight.watching.text import check_sentence, effect_sentence, guard_table
from posse.text import listed, moment, plural
from posse.version import __version__

if TYPE_CHECKING:
    from posse.insight.conclusion.api import Conclusion
    from posse.insight.watching.api import Watch

LINES, ARMS, LEAST = 14, 10, 3  # of all tables together, of the arms at most, and of the others at least: one page
WIDTH = 200  # of a picture, in its own units


def to_page(
    conclusion: Conclusion, watch: Watch | None, title: str, asked: str, ended: str, at: float | None = None
) -> str:
    """The page."""
    guards = sorted(watch.guards, key=lambda guard: not guard.alarm) if watch else []
    arms = _arms(conclusion)
    alarms = sum(guard.alarm for guard in guards)
    guarded = min(len(guards), max((LINES - len(arms)) // 2, LEAST, alarms))
    return (
        templates(Path(__file__).parent)
        .get_template("page.html")
        .render(
            title=title or "An experiment and its conclusion",
            asked=asked or f"Which of {plural(len(conclusion.arms), 'arm')} is best, and for whom?",
            verdict=text.at_the_end(text.verdict(conclusion)) if ended else text.verdict(conclusion),
            ended=ended,
            state="ship" if conclusion.winner and not conclusion.doubts else "on",
            facts=_facts(conclusion),
            unreliable=text.unreliable(conclusion),
            arms=arms,
            more_arms=len(conclusion.arms) - len(arms),
            costs=text.costs(conclusion) if not ended else [],
            cautions=text.cautions(conclusion),
            effects=_effects(conclusion, watch),
            players=text.player_table(conclusion, max(LINES - len(arms) - guarded, LEAST)),
            checks=[_sentence(check_sentence(check, watch.arms)) for check in watch.checks] if watch else [],
            guards=guard_table(guards[:guarded]) if guards else [],
            more_guards=plural(len(guards) - guarded, "more guard") if len(guards) > guarded else "",
            reading=text.reading(conclusion),
            as_of="" if at is None else f"As of {moment(at)}, {plural(conclusion.decisions, 'decision')}",
            digest=conclusion.digest,
            version=__version__,
        )
    )


def _facts(conclusion: Conclusion) -> list[tuple[str, str]]:
    """How the experiment was set up, and how far it is."""
    setup = conclusion.setup
    shares = dict(setup.get("shares") or {}).items()
    ends = {arm: dict.fromkeys(text.percent(share) for share in limits) for arm, limits in shares}
    found = {
        "decisions": f"{conclusion.decisions:,} ({conclusion.answers:,} with rewards)",
        "players": f"{len(conclusion.players):,}",
        "policy": setup["policy"].get("label") or setup["policy"]["name"],
        "control": setup.get("control") or "",
        "holdout": text.percent(setup["holdout"]) if setup["holdout"] else "",
        "least share": text.percent(setup["floor"]) if setup["floor"] else "",
        "shares": listed([f"{arm}: {' to '.join(limits)}" for arm, limits in ends.items()], 6),
        "burn-in": plural(setup["burn_in"], "decision") if setup.get("burn_in") else "",
        "rewards": f"from {setup['low']:g} to {setup['high']:g}",
        "outcomes": listed(dict(setup.get("outcomes") or {}), 6),
    }
    return [(name, value) for name, value in found.items() if value]


def _arms(conclusion: Conclusion) -> list[dict[str, Any]]:
    """A line for each arm, with where its interval is in the picture."""
    order = text.ordered(conclusion)[:ARMS]
    ends = [end for arm in order if arm.answers for end in (arm.low, arm.high)] or [0.0, 1.0]
    unit = (WIDTH - 8) / max(max(ends) - min(ends), 1e-300)
    found = []
    for arm, cells in zip(order, text.arm_table(conclusion)[1:], strict=False):
        middle = min(max(arm.expected, arm.low), arm.high)
        places = [round(4 + unit * (each - min(ends)), 1) for each in (arm.low, middle, arm.high)]
        line = {"cells": cells, "leads": arm.name == conclusion.leader, "part": round(100 * arm.chance, 1)}
        found.append({**line, "places": places if arm.answers else None})
    return found


def _effects(conclusion: Conclusion, watch: Watch | None) -> list[str]:
    """The leader compared with the control, and what the adaptive part earned."""
    control, found = conclusion.setup.get("control"), []
    if apart := text.known_differences(conclusion).get(control or ""):
        found = [f"Compared with the control {control}, {conclusion.leader} earns {apart} a decision."]
    sentences = [effect_sentence(effect) for effect in watch.effects] if watch else []
    return found + list(map(_sentence, sentences))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
