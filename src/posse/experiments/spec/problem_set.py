"""The problems of a study: a family with its parameters, or given tables of means."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posse import generate
from posse.problem import Problem

MAX_PAIRS = 1_000_000  # players × arms
GIVEN = "given"  # in place of a family's name

Table = tuple[tuple[float, ...], ...]
"""Means of arms, one row for each player."""


@dataclass(frozen=True)
class ProblemSet:
    """A family of problems with its parameters, or given tables of means. Problem k does not depend on the count."""

    family: str  # one of `posse.generate.FAMILIES`, or "given"
    count: int
    parameters: dict[str, Any]  # arguments of the family's generator, or of `Problem` for given tables
    tables: tuple[Table, ...] = ()  # the means of problems first, first + 1, …
    first: int = 0

    @property
    def players(self) -> int:
        """The number of players; of the first table if they are given."""
        return len(self.tables[0]) if self.tables else self.parameters["players"]

    @property
    def arms(self) -> int:
        """The number of arms; of the first table if they are given."""
        return len(self.tables[0][0]) if self.tables else self.parameters["arms"]

    def make(self, start: int, stop: int, seed: int) -> list[Problem]:
        """Problems start to stop − 1."""
        if self.tables:
            return [Problem(table, **self.parameters) for table in self.part(start, stop).tables]
        generator: Any = generate.FAMILIES[self.family]
        return generator(count=stop, seed=seed, **self.parameters)[start:]

    def alike(self) -> list[tuple[ProblemSet, float]]:
        """This set in parts of one shape and one ε, each with its ε."""
        if not self.tables:
            return [(self, self.make(0, 1, 0)[0].epsilon)]
        problems = self.make(self.first, self.first + self.count, 0)
        parts = []
        start = self.first
        for (_, epsilon), group in itertools.groupby((problem.means.shape, problem.epsilon) for problem in problems):
            stop = start + len(list(group))
            parts.append((self.part(start, stop), epsilon))
            start = stop
        return parts

    def chunks(self, size: int) -> Iterator[tuple[ProblemSet, int, int]]:
        """This set in chunks of a size, each with its first number and the one past its last."""
        end = self.first + self.count
        for start in range(self.first, end, size):
            stop = min(start + size, end)
            yield self.part(start, stop), start, stop

    def part(self, start: int, stop: int) -> ProblemSet:
        """Problems start to stop − 1 as a set of their own."""
        tables = self.tables[start - self.first : stop - self.first]
        return dataclasses.replace(self, tables=tables, first=start, count=stop - start)

    def describe(self) -> dict[str, Any]:
        """The contents as plain data; tables by their digest."""
        described = {"epsilon": None, **self.parameters, "family": self.family}
        described["rewards"] = repr(self.parameters["rewards"])
        if self.tables:
            digests = [hashlib.blake2b(json.dumps(table).encode(), digest_size=12) for table in self.tables]
            described["means"] = [digest.hexdigest() for digest in digests]
        return described


def read_means(value: Any) -> tuple[Table, ...]:
    """The `means` of a spec: one table, or a list of tables."""
    if not isinstance(value, list) or not value:
        raise TypeError("expected a table of numbers in [0, 1], one row a player, or a list of such tables")
    several = all(isinstance(row, list) and row and isinstance(row[0], list) for row in value)
    return tuple(
        _checked(f"table {k}" if several else "table", rows) for k, rows in enumerate(value if several else [value])
    )


def read_files(value: Any, folder: Path) -> tuple[Table, ...]:
    """The tables of a spec's `file`: one file of means in the folder, or a list of files."""
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name.endswith((".csv", ".npy")) for name in names):
        raise ValueError(f"{value!r}, but expected the name of a .csv or .npy file, or a list of such names")
    tables: list[Table] = []
    for name in names:
        try:
            found = _read(folder / name)
        except Exception as error:  # a file may be damaged in any way
            raise ValueError(f"cannot read {name}: {error}") from None
        tables += (_checked(name, rows) for rows in found)
    return tuple(tables)


def _read(path: Path) -> list[Any]:
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8-sig") as file:
            return [[[float(cell) for cell in row] for row in csv.reader(file) if row]]
    array = np.load(path, allow_pickle=False)
    if not isinstance(array, np.ndarray) or array.ndim not in (2, 3) or array.dtype.kind not in "fiu":
        raise ValueError("expected an array of numbers, players × arms or problems × players × arms")
    tables = array.astype(float).tolist()
    return [tables] if array.ndim == 2 else tables


def _checked(where: str, rows: Any) -> Table:
    """A table of means, checked."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) and row for row in rows):
        raise TypeError(f"{where}: expected one row of numbers a player")
    for player, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(f"{where}: player {player} has {len(row)} arms, but player 0 has {len(rows[0])}")
        for arm, mean in enumerate(row):
            if isinstance(mean, bool) or not isinstance(mean, (int, float)) or not 0 <= mean <= 1:
                raise ValueError(f"{where}: means[{player}, {arm}]={mean!r}, but a mean is a number in [0, 1]")
    if len(rows) * len(rows[0]) > MAX_PAIRS:
        raise ValueError(f"{where}: {len(rows)} × {len(rows[0])} means, but at most {MAX_PAIRS} can be simulated")
    return tuple(tuple(float(mean) + 0.0 for mean in row) for row in rows)
