"""The fields of a spec's tables: what they may hold, and where in the file they stand, for errors."""

import bisect
import contextlib
import itertools
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from posse.checks import did_you_mean
from posse.text import shorten

MAX_POINTS = 10_000  # grid points of a study
REQUIRED = object()
Check = Callable[[str, Any], Any]
Keys = tuple[str | int, ...]
"""The keys, and places in lists, that lead from the top of a document to a value."""
_STRINGS = (r'"""(?:\\.|[^\\])*?"""(?!")', r"'''.*?'''(?!')", r'"(?:\\.|[^"\\])*"', r"'[^']*'")
_TOKENS = re.compile("|".join([*_STRINGS, r"#[^\n]*", r"[][{}\n]"]), re.DOTALL)  # of TOML, as far as lines matter
_DEPTHS = {"[": 1, "{": 1, "]": -1, "}": -1}


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
    example: str = ""  # what to write where a required field is missing


@dataclass(frozen=True)
class SpecTable:
    """A table of a spec: reads its fields, and makes errors that name their lines."""

    values: Mapping[str, Any]
    find: Callable[[Keys], int | None]  # the line of some keys
    path: Keys = ()
    what: str = ""

    def inner(self, values: Mapping[str, Any], *path: str | int, what: str) -> "SpecTable":
        """A table in this one."""
        return SpecTable(values, self.find, self.path + path, f"{self.what}, {what}" if self.what else what)

    def error(self, key: str, message: str) -> SpecError:
        """An error about a key, which need not be there."""
        path = (*self.path, key)
        line = next(filter(None, (self.find(path[:end]) for end in range(len(path), 0, -1))), 1)
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
                raise self.error(key, f"{key} is missing" + (f"; add {field.example}" if field.example else ""))
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
            names = [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
            example = f', such as {{ name = "{shorten(names[0], 60)}" }}' if names else ""
            raise self.error(key, f"{key}: expected at least one table, [[{header}]]{example}")
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


def line_of(text: str, keys: Keys) -> int | None:
    """The line where the statement begins that brings some keys into a TOML document; None if no statement does."""
    ends, depth = [0], 0  # where no statement is open
    for token in _TOKENS.finditer(text):
        depth += _DEPTHS.get(token[0], 0)
        if token[0] == "\n" and depth == 0:
            ends.append(token.end())
    ends.append(len(text))

    def has_keys(end: int) -> bool:
        with contextlib.suppress(LookupError, TypeError, tomllib.TOMLDecodeError):
            found: Any = tomllib.loads(text[:end])
            for key in keys:
                found = found[key]
            return True
        return False

    place = bisect.bisect_left(ends, True, key=has_keys)
    return text.count("\n", 0, ends[place - 1]) + 1 if place < len(ends) else None
