"""How the kernels call a policy: small functions made from its declaration, which pass on what its functions name.

A kernel keeps statistics in tables, `table[statistic][pair]`, and calls `index_of` with tuples of numbers. What is made
here knows which place each name has, so that kernels list no fields.
"""

from __future__ import annotations

import functools
import hashlib
import linecache
from collections.abc import Callable, Sequence
from typing import Any

from posse.policies.base import Law, Policy
from posse.policies.refresh import Refresh
from posse.policies.statistics import Statistic


def class_of(policy: Policy) -> Any:
    """The policy's class, by which everything compiled is cached."""
    return type(policy)


def used_statistics(cls: type[Policy]) -> tuple[Statistic, ...]:
    """The statistics that the policy's functions name; count and sum, which everything is measured by, always."""
    functions = ("index", "belief", "contribution", "summary")
    named = {"n", "s"}.union(*(cls.named_by(function) for function in functions))
    return tuple(statistic for statistic in cls.statistics if statistic.name in named)


@functools.cache
def bindings(cls: Any, statistics: tuple[Statistic, ...]) -> dict[str, Any]:
    """What a policy class provides for the names that kernels leave open, for tables of these statistics."""
    names = [statistic.name for statistic in statistics]
    numbers = {name: f"own[{place}]" for place, name in enumerate(names)}
    numbers |= {name: f"shared[{place}]" for place, name in enumerate(cls.shared)}
    numbers |= {name: f"of_player[{place}]" for place, name in enumerate(cls.of_player)}
    constants = {name: f"constants[{place}]" for place, name in enumerate(cls.constant_names())}
    numbers |= {"M": "M", "log_T": "log_T"} | constants
    tables = {name: f"statistics[{place}]" for place, name in enumerate(names)}
    tables |= {name: name for name in ("of_arm", "of_player", "work")} | constants
    indexed = "own, shared, of_player, M, log_T, constants"
    contribution, summary = cls.contribution, cls.summary
    return {
        "RANDOMISED": cls.randomised,
        "BETA": cls.law is Law.BETA,
        "SHARES": cls.shares,
        "SUMS": contribution is None and summary is None,
        "SCHEDULED": cls.refresh is Refresh.SCHEDULE,
        "AT_OWN_PULL": cls.refresh is Refresh.OWN_PULL,
        "index_of": _call(cls, "index", indexed, numbers),
        "belief_of": _call(cls, "belief" if cls.belief else "index", indexed, numbers),
        "contribution_of": _call(cls, "contribution", "own, constants", numbers) if contribution else _sums,
        "fill_summary": _call(cls, "summary", "statistics, of_arm, of_player, work, constants", tables)
        if summary
        else _no_summary,
        "raised": _raised(cls, numbers),
        "remember": _remember(statistics),
        "copy_own": made_function("target, source, pair", _copies(cls, names), {}),
        "own_of": made_function("table, pair", _tuple(_scaled(statistics, "table[{}][pair]")), {}),
        "shared_of": made_function(
            "of_arm, arm", _tuple([f"of_arm[arm, {place}]" for place in range(len(cls.shared))]), {}
        ),
        "player_of": made_function(
            "rows, player", _tuple([f"rows[player, {k}]" for k in range(len(cls.of_player))]), {}
        ),
        "NOTHING": (0.0,) * max(len(cls.shared), 1),
        "added": made_function(
            "one, other", _tuple([f"one[{place}] + other[{place}]" for place in range(len(cls.shared))]), {}
        ),
        "put_numbers": _put(len(cls.shared), "table[{}][pair]", "table, pair"),
        "put_shared": _put(len(cls.shared), "of_arm[arm, {}]", "of_arm, arm"),
        "numbers_at": made_function("table, pair", _tuple([f"table[{k}][pair]" for k in range(len(cls.shared))]), {}),
    }


def _call(cls: type[Policy], function: str, parameters: str, places: dict[str, str]) -> Callable[..., Any]:
    """A function of these parameters that calls one of the policy's with what it names."""
    given = ", ".join(places[name] for name in cls.named_by(function))
    return made_function(parameters, f"{function}({given})", {function: getattr(cls, function)})


def _raised(cls: type[Policy], numbers: dict[str, str]) -> Callable[..., Any]:
    """The shared numbers as they were if the others had earned `by` more at every pull; with `n` = 0, everybody."""
    values = [f"shared[{place}]" for place in range(len(cls.shared))]
    if cls.shares:
        weight = ", ".join("n" if name == "n" else numbers[name] for name in cls.named_by("others_weight"))
        values[cls.shared.index(cls.moved_by_others)] += f" + by * others_weight({weight})"
    return made_function("n, shared, constants, by", _tuple(values), {"others_weight": cls.others_weight})


def _remember(statistics: tuple[Statistic, ...]) -> Callable[..., None]:
    """A function that takes one reward into a table of statistics."""
    scope = {f"update_{statistic.name}": statistic.update for statistic in statistics}
    new = ", ".join(
        f"update_{statistic.name}(table[{place}][pair], reward)" for place, statistic in enumerate(statistics)
    )
    cells = ", ".join(f"table[{place}][pair]" for place in range(len(statistics)))
    return made_function("table, pair, reward", [f"{cells} = {new}"], scope)


def _copies(cls: type[Policy], statistics: list[str]) -> list[str]:
    """Lines that copy the statistics which the policy's index takes."""
    taken = {"n", "s", *cls.named_by("index"), *cls.named_by("belief")}
    cells = [f"[{place}][pair]" for place, name in enumerate(statistics) if name in taken]
    return [f"target{cell} = source{cell}" for cell in cells]


def _put(count: int, cell: str, parameters: str) -> Callable[..., None]:
    """A function that writes so many numbers into these cells."""
    lines = [f"{cell.format(place)} = values[{place}]" for place in range(count)]
    return made_function(f"{parameters}, values", lines or ["pass"], {})


def _scaled(statistics: Sequence[Statistic], cell: str) -> list[str]:
    return [f"{cell.format(place)} * {statistic.unit!r}" for place, statistic in enumerate(statistics)]


def _tuple(values: list[str]) -> str:
    return f"({', '.join(values or ['0.0'])},)"  # never empty, which a GPU could not take


def made_function(parameters: str, body: str | list[str], scope: dict[str, Any]) -> Callable[..., Any]:
    """A function that returns this expression, or has these lines.

    The text is kept where Python looks for source, for tracebacks and digests.
    """
    lines = [f"return {body}"] if isinstance(body, str) else body
    text = "\n    ".join([f"def made({parameters}):", *lines]) + "\n"
    name = f"<posse {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    whole = {"__name__": __name__, **scope}
    exec(compile(text, name, "exec"), whole)
    made: Callable[..., Any] = whole["made"]
    return made


def _sums(own, constants):
    """What a player adds where the policy says nothing of it: its count and sum."""
    return own[0], own[1]


def _no_summary(statistics, of_arm, of_player, work, constants):
    """For policies without a summary."""
