"""The battery's spec: all of it, some of its families, or all of them small."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from posse.experiments.battery import baseline  # noqa: F401  (so that specs can name its policy)
from posse.experiments.paper import shipped
from posse.experiments.reading import parse
from posse.experiments.spec import Spec
from posse.streams import check_seed

QUICK_HORIZON = 3_000
QUICK_COUNT = 8


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
    text = shipped("battery.toml") if source is None else Path(source).read_text(encoding="utf-8-sig")
    if families is not None:
        text = _only(text, families)
    if seed is not None:
        text = re.sub(r"(?m)^seed = .*", f"seed = {check_seed(seed)}", text)
    if quick:
        text = _at_most(text, "horizon", QUICK_HORIZON)
        text = _at_most(text, "count", QUICK_COUNT)
        text = _at_most(text, "replications", 1)
    spec = parse(text, Path() if source is None else Path(source).parent)
    for study in spec.studies:
        settings = len(study.problems) * len(study.schedules) * len(study.anytime)
        if settings * (len(study.horizons) + len(study.turns)) > 1:
            raise ValueError(f"family {study.name!r} has several settings, but a family of the battery has one")
    return spec


def _only(text: str, families: Sequence[str]) -> str:
    """The spec with some of its studies."""
    first, *studies = re.split(r"(?m)^(?=\[\[study\]\])", text)
    named = {found[1]: study for study in studies if (found := re.search(r'(?m)^name = "([^"]*)"', study))}
    unknown = [family for family in families if family not in named]
    if unknown:
        raise ValueError(f"family={unknown[0]!r}, but expected one of {', '.join(named)}")
    return first + "".join(named[family] for family in dict.fromkeys(families))


def _at_most(text: str, key: str, most: int) -> str:
    """The spec with a key's whole numbers cut to at most so much."""
    return re.sub(rf"\b({key}) = (\d+)", lambda found: f"{found[1]} = {min(int(found[2]), most)}", text)
