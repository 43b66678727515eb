"""The fields of a spec's tables: what they may hold, and where in the file they stand, for errors."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from posse.experiments.spec import SpecError

MAX_POINTS = 10_000  # grid points of a study
REQUIRED = object()
Check = Callable[[str, Any], Any]


@dataclass(frozen=True)
class Field:
    """What a key may hold; `check(name, value)` gives the value as it is kept, or raises with what is allowed."""

    check: Check
    default: Any = REQUIRED
    grid: bool = False
    listed: bool = False  # the value itself is a list


@dataclass(frozen=True)
class Place:
    """Where in the spec something stands, for errors."""

    lines: Mapping[tuple[str | int, ...], int]
    path: tuple[str | int, ...]
    what: str

    def at(self, *path: str | int, what: str) -> Place:
        return Place(self.lines, self.path + path, f"{self.what}, {what}" if self.what else what)

    def error(self, key: str, message: str) -> SpecError:
        path = (*self.path, key)
        line = next((self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), 1)
        field = ".".join(part for part in path if isinstance(part, str))
        where = f"{self.what}: " if self.what else ""
        return SpecError(f"line {line}: {_shortened(where + message)}", line, field)

    def read(self, table: dict[str, Any], fields: Mapping[str, Field]) -> dict[str, tuple[Any, ...]]:
        """The table's values, each as a tuple of those in its grid (of one if the field takes no grid)."""
        for key in table:
            if key not in fields:
                close = difflib.get_close_matches(key, fields, 1)
                hint = f" (did you mean {close[0]}?)" if close else ""
                raise self.error(key, f"{_shortened(key, 60)} is not a field here{hint}; allowed: {', '.join(fields)}")
        return {key: self._values(key, table, field) for key, field in fields.items()}

    def _values(self, key: str, table: dict[str, Any], field: Field) -> tuple[Any, ...]:
        if key not in table:
            if field.default is REQUIRED:
                raise self.error(key, f"{key} is missing")
            return (field.default,)
        variants = _variants(table[key]) if field.grid else [table[key]]
        if not variants:
            raise self.error(key, f"{key}=[], but a grid needs at least one value")
        if len(variants) > MAX_POINTS:
            raise self.error(key, f"{key} has {len(variants)} values, but a grid has at most {MAX_POINTS}")
        if isinstance(table[key], list) and not (field.grid or field.listed) and field.check is not anything:
            raise self.error(key, f"{key} is a list, but takes one value, no grid")
        try:
            values = tuple(field.check(key, value) for value in variants)
        except (ValueError, TypeError, OverflowError) as error:
            raise self.error(key, str(error)) from None
        if field.grid and len(set(values)) < len(values):
            raise self.error(key, f"{key}={variants}, but each value of a grid must be there once")
        return values

    @contextlib.contextmanager
    def blame(self) -> Iterator[None]:
        """Turn an error of posse's own, which begins with `field=`, into one that names the field's line."""
        try:
            yield
        except SpecError:
            raise
        except (ValueError, TypeError, OverflowError) as error:
            found = re.match(r"(\w+)=", str(error))
            raise self.error(found[1] if found else "", str(error)) from None


def _variants(value: Any) -> list[Any]:
    """A value's grid: the items of a list; of a table such as { random = [0.1, 0.9] } one for each of its items."""
    found: list[Any] = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict) and len(item) == 1:
            ((key, inner),) = item.items()
            found += [{key: each} for each in (inner if isinstance(inner, list) else [inner])]
        else:
            found.append(item)
    return found


def find_lines(text: str, document: dict[str, Any]) -> dict[tuple[str | int, ...], int]:
    """The line of every table header and key, by path; a look at each line's beginning is enough."""
    part = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
    dotted = rf"{part}(?:\s*\.\s*{part})*"
    header = re.compile(rf"\s*(\[\[?)\s*({dotted})\s*\]\]?\s*(?:#.*)?$")
    assignment = re.compile(rf"\s*({dotted})\s*=")
    latest: dict[tuple[str | int, ...], int] = {}
    lines: dict[tuple[str | int, ...], int] = {}
    current: list[str] = []

    def resolve(parts: list[str], opens: bool, is_header: bool) -> tuple[str | int, ...]:
        path: tuple[str | int, ...] = ()
        node: Any = document
        for depth, name in enumerate(parts, 1):
            if not isinstance(node, dict) or name not in node:
                return ()
            node = node[name]
            path += (name,)
            if isinstance(node, list) and (is_header or depth < len(parts)):
                if opens and depth == len(parts):
                    latest[path] = latest.get(path, -1) + 1
                index = latest.get(path, 0)
                if index >= len(node):
                    return ()
                node = node[index]
                path += (index,)
        return path

    for line_number, line in enumerate(text.split("\n"), 1):
        if found := header.match(line.rstrip("\r")):
            parts = [name.strip("\"'") for name in re.findall(part, found[2])]
            if path := resolve(parts, found[1] == "[[", True):
                current = parts
                lines.setdefault(path, line_number)
        elif found := assignment.match(line):
            parts = current + [name.strip("\"'") for name in re.findall(part, found[1])]
            for end in range(len(current) + 1, len(parts) + 1):
                if path := resolve(parts[:end], False, False):
                    lines.setdefault(path, line_number)
    return lines


def anything(name: str, value: Any) -> Any:
    """A check that allows everything, a list included."""
    return value


def _shortened(message: str, most: int = 400) -> str:
    return message if len(message) <= most else f"{message[: most - 1]}…"
