"""What a spec is made of: studies with problems and policies, and the units of work that they are cut into."""

import dataclasses
import functools
import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse import generate
from posse.experiments.records import SCHEMA_VERSION, Records, from_result
from posse.experiments.settings import family_text
from posse.policies.base import Policy
from posse.policies.posse_ts import PosseTS
from posse.problem import Problem
from posse.schedule import Arrivals, Concurrent, Late, Random, Schedule, Sequential, Zipf
from posse.simulation import Result, simulate
from posse.simulation.engine import code_digest_of
from posse.simulation.feedback import AT_ONCE, Feedback
from posse.simulation.progress import Progress
from posse.simulation.work import MAX_PLAYER_ROUNDS, check_run

UNIT_COST = 20_000_000  # player-rounds of ten arms in a unit of work: about a second
RUN_COST = 20_000  # what a run costs besides its rounds, in player-rounds of ten arms
OWN = "problem"  # a policy's epsilon or spread = "problem": the problem's own
KNOWS_GROUPS = "PosseTS, groups known"
BLIND = "PosseTS, attributes not told"
GIVEN = "given"  # in place of a family's name

Table = tuple[tuple[float, ...], ...]
"""Means of arms, one row for each player."""


@dataclass(frozen=True)
class ProblemSet:
    """A family of problems with its parameters, or given tables of means. Problem k does not depend on the count."""

    family: str  # one of `posse.generate.FAMILIES`, or "given"
    count: int
    parameters: dict[str, Any]  # arguments of the family's generator, or of `Problem` for given tables
    tables: tuple[Table, ...] = ()  # the means of its problems
    first: int = 0  # the number of its first problem

    @property
    def players(self) -> int:
        """The number of players; of the first table if they are given."""
        return len(self.tables[0]) if self.tables else self.parameters["players"]

    @property
    def arms(self) -> int:
        """The number of arms; of the first table if they are given."""
        return len(self.tables[0][0]) if self.tables else self.parameters["arms"]

    @property
    def numbers(self) -> range:
        """The numbers of its problems in their family."""
        return range(self.first, self.first + self.count)

    def make(self, seed: int) -> list[Problem]:
        """Its problems."""
        if self.tables:
            return [Problem(table, **self.parameters) for table in self.tables]
        generator: Any = generate.FAMILIES[self.family]
        return generator(count=self.numbers, seed=seed, **self.parameters)

    def alike(self) -> "Iterator[tuple[ProblemSet, dict[str, float]]]":
        """This set in parts of one shape and one ε, each with what `PolicyChoice.make` takes.

        The spread is ε/√12, as of a uniform law ε wide. With attributes ε is far larger than that, so the spread is the
        standard deviation between players on an arm in the family's first problems, to two digits.
        """
        if not self.tables:
            first = self.part(0, 1).make(0)[0]
            spread = first.epsilon / math.sqrt(12)
            if first.attributes:
                found = [each.means.var(axis=0) for each in self.part(0, 20).make(0)]
                spread = float(f"{math.sqrt(np.mean(found)):.2g}")
            yield self, {"epsilon": first.epsilon, "spread": spread}
            return
        start = self.first
        for (_, epsilon), group in itertools.groupby((each.means.shape, each.epsilon) for each in self.make(0)):
            stop = start + len(list(group))
            yield self.part(start, stop), {"epsilon": epsilon, "spread": epsilon / math.sqrt(12)}
            start = stop

    def chunks(self, size: int) -> "list[ProblemSet]":
        """This set in chunks of a size."""
        return [self.part(start, min(start + size, self.numbers.stop)) for start in self.numbers[::size]]

    def part(self, start: int, stop: int) -> "ProblemSet":
        """Problems start to stop − 1 as a set of their own."""
        tables = self.tables[start - self.first : stop - self.first]
        return dataclasses.replace(self, tables=tables, first=start, count=stop - start)

    def describe(self) -> dict[str, Any]:
        """The contents as plain data; tables by their digest."""
        used = {name: value for name, value in self.parameters.items() if value is not None}
        described = {"epsilon": None, **used, "family": self.family}
        described["rewards"] = repr(self.parameters["rewards"])
        if self.tables:
            digests = [hashlib.blake2b(json.dumps(table).encode(), digest_size=12) for table in self.tables]
            described["means"] = [digest.hexdigest() for digest in digests]
        return described


@dataclass(frozen=True)
class Unit:
    """A piece of work of about a second: plain data that knows its name and how to run."""

    study: str
    problems: ProblemSet
    policies: tuple[Policy, ...]
    horizon: int
    schedule: Schedule
    replications: tuple[int, int]  # the number of the first replication, and the number past the last
    checkpoints: int
    anytime: bool
    seed: int
    told: float = 1.0  # the horizon that policies are told, as a share of the true one
    by_group: bool = False  # each group of players is simulated as a problem of its own, and the regrets are added up
    feedback: Feedback = AT_ONCE
    blind: bool = False  # policies are not told the players' attributes

    def run(self, threads: int = 1, progress: Progress = None) -> Records:
        """Simulate it: one row for each policy, problem and replication."""
        return self.records(self.simulate(self.problems.make(self.seed), threads=threads, progress=progress))

    def records(self, result: Result) -> Records:
        """The rows of its result."""
        return from_result(result, self.study, self.problems.numbers, family_text(self.problems.describe()))

    def simulate(self, problems: list[Problem], **how: Any) -> Result:
        """Simulate its policies in its setting on any problems; `how` holds further arguments of `simulate`."""
        simulated: Any = functools.partial(
            simulate,
            policies=self.policies,
            horizon=self.horizon,
            seed=self.seed,
            replications=range(*self.replications),
            schedule=self.schedule,
            checkpoints=self.checkpoints,
            anytime=self.anytime,
            feedback=self.feedback,
            told_horizon=None if self.told == 1 else max(1, round(self.told * self.horizon)),
            **how,
        )
        if not self.by_group:
            return simulated([each.without_attributes() for each in problems] if self.blind else problems)
        return _added_up(
            [simulated(parts) for parts in zip(*(each.by_group() for each in problems), strict=True)], problems
        )

    @property
    def timed(self) -> bool:
        """Whether means change or rewards are late."""
        return self.feedback != AT_ONCE or self.problems.family == "changing"

    @property
    def cost(self) -> float:
        """About how much work it is, in player-rounds of ten arms."""
        one = run_cost(self.schedule, self.horizon, self.problems.players, self.problems.arms)
        first, last = self.replications
        return one * len(self.policies) * self.problems.count * (last - first)

    def describe(self) -> dict[str, Any]:
        """The contents as plain data, with the digest of the code that makes the numbers.

        What was added to posse later is there only where it is used, so that ids stay what they were.
        """
        described: dict[str, Any] = {} if self.feedback == AT_ONCE else {"feedback": repr(self.feedback)}
        described |= {"told": self.told} if self.told != 1 else {}
        described |= {"by_group": True} if self.by_group else {}
        described |= {"blind": True} if self.blind else {}
        return described | {
            "schema": SCHEMA_VERSION,
            "study": self.study,
            "problems": self.problems.describe(),
            "numbers": [self.problems.numbers.start, self.problems.numbers.stop],
            "policies": [
                {
                    "class": f"{type(policy).__module__}.{type(policy).__qualname__}",
                    "constants": list(policy.constants()),
                    "label": policy.label,
                    "code": code_digest_of(policy),
                    **({} if policy.forget is None else {"forget": policy.forget}),
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
        return unit_id(self.describe())

    def __str__(self) -> str:
        first, *others = self.problems.numbers
        shown = f"{first}–{others[-1]}" if others else str(first)
        return f"unit {self.id} (study {self.study!r}, problems {shown}, horizon {self.horizon})"


@dataclass(frozen=True)
class PolicyChoice:
    """A policy of a study, whose ε and spread may be left to the problem."""

    policy: type[Policy]
    constants: tuple[tuple[str, float | str], ...]
    label: str = ""

    def make(self, own: Mapping[str, float]) -> Policy:
        """The policy for problems whose own ε and spread are these."""
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
    feedback: tuple[Feedback, ...] = (AT_ONCE,)
    anytime: tuple[bool, ...] = (False,)
    replications: int = 1
    checkpoints: int = 200
    tags: tuple[str, ...] = ()  # words by which a report groups studies
    told: float = 1.0  # the horizon that policies are told, as a share of the true one
    knows_groups: bool = False  # also run PosseTS on each group of players apart, as if it knew the groups
    blind: bool = False  # also run PosseTS on the same problems without the players' attributes

    @property
    def variants(self) -> dict[str, str]:
        """The fields of `Unit` for which PosseTS also runs, each with its label there."""
        asked = {"by_group": (self.knows_groups, KNOWS_GROUPS), "blind": (self.blind, BLIND)}
        return {field: label for field, (wanted, label) in asked.items() if wanted}

    @property
    def settings(self) -> int:
        """How many combinations of its lists there are."""
        lengths = len(self.horizons) + len(self.turns)
        return len(self.problems) * len(self.schedules) * lengths * len(self.anytime) * len(self.feedback)

    def units(self, seed: int) -> Iterator[Unit]:
        """The grid, cut into units of work."""
        lengths = [(False, horizon) for horizon in self.horizons] + [(True, turns) for turns in self.turns]
        for problems, schedule, (by_turns, length), anytime, feedback in itertools.product(
            self.problems, self.schedules, lengths, self.anytime, self.feedback
        ):
            for alike, own in problems.alike():
                policies = tuple(choice.make(own) for choice in self.policies)
                horizon = _horizon(schedule, length, alike.players) if by_turns else length
                check_run(schedule, horizon, alike.players)
                variants: list[tuple[dict[str, Any], tuple[Policy, ...]]] = [({}, policies)]
                variants += [({field: True}, (PosseTS(label=label),)) for field, label in self.variants.items()]
                for variant, tried in variants:
                    cost = run_cost(schedule, horizon, alike.players, alike.arms) * len(tried)
                    replications = min(self.replications, max(1, int(UNIT_COST / cost)))
                    for part in alike.chunks(max(1, int(UNIT_COST / (cost * replications)))):
                        for first in range(0, self.replications, replications):
                            runs = first, min(first + replications, self.replications)
                            setting = (horizon, schedule, runs, self.checkpoints, anytime, seed)
                            yield Unit(self.name, part, tried, *setting, self.told, feedback=feedback, **variant)


@dataclass(frozen=True)
class Spec:
    """What `posse run` runs: studies and a seed. `text` is the TOML text that it was read from."""

    title: str
    seed: int
    studies: tuple[Study, ...]
    text: str = ""
    files: tuple[tuple[str, str], ...] = ()  # names and texts of the CSV files that it names

    def units(self) -> list[Unit]:
        """All studies in units of work, in order."""
        return [unit for study in self.studies for unit in study.units(self.seed)]


def _added_up(results: Sequence[Result], problems: Sequence[Problem]) -> Result:
    """The results of each group of players as one of the problems, in which the groups play side by side."""
    order = np.argsort(np.argsort(problems[0].groups, kind="stable"), kind="stable")
    found: dict[str, Any] = {name: sum(getattr(result, name) for result in results) for name in ("regret", "reward")}
    for name in ("pulls", "late_pulls", "player_regret"):
        found[name] = np.concatenate([getattr(result, name) for result in results], axis=3)[:, :, :, order]
    return dataclasses.replace(results[0], problems=tuple(problems), **found)


def _horizon(schedule: Schedule, turns: int, players: int) -> int:
    """The number of rounds in which a player acts `turns` times on average."""
    active = active_players(schedule, players)
    rounds = turns * players / active if active > 0 else math.inf
    if not rounds <= MAX_PLAYER_ROUNDS:
        raise ValueError(f"turns={turns}, but with {schedule} that takes more than {MAX_PLAYER_ROUNDS} rounds")
    return math.ceil(rounds)


def unit_id(described: dict[str, Any]) -> str:
    """The id of a unit with this description."""
    text = json.dumps(described, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12, person=b"posse unit").hexdigest()


def active_players(schedule: Schedule, players: int) -> float:
    """How many players act in a round, on average."""
    if isinstance(schedule, Random):
        return float(np.broadcast_to(schedule.probability, players).sum())
    if isinstance(schedule, Zipf):
        return float(schedule.participation(players, 1).probabilities.sum())
    if isinstance(schedule, Sequential) or schedule == Arrivals(stay=False):
        return 1.0
    if isinstance(schedule, Late):
        return players - min(schedule.players, players) * schedule.share
    return (players + 1) / 2 if isinstance(schedule, Arrivals) else float(players)


def run_cost(schedule: Schedule, horizon: int, players: int, arms: int) -> float:
    """About how much work one run of one policy is, in player-rounds of ten arms."""
    return horizon * (active_players(schedule, players) * max(arms / 10, 1) + 1) + 50 * players * arms + RUN_COST
