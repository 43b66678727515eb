"""Tables of means that are given, in a spec or in files beside it."""

from pathlib import Path
from typing import Any

import numpy as np

from posse.csv_form import csv_text
from posse.experiments.spec.study import Table
from posse.mean_table import Names, check_means, read_csv

MAX_TEXT = 1_000_000  # characters of a file that a manifest holds


def read_means(value: Any) -> tuple[Table, ...]:
    """The `means` of a spec: one table, or a list of tables."""
    if not isinstance(value, list) or not value:
        raise TypeError("expected a table of numbers in [0, 1], one row a player, or a list of such tables")
    several = all(isinstance(row, list) and row and isinstance(row[0], list) for row in value)
    return tuple(
        check_means(f"table {k}" if several else "table", rows) for k, rows in enumerate(value if several else [value])
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
        tables += (check_means(name, rows, *named) for rows, named in found)
        found_names += (named for _, named in found)
    return tuple(tables), found_names


def csv_texts(value: str | list[str], folder: Path) -> dict[str, str]:
    """The CSV files of a spec's `file` as texts, by name; larger ones are left out."""
    names = [name for name in (value if isinstance(value, list) else [value]) if name.endswith(".csv")]
    texts = {name: csv_text(folder / name) for name in names}
    return {name: text for name, text in texts.items() if len(text) <= MAX_TEXT}


def _read(path: Path) -> list[tuple[Any, Names]]:
    if path.suffix == ".csv":
        return [read_csv(path)]
    array = np.load(path, allow_pickle=False)
    if not isinstance(array, np.ndarray) or array.ndim not in (2, 3) or array.dtype.kind not in "fiu":
        raise ValueError("expected an array of numbers, players × arms or problems × players × arms")
    return [(table.tolist(), ([], [])) for table in array.astype(float).reshape(-1, *array.shape[-2:])]
