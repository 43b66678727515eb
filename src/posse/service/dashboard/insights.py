"""What the analyst found, in the records that the templates set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from posse.service.dashboard import words
from posse.service.dashboard.analyst import Answer
from posse.service.dashboard.snapshot import Snapshot


@dataclass(frozen=True)
class Spread:
    """How far players differ in an arm."""

    arm: str
    rewards: int
    certain: str
    likely: str
    interval: str
    pair: tuple[str, str] | None
    broken: bool


@dataclass(frozen=True)
class Diagnosis:
    """Whether players are as alike as was said."""

    state: str
    """waiting, early, error, alone (one player), alarm, doubt, fine, or free (no ε was promised)."""
    why: str = ""
    """What went wrong."""
    epsilon: str = ""
    arm: str = ""
    """The arm in which players are shown to differ most; empty if in none."""
    pair: tuple[str, str] | None = None
    bound: str = ""
    likely: str = ""
    """By how much players probably differ in the arm where they differ most; empty if unknown."""
    rows: tuple[Spread, ...] = ()


@dataclass(frozen=True)
class Savings:
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
    own: str = ""
    """What the running policy is estimated to have missed, and learning alone beside it."""
    other: str = ""
    policies: tuple[str, str] = ("", "")


def diagnosis_view(answer: Answer | None, snapshot: Snapshot) -> Diagnosis:
    """The diagnosis for people."""
    low, high = snapshot.setup.low, snapshot.setup.high
    found: dict[str, Any] | None = answer.found if answer is not None else None
    if len(snapshot.players) < 2:
        return Diagnosis("alone")
    if not snapshot.rewards:
        return Diagnosis("early")
    if found is None:
        return Diagnosis("error", answer.error) if answer is not None else Diagnosis("waiting")
    spread, epsilon = found["spread"], found["epsilon"]

    def in_words(value: float | None) -> str:
        return "–" if value is None else words.amount(value, low, high)

    rows = []
    for place, arm in enumerate(found["arms"]):
        ends = spread["lows"][place], spread["highs"][place]
        rows.append(
            Spread(
                arm,
                found["rewards"][place],
                in_words(found["bounds"][place]),
                in_words(spread["ranges"][place]),
                "" if None in ends else f"{in_words(ends[0])} to {in_words(ends[1])}",
                tuple(found["pairs"][place]) if found["pairs"][place] else None,
                arm in found["broken"],
            )
        )
    worst = max(range(len(rows)), key=lambda place: found["bounds"][place])
    certain = found["bound"] > 0
    state = "free" if epsilon is None else "fine"
    if found["alarm"]:
        state = "alarm"
    elif epsilon is not None and spread["low"] is not None and epsilon < spread["low"]:
        state = "doubt"
    return Diagnosis(
        state,
        "",
        "" if epsilon is None else f"{epsilon:g}",
        rows[worst].arm if certain else "",
        rows[worst].pair if certain else None,
        in_words(found["bound"]),
        "" if spread["range"] is None else in_words(spread["range"]),
        tuple(rows),
    )


def savings_view(answer: Answer | None, snapshot: Snapshot) -> Savings:
    """What sharing is worth, for people."""
    if not snapshot.rewards:
        return Savings("early")
    if answer is None or answer.error or answer.found is None:
        return Savings(
            "waiting" if answer is None else "error" if answer.error else "early", answer.error if answer else ""
        )
    found = answer.found
    state = "more" if found["low"] > 0 else "less" if found["high"] < 0 else "unclear"

    def in_words(value: float) -> str:
        digits = 0 if abs(found["middle"]) >= 10 else 1
        return f"{value:,.{digits}f}".replace("-", "−")

    low, high = found["low"], found["high"]
    if state == "less":
        low, high = -high, -low
    return Savings(
        "alone" if found["alone"] else state,
        "",
        in_words(abs(found["middle"]) if state != "unclear" else found["middle"]),
        in_words(low),
        in_words(high),
        found["decisions"],
        found["problems"],
        "" if found["part"] == 1 else words.percent(found["part"]),
        in_words(found["regrets"][0]),
        in_words(found["regrets"][1]),
        tuple(found["policies"]),
    )
