"""What the analyses found, in words: are the players alike, and what is sharing worth?"""

from __future__ import annotations

from dataclasses import dataclass

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
    arm: str = ""
    """The arm on which players are shown to differ most; empty if there is none."""
    pair: tuple[str, str] | None = None
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
    middle: str = ""
    low: str = ""
    high: str = ""
    decisions: int = 0
    problems: int = 0
    part: str = ""
    """The share of all decisions that was simulated; empty if all."""
    regrets: tuple[str, ...] = ()
    """What the running policy and the one beside it are estimated to have missed."""
    policies: tuple[str, ...] = ()


def difference_panel(analysis: Analysis | None, snapshot: Snapshot) -> DifferencePanel:
    """The diagnosis for people."""
    if len(snapshot.players) < 2:
        return DifferencePanel("alone")
    if not snapshot.rewards:
        return DifferencePanel("early")
    if analysis is None:
        return DifferencePanel("waiting")
    if analysis.found is None:
        return DifferencePanel("error", analysis.error)
    found, spread, epsilon = analysis.found, analysis.found["spread"], analysis.found["epsilon"]

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
    certain = found["bound"] > 0
    state = "free" if epsilon is None else "fine"
    if found["alarm"]:
        state = "alarm"
    elif epsilon is not None and spread["low"] is not None and epsilon < spread["low"]:
        state = "doubt"
    return DifferencePanel(
        state,
        epsilon="" if epsilon is None else f"{epsilon:g}",
        arm=rows[worst].arm if certain else "",
        pair=rows[worst].pair if certain else None,
        bound=amount(found["bound"]),
        likely="" if spread["range"] is None else amount(spread["range"]),
        rows=tuple(rows),
    )


def savings_panel(analysis: Analysis | None, snapshot: Snapshot) -> SavingsPanel:
    """What sharing is worth, for people."""
    if not snapshot.rewards:
        return SavingsPanel("early")
    if analysis is None:
        return SavingsPanel("waiting")
    if analysis.found is None:
        return SavingsPanel("error" if analysis.error else "early", analysis.error)
    found = analysis.found
    low, middle, high = found["low"], found["middle"], found["high"]
    state = "more" if low > 0 else "less" if high < 0 else "unclear"
    if state == "less":
        low, middle, high = -high, -middle, -low
    digits = 0 if abs(middle) >= 10 else 1
    return SavingsPanel(
        "alone" if found["alone"] else state,
        middle=fixed(middle, digits),
        low=fixed(low, digits),
        high=fixed(high, digits),
        decisions=found["decisions"],
        problems=found["problems"],
        part="" if found["part"] == 1 else words.percent(found["part"]),
        regrets=tuple(fixed(regret, digits) for regret in found["regrets"]),
        policies=tuple(found["policies"]),
    )
