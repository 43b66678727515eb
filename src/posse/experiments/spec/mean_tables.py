"""Tables of means that are given, in a spec or in files beside it."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posse.experiments.spec.study import Table

Names = tuple[list[str], list[str]]
"""Names of players and of arms, which may be missing."""
MAX_PAIRS = 1_000_000  # players × arms
MAX_TEXT = 1_000_000  # characters of a file that a manifest holds
CORNER = ("", "player")  # what stands over the names of players, which may be numbers


def read_means(value: Any) -> tuple[Table, ...]:
    """The `means` of a spec: one table, or a list of tables."""
    if not isinstance(value, list) or not value:
        raise TypeError("expected a table of numbers in [0, 1], one row a player, or a list of such tables")
    several = all(isinstance(row, list) and row and isinstance(row[0], list) for row in value)
    return tuple(
        _checked(f"table {k}" if several else "table", rows) for k, rows in enumerate(value if several else [value])
    )


def read_files(value: Any, folder: Path) -> tuple[tuple[Table, ...], list[Names]]:
    """The tables of a spec's `file`: one file of means in the folder, or a list of files; and the names in them."""
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name.endswith((".csv", ".npy")) for name in names):
        raise ValueError(f"{value!r}, but expected the name of a .csv or .npy file, or a list of such names")
    tables: list[Table] = []
    found_names: list[Names] = []
    for name in names:
        try:
            found = _read(folder / name)
        except Exception as error:  # a file may be damaged in any way
            raise ValueError(f"cannot read {name}: {error}") from None
        tables += (_checked(name, rows, *named) for rows, named in found)
        found_names += (named for _, named in found)
    return tuple(tables), found_names


def csv_texts(value: str | list[str], folder: Path) -> dict[str, str]:
    """The CSV files of a spec's `file` as texts, by name; larger ones are left out."""
    names = [name for name in (value if isinstance(value, list) else [value]) if name.endswith(".csv")]
    texts = {name: (folder / name).read_text(encoding="utf-8-sig") for name in names}
    return {name: text for name, text in texts.items() if len(text) <= MAX_TEXT}


def _read(path: Path) -> list[tuple[Any, Names]]:
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file)
            return [_numbers([(lines.line_num, row) for row in lines if row])]
    array = np.load(path, allow_pickle=False)
    if not isinstance(array, np.ndarray) or array.ndim not in (2, 3) or array.dtype.kind not in "fiu":
        raise ValueError("expected an array of numbers, players × arms or problems × players × arms")
    return [(table.tolist(), ([], [])) for table in array.astype(float).reshape(-1, *array.shape[-2:])]


def _numbers(rows: list[tuple[int, list[str]]]) -> tuple[list[list[float]], Names]:
    """The rows of a CSV file, with their lines, as numbers; and the names of players at the left and of arms above."""
    headed = bool(rows) and not any(map(_is_number, rows[0][1]))
    head = rows[0][1] if headed else []
    rows = rows[headed:]
    named = (headed and head[0].strip().lower() in CORNER) or not any(_is_number(row[0]) for _, row in rows)
    cells = [(line, row[named:]) for line, row in rows]
    for line, row in cells:
        for cell in row:
            if not _is_number(cell):
                raise ValueError(f"line {line}: {cell!r} is not a number")
    width = len(cells[0][1]) if cells else 0
    arms = [name.strip() for name in head[len(head) - width :]] if len(head) >= width else []
    return [[float(cell) for cell in row] for _, row in cells], ([row[0].strip() for _, row in rows if named], arms)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _checked(where: str, rows: Any, players: Sequence[str] = (), arms: Sequence[str] = ()) -> Table:
    """A table of means, checked; errors name players and arms where they have names."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) and row for row in rows):
        raise TypeError(f"{where}: expected one row of numbers a player")
    for player, row in enumerate(rows):
        if len(row) != len(rows[0]):
            first, own = (players[0], players[player]) if players else ("player 0", f"player {player}")
            raise ValueError(f"{where}: {own} has {len(row)} arms, but {first} has {len(rows[0])}")
        for arm, mean in enumerate(row):
            if isinstance(mean, bool) or not isinstance(mean, (int, float)) or not 0 <= mean <= 1:
                names = players[player] if players else player, arms[arm] if arms else arm
                raise ValueError(f"{where}: means[{names[0]}, {names[1]}]={mean!r}, but a mean is a number in [0, 1]")
    if len(rows) * len(rows[0]) > MAX_PAIRS:
        raise ValueError(f"{where}: {len(rows)} × {len(rows[0])} means, but at most {MAX_PAIRS} can be simulated")
    return tuple(tuple(float(mean) + 0.0 for mean in row) for row in rows)
