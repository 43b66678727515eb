"""Attributes: what is known about players beside their data, such as region, device or age.

An attribute is a category or a number. Numbers are cut into bins, so that players with one combination of attributes
are alike. Policies see attributes as *parts*: a category is one part; a number is two, the slope over its bins and what
a bin does beyond the slope; and every two attributes are one part more, the pair. A part has columns, one for each of
its values, and an effect is estimated for each column: see `Coded`.
"""

import bisect
import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from posse.checks import WrongValue, number, whole

CATEGORY = "category"
Value = str | int | None
"""A player's value of an attribute: a category's name, a number's bin, or None if it is missing."""
Kind = str | tuple[str, ...] | tuple[float, ...]
MOST, MOST_VALUES, LONGEST = 12, 1000, 100  # attributes, values of one that are listed, characters of a name or a value
LONGEST_NAME, DIGEST = 200, 16  # characters of a player's name, and of the digest at the end of one that was cut


class Attributes:
    """The attributes that players have, declared once, each with its kind.

    A kind is "category" for any strings, a list of strings for these and no others, or a list of rising numbers: the
    cut points of a number, which make one bin more than there are cuts. A bin holds its lower cut, not its upper one.

    >>> declared = Attributes({"region": "category", "device": ["phone", "desktop"], "age": [18, 30, 50]})
    >>> declared.values({"region": "south", "age": 44})
    ('south', None, 2)
    >>> declared.name(declared.values({"region": "south", "age": 44}))
    'region=south, age=30 to 50'
    """

    def __init__(self, kinds: Mapping[str, Any] | None = None) -> None:
        if not isinstance(kinds or {}, Mapping):
            raise TypeError(f"attributes={kinds!r}, but expected {{name: kind}}, such as {{'region': 'category'}}")
        if len(kinds or {}) > MOST:
            raise ValueError(f"{len(kinds or {})} attributes, but expected at most {MOST}")
        self.kinds: dict[str, Kind] = {_name(name): _kind(name, kind) for name, kind in (kinds or {}).items()}

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attributes) and list(self.kinds.items()) == list(other.kinds.items())

    def __hash__(self) -> int:
        return hash(tuple(self.kinds.items()))

    def __repr__(self) -> str:
        return f"Attributes({self.to_dict()})"

    def to_dict(self) -> dict[str, str | list[Any]]:
        """The kinds as plain values, which make the same again."""
        return {name: kind if isinstance(kind, str) else list(kind) for name, kind in self.kinds.items()}

    def values(self, given: Mapping[str, Any]) -> tuple[Value, ...]:
        """A player's values in the order of the declaration, checked; None for what is missing or None."""
        if not isinstance(given, (dict, Mapping)):
            raise TypeError(f"attributes={given!r:.60}, but expected {{name: value}}")
        if not given.keys() <= self.kinds.keys():
            unknown = next(name for name in given if name not in self.kinds)
            declared = ", ".join(self.kinds) or "none"
            raise WrongValue(f"attribute {unknown!r:.60} was not declared; declared: {declared}")
        return tuple([_value(name, kind, given.get(name)) for name, kind in self.kinds.items()])

    def check(self, values: Sequence[Any]) -> tuple[Value, ...]:
        """Values that were made before, from a file for example, checked again."""
        if not isinstance(values, (list, tuple)) or len(values) != len(self.kinds):
            raise ValueError(f"attributes={values!r:.60}, but expected {len(self.kinds)} values")
        named = zip(self.kinds.items(), values, strict=True)
        return tuple(_bin(name, kind, v) if is_number(kind) else _value(name, kind, v) for (name, kind), v in named)

    def shown(self, values: Sequence[Value]) -> dict[str, str]:
        """Values as people read them, {attribute: value}, without those that are missing."""
        named = zip(self.kinds.items(), values, strict=True)
        return {name: _shown(kind, value) for (name, kind), value in named if value is not None}

    def table(self, rows: Sequence[Sequence[Value]]) -> dict[str, tuple[str | None, ...]] | None:
        """Players' values as people read them, {attribute: value of each player}; None without attributes."""
        made = {}
        for place, (name, kind) in enumerate(self.kinds.items()):
            column = [values[place] for values in rows]
            texts = {value: None if value is None else _shown(kind, value) for value in set(column)}
            made[name] = tuple(texts[value] for value in column)
        return made or None

    def texts(self, name: str) -> list[str]:
        """All values of an attribute as people read them, in their order; none for a category of any strings."""
        kind = self.kinds[name]
        if isinstance(kind, str):
            return []
        return [_shown(kind, value) for value in range(len(kind) + 1)] if is_number(kind) else [str(v) for v in kind]

    def example(self) -> dict[str, str | float]:
        """A value for each attribute, as somebody may give them."""
        return {n: n if kind == CATEGORY else kind[0] for n, kind in self.kinds.items()}

    def name(self, values: Sequence[Value]) -> str:
        """The name of a player that is nothing but a combination of values.

        A name that would be longer than `LONGEST_NAME` is cut, and ends in a digest of all of it: a decision should not
        be refused because a value is long.
        """
        texts = [f"{name}={_quoted(shown)}" for name, shown in self.shown(values).items()]
        full = ", ".join(texts) or "no attributes"
        if len(full) <= LONGEST_NAME:
            return full
        digest = hashlib.sha256(full.encode()).hexdigest()[:DIGEST]
        return f"{full[: LONGEST_NAME - DIGEST - 2]}… {digest}"


class Coded(NamedTuple):
    """Players' attributes as policies take them. Without attributes there are no parts and no columns.

    The first columns, one for each part, stand for values that nobody is known to have, missing ones among them: no
    effect is estimated for those. What attributes say of player p is Σ weights[p, part] · effect[columns[p, part]].
    """

    columns: np.ndarray  # int64 [player, part], the column of the player's value
    weights: np.ndarray  # float64 [player, part]: 1, or for a slope where the bin lies, from −1 to 1
    part_of: np.ndarray  # int64 [column], the part of each column


class Coder:
    """Gives each value of each part a column, in the order in which values come."""

    def __init__(self, attributes: Attributes) -> None:
        self.attributes = attributes
        self._cuts = [len(kind) if is_number(kind) else 0 for kind in attributes.kinds.values()]
        kinds = range(len(self._cuts))
        self._parts: list[tuple[int, ...]] = []  # the attributes of each part; a slope has its attribute twice
        for place in kinds:
            self._parts += [(place, place), (place,)] if self._cuts[place] else [(place,)]
        self._parts += itertools.combinations(kinds, 2)
        self.part_of = list(range(len(self._parts)))
        self._columns: dict[tuple[Any, ...], int] = {}

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return len(self._parts)

    def code(self, values: Sequence[Value]) -> tuple[list[int], list[float]]:
        """The column and the weight of each part for a player with these values; new values get new columns."""
        columns, weights = [], []
        for part, of in enumerate(self._parts):
            seen = tuple(values[place] for place in of)
            slope = len(of) == 2 and of[0] == of[1]
            if None in seen:
                columns.append(part)
                weights.append(0.0 if slope else 1.0)
                continue
            key = (part,) if slope else (part, *seen)
            if key not in self._columns:
                self._columns[key] = len(self.part_of)
                self.part_of.append(part)
            columns.append(self._columns[key])
            bin_ = seen[0]
            weights.append(2.0 * bin_ / self._cuts[of[0]] - 1.0 if slope and isinstance(bin_, int) else 1.0)
        return columns, weights

    def coded(self, rows: Iterable[Sequence[Value]]) -> Coded:
        """Several players at once."""
        players = list(rows)
        shape = (len(players), self.parts)
        columns, weights = np.empty(shape, np.int64), np.empty(shape)
        for player, values in enumerate(players if self.parts else ()):
            columns[player], weights[player] = self.code(values)
        return Coded(columns, weights, np.array(self.part_of, np.int64))


def _name(name: Any) -> str:
    if not (isinstance(name, str) and name.isidentifier() and len(name) <= LONGEST):
        expected = f"letters, digits and _, at most {LONGEST}, no digit first"
        raise ValueError(f"attribute {name!r:.60}, but the name of an attribute has {expected}")
    return name


def is_number(kind: Kind) -> bool:
    """Whether a kind is that of a number: the cuts between its bins."""
    return not isinstance(kind, str) and isinstance(kind[0], float)


def _kind(name: str, kind: Any) -> Kind:
    """The kind of an attribute, checked."""
    expected = "'category', a list of categories, or a list of rising numbers to cut at"
    if isinstance(kind, str) and kind == CATEGORY:
        return CATEGORY
    if isinstance(kind, (str, bytes, Mapping)) or not isinstance(kind, Iterable):
        raise TypeError(f"attribute {name!r} is {kind!r:.60}, but expected {expected}")
    listed = list(kind)
    if not 0 < len(listed) <= MOST_VALUES:
        raise ValueError(f"attribute {name!r} has {len(listed)} values or cuts, but expected 1 to {MOST_VALUES}")
    if all(isinstance(value, str) for value in listed):
        values = tuple(_category(name, value) for value in listed)
        if len(set(values)) < len(values):
            raise ValueError(f"attribute {name!r} lists a category twice: {listed!r:.100}")
        return values
    cuts = tuple(number(f"a cut of attribute {name!r}", value) for value in listed)
    shown = [float(_digits(cut)) for cut in cuts]
    if any(first >= second for first, second in itertools.pairwise(shown)):
        expected = "rising numbers that differ in their first 15 digits"
        raise ValueError(f"attribute {name!r} is cut at {listed!r:.100}, but expected {expected}")
    return cuts


def _category(name: str, value: Any) -> str:
    if not (isinstance(value, str) and len(value.strip()) > 0 and len(value) <= LONGEST and value.isprintable()):
        expected = f"a string of 1 to {LONGEST} printable characters"
        raise WrongValue(f"attribute {name}={value!r:.60}, but expected {expected}")
    return str(value)


def _value(name: str, kind: Kind, given: Any) -> Value:
    if given is None:
        return None
    if is_number(kind):
        return bisect.bisect_right(kind, number(f"attribute {name}", given))
    value = _category(name, given)
    if kind != CATEGORY and value not in kind:
        declared = ", ".join(map(str, kind))
        raise WrongValue(f"attribute {name}={value!r:.60}, but declared are only {declared[:200]}")
    return value


def _bin(name: str, kind: Kind, value: Any) -> int | None:
    return None if value is None else whole(f"the bin of attribute {name}", value, least=0, most=len(kind))


def _shown(kind: Kind, value: Value) -> str:
    if not is_number(kind) or not isinstance(value, int):
        return str(value)
    if value == 0:
        return f"below {_digits(kind[0])}"
    if value == len(kind):
        return f"{_digits(kind[-1])} and more"
    return f"{_digits(kind[value - 1])} to {_digits(kind[value])}"


def _digits(cut: Any) -> str:
    return f"{cut:.15g}"


def _quoted(text: str) -> str:
    """A value as it stands, or in quotes where it could be taken for more than one, or for the end of a cut name."""
    return json.dumps(text, ensure_ascii=False) if any(mark in text for mark in ',="…') else text
