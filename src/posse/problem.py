"""Problem: the players' mean rewards, how alike the players are, and how rewards vary."""

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posse.attributes import Attributes, Coded, Coder, Value
from posse.checks import number, store, whole
from posse.notebook import Summarized, Summary, matrix
from posse.rewards import Bernoulli, Family, OneNoisy, family
from posse.streams import MAX_ROUND
from posse.text import plural

ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class Problem(Summarized):
    """A multi-task bandit problem: `means[player, arm]` in [0, 1], and ε that bounds how much players differ.

    For each arm, the means of any two players differ by at most `epsilon`; omitted, it is the smallest that holds.
    `rewards` is a family of `posse.rewards`, or its name; the default is Bernoulli. A problem is immutable.

    `changes` makes the means change over time: {round: means that hold from this round on}. `means`, `gaps` and all
    that follows from them are then those of the first round; `at` gives the problem of another moment.

    `stream` numbers the problem's random stream. It comes from the means themselves, so a problem meets the same
    random numbers in whatever list it stands; two problems with the same means are the same experiment.

    `groups` may say which group each player is in. No policy is told.

    `attributes` declares what is known about players, and `values` has it for each: see `posse.attributes`. Policies
    are told, and the random stream does not depend on it.

    >>> problem = Problem([[0.9, 0.5, 0.1], [0.8, 0.6, 0.2]], epsilon=0.1)
    >>> problem
    Problem(2 players × 3 arms, epsilon=0.1, Bernoulli rewards, subpar arms: 1 of 3 at 5ε, 0 of 3 at 10ε)
    >>> problem.subpar(0.5).tolist()
    [2]
    >>> Problem([[0.9, 0.5]], changes={5001: [[0.5, 0.9]]}).at(6000).means.tolist()
    [[0.5, 0.9]]
    >>> known = [{"region": "south", "age": 44}, {"region": "north"}]
    >>> Problem([[0.9, 0.5], [0.8, 0.6]], attributes={"region": "category", "age": [30, 50]}, values=known).values
    (('south', 1), ('north', None))
    """

    means: np.ndarray
    """Mean rewards, [player, arm]."""
    epsilon: float
    """How much the players' means may differ on any arm."""
    rewards: Family
    """The reward family."""
    stream: int
    """The number of the problem's random stream."""
    gaps: np.ndarray
    """How much worse than the player's best arm each arm is, [player, arm]; at least 0."""
    groups: tuple[int, ...]
    """The number of each player's group; all 0 if there is one."""
    changes: tuple[tuple[int, np.ndarray], ...]
    """(round, means from this round on), in order; empty if the means never change."""
    attributes: Attributes
    """The attributes that players have; empty if nothing is known about players."""
    values: tuple[tuple[Value, ...], ...]
    """Each player's values of the attributes, None where one is missing; empty tuples if there are no attributes."""

    def __init__(
        self,
        means: Any,
        epsilon: float | None = None,
        rewards: Family | str = Bernoulli(),
        *,
        changes: Mapping[int, Any] | None = None,
        stream: int | None = None,
        groups: Iterable[int] | None = None,
        attributes: Attributes | Mapping[str, Any] | None = None,
        values: Iterable[Mapping[str, Any]] | None = None,
    ) -> None:
        table = _check_means(means)
        later = _check_changes(table, {} if changes is None else changes)
        gaps = table.max(axis=1, keepdims=True) - table
        gaps.setflags(write=False)
        number = _own_stream(table, later) if stream is None else whole("stream", stream, least=0)
        given = [check_epsilon(table, epsilon), *(_blame(t, check_epsilon, means, epsilon) for t, means in later)]
        if not (groups is None or isinstance(groups, Iterable)):
            raise TypeError(f"groups={groups!r}, but expected the number of each player's group")
        own = (0,) * len(table) if groups is None else tuple(whole("groups", each, least=0) for each in groups)
        if len(own) != len(table):
            raise ValueError(f"groups has {len(own)} numbers, but expected one for each of {len(table)} players")
        named: dict[str, Any] = {"epsilon": max(given), "rewards": family(rewards), "stream": number, "groups": own}
        declared = attributes if isinstance(attributes, Attributes) else Attributes(attributes)
        known = _check_values(declared, values, len(table))
        store(self, means=table, gaps=gaps, changes=later, attributes=declared, values=known, **named)

    @classmethod
    def from_csv(cls, path: str | Path, **options: Any) -> "Problem":
        """The problem whose means are in a CSV file, one row a player and one column an arm.

        There may be names of arms in the first line and of players in the first column, as `pandas` writes them, and
        numbers may have commas where columns are parted by semicolons. `options` are those of `Problem`.
        """
        from posse.mean_table import check_means, read_csv

        try:
            rows, names = read_csv(Path(path))
        except ValueError as error:
            raise ValueError(f"cannot read {path}: {error}") from None
        return cls(check_means(str(path), rows, *names), **options)

    @property
    def players(self) -> int:
        """The number of players, M."""
        return self.means.shape[0]

    @property
    def arms(self) -> int:
        """The number of arms, K."""
        return self.means.shape[1]

    @property
    def segments(self) -> "tuple[tuple[int, Problem], ...]":
        """(first round, the problem from then on), for each stretch of rounds in which the means do not change."""
        if not self.changes:
            return ((1, self),)
        tables = ((1, self.means), *self.changes)
        return tuple((first, Problem(means, **self._options())) for first, means in tables)

    def at(self, round: int) -> "Problem":
        """The problem as it is in a round, counted from 1, with means that do not change."""
        round = whole("round", round, least=1)
        return [problem for first, problem in self.segments if first <= round][-1]

    @property
    def optimal(self) -> np.ndarray:
        """Whether an arm is a best one of a player, [player, arm]."""
        return self.gaps == 0

    @property
    def near_optimal(self) -> np.ndarray:
        """Whether an arm is neither optimal for the player nor in I_5ε, [player, arm]."""
        return self.kinds() == 1

    @property
    def subpar_5(self) -> np.ndarray:
        """I_5ε: the arms whose gap exceeds 5ε for some player."""
        return self.subpar(5 * self.epsilon)

    @property
    def subpar_10(self) -> np.ndarray:
        """I_10ε: the arms whose gap exceeds 10ε for some player."""
        return self.subpar(10 * self.epsilon)

    @property
    def smallest_gaps(self) -> np.ndarray:
        """The smallest gap of each arm over the players, Δ_min."""
        return self.gaps.min(axis=0)

    def subpar(self, alpha: float) -> np.ndarray:
        """I_α: the arms whose gap exceeds α for some player, in order."""
        return np.flatnonzero(self.gaps.max(axis=0) > number("alpha", alpha, least=0))

    def kinds(self) -> np.ndarray:
        """For each [player, arm]: 0 optimal, 1 near-optimal, 2 subpar (in I_5ε and not optimal)."""
        kinds = np.ones(self.means.shape, int)
        kinds[:, self.subpar_5] = 2
        kinds[self.optimal] = 0
        return kinds

    def by_group(self) -> "list[Problem]":
        """Each group's players as a problem of their own, in the order of the groups' numbers.

        >>> [part.players for part in Problem([[0.1, 0.9], [0.8, 0.2], [0.7, 0.2]], groups=[0, 1, 1]).by_group()]
        [1, 2]
        """
        if isinstance(self.rewards, OneNoisy):
            raise ValueError(f"rewards={self.rewards}, but then player 0 is not like others, so groups cannot be split")
        parts = []
        for group in sorted(set(self.groups)):
            own = [player for player, other in enumerate(self.groups) if other == group]
            later = {first: means[own] for first, means in self.changes}
            known: Any = {"attributes": self.attributes, "values": [self.values[player] for player in own]}
            parts.append(Problem(self.means[own], rewards=self.rewards, changes=later, **known))
        return parts

    def coded(self) -> Coded:
        """The players' attributes as policies take them. It is made once; do not write to its arrays."""
        return self._coded

    @functools.cached_property
    def _coded(self) -> Coded:
        return Coder(self.attributes).coded(self.values)

    def without_attributes(self) -> "Problem":
        """The same problem, with the same random numbers, where nothing is known about players."""
        return Problem(self.means, changes=dict(self.changes), **self._options() | {"attributes": None, "values": None})

    def _options(self) -> dict[str, Any]:
        """What makes the same problem again, beside its means and changes."""
        names = ("epsilon", "rewards", "stream", "groups", "attributes", "values")
        return {name: getattr(self, name) for name in names}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        later = tuple((first, means.tobytes()) for first, means in self.changes)
        return self.means.shape, self.means.tobytes(), later, *self._options().values()

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(Problem, changes=dict(self.changes), **self._options()), (self.means,)

    def _summary(self) -> Summary:
        players, arms = [f"player {p}" for p in range(self.players)], [f"arm {k}" for k in range(self.arms)]
        means = matrix("mean reward", players, arms, lambda player, arm: f"{self.means[player, arm]:.3f}")
        return Summary(repr(self), means, note="These are the means of the first round." if self.changes else "")

    def __repr__(self) -> str:
        return (
            f"Problem({plural(self.players, 'player')} × {plural(self.arms, 'arm')}, epsilon={self.epsilon:g}, "
            f"{repr(self.rewards).removesuffix('()')} rewards, "
            f"{plural(len(self.changes), 'change') + ', ' if self.changes else ''}"
            f"{'attributes ' + ', '.join(self.attributes.kinds) + '; ' if self.attributes else ''}"
            f"subpar arms: {len(self.subpar_5)} of {self.arms} at 5ε, {len(self.subpar_10)} of {self.arms} at 10ε)"
        )


def _check_values(attributes: Attributes, values: Any, players: int) -> tuple[tuple[Value, ...], ...]:
    """What is known about each player, in the order of the declaration; a tuple is in this order already."""
    if values is None and not attributes:
        return ((),) * players
    if values is None or not isinstance(values, Iterable) or isinstance(values, (Mapping, str)):
        raise TypeError(f"values={values!r:.60}, but expected {{attribute: value}} for each of {players} players")
    given = list(values)
    if len(given) != players:
        raise ValueError(f"values has {len(given)} entries, but expected one for each of {players} players")
    found = []
    for player, each in enumerate(given):
        try:
            found.append(attributes.check(each) if isinstance(each, tuple) else attributes.values(each))
        except (TypeError, ValueError) as error:
            raise type(error)(f"values of player {player}: {error}") from None
    return tuple(found)


def _own_stream(means: np.ndarray, changes: tuple[tuple[int, np.ndarray], ...]) -> int:
    text = repr(means.shape).encode() + means.tobytes()
    text += b"".join(repr(first).encode() + table.tobytes() for first, table in changes)
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, person=b"posse problem").digest(), "little")


def _check_means(means: Any) -> np.ndarray:
    try:
        given = np.asarray(means)
    except ValueError:
        raise ValueError("means have rows of different lengths; expected one row a player, one column an arm") from None
    if given.dtype.kind not in "fiu":
        raise ValueError(f"means are of type {given.dtype}, but expected numbers, one row a player, one column an arm")
    table = np.array(given, dtype=np.float64, order="C")
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"means have shape {table.shape}, but expected (players, arms), at least one of each")
    bad = np.argwhere(~((table >= 0) & (table <= 1)))
    if len(bad):
        player, arm = bad[0]
        raise ValueError(f"means[{player}, {arm}]={table[player, arm]:g}, but a mean reward is a number in [0, 1]")
    table += 0.0  # no negative zeros
    table.setflags(write=False)
    return table


def _check_changes(means: np.ndarray, changes: Any) -> tuple[tuple[int, np.ndarray], ...]:
    if not isinstance(changes, Mapping):
        raise TypeError(f"changes={changes!r:.60}, but expected {{round: means that hold from this round on}}")
    found = []
    for first in sorted(whole("round of a change", first, least=2, most=MAX_ROUND) for first in changes):
        checked = _blame(first, _check_means, changes[first])
        if checked.shape != means.shape:
            given = f"the change in round {first}: means have shape {checked.shape}"
            raise ValueError(f"{given}, but those of round 1 have {means.shape}")
        found.append((first, checked))
    return tuple(found)


def _blame(first: int, check: Callable[..., Any], *given: Any) -> Any:
    """What a check returns, for the means from a round on; its errors name the round."""
    try:
        return check(*given)
    except ValueError as error:
        raise ValueError(f"the change in round {first}: {error}") from None


def check_epsilon(
    means: np.ndarray, epsilon: float | None, players: Sequence[str] = (), arms: Sequence[str] = ()
) -> float:
    """The ε of means, the smallest that holds if it is not given; errors name players and arms, or else number them."""
    spread = means.max(axis=0) - means.min(axis=0)
    arm = int(spread.argmax())
    if epsilon is None:
        return float(spread[arm])
    value = number("epsilon", epsilon, least=0, most=1)
    if spread[arm] > value + ROUNDING:
        low, high = sorted((int(means[:, arm].argmin()), int(means[:, arm].argmax())))
        which = f"arm {arms[arm] if arms else arm} differs by {spread[arm]:.6g}"
        between = f"{players[low]} and {players[high]}" if players else f"players {low} and {high}"
        raise ValueError(f"epsilon={value:g}, but {which} between {between}")
    return value
