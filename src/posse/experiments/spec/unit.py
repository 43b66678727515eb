"""Units of work: what a study is cut into, small enough to be done in about a second."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from posse.experiments.records import SCHEMA_VERSION, from_result
from posse.experiments.spec.problem_set import ProblemSet
from posse.policies.base import Policy
from posse.problem import Problem
from posse.schedule import Arrivals, Late, Random, Schedule, Sequential
from posse.simulation import Result, simulate
from posse.simulation.engine import code_digest_of
from posse.simulation.simulate import Progress

RUN_COST = 20_000  # what a run costs besides its rounds, in player-rounds of ten arms


@dataclass(frozen=True)
class Unit:
    """A piece of work of about a second: plain data that knows its name and how to run."""

    study: str
    problems: ProblemSet
    start: int  # the number of the first problem
    stop: int  # the number past the last problem
    policies: tuple[Policy, ...]
    horizon: int
    schedule: Schedule
    replications: tuple[int, int]  # the number of the first replication, and the number past the last
    checkpoints: int
    anytime: bool
    seed: int

    def run(self, threads: int = 1, progress: Progress = None) -> pa.Table:
        """Simulate it: one row for each policy, problem and replication."""
        problems = self.problems.make(self.start, self.stop, self.seed)
        result = self.simulate(problems, threads=threads, progress=progress)
        return from_result(result, self.study, range(self.start, self.stop))

    def simulate(self, problems: list[Problem], **how: Any) -> Result:
        """Simulate its policies in its setting on any problems; `how` holds further arguments of `simulate`."""
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
        one = run_cost(self.schedule, self.horizon, self.problems.players, self.problems.arms)
        first, last = self.replications
        return one * len(self.policies) * (self.stop - self.start) * (last - first)

    def describe(self) -> dict[str, Any]:
        """The contents as plain data, with the digest of the code that makes the numbers."""
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
                    "code": code_digest_of(policy),
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
        """A name made from the contents alone, wherever the unit stands in the spec."""
        return unit_id(json.dumps(self.describe(), sort_keys=True))

    def __str__(self) -> str:
        last = f"–{self.stop - 1}" if self.stop - self.start > 1 else ""
        return f"unit {self.id} (study {self.study!r}, problems {self.start}{last}, horizon {self.horizon})"


def unit_id(description: str) -> str:
    """The id of a unit with this description, which is JSON."""
    return hashlib.blake2b(description.encode(), digest_size=12, person=b"posse unit").hexdigest()


def without_code(description: dict[str, Any]) -> str:
    """A unit's description without the code and schema that it was computed with: what was to be computed.

    Older versions of posse described the code otherwise, or not at all; their files are recognized too.
    """
    policies = [{name: policy[name] for name in ("class", "constants", "label")} for policy in description["policies"]]
    return json.dumps({**description, "policies": policies, "schema": None}, sort_keys=True)


def active_players(schedule: Schedule, players: int) -> float:
    """How many players act in a round, on average."""
    if isinstance(schedule, Random):
        return float(np.broadcast_to(schedule.probability, players).sum())
    if isinstance(schedule, Sequential) or schedule == Arrivals(stay=False):
        return 1.0
    if isinstance(schedule, Late):
        return players - min(schedule.players, players) * schedule.share
    return (players + 1) / 2 if isinstance(schedule, Arrivals) else float(players)


def run_cost(schedule: Schedule, horizon: int, players: int, arms: int) -> float:
    """About how much work one run of one policy is, in player-rounds of ten arms."""
    return horizon * (active_players(schedule, players) * max(arms / 10, 1) + 1) + 50 * players * arms + RUN_COST
