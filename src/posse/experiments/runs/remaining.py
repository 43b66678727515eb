"""What is still to be computed of a spec in a folder that has results, perhaps of an earlier form of it, and why.

A unit is a box of runs: some policies on some problems, replicated. A run does not depend on what else is in its box,
so a file of any study, with other policies, problems or replications, can hold some of the runs that a unit needs.
"""

import dataclasses
import functools
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from posse.experiments.runs.store import EARLIER, MANIFEST, ResultStore, Sources, StoreError, assembled, open_unit
from posse.experiments.spec.study import Unit
from posse.policies.base import Policy
from posse.text import listed, plural

NO_SETTING = ("schema", "study", "policies", "numbers", "replications", "means")  # of a unit's description
REASONS = 8  # that are shown
Problem = tuple[int, str]
"""A problem's number, and the digest of its means where they are given."""
Gaps = dict[int, tuple[int, int]]
"""By the number of a problem: the first replication that is missing, and the one past the last."""


@dataclasses.dataclass(frozen=True)
class Task:
    """A unit that has no file yet."""

    unit: Unit
    parts: list[Unit]  # what has to be simulated of it
    sources: Sources  # the files that hold the rest, and the contents of parts that are done

    def add(self, part: Unit, content: bytes) -> bool:
        """Add the content of a part, or of the same work of another study; whether it was the last one."""
        runs = itertools.product((policy.label for policy in part.policies), part.problems.numbers)
        self.sources[content] = {(label, problem): [label] for label, problem in runs}
        return sum(isinstance(source, bytes) for source in self.sources) == len(self.parts)

    def content(self) -> bytes:
        """The content of the unit's file, once all parts are done; asked for once."""
        content = assembled(self.unit, self.sources)
        self.sources.clear()  # nobody needs them any more
        return content


class HeldRuns:
    """The runs that are in the files of a folder."""

    def __init__(self, files: Sequence[tuple[Path, dict[str, Any]]]) -> None:
        self.units = [described for _, described in files]
        self.runs: dict[tuple[str, str, Problem], list[tuple[range, Path, str]]] = {}
        """By setting, policy and problem: the replications that a file has, the file, and the policy's label there."""
        for path, described in files:
            setting, held = _setting(described), range(*described["replications"])
            for policy, problem in itertools.product(described["policies"], _problems(described)):
                found = self.runs.setdefault((setting, _identity(policy), problem), [])
                found.append((held, path, policy["label"]))

    def find(self, described: dict[str, Any], policy: dict[str, Any]) -> tuple[list[tuple[Path, str, int]], Gaps]:
        """Where the runs of a unit's policy are: files, each with the policy's label there and a problem's number.

        And the runs that are in none of them.
        """
        setting, found, gaps = _setting(described), [], {}
        for problem in _problems(described):
            missing = set(range(*described["replications"]))
            for replications, path, label in self.runs.get((setting, _identity(policy), problem), ()):
                if not missing.isdisjoint(replications):
                    missing.difference_update(replications)
                    found.append((path, label, problem[0]))
            if missing:
                gaps[problem[0]] = min(missing), max(missing) + 1
        return found, gaps

    def why_missing(self, described: dict[str, Any], policy: dict[str, Any]) -> str:
        """Why runs of a unit's policy have to be simulated."""
        values, policies = self._known
        fields = dict(_fields(described))
        new = [f"{name} = {value}" for name, value in fields.items() if value not in values.get(name, ("null",))]
        if new:
            return f"{listed(new)} {'is' if len(new) == 1 else 'are'} new"
        there = policies.get(json.dumps(fields))
        if there is None:
            return "this combination of settings is new"
        if f"{described['schema']} {_identity(policy)}" in there:
            return "these problems or replications are new"
        known = _identity(policy, code=False) in there
        return "other code computed what is there" if known else "the policy is new here"

    @functools.cached_property
    def _known(self) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        """The values of each field of a setting, and the policies in each setting, with schema and code and without."""
        values: dict[str, set[str]] = {}
        policies: dict[str, set[str]] = {}
        for described in self.units:
            fields = dict(_fields(described))
            for name, value in fields.items():
                values.setdefault(name, set()).add(value)
            found = policies.setdefault(json.dumps(fields), set())
            for policy in described["policies"]:
                found |= {f"{described['schema']} {_identity(policy)}", _identity(policy, code=False)}
        return values, policies


class Remaining:
    """The units of a spec that have no file yet in a folder; as text, what is computed and why.

    A file that is damaged or somebody else's is not used. It is set aside if its name is needed.
    """

    def __init__(self, store: ResultStore, units: list[Unit]) -> None:
        self.store = store
        self.runs = sum(len(unit.policies) * unit.problems.count * len(range(*unit.replications)) for unit in units)
        self.notes: dict[Path, str] = {}  # on files that are not used
        own = {store.path(unit).name for unit in units}
        self.moves: dict[Path, Path] = {}  # files of this spec come to the front, others go to EARLIER
        files: dict[Path, dict[str, Any]] = {}
        for path in (*store.files(), *store.files(EARLIER)):
            try:
                described = open_unit(path)[0]
            except StoreError as error:
                self.notes[path] = str(error)
                continue
            place = store.folder / ("" if path.name in own else EARLIER) / path.name
            if place not in files:
                files[place] = described
                self.moves |= {} if place == path else {path: place}
        try:
            self.manifest = store.manifest()
        except StoreError as error:
            self.manifest = {}
            self.notes[store.folder / MANIFEST] = str(error)
        todo = [unit for unit in units if store.path(unit) not in files]
        self.planned = set(self.manifest.get("units", ()))
        needed = {store.folder / MANIFEST, *map(store.path, todo), *self.moves.values()}
        self.in_the_way = self.notes.keys() & needed
        self.reasons: Counter[tuple[str, str]] = Counter()  # how many runs, of which policies, for which reason
        self.grown, self.held = bool(files), HeldRuns(list(files.items()) if todo else [])
        self.tasks = [self._task(unit) for unit in todo]

    def _task(self, unit: Unit) -> Task:
        if not self.grown:
            return Task(unit, [unit], {})
        described = unit.describe()
        sources: Sources = {}
        missing: dict[tuple[Any, ...], list[Policy]] = {}  # policies, by the runs that they miss
        reasons: dict[str, list[str]] = {}  # the label of each run's policy, by reason
        known = "they were not done before" if unit.id in self.planned else ""
        known = "a file is damaged" if self.store.path(unit) in self.in_the_way else known
        for policy, shown in zip(unit.policies, described["policies"], strict=True):
            found, gaps = self.held.find(described, shown)
            for path, label, problem in found:
                sources.setdefault(path, {}).setdefault((label, problem), []).append(policy.label)
            if gaps:
                missing.setdefault(tuple(gaps.items()), []).append(policy)
                runs = sum(last - first for first, last in gaps.values())
                why = known or self.held.why_missing(described, shown)
                reasons.setdefault(why, []).extend([policy.label] * runs)
        for why, labels in reasons.items():
            of = "" if len(set(labels)) == len(unit.policies) else f" of {listed(dict.fromkeys(labels))}"
            self.reasons[of, why] += len(labels)
        return Task(unit, [part for gaps, some in missing.items() for part in _parts(unit, some, dict(gaps))], sources)

    def make_room(self) -> None:
        """Rename the files whose names are needed, and move others to their places."""
        for path in self.in_the_way:
            self.notes[path] += f": set aside as {self.store.set_aside(path)}"
        for path, place in self.moves.items():
            place.parent.mkdir(exist_ok=True)
            path.replace(place)

    def __str__(self) -> str:
        lines = [note if path in self.in_the_way else f"{note}: not used" for path, note in self.notes.items()]
        missing = sum(self.reasons.values())
        if self.grown:
            lines.append(f"{self.runs - missing:,} of {plural(self.runs, 'run')} are there already")
        shown = [f"computed: {plural(runs, 'run')}{of}, because {why}" for (of, why), runs in self.reasons.items()]
        more = [f"and {plural(len(shown) - REASONS, 'more reason')}"] if len(shown) > REASONS else []
        return "\n".join([*lines, *shown[:REASONS], *more])


def _parts(unit: Unit, policies: list[Policy], gaps: Gaps) -> Iterator[Unit]:
    """The runs that some policies of a unit miss, as units of their own."""
    places = {number: place for place, number in enumerate(gaps)}  # consecutive numbers are as far from their places
    for (replications, _), group in itertools.groupby(gaps, lambda number: (gaps[number], number - places[number])):
        first, *others = group
        problems = unit.problems.part(first, first + len(others) + 1)
        yield dataclasses.replace(unit, policies=tuple(policies), problems=problems, replications=replications)


def _setting(described: dict[str, Any]) -> str:
    """What all runs of a unit have in common, apart from the name of the study."""
    return json.dumps([described["schema"], dict(_fields(described))])


def _fields(described: dict[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """The fields of a unit's setting as a spec names them, in order, with their values as text."""
    for name, value in sorted(described.items()):
        if name == "problems":
            yield from _fields(value, "problems.")
        elif name not in NO_SETTING:
            yield before + name, value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _problems(described: dict[str, Any]) -> list[Problem]:
    numbers = range(*described["numbers"])
    return list(zip(numbers, described["problems"].get("means") or [""] * len(numbers), strict=True))


def _identity(policy: dict[str, Any], *, code: bool = True) -> str:
    """A policy apart from its label; older versions of posse described the code otherwise, or not at all."""
    wanted = ("class", "constants", "forget", *(["code"] if code else []))
    return json.dumps([policy.get(name) for name in wanted])
