"""Tables of means that are given, in a spec or in files beside it."""

import csv
import re
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
ID_WORDS = ("id", "index", "name", "player", "clinic", "hospital", "shop", "store", "site", "city", "user", "segment")
MISSING = ("", "-", "na", "n/a", "nan", "null", "none")
NUMERAL = re.compile(r"\s*[-+]?\d+([.,]\d+)?\s*%?\s*")  # also as in spreadsheets, which must not pass for a name
EXPECTED = "expected one row a player, one column an arm, commas between them, and points in numbers"


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
    for line, row in rows:
        if len(row) == 1 and re.search(r"[;\t]", row[0]):
            raise ValueError(f"line {line}: {row[0]!r} is not a number; {EXPECTED}")
    headed = bool(rows) and _is_header(rows[0][1], [row for _, row in rows[1:]])
    head = [name.strip() for name in rows[0][1]] if headed else []
    if {"arm", "mean"} <= {name.lower() for name in head}:
        raise ValueError(f"a line for each arm of a player ({', '.join(head)}), but {EXPECTED}")
    rows = rows[headed:]
    named = _has_names(head, [row[0].strip() for _, row in rows])
    cells = [(line, row[named:]) for line, row in rows]
    width = len(cells[0][1]) if cells else 0
    arms = head[len(head) - width :] if len(head) >= width else []
    for line, row in cells:
        for place, cell in enumerate(row):
            _check_cell(cell, f"line {line}, column {arms[place] if place < len(arms) else place + 1 + named}")
        if all(cell in ("0", "1") for cell in row[::2]) and any(float(cell) > 1 for cell in row[1::2]):
            raise ValueError(f"line {line}: {','.join(row)} seems to have commas in numbers; {EXPECTED}")
    return [[float(cell) for cell in row] for _, row in cells], ([row[0].strip() for _, row in rows if named], arms)


def _is_header(first: list[str], others: list[list[str]]) -> bool:
    """Whether the first line of a file has the names of arms. They may be the numbers 0, 1, 2, … that pandas writes.

    0,1 above nothing but zeros and ones is a player.
    """
    if not any(map(_is_numeral, first)):
        return True
    numbers = first[1:] if _is_id_word(first[0]) else first
    counted = len(numbers) > 1 and numbers == [str(place) for place in range(len(numbers))]
    return counted and any(float(cell) not in (0, 1) for row in others for cell in row if _is_number(cell))


def _has_names(head: list[str], column: list[str]) -> bool:
    """Whether the first column has the names of players: no numbers, or whole ones below a word for names."""
    if head and head[0].lower() in CORNER:
        return True
    ids = bool(head) and _is_id_word(head[0]) and len(set(column)) == len(column)
    return not any(map(_is_numeral, column)) or (ids and not any(_is_number(each) and "." in each for each in column))


def _is_id_word(text: str) -> bool:
    """Whether a word stands over names: one of them, also as in `clinics`, `clinic_id` or `Clinic ID`."""
    return text.strip() == "" or re.fullmatch(rf"({'|'.join(ID_WORDS)})s?([ _]?id)?", text.strip().lower()) is not None


def _check_cell(cell: str, where: str) -> None:
    """Refuse a cell that is no number, and say what to do."""
    if cell.strip().lower() in MISSING:
        raise ValueError(f"{where}: {cell!r}, but every mean must be given")
    if cell.strip().endswith("%"):
        raise ValueError(f"{where}: {cell!r}, but a mean is a number in [0, 1]; divide percentages by 100")
    if not _is_number(cell):
        raise ValueError(f"{where}: {cell!r} is not a number; {EXPECTED}")


def _is_numeral(cell: str) -> bool:
    return _is_number(cell) or NUMERAL.fullmatch(cell) is not None


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
                hint = "; divide percentages by 100" if isinstance(mean, (int, float)) and 1 < mean <= 100 else ""
                shown = f"means[{names[0]}, {names[1]}]={mean!r}"
                raise ValueError(f"{where}: {shown}, but a mean is a number in [0, 1]{hint}")
    if len(rows) * len(rows[0]) > MAX_PAIRS:
        raise ValueError(f"{where}: {len(rows)} × {len(rows[0])} means, but at most {MAX_PAIRS} can be simulated")
    return tuple(tuple(float(mean) + 0.0 for mean in row) for row in rows)
