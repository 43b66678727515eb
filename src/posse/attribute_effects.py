"""Attributes of players in generated problems, and what they do to the players' means."""

import itertools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from posse.attributes import MOST_VALUES, Attributes, is_number
from posse.checks import number, whole

MOST_COMBINATIONS = 1_000_000
EXPLAINED = 0.9  # if nothing is said


class AttributeEffects:
    """Which attributes players have, and what each value does to the means of each arm.

    The options are those of `posse.generate.structured`. Everything is in units of its `spread`, the width of a uniform
    law: effects are drawn from narrower ones, and a share of the variance is the square of a share of the width.
    """

    def __init__(
        self,
        attributes: Mapping[str, Any],
        *,
        players: int,
        arms: int,
        explained: float | Mapping[str, float] | None = None,
        interactions: float | None = None,
        missing: float | None = None,
        rare: float | None = None,
    ) -> None:
        self.attributes, self._sizes = declare(attributes)
        self._players, self._arms = players, arms
        shares = _shares(explained, list(self.attributes.kinds))
        pairs = list(itertools.combinations(range(len(shares)), 2))
        between = number("interactions", interactions or 0.0, least=0, most=1)
        if between and not pairs:
            raise ValueError(f"interactions={between:g}, but one attribute alone has none; expected 0")
        if (total := sum(shares) + between) > 1 + 1e-9:
            raise ValueError(
                f"explained={sum(shares):g} with interactions={between:g}, but the sum is {total:g}, above 1"
            )
        self.own = math.sqrt(max(0.0, 1 - total))  # the width of what is a player's own
        self._effects = [self._effect((place,), share) for place, share in enumerate(shares)]
        self._effects += [self._effect(pair, between / len(pairs)) for pair in pairs if between]
        self.reach = sum(effect.reach for effect in self._effects)  # the most by which effects can move a mean
        self._missing = number("missing", missing or 0.0, least=0, most=1)
        self._rare = None if rare is None else number("rare", rare, least=0, most=10)
        self._orders = -(-players // math.prod(self._sizes))  # of all combinations, one after another
        each = players * len(shares)
        chosen = self._orders * math.prod(self._sizes) if rare is None else each
        self._parts = np.cumsum([each, chosen, *(effect.numbers * arms for effect in self._effects)])
        self.numbers = int(self._parts[-1])  # random numbers that a problem takes

    def _effect(self, of: tuple[int, ...], share: float) -> "_Effect":
        slope = len(of) == 1 and is_number(list(self.attributes.kinds.values())[of[0]])
        return _Effect(of, tuple(self._sizes[place] for place in of), share, slope)

    def draw(self, draws: np.ndarray) -> tuple[np.ndarray, list[dict[str, Any]]]:
        """Effects on the means, [player, arm], and what is told of each player."""
        hidden, order, *tables = np.split(draws, self._parts[:-1])
        chosen = self._choose(order)
        found = np.zeros((self._players, self._arms))
        for effect, table in zip(self._effects, tables, strict=True):
            found += effect.table(table.reshape(-1, self._arms))[tuple(chosen[place] for place in effect.of)]
        told = hidden.reshape(self._players, -1) >= self._missing
        examples = {name: _examples(kind) for name, kind in self.attributes.kinds.items()}
        values = [
            {name: examples[name][place] for name, place, tell in zip(examples, places, seen, strict=True) if tell}
            for places, seen in zip(chosen.T, told, strict=True)
        ]
        return found, values

    def _choose(self, draws: np.ndarray) -> np.ndarray:
        """The place of each player's value, [attribute, player]."""
        if self._rare is None:
            orders = draws.reshape(self._orders, -1).argsort(axis=1)
            return np.array(np.unravel_index(orders.ravel()[: self._players], self._sizes))
        sums = [np.cumsum(np.arange(1.0, size + 1) ** -self._rare) for size in self._sizes]
        own = draws.reshape(-1, self._players)
        return np.array([np.searchsorted(each, row * each[-1]) for each, row in zip(sums, own, strict=True)])


class _Effect(NamedTuple):
    """What an attribute, or a pair of them, does to means."""

    of: tuple[int, ...]  # the places of its attributes
    sizes: tuple[int, ...]  # how many values they have
    share: float  # of the variance between players
    slope: bool  # of a number: a straight line over its bins

    @property
    def numbers(self) -> int:
        """How many random numbers it takes for an arm."""
        return 1 if self.slope else math.prod(self.sizes)

    @property
    def factor(self) -> float:
        """What gives the centered table, on average, its share of the variance."""
        if self.slope:
            return math.sqrt(self.share * 0.75 * (self.sizes[0] - 1) / (self.sizes[0] + 1))
        return math.sqrt(self.share * math.prod(size / (size - 1) for size in self.sizes))

    @property
    def reach(self) -> float:
        return self.factor * (1.0 if self.slope else math.prod(2 - 2 / size for size in self.sizes) / 2)

    def table(self, draws: np.ndarray) -> np.ndarray:
        """The effects, [a value of each attribute, arm], from uniform draws [number, arm]; their mean is 0."""
        if self.slope:
            return self.factor * np.linspace(-1, 1, self.sizes[0])[:, None] * (2 * draws - 1)
        table = draws.reshape(*self.sizes, -1)
        for axis in range(len(self.sizes)):
            table = table - table.mean(axis=axis, keepdims=True)
        return self.factor * table


def declare(attributes: Mapping[str, Any]) -> tuple[Attributes, list[int]]:
    """The declaration of generated attributes, {name: number of values or cuts}, and how many values each has."""
    if not isinstance(attributes, Mapping) or not attributes:
        expected = "{name: number of values}, such as {'region': 4}"
        raise TypeError(f"attributes={attributes!r}, but expected {expected}")
    try:
        declared = Attributes({name: _kind(name, given) for name, given in attributes.items()})
    except (TypeError, ValueError) as error:
        raise type(error)(f"attributes={attributes!r}: {error}") from None
    sizes = [len(_examples(kind)) for kind in declared.kinds.values()]
    if 1 in sizes:
        raise ValueError(f"attributes={attributes!r}, but expected at least two values of each")
    if math.prod(sizes) > MOST_COMBINATIONS:
        made = f"attributes={attributes!r} make {math.prod(sizes):,} combinations"
        raise ValueError(f"{made}, but expected at most {MOST_COMBINATIONS:,}")
    return declared, sizes


def _kind(name: str, given: Any) -> Any:
    """The kind of an attribute with so many values, or a kind as it is given."""
    if isinstance(given, (list, tuple)):
        return given
    size = whole(str(name), given, least=2, most=MOST_VALUES)
    return [f"{name} {value}" for value in range(1, size + 1)]


def _examples(kind: Any) -> list[Any]:
    """A value of each category, or a number in each bin."""
    return [math.nextafter(kind[0], -math.inf), *kind] if is_number(kind) else list(kind)


def _shares(explained: Any, names: list[str]) -> list[float]:
    """The share of the variance that each attribute explains."""
    if not isinstance(explained, Mapping):
        share = number("explained", EXPLAINED if explained is None else explained, least=0, most=1)
        return [share / len(names)] * len(names)
    if not set(explained) <= set(names):
        raise ValueError(f"explained={dict(explained)!r}, but the attributes are {', '.join(names)}")
    return [number("explained", explained.get(name, 0.0), least=0, most=1) for name in names]
