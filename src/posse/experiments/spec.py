"""An experiment as data: a small TOML file, read into studies and cut into units of work.

A list is a grid: `n_subpar = [0, 5, 8]` runs all three, and several lists run every combination. The commented example
that `posse init` writes (specs/example.toml) shows every field.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import difflib
import functools
import hashlib
import itertools
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from posse import generate
from posse.checks import number, whole
from posse.experiments.records import SCHEMA_VERSION, from_result
from posse.policies.base import Policy, all_policies
from posse.problem import Problem
from posse.rewards import Bernoulli, Beta, Family, family
from posse.schedule import Concurrent, Random, Schedule, Sequential
from posse.simulation import simulate
from posse.simulation.simulate import MAX_PLAYER_ROUNDS, Progress

UNIT_COST = 20_000_000  # player-rounds of ten arms in a unit of work: about a second
RUN_COST = 20_000  # what a run costs besides its rounds, in the same measure
MAX_PAIRS = 1_000_000  # players × arms
MAX_POINTS = 10_000  # grid points of a study
MAX_UNITS = 100_000
OWN = "problem"  # a policy's epsilon = "problem": the problem's own

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

    family: str  # "subpar", "uniform" or "given"
    count: int
    players: int
    arms: int
    epsilon: float | None  # None: the smallest that holds for each table
    rewards: Family
    n_subpar: int | None = None
    tables: tuple[Table, ...] = ()  # of problems first, first + 1, …
    first: int = 0

    def make(self, start: int, stop: int, seed: int) -> list[Problem]:
        """Problems start to stop − 1."""
        if self.family == "given":
            tables = self.tables[start - self.first : stop - self.first]
            return [Problem(table, self.epsilon, self.rewards) for table in tables]
        sizes: dict[str, Any] = {"players": self.players, "arms": self.arms, "epsilon": self.epsilon}
        shared = {"count": stop, "seed": seed, "rewards": self.rewards, **sizes}
        if self.family == "uniform":
            return generate.uniform(**shared)[start:]
        assert self.n_subpar is not None
        return generate.subpar(self.n_subpar, **shared)[start:]

    def alike(self) -> list[tuple[Problems, float]]:
        """These problems in stretches of one shape and one ε, each with its ε."""
        if self.family != "given":
            assert self.epsilon is not None
            return [(self, self.epsilon)]
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
        described |= {"players": self.players, "arms": self.arms}
        return described if self.n_subpar is None else described | {"n_subpar": self.n_subpar}


@dataclass(frozen=True)
class Choice:
    """A policy of a study, whose ε may be left to the problem."""

    policy: type[Policy]
    constants: tuple[tuple[str, float | str], ...]
    label: str = ""

    def make(self, epsilon: float) -> Policy:
        """The policy for a problem with this ε."""
        constants: dict[str, Any] = {name: epsilon if value == OWN else value for name, value in self.constants}
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
        result = simulate(
            self.problems.make(self.start, self.stop, self.seed),
            self.policies,
            self.horizon,
            seed=self.seed,
            replications=range(*self.replications),
            schedule=self.schedule,
            checkpoints=self.checkpoints,
            threads=threads,
            progress=progress,
            anytime=self.anytime,
        )
        return from_result(result, self.study, range(self.start, self.stop))

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


def load(path: str | Path) -> Spec:
    """Read a spec from a file; files that it names are looked for beside it."""
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(f"{path} is not UTF-8 text: {error}") from None
    return parse(text, path.parent)


def parse(text: str, folder: str | Path = Path()) -> Spec:
    """Read a spec from text; files that it names are looked for in `folder`.

    >>> spec = parse('''
    ... [[study]]
    ... name = "small"
    ... horizon = [100, 1000]
    ... problems = { family = "subpar", n_subpar = 8, count = 3 }
    ... policies = [{ name = "RobustAggTS", epsilon = "problem" }, { name = "IndTS" }]
    ... ''')
    >>> [unit.horizon for unit in spec.units()]
    [100, 1000]
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        found = re.search(r"at line (\d+)", str(error))
        raise SpecError(f"not a TOML file: {error}", int(found[1]) if found else 1) from None
    place = _Place(_lines(text, document), (), "")
    top = place.read(document, {"title": Field(_string, ""), "seed": Field(_seed, 0), "study": Field(_any, None)})
    entries = document.get("study")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise place.error("study", "study: expected at least one [[study]] table")
    (seed,) = top["seed"]
    studies: list[Study] = []
    units = 0
    for number_, entry in enumerate(entries):
        here = place.at("study", number_, what=f"study {entry.get('name', number_ + 1)!r}")
        study = _read_study(here, entry, Path(folder))
        if study.name in [other.name for other in studies]:
            raise here.error("name", f"name={study.name!r}, but another study has that name; each needs its own")
        with here.blame():
            for _ in study.units(seed):
                units += 1
                if units > MAX_UNITS:
                    raise ValueError(f"more than {MAX_UNITS:,} units of work; make the grid, count or horizon smaller")
        studies.append(study)
    return Spec(title=top["title"][0], seed=seed, studies=tuple(studies), text=text)


# Reading tables --------------------------------------------------------------------------------------------------

REQUIRED = object()
Check = Callable[[str, Any], Any]


@dataclass(frozen=True)
class Field:
    """What a key may hold; `check(name, value)` gives the value as it is kept, or raises with what is allowed."""

    check: Check
    default: Any = REQUIRED
    grid: bool = False


@dataclass(frozen=True)
class _Place:
    """Where in the spec something stands, for errors."""

    lines: Mapping[tuple[str | int, ...], int]
    path: tuple[str | int, ...]
    what: str

    def at(self, *path: str | int, what: str) -> _Place:
        return _Place(self.lines, self.path + path, f"{self.what}, {what}" if self.what else what)

    def error(self, key: str, message: str) -> SpecError:
        path = (*self.path, key)
        line = next((self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), 1)
        field = ".".join(part for part in path if isinstance(part, str))
        where = f"{self.what}: " if self.what else ""
        return SpecError(f"line {line}: {_shortened(where + message)}", line, field)

    def read(self, table: dict[str, Any], fields: Mapping[str, Field]) -> dict[str, tuple[Any, ...]]:
        """The table's values, each as a tuple of those in its grid (of one if the field takes no grid)."""
        for key in table:
            if key not in fields:
                close = difflib.get_close_matches(key, fields, 1)
                hint = f" (did you mean {close[0]}?)" if close else ""
                raise self.error(key, f"{_shortened(key, 60)} is not a field here{hint}; allowed: {', '.join(fields)}")
        return {key: self._values(key, table, field) for key, field in fields.items()}

    def _values(self, key: str, table: dict[str, Any], field: Field) -> tuple[Any, ...]:
        if key not in table:
            if field.default is REQUIRED:
                raise self.error(key, f"{key} is missing")
            return (field.default,)
        variants = _variants(table[key]) if field.grid else [table[key]]
        if not variants:
            raise self.error(key, f"{key}=[], but a grid needs at least one value")
        if len(variants) > MAX_POINTS:
            raise self.error(key, f"{key} has {len(variants)} values, but a grid has at most {MAX_POINTS}")
        if isinstance(table[key], list) and not field.grid and field.check is not _any:
            raise self.error(key, f"{key} is a list, but takes one value, no grid")
        try:
            values = tuple(field.check(key, value) for value in variants)
        except (ValueError, TypeError, OverflowError) as error:
            raise self.error(key, str(error)) from None
        if field.grid and len(set(values)) < len(values):
            raise self.error(key, f"{key}={variants}, but each value of a grid must be there once")
        return values

    @contextlib.contextmanager
    def blame(self) -> Iterator[None]:
        """Turn an error of posse's own, which begins with `field=`, into one that names the field's line."""
        try:
            yield
        except SpecError:
            raise
        except (ValueError, TypeError, OverflowError) as error:
            found = re.match(r"(\w+)=", str(error))
            raise self.error(found[1] if found else "", str(error)) from None


def _variants(value: Any) -> list[Any]:
    """A value's grid: the items of a list; of a table such as { random = [0.1, 0.9] } one for each of its items."""
    found: list[Any] = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict) and len(item) == 1:
            ((key, inner),) = item.items()
            found += [{key: each} for each in (inner if isinstance(inner, list) else [inner])]
        else:
            found.append(item)
    return found


def _lines(text: str, document: dict[str, Any]) -> dict[tuple[str | int, ...], int]:
    """The line of every table header and key, by path; a look at each line's beginning is enough."""
    part = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
    dotted = rf"{part}(?:\s*\.\s*{part})*"
    header = re.compile(rf"\s*(\[\[?)\s*({dotted})\s*\]\]?\s*(?:#.*)?$")
    assignment = re.compile(rf"\s*({dotted})\s*=")
    latest: dict[tuple[str | int, ...], int] = {}
    lines: dict[tuple[str | int, ...], int] = {}
    current: list[str] = []

    def resolve(parts: list[str], opens: bool, is_header: bool) -> tuple[str | int, ...]:
        path: tuple[str | int, ...] = ()
        node: Any = document
        for depth, name in enumerate(parts, 1):
            if not isinstance(node, dict) or name not in node:
                return ()
            node = node[name]
            path += (name,)
            if isinstance(node, list) and (is_header or depth < len(parts)):
                if opens and depth == len(parts):
                    latest[path] = latest.get(path, -1) + 1
                index = latest.get(path, 0)
                if index >= len(node):
                    return ()
                node = node[index]
                path += (index,)
        return path

    for line_number, line in enumerate(text.split("\n"), 1):
        if found := header.match(line.rstrip("\r")):
            parts = [name.strip("\"'") for name in re.findall(part, found[2])]
            if path := resolve(parts, found[1] == "[[", True):
                current = parts
                lines.setdefault(path, line_number)
        elif found := assignment.match(line):
            parts = current + [name.strip("\"'") for name in re.findall(part, found[1])]
            for end in range(len(current) + 1, len(parts) + 1):
                if path := resolve(parts[:end], False, False):
                    lines.setdefault(path, line_number)
    return lines


# The fields ------------------------------------------------------------------------------------------------------


def _any(name: str, value: Any) -> Any:
    return value


def _string(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}={value!r}, but expected a text in quotes")
    return value


def _name(name: str, value: Any) -> str:
    if not _string(name, value).strip():
        raise ValueError(f"{name}={value!r}, but expected a text that is not empty")
    return value


def _boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name}={value!r}, but expected true or false")
    return value


def _seed(name: str, value: Any) -> int:
    return whole(name, value, least=0, most=2**128 - 1)


def _whole(least: int, most: int) -> Check:
    return lambda name, value: whole(name, value, least=least, most=most)


def _one_of(*allowed: str) -> Check:
    def check(name: str, value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"{name}={value!r}, but expected {' or '.join(map(repr, allowed))}")
        return value

    return check


def _epsilon(name: str, value: Any) -> float:
    return number(name, value, least=0, most=1)


def _schedule(name: str, value: Any) -> Schedule:
    named = {"concurrent": Concurrent(), "sequential": Sequential(), "sequential-random": Sequential("random")}
    if isinstance(value, str) and value in named:
        return named[value]
    if isinstance(value, dict) and set(value) == {"random"}:
        return Random(value["random"])
    allowed = ", ".join(f'"{word}"' for word in named)
    raise ValueError(f"{name}={value!r}, but expected {allowed} or {{ random = 0.5 }}")


def _rewards(name: str, value: Any) -> Family:
    if isinstance(value, str) and value in ("bernoulli", "uniform", "deterministic"):
        return family(value)
    if isinstance(value, dict) and set(value) == {"beta"}:
        return Beta(number("beta", value["beta"], above=0))
    raise ValueError(f'{name}={value!r}, but expected "bernoulli", "uniform", "deterministic" or {{ beta = 10 }}')


def _constant(name: str, value: Any) -> float | str:
    if name == "epsilon" and value == OWN:
        return OWN
    if name == "epsilon" and isinstance(value, str):
        raise ValueError(f'{name}={value!r}, but expected a number or "problem", for the problem\'s own')
    return number(name, value)


STUDY_FIELDS = {
    "name": Field(_name),
    "horizon": Field(_whole(1, MAX_PLAYER_ROUNDS), None, grid=True),
    "turns": Field(_whole(1, MAX_PLAYER_ROUNDS), None, grid=True),
    "replications": Field(_whole(1, 1_000_000), 1),
    "checkpoints": Field(_whole(1, 10_000), 200),
    "anytime": Field(_boolean, False, grid=True),
    "schedule": Field(_schedule, Concurrent(), grid=True),
    "problems": Field(_any),
    "policies": Field(_any),
}
GIVEN_FIELDS = {
    "epsilon": Field(_epsilon, None, grid=True),
    "rewards": Field(_rewards, Bernoulli(), grid=True),
}
UNIFORM_FIELDS = {
    "count": Field(_whole(1, 1_000_000), 1),
    "players": Field(_whole(1, MAX_PAIRS), 20, grid=True),
    "arms": Field(_whole(1, MAX_PAIRS), 10, grid=True),
    "epsilon": Field(_epsilon, 0.15, grid=True),
    "rewards": Field(_rewards, Bernoulli(), grid=True),
}
FAMILIES = {
    "subpar": {"n_subpar": Field(_whole(0, MAX_PAIRS), grid=True), **UNIFORM_FIELDS},
    "uniform": UNIFORM_FIELDS,
}


def _read_study(place: _Place, table: dict[str, Any], folder: Path) -> Study:
    values = place.read(table, STUDY_FIELDS)
    if ("horizon" in table) == ("turns" in table):
        raise place.error("horizon", "horizon is missing (or turns, how often a player is to act), exactly one of them")
    problems = table["problems"]
    if not isinstance(problems, dict):
        raise place.error("problems", f"problems={problems!r}, but expected a table, [study.problems]")
    policies = table["policies"]
    if not isinstance(policies, list) or not policies or not all(isinstance(policy, dict) for policy in policies):
        raise place.error("policies", "policies: expected at least one table, [[study.policies]]")
    study = Study(
        name=values["name"][0],
        problems=tuple(_read_problems(place.at("problems", what="problems"), problems, folder)),
        policies=tuple(
            choice
            for number_, policy in enumerate(policies)
            for choice in _read_policy(place.at("policies", number_, what=f"policy {number_ + 1}"), policy)
        ),
        horizons=values["horizon"] if "horizon" in table else (),
        turns=values["turns"] if "turns" in table else (),
        schedules=values["schedule"],
        anytime=values["anytime"],
        replications=values["replications"][0],
        checkpoints=values["checkpoints"][0],
    )
    lengths = len(study.horizons) + len(study.turns)
    points = len(study.problems) * len(study.schedules) * lengths * len(study.anytime)
    if points > MAX_POINTS:
        raise place.error("name", f"the lists make {points} combinations, but a study has at most {MAX_POINTS}")
    return study


def _read_problems(place: _Place, table: dict[str, Any], folder: Path) -> Iterator[Problems]:
    sources = [key for key in ("family", "means", "file") if key in table]
    if len(sources) != 1:
        raise place.error(
            sources[-1] if sources else "family", "expected exactly one of family, means and file to say what problems"
        )
    if sources == ["family"]:
        name = place.read({"family": table["family"]}, {"family": Field(_one_of(*FAMILIES))})["family"][0]
        values = place.read(table, {"family": Field(_any), **FAMILIES[name]})
        settings = [dict(zip(values, point, strict=True)) for point in _product(place, values)]
        for setting in settings:
            problems = Problems(**setting)
            pairs = problems.players * problems.arms
            if pairs > MAX_PAIRS:
                raise place.error("players", f"players × arms = {pairs}, but at most {MAX_PAIRS} can be simulated")
            with place.blame():
                dataclasses.replace(problems, players=1).make(0, 1, 0)
            yield problems
        return
    values = place.read(table, {"means": Field(_any, None), "file": Field(_any, None), **GIVEN_FIELDS})
    try:
        tables = _read_means(table["means"]) if "means" in table else _read_files(table["file"], folder)
    except (ValueError, TypeError, OverflowError) as error:
        raise place.error(sources[0], f"{sources[0]}: {error}") from None
    for epsilon, rewards in _product(place, {key: values[key] for key in GIVEN_FIELDS}):
        with place.blame():
            for each in tables:
                Problem(each, epsilon, rewards)
        yield Problems("given", len(tables), len(tables[0]), len(tables[0][0]), epsilon, rewards, tables=tables)


def _read_policy(place: _Place, table: dict[str, Any]) -> Iterator[Choice]:
    known = {cls.__name__: cls for cls in reversed(all_policies()) if not cls.__name__.startswith("_")}
    own = {name: cls for name, cls in known.items() if cls.__module__.startswith("posse.policies.")}
    known |= own
    names = place.read({"name": table["name"]} if "name" in table else {}, {"name": Field(_name, grid=True)})["name"]
    for name in names:
        if name not in known:
            raise place.error("name", f"name={name!r}, but expected one of {', '.join(sorted(known))}")
        constants = {
            field.name: Field(_constant, REQUIRED if field.default is dataclasses.MISSING else None, grid=True)
            for field in known[name]._constant_fields()
        }
        values = place.read(table, {"name": Field(_name, grid=True), **constants, "label": Field(_string, "")})
        given = {key: values[key] for key in constants if key in table}
        for point in _product(place, given):
            choice = Choice(known[name], tuple(zip(given, point, strict=True)), values["label"][0])
            with place.blame():
                choice.make(0.1)
            yield choice


def _product(place: _Place, values: Mapping[str, tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    points = math.prod(len(each) for each in values.values())
    if points > MAX_POINTS:
        raise place.error("", f"the lists make {points} combinations, but a study has at most {MAX_POINTS}")
    return list(itertools.product(*values.values()))


def _read_means(value: Any) -> tuple[Table, ...]:
    """One table, or a list of tables."""
    if not isinstance(value, list) or not value:
        raise TypeError("expected a table of numbers in [0, 1], one row a player, or a list of such tables")
    several = all(isinstance(row, list) and row and isinstance(row[0], list) for row in value)
    return tuple(
        _table(f"table {k}" if several else "table", rows) for k, rows in enumerate(value if several else [value])
    )


def _read_files(value: Any, folder: Path) -> tuple[Table, ...]:
    """One file of means, or a list of files."""
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name.endswith((".csv", ".npy")) for name in names):
        raise ValueError(f"{value!r}, but expected the name of a .csv or .npy file, or a list of such names")
    tables: list[Table] = []
    for name in names:
        try:
            found = _read_csv(folder / name) if name.endswith(".csv") else _read_npy(folder / name)
        except Exception as error:  # a file may be damaged in any way
            raise ValueError(f"cannot read {name}: {error}") from None
        tables += (_table(name, rows) for rows in found)
    return tuple(tables)


def _read_csv(path: Path) -> list[Any]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return [[[float(cell) for cell in row] for row in csv.reader(file) if row]]


def _read_npy(path: Path) -> list[Any]:
    array = np.load(path, allow_pickle=False)
    if not isinstance(array, np.ndarray) or array.ndim not in (2, 3) or array.dtype.kind not in "fiu":
        raise ValueError("expected an array of numbers, players × arms or problems × players × arms")
    tables = array.astype(float).tolist()
    return [tables] if array.ndim == 2 else tables


def _table(where: str, rows: Any) -> Table:
    """A checked table of means as plain data."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) and row for row in rows):
        raise TypeError(f"{where}: expected one row of numbers a player")
    for player, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(f"{where}: player {player} has {len(row)} arms, but player 0 has {len(rows[0])}")
        for arm, mean in enumerate(row):
            if isinstance(mean, bool) or not isinstance(mean, (int, float)) or not 0 <= mean <= 1:
                raise ValueError(f"{where}: means[{player}, {arm}]={mean!r}, but a mean is a number in [0, 1]")
    if len(rows) * len(rows[0]) > MAX_PAIRS:
        raise ValueError(f"{where}: {len(rows)} × {len(rows[0])} means, but at most {MAX_PAIRS} can be simulated")
    return tuple(tuple(float(mean) + 0.0 for mean in row) for row in rows)


# Cutting ---------------------------------------------------------------------------------------------------------


def _active(schedule: Schedule, players: int) -> float:
    """How many players act in a round, on average."""
    if isinstance(schedule, Random):
        chances = schedule.probability
        return sum(chances) if isinstance(chances, tuple) else float(chances) * players  # type: ignore[arg-type]
    return 1.0 if isinstance(schedule, Sequential) else float(players)


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


def _shortened(message: str, most: int = 400) -> str:
    return message if len(message) <= most else f"{message[: most - 1]}…"
