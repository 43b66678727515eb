"""HTML pages from templates: one file each, which needs nothing beside it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from posse.text import plural
from posse.version import __version__

FOLDER = Path(__file__).parent / "templates"


def render(template: str, manifest: Mapping[str, Any], folder: Path = FOLDER, **values: Any) -> str:
    """A page about the runs of a manifest, from a template in a folder, which may build on the templates here."""
    environment = Environment(
        loader=FileSystemLoader([folder, FOLDER]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    values |= {"plural": plural, "run_facts": _run_facts(manifest), "spec": manifest.get("spec")}
    return environment.get_template(template).render(values)


def embedded(picture: bytes) -> str:
    """A picture as it stands in a page."""
    return base64.b64encode(picture).decode()


def _run_facts(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a report says about the runs behind it: versions, machine and times."""
    facts = [("report by", f"posse {__version__}")]
    if "seed" in manifest:
        facts.append(("seed", str(manifest["seed"])))
    versions = manifest.get("versions")
    if isinstance(versions, Mapping):
        facts.append(("run with", ", ".join(f"{name} {version}" for name, version in versions.items())))
    if "machine" in manifest:
        facts.append(("machine", str(manifest["machine"])))
    runs = manifest.get("runs")
    for run in runs if isinstance(runs, list) else []:
        took = f"{run['seconds']:,.0f} s" if isinstance(run.get("seconds"), (int, float)) else "not finished"
        start, units, place = (run.get(name, "?") for name in ("started", "units", "on"))
        facts.append(("run", f"{start}, {units} units on {place}, {took}"))
    return facts
