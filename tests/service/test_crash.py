"""Processes are killed in the middle of their work: nothing acknowledged is lost, nothing counts twice.

The full form kills 1,000 workers on SQLite, 200 on PostgreSQL, and PostgreSQL itself 20 times; the short one, for
every day, 60, 30 and 3.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from cluster import cluster
from compared import differences, rows
from fleet import FULL, Fleet, fleet, needs_service, new_postgres_database, run_posse
from traffic import RECOVERY, Forgetful, Lossy, Memory, Watched, begin, customers

pytestmark = needs_service

CLIENTS = 4


def crash(
    database: str, folder: Path, strike: Callable[[Fleet, Random], None], times: int, transport: type[Watched] = Watched
) -> list[Memory]:
    """Let clients work while something strikes at random moments; what they remember, once all is quiet."""
    random = Random(times)
    with fleet(database, folder) as service:
        begin(service.url)
        with customers(service.url, CLIENTS, seed=times, transport=transport) as finish:
            _wait_for_work(database)
            for _ in range(times):
                time.sleep(random.uniform(0.0, 0.5))
                strike(service, random)
            time.sleep(1)
            memories = finish()
    print(_figures(memories, times))
    return memories


def _wait_for_work(database: str) -> None:
    while rows(database, "SELECT count(*) FROM rewards")[0][0] < 50:
        time.sleep(0.1)


def _figures(memories: list[Memory], times: int) -> str:
    decisions, rewards = (sum(len(getattr(each, kind)) for each in memories) for kind in ("decisions", "rewards"))
    interrupted, unavailable = (
        sum(getattr(each, kind) for each in memories) for kind in ("interrupted", "unavailable")
    )
    recovery, request = (max(getattr(each, f"slowest_{kind}") for each in memories) for kind in ("recovery", "request"))
    return (
        f"{times} kills, {interrupted} requests interrupted, {unavailable} answered 503; {decisions} decisions and "
        f"{rewards} rewards acknowledged; the slowest recovery took {recovery:.2f} s, a request at most {request:.2f} s"
    )


def kill_a_worker(service: Fleet, random: Random) -> None:
    """Any of them."""
    workers = service.workers()
    if workers:
        service.kill(random.choice(workers))


def nothing(service: Fleet, random: Random) -> None:
    """No blow at all."""


def check(database: str, memories: list[Memory]) -> None:
    """All that must hold after a crash."""
    assert [error for each in memories for error in each.errors] == []
    assert differences(database, memories) == []
    verified = run_posse("db", "verify", "--database", database)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert sum(each.interrupted + each.unavailable for each in memories) > 0, "no kill hit a request"
    assert max(each.slowest_recovery for each in memories) < RECOVERY


def test_killed_workers_lose_nothing_on_sqlite(tmp_path):
    database = f"sqlite:///{tmp_path}/posse.db"
    check(database, crash(database, tmp_path, kill_a_worker, 1000 if FULL else 25))


def test_killed_workers_lose_nothing_on_postgresql(tmp_path):
    with new_postgres_database() as database:
        check(database, crash(database, tmp_path, kill_a_worker, 200 if FULL else 12))


@pytest.fixture
def own_cluster() -> Iterator:
    with cluster() as made:
        yield made


def test_killing_postgresql_loses_nothing(tmp_path, own_cluster):
    def strike(service: Fleet, random: Random) -> None:
        time.sleep(1)
        own_cluster.kill()
        own_cluster.start()

    with new_postgres_database(own_cluster.url()) as database:
        check(database, crash(database, tmp_path, strike, 20 if FULL else 3))


@pytest.mark.parametrize("transport", [Lossy, Forgetful])
def test_answers_that_are_lost_do_no_harm_unless_a_client_repeats_without_its_key(tmp_path, transport):
    """With its control: what is repeated without its key happens twice, and the comparison sees it."""
    database = f"sqlite:///{tmp_path}/posse.db"
    memories = crash(database, tmp_path, nothing, 4, transport)
    if transport is Lossy:
        check(database, memories)
    else:
        assert any("nobody asked for it" in line for line in differences(database, memories))


def test_what_is_lost_would_be_caught(tmp_path):
    """The control: a single reward less in the database is seen, by the comparison and by `posse db verify`."""
    database = f"sqlite:///{tmp_path}/posse.db"
    memories = crash(database, tmp_path, nothing, 1)
    assert differences(database, memories) == []
    with contextlib.closing(connect(database)) as connection, connection:
        connection.execute("DELETE FROM rewards WHERE link = (SELECT max(link) FROM rewards)")
    assert any("is lost" in line for line in differences(database, memories))
    assert run_posse("db", "verify", "--database", database).returncode == 1


def connect(database: str):
    import sqlite3

    return sqlite3.connect(database.removeprefix("sqlite:///"))
