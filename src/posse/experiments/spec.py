"""An experiment as data: its studies, cut into units of work."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from posse import generate
from posse.compile import code_digest
from posse.experiments.records import SCHEMA_VERSION, from_result
from posse.policies.base import Policy
from posse.problem import Problem
from posse.rewards import Family
from posse.schedule import Arrivals, Concurrent, Late, Random, Schedule, Sequential
from posse.simulation import Result, simulate
from posse.simulation.simulate import MAX_PLAYER_ROUNDS, Progress

UNIT_COST = 20_000_000  # player-rounds of ten arms in a unit of work: about a second
RUN_COST = 20_000  # what a run costs besides its rounds, in the same measure
OWN = "problem"  # a policy's epsilon or spread = "problem": the problem's own

Table = tuple[tuple[float, ...], ...]


class SpecError(ValueError):
    """What is wrong with a spec: the line, the field and what is allowed."""

    def __init__(self, message: str, line: int = 1, field: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.field = field


@dataclass(frozen=True)
class Problems:
    """A family of problems with its parameters, or given tables of means; problem number k does not depend on count."""

    family: str  # of `posse.generate.FAMILIES`, or "given"
    count: int
    players: int
    arms: int
    epsilon: float | None  # None: the family's own, or the smallest that holds for each table
    rewards: Family
    n_subpar: int | None = None
    options: tuple[tuple[str, Any], ...] = ()  # what else the family takes, by name
    tables: tuple[Table, ...] = ()  # of problems first, first + 1, …
    first: int = 0

    def make(self, start: int, stop: int, seed: int) -> list[Problem]:
        """Problems start to stop − 1."""
        if self.family == "given":
            tables = self.tables[start - self.first : stop - self.first]
            return [Problem(table, self.epsilon, self.rewards) for table in tables]
        given = {"players": self.players, "arms": self.arms, "rewards": self.rewards, **dict(self.options)}
        own = {"epsilon": self.epsilon, "n_subpar": self.n_subpar}
        given |= {name: value for name, value in own.items() if value is not None}
        make: Any = generate.FAMILIES[self.family]
        return make(count=stop, seed=seed, **given)[start:]

    def alike(self) -> list[tuple[Problems, float]]:
        """These problems in stretches of one shape and one ε, each with its ε."""
        if self.family != "given":
            return [(self, self.make(0, 1, 0)[0].epsilon if self.epsilon is None else self.epsilon)]
        stretches = []
        shapes = [(len(table), len(table[0]), Problem(table, self.epsilon).epsilon) for table in self.tables]
        start = self.first
        for (players, arms, epsilon), group in itertools.groupby(shapes):
            count = len(list(group))
            part = dataclasses.replace(self._cut(start, start + count), players=players, arms=arms)
            stretches.append((part, epsilon))
            start += count
        return stretches

    def chunks(self, size: int) -> Iterator[tuple[Problems, int, int]]:
        """These problems in chunks of a size, each with its first number and the one past its last."""
        end = self.first + self.count
        for start in range(self.first, end, size):
            stop = min(start + size, end)
            yield (self._cut(start, stop) if self.tables else dataclasses.replace(self, count=0)), start, stop

    def _cut(self, start: int, stop: int) -> Problems:
        tables = self.tables[start - self.first : stop - self.first]
        return dataclasses.replace(self, tables=tables, first=start, count=stop - start)

    def describe(self) -> dict[str, Any]:
        """The contents as plain data; tables by their digest."""
        described: dict[str, Any] = {"family": self.family, "rewards": repr(self.rewards), "epsilon": self.epsilon}
        if self.family == "given":
            return described | {"means": [_digest(table) for table in self.tables]}
        described |= {"players": self.players, "arms": self.arms, **dict(self.options)}
        return described if self.n_subpar is None else described | {"n_subpar": self.n_subpar}


@dataclass(frozen=True)
class Choice:
    """A policy of a study, whose ε and spread may be left to the problem."""

    policy: type[Policy]
    constants: tuple[tuple[str, float | str], ...]
    label: str = ""

    def make(self, epsilon: float) -> Policy:
        """The policy for a problem with this ε; its own spread is the deviation of a uniform law ε wide, ε / √12."""
        own = {"epsilon": epsilon, "spread": epsilon / math.sqrt(12)}
        constants: dict[str, Any] = {name: own[name] if value == OWN else value for name, value in self.constants}
        return self.policy(**constants, label=self.label)


@dataclass(frozen=True)
class Unit:
    """A piece of work of about a second: plain data that knows its name and how to run."""

    study: str
    problems: Problems
    start: int  # problem numbers, the last one excluded
    stop: int
    policies: tuple[Policy, ...]
    horizon: int
    schedule: Schedule
    replications: tuple[int, int]  # numbers, the last one excluded
    checkpoints: int
    anytime: bool
    seed: int

    def run(self, threads: int = 1, progress: Progress = None) -> pa.Table:
        """Simulate it; one row a policy, problem and replication."""
        problems = self.problems.make(self.start, self.stop, self.seed)
        result = self.simulate(problems, threads=threads, progress=progress)
        return from_result(result, self.study, range(self.start, self.stop))

    def simulate(self, problems: list[Problem], **how: Any) -> Result:
        """Its policies in its setting on any problems; `how` says on what and with what progress."""
        return simulate(
            problems,
            self.policies,
            self.horizon,
            seed=self.seed,
            replications=range(*self.replications),
            schedule=self.schedule,
            checkpoints=self.checkpoints,
            anytime=self.anytime,
            **how,
        )

    @property
    def cost(self) -> float:
        """About how much work it is, in player-rounds of ten arms."""
        one = _run_cost(self.schedule, self.horizon, self.problems.players, self.problems.arms)
        first, last = self.replications
        return one * len(self.policies) * (self.stop - self.start) * (last - first)

    def describe(self) -> dict[str, Any]:
        """The contents as plain data, the record's schema version included."""
        return {
            "schema": SCHEMA_VERSION,
            "study": self.study,
            "problems": self.problems.describe(),
            "numbers": [self.start, self.stop],
            "policies": [
                {
                    "class": f"{type(policy).__module__}.{type(policy).__qualname__}",
                    "constants": list(policy.constants()),
                    "label": policy.label,
                    **_code(policy),
                }
                for policy in self.policies
            ],
            "horizon": self.horizon,
            "schedule": repr(self.schedule),
            "replications": list(self.replications),
            "checkpoints": self.checkpoints,
            "anytime": self.anytime,
            "seed": str(self.seed),
        }

    @functools.cached_property
    def id(self) -> str:
        """A name made from the contents alone, whatever the unit's place in the spec."""
        return identify(json.dumps(self.describe(), sort_keys=True))

    def __str__(self) -> str:
        last = f"–{self.stop - 1}" if self.stop - self.start > 1 else ""
        return f"unit {self.id} (study {self.study!r}, problems {self.start}{last}, horizon {self.horizon})"


def _code(policy: Policy) -> dict[str, str]:
    """What tells a policy of the user's from what it was before an edit; posse's own go by posse's version."""
    if type(policy).__module__.startswith("posse.policies."):
        return {}
    functions = ("index", "contribution", "summary", "sample")
    found = {name: getattr(policy, name, None) for name in functions}
    return {name: code_digest(function) for name, function in found.items() if function is not None}


def identify(description: str) -> str:
    """The id of a unit with this description."""
    return hashlib.blake2b(description.encode(), digest_size=12, person=b"posse unit").hexdigest()


@dataclass(frozen=True)
class Study:
    """One comparison: every policy on every combination of the lists."""

    name: str
    problems: tuple[Problems, ...]
    policies: tuple[Choice, ...]
    horizons: tuple[int, ...]
    turns: tuple[int, ...]  # in place of horizons: how often a player is to act, on average
    schedules: tuple[Schedule, ...] = (Concurrent(),)
    anytime: tuple[bool, ...] = (False,)
    replications: int = 1
    checkpoints: int = 200
    tags: tuple[str, ...] = ()  # words by which a report groups studies

    def units(self, seed: int) -> Iterator[Unit]:
        """The grid, cut into units of work."""
        lengths = [(False, horizon) for horizon in self.horizons] + [(True, turns) for turns in self.turns]
        for problems, schedule, (by_turns, length), anytime in itertools.product(
            self.problems, self.schedules, lengths, self.anytime
        ):
            for alike, epsilon in problems.alike():
                policies = self._policies(epsilon)
                horizon = _horizon(schedule, length, alike.players) if by_turns else length
                _check_run(schedule, horizon, alike.players)
                cost = _run_cost(schedule, horizon, alike.players, alike.arms) * len(policies)
                replications = min(self.replications, max(1, int(UNIT_COST / cost)))
                for part, start, stop in alike.chunks(max(1, int(UNIT_COST / (cost * replications)))):
                    for first in range(0, self.replications, replications):
                        yield Unit(
                            study=self.name,
                            problems=part,
                            start=start,
                            stop=stop,
                            policies=policies,
                            horizon=horizon,
                            schedule=schedule,
                            replications=(first, min(first + replications, self.replications)),
                            checkpoints=self.checkpoints,
                            anytime=anytime,
                            seed=seed,
                        )

    def _policies(self, epsilon: float) -> tuple[Policy, ...]:
        policies = tuple(choice.make(epsilon) for choice in self.policies)
        labels = [policy.label for policy in policies]
        twice = next((label for label in labels if labels.count(label) > 1), None)
        if twice is not None:
            raise ValueError(f"label={twice!r} is the label of two policies; give each a label of its own")
        return policies


@dataclass(frozen=True)
class Spec:
    """An experiment: its studies and its seed. `text` is what it was read from."""

    title: str
    seed: int
    studies: tuple[Study, ...]
    text: str = ""

    def units(self) -> list[Unit]:
        """The whole experiment in units of work, in order."""
        return [unit for study in self.studies for unit in study.units(self.seed)]


def _active(schedule: Schedule, players: int) -> float:
    """How many players act in a round, on average."""
    if isinstance(schedule, Random):
        return float(np.broadcast_to(schedule.probability, players).sum())
    if isinstance(schedule, Sequential) or schedule == Arrivals(stay=False):
        return 1.0
    if isinstance(schedule, Late):
        return players - min(schedule.players, players) * schedule.share
    return (players + 1) / 2 if isinstance(schedule, Arrivals) else float(players)


def _horizon(schedule: Schedule, turns: int, players: int) -> int:
    """The number of rounds in which a player acts `turns` times on average."""
    active = _active(schedule, players)
    rounds = turns * players / active if active > 0 else math.inf
    if not rounds <= MAX_PLAYER_ROUNDS:
        raise ValueError(f"turns={turns}, but with {schedule} that takes more than {MAX_PLAYER_ROUNDS} rounds")
    return math.ceil(rounds)


def _check_run(schedule: Schedule, horizon: int, players: int) -> None:
    if isinstance(schedule, Random) and isinstance(schedule.probability, tuple):
        given = len(schedule.probability)
        if given != players:
            raise ValueError(f"schedule={schedule} has {given} probabilities, but the problem has {players} players")
    if horizon * players > MAX_PLAYER_ROUNDS:
        raise ValueError(
            f"horizon={horizon} with {players} players, but sums are exact only up to {MAX_PLAYER_ROUNDS} player-rounds"
        )


def _run_cost(schedule: Schedule, horizon: int, players: int, arms: int) -> float:
    return horizon * (_active(schedule, players) * max(arms / 10, 1) + 1) + 50 * players * arms + RUN_COST


def _digest(table: Iterable[Iterable[float]]) -> str:
    text = json.dumps([list(row) for row in table])
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
