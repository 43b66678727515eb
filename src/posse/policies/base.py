"""What a policy is: a record of constants, a few pure functions, and what it says about itself."""

import dataclasses
import enum
import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from posse.checks import number, whole
from posse.policies.refresh import Refresh as Refresh
from posse.policies.statistics import BASIC, STEPS, Statistic

LONGEST = 1 << 28  # half-life; counts then stay far below 2³¹, where forgetting is exact


class Law(enum.Enum):
    """How an index is made from the two numbers that `index` returns."""

    NORMAL = "normal"
    """`index` returns (center, scale): the index is center + scale · Z with Z ~ N(0, 1)."""

    BETA = "beta"
    """`index` returns (a, b), both at least 1: the index is a Beta(a, b) draw."""

    IMED = "imed"
    """`index` returns (mean, n): the index is −(n kl(mean, best) + ln n), with the best mean on offer."""


class Look(NamedTuple):
    """How figures draw a policy."""

    color: str
    line: str | tuple[int, tuple[float, ...]]
    """matplotlib's line style: a name, or an offset and lengths of strokes and gaps."""
    marker: str
    hatch: str


class OwnLabel(str):
    """A label that the policy made itself."""


@dataclasses.dataclass(frozen=True)
class Policy:
    """An index policy: pull the arm with the largest center + scale · Z, with Z ~ N(0, 1) drawn afresh.

    A policy of your own is a frozen dataclass in a file of its own. Its fields are its constants, all numbers. Its
    functions are static and take numbers **by name**. `index` returns (center, scale) and may take

    - what the pair remembers, by default the player's own count `n`, reward sum `s` and sum of squares `q`;
    - what is shared of the arm, by default everybody's count `N` and reward sum `S` as the player last saw them, the
      player's own included;
    - what is known of the player, by default nothing;
    - what is expected of the pair, by default nothing;
    - the number of players `M` and of arms `K`, the logarithm of the horizon `log_T`, and the policy's constants.

    The functions are compiled, so they may use `math` and other plain functions of numbers, but no objects. An arm
    that must be tried first has center `math.inf` and scale 0. CONTRIBUTING.md: "Add an algorithm in one file".
    """

    name: ClassVar[str] = ""
    """The algorithm's name as people write it; the class name if empty."""

    shares: ClassVar[bool] = True
    """Whether a player's index rests on other players' data too; False for policies that learn alone."""

    look: ClassVar[Look | None] = None
    """How figures draw it; None for a look that is made from its name."""

    law: ClassVar[Law] = Law.NORMAL
    """How an index is made."""

    randomised: ClassVar[bool] = True
    """False promises that nothing is drawn: scale 0 always, where the law is normal."""

    untried: ClassVar[float] = 1.0
    """The mean that waiting pulls of an arm without rewards count with, where nothing is drawn: `docs/learner.md`."""

    refresh: ClassVar[Refresh] = Refresh.OWN_PULL
    """When a player's numbers are brought up to date."""

    statistics: ClassVar[tuple[Statistic, ...]] = BASIC
    """What a pair remembers. Your own come after these: `statistics = (*Policy.statistics, Statistic("high", ...))`."""

    shared: ClassVar[tuple[str, ...]] = ("N", "S")
    """The names of what is shared of an arm."""

    of_player: ClassVar[tuple[str, ...]] = ()
    """The names of what is known of a player; only a `summary` fills them."""

    of_pair: ClassVar[tuple[str, ...]] = ()
    """The names of what is expected of a player on an arm before its own data; only a `summary` fills them."""

    of_value: ClassVar[tuple[str, ...]] = ()
    """The names of what is known of an attribute's value on an arm; only a `summary` fills them. A policy that names
    any is told players' attributes."""

    index: ClassVar[Callable[..., tuple[float, float]]]

    contribution: ClassVar[Callable[..., tuple[float, ...]] | None] = None
    """What one player adds to the shared numbers of an arm, from its statistics and the constants.

    None: its count and reward sum. Otherwise it returns as many numbers as `shared` names, and the players' numbers
    are added up in their order.
    """

    summary: ClassVar[Callable[..., bool | None] | None] = None
    """Makes what is shared of all arms and known of all players at once, for `refresh = Refresh.SCHEDULE`.

    It takes the tables of statistics by their names, int64 [arm, player] in whole units, and fills `of_arm`,
    [arm, place in `shared`], and `of_player`, [player, place in `of_player`], which has one row more: what a player is
    taken for that joins before the next summary. `of_value` is [number][arm, column] and `of_pair` [number][arm,
    player]. `columns`, `weights` and `part_of` are the attributes, as `posse.attributes.Coded` has them; `log_T` is the
    logarithm of the horizon. `work` is scratch: `work_tables` tables [arm, player] one below the other, then
    `work_rows` rows with a place for each arm, player or column, and at least 16, then `work_columns` tables
    [arm, column]. It may build on what it filled the last time; before the first time that is 0. It may return False
    if it left everything as it was: then only the indices of pairs that were pulled are formed anew.

    On a GPU one thread makes the summary. If it takes `lane` too, all threads of the run make it together: each does
    the arms or players that `dealt` gives it, and waits for the others with `barrier` (`posse.policies.bound`).
    """

    work_tables: ClassVar[int] = 0
    work_rows: ClassVar[int] = 0
    work_columns: ClassVar[int] = 0

    welcome: ClassVar[Callable[..., None] | None] = None
    """Fills what is expected of the pairs of one player that has just joined: `of_pair[...][arm, player]`.

    It takes what `summary` takes but for the statistics and `work`, and `player`. None: a summary is made.
    """

    alike_without_data: ClassVar[bool] = False
    """True promises that players without data have the same row of `of_player` and add 0 to sums over pairs.

    Then a learner may give `summary` one column for several of them: it takes their number from `players_of`, and adds
    up numbers of players with `plus` (`posse.policies.bound`). `welcome` must fill all that `of_player` leaves open.
    """

    moved_by_others: ClassVar[str] = "S"
    """The shared or expected number that moves when others earn more; `others_weight` says how far it moves."""

    others_weight: ClassVar[Callable[..., float]] = staticmethod(lambda n, N: N - n)
    """By how much that number rises if the others earn 1 more at every pull.

    It may take the pair's count `n`, the shared numbers and the constants. With n = 0 it must count everybody.
    """

    belief: ClassVar[Callable[..., tuple[float, float]] | None] = None
    """Center and scale of what the policy believes, without what it adds to explore; None: those of `index`.

    It takes what `index` may take.
    """

    differences: ClassVar[tuple[str, ...]] = ("epsilon", "spread")
    """The constants that are differences of mean rewards, and so are in the units of the rewards."""

    label: str = dataclasses.field(default="", kw_only=True)
    """What tells this policy from others in a comparison; made from name and constants if empty."""

    forget: int | None = dataclasses.field(default=None, kw_only=True)
    """A half-life: after so many rounds a reward counts half; None: all count alike. It passes in eight steps.

    In a simulation it counts rounds, in a learner events. Counts stay whole and sums exact: docs/learner.md.
    """

    @staticmethod
    def reward_of(values: np.ndarray) -> np.ndarray:
        """The mean rewards in [0, 1] that centers stand for; where the index is on another scale, the way back."""
        return np.clip(values, 0.0, 1.0)

    def __post_init__(self) -> None:
        if not isinstance(self.label, str):
            raise TypeError(f"label={self.label!r}, but a label is a string")
        if self.forget is not None:
            object.__setattr__(self, "forget", whole("forget", self.forget, least=STEPS, most=LONGEST))
        self._check_shape()
        self.check()
        for field in self._constant_fields():
            value = getattr(self, field.name)
            if value is not None or field.default is not None:  # None, where it is the default: not known
                object.__setattr__(self, field.name, number(field.name, value))
        self._check_promise()
        if not self.label or isinstance(self.label, OwnLabel):  # made anew for a copy with other constants
            object.__setattr__(self, "label", OwnLabel(self._own_label()))

    def __init_subclass__(cls) -> None:
        """A class with a summary of its own makes its own promise about players without data."""
        if "summary" in vars(cls) and "alike_without_data" not in vars(cls):
            cls.alike_without_data = False

    def check(self) -> None:
        """Raise a clear error if a constant is not what it must be."""

    @classmethod
    @functools.cache
    def _check_shape(cls) -> None:
        """Raise a clear error if the policy's functions name something that they cannot have."""
        if not isinstance(inspect.getattr_static(cls, "index", None), staticmethod):
            raise TypeError(f"{cls.__name__} needs a static method index(n, s, N, S, ...) that returns (center, scale)")
        for attribute, kind in (("refresh", Refresh), ("law", Law), ("statistics", tuple)):
            if not isinstance(value := getattr(cls, attribute), kind):
                raise TypeError(f"{cls.__name__}.{attribute} is {value!r}, but expected a {kind.__name__}")
        if tuple(statistic[:2] for statistic in cls.statistics[:3]) != tuple(basic[:2] for basic in BASIC):
            raise TypeError(f"{cls.__name__}.statistics must begin with those of Policy: n, s and q")
        for statistic in cls.statistics:
            if not isinstance(statistic, Statistic) or not statistic.name.isidentifier() or not statistic.is_update():
                raise TypeError(
                    f"{cls.__name__}.statistics has {statistic!r}, but expected a Statistic: a name without spaces, "
                    "and a function of (value, reward)"
                )
        if (cls.summary is not None) != (cls.refresh is Refresh.SCHEDULE):
            raise TypeError(f"{cls.__name__}: a summary goes with refresh = Refresh.SCHEDULE, but it is {cls.refresh}")
        if cls.contribution is None and cls.summary is None and cls.shared != Policy.shared:
            raise TypeError(f"{cls.__name__} shares {', '.join(cls.shared)}, but has no contribution that makes them")
        if cls.law is Law.IMED and cls.randomised:
            raise TypeError(f"{cls.__name__}: law = Law.IMED draws nothing, so it needs randomised = False")
        numbers = [*cls.shared, *cls.of_player, *together(cls.shared), *together(cls.of_player)]
        numbers += [*cls.of_pair, *together(cls.of_pair), "M", "K", "log_T"]
        summed = ["of_arm", "of_player", "of_pair", "of_value", "columns", "weights", "part_of", "log_T"]
        own = [statistic.name for statistic in cls.statistics]
        named = [*own, *numbers, *cls.constant_names()]
        if len(set(named)) < len(named):
            twice = next(name for name in named if named.count(name) > 1)
            raise TypeError(f"{cls.__name__} gives the name {twice!r} to two numbers")
        for function, offered in (
            ("index", [*own, *numbers]),
            ("belief", [*own, *numbers]),
            ("contribution", own),
            ("summary", [*own, *summed, "work", "lane"]),
            ("welcome", [*summed, "player"]),
            ("others_weight", ["n", *cls.shared]),
        )[: 6 if cls.shares else 5]:
            allowed = [*offered, *cls.constant_names()]
            for name in cls.named_by(function):
                if name in allowed:
                    continue
                if function == "others_weight" and cls.others_weight is Policy.others_weight:
                    raise TypeError(
                        f"{cls.__name__} shares {', '.join(cls.shared)} in place of N and S, so it also needs "
                        "moved_by_others and others_weight; or shares = False, if players learn alone"
                    )
                field = f"; for a constant, write `{name}: float = ...` below @dataclass(frozen=True)"
                raise TypeError(
                    f"{cls.__name__}.{function} takes {name!r}, but it can take only: {', '.join(allowed)}"
                    f"{field if hasattr(cls, name) else ''}"
                )
        moved = [*cls.shared, *together(cls.shared), *cls.of_pair, *together(cls.of_pair)]
        if cls.shares and cls.moved_by_others not in moved:
            only = ", ".join(moved)
            raise TypeError(f"{cls.__name__}.moved_by_others is {cls.moved_by_others!r}, but expected one of: {only}")

    def _check_promise(self) -> None:
        """Raise a clear error if `index` returns nothing, or a scale where `randomised` promises none."""
        cls, names = type(self), self.named_by("index")
        constants = dict(zip(self.constant_names(), self.constants(), strict=True))
        several_of = {name: (0.5,) * len(places) for name, places in together(cls.shared + cls.of_player).items()}
        for n in (0.0, 2.0):
            known = several_of | {"n": n, "s": n / 2, "q": n / 2, "N": n + 3, "S": n / 2 + 1} | constants
            known |= {"M": 3.0, "K": 4.0, "log_T": 7.0}
            try:
                found = cls.index(*(known.get(name, 0.5) for name in names))
            except Exception:
                continue  # the compiler says what is wrong, and where
            if found is None:
                raise TypeError(f"{cls.__name__}.index returns None where n={n:g}, but expected (center, scale)")
            promised = self.law is Law.NORMAL and not self.randomised and isinstance(found, tuple) and len(found) == 2
            if promised and found[1] != 0:
                raise ValueError(
                    f"{cls.__name__}.index returns the scale {found[1]:g}, but randomised = False promises 0; "
                    "a bonus belongs to the center"
                )

    @classmethod
    @functools.cache
    def named_by(cls, function: str) -> tuple[str, ...]:
        """The names of the numbers that one of the policy's functions takes, in their order."""
        found = getattr(cls, function)
        if found is None:
            return ()
        names: list[str] = []
        for parameter in inspect.signature(found).parameters.values():
            if parameter.kind is parameter.VAR_POSITIONAL:
                names += cls.constant_names()
            elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                names.append(parameter.name)
            else:
                raise TypeError(f"{cls.__name__}.{function} has the parameter {parameter}, but expected plain names")
        return tuple(names)

    def for_rewards(self, low: float = 0.0, high: float = 1.0) -> Self:
        """The same policy for rewards that were mapped from [low, high] to [0, 1].

        Constants that are differences of mean rewards shrink with the range; all others are about rewards in [0, 1].
        """
        width = high - low
        there = {name: value for name in self.constant_names() if (value := getattr(self, name)) is not None}
        epsilon = there.get("epsilon", 0.0)
        if epsilon > width:
            raise ValueError(f"epsilon={epsilon:g}, but expected at most {width:g}: rewards are in [{low:g}, {high:g}]")
        changes: dict[str, Any] = {name: there[name] / width for name in self.differences if name in there}
        return dataclasses.replace(self, **changes) if changes and width != 1.0 else self

    def constants(self) -> tuple[float, ...]:
        """The constants in the order of the fields; one that is None is passed as infinity."""
        values = (getattr(self, field.name) for field in self._constant_fields())
        return tuple(math.inf if value is None else value for value in values)

    def arguments(self) -> dict[str, Any]:
        """What makes the policy again, by name, but for its label: the constants, and `forget` if it forgets."""
        names = [*self.constant_names(), *(["forget"] if self.forget is not None else [])]
        return {name: getattr(self, name) for name in names}

    @classmethod
    def constant_names(cls) -> list[str]:
        """The names of the constants, in the order of the fields."""
        return [field.name for field in cls._constant_fields()]

    @classmethod
    def _constant_fields(cls) -> list[dataclasses.Field[Any]]:
        return [field for field in dataclasses.fields(cls) if field.name not in ("label", "forget")]

    def _own_label(self) -> str:
        shown = []
        for field in self._constant_fields():
            value = getattr(self, field.name)
            if field.default is dataclasses.MISSING:
                shown.append(f"{value:g}")
            elif value != field.default:
                shown.append(f"{field.name}={value:g}")
        if self.forget is not None:
            shown.append(f"forget={self.forget}")
        name = self.name or type(self).__name__
        return f"{name}({', '.join(shown)})" if shown else name


def several(name: str, count: int) -> tuple[str, ...]:
    """Names for several numbers of a kind; a policy's function that takes `name` gets all of them, as a tuple.

    >>> several("centers", 3)
    ('centers 0', 'centers 1', 'centers 2')
    """
    return tuple(f"{name} {place}" for place in range(count))


def together(names: tuple[str, ...]) -> dict[str, list[int]]:
    """The names given by `several`, and the places of their numbers."""
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        if " " in name:
            found.setdefault(name.split()[0], []).append(place)
    return found


def all_policies() -> list[type[Policy]]:
    """Every policy class defined in this process, sorted by name. Of one defined twice, the newer counts."""
    found: dict[tuple[str, str], type[Policy]] = {}
    todo = Policy.__subclasses__()  # in the order in which they were defined
    for cls in todo:
        found[cls.__module__, cls.__qualname__] = cls
        todo += cls.__subclasses__()
    return [found[name] for name in sorted(found)]
