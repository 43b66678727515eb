"""Checks of what users give, with errors that name the value and what was expected."""

import math
import operator
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

NARROWEST, WIDEST = 1e-100, 1e100  # of ranges
SQLITE = b"SQLite format 3\0"  # how the file of a SQLite database begins


class WrongValue(ValueError):
    """A value that is wrong in itself, whatever else is known."""


def is_bool(value: Any) -> bool:
    """Whether a value is True or False, NumPy's too; NumPy is not imported for it."""
    kind = type(value)
    return kind is bool or (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"))


def number(
    name: str, value: Any, *, least: float = -math.inf, most: float = math.inf, above: float = -math.inf
) -> float:
    """`value` as a float if it is a finite real number in [least, most] and greater than `above`."""
    if isinstance(value, (str, bytes)) or is_bool(value):
        raise TypeError(f"{name}={value!r:.200}, but expected {_range(least, most, above)}")
    try:
        real = float(value)
    except OverflowError:  # and too long to show
        raise WrongValue(f"{name} is too large, but expected {_range(least, most, above)}") from None
    except (TypeError, ValueError):
        raise TypeError(f"{name}={value!r:.200}, but expected {_range(least, most, above)}") from None
    if not (math.isfinite(real) and least <= real <= most and real > above):
        raise WrongValue(f"{name}={value!r}, but expected {_range(least, most, above)}")
    return real


def value_range(name: str, given: Any, what: str) -> tuple[float, float]:
    """The lowest and the highest value that is possible, from a pair; `what` the values are, for the errors."""
    try:
        low, high = given
    except (TypeError, ValueError):
        raise TypeError(f"{name}={given!r}, but expected (lowest, highest)") from None
    low, high = number(f"the lowest {what}", low), number(f"the highest {what}", high)
    if not NARROWEST <= high - low <= WIDEST:
        expected = "(lowest, highest) with lowest < highest"
        if low < high:
            expected = f"a range that is between {NARROWEST:g} and {WIDEST:g} wide"
        raise ValueError(f"{name}=({low:g}, {high:g}), but expected {expected}")
    return low, high


def dissimilarity(epsilon: Any) -> float:
    """A policy's ε: a number of at least 0, and not so small that its square vanishes."""
    value = number("epsilon", epsilon, least=0)
    if 0 < value < 1e-100:
        raise ValueError(f"epsilon={value:g}, but expected 0 or a number of at least 1e-100")
    return value


def whole(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """`value` as an int if it is a whole number in [least, most]."""
    expected = f"a whole number of at least {least}" + ("" if most is None else f" and at most {most}")
    if is_bool(value):
        raise TypeError(f"{name}={value!r}, but expected {expected}")
    try:
        integer = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r}, but expected {expected}") from None
    if integer < least or (most is not None and integer > most):
        raise ValueError(f"{name}={value!r}, but expected {expected}")
    return integer


def one_of(name: str, value: Any, words: Sequence[str]) -> str:
    """`value` if it is one of the words."""
    if value not in words:
        hint = did_you_mean(str(value), words)
        raise ValueError(f"{name}={value!r}{hint}, but expected {', '.join(map(repr, words))}")
    return str(value)


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """The known name that is most like the given one, as a question; nothing if none is. Case and signs do not count.

    >>> did_you_mean("ind-ts", ["IndTS", "IndUCB"]), did_you_mean("nobody", ["IndTS"])
    (' (did you mean IndTS?)', '')
    """
    import difflib  # only for an error, so that nobody else waits for it

    by_letters = {_letters(name): name for name in known}
    close = difflib.get_close_matches(_letters(given[:60]), by_letters, 1, cutoff=0.65)
    return f" (did you mean {by_letters[close[0]]}?)" if close else ""


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def store(record: Any, **checked: Any) -> None:
    """Set fields of a frozen record, while it is being made, to values that were checked."""
    for name, value in checked.items():
        object.__setattr__(record, name, value)


def output_file(
    path: str | Path, option: str = "", *, endings: Sequence[str] = (), new: bool = False, to: str = "write"
) -> Path:
    """The path of a file that can be written: it is no folder and no database, and its folder exists.

    Args:
        path: the path that the user gave.
        option: the option of the command line that it came from, which the errors then name.
        endings: how the file's name may end, such as (".png", ".svg"); anything if empty.
        new: True for a file that must not exist yet; otherwise an existing file may be replaced.
        to: what is done with the file, for the errors: "write" or "save".
    """
    given = f"{option} {str(path)!r}" if option else str(path)
    expected = "a file" + (f" that ends in {', '.join(endings)}" if endings else f" to {to} to")
    found = Path(path)
    if not str(path) or (endings and found.suffix.lower() not in endings):
        raise ValueError(f"{given}, but expected {expected}")
    if found.is_dir():
        raise IsADirectoryError(f"{given} is a folder, but expected {expected}")
    if not found.parent.is_dir():
        start = f"{given}, but " if option else ""
        raise FileNotFoundError(f"{start}there is no folder {found.parent} to {to} {found.name} in")
    if new and found.exists():
        raise FileExistsError(f"{given} exists already; expected the name of a new file")
    if begins_with(found, SQLITE):
        raise FileExistsError(f"{given} is a database, which is not overwritten; expected another file to {to} to")
    return found


def begins_with(path: Path, magic: bytes) -> bool:
    """Whether this is a file that can be read and begins with these bytes."""
    try:
        if not path.is_file():  # a pipe would wait
            return False
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError:
        return False


def _range(least: float, most: float, above: float) -> str:
    if above > -math.inf:
        return f"a number above {above:g}" + (f" and at most {most:g}" if most < math.inf else "")
    if least > -math.inf:
        return f"a number in [{least:g}, {most:g}]" if most < math.inf else f"a number of at least {least:g}"
    return "a finite number"
