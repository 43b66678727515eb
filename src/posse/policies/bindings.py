"""How the kernels call a policy: small functions made from its declaration, which pass on what its functions name.

A kernel keeps statistics in tables, [statistic, arm, player], and calls `index_of` with tuples of numbers. What is made
here knows which place each name has, so that kernels list no fields.
"""

import functools
import hashlib
import linecache
from collections.abc import Callable, Sequence
from typing import Any

from posse.policies.base import Law, Policy, together
from posse.policies.refresh import Refresh
from posse.policies.statistics import KEPT, WHOLE, Statistic, part_of


def class_of(policy: Policy) -> Any:
    """The policy's class, by which everything compiled is cached."""
    return type(policy)


def used_statistics(cls: type[Policy]) -> tuple[Statistic, ...]:
    """The statistics that the policy's functions name; count and sum, which everything is measured by, always."""
    functions = ("index", "belief", "contribution", "summary")
    named = {"n", "s"}.union(*(cls.named_by(function) for function in functions))
    return tuple(statistic for statistic in cls.statistics if statistic.name in named)


CELL = "table[{}, pair[0], pair[1]]"
FLAT_CELL = "table[{}][pair]"  # on a GPU, where a table is a tuple of flat arrays


@functools.cache
def bindings(cls: Any, statistics: tuple[Statistic, ...], cell: str = CELL, lane: str = "lane") -> dict[str, Any]:
    """What a policy class provides for the names of `posse.policies.bound`, for tables of these statistics.

    `cell` is where a table has a pair's number, with {} for the place of the number; `lane` is what a summary
    takes for the lane.
    """
    names = [statistic.name for statistic in statistics]
    constants = _places("constants[{}]", cls.constant_names())
    numbers = _places("own[{}]", names) | _places("shared[{}]", cls.shared) | _places("of_player[{}]", cls.of_player)
    numbers |= _places("expected[{}]", cls.of_pair) | {"M": "M", "K": "K", "log_T": "log_T"} | constants
    of_state = ("of_arm", "of_player", "of_pair", "of_value", "columns", "weights", "part_of", "work")
    tables = _places("state.statistics[{}]", names) | {name: f"state.{name}" for name in of_state}
    tables |= {"log_T": "log_T", "player": "player", "lane": lane} | constants
    indexed = "own, shared, of_player, expected, M, K, log_T, constants"
    cells = [cell.format(place) for place in range(max(len(names), len(cls.shared), len(cls.of_pair)))]
    updates = [f"update_{name}({cell}, reward)" for name, cell in zip(names, cells, strict=False)]
    in_units = [f"{cell} * {statistic.unit!r}" for cell, statistic in zip(cells, statistics, strict=False)]
    shared = range(len(cls.shared))
    return {
        "RANDOMISED": cls.randomised,
        "BETA": cls.law is Law.BETA,
        "IMED": cls.law is Law.IMED,
        "UNTRIED": cls.untried,
        "SHARES": cls.shares,
        "SUMS": cls.contribution is None and cls.summary is None,
        "SCHEDULED": cls.refresh is Refresh.SCHEDULE,
        "AT_OWN_PULL": cls.refresh is Refresh.OWN_PULL,
        "NOTHING": (0.0,) * max(len(shared), 1),
        "index_of": _call(cls, "index", indexed, numbers),
        "belief_of": _call(cls, "belief" if cls.belief else "index", indexed, numbers),
        "contribution_of": _call(cls, "contribution", "own, constants", numbers) if cls.contribution else _sums,
        "WELCOMES": cls.welcome is not None,
        "fill_summary": _call(cls, "summary", "state, log_T, constants, lane", tables) if cls.summary else _no_summary,
        "SHARED_SUMMARY": "lane" in cls.named_by("summary"),
        "greet": _call(cls, "welcome", "state, player, log_T, constants", tables) if cls.welcome else _no_welcome,
        "raised": _raised(cls, numbers),
        "remember": made_function(
            "table, pair, reward",
            [f"{', '.join(cells[: len(names)])} = {', '.join(updates)}"],
            **{f"update_{statistic.name}": statistic.update for statistic in statistics},
        ),
        "fade_own": made_function(
            "table, pair, turn",
            [
                f"n = {cells[0]}",
                "kept = (n * KEPT + turn * EIGHTH + EIGHTH // 2) // WHOLE",
                *(f"{cell} = part_of({cell}, kept, n)" for cell in cells[: len(names)]),
            ],
            part_of=part_of,
            KEPT=KEPT,
            EIGHTH=WHOLE // 8,
            WHOLE=WHOLE,
        ),
        "copy_own": made_function("target, table, pair", _copies(cls, names, cells)),
        "own_of": made_function("table, pair", _tuple(in_units)),
        "expected_at": made_function("table, pair", _tuple(cells[: len(cls.of_pair)])),
        "numbers_at": made_function("table, pair", _tuple(cells[: len(shared)])),
        "put_numbers": made_function("table, pair, values", _writes(cells[: len(shared)])),
        "shared_of": made_function("of_arm, arm", _tuple([f"of_arm[arm, {place}]" for place in shared])),
        "put_shared": made_function("of_arm, arm, values", _writes([f"of_arm[arm, {place}]" for place in shared])),
        "added": made_function("one, other", _tuple([f"one[{place}] + other[{place}]" for place in shared])),
        "player_of": made_function(
            "of_player, player", _tuple([f"of_player[player, {place}]" for place in range(len(cls.of_player))])
        ),
    }


def _places(cell: str, names: Sequence[str]) -> dict[str, str]:
    """How a kernel writes each of these names; those given by `several` also as one tuple."""
    tuples = {name: _tuple([cell.format(place) for place in places]) for name, places in together(tuple(names)).items()}
    return tuples | {name: cell.format(place) for place, name in enumerate(names)}


def _call(cls: type[Policy], function: str, parameters: str, places: dict[str, str]) -> Callable[..., Any]:
    """A function of these parameters that calls one of the policy's with what it names."""
    given = ", ".join(places[name] for name in cls.named_by(function))
    return made_function(parameters, f"{function}({given})", **{function: getattr(cls, function)})


def _raised(cls: type[Policy], numbers: dict[str, str]) -> Callable[..., Any]:
    """Shared and expected numbers as they were if the others had earned `by` more at every pull.

    With `n` = 0 it is everybody.
    """
    shared = [f"shared[{place}]" for place in range(len(cls.shared))]
    expected = [f"expected[{place}]" for place in range(len(cls.of_pair))]
    if cls.shares:
        weight = ", ".join("n" if name == "n" else numbers[name] for name in cls.named_by("others_weight"))
        moved, names = (expected, cls.of_pair) if cls.moved_by_others in cls.of_pair else (shared, cls.shared)
        for place in together(names).get(cls.moved_by_others) or [names.index(cls.moved_by_others)]:
            moved[place] += f" + by * others_weight({weight})"
    body = f"{_tuple(shared)}, {_tuple(expected)}"
    return made_function("n, shared, expected, constants, by", body, others_weight=cls.others_weight)


def _copies(cls: type[Policy], statistics: list[str], cells: list[str]) -> list[str]:
    """Lines that copy the statistics which the policy's index takes."""
    taken = {"n", "s", *cls.named_by("index"), *cls.named_by("belief")}
    copied = [cell for name, cell in zip(statistics, cells, strict=False) if name in taken]
    return [f"{cell.replace('table', 'target')} = {cell}" for cell in copied]


def _writes(cells: list[str]) -> list[str]:
    """Lines that write values into these cells."""
    return [f"{cell} = values[{place}]" for place, cell in enumerate(cells)] or ["pass"]


def _tuple(values: list[str]) -> str:
    return f"({', '.join(values or ['0.0'])},)"  # never empty, which a GPU could not take


def made_function(parameters: str, body: str | list[str], **scope: Any) -> Callable[..., Any]:
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


def _no_summary(state, log_T, constants, lane):
    """For policies without a summary."""


def _no_welcome(state, player, log_T, constants):
    """For policies that make a summary when somebody joins."""
