"""The report: one HTML file that holds everything, to send to a colleague; figures and tables beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posse.experiments.paper import claims
from posse.experiments.records import Records, check_records
from posse.experiments.report.gallery import GalleryEntry, catalogue, save_all
from posse.experiments.report.html import embedded, render
from posse.experiments.report.tables import STUDIES, regret_tables, write_tables
from posse.experiments.summary import describe, schedule_words
from posse.figures.policy_looks import algorithm, looks
from posse.text import plural, shorten


def write_report(
    records: Records,
    folder: str | Path,
    *,
    title: str,
    findings: Sequence[claims.ClaimFinding] | None = None,
    manifest: Mapping[str, Any] | None = None,
    processes: int = 1,
) -> Path:
    """Write `report.html`, which needs nothing beside it, and its `figures/` (PNG, SVG) and `tables/` (CSV).

    Args:
        records: the results to report on.
        folder: where the files go.
        title: the heading of the page.
        findings: those of `claims.judge`; without them the page says nothing about claims.
        manifest: that of the store, for versions, times and the spec.
        processes: how many processes draw.
    """
    check_records("records", records)
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
    findings: Sequence[claims.ClaimFinding] | None,
    manifest: Mapping[str, Any],
) -> str:
    headings = {"paper": "The paper's figures", "studies": "Further studies", "theory": "Theory beside practice"}
    figures: dict[str, list[tuple[GalleryEntry, str]]] = {}
    for entry in catalogue(records):
        if entry.section in headings:
            picture = embedded((pictures / f"{entry.name}.svg").read_bytes())
            figures.setdefault(entry.section, []).append((entry, picture))
    if "paper" not in figures:
        headings["studies"] = "Figures"
    sections = {"run": "What was run", "regret": "Final regret"}
    if findings is not None:
        sections["claims"] = "What the paper claims, and what the data says"
    sections |= {section: headings[section] for section in figures}
    sections["reproduce"] = "How to reproduce this"
    decisions = sum(horizon * players for horizon, players in records.rows("horizon", "players"))
    return render(
        "report.html",
        manifest,
        title=title,
        sections=sections,
        runs=plural(len(records), "run"),
        algorithms=plural(len({algorithm(label) for label in records.distinct("policy")}), "algorithm"),
        decisions=f"{decisions / 1e9:,.1f} billion" if decisions >= 1e9 else f"{decisions / 1e6:,.1f} million",
        studies=[
            (STUDIES.get(study, study), _study_facts(records.where(study=study))) for study in records.distinct("study")
        ],
        tables=regret_tables(records),
        describe=describe,
        claims=list(claims.by_claim(findings or []).items()),
        percent=_percent,
        rule=claims.RULE,
        figures=figures,
        seeds=shorten(", ".join(map(str, records.distinct("seed"))), 200),
    )


def _study_facts(records: Records) -> list[tuple[str, str]]:
    sizes = (
        f"{_span(records.distinct('players'))} players, {_span(records.distinct('arms'))} arms, "
        f"ε = {_span(records.distinct('epsilon'))}, |I_5ε| = {_span(records.distinct('n_subpar'))}"
    )
    replications = plural(len(records.distinct("replication")), "replication")
    active = "; ".join(schedule_words(str(schedule)) for schedule in records.distinct("schedule"))
    return [
        ("problems", f"{sizes}; {len(set(records['problem'].tolist())):,} problems each, {replications}"),
        ("rounds", f"{_span(records.distinct('horizon'))}; active: {active}"),
        ("policies", ", ".join(looks(records.distinct("policy")))),
        ("runs", f"{len(records):,}"),
    ]


def _percent(share: float) -> str:
    """A relative difference with its sign."""
    return f"{100 * share:+.1f} %" if math.isfinite(share) else ("∞" if share > 0 else "−∞")


def _span(values: Sequence[Any]) -> str:
    """A few values in words: a list, or the smallest and the largest."""
    ordered = sorted(values)
    shown = [f"{value:,}" if isinstance(value, int) else f"{value:g}" for value in ordered]
    consecutive = len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1))
    return f"{shown[0]}–{shown[-1]}" if consecutive or len(shown) > 6 else ", ".join(shown)
