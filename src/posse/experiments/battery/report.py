"""The battery's report: a table for the terminal, one HTML file that holds everything, CSV and JSON beside it."""

from __future__ import annotations

import base64
import csv
import dataclasses
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from posse.experiments.battery.figure import battery_figure
from posse.experiments.battery.score import CANDIDATE, Bar, Family, Ratio, Score, shares_nothing
from posse.experiments.figures.gallery import to_bytes
from posse.experiments.page import html_facts, html_page, html_table, manifest_facts
from posse.version import __version__

RULE = (
    "A bar is won or lost by its ratio; in brackets is the 95 % interval of the ratio from resampling problems, both "
    "policies together. Where the interval has the limit inside, the verdict has a question mark: it may be chance. "
    "The policy compared with is the one that turned out best in the family, which is hard on the candidate."
)


def write_battery(
    families: Sequence[Family], folder: str | Path, *, title: str, manifest: Mapping[str, Any] | None = None
) -> Path:
    """Write `battery.html`, which needs nothing beside it; and the picture (PNG, SVG), scores, bars and all as JSON."""
    if not families:
        raise ValueError("there are no families to report on")
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    figure = battery_figure(families)
    for ending in ("png", "svg"):
        (out / f"battery.{ending}").write_bytes(to_bytes(figure, ending))
    (out / "scores.csv").write_text(_csv(_score_rows(families)), encoding="utf-8")
    (out / "bars.csv").write_text(_csv(_bar_rows(families)), encoding="utf-8")
    whole = [dataclasses.asdict(family) for family in families]
    (out / "battery.json").write_text(json.dumps(_plain(whole), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    page = out / "battery.html"
    page.write_text(_page(families, (out / "battery.svg").read_bytes(), title, manifest or {}), encoding="utf-8")
    return page


def to_text(families: Sequence[Family]) -> str:
    """The battery for the terminal: a line a family, then the bars in counts, then every bar that was lost."""
    head = ["family", "", CANDIDATE, "to best alone", "p90", "best alone", "to best other", "best other", "lock-ins"]
    rows = [head, *(_line(family) for family in families)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    left = (0, 1, 5, 7)
    lines = [
        "  ".join(
            f"{cell:<{width}}" if column in left else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.append("")
    for bar, by_half in _counts(families).items():
        lines.append(f"{bar}: " + ", ".join(f"{won} of {all_} won{where}" for where, won, all_ in by_half))
    lost = [(family, bar) for family in families for bar in family.bars if bar.verdict == "lost"]
    lines += ["", "Lost:" if lost else "No bar is lost."]
    lines += [f"  {family.name}: {_bar_words(bar)}" for family, bar in lost]
    return "\n".join(lines)


def _line(family: Family) -> list[str]:
    scores = {score.policy: score for score in family.scores}
    own, alone = scores.get(CANDIDATE), scores.get(family.best(alone=True) or "")
    return [
        family.name,
        family.half,
        "–" if own is None else _number(own.mean),
        _ratio(family.to_alone),
        "–" if own is None or alone is None else f"{_quotient(own.tail, alone.tail):.2f}",
        "–" if alone is None else alone.policy,
        _ratio(family.to_other),
        family.best() or "–",
        "–" if own is None or alone is None else f"{own.lock_ins:.2f} / {alone.lock_ins:.2f}",
    ]


def _counts(families: Sequence[Family]) -> dict[str, list[tuple[str, int, int]]]:
    """For each bar: how many were won of how many, in all and in each half."""
    counts: dict[str, list[tuple[str, int, int]]] = {}
    for kind in dict.fromkeys(_kind(bar) for family in families for bar in family.bars):
        for half, where in (("", ""), ("A", " in half A"), ("B", " in half B")):
            bars = [
                bar for family in families for bar in family.bars if _kind(bar) == kind and half in ("", family.half)
            ]
            if bars:
                counts.setdefault(kind, []).append((where, sum(bar.verdict == "won" for bar in bars), len(bars)))
    return counts


def _kind(bar: Bar) -> str:
    who = "RobustAgg-TS" if bar.limit == 0.15 else "the best other" if bar.limit == 1.05 else "the best alone"
    return f"{bar.text}: at most {bar.limit:g} × {who}"


def _bar_words(bar: Bar) -> str:
    return f"{bar.text}: {_ratio(bar.ratio)} × {bar.against}, limit {bar.limit:g}{'' if bar.sure else ' (unsure)'}"


def _page(families: Sequence[Family], picture: bytes, title: str, manifest: Mapping[str, Any]) -> str:
    policies = list(dict.fromkeys(score.policy for family in families for score in family.scores))
    lede = (
        f"{len(policies)} policies on {len(families)} families of problems, all on the same problems and the same "
        f"noise. The question is whether {CANDIDATE} helps where sharing can, and does no harm where it cannot. "
        "Regret is pseudo-regret: how much reward the players gave up, in expectation, by not pulling their best arms."
    )
    alone = ", ".join(name for name in policies if shares_nothing(name))
    parts = [
        ("short", "In short", _counts_html(families)),
        ("picture", "The picture", _picture_html(picture)),
        ("families", "Family by family", f"<p>Policies that share nothing: {escape(alone)}.</p>{_table(families)}"),
        ("regret", "Every policy", _scores_html(families, policies)),
        ("bars", "Every bar", _bars_html(families)),
        ("reproduce", "How to reproduce this", _reproduce(manifest)),
    ]
    return html_page(title, lede, parts)


def _counts_html(families: Sequence[Family]) -> str:
    rows = []
    for kind, by_half in _counts(families).items():
        cells = {where: f"{won} of {all_}" for where, won, all_ in by_half}
        rows.append([escape(kind), *(cells.get(where, "–") for where in ("", " in half A", " in half B"))])
    table = html_table(["won", "all", "half A", "half B"], rows, kind="numbers")
    half = "<p>Constants were chosen on half A of the families; half B was kept for confirmation.</p>"
    return f"{half}{table}<p class='note'>{escape(RULE)}</p>"


def _picture_html(picture: bytes) -> str:
    data = base64.b64encode(picture).decode()
    return (
        f'<figure><div class="scroll"><img src="data:image/svg+xml;base64,{data}" alt="Ratios by family"></div>'
        f"<figcaption><strong>Mean final regret by family.</strong> Left of 1 is better than the best policy that "
        f"shares nothing; the strip ends at 1.1, the bar of no harm. In bold are families in which sharing should "
        f"help; at the right, which half. Ratios beyond the scale are drawn at its edge.</figcaption></figure>"
    )


def _table(families: Sequence[Family]) -> str:
    head = ["family", "half", "M × K, T", CANDIDATE, "to best alone", "90th percentile", "best alone"]
    head += ["to best other", "best other", "lock-ins a run, own / alone", "bars"]
    rows = []
    for family in families:
        name, half, own, to_alone, tail, alone, to_other, other, locks = map(escape, _line(family))
        size = f"{family.players}&nbsp;×&nbsp;{family.arms}, {family.horizon:,}"
        verdicts = " ".join(_verdict(bar) for bar in family.bars) or "–"
        rows.append([name, half, size, own, to_alone, tail, alone, to_other, other, locks, verdicts])
    return html_table(head, rows, kind="numbers")


def _verdict(bar: Bar) -> str:
    sign = ("✓" if bar.verdict == "won" else "✗") + ("" if bar.sure else "?")
    kind = "holds" if bar.verdict == "won" else "does-not-hold"
    return f'<span class="verdict {kind}" title="{escape(_bar_words(bar))}">{sign}</span>'


def _scores_html(families: Sequence[Family], policies: Sequence[str]) -> str:
    body = ["<p>Mean final regret ± standard error over problems, then the 90th percentile over runs.</p>"]
    rows = []
    for family in families:
        scores = {score.policy: score for score in family.scores}
        cells = [_score_cell(scores.get(policy), policy == family.scores[0].policy) for policy in policies]
        rows.append([escape(family.name), f"{family.problems}, {family.runs}", *cells])
    body.append(html_table(["family", "problems, runs", *policies], rows, kind="numbers"))
    return "".join(body)


def _score_cell(score: Score | None, lowest: bool) -> str:
    if score is None:
        return "–"
    mean = f"<strong>{_number(score.mean)}</strong>" if lowest else _number(score.mean)
    return f'{mean} <span class="deviation">± {_number(score.error)}; {_number(score.tail)}</span>'


def _bars_html(families: Sequence[Family]) -> str:
    head = ["family", "bar", "against", "limit", "ratio", "verdict"]
    rows = [
        [escape(family.name), escape(bar.text), escape(bar.against), f"{bar.limit:g}", _ratio(bar.ratio), _verdict(bar)]
        for family in families
        for bar in family.bars
    ]
    count = f"{len(rows)} bar{'s' * (len(rows) != 1)}"
    return f"<details><summary>All of them ({count})</summary>{html_table(head, rows, kind='cases')}</details>"


def _reproduce(manifest: Mapping[str, Any]) -> str:
    facts = html_facts([("report by", f"posse {__version__}"), *manifest_facts(manifest)])
    spec = manifest.get("spec")
    if not isinstance(spec, str):
        return facts
    return (
        f"{facts}<p>Save this as <code>battery.toml</code> and run <code>posse battery --spec battery.toml</code>:</p>"
        f"<details><summary>The spec ({len(spec.splitlines()):,} lines)</summary><pre>{escape(spec)}</pre></details>"
    )


def _score_rows(families: Sequence[Family]) -> Iterable[list[Any]]:
    names = ["family", "half", "players", "arms", "horizon", "problems", "runs"]
    yield [*names, "policy", "shares_nothing", "mean", "standard_error", "p90", "lock_ins"]
    for family in families:
        size = [family.players, family.arms, family.horizon, family.problems, family.runs]
        for each in family.scores:
            values = [int(shares_nothing(each.policy)), each.mean, each.error, each.tail, each.lock_ins]
            yield [family.name, family.half, *size, each.policy, *values]


def _bar_rows(families: Sequence[Family]) -> Iterable[list[Any]]:
    yield ["family", "half", "bar", "against", "limit", "ratio", "low", "high", "verdict", "sure"]
    for family in families:
        for bar in family.bars:
            found = [bar.ratio.value, bar.ratio.low, bar.ratio.high]
            yield [family.name, family.half, bar.text, bar.against, bar.limit, *found, bar.verdict, int(bar.sure)]


def _csv(rows: Iterable[list[Any]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def _plain(value: Any) -> Any:
    """The value with numbers that JSON does not have as null."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _quotient(above: float, below: float) -> float:
    return 1.0 if above == below else math.inf if below == 0 else above / below


def _ratio(found: Ratio | None) -> str:
    return "–" if found is None else f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _number(value: float) -> str:
    """About three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 or not math.isfinite(value) else f"{value:.3g}"
