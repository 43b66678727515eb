"""Read a spec from a TOML file.

A list is a grid: `n_subpar = [0, 5, 8]` runs all three, and several lists run every combination. The commented example
that `posse init` writes (shipped/example.toml) shows every field.
"""

import dataclasses
import inspect
import itertools
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from posse.checks import did_you_mean, number, whole
from posse.experiments.spec.fields import MAX_POINTS, REQUIRED, Check, Field, Keys, SpecError, SpecTable, line_of
from posse.experiments.spec.mean_tables import csv_texts, read_files, read_means
from posse.experiments.spec.study import GIVEN, OWN, PolicyChoice, ProblemSet, Spec, Study, Table
from posse.generate import FAMILIES, default_players
from posse.mean_table import MAX_PAIRS, Names
from posse.policies.base import LONGEST, Policy, all_policies
from posse.policies.statistics import STEPS
from posse.problem import check_epsilon
from posse.rewards import Bernoulli, Beta, Jackpot, OneNoisy, family
from posse.schedule import Arrivals, Concurrent, Late, Random, Sequential, Zipf
from posse.simulation.feedback import AT_ONCE, Feedback
from posse.simulation.work import MAX_PLAYER_ROUNDS

MAX_UNITS = 100_000


def load(path: str | Path) -> Spec:
    """Read a spec from a file; files that it names are looked for beside it."""
    path = Path(path)
    if path.is_dir():
        raise SpecError(
            f"{path} is a folder, but expected a spec file; `posse.experiments.read` reads a folder's results"
        )
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}; `posse init {path.name}` writes an example") from None
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

    def find(keys: Keys) -> int | None:
        inherited = len(keys) > 2 and keys[0] == "study" and keys[2] not in document["study"][keys[1]]
        return line_of(text, ("defaults", *keys[2:]) if inherited else keys)

    top = SpecTable(document, find)
    values = top.read(TOP_FIELDS)
    studies: list[Study] = []
    files: dict[str, str] = {}
    units = 0
    for position, entry in enumerate(top.tables("study")):
        name = entry.get("name", position + 1)
        table = top.inner({**values["defaults"], **entry}, "study", position, what=f"study {name!r}")
        study = _read_study(table, Path(folder))
        if study.name in [other.name for other in studies]:
            raise table.error("name", f"name={study.name!r}, but another study has that name; each needs its own")
        with table.blame():
            for unit in itertools.islice(study.units(values["seed"]), MAX_UNITS + 1 - units):
                units += 1
                _check_feedback(unit.feedback, unit.horizon)
            if units > MAX_UNITS:
                raise ValueError(f"more than {MAX_UNITS:,} units of work; make the grid, count or horizon smaller")
        studies.append(study)
        files |= csv_texts(table.values["problems"].get("file", []), Path(folder))
    return Spec(values["title"], values["seed"], tuple(studies), text, tuple(files.items()))


def _check_feedback(feedback: Feedback, horizon: int) -> None:
    """Refuse late rewards of which none is known at any decision."""
    first = math.ceil((1 + feedback.delay) / feedback.batch) * feedback.batch
    if feedback != AT_ONCE and first >= horizon:
        raise ValueError(f"feedback={feedback}, but horizon={horizon}: no reward arrives before the end")


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


def _one_of(
    words: Mapping[str, Any], tables: Mapping[str, Callable[[Any], Any]] | None = None, example: float = 0.5
) -> Check:
    """One of some words, or a table with one key, such as { random = 0.5 }; the value is what they stand for."""
    makers = tables or {}

    def check(name: str, value: Any) -> Any:
        if isinstance(value, str) and value in words:
            return words[value]
        if isinstance(value, dict) and len(value) == 1 and makers.keys() >= value.keys():
            ((key, inner),) = value.items()
            return makers[key](inner)
        allowed = [*map(repr, words), *(f"{{ {key} = {example} }}" for key in makers)]
        given = next(iter(value), "") if isinstance(value, dict) else str(value)
        hint = did_you_mean(given, [*words, *makers])
        raise ValueError(f"{name}={value!r}{hint}, but expected {' or '.join(allowed)}")

    return check


def _share(name: str, value: Any) -> float:
    return number(name, value, least=0, most=1)


def _list_of(check: Check, expected: str) -> Check:
    return lambda name, value: tuple(check(name, each) for each in _of_type(list, expected)(name, value))


_schedule = _one_of(
    {
        "concurrent": Concurrent(),
        "sequential": Sequential(),
        "sequential-random": Sequential("random"),
        "arrivals": Arrivals(),
        "relay": Arrivals(stay=False),
    },
    {"random": Random, "late": Late, "zipf": Zipf},
)
_feedback = _one_of({"at-once": AT_ONCE}, {"delay": Feedback, "batch": lambda value: Feedback(batch=value)}, 100)
_rewards = _one_of(
    {word: family(word) for word in ("bernoulli", "uniform", "deterministic")},
    {
        "beta": lambda value: Beta(number("beta", value, above=0)),
        "one_noisy": lambda value: OneNoisy(number("one_noisy", value, above=0)),
        "jackpot": lambda value: Jackpot(number("jackpot", value, least=0, most=0.999)),
    },
)


def _constant(name: str, value: Any) -> float | str:
    if name not in ("epsilon", "spread") or not isinstance(value, str):
        return number(name, value)
    if value != OWN:
        hint = did_you_mean(value, [OWN])
        raise ValueError(f'{name}={value!r}{hint}, but expected a number or "problem", for the problem\'s own')
    return OWN


TOP_FIELDS = {
    "title": Field(_string, ""),
    "seed": Field(_whole(0, 2**128 - 1), 0),
    "defaults": Field(_defaults, {}),
    "study": Field(default=()),
}
STUDY_FIELDS = {
    "name": Field(_name),
    "tags": Field(_list_of(_name, "a list of texts"), (), listed=True),
    "horizon": Field(_whole(1, MAX_PLAYER_ROUNDS), (), grid=True),
    "turns": Field(_whole(1, MAX_PLAYER_ROUNDS), (), grid=True),
    "replications": Field(_whole(1, 1_000_000), 1),
    "checkpoints": Field(_whole(1, 10_000), 200),
    "anytime": Field(_of_type(bool, "true or false"), (False,), grid=True),
    "schedule": Field(_schedule, (Concurrent(),), grid=True),
    "told": Field(lambda name, value: number(name, value, above=0, most=1e6), 1.0),
    "knows_groups": Field(_of_type(bool, "true or false"), False),
    "blind": Field(_of_type(bool, "true or false"), False),
    "feedback": Field(_feedback, (AT_ONCE,), grid=True),
    "problems": Field(_of_type(dict, "a table, [study.problems]")),
    "policies": Field(),
    "extra_policies": Field(default=()),
}
WITHIN = {"delay": "feedback", "batch": "feedback", "random": "schedule", "late": "schedule", "zipf": "schedule"}
"""Keys of tables that are values of a study's fields, and these fields."""
GIVEN_FIELDS = {"epsilon": Field(_share, (None,), grid=True), "rewards": Field(_rewards, (Bernoulli(),), grid=True)}
FAMILY = Field(_one_of({name: name for name in FAMILIES}))
PARAMETER_CHECKS = {
    "int": _whole(0, MAX_PAIRS),
    "float": lambda name, value: number(name, value, least=0),
    "str": _string,
    "Family | str": _rewards,
    "Sequence[float]": _list_of(_share, "a list of numbers"),
    "Mapping[str, Any]": _of_type(dict, "a table, such as { region = 4 }"),
    "float | Mapping[str, float]": lambda name, value: value if isinstance(value, dict) else _share(name, value),
}
POLICY_NAME = Field(_name, grid=True)


def _family_fields(family: str) -> dict[str, Field]:
    """The parameters of a family's generator as fields, with a grid unless they are lists or tables themselves.

    The generator checks their limits.
    """
    generator: Any = FAMILIES[family]
    fields = {"count": Field(_whole(1, 1_000_000), 1)}
    for name, each in inspect.signature(generator).parameters.items():
        if name not in ("count", "seed"):
            kind = each.annotation.removesuffix(" | None")
            listed = kind.startswith("Sequence")
            grid = not listed and not kind.startswith("Mapping")
            default = REQUIRED if each.default is each.empty else (each.default,) if grid else each.default
            fields[name] = Field(PARAMETER_CHECKS[kind], default, grid=grid, listed=listed)
    return fields


def _read_study(table: SpecTable, folder: Path) -> Study:
    for key in table.values:
        if key in WITHIN:
            told = table.values[key]
            raise table.error(key, f"{key} is not a field here (did you mean {WITHIN[key]} = {{ {key} = {told} }}?)")
    values = table.read(STUDY_FIELDS)
    if ("horizon" in table.values) == ("turns" in table.values):
        raise table.error("horizon", "horizon is missing (or turns, how often a player acts); give exactly one of them")
    problems = table.inner(values.pop("problems"), "problems", what="problems")
    choices = []
    for key, what in (("policies", "policy"), ("extra_policies", "extra policy")):
        for place, given in enumerate(table.tables(key) if values.pop(key) != () else ()):
            policy = table.inner(given, key, place, what=f"{what} {place + 1}")
            choices += [(policy, choice) for choice in _read_policy(policy)]
    study = Study(
        problems=tuple(_read_problems(problems, folder)),
        policies=tuple(choice for _, choice in choices),
        horizons=values.pop("horizon"),
        schedules=values.pop("schedule"),
        **values,
    )
    if study.settings > MAX_POINTS:
        raise table.error("name", f"the lists make {study.settings} combinations, but a study has at most {MAX_POINTS}")
    if study.told != 1 and True in study.anytime:
        raise table.error("told", f"told={study.told:g} with anytime=true, but then policies are told no horizon")
    if study.knows_groups and study.schedules != (Concurrent(),):
        raise table.error("schedule", "knows_groups=true, but then every player must act in every round")
    for grouped in study.problems if study.knows_groups else ():
        with table.blame():
            if len(grouped.part(0, 1).make(0)[0].by_group()) == 1:
                raise ValueError("knows_groups=true, but the problems have only one group of players")
    if study.blind and not all(problems.parameters.get("attributes") for problems in study.problems):
        raise table.error("blind", "blind=true, but the problems have no attributes")
    for own in {tuple(own.items()) for problems in study.problems for _, own in problems.alike()}:
        labels = set(study.variants.values())
        for policy, choice in choices:
            with policy.blame():
                label = choice.make(dict(own)).label
                if label in labels:
                    raise ValueError(f"label={label!r} is the label of two policies; give each a label of its own")
            labels.add(label)
    return study


def _read_problems(table: SpecTable, folder: Path) -> Iterator[ProblemSet]:
    sources = [key for key in ("family", "means", "file") if key in table.values]
    if len(sources) != 1:
        key = sources[-1] if sources else "family"
        raise table.error(key, "expected exactly one of family, means and file to say what problems")
    (source,) = sources
    given: Any = table.values[source]
    tables: tuple[Table, ...] = ()
    names: list[Names] = []
    fields = _family_fields(table.get("family", FAMILY)) if source == "family" else GIVEN_FIELDS
    values = table.read({source: Field(), **fields})
    if source != "family":
        try:
            tables, names = (read_means(given), []) if source == "means" else read_files(given, folder)
            if not tables:
                raise ValueError("no problem in it; expected at least one table of means")
        except (ValueError, TypeError, OverflowError) as error:
            raise table.error(source, f"{source}: {error}") from None
    whole_values = {key: values[key] for key, field in fields.items() if not (field.grid or key == "count")}
    for point in table.product({key: values[key] for key, field in fields.items() if field.grid}):
        parameters = point | whole_values
        if "players" in parameters and parameters["players"] is None:
            with table.blame():
                parameters["players"] = default_players(parameters["attributes"])
        problems = ProblemSet(GIVEN if tables else given, len(tables) or values["count"], parameters, tables)
        pairs = problems.players * problems.arms
        if pairs > MAX_PAIRS:
            raise table.error("players", f"players × arms = {pairs}, but at most {MAX_PAIRS} can be simulated")
        with table.blame():
            for means, named in zip(tables, names, strict=False):  # those of a spec have no names
                check_epsilon(np.array(means), parameters["epsilon"], *named)
            problems.part(0, len(tables) or 1).make(0)
        yield problems


def _read_policy(table: SpecTable) -> Iterator[PolicyChoice]:
    for name in table.get("name", POLICY_NAME):
        with table.blame():
            policy = _policy_named(name)
        constants = {
            field.name: Field(
                _constant,
                REQUIRED if field.default is dataclasses.MISSING else None,
                grid=True,
                example=f'{field.name} = 0.1, or {field.name} = "problem" for the problem\'s own'
                if field.name in ("epsilon", "spread")
                else "",
            )
            for field in policy._constant_fields()
        }
        constants["forget"] = Field(_whole(STEPS, LONGEST), None, grid=True)
        values = table.read({"name": POLICY_NAME, **constants, "label": Field(_string, "")})
        for point in table.product({key: values[key] for key in constants if key in table.values}):
            choice = PolicyChoice(policy, tuple(point.items()), values["label"])
            with table.blame():
                choice.make({"epsilon": 0.1, "spread": 0.1}).for_rewards()
            yield choice


def _policy_named(name: str) -> type[Policy]:
    """The policy class with this name: one of posse's, or of a file that was imported."""
    known = [cls for cls in all_policies() if not cls.__name__.startswith("_")]
    found = [cls for cls in known if cls.__name__ == name]
    if not found:
        names = sorted({cls.__name__ for cls in known})
        own = "; --import FILE.py adds policies of your own"
        raise ValueError(f"name={name!r}{did_you_mean(name, names)}, but expected one of {', '.join(names)}{own}")
    if len(found) > 1:
        raise ValueError(f"name={name!r} is the name of policies in {' and '.join(cls.__module__ for cls in found)}")
    return found[0]
