"""What clients remember against what the database holds, read without the code under test."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from typing import Any

import psycopg
from traffic import Memory

from posse.decision import write_id


def rows(database: str, query: str) -> list[tuple[Any, ...]]:
    """The answer to a query."""
    if database.startswith("sqlite:///"):
        connection = sqlite3.connect(database.removeprefix("sqlite:///"))
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()
    with psycopg.connect(database) as opened:
        return opened.execute(query).fetchall()  # type: ignore[call-overload]


DECISIONS = """
    SELECT d.serial, d.tag, p.name, a.name, d.propensity, d.round FROM decisions d
    JOIN players p ON p.experiment = d.experiment AND p.place = d.player
    JOIN arms a ON a.experiment = d.experiment AND a.place = d.arm
"""
REWARDS = """
    SELECT d.serial, d.tag, r.reward FROM rewards r
    JOIN decisions d ON d.experiment = r.experiment AND d.serial = r.serial
"""


def differences(database: str, memories: Iterable[Memory]) -> list[str]:
    """All that is in the database and was not acknowledged, or was acknowledged and is not there; once each."""
    found: list[str] = []
    said: dict[str, Any] = {}
    given: dict[str, float] = {}
    for memory in memories:
        found += [f"two clients were given decision {one}" for one in said.keys() & memory.decisions.keys()]
        said |= memory.decisions
        given |= memory.rewards
    held = {write_id(row[0], row[1]): tuple(row[2:]) for row in rows(database, DECISIONS)}
    rewarded = [(write_id(serial, tag), reward) for serial, tag, reward in rows(database, REWARDS)]
    found += _compare("decision", said, held)
    found += [f"reward of {one} is there {times} times" for one, times in Counter(rewarded).items() if times > 1]
    found += _compare("reward", given, dict(rewarded))
    pulls, waiting = rows(database, "SELECT sum(pulls), sum(waiting) FROM stats")[0]
    if (pulls, waiting) != (len(given), len(said) - len(given)):
        found.append(f"stats count {pulls} rewards and {waiting} waiting of {len(given)} and {len(said) - len(given)}")
    return found


def _compare(kind: str, said: dict[str, Any], held: dict[str, Any]) -> list[str]:
    found = [f"{kind} {one} was acknowledged, and is lost" for one in said.keys() - held.keys()]
    found += [f"{kind} {one} is there, and nobody asked for it" for one in held.keys() - said.keys()]
    both = said.keys() & held.keys()
    return found + [f"{kind} {one} is {held[one]}, not {said[one]}" for one in both if held[one] != said[one]]
