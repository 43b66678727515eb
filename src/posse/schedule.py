"""Who is active in a round: chosen before the run, never by what the run saw.

The random schedules draw from the run's own stream, so every policy compared meets the same players.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from posse.checks import number, store, whole
from posse.streams import SCHEDULE, block

__all__ = ["Arrivals", "Concurrent", "Fixed", "Late", "Random", "Schedule", "Sequential", "Zipf"]

CONCURRENT, IN_TURN, RANDOM_TURN, RANDOM, FIXED, SPANS = range(6)


class Participation(NamedTuple):
    """Who is active when, as the kernel takes it."""

    kind: int
    probabilities: np.ndarray = np.zeros(0)  # [player], for RANDOM
    mask: np.ndarray = np.zeros((0, 0), np.uint8)  # [round, player], for FIXED
    spans: np.ndarray = np.zeros((2, 0), np.int64)  # [2, player], first and last round, for SPANS


class Schedule(ABC):
    """Who is active when. Use one of the schedules below."""

    @abstractmethod
    def participation(self, players: int, horizon: int) -> Participation:
        """This schedule for so many players and rounds, or an error if it does not fit them."""


@dataclass(frozen=True)
class Concurrent(Schedule):
    """Every player in every round, as in the paper's experiments."""

    def participation(self, players: int, horizon: int) -> Participation:
        return Participation(CONCURRENT)


@dataclass(frozen=True)
class Sequential(Schedule):
    """One player a round: in turn, or drawn at random with equal chances."""

    order: str = "turn"

    def __post_init__(self) -> None:
        if self.order not in ("turn", "random"):
            raise ValueError(f"order={self.order!r}, but expected 'turn' or 'random'")

    def participation(self, players: int, horizon: int) -> Participation:
        return Participation(IN_TURN if self.order == "turn" else RANDOM_TURN)


@dataclass(frozen=True)
class Random(Schedule):
    """Each player joins each round by chance: one probability, or one for each player. A round may be empty."""

    probability: float | Sequence[float]

    def __post_init__(self) -> None:
        given: Any = self.probability
        if isinstance(given, np.ndarray) and given.ndim == 0:
            given = given.item()
        if isinstance(given, (Sequence, np.ndarray)) and not isinstance(given, str):
            named = ((f"probability of player {player}", value) for player, value in enumerate(given))
            checked: Any = tuple(number(name, value, least=0, most=1) for name, value in named)
        else:
            checked = number("probability", given, least=0, most=1)
        store(self, probability=checked)

    def participation(self, players: int, horizon: int) -> Participation:
        if isinstance(self.probability, tuple) and len(self.probability) != players:
            given = f"{len(self.probability)} probabilities"
            raise ValueError(f"schedule={self} has {given}, but the problem has {players} players")
        return Participation(RANDOM, probabilities=np.broadcast_to(self.probability, players).astype(float))


@dataclass(frozen=True)
class Zipf(Schedule):
    """A few players have most of the traffic: by Zipf's law, the k-th joins a round with probability 1/k^exponent."""

    exponent: float = 1.0

    def __post_init__(self) -> None:
        store(self, exponent=number("exponent", self.exponent, least=0, most=10))

    def participation(self, players: int, horizon: int) -> Participation:
        return Participation(RANDOM, probabilities=np.arange(1.0, players + 1) ** -self.exponent)


@dataclass(frozen=True)
class Late(Schedule):
    """Everybody in every round, but the last `players` players join only when a share of the rounds is over.

    With T rounds they are absent in rounds 1 … ⌊share · T⌋.
    """

    share: float = 0.5
    players: int = 1

    def __post_init__(self) -> None:
        share, players = number("share", self.share, least=0, most=1), whole("players", self.players, least=1)
        store(self, share=share, players=players)

    def participation(self, players: int, horizon: int) -> Participation:
        spans = _always(players, horizon)
        spans[0, max(players - self.players, 0) :] = math.floor(self.share * horizon) + 1
        return Participation(SPANS, spans=spans)


@dataclass(frozen=True)
class Arrivals(Schedule):
    """Players arrive one after another, evenly over the rounds: player p of M (from 0) after ⌊p T / M⌋ of T rounds.

    They stay to the end, or, with `stay=False`, leave when the next one arrives, so that one player acts at a time.
    """

    stay: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.stay, bool):
            raise TypeError(f"stay={self.stay!r}, but expected True or False")

    def participation(self, players: int, horizon: int) -> Participation:
        spans = _always(players, horizon)
        arrivals = [player * horizon // players for player in range(players + 1)]
        spans[0] = np.array(arrivals[:-1]) + 1
        if not self.stay:
            spans[1] = arrivals[1:]
        return Participation(SPANS, spans=spans)


def _always(players: int, horizon: int) -> np.ndarray:
    """Spans of players who are there from the first round to the last."""
    return np.tile(np.array([[1], [horizon]], np.int64), (1, players))


@dataclass(frozen=True, eq=False)
class Fixed(Schedule):
    """A given table: `mask[round, player]` says who is active. Rounds may be empty."""

    mask: np.ndarray
    _table: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        mask = np.asarray(self.mask)
        if mask.ndim != 2:
            raise ValueError(f"mask has {mask.ndim} dimensions, but expected two: rounds × players")
        if not np.isin(mask, (0, 1)).all():
            raise ValueError("mask holds something other than True and False (or 1 and 0)")
        table = np.array(mask, dtype=np.uint8, order="C")
        frozen = table.view()
        frozen.setflags(write=False)
        store(self, mask=frozen, _table=table)  # the kernels' type is a writable array; they only read it

    def participation(self, players: int, horizon: int) -> Participation:
        if self.mask.shape != (horizon, players):
            given = "{} rounds × {} players".format(*self.mask.shape)
            raise ValueError(f"mask is {given}, but the run has {horizon} rounds and {players} players")
        return Participation(FIXED, mask=self._table)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fixed) and np.array_equal(self.mask, other.mask)

    def __hash__(self) -> int:
        return hash((self.mask.shape, self.mask.tobytes()))

    def __repr__(self) -> str:
        return "Fixed({} rounds × {} players)".format(*self.mask.shape)


def activate(active, chances, kind, probabilities, mask, spans, t, key):
    """Write the players of round t, in order, into `active`; return how many. `chances` is scratch of the same size."""
    players = active.size
    if kind == CONCURRENT:
        for player in range(players):
            active[player] = player
        return players
    if kind in (IN_TURN, RANDOM_TURN):
        active[0] = whose_turn(kind, players, t, key)
        return 1
    if kind == RANDOM:
        for player in range(players):
            chances[player], _, _, _ = block(0, player, t, SCHEDULE, key)
    count = 0
    for player in range(players):
        if joins(kind, player, chances[player], probabilities, mask, spans, t):
            active[count] = player
            count += 1
    return count


def is_active(player, players, kind, probabilities, mask, spans, t, key):
    """Whether a player is one of those that `activate` writes."""
    if kind == CONCURRENT:
        return True
    if kind in (IN_TURN, RANDOM_TURN):
        return whose_turn(kind, players, t, key) == player
    chance = 0
    if kind == RANDOM:
        chance, _, _, _ = block(0, player, t, SCHEDULE, key)
    return joins(kind, player, chance, probabilities, mask, spans, t)


def whose_turn(kind, players, t, key):
    """The one player of round t, where there is one."""
    if kind == IN_TURN:
        return (t - 1) % players
    high, low, _, _ = block(0, 0, t, SCHEDULE, key)
    return min(int((high * 4294967296.0 + low) * 2.0**-64 * players), players - 1)


def joins(kind, player, chance, probabilities, mask, spans, t):
    """Whether a player takes part in round t, given its random word, where that does not hang on the others."""
    if kind == SPANS:
        return spans[0, player] <= t <= spans[1, player]
    if kind == RANDOM:
        return chance < probabilities[player] * 2.0**32
    return mask[t - 1, player] != 0
