"""The report: one HTML file that holds everything, to send to a colleague; figures and tables beside it."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from posse.experiments import claims
from posse.experiments.figures import SECTIONS, Entry, catalogue, describe, family, looks, save_all, schedule_words
from posse.experiments.page import html_facts, html_page, html_table, manifest_facts
from posse.experiments.records import Records
from posse.experiments.tables import STUDIES, Cell, cut, regret_tables, write_tables
from posse.version import __version__


def write_report(
    records: Records,
    folder: str | Path,
    *,
    title: str,
    findings: Sequence[claims.Finding] | None = None,
    manifest: Mapping[str, Any] | None = None,
    processes: int = 1,
) -> Path:
    """Write `report.html`, which needs nothing beside it; and its `figures/` (PNG, SVG) and `tables/` (CSV).

    `findings` are those of `claims.judge`; `manifest` is that of the store, for versions, times and the spec;
    `processes` is how many draw.
    """
    if not len(records):
        raise ValueError("there are no records to report on")
    out = Path(folder)
    save_all(records, out / "figures", processes=processes)
    write_tables(records, out / "tables", findings)
    page = out / "report.html"
    page.write_text(_page(records, out / "figures", title, findings, manifest or {}), encoding="utf-8")
    return page


def _page(
    records: Records,
    pictures: Path,
    title: str,
    findings: Sequence[claims.Finding] | None,
    manifest: Mapping[str, Any],
) -> str:
    entries = catalogue(records)
    shown = {section: [entry for entry in entries if entry.section == section] for section in SECTIONS}
    words = {"paper": "The paper's figures", "studies": "Further studies", "theory": "Theory beside practice"}
    if not shown["paper"]:
        words["studies"] = "Figures"
    parts = [
        ("run", "What was run", _what_was_run(records, manifest)),
        ("regret", "Final regret", _regret_html(records)),
    ]
    if findings is not None:
        parts.append(("claims", "What the paper claims, and what the data says", _claims_html(findings)))
    parts += [
        (section, heading, "".join(_figure_html(entry, pictures) for entry in shown[section]))
        for section, heading in words.items()
        if shown[section]
    ]
    parts.append(("reproduce", "How to reproduce this", _reproduce(records, manifest)))
    return html_page(title, _lede(records), parts)


def _lede(records: Records) -> str:
    names = {family(label) for label in records.distinct("policy")}
    rounds = sum(
        horizon * players
        for horizon, players in zip(records["horizon"].tolist(), records["players"].tolist(), strict=True)
    )
    most = f"up to {rounds / 1e9:,.1f} billion" if rounds >= 1e9 else f"up to {rounds / 1e6:,.1f} million"
    return (
        f"{len(records):,} runs of {len(names)} algorithm{'s' * (len(names) != 1)}, {most} decisions. "
        "Regret is pseudo-regret: how much reward the players gave up, in expectation, by not pulling their best arms. "
        "All policies met the same problems and the same noise."
    )


def _what_was_run(records: Records, manifest: Mapping[str, Any]) -> str:
    studies = []
    for study in records.distinct("study"):
        part = records.where(study=study)
        sizes = (
            f"{_span(part.distinct('players'))} players, {_span(part.distinct('arms'))} arms, "
            f"ε = {_span(part.distinct('epsilon'))}, |I_5ε| = {_span(part.distinct('n_subpar'))}"
        )
        counts = (
            f"{len(set(part['problem'].tolist())):,} problems each, {len(part.distinct('replication')):,} replication"
        )
        active = "; ".join(schedule_words(str(schedule)) for schedule in part.distinct("schedule"))
        facts = [
            ("problems", f"{sizes}; {counts}{'s' * (len(part.distinct('replication')) != 1)}"),
            ("rounds", f"{_span(part.distinct('horizon'))}; active: {active}"),
            ("policies", ", ".join(looks(part.distinct("policy")))),
            ("runs", f"{len(part):,}"),
        ]
        studies.append(f"<h3>{escape(STUDIES.get(study, study))}</h3>{html_facts(facts)}")
    facts = [("report by", f"posse {__version__}"), *manifest_facts(manifest)]
    return "".join(studies) + f"<h3>Where and when</h3>{html_facts(facts)}"


def _span(values: Sequence[Any]) -> str:
    """A few values: the list of them, or from where to where."""
    ordered = sorted(values)
    shown = [f"{value:,}" if isinstance(value, int) else f"{value:g}" for value in ordered]
    whole = len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1))
    return f"{shown[0]}–{shown[-1]}" if whole or len(shown) > 6 else ", ".join(shown)


def _regret_html(records: Records) -> str:
    body = ["<p>Mean over problems ± one standard deviation. The lowest mean of a row is marked.</p>"]
    for table in regret_tables(records):
        rows = [
            [_html_setting(setting), *(_cell(cells.get(label)) for label in table.policies)]
            for setting, _, cells in table.rows
        ]
        body.append(f"<h3>{escape(STUDIES.get(table.study, table.study))}</h3>")
        body.append(html_table(["", *table.policies], rows, kind="numbers"))
    return "".join(body)


def _html_setting(setting: Mapping[str, Any]) -> str:
    return escape(describe(setting) or "all problems").replace(" = ", "&nbsp;=&nbsp;")


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    mean = f"<strong>{cell.shown_mean}</strong>" if cell.lowest else cell.shown_mean
    return f'{mean} <span class="deviation">± {cell.shown_deviation}</span>'


def _claims_html(findings: Sequence[claims.Finding]) -> str:
    if not findings:
        return "<p>No claim of the paper can be judged from these records.</p>"
    by_claim: dict[claims.Claim, list[claims.Finding]] = {}
    for finding in findings:
        by_claim.setdefault(finding.claim, []).append(finding)
    verdicts = ("holds", "does not hold", "undecided")
    summary = []
    for claim, cases in by_claim.items():
        counts = [sum(case.verdict == verdict for case in cases) for verdict in verdicts]
        cells = [
            _verdict(verdict, f"{count} of {len(cases)}") if count else "–"
            for verdict, count in zip(verdicts, counts, strict=True)
        ]
        summary.append([f'{escape(claim.text)} <span class="source">{escape(claim.source)}</span>', *cells])
    body = [
        "<p>Each claim of the paper's evaluation, case by case; the verdict is the data's, not the paper's.</p>",
        html_table(["claim", *verdicts], summary, kind="claims"),
    ]
    for claim, cases in by_claim.items():
        rows = [
            [
                escape(case.case),
                escape(case.measure),
                _percent(case.difference),
                f"{_percent(case.low)} to {_percent(case.high)}",
                f"{case.problems:,}",
                "&lt; 0.001" if case.p_value < 0.001 else f"{case.p_value:.3f}",
                _verdict(case.verdict, case.verdict),
            ]
            for case in cases
        ]
        head = ["case", "measure", "difference", "95 % interval", "problems", "p (Holm)", "verdict"]
        table = html_table(head, rows, kind="cases")
        count = f"{len(cases)} case{'s' * (len(cases) != 1)}"
        body.append(f"<details><summary>{escape(claim.text)} ({count})</summary>{table}</details>")
    body.append(f"<p class='note'>{escape(claims.RULE)}</p>")
    return "".join(body)


def _verdict(verdict: str, text: str) -> str:
    sign = {"holds": "✓", "does not hold": "✗"}.get(verdict, "?")
    return f'<span class="verdict {escape(verdict.replace(" ", "-"))}">{sign} {escape(text)}</span>'


def _percent(share: float) -> str:
    return f"{100 * share:+.1f} %" if math.isfinite(share) else ("∞" if share > 0 else "−∞")


def _figure_html(entry: Entry, pictures: Path) -> str:
    data = base64.b64encode((pictures / f"{entry.name}.svg").read_bytes()).decode()
    return (
        f'<figure id="{escape(entry.name)}"><div class="scroll">'
        f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(entry.title)}"></div>'
        f"<figcaption><strong>{escape(entry.title)}.</strong> {escape(entry.caption)}</figcaption></figure>"
    )


def _reproduce(records: Records, manifest: Mapping[str, Any]) -> str:
    seeds = ", ".join(map(str, records.distinct("seed")))
    body = [
        f"<p>The same spec and seed ({escape(cut(seeds, 200))}) give the same numbers bit for bit on one "
        "architecture, whatever the number of threads or machines. Beside this page are its figures, each panel also "
        "alone, in <code>figures/</code>, and its tables in <code>tables/</code>.</p>"
    ]
    spec = manifest.get("spec")
    if isinstance(spec, str):
        body.append(
            "<p>Save this as <code>experiment.toml</code> and run <code>posse run experiment.toml</code>:</p><details>"
            f"<summary>The experiment ({len(spec.splitlines()):,} lines)</summary><pre>{escape(spec)}</pre></details>"
        )
    return "".join(body)
