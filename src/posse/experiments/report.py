"""The report: one HTML file that holds everything, to send to a colleague; figures and tables beside it."""

from __future__ import annotations

import base64
import math
import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from posse.experiments import claims
from posse.experiments.figures import SECTIONS, Entry, catalogue, describe, family, looks, save_all, schedule_words
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
    contents = "".join(f'<li><a href="#{name}">{escape(heading)}</a></li>' for name, heading, _ in parts)
    sections = "".join(
        f'<section id="{name}"><h2>{escape(heading)}</h2>{body}</section>' for name, heading, body in parts
    )
    return PAGE.format(title=escape(title), style=STYLE, lede=_lede(records), contents=contents, sections=sections)


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
        studies.append(f"<h3>{escape(STUDIES.get(study, study))}</h3>{_html_facts(facts)}")
    facts = [("report by", f"posse {__version__}"), *_manifest_facts(manifest)]
    return "".join(studies) + f"<h3>Where and when</h3>{_html_facts(facts)}"


def _html_facts(facts: Sequence[tuple[str, str]]) -> str:
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return f"<dl>{listed}</dl>"


def _manifest_facts(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    facts = []
    if "seed" in manifest:
        facts.append(("seed", str(manifest["seed"])))
    versions = manifest.get("versions")
    if isinstance(versions, Mapping):
        facts.append(("run with", ", ".join(f"{name} {version}" for name, version in versions.items())))
    if "machine" in manifest:
        facts.append(("machine", str(manifest["machine"])))
    runs = manifest.get("runs")
    if isinstance(runs, Sequence) and not isinstance(runs, str):
        for run in (run for run in runs if isinstance(run, Mapping)):
            took = f", {run['seconds']:,.0f} s" if isinstance(run.get("seconds"), (int, float)) else ", not finished"
            facts.append(
                ("run", f"{run.get('started', '?')}, {run.get('units', '?')} units on {run.get('on', '?')}{took}")
            )
    return facts


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
        body.append(_html_table(["", *table.policies], rows, kind="numbers"))
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
        _html_table(["claim", *verdicts], summary, kind="claims"),
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
        table = _html_table(head, rows, kind="cases")
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


def _html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "", kind: str = "") -> str:
    """A table; the head is text, the cells are HTML. It scrolls by itself where the screen is narrow."""
    columns = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    lines = "".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>" for row in rows
    )
    note = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = f"{note}<thead><tr>{columns}</tr></thead><tbody>{lines}</tbody>"
    return f'<div class="scroll"><table class="{kind}">{body}</table></div>'


STYLE = textwrap.dedent(
    """
    :root { color-scheme: light dark; --ink: #1c1f23; --soft: #5b6470; --paper: #ffffff; --line: #d9dee4;
      --tint: #f4f6f8; --good: #00694b; --bad: #a63d00; --best: #e3f1ea; --link: #005a91; }
    @media (prefers-color-scheme: dark) { :root { --ink: #e7eaee; --soft: #a3adb8; --paper: #15181c; --line: #363d45;
      --tint: #1f242a; --good: #5fd0a8; --bad: #ff9d66; --best: #1d3a30; --link: #7cc4f5; } }
    * { box-sizing: border-box; }
    body { margin: 0; background: var(--paper); color: var(--ink);
      font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
    main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
    h1 { font-size: 1.75rem; line-height: 1.2; margin: .5rem 0 1rem; overflow-wrap: anywhere; }
    h2 { font-size: 1.3rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line); }
    h3 { font-size: 1.05rem; margin: 1.5rem 0 .4rem; }
    p { max-width: 46rem; } a { color: var(--link); }
    nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; }
    .scroll { overflow-x: auto; margin: .5rem 0 1rem; }
    table { border-collapse: collapse; font-size: .875rem; min-width: 100%; font-variant-numeric: tabular-nums; }
    caption { caption-side: bottom; text-align: left; color: var(--soft); padding-top: .3rem; }
    th, td { padding: .35rem .5rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
    thead th { border-bottom: 2px solid var(--line); color: var(--soft); font-weight: 600; }
    tbody th { font-weight: 500; } tbody tr:hover { background: var(--tint); }
    .numbers td, .numbers thead th:not(:first-child) { text-align: right; white-space: nowrap; }
    .numbers tbody th { min-width: 7rem; } .cases td, .cases tbody th, .claims td { white-space: nowrap; }
    .claims tbody th { min-width: 15rem; }
    .numbers strong { background: var(--best); border-radius: .25rem; padding: .05rem .3rem; }
    .numbers strong::before { content: "▾ "; font-size: .8em; }
    .deviation, .source, .note, figcaption { color: var(--soft); } .source { display: block; font-size: .8rem; }
    .verdict { white-space: nowrap; } .holds { color: var(--good); } .does-not-hold { color: var(--bad); }
    dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; font-size: .9rem; }
    dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
    figure { margin: 1.5rem 0 2rem; }
    figure img { display: block; width: 100%; min-width: 34rem; max-width: 54rem; height: auto;
      background: #fff; border-radius: .4rem; border: 1px solid var(--line); padding: .6rem; }
    figcaption { font-size: .9rem; margin-top: .5rem; max-width: 46rem; } figcaption strong { color: var(--ink); }
    details { margin: .4rem 0; } summary { cursor: pointer; }
    pre { background: var(--tint); padding: .8rem; overflow-x: auto; font-size: .8rem; line-height: 1.4; }
    @media print { :root { color-scheme: light; --ink: #000; --soft: #444; --paper: #fff; --line: #bbb; --tint: #fff;
      --good: #00694b; --bad: #a63d00; --best: #fff; }
      body { font-size: 10pt; } main { max-width: none; padding: 0; } nav { display: none; }
      figure, tr { break-inside: avoid; } h2, h3, summary { break-after: avoid; }
      figure img { border: 0; padding: 0; min-width: 0; } .scroll { overflow: visible; }
      table { font-size: 7.5pt; } th, td { padding: .15rem .3rem; }
      details::details-content { content-visibility: visible; display: block; height: auto; } }
    """
).strip()

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p>{lede}</p>
<nav aria-label="Contents"><ul>{contents}</ul></nav>
{sections}
</main>
</body>
</html>
"""
