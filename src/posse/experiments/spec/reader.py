"""Read a spec from a TOML file.

A list is a grid: `n_subpar = [0, 5, 8]` runs all three, and several lists run every combination. The commented example
that `posse init` writes (shipped/example.toml) shows every field.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from posse.checks import number, whole
from posse.experiments.spec.fields import MAX_POINTS, REQUIRED, Check, Field, SpecError, SpecLocation, anything
from posse.experiments.spec.lines import find_lines
from posse.experiments.spec.problem_set import GIVEN, MAX_PAIRS, ProblemSet, read_files, read_means
from posse.experiments.spec.study import OWN, PolicyChoice, Spec, Study
from posse.generate import ODDITIES
from posse.policies.base import Policy, all_policies
from posse.problem import Problem
from posse.rewards import Bernoulli, Beta, Family, family
from posse.schedule import Arrivals, Concurrent, Late, Random, Schedule, Sequential
from posse.simulation.simulate import MAX_PLAYER_ROUNDS

MAX_UNITS = 100_000


def load(path: str | Path) -> Spec:
    """Read a spec from a file; files that it names are looked for beside it."""
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(f"{path} is not UTF-8 text: {error}") from None
    try:
        return parse(text, path.parent)
    except SpecError as error:
        raise SpecError(f"{path}, {error}", error.line, error.field) from None


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
    if not isinstance(text, str):
        raise TypeError(f"text={text!r}, but expected the text of a spec; `load` reads a file")
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        found = re.search(r"at line (\d+)", str(error))
        line = int(found[1]) if found else 1
        raise SpecError(f"line {line}: not a TOML file: {error}", line) from None
    lines = find_lines(text, document)
    place = SpecLocation(lines, (), "")
    fields = {"title": Field(_string, ""), "seed": Field(_whole(0, 2**128 - 1), 0)}
    top = place.read(document, {**fields, "defaults": Field(_defaults, {}), "study": Field(anything, None)})
    entries = document.get("study")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise place.error("study", "study: expected at least one [[study]] table")
    (seed,) = top["seed"]
    studies: list[Study] = []
    units = 0
    for position, entry in enumerate(entries):
        lines |= {
            ("study", position, *path[1:]): line
            for path, line in lines.items()
            if path[0] == "defaults" and path[1:] and path[1] not in entry
        }
        here = place.at("study", position, what=f"study {entry.get('name', position + 1)!r}")
        study = _read_study(here, {**top["defaults"][0], **entry}, Path(folder))
        if study.name in [other.name for other in studies]:
            raise here.error("name", f"name={study.name!r}, but another study has that name; each needs its own")
        with here.blame():
            units += sum(1 for _ in itertools.islice(study.units(seed), MAX_UNITS + 1 - units))
            if units > MAX_UNITS:
                raise ValueError(f"more than {MAX_UNITS:,} units of work; make the grid, count or horizon smaller")
        studies.append(study)
    return Spec(title=top["title"][0], seed=seed, studies=tuple(studies), text=text)


def _of_type(kind: type, expected: str) -> Check:
    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"{name}={value!r}, but expected {expected}")
        return value

    return check


_string = _of_type(str, "a text in quotes")


def _name(name: str, value: Any) -> str:
    text: str = _string(name, value)
    if not text.strip():
        raise ValueError(f"{name}={value!r}, but expected a text that is not empty")
    return text


def _defaults(name: str, value: Any) -> dict[str, Any]:
    """Fields for all studies, any but the name. A study may override them."""
    if not isinstance(value, dict) or "name" in value:
        raise TypeError(f"{name}: expected a table [{name}] with fields of a study, but no name")
    return value


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
    named = {
        "concurrent": Concurrent(),
        "sequential": Sequential(),
        "sequential-random": Sequential("random"),
        "arrivals": Arrivals(),
        "relay": Arrivals(stay=False),
    }
    if isinstance(value, str) and value in named:
        return named[value]
    if isinstance(value, dict) and len(value) == 1:
        ((kind, share),) = value.items()
        if kind in ("random", "late"):
            return Random(share) if kind == "random" else Late(share)
    allowed = ", ".join(f'"{word}"' for word in named)
    raise ValueError(f"{name}={value!r}, but expected {allowed}, {{ random = 0.5 }} or {{ late = 0.5 }}")


def _rewards(name: str, value: Any) -> Family:
    if isinstance(value, str) and value in ("bernoulli", "uniform", "deterministic"):
        return family(value)
    if isinstance(value, dict) and set(value) == {"beta"}:
        return Beta(number("beta", value["beta"], above=0))
    raise ValueError(f'{name}={value!r}, but expected "bernoulli", "uniform", "deterministic" or {{ beta = 10 }}')


def _constant(name: str, value: Any) -> float | str:
    if name not in ("epsilon", "spread") or not isinstance(value, str):
        return number(name, value)
    if value != OWN:
        raise ValueError(f'{name}={value!r}, but expected a number or "problem", for the problem\'s own')
    return OWN


def _tags(name: str, value: Any) -> tuple[str, ...]:
    return tuple(_name(name, tag) for tag in _of_type(list, "a list of texts")(name, value))


STUDY_FIELDS = {
    "name": Field(_name),
    "tags": Field(_tags, (), listed=True),
    "horizon": Field(_whole(1, MAX_PLAYER_ROUNDS), None, grid=True),
    "turns": Field(_whole(1, MAX_PLAYER_ROUNDS), None, grid=True),
    "replications": Field(_whole(1, 1_000_000), 1),
    "checkpoints": Field(_whole(1, 10_000), 200),
    "anytime": Field(_of_type(bool, "true or false"), False, grid=True),
    "schedule": Field(_schedule, Concurrent(), grid=True),
    "problems": Field(anything),
    "policies": Field(anything),
}
GIVEN_FIELDS = {"epsilon": Field(_epsilon, None, grid=True), "rewards": Field(_rewards, Bernoulli(), grid=True)}
SIZE_FIELDS = {
    "count": Field(_whole(1, 1_000_000), 1),
    "players": Field(_whole(1, MAX_PAIRS), 20, grid=True),
    "arms": Field(_whole(1, MAX_PAIRS), 10, grid=True),
    "rewards": Field(_rewards, Bernoulli(), grid=True),
}
UNIFORM_FIELDS = {**SIZE_FIELDS, "epsilon": Field(_epsilon, 0.15, grid=True)}
OPTION_FIELDS = {  # of "structured", with the defaults of `posse.generate.structured`
    **{
        name: Field(_epsilon, default, grid=True)
        for name, default in {"spread": 0.05, "low": 0.2, "high": 0.8, "level": 0.0, "unlike": 0.0}.items()
    },
    "groups": Field(_whole(1, MAX_PAIRS), 1, grid=True),
    "odd": Field(_whole(0, MAX_PAIRS), 0, grid=True),
    "oddity": Field(_one_of(*ODDITIES), "reversed", grid=True),
}
FAMILIES = {
    "subpar": {"n_subpar": Field(_whole(0, MAX_PAIRS), grid=True), **UNIFORM_FIELDS},
    "uniform": UNIFORM_FIELDS,
    "structured": {**SIZE_FIELDS, **OPTION_FIELDS},
}


def _read_study(place: SpecLocation, table: dict[str, Any], folder: Path) -> Study:
    values = place.read(table, STUDY_FIELDS)
    if ("horizon" in table) == ("turns" in table):
        raise place.error("horizon", "horizon is missing (or turns, how often a player acts); give exactly one of them")
    problems = table["problems"]
    if not isinstance(problems, dict):
        raise place.error("problems", f"problems={problems!r}, but expected a table, [study.problems]")
    policies = table["policies"]
    if not isinstance(policies, list) or not policies or not all(isinstance(policy, dict) for policy in policies):
        raise place.error("policies", "policies: expected at least one table, [[study.policies]]")
    places = [place.at("policies", each, what=f"policy {each + 1}") for each in range(len(policies))]
    choices = [(at, choice) for at, policy in zip(places, policies, strict=True) for choice in _read_policy(at, policy)]
    study = Study(
        name=values["name"][0],
        problems=tuple(_read_problems(place.at("problems", what="problems"), problems, folder)),
        policies=tuple(choice for _, choice in choices),
        horizons=values["horizon"] if "horizon" in table else (),
        turns=values["turns"] if "turns" in table else (),
        schedules=values["schedule"],
        anytime=values["anytime"],
        replications=values["replications"][0],
        checkpoints=values["checkpoints"][0],
        tags=values["tags"][0],
    )
    if study.settings > MAX_POINTS:
        raise place.error("name", f"the lists make {study.settings} combinations, but a study has at most {MAX_POINTS}")
    _check_labels(choices, {epsilon for problems in study.problems for _, epsilon in problems.alike()})
    return study


def _check_labels(choices: list[tuple[SpecLocation, PolicyChoice]], epsilons: set[float]) -> None:
    """An error that names the first policy whose label another one has too, for problems with any of these ε."""
    for epsilon in epsilons:
        labels: set[str] = set()
        for place, choice in choices:
            with place.blame():
                label = choice.make(epsilon).label
                if label in labels:
                    raise ValueError(f"label={label!r} is the label of two policies; give each a label of its own")
            labels.add(label)


def _read_problems(place: SpecLocation, table: dict[str, Any], folder: Path) -> Iterator[ProblemSet]:
    sources = [key for key in ("family", "means", "file") if key in table]
    if len(sources) != 1:
        key = sources[-1] if sources else "family"
        raise place.error(key, "expected exactly one of family, means and file to say what problems")
    if sources == ["family"]:
        name = place.read({"family": table["family"]}, {"family": Field(_one_of(*FAMILIES))})["family"][0]
        values = place.read(table, {"family": Field(anything), **FAMILIES[name]})
        for point in _product(place, values):
            setting = dict(zip(values, point, strict=True))
            options = tuple((key, setting.pop(key)) for key in OPTION_FIELDS if key in setting)
            problems = ProblemSet(**{"epsilon": None, **setting}, options=options)
            pairs = problems.players * problems.arms
            if pairs > MAX_PAIRS:
                raise place.error("players", f"players × arms = {pairs}, but at most {MAX_PAIRS} can be simulated")
            with place.blame():
                problems.make(0, 1, 0)
            yield problems
        return
    values = place.read(table, {"means": Field(anything, None), "file": Field(anything, None), **GIVEN_FIELDS})
    try:
        tables = read_means(table["means"]) if "means" in table else read_files(table["file"], folder)
        if not tables:
            raise ValueError("no problem in it; expected at least one table of means")
    except (ValueError, TypeError, OverflowError) as error:
        raise place.error(sources[0], f"{sources[0]}: {error}") from None
    for epsilon, rewards in _product(place, {key: values[key] for key in GIVEN_FIELDS}):
        with place.blame():
            for each in tables:
                Problem(each, epsilon, rewards)
        yield ProblemSet(GIVEN, len(tables), len(tables[0]), len(tables[0][0]), epsilon, rewards, tables=tables)


def _read_policy(place: SpecLocation, table: dict[str, Any]) -> Iterator[PolicyChoice]:
    names = place.read({"name": table["name"]} if "name" in table else {}, {"name": Field(_name, grid=True)})["name"]
    for name in names:
        with place.blame():
            policy = _policy_named(name)
        constants = {
            field.name: Field(_constant, REQUIRED if field.default is dataclasses.MISSING else None, grid=True)
            for field in policy._constant_fields()
        }
        values = place.read(table, {"name": Field(_name, grid=True), **constants, "label": Field(_string, "")})
        given = {key: values[key] for key in constants if key in table}
        for point in _product(place, given):
            choice = PolicyChoice(policy, tuple(zip(given, point, strict=True)), values["label"][0])
            with place.blame():
                choice.make(0.1).for_rewards()
            yield choice


def _policy_named(name: str) -> type[Policy]:
    """The policy class with this name: one of posse's, or of a file that was imported."""
    known = [cls for cls in all_policies() if not cls.__name__.startswith("_")]
    found = [cls for cls in known if cls.__name__ == name]
    if not found:
        raise ValueError(f"name={name!r}, but expected one of {', '.join(sorted({cls.__name__ for cls in known}))}")
    if len(found) > 1:
        raise ValueError(f"name={name!r} is the name of policies in {' and '.join(cls.__module__ for cls in found)}")
    return found[0]


def _product(place: SpecLocation, values: Mapping[str, tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    points = math.prod(len(each) for each in values.values())
    if points > MAX_POINTS:
        raise place.error("", f"the lists make {points} combinations, but a study has at most {MAX_POINTS}")
    return list(itertools.product(*values.values()))
