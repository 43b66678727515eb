"""The fields of a spec's tables: what they may hold, and where in the file they stand, for errors."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

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

    check: Check
    default: Any = REQUIRED
    grid: bool = False  # a list of values is a grid
    listed: bool = False  # the value itself is a list


@dataclass(frozen=True)
class SpecLocation:
    """A place in a spec, for reading what is there and for errors that name its line."""

    lines: Mapping[tuple[str | int, ...], int]
    path: tuple[str | int, ...]
    what: str

    def at(self, *path: str | int, what: str) -> SpecLocation:
        return SpecLocation(self.lines, self.path + path, f"{self.what}, {what}" if self.what else what)

    def error(self, key: str, message: str) -> SpecError:
        path = (*self.path, key)
        line = next((self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), 1)
        field = ".".join(part for part in path if isinstance(part, str))
        where = f"{self.what}: " if self.what else ""
        return SpecError(f"line {line}: {shorten(where + message, 400)}", line, field)

    def read(self, table: dict[str, Any], fields: Mapping[str, Field]) -> dict[str, tuple[Any, ...]]:
        """The table's values. Each is a tuple: the values of its grid, or the one value of a field without a grid."""
        for key in table:
            if key not in fields:
                close = difflib.get_close_matches(key, fields, 1)
                hint = f" (did you mean {close[0]}?)" if close else ""
                raise self.error(key, f"{shorten(key, 60)} is not a field here{hint}; allowed: {', '.join(fields)}")
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


def anything(name: str, value: Any) -> Any:
    """A check that allows everything, a list included."""
    return value
