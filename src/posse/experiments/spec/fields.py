"""The fields of a spec's tables: what they may hold, and where in the file they stand, for errors."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from posse.checks import did_you_mean
from posse.text import shorten

MAX_POINTS = 10_000  # grid points of a study
REQUIRED = object()
Check = Callable[[str, Any], Any]


class SpecError(ValueError):
    """A mistake in a spec; the message names the line, the field and what is allowed."""

    def __init__(self, message: str, line: int = 1, field: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.field = field


@dataclass(frozen=True)
class Field:
    """What a key may hold. `check(name, value)` returns the value to keep, or raises an error with what is allowed."""

    check: Check | None = None  # None: anything
    default: Any = REQUIRED
    grid: bool = False  # a list of values is a grid; the values are kept as a tuple
    listed: bool = False  # the value itself is a list


@dataclass(frozen=True)
class SpecTable:
    """A table of a spec: reads its fields, and makes errors that name their lines."""

    values: Mapping[str, Any]
    lines: Mapping[tuple[str | int, ...], int]
    path: tuple[str | int, ...] = ()
    what: str = ""

    def inner(self, values: Mapping[str, Any], *path: str | int, what: str) -> SpecTable:
        """A table in this one."""
        return SpecTable(values, self.lines, self.path + path, f"{self.what}, {what}" if self.what else what)

    def error(self, key: str, message: str) -> SpecError:
        """An error about a key, which need not be there."""
        path = (*self.path, key)
        line = next((self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), 1)
        field = ".".join(part for part in path if isinstance(part, str))
        where = f"{self.what}: " if self.what else ""
        return SpecError(f"line {line}: {shorten(where + message, 400)}", line, field)

    def read(self, fields: Mapping[str, Field]) -> dict[str, Any]:
        """The values of all fields, checked; an error if there is another key."""
        for key in self.values:
            if key not in fields:
                hint = did_you_mean(key, fields)
                raise self.error(key, f"{shorten(key, 60)} is not a field here{hint}; allowed: {', '.join(fields)}")
        return {key: self.get(key, field) for key, field in fields.items()}

    def get(self, key: str, field: Field) -> Any:
        """The value of a field, checked: a tuple if the field takes a grid."""
        if key not in self.values:
            if field.default is REQUIRED:
                raise self.error(key, f"{key} is missing")
            return field.default
        value, check = self.values[key], field.check
        if check is None:
            return value
        variants = _variants(value) if field.grid else [value]
        if not variants:
            raise self.error(key, f"{key}=[], but a grid needs at least one value")
        if isinstance(value, list) and not (field.grid or field.listed):
            raise self.error(key, f"{key} is a list, but takes one value, no grid")
        try:
            values = tuple(check(key, value) for value in variants)
        except (ValueError, TypeError, OverflowError) as error:
            raise self.error(key, str(error)) from None
        if field.grid and len(set(map(repr, values))) < len(values):
            raise self.error(key, f"{key}={variants}, but each value of a grid must be there once")
        return values if field.grid else values[0]

    def tables(self, key: str) -> list[dict[str, Any]]:
        """The tables under a key."""
        found = self.values.get(key)
        if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
            header = ".".join(part for part in (*self.path, key) if isinstance(part, str))
            raise self.error(key, f"{key}: expected at least one table, [[{header}]]")
        return found

    def product(self, grids: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
        """Every combination of the values of some fields."""
        points = math.prod(map(len, grids.values()))
        if points > MAX_POINTS:
            raise self.error("", f"the lists make {points} combinations, but a study has at most {MAX_POINTS}")
        for point in itertools.product(*grids.values()):
            yield dict(zip(grids, point, strict=True))

    @contextlib.contextmanager
    def blame(self) -> Iterator[None]:
        """Turn an error that begins with `field=`, as posse's own do, into one that names the field's line."""
        try:
            yield
        except SpecError:
            raise
        except (ValueError, TypeError, OverflowError) as error:
            found = re.match(r"(\w+)=", str(error))
            raise self.error(found[1] if found else "", str(error)) from None


def _variants(value: Any) -> list[Any]:
    """A value's grid: the items of a list. A table such as { random = [0.1, 0.9] } gives one table for each item."""
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
