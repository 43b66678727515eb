"""Settings: the columns of records that say in which one a run was, the settings of records, and settings in words."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from posse.text import plural, shorten

if TYPE_CHECKING:
    from posse.experiments.records import Records

SETTING = ("n_subpar", "players", "arms", "epsilon", "rewards", "horizon", "schedule", "anytime", "family")


def settings(records: "Records") -> "list[tuple[dict[str, Any], Records]]":
    """The records by setting: the columns that vary between settings with their values, and the rows.

    The number of subpar arms, |I_5ε|, is part of the setting if the spec asked for it, not if it merely varies between
    the problems of a family. The horizon is left out if the other columns already determine it, and ε if parameters of
    the family do.
    """
    columns = [column for column in SETTING if len(records.distinct(column)) > 1]
    determined = ("horizon", "epsilon") if "family" in columns else ("horizon",)
    for column in ("n_subpar", *determined):
        beside = ["policy", "problem", "replication", "seed"] if column == "n_subpar" else []
        rest = [other for other in columns if other != column]
        with_it, without_it = (set(records.rows(*names, *beside)) for names in (columns, rest))
        if column in columns and rest + beside and len(with_it) == len(without_it):
            columns = rest
    if not columns:
        return [({}, records)]
    words = family_words(records.distinct("family"))
    found = []
    for key, part in records.groups(*columns).items():
        setting = dict(zip(columns, key, strict=True))
        found.append((setting | ({"family": words[setting["family"]]} if "family" in setting else {}), part))
    return found


def family_text(described: Mapping[str, Any]) -> str:
    """A family of problems as records have it: its name and the parameters that have no column of their own, as JSON.

    >>> family_text({"family": "changing", "every": 500, "players": 20})
    '{"every": 500, "family": "changing"}'
    """
    own = {name: value for name, value in described.items() if name == "family" or name not in (*SETTING, "means")}
    return json.dumps(own, sort_keys=True)


def family_words(texts: Iterable[str | None]) -> dict[str | None, str]:
    """What tells families of records apart, in words: the parameters that differ; nothing for a family that is unknown.

    >>> family_words(['{"every": 500, "family": "changing"}', '{"every": 50, "family": "changing"}']).values()
    dict_values(['every = 500', 'every = 50'])
    """
    families: dict[str | None, dict[str, Any]] = {text: json.loads(text or "{}") for text in texts}
    names = dict.fromkeys(name for family in families.values() for name in family)
    differ = [name for name in names if len({json.dumps(each.get(name)) for each in families.values()}) > 1]
    return {
        text: ", ".join(f"{name} = {family[name]}" for name in differ if name in family)
        for text, family in families.items()
    }


SCHEDULES = (
    (r"Concurrent\(\)", "all players every round"),
    (r"Sequential\(order='turn'\)", "one player a round, in turn"),
    (r"Sequential\(order='random'\)", "one player a round, at random"),
    (r"Arrivals\(stay=True\)", "players arrive one after another"),
    (r"Arrivals\(stay=False\)", "players one after another, each alone"),
    (r"Late\(share=([0-9.e-]+), players=1\)", r"one player from share \1 of the rounds on"),
    (r"Random\(probability=([0-9.e-]+)\)", r"each player with chance \1"),
    (r"Zipf\(exponent=([0-9.e-]+)\)", r"player k with chance 1/k^\1"),
)


def feedback_columns(schedule: str) -> tuple[str, int, int]:
    """The schedule of a record alone, and when rewards come: after so many further rounds, and in batches of so many.

    >>> feedback_columns("Concurrent(); rewards 1,000 rounds late in batches of 5 rounds")
    ('Concurrent()', 1000, 5)
    >>> feedback_columns("Concurrent()")
    ('Concurrent()', 0, 1)
    """
    schedule, _, feedback = schedule.partition("; rewards ")
    found = (re.search(pattern, feedback) for pattern in (r"([0-9,]+) rounds? late", r"batches of ([0-9,]+) "))
    delay, batch = (match and int(match[1].replace(",", "")) for match in found)
    return schedule, delay or 0, batch or 1


def schedule_words(schedule: str) -> str:
    """A schedule in plain words.

    >>> schedule_words("Random(probability=0.5)")
    'each player with chance 0.5'
    """
    schedule, late, feedback = schedule.partition("; ")
    for pattern, words in SCHEDULES:
        if match := re.fullmatch(pattern, schedule):
            return match.expand(words) + late + feedback
    return shorten(schedule, 40) + late + feedback


def describe(setting: Mapping[str, Any], *, between: str = ", ") -> str:
    """A setting in a few words, for a title or a row of a table.

    >>> describe({"n_subpar": 8, "horizon": 50000})
    '8 subpar arms, T = 50,000'
    """
    words = {
        "n_subpar": lambda value: plural(value, "subpar arm"),
        "players": lambda value: f"M = {value}",
        "arms": lambda value: f"K = {value}",
        "epsilon": lambda value: f"ε = {value:g}",
        "rewards": lambda value: f"{value.removesuffix('()')} rewards",
        "horizon": lambda value: f"T = {value:,}",
        "schedule": schedule_words,
        "anytime": lambda value: "anytime" if value else "known horizon",
        "family": lambda value: value,
    }
    return between.join(words[column](value) for column, value in setting.items())
