"""Specs as parsed TOML documents: those that come with posse, and the text of one that was edited."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any


def shipped(name: str) -> str:
    """The text of a spec that comes with posse: "paper.toml", "battery.toml" or "example.toml"."""
    return (resources.files("posse.experiments.spec") / "shipped" / name).read_text(encoding="utf-8")


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
