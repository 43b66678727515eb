"""What the analyses found, in words: are the players alike, and what is sharing worth?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from posse.service.dashboard import words
from posse.service.dashboard.analysis_process import Analysis
from posse.service.dashboard.snapshots import Snapshot
from posse.text import fixed


@dataclass(frozen=True)
class DifferenceRow:
    """How far players differ on an arm."""

    arm: str
    certain: str
    likely: str
    interval: str
    pair: tuple[str, str] | None
    broken: bool


@dataclass(frozen=True)
class DifferencePanel:
    """Whether players are as alike as was said."""

    state: str
    """waiting, early, error, alone (one player), alarm, doubt, fine, or free (no ε was promised)."""
    why: str = ""
    """What went wrong."""
    epsilon: str = ""
    worst: DifferenceRow | None = None
    """The arm on which players are shown to differ most."""
    bound: str = ""
    likely: str = ""
    """By how much players probably differ on the arm on which they differ most; empty if unknown."""
    rows: tuple[DifferenceRow, ...] = ()


@dataclass(frozen=True)
class SavingsPanel:
    """What sharing is worth, as far as can be said."""

    state: str
    """waiting, early, error, alone, more (clearly), less (clearly) or unclear."""
    why: str = ""
    """What went wrong."""
    found: Mapping[str, Any] = field(default_factory=dict)
    """What `analysis.savings` found, with amounts as text; `part` is empty if all decisions were simulated."""


def _found(analysis: Analysis | None, snapshot: Snapshot) -> tuple[str, str, dict[str, Any]]:
    """What an analysis has found. If it has found nothing: the state of its panel, and what went wrong."""
    if not snapshot.rewards:
        return "early", "", {}
    if analysis is None:
        return "waiting", "", {}
    if analysis.found is None:
        return "error" if analysis.error else "early", analysis.error, {}
    return "", "", analysis.found


def difference_panel(analysis: Analysis | None, snapshot: Snapshot) -> DifferencePanel:
    """The diagnosis for people."""
    if len(snapshot.players) < 2:
        return DifferencePanel("alone")
    state, why, found = _found(analysis, snapshot)
    if state:
        return DifferencePanel(state, why)
    spread, epsilon = found["spread"], found["epsilon"]

    def amount(value: float | None) -> str:
        return "–" if value is None else words.amount(value, snapshot.setup.low, snapshot.setup.high)

    rows = []
    for place, arm in enumerate(found["arms"]):
        low, high = spread["lows"][place], spread["highs"][place]
        interval = "" if None in (low, high) else f"{amount(low)} to {amount(high)}"
        pair = tuple(found["pairs"][place]) if found["pairs"][place] else None
        certain, likely = amount(found["bounds"][place]), amount(spread["ranges"][place])
        rows.append(DifferenceRow(arm, certain, likely, interval, pair, arm in found["broken"]))
    worst = max(range(len(rows)), key=lambda place: found["bounds"][place])
    state = "free" if epsilon is None else "fine"
    if found["alarm"]:
        state = "alarm"
    elif epsilon is not None and spread["low"] is not None and epsilon < spread["low"]:
        state = "doubt"
    return DifferencePanel(
        state,
        epsilon="" if epsilon is None else f"{epsilon:g}",
        worst=rows[worst] if found["bound"] > 0 else None,
        bound=amount(found["bound"]),
        likely="" if spread["range"] is None else amount(spread["range"]),
        rows=tuple(rows),
    )


def savings_panel(analysis: Analysis | None, snapshot: Snapshot) -> SavingsPanel:
    """What sharing is worth, for people."""
    state, why, found = _found(analysis, snapshot)
    if state:
        return SavingsPanel(state, why)
    ends = [found["low"], found["middle"], found["high"]]
    state = "more" if ends[0] > 0 else "less" if ends[2] < 0 else "unclear"
    if state == "less":
        ends = [-end for end in reversed(ends)]
    digits = 0 if abs(ends[1]) >= 10 else 1
    texts = dict(zip(("low", "middle", "high"), (fixed(end, digits) for end in ends), strict=True))
    regrets = [fixed(regret, digits) for regret in found["regrets"]]
    part = "" if found["part"] == 1 else words.percent(found["part"])
    return SavingsPanel("alone" if found["alone"] else state, "", {**found, **texts, "regrets": regrets, "part": part})
