"""Which columns of a file or table say what, and reading them: `diagnose`, `evaluate` and `plan` all ask here."""

import ast
import contextlib
import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posse.csv_form import CsvForm, csv_form, refuse_doubtful, why_no_numbers
from posse.decision import UnknownDecision, parse_id
from posse.extras import extra
from posse.text import listed

EMPIRICAL = "empirical"
MIDNIGHT = r"\d{4}-\d\d-\d\d 00:00:00(\.0+)?"
NO_ID = "none"
DAY = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")  # 27.03.2024
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


@dataclass(frozen=True)
class Columns:
    """Which columns hold the player, the arm, the reward and the propensity of each row.

    `player` may be several columns: a list, or names with commas between them. `reward` is a column or a calculation
    with columns and numbers, such as "1 - day30", or "bought == 'yes'". `propensity` is a column, a number, a fraction
    such as "1/3", or "empirical": how often each player's rows have the arm. `id` is a column whose values must not
    repeat: by default a posse decision's id in "decision", or "id"; "none" checks nothing. With `trials`, each row is a
    total: that column has the number of trials, such as visitors, and `reward` how many of them succeeded.
    """

    player: str | Iterable[str] = "player"
    arm: str = "arm"
    reward: str = "reward"
    propensity: str | float = "propensity"
    id: str | None = None
    trials: str | None = None


class Source:
    """A file or a table: the names of its columns, and the columns themselves, read when they are asked for."""

    def __init__(self, source: Any) -> None:
        with extra("arrow", "a log"):
            import pyarrow

        if callable(getattr(source, "log", None)):
            source = source.log()
        self._path = Path(source) if isinstance(source, (str, Path)) else None
        if self._path is not None:
            schema = self._schema(self._path)
        else:
            self._table = source if isinstance(source, pyarrow.Table) else _to_arrow(source)
            schema = self._table.schema
        self.release_memory = pyarrow.default_memory_pool().release_unused  # of tables that are gone: a third of a peak
        self.names: list[str] = schema.names
        self.about = _about(schema.metadata or {})

    def id_column(self, given: str | None) -> str | None:
        """The column whose values must not repeat, or None."""
        usual = next((name for name in ("decision", "id") if name in self.names), None)
        return usual if given is None else None if given == NO_ID else given

    def several(self, columns: str | Iterable[str]) -> list[str]:
        """The columns that one text names, with commas between them, or that are listed."""
        if not isinstance(columns, str):
            return list(columns)
        return [columns] if columns in self.names else [name.strip() for name in columns.split(",")]

    def inputs(self, formula: str | float) -> list[str]:
        """The columns that a calculation uses."""
        if isinstance(formula, str) and formula not in self.names:
            return [node.id for node in ast.walk(_parsed(formula)) if isinstance(node, ast.Name)]
        return [formula] if isinstance(formula, str) else []

    def read(self, columns: Iterable[str], names: list[str], identity: str | None) -> Any:
        """A table with these columns, each of which must be there once. Names and ids are not taken for numbers."""
        wanted = list(dict.fromkeys(columns))
        for name in wanted:
            times = self.names.count(name)
            if times > 1:
                raise ValueError(f"the log has column {name!r} {times} times, but expected it once")
            if times == 0:
                there = listed(self.names, 30) or "none"
                raise ValueError(f"the log has no column {name!r}; its columns are {there}{_hint(name, self.names)}")
        table = (
            self._table.select(wanted) if self._path is None else self._from_file(self._path, wanted, names, identity)
        )
        if table.num_rows == 0:
            raise ValueError("the log has no rows, but expected at least one decision")
        return table

    @staticmethod
    def _schema(path: Path) -> Any:
        import pyarrow.csv
        import pyarrow.parquet

        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        ending = path.suffix.lower()
        if ending not in (".csv", ".parquet", ".pq"):
            raise ValueError(f"{path} ends in {path.suffix!r}, but a log is a .parquet or .csv file")
        try:
            if ending != ".csv":
                return pyarrow.parquet.read_schema(path)
            return pyarrow.csv.open_csv(path, *_csv_options(csv_form(path))).schema
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"{path} cannot be read: {error}") from None

    @staticmethod
    def _from_file(path: Path, wanted: list[str], names: list[str], identity: str | None) -> Any:
        import pyarrow.csv
        import pyarrow.parquet

        try:
            if path.suffix.lower() != ".csv":
                return pyarrow.parquet.read_table(path, columns=wanted, read_dictionary=names)
            kinds = {name: pyarrow.dictionary(pyarrow.int32(), pyarrow.string()) for name in names}
            kinds |= {identity: pyarrow.string()} if identity else {}
            form = csv_form(path)
            refuse_doubtful(form, [name for name in wanted if name not in kinds])
            options = pyarrow.csv.ConvertOptions(
                column_types=kinds, include_columns=wanted, strings_can_be_null=False, decimal_point=form.point
            )
            return pyarrow.csv.read_csv(path, *_csv_options(form), convert_options=options)
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"{path} cannot be read: {error}") from None


def _csv_options(form: CsvForm) -> tuple[Any, Any]:
    """How pyarrow is told how a CSV file is written."""
    import pyarrow.csv

    return pyarrow.csv.ReadOptions(encoding=form.encoding), pyarrow.csv.ParseOptions(delimiter=form.separator)


def _to_arrow(source: Any) -> Any:
    """Any data frame as an Arrow table: pandas, polars, a DuckDB relation, or a mapping of columns."""
    import pyarrow

    if hasattr(source, "collect") and not hasattr(source, "__arrow_c_stream__"):
        source = source.collect()  # polars' lazy frame
    known = isinstance(source, Mapping) or hasattr(source, "__arrow_c_stream__") or hasattr(source, "__dataframe__")
    if not known and not hasattr(source, "fetch_arrow_table"):
        raise TypeError(
            f"a {type(source).__name__} is no log; expected a path to a .parquet or .csv file, an Arrow table, a "
            "DataFrame, or a learner"
        )
    try:
        return pyarrow.table(source) if known else source.fetch_arrow_table()  # DuckDB before it had the Arrow stream
    except (pyarrow.ArrowException, TypeError) as error:
        raise ValueError(f"the {type(source).__name__} cannot be made an Arrow table: {error}") from None


def _hint(name: str, columns: list[str]) -> str:
    """What may be wrong if a column is missing: its separator, or that it has another name than usual."""
    for mark, separator in ((";", "semicolons"), ("\t", "tabs")):
        if any(mark in column for column in columns):
            return f"; they seem to be separated by {separator}: read them so"
    usual = name in (Columns.player, Columns.arm, Columns.reward)
    return f"; say which of them is the {name}: --{name} COLUMN ({name}=...)" if usual else ""


def _about(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    """What a learner wrote about itself in the table's metadata."""
    written = metadata.get(b"posse", b"{}")
    try:
        about = json.loads(written)
    except ValueError:
        about = None
    if not isinstance(about, dict):
        raise ValueError(f"what the log says of itself cannot be read: {written[:60]!r}, but expected a JSON object")
    return about


def names_of(
    table: Any, columns: list[str], what: str, first: list[str], in_order: bool, missing: str | None = None
) -> tuple[tuple[str, ...], np.ndarray]:
    """The names in one or several columns, those in `first` before the others, and the place of each row's name.

    Several columns make names such as "10115 / mail". Whole numbers and dates are sorted as such. Without a name for
    what is `missing`, every row must have one.
    """
    found, places = _encoded(table, columns[0], what, missing)
    for column in columns[1:]:
        others, more = _encoded(table, column, what)
        pairs, start, places = np.unique(places * len(others) + more, return_index=True, return_inverse=True)
        rank = np.empty(pairs.size, np.int64)
        rank[np.argsort(start, kind="stable")] = np.arange(pairs.size)
        ordered = pairs[np.argsort(start, kind="stable")]
        found, places = [f"{found[k // len(others)]} / {others[k % len(others)]}" for k in ordered], rank[places]
        if len(set(found)) < len(found):
            raise ValueError(f"columns {listed(columns)} give different players the same name; use other names")
    names = list(dict.fromkeys([*first, *(found if in_order else sorted(found, key=_order(found)))]))
    place = {name: number for number, name in enumerate(names)}
    mapping = np.array([place[name] for name in found], np.int64)
    return tuple(names), mapping[places]


def _order(names: list[str]) -> Callable[[str], Any]:
    """How names are sorted: whole numbers as numbers, dates such as 27.03.2024 as dates, others as text."""
    if all(name.isdecimal() for name in names):
        return int
    if all(map(DAY.fullmatch, names)):
        return lambda name: tuple(map(int, reversed(name.split("."))))
    return str


def _encoded(table: Any, column: str, what: str, missing: str | None = None) -> tuple[list[str], np.ndarray]:
    """The names in a column, in the order of their first rows, and for each row the place of its name."""
    import pyarrow

    values = table[column].unify_dictionaries().combine_chunks()
    kind = values.type
    if pyarrow.types.is_floating(kind):
        values = pyarrow.array(values.to_numpy(zero_copy_only=False), from_pandas=True)  # NaN is no name either
        with contextlib.suppress(pyarrow.ArrowInvalid):
            values = values.cast(pyarrow.int64())  # whole numbers, in a column that has gaps elsewhere
    try:
        encoded = values if pyarrow.types.is_dictionary(kind) else values.dictionary_encode()
        found = encoded.dictionary.cast(pyarrow.string()).to_pylist()
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
        raise ValueError(f"column {column!r} holds {kind}, but expected names") from None
    if pyarrow.types.is_timestamp(kind) and all(re.fullmatch(MIDNIGHT, name) for name in found if name):
        found = [name and name[:10] for name in found]  # days
    places = encoded.indices.fill_null(len(found)).to_numpy()
    empty = np.array([not name for name in (*found, None)])[places]
    if empty.any() and missing is None:
        raise ValueError(f"row {int(empty.argmax()) + 1} has no {what}; every row needs one")
    found = [name or missing or "" for name in (*found, None)]
    first = np.full(len(found), places.size)
    first[places[::-1]] = np.arange(places.size)[::-1]  # the last that is written stays: the first row
    order = np.argsort(first, kind="stable")[: (first < places.size).sum()]
    rank = np.empty(len(found), np.int64)
    rank[order] = np.arange(order.size)
    names = [found[place].capitalize() if pyarrow.types.is_boolean(kind) else found[place] for place in order]
    return names, rank[places]


def numbers_of(table: Any, formula: str | float) -> np.ndarray:
    """A column, or a calculation with columns and numbers, as float64, NaN where empty.

    >>> import pyarrow
    >>> numbers_of(pyarrow.table({"day30": [1, 0], "day 7": [0, 1]}), "1 - day30").tolist()
    [0.0, 1.0]
    """
    import pyarrow

    if isinstance(formula, str) and formula not in table.column_names:
        return np.full(table.num_rows, 1.0) * _value(_parsed(formula).body, table, formula)
    if not isinstance(formula, str):
        return np.full(table.num_rows, float(formula))
    try:
        cast = table[formula].cast(pyarrow.float64())
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        why = str(error)
        with contextlib.suppress(pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
            cells = table[formula].cast(pyarrow.string()).fill_null("").to_pylist()
            why = why_no_numbers(formula, cells)
        raise ValueError(f"column {formula!r} must hold numbers, but {why}") from None
    return np.asarray(cast.to_numpy(), np.float64)


def filled(table: Any, column: str) -> np.ndarray:
    """Which rows have a text in a column; a CSV file has an empty one where there is none."""
    import pyarrow.compute

    there = pyarrow.compute.not_equal(table[column].cast(pyarrow.string()), "").fill_null(False)
    return np.asarray(there.to_numpy())


def lists_of(table: Any, column: str, most: int) -> np.ndarray:
    """A column of lists as a table, [row, place]: 0 where a place is empty or missing, NaN where a row has no list."""
    import pyarrow.compute

    lists = table[column].combine_chunks()
    values = lists.flatten().fill_null(0.0).to_numpy(zero_copy_only=False)
    if lists.null_count == 0 and pyarrow.compute.all(pyarrow.compute.equal(lists.value_lengths(), most)).as_py():
        return np.asarray(values.reshape(-1, most))
    sizes = np.nan_to_num(lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)).astype(np.int64)
    rows = np.repeat(np.arange(sizes.size), sizes)
    places = np.arange(rows.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    found = np.zeros((sizes.size, most))
    found[rows, places] = values
    found[lists.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return found


def _parsed(formula: str) -> ast.Expression:
    try:
        return ast.parse(formula.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: it is nested too deep
        raise ValueError(f"{formula!r:.200} is neither a column nor a calculation such as '1 - day30'") from None


def _value(node: ast.AST, table: Any, formula: str) -> Any:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        with np.errstate(all="ignore"):
            left, right = np.float64(_value(node.left, table, formula)), _value(node.right, table, formula)
            return _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.operand, table, formula))
    if isinstance(node, ast.Name):
        return numbers_of(table, node.id)
    match node:
        case ast.Compare(ast.Name(column), [ast.Eq()], [ast.Constant(str(value))]):
            return _equals(table, column, value)
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        with contextlib.suppress(OverflowError):  # a whole number of more than 308 digits
            return float(node.value)
    raise ValueError(
        f"{formula!r:.200} is no calculation with columns and numbers; it may have + - * / and parentheses, and "
        "comparisons such as bought == 'yes'"
    )


def _equals(table: Any, column: str, value: str) -> np.ndarray:
    """1 where a column has this text, 0 where it has another, and NaN where it is empty."""
    cells, places = _encoded(table, column, column, missing="")
    if value not in cells:
        raise ValueError(f"no row has {column} == {value!r}; it is {listed(filter(None, cells))}")
    return np.array([np.nan if cell == "" else float(cell == value) for cell in cells])[places]


def refuse_repeated_ids(table: Any, column: str, sure: bool) -> None:
    """An error if two rows have the same id. Unless `sure`, a column "decision" without posse's ids is something else.

    Rows without an id are not decisions.
    """
    ids = table[column].combine_chunks().dictionary_encode()
    if ids.null_count + len(ids.dictionary) == len(ids) or (column == "decision" and not sure and not _own(ids)):
        return
    places = ids.indices.fill_null(-1).to_numpy()
    empty = [place for place, value in enumerate(ids.dictionary.to_pylist()) if value == ""]  # as a CSV file has it
    known = np.flatnonzero(~np.isin(places, [-1, *empty]))
    _, first, inverse = np.unique(places[known], return_index=True, return_inverse=True)
    repeated = np.flatnonzero(first[inverse] != np.arange(known.size))
    if not repeated.size:
        return
    again = int(repeated[0])
    rows = known[first[inverse[again]]] + 1, known[again] + 1
    raise ValueError(
        f"rows {rows[0]:,} and {rows[1]:,} have the same {column}, {ids[int(known[again])].as_py()!r}: rows that are "
        f"there twice would make intervals too narrow (id='{NO_ID}' or --id {NO_ID} if this column may repeat)"
    )


def _own(ids: Any) -> bool:
    try:
        parse_id(ids.dictionary[0].as_py())
    except UnknownDecision:
        return False
    return True
