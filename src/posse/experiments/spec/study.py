"""A spec: its studies, with their problems and policies."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from posse.experiments.spec.problem_set import ProblemSet
from posse.experiments.spec.unit import Unit, active_players, run_cost
from posse.policies.base import Policy
from posse.schedule import Concurrent, Random, Schedule
from posse.simulation.simulate import MAX_PLAYER_ROUNDS

UNIT_COST = 20_000_000  # player-rounds of ten arms in a unit of work: about a second
OWN = "problem"  # a policy's epsilon or spread = "problem": the problem's own


@dataclass(frozen=True)
class PolicyChoice:
    """A policy of a study, whose ε and spread may be left to the problem."""

    policy: type[Policy]
    constants: tuple[tuple[str, float | str], ...]
    label: str = ""

    def make(self, epsilon: float) -> Policy:
        """The policy for a problem with this ε. The problem's own spread is ε / √12, as of a uniform law ε wide."""
        own = {"epsilon": epsilon, "spread": epsilon / math.sqrt(12)}
        constants: dict[str, Any] = {name: own[name] if value == OWN else value for name, value in self.constants}
        return self.policy(**constants, label=self.label)


@dataclass(frozen=True)
class Study:
    """One comparison: every policy on every combination of the lists."""

    name: str
    problems: tuple[ProblemSet, ...]
    policies: tuple[PolicyChoice, ...]
    horizons: tuple[int, ...]
    turns: tuple[int, ...]  # in place of horizons: how often a player acts, on average
    schedules: tuple[Schedule, ...] = (Concurrent(),)
    anytime: tuple[bool, ...] = (False,)
    replications: int = 1
    checkpoints: int = 200
    tags: tuple[str, ...] = ()  # words by which a report groups studies

    @property
    def settings(self) -> int:
        """How many combinations of its lists there are."""
        lengths = len(self.horizons) + len(self.turns)
        return len(self.problems) * len(self.schedules) * lengths * len(self.anytime)

    def units(self, seed: int) -> Iterator[Unit]:
        """The grid, cut into units of work."""
        lengths = [(False, horizon) for horizon in self.horizons] + [(True, turns) for turns in self.turns]
        for problems, schedule, (by_turns, length), anytime in itertools.product(
            self.problems, self.schedules, lengths, self.anytime
        ):
            for alike, epsilon in problems.alike():
                policies = tuple(choice.make(epsilon) for choice in self.policies)
                horizon = _horizon(schedule, length, alike.players) if by_turns else length
                _check_run(schedule, horizon, alike.players)
                cost = run_cost(schedule, horizon, alike.players, alike.arms) * len(policies)
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


@dataclass(frozen=True)
class Spec:
    """What `posse run` runs: studies and a seed. `text` is the TOML text that it was read from."""

    title: str
    seed: int
    studies: tuple[Study, ...]
    text: str = ""

    def units(self) -> list[Unit]:
        """All studies in units of work, in order."""
        return [unit for study in self.studies for unit in study.units(self.seed)]


def _horizon(schedule: Schedule, turns: int, players: int) -> int:
    """The number of rounds in which a player acts `turns` times on average."""
    active = active_players(schedule, players)
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
