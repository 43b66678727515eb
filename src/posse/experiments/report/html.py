"""HTML pages from templates: one file each, which needs nothing beside it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from posse.text import plural
from posse.version import __version__

FOLDER = Path(__file__).parent / "templates"


def render(template: str, folder: Path = FOLDER, **values: Any) -> str:
    """A page from a template in a folder, which may build on the templates here."""
    environment = Environment(
        loader=FileSystemLoader([folder, FOLDER]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template(template).render(plural=plural, **values)


def embedded(picture: bytes) -> str:
    """A picture as it stands in a page."""
    return base64.b64encode(picture).decode()


def run_facts(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
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
    if isinstance(runs, Sequence) and not isinstance(runs, str):
        for run in (run for run in runs if isinstance(run, Mapping)):
            took = f", {run['seconds']:,.0f} s" if isinstance(run.get("seconds"), (int, float)) else ", not finished"
            facts.append(
                ("run", f"{run.get('started', '?')}, {run.get('units', '?')} units on {run.get('on', '?')}{took}")
            )
    return facts
