"""Reports: HTML pages from templates, each one file that needs nothing beside it, and the report on a run."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from posse.experiments.paper import claims
from posse.experiments.records import Records, check_records
from posse.experiments.report.gallery import GalleryEntry, catalogue, save_all
from posse.experiments.report.tables import WORDS, regret_tables, write_tables
from posse.experiments.summary import describe, schedule_words
from posse.figures.policy_looks import algorithm, looks
from posse.text import plural, shorten
from posse.version import __version__

FOLDER = Path(__file__).parent / "templates"
HEADINGS = {"paper": "The paper's figures", "studies": "Further studies", "theory": "Theory beside practice"}


def render(template: str, manifest: Mapping[str, Any], folder: Path = FOLDER, **values: Any) -> str:
    """A page about the runs of a manifest, from a template in a folder, which may build on the templates here."""
    environment = Environment(
        loader=FileSystemLoader([folder, FOLDER]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["base64"] = lambda content: base64.b64encode(content).decode()
    shared = {"plural": plural, "version": __version__, "manifest": manifest, "spec": manifest.get("spec")}
    return environment.get_template(template).render(shared | values)


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
    figures: dict[str, list[tuple[GalleryEntry, bytes]]] = {}
    for entry in catalogue(records):
        if entry.section in HEADINGS:
            picture = (out / "figures" / f"{entry.name}.svg").read_bytes()
            figures.setdefault(entry.section, []).append((entry, picture))
    sections = {"run": "What was run", "regret": "Final regret"}
    if findings is not None:
        sections["claims"] = "What the paper claims, and what the data says"
    sections |= {section: HEADINGS[section] for section in figures}
    if "paper" not in figures and "studies" in figures:
        sections["studies"] = "Figures"
    sections["reproduce"] = "How to reproduce this"
    decisions = sum(horizon * players for horizon, players in records.rows("horizon", "players"))
    page = render(
        "report.html",
        manifest or {},
        title=title,
        sections=sections,
        runs=plural(len(records), "run"),
        algorithms=plural(len({algorithm(label) for label in records.distinct("policy")}), "algorithm"),
        decisions=f"{decisions / 1e9:,.1f} billion" if decisions >= 1e9 else f"{decisions / 1e6:,.1f} million",
        studies=[(WORDS["studies"].get(name, name), records.where(study=name)) for name in records.distinct("study")],
        span=_span,
        looks=looks,
        schedule_words=schedule_words,
        tables=regret_tables(records),
        describe=describe,
        claims=list(claims.by_claim(findings or []).items()),
        percent=_percent,
        rule=claims.RULE,
        figures=figures,
        seeds=shorten(", ".join(map(str, records.distinct("seed"))), 200),
    )
    (out / "report.html").write_text(page, encoding="utf-8")
    return out / "report.html"


def _percent(share: float) -> str:
    """A relative difference with its sign."""
    return f"{100 * share:+.1f} %" if math.isfinite(share) else ("∞" if share > 0 else "−∞")


def _span(values: Sequence[Any]) -> str:
    """A few values in words: a list, or the smallest and the largest."""
    ordered = sorted(values)
    shown = [f"{value:,}" if isinstance(value, int) else f"{value:g}" for value in ordered]
    consecutive = len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1))
    return f"{shown[0]}–{shown[-1]}" if consecutive or len(shown) > 6 else ", ".join(shown)
