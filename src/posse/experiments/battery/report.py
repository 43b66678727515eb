"""The battery's report: a table for the terminal, one HTML file that holds everything, CSV and JSON beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from posse.experiments.battery.figure import battery_figure
from posse.experiments.battery.score import CANDIDATE, BatteryFamily, Ratio, three_digits
from posse.experiments.report.html import embedded, render, run_facts
from posse.experiments.summary import csv_text
from posse.figures.canvas import to_bytes
from posse.text import align, to_json

RULE = (
    "A bar is won or lost by its ratio; in brackets is the 95 % interval of the ratio from resampling problems, both "
    "policies together. If the limit is within the interval, the verdict has a question mark: it may be chance. "
    "The policy compared with is the one that turned out best in the family, which is hard on the candidate."
)


def write_battery(
    families: Sequence[BatteryFamily], folder: str | Path, *, title: str, manifest: Mapping[str, Any] | None = None
) -> Path:
    """Write `battery.html`, which needs nothing beside it, and the picture (PNG, SVG), scores, bars and all as JSON."""
    if not families:
        raise ValueError("there are no families to report on")
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    figure = battery_figure(families)
    pictures = {ending: to_bytes(figure, ending) for ending in ("png", "svg")}
    for ending, picture in pictures.items():
        (out / f"battery.{ending}").write_bytes(picture)
    (out / "scores.csv").write_text(csv_text(_score_rows(families)), encoding="utf-8")
    (out / "bars.csv").write_text(csv_text(_bar_rows(families)), encoding="utf-8")
    (out / "battery.json").write_text(to_json(families) + "\n", encoding="utf-8")
    page = out / "battery.html"
    page.write_text(_page(families, pictures["svg"], title, manifest or {}), encoding="utf-8")
    return page


def _page(families: Sequence[BatteryFamily], picture: bytes, title: str, manifest: Mapping[str, Any]) -> str:
    scores = [score for family in families for score in family.scores]
    return render(
        "battery.html",
        Path(__file__).parent / "templates",
        title=title,
        sections={
            "short": "In short",
            "picture": "The picture",
            "families": "Family by family",
            "regret": "Every policy",
            "bars": "Every bar",
            "reproduce": "How to reproduce this",
        },
        candidate=CANDIDATE,
        policies=list(dict.fromkeys(score.policy for score in scores)),
        alone=list(dict.fromkeys(score.policy for score in scores if score.alone)),
        families=families,
        lines=[(family, _line(family)) for family in families],
        counts=_counts(families),
        three_digits=three_digits,
        rule=RULE,
        picture=embedded(picture),
        run_facts=run_facts(manifest),
        spec=manifest.get("spec"),
    )


def to_text(families: Sequence[BatteryFamily]) -> str:
    """The battery for the terminal: a line for each family, then counts of the bars, then every bar that was lost."""
    head = ["family", "", CANDIDATE, "to best alone", "p90", "best alone", "to best other", "best other", "lock-ins"]
    lines = align([head, *(_line(family) for family in families)], "<<>>><><>")
    lines.append("")
    where = {"": "", "A": " in half A", "B": " in half B"}
    for bar, halves in _counts(families).items():
        lines.append(
            f"{bar}: " + ", ".join(f"{count.won} of {count.all} won{where[half]}" for half, count in halves.items())
        )
    lost = [(family, bar) for family in families for bar in family.bars if bar.verdict == "lost"]
    lines += ["", "Lost:" if lost else "No bar is lost."]
    lines += [f"  {family.name}: {bar}" for family, bar in lost]
    return "\n".join(lines)


def _line(family: BatteryFamily) -> list[str]:
    scores = {score.policy: score for score in family.scores}
    own, alone = scores.get(CANDIDATE), scores.get(family.best(alone=True) or "")
    return [
        family.name,
        family.half,
        "–" if own is None else three_digits(own.mean),
        _ratio(family.to_alone),
        "–" if own is None or alone is None else f"{_quotient(own.tail, alone.tail):.2f}",
        "–" if alone is None else alone.policy,
        _ratio(family.to_other),
        family.best() or "–",
        "–" if own is None or alone is None else f"{own.lock_ins:.2f} / {alone.lock_ins:.2f}",
    ]


class BarCount(NamedTuple):
    """How many bars of a kind were won, of how many."""

    won: int
    all: int


def _counts(families: Sequence[BatteryFamily]) -> dict[str, dict[str, BarCount]]:
    """For each kind of bar, the counts in all families ("") and in each half."""
    counts: dict[str, dict[str, BarCount]] = {}
    for kind in dict.fromkeys(bar.kind for family in families for bar in family.bars):
        for half in ("", "A", "B"):
            bars = [bar for each in families for bar in each.bars if bar.kind == kind and half in ("", each.half)]
            if bars:
                won = sum(bar.verdict == "won" for bar in bars)
                counts.setdefault(kind, {})[half] = BarCount(won, len(bars))
    return counts


def _score_rows(families: Sequence[BatteryFamily]) -> Iterable[list[Any]]:
    names = ["family", "half", "players", "arms", "horizon", "problems", "runs"]
    yield [*names, "policy", "shares_nothing", "mean", "standard_error", "p90", "lock_ins"]
    for family in families:
        size = [family.players, family.arms, family.horizon, family.problems, family.runs]
        for each in family.scores:
            values = [int(each.alone), each.mean, each.error, each.tail, each.lock_ins]
            yield [family.name, family.half, *size, each.policy, *values]


def _bar_rows(families: Sequence[BatteryFamily]) -> Iterable[list[Any]]:
    yield ["family", "half", "bar", "against", "limit", "ratio", "low", "high", "verdict", "sure"]
    for family in families:
        for bar in family.bars:
            found = [bar.ratio.value, bar.ratio.low, bar.ratio.high]
            yield [family.name, family.half, bar.text, bar.against, bar.limit, *found, bar.verdict, int(bar.sure)]


def _quotient(above: float, below: float) -> float:
    return 1.0 if above == below else math.inf if below == 0 else above / below


def _ratio(found: Ratio | None) -> str:
    return "–" if found is None else str(found)
