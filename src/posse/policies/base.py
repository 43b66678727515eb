"""What a policy is: a record of constants, one function, and a word for when its numbers are refreshed."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

from posse.checks import number


class Refresh(enum.Enum):
    """When a player's numbers for an arm are brought up to date."""

    OWN_PULL = "own pull"
    """When the player itself pulls the arm; what others learn is seen only then (RobustAgg-TS)."""

    ANY_PULL = "any pull"
    """When anybody pulls the arm (RobustAgg, RobustAgg-TS-V)."""

    SUMMARY = "summary"
    """When a summary of everybody's data is made: when the pulls since the last one reach a sixteenth of all, or 64 for
    each player. In between, a player's first 64 pulls of an arm count at once for itself (PosseTS)."""


class Look(NamedTuple):
    """How a policy is drawn in figures."""

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

    A policy of your own is a frozen dataclass in a file of its own. Its fields are its constants, all numbers; its
    `index` is a static function of plain numbers,

        index(n, s, N, S, M, log_T, *constants) -> (center, scale)

    with the player's own count n and reward sum s for the arm, everybody's N and S as last seen by that player
    (the player's own included), the number of players M, and ln T. It is compiled, so it may use `math` and other
    plain functions of numbers, but no objects. Docs: "Add an algorithm in one file".
    """

    name: ClassVar[str] = ""
    """The algorithm's name as people write it; the class name if empty."""

    shares: ClassVar[bool] = True
    """Whether a player's index rests on other players' data too; False for policies that learn alone."""

    look: ClassVar[Look | None] = None
    """How figures draw it; None for a look that is made from its name."""

    refresh: ClassVar[Refresh] = Refresh.OWN_PULL

    randomised: ClassVar[bool] = True
    """False promises scale 0 always, and spares the draws."""

    index: ClassVar[Callable[..., tuple[float, float]]]

    contribution: ClassVar[Callable[..., tuple[float, float]] | None] = None
    """What one player adds to an arm's shared sums, as a function (n, s, *constants) -> (a, b).

    None: its count and reward sum. Otherwise N and S in `index` are Σ a and Σ b over the players.
    """

    summary: ClassVar[Callable[..., None] | None] = None
    """A second stage, for policies refreshed by `Refresh.SUMMARY`: fills a few numbers for each arm and each player,

        summary(pulls, sums, squares, of_arm, of_player, work, *constants)

    from everybody's counts, reward sums and sums of squared rewards, int64 [arm, player], the latter two in steps of
    the reward grid. `of_arm` is [arm, arm_numbers], `of_player` [player, player_numbers], `work` is scratch,
    [work_tables, arm, player]. What is in them from the last time may be built on; before the first time it is 0.
    The policy's `index` then takes the rows of arm and player in place of N and S:

        index(n, s, arm, player, M, log_T, *constants) -> (center, scale)
    """

    arm_numbers: ClassVar[int] = 0
    player_numbers: ClassVar[int] = 0
    work_tables: ClassVar[int] = 0

    differences: ClassVar[tuple[str, ...]] = ("epsilon", "spread")
    """The constants that are differences of mean rewards, and so are in the units of the rewards."""

    label: str = dataclasses.field(default="", kw_only=True)
    """What tells this policy from others in a comparison; made from name and constants if empty."""

    def __post_init__(self) -> None:
        if not isinstance(self.label, str):
            raise TypeError(f"label={self.label!r}, but a label is a string")
        self._check_shape()
        self.check()
        for field in self._constant_fields():
            value = getattr(self, field.name)
            if value is not None or field.default is not None:  # None, where it is the default: not known
                object.__setattr__(self, field.name, number(field.name, value))
        if not self.label or isinstance(self.label, OwnLabel):  # made anew for a copy with other constants
            object.__setattr__(self, "label", OwnLabel(self._own_label()))

    def check(self) -> None:
        """Raise a clear error if a constant is not what it must be."""

    @classmethod
    @functools.cache
    def _check_shape(cls) -> None:
        """Raise a clear error if the policy's functions cannot take what they will be called with."""
        if not isinstance(inspect.getattr_static(cls, "index", None), staticmethod):
            raise TypeError(f"{cls.__name__} needs a static method index(n, s, N, S, M, log_T, *constants)")
        if (cls.summary is not None) != (cls.refresh is Refresh.SUMMARY):
            raise TypeError(f"{cls.__name__}: a summary goes with refresh = Refresh.SUMMARY, but it is {cls.refresh}")
        shared = ["arm", "player"] if cls.summary is not None else ["N", "S"]
        tables = ["pulls", "sums", "squares", "of_arm", "of_player", "work"]
        for name, first in (
            ("index", ["n", "s", *shared, "M", "log_T"]),
            ("contribution", ["n", "s"]),
            ("summary", tables),
        ):
            wanted = first + cls.constant_names()
            function = getattr(cls, name)
            try:
                if function is not None:
                    inspect.signature(function).bind(*wanted)
            except TypeError as error:
                raise TypeError(f"{cls.__name__}.{name} must take ({', '.join(wanted)}): {error}") from None

    def for_rewards(self, low: float = 0.0, high: float = 1.0) -> Self:
        """This policy, stated for rewards in [low, high], for the same rewards mapped to [0, 1].

        Constants that are differences of mean rewards shrink with the range; all others are about rewards in [0, 1].
        """
        width = high - low
        there = {name: value for name in self.constant_names() if (value := getattr(self, name)) is not None}
        epsilon = there.get("epsilon", 0.0)
        if epsilon > width:
            raise ValueError(f"epsilon={epsilon:g}, but expected at most {width:g}: rewards are in [{low:g}, {high:g}]")
        changes: dict[str, Any] = {
            name: there[name] / width for name in self.differences if name in there and width != 1.0
        }
        return dataclasses.replace(self, **changes) if changes else self

    def constants(self) -> tuple[float, ...]:
        """The constants in the order of the fields, as `index` takes them; what is not known, None, is infinite."""
        values = (getattr(self, field.name) for field in self._constant_fields())
        return tuple(math.inf if value is None else value for value in values)

    @classmethod
    def constant_names(cls) -> list[str]:
        """The names of the constants, in the order of the fields."""
        return [field.name for field in cls._constant_fields()]

    @classmethod
    def _constant_fields(cls) -> list[dataclasses.Field[Any]]:
        return [field for field in dataclasses.fields(cls) if field.name != "label"]

    def _own_label(self) -> str:
        shown = []
        for field in self._constant_fields():
            value = getattr(self, field.name)
            if field.default is dataclasses.MISSING:
                shown.append(f"{value:g}")
            elif value != field.default:
                shown.append(f"{field.name}={value:g}")
        name = self.name or type(self).__name__
        return f"{name}({', '.join(shown)})" if shown else name


def all_policies() -> list[type[Policy]]:
    """Every policy class that is defined in this process, by name; defined again, it is the newest."""
    found: dict[tuple[str, str], type[Policy]] = {}
    todo = Policy.__subclasses__()  # in the order in which they were defined
    for cls in todo:
        found[cls.__module__, cls.__qualname__] = cls
        todo += cls.__subclasses__()
    return [found[name] for name in sorted(found)]
