"""A table of means that somebody wrote: as a CSV file, with or without names; and whether it is one."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from posse.csv_form import csv_rows

Names = tuple[list[str], list[str]]
"""Names of players and of arms, which may be missing."""
MAX_PAIRS = 1_000_000  # players × arms
CORNER = ("", "player")  # what stands over the names of players, which may be numbers
ID_WORDS = ("id", "index", "name", "player", "clinic", "hospital", "shop", "store", "site", "city", "user", "segment")
MISSING = ("", "-", "na", "n/a", "nan", "null", "none")
NUMERAL = re.compile(r"\s*[-+]?\d+([.,]\d+)?\s*%?\s*")  # also as in spreadsheets, which must not pass for a name
EXPECTED = "expected one row a player, one column an arm, and numbers such as 0.5"


def read_csv(path: Path) -> tuple[list[list[float]], Names]:
    """The numbers of a CSV file, one row a player; and the names of players at the left and of arms above."""
    rows = csv_rows(path)
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


def check_means(
    where: str, rows: Any, players: Sequence[str] = (), arms: Sequence[str] = ()
) -> tuple[tuple[float, ...], ...]:
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
