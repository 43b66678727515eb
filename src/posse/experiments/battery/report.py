"""The battery's report: a table for the terminal, one HTML file that holds everything, CSV and JSON beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from posse.experiments.battery.figure import battery_figure
from posse.experiments.battery.score import CANDIDATE, BatteryFamily, quotient, three_digits
from posse.experiments.report.page import render
from posse.experiments.summary import csv_text
from posse.figures.canvas import to_bytes
from posse.text import align, to_json


def write_battery(
    families: Sequence[BatteryFamily], folder: str | Path, *, title: str, manifest: Mapping[str, Any] | None = None
) -> Path:
    """Write `battery.html`, which needs nothing beside it, and the picture (PNG, SVG), scores, bars and all as JSON."""
    if not families:
        raise ValueError("there are no families to report on")
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    figure = battery_figure(families)
    for ending in ("png", "svg"):
        (out / f"battery.{ending}").write_bytes(to_bytes(figure, ending))
    scores = [score for family in families for score in family.scores]
    page = render(
        "battery.html",
        manifest or {},
        Path(__file__).parent / "templates",
        title=title,
        candidate=CANDIDATE,
        policies=list(dict.fromkeys(score.policy for score in scores)),
        alone=list(dict.fromkeys(score.policy for score in scores if score.alone)),
        families=families,
        lines=[(family, _line(family)) for family in families],
        counts=_counts(families),
        three_digits=three_digits,
        picture=(out / "battery.svg").read_bytes(),
    )
    texts = {
        "scores.csv": csv_text(_score_rows(families)),
        "bars.csv": csv_text(_bar_rows(families)),
        "battery.json": to_json(families) + "\n",
        "battery.html": page,
    }
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    return out / "battery.html"


def to_text(families: Sequence[BatteryFamily]) -> str:
    """The battery as text: one line per family, how many bars were won, and every lost bar."""
    head = ["family", "", CANDIDATE, "to best alone", "p90", "best alone", "to best other", "best other", "lock-ins"]
    lines = align([head, *(_line(family) for family in families)], "<<>>><><>")
    lines.append("")
    where = {"": "", "A": " in half A", "B": " in half B"}
    for bar, halves in _counts(families).items():
        lines.append(f"{bar}: " + ", ".join(f"{count} won{where[half]}" for half, count in halves.items()))
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
        str(family.to_alone or "–"),
        "–" if own is None or alone is None else f"{quotient(own.tail, alone.tail):.2f}",
        "–" if alone is None else alone.policy,
        str(family.to_other or "–"),
        family.best() or "–",
        "–" if own is None or alone is None else f"{own.lock_ins:.2f} / {alone.lock_ins:.2f}",
    ]


def _counts(families: Sequence[BatteryFamily]) -> dict[str, dict[str, str]]:
    """For each kind of bar, how many were won, "3 of 4", in all families ("") and in each half."""
    counts: dict[str, dict[str, str]] = {}
    for kind in dict.fromkeys(bar.kind for family in families for bar in family.bars):
        for half in ("", "A", "B"):
            bars = [bar for each in families for bar in each.bars if bar.kind == kind and half in ("", each.half)]
            if bars:
                won = sum(bar.verdict == "won" for bar in bars)
                counts.setdefault(kind, {})[half] = f"{won} of {len(bars)}"
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
