"""The battery's report: a table for the terminal, one HTML file that holds everything, CSV and JSON beside it.

In its picture, every policy's regret stands beside that of the best policy that shares nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from posse.experiments.battery.score import (
    CANDIDATE,
    HELPS,
    OTHER_LIMIT,
    PAPER,
    BatteryBar,
    BatteryFamily,
    paper_mean,
    quotient,
    three_digits,
)
from posse.experiments.report.run_report import render
from posse.experiments.spec.study import BLIND, KNOWS_GROUPS
from posse.experiments.summary import csv_text
from posse.figures.canvas import legend_label, new_figure, to_bytes
from posse.figures.policy_looks import looks
from posse.figures.style import FAVORABLE, INK, MIDDLE, PRINT, WIDTH
from posse.text import align, to_json

HEAD = ["family", "", CANDIDATE, "to best other", "best other", "to best alone", "best alone"]
HEAD += ["to not told", "p99 / mean", "worst / mean", "lock-ins"]
BESIDE = {
    KNOWS_GROUPS: "on each group of players apart, as if it knew the groups; for comparison only",
    BLIND: "on the same problems without the players' attributes; for comparison only",
}
LEAST, MOST = 0.03, 30.0  # ratios beyond are drawn at the edge


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
        beside=BESIDE,
        alone=list(dict.fromkeys(score.policy for score in scores if score.alone)),
        families=families,
        lines=[(family, _line(family)) for family in families],
        counts=_counts(families),
        bars=_all_bars(families),
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
    lines = align([HEAD, *(_line(family) for family in families)], "<<>><><>>>>")
    lines.append("")
    where = {"": "", "A": " in half A", "B": " in half B"}
    for bar, halves in _counts(families).items():
        lines.append(f"{bar}: " + ", ".join(f"{count} won{where[half]}" for half, count in halves.items()))
    lost = [f"  {name}: {bar}" for name, _, bar in _all_bars(families) if bar.verdict == "lost"]
    return "\n".join([*lines, "", "Lost:" if lost else "No bar is lost.", *lost])


def _line(family: BatteryFamily) -> list[str]:
    """The cells under `HEAD`."""
    scores = {score.policy: score for score in family.scores}
    own, alone = scores.get(CANDIDATE), scores.get(family.best(alone=True) or "")
    return [
        family.name,
        family.half,
        "–" if own is None else three_digits(own.mean),
        str(family.to_other or "–"),
        family.best() or "–",
        str(family.to_alone or "–"),
        "–" if alone is None else alone.policy,
        str(family.to_blind or "–"),
        "–" if own is None else f"{quotient(own.tail, own.mean):.1f}",
        "–" if own is None else f"{quotient(own.worst, own.mean):.1f}",
        "–" if own is None or alone is None else f"{own.lock_ins:.2f} / {alone.lock_ins:.2f}",
    ]


def _all_bars(families: Sequence[BatteryFamily]) -> list[tuple[str, str, BatteryBar]]:
    """Every bar with its family and half; last the one on all of the paper's families."""
    bars = [(family.name, family.half, bar) for family in families for bar in family.bars]
    return bars if (bar := paper_mean(families)) is None else [*bars, ("paper-0 … paper-9", "", bar)]


def _counts(families: Sequence[BatteryFamily]) -> dict[str, dict[str, str]]:
    """For each kind of bar, how many were won, "3 of 4", in all families ("") and in each half."""
    counts: dict[str, dict[str, str]] = {}
    found = _all_bars(families)
    for kind in dict.fromkeys(bar.kind for _, _, bar in found):
        for half in ("", "A", "B"):
            verdicts = [bar.verdict for _, own, bar in found if bar.kind == kind and half in ("", own)]
            if verdicts:
                counts.setdefault(kind, {})[half] = f"{verdicts.count('won')} of {len(verdicts)}"
    return counts


def _score_rows(families: Sequence[BatteryFamily]) -> Iterable[list[Any]]:
    names = ["family", "half", "players", "arms", "horizon", "problems", "runs"]
    yield [*names, "policy", "shares_nothing", "mean", "standard_error", "p99", "worst", "lock_ins"]
    for family in families:
        size = [family.players, family.arms, family.horizon, family.problems, family.runs]
        for each in family.scores:
            values = [int(each.alone), each.mean, each.error, each.tail, each.worst, each.lock_ins]
            yield [family.name, family.half, *size, each.policy, *values]


def _bar_rows(families: Sequence[BatteryFamily]) -> Iterable[list[Any]]:
    yield ["family", "half", "bar", "against", "limit", "ratio", "low", "high", "verdict", "sure"]
    for name, half, bar in _all_bars(families):
        found = [bar.ratio.value, bar.ratio.low, bar.ratio.high]
        yield [name, half, bar.text, bar.against, bar.limit, *found, bar.verdict, int(bar.sure)]


def battery_figure(families: Sequence[BatteryFamily]) -> Figure:
    """A row for each family: ratios of mean final regret to the best policy that shares nothing, on a log scale.

    The candidate is the large dot, with its 95 % interval; the shaded strip is up to 1.05.
    """
    shown = [family for family in families if family.best(alone=True) is not None]
    if not shown:
        raise ValueError("no family has a policy that shares nothing to compare with")
    drawn = looks(sorted({score.policy for family in shown for score in family.scores} | {CANDIDATE}))
    own_color = drawn.pop(CANDIDATE).color
    with matplotlib.rc_context(PRINT):
        figure = new_figure(WIDTH, 1.3 + 0.165 * len(shown))
        height = figure.get_size_inches()[1]
        axes = figure.add_axes((0.27, 0.45 / height, 0.68, 1 - 1.3 / height))
        _prepare(axes, shown)
        for row, family in enumerate(shown):
            means = {score.policy: score.mean for score in family.scores}
            base = means[str(family.best(alone=True))]
            for policy, mean in means.items():
                if policy != CANDIDATE and base > 0:
                    x, look = np.clip(mean / base, LEAST, MOST), drawn[policy]
                    axes.plot(x, row, marker=look.marker, color=look.color, markersize=3.4, alpha=0.75, zorder=3)
            if (found := family.to_alone) is not None:
                low, value, high = np.clip([found.low, found.value, found.high], LEAST, MOST)
                axes.plot([low, high], [row, row], color=own_color, linewidth=1.6, zorder=4)
                axes.plot(value, row, marker="o", color=own_color, markersize=6, zorder=5, gid=f"{CANDIDATE} {row}")
        own = Line2D([], [], color=own_color, marker="o", markersize=6, linewidth=1.6)
        marks = [
            Line2D([], [], color=look.color, marker=look.marker, linestyle="none", markersize=4)
            for look in drawn.values()
        ]
        names = [f"{CANDIDATE}, 95 % interval", *map(legend_label, drawn)]
        figure.legend(
            [own, *marks], names, loc="upper center", ncols=5, borderaxespad=0.3, handlelength=1.6, fontsize=7.5
        )
    return figure


def _prepare(axes: Axes, families: Sequence[BatteryFamily]) -> None:
    """The rows, the scale, the line at 1 and a rule after the paper's families."""
    axes.set_xscale("log")
    axes.set_xlim(LEAST / 1.1, MOST * 1.1)
    axes.set_ylim(len(families) - 0.5, -0.5)
    axes.axvspan(LEAST / 1.1, OTHER_LIMIT, color=FAVORABLE, linewidth=0, zorder=0)
    axes.axvline(1.0, color=INK, linewidth=0.9, zorder=1)
    axes.set_yticks(range(len(families)), [legend_label(family.name) for family in families], fontsize=7)
    for label, family in zip(axes.get_yticklabels(), families, strict=True):
        label.set_fontweight("bold" if HELPS in family.tags else "normal")
    for row, family in enumerate(families):
        axes.text(1.012, row, family.half, transform=axes.get_yaxis_transform(), va="center", fontsize=7)
        if row and (PAPER in family.tags) != (PAPER in families[row - 1].tags):
            axes.axhline(row - 0.5, color=MIDDLE, linewidth=0.7)
    axes.text(1.012, -0.7, "half", transform=axes.get_yaxis_transform(), va="bottom", fontsize=7)
    axes.grid(True, axis="both")
    axes.tick_params(axis="y", length=0)
    ticks = [0.03, 0.1, 0.3, 1, 3, 10, 30]
    axes.set_xticks(ticks, [f"{tick:g}×" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("mean final regret, times that of the best policy that shares nothing")
