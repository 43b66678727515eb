"""How a CSV file is written: its encoding, separator and decimal mark. Its rows, and why cells are no numbers."""

import codecs
import csv
import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

HEAD = 65_536  # characters of a file that tell how it is written
PIECE = 1 << 20  # bytes that are decoded at a time
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}\.\d{3}")  # which may be a fraction too
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:[., '’\u00a0\u202f]\d{3})+(?:[.,]\d+)?")
_PLAIN = re.compile(r"[-+]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][-+]?\d+)?")
_WITH_UNIT = re.compile(r"[-+]?[\d.,]+\s*([^\d\s.,]+)|([^\d\s.,+-]+)\s*[-+]?[\d.,]+")


class CsvForm(NamedTuple):
    """How a CSV file is written."""

    encoding: str
    separator: str
    point: str  # the decimal mark
    doubtful: Mapping[str, str]
    """Columns whose numbers may have thousands points or fractions, with the first such cell."""


def csv_form(path: Path) -> CsvForm:
    """Find it out: in many countries a spreadsheet writes 0,5; 0,25, and not in UTF-8."""
    encoding = _encoding(path)
    with path.open(encoding=encoding, errors="replace") as file:
        start = file.read(HEAD).lstrip("\ufeff")
    if len(start) == HEAD and "\n" in start:
        start = start[: start.rindex("\n") + 1]  # whole lines
    first = start.lstrip().partition("\n")[0]
    header = re.sub(r'"[^"]*"|\d,\d', "", first)  # a name in quotes may have any of them
    separator = max(";\t,", key=header.count) if re.search("[;\t]", header) else ","
    field = rf'(?m)(?:^|{separator})"?([-+]?\d+%s\d+)"?(?={separator}|$)'
    dots = re.findall(field % r"\.", start)
    unclear = separator != "," and all(map(_THOUSANDS.fullmatch, dots))
    if unclear and re.search(field % ",", start):
        return CsvForm(encoding, separator, ",", {})
    return CsvForm(encoding, separator, ".", _doubtful(start, separator) if unclear and dots else {})


def csv_text(path: Path) -> str:
    """A CSV file as text."""
    return path.read_text(encoding=_encoding(path)).lstrip("\ufeff")


def csv_rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows of a small CSV file that are not empty, each with its line, and with points in numbers."""
    form = csv_form(path)
    lines = csv.reader(io.StringIO(csv_text(path)), delimiter=form.separator)
    return [(lines.line_num, [_with_point(cell, form.point) for cell in row]) for row in lines if row]


def _with_point(cell: str, point: str) -> str:
    return cell.replace(point, ".") if _PLAIN.fullmatch(cell.strip()) else cell


def _encoding(path: Path) -> str:
    """UTF-8 if all of the file is; UTF-16 by its mark; or else what Windows writes in western countries."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        for piece in iter(lambda: file.read(PIECE), b""):
            if piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and file.tell() == len(piece):
                return "utf-16"
            try:
                decoder.decode(piece)
            except UnicodeDecodeError:
                return "cp1252"
    return "utf8"


def _doubtful(start: str, separator: str) -> dict[str, str]:
    """The columns with a cell such as 1.234, and the first one."""
    names, *rows = csv.reader(start.lstrip().splitlines(), delimiter=separator)
    found: dict[str, str] = {}
    for row in rows:
        for name, cell in zip(names, row, strict=False):
            if name not in found and _THOUSANDS.fullmatch(cell):
                found[name] = cell
    return found


def refuse_doubtful(form: CsvForm, columns: Iterable[str]) -> None:
    """An error if one of these columns, which should hold numbers, may be read in two ways."""
    for name in columns:
        if name in form.doubtful:
            cell = form.doubtful[name]
            whole, fraction = cell.replace(".", ""), cell.replace(".", ",")
            raise ValueError(
                f"column {name!r} has {cell}, which may be {whole} with a thousands point or a fraction; write "
                f"{whole}, or {fraction} if it is a fraction"
            )


def why_no_numbers(name: str, cells: list[str]) -> str:
    """Which cell of a column of text is no number, and what to do.

    >>> why_no_numbers("sales", ["0,00", "1.234,50"])
    "row 2 has '1.234,50': write it without thousands separators"
    >>> why_no_numbers("bought", ["yes", "no", "yes"])
    'row 1 has \\'yes\\': say "bought == \\'no\\'" for 1 where it is \\'no\\' and 0 elsewhere'
    """
    row = next((row for row, cell in enumerate(cells) if cell and not _PLAIN.fullmatch(cell)), None)
    if row is None:  # commas and points beside each other, or commas where points are expected
        row = next((row for row, cell in enumerate(cells) if _THOUSANDS.fullmatch(cell)), None)
    if row is None:
        row = next(row for row, cell in enumerate(cells) if "," in cell)
        return f"row {row + 1} has {cells[row]!r}: write {cells[row].replace(',', '.')!r}"
    cell = cells[row]
    unit = _WITH_UNIT.fullmatch(cell)
    if _GROUPED.fullmatch(cell):
        remedy = "write it without thousands separators"
    elif unit and "%" in unit.groups():
        remedy = "write it as a fraction without %, such as 0.2 for 20 %"
    elif unit:
        remedy = f"write the number without {(unit[1] or unit[2])!r}"
    elif name.isidentifier() and len(set(cells[:1000])) <= 10:
        rare = min(set(filter(None, cells)), key=cells.count)
        remedy = f'say "{name} == {rare!r}" for 1 where it is {rare!r} and 0 elsewhere'
    else:
        remedy = "expected a number"
    return f"row {row + 1} has {cell!r}: {remedy}"
