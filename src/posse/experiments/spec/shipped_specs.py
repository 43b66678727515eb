"""The specs that come with posse, changed where asked, and the text of a changed one."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from posse.checks import did_you_mean, whole
from posse.experiments.spec.reader import load, parse
from posse.experiments.spec.study import Spec
from posse.streams import check_seed

# What is asked for as "quick": in the paper's evaluation, and at most in a family of the battery.
QUICK_HORIZON, QUICK_INSTANCES = 5_000, 6
QUICK_STUDY, QUICK_PROBLEMS = {"horizon": 3_000, "turns": 3_000, "replications": 1}, {"count": 8}


def shipped(name: str) -> str:
    """The text of a spec that comes with posse: "paper.toml", "battery.toml" or "example.toml"."""
    return (resources.files("posse.experiments.spec") / "shipped" / name).read_text(encoding="utf-8")


def paper_spec(
    *,
    horizon: int | None = None,
    instances: int | None = None,
    subpar: Iterable[int] | None = None,
    seed: int | None = None,
    own_only: bool = False,
    quick: bool = False,
) -> Spec:
    """The shipped spec of the paper's whole evaluation, changed where asked.

    Args:
        horizon: rounds, in place of 50,000.
        instances: problems for each setting, in place of 30; the studies beyond the paper have a third as many.
        subpar: the numbers of subpar arms of the paper's own study, in place of 0 … 9.
        seed: in place of 0.
        own_only: leave out the studies that the paper does not have.
        quick: all studies, but short: 5,000 rounds and 6 problems, unless horizon and instances say otherwise.

    >>> len(paper_spec(subpar=[8], instances=3, own_only=True).units()) > 0
    True
    """
    text = shipped("paper.toml")
    document = tomllib.loads(text)
    own, *others = document["study"]
    horizon = QUICK_HORIZON if quick and horizon is None else horizon
    instances = QUICK_INSTANCES if quick and instances is None else instances
    if horizon is not None:
        for study in (own, *others):
            study["turns" if "turns" in study else "horizon"] = whole("horizon", horizon, least=1)
    if instances is not None:
        own["problems"]["count"] = whole("instances", instances, least=1)
        for study in others:
            study["problems"]["count"] = -(-instances // 3)
    if subpar is not None:
        if not isinstance(subpar, Iterable):
            raise TypeError(f"subpar={subpar!r}, but expected a list of whole numbers, such as [8, 5]")
        own["problems"]["n_subpar"] = [whole("subpar", number, least=0, most=9) for number in subpar]
    if seed is not None:
        document["seed"] = check_seed(seed)
    if own_only:
        document["study"] = [own]
    return parse(text if document == tomllib.loads(text) else to_toml(document))


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
    document = tomllib.loads(spec.text)
    if families is not None:
        document["study"] = _named(document["study"], families)
    if seed is not None:
        document["seed"] = check_seed(seed)
    for study in (document.get("defaults", {}), *document["study"]) if quick else ():
        for table, limits in ((study, QUICK_STUDY), (study.get("problems", {}), QUICK_PROBLEMS)):
            table |= {key: min(table[key], most) for key, most in limits.items() if isinstance(table.get(key), int)}
    if document != tomllib.loads(spec.text):
        spec = parse(to_toml(document), Path() if source is None else Path(source).parent)
    for family in spec.studies:
        if family.settings > 1:
            file = "" if source is None else f"{source}: "
            raise ValueError(f"{file}family {family.name!r} has several settings, but a family of the battery has one")
    return spec


def _named(studies: list[dict[str, Any]], families: Sequence[str]) -> list[dict[str, Any]]:
    """The studies with these names, each once."""
    if isinstance(families, str):
        raise TypeError(f"families={families!r}, but expected a list of names, such as [{families!r}]")
    named = {study["name"]: study for study in studies}
    unknown = [family for family in families if family not in named]
    if unknown:
        hint = did_you_mean(unknown[0], named)
        raise ValueError(f"family={unknown[0]!r}{hint}, but expected one of {', '.join(named)}")
    return [named[family] for family in dict.fromkeys(families)]


def to_toml(document: Mapping[str, Any]) -> str:
    """The text of a document: `tomllib.loads(to_toml(document)) == document`. Comments are not kept.

    >>> print(to_toml({"seed": 3, "study": [{"name": "one", "problems": {"family": "uniform", "count": 2}}]}))
    seed = 3
    <BLANKLINE>
    [[study]]
    name = "one"
    problems = { family = "uniform", count = 2 }
    <BLANKLINE>
    """
    return "\n".join(_lines(document, ())) + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """The lines of a table: first its plain values, then the tables in it, each under a header."""
    headed = {}
    for key, value in table.items():
        entries = value if isinstance(value, list) else [] if path else [value]
        if entries and all(isinstance(entry, dict) for entry in entries):
            headed[key] = entries
        else:
            yield f"{_key(key)} = {_value(value)}"
    for key, entries in headed.items():
        header = ".".join(map(_key, (*path, key)))
        for entry in entries:
            yield from ("", f"[[{header}]]" if isinstance(table[key], list) else f"[{header}]")
            yield from _lines(entry, (*path, key))


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        pairs = ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool | str):  # JSON's are TOML's, but for one character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)  # a number, a date or a time
