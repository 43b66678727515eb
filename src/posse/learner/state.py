"""The state of a learner: names, what the policy knows, and counters. It has no clock, no lock and no log.

`Learner` keeps one in memory; the service keeps one for each experiment, and brings it up to date from its database.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.learner.core import Core, log_horizon, to_steps
from posse.learner.counts import Counts
from posse.learner.ledger import Row, write_id
from posse.learner.roster import Roster
from posse.learner.setup import Setup, check_names
from posse.policies.statistics import COUNT, SUM
from posse.rewards import GRID
from posse.streams import key as stream_key


@dataclass(frozen=True, slots=True)
class Decision:
    """What a learner chose for a player."""

    id: str
    """What to report the reward with."""
    player: str
    arm: str
    propensity: float
    """The probability that this arm is chosen, all told: index, floor and holdout."""
    probabilities: dict[str, float]
    """The probability of every arm that was available."""
    round: int
    shared: float
    """How much the chosen arm's index rests on other players' data, from 0 to 1."""
    holdout: bool
    """Whether the arm was drawn uniformly, as one of the decisions held out."""

    def __hash__(self) -> int:
        return hash(self.id)


class LearnerState:
    """All that the next decision rests on. Players and arms are given by their places on the rosters."""

    def __init__(self, setup: Setup, arms: list[str], players: list[str]) -> None:
        if not arms:
            raise ValueError("no arms given; expected at least one")
        setup.check_floor(len(arms))
        self.setup = setup
        self.core = Core(setup.policy.for_rewards(setup.low, setup.high))
        self.arm_roster, self.player_roster = Roster("arm", arms), Roster("player", players)
        self.known = self.core.empty(len(players), len(arms))  # what the policy knows
        self.waiting = np.zeros((len(arms), len(players)), np.int64)  # pulls whose reward has not come
        self.all_waiting = np.zeros(len(arms), np.int64)
        self.rounds = self.events = self.decisions = 0
        self._key = stream_key(setup.seed)

    # ---------------------------------------------------------------- decisions

    def choose(self, players: list[int], offered: np.ndarray, now: float) -> list[tuple[Decision, Row]]:
        """One round: a decision for each player, from what was known before it. `wait` is then due for each."""
        made = [self._choose(player, offered, self.decisions + number, now) for number, player in enumerate(players)]
        self.rounds += 1
        self.decisions += len(made)
        return made

    def _choose(self, player: int, offered: np.ndarray, serial: int, now: float) -> tuple[Decision, Row]:
        """The decision with this serial number, for the round to come; nothing changes yet."""
        round_ = self.rounds + 1
        choice = self.core.choose(
            self.known,
            player,
            self.waiting,
            self.all_waiting,
            self.player_roster.count,
            log_horizon(self.setup.horizon, round_),
            offered,
            self._key,
            serial,
            self.setup.floor,
            self.setup.holdout,
        )
        arms = self.arm_roster.names
        # The tag comes from places, not names: otherwise it could confirm a guess of an erased name.
        tag = zlib.crc32(f"{self._key} {serial} {now!r} {player} {choice.arm}".encode())
        probabilities = dict(zip(arms, choice.probabilities, strict=True))
        if np.count_nonzero(offered) < len(probabilities):
            probabilities = {arms[k]: choice.probabilities[k] for k in np.flatnonzero(offered)}
        shared = 0.0 if choice.holdout else choice.shared
        decision = Decision(
            write_id(serial, tag),
            self.player_roster.names[player],
            arms[choice.arm],
            choice.propensity,
            probabilities,
            round_,
            shared,
            choice.holdout,
        )
        row = Row(serial, tag, round_, player, choice.arm, choice.propensity, choice.holdout, shared, now)
        return decision, row

    def wait(self, row: Row, by: int = 1) -> None:
        """Count a decision among those that wait for their reward, or with −1 no longer."""
        self.waiting[row.arm, row.player] += by
        self.all_waiting[row.arm] += by

    def offered(self, available: Iterable[str] | None) -> np.ndarray:
        """Which arms are offered, bool [arm]: those that are here, or the available ones, by name."""
        if available is None:
            return self.arm_roster.here
        places = [self.arm_roster.current(name) for name in check_names("arm", available)]
        if not places:
            raise ValueError("available=[], but expected at least one arm")
        offered = np.zeros(len(self.arm_roster.names), np.bool_)
        offered[places] = True
        return offered

    def evaluate(self, player: int) -> np.ndarray:
        """A player's centers, scales and weights of others' data in the next round, one column an arm.

        A fourth row is for probabilities.
        """
        numbers = (self.known, player, self.waiting, self.all_waiting)
        return self.core.evaluate(*numbers, self.player_roster.count, self._next_log_horizon())

    def _next_log_horizon(self) -> float:
        return log_horizon(self.setup.horizon, self.rounds + 1)

    def beliefs(self) -> tuple[np.ndarray, np.ndarray]:
        """Centers and scales of what the policy believes, [player, arm]; `policy.reward_of` turns them into rewards."""
        return self.core.beliefs(self.known, self.player_roster.count, self._next_log_horizon())

    def probabilities(self, evaluated: np.ndarray, offered: np.ndarray) -> np.ndarray:
        """Each arm's probability, from what `evaluate` gave, with floor and holdout."""
        return self.core.probabilities(evaluated, offered, self.setup.floor, self.setup.holdout)

    def shared_weights(self) -> np.ndarray:
        """How much the next decision of each player is expected to rest on others' data, from 0 to 1."""
        weights = []
        for player in range(len(self.player_roster.names)):
            evaluated = self.evaluate(player)
            weights.append(float(evaluated[2] @ self.core.probabilities(evaluated, self.arm_roster.here)))
        return np.array(weights)

    # ---------------------------------------------------------------- rewards

    def observe(self, answered: list[tuple[Row, float]]) -> None:
        """One event: the rewards of one round, in the order of their decisions, so that a log replays to the same."""
        self.events += 1
        players, arms, steps = [], [], []
        for row, reward in sorted(answered, key=lambda pair: pair[0].serial):
            players.append(row.player)
            arms.append(row.arm)
            steps.append(self.steps(reward))
            if row.serial >= 0:
                self.wait(row, -1)
        self.core.observe(self.known, players, arms, steps, self.events)

    def steps(self, reward: float) -> int:
        """A reward in steps of the grid; two rewards are the same if these are."""
        return to_steps(reward, self.setup.low, self.setup.high)

    def check_records(self, rewards: Iterable[tuple[str, str, float]]) -> list[tuple[int, int, float]]:
        """Places of player and arm, and the reward, of rewards that were not decided here."""
        return [self._check_record(entry) for entry in listed("rewards", rewards)]

    def _check_record(self, entry: Any) -> tuple[int, int, float]:
        if not (isinstance(entry, (tuple, list)) and len(entry) == 3):
            raise TypeError(f"{entry!r}, but expected (player, arm, reward)")
        player, arm, reward = entry
        places = self.player_roster.place(player), self.arm_roster.place(arm)
        return *places, self.setup.check_reward(f"reward of {player!r} for {arm!r}", reward)

    def record(self, checked: list[tuple[int, int, float]], now: float) -> list[tuple[Row, float]]:
        """The rows for one round of past rewards, to `observe` if there are any."""
        self.rounds += 1
        return [(Row(-1, 0, self.rounds, player, arm, 0.0, False, 0.0, now), value) for player, arm, value in checked]

    # ---------------------------------------------------------------- players and arms

    def change(self, kind: str, name: str, knows_others: bool = True) -> None:
        """One event: a player or an arm comes or goes."""
        if kind == "join":
            self.player_roster.add(name)
        elif kind == "retire":
            self.player_roster.retire(name)
        elif kind == "add arm":
            self.setup.check_floor(self.arm_roster.count + 1)
            self.arm_roster.add(name)
        else:
            self.arm_roster.retire(name)
        self.events += 1
        self._make_room(knows_others)

    def _make_room(self, knows_others: bool) -> None:
        """Give everybody and everything on the rosters a place in the numbers."""
        players, arms = len(self.player_roster.names), len(self.arm_roster.names)
        if self.waiting.shape == (arms, players):
            return
        self.known = self.core.grown(self.known, players, arms, knows_others)
        waiting, self.waiting = self.waiting, np.zeros((arms, players), np.int64)
        self.waiting[: waiting.shape[0], : waiting.shape[1]] = waiting
        self.all_waiting = self.waiting.sum(axis=1)

    def restore(
        self,
        players: Iterable[tuple[str, bool]],
        arms: Iterable[tuple[str, bool]],
        waiting: Any,
        known: Mapping[str, Any],
    ) -> None:
        """Restore a saved state: players and arms, waiting decisions, and the arrays of what is known, by name."""
        self.player_roster, self.arm_roster = Roster.of("player", list(players)), Roster.of("arm", list(arms))
        shape = (len(self.player_roster.names), len(self.arm_roster.names))
        self.waiting = np.array(waiting, np.int64).reshape(shape[::-1])
        self.all_waiting = self.waiting.sum(axis=1)
        self.known = self.core.restored(*shape, known)

    # ---------------------------------------------------------------- what there is to see

    def counts(self) -> Counts:
        """Observed pulls and reward sums, of all who ever joined and all arms, in the order in which they came."""
        low, high, pulls = self.setup.low, self.setup.high, self.known.statistics[COUNT].T.copy()
        return Counts(
            tuple(self.player_roster.names),
            tuple(self.arm_roster.names),
            pulls,
            low * pulls + (high - low) / GRID * self.known.statistics[SUM].T,
            low,
            high,
            getattr(self.setup.policy, "epsilon", None),
        )


def listed(name: str, values: Any) -> list[Any]:
    """Values as a list."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{name}={values!r}, but expected several")
    return list(values)
