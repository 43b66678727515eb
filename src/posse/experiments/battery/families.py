"""The battery's spec: all of it, some of its families, or all of them small."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from posse.experiments.spec.document import shipped, to_toml
from posse.experiments.spec.reader import load, parse
from posse.experiments.spec.study import Spec
from posse.streams import check_seed

QUICK = {"horizon": 3_000, "turns": 3_000, "replications": 1}
QUICK_PROBLEMS = {"count": 8}


def battery_spec(
    source: str | Path | None = None,
    *,
    families: Sequence[str] | None = None,
    seed: int | None = None,
    quick: bool = False,
) -> Spec:
    """The shipped spec of the battery, or one of your own, changed where asked.

    Args:
        source: a file like the shipped one; each of its studies is a family and has one setting.
        families: only these, by name.
        seed: in place of the spec's.
        quick: all families, but at most 3,000 rounds, 8 problems and 1 replication.

    >>> [study.name for study in battery_spec(families=["paper-8", "shifted"]).studies]
    ['paper-8', 'shifted']
    """
    spec = parse(shipped("battery.toml")) if source is None else load(source)
    if families is not None or seed is not None or quick:
        document = tomllib.loads(spec.text)
        if families is not None:
            document["study"] = _named(document["study"], families)
        if seed is not None:
            document["seed"] = check_seed(seed)
        if quick:
            for table in (document.get("defaults", {}), *document["study"]):
                _make_small(table)
        spec = parse(to_toml(document), Path() if source is None else Path(source).parent)
    for study in spec.studies:
        if study.settings > 1:
            raise ValueError(f"family {study.name!r} has several settings, but a family of the battery has one")
    return spec


def _named(studies: list[dict[str, Any]], families: Sequence[str]) -> list[dict[str, Any]]:
    """The studies with these names, each once."""
    if isinstance(families, str):
        raise TypeError(f"families={families!r}, but expected a list of names, such as [{families!r}]")
    named = {study["name"]: study for study in studies}
    unknown = [family for family in families if family not in named]
    if unknown:
        raise ValueError(f"family={unknown[0]!r}, but expected one of {', '.join(named)}")
    return [named[family] for family in dict.fromkeys(families)]


def _make_small(study: dict[str, Any]) -> None:
    """Cut a study's size to that of a quick run; what it leaves to defaults stays."""
    for table, limits in ((study, QUICK), (study.get("problems", {}), QUICK_PROBLEMS)):
        for key, most in limits.items():
            if isinstance(table.get(key), int):
                table[key] = min(table[key], most)
