"""Stores for the tests, on both databases, and a learner beside one to compare with."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

import psycopg
import pytest

import posse
from posse.service.admin.verify import verify
from posse.service.commands import Change, Choose, Create, Observe
from posse.service.storage import queries
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import Command, Transaction, commit
from posse.service.writer import Submission, Writer

POSTGRES = os.environ.get("POSSE_POSTGRES_URL")
BACKENDS = ["sqlite", "postgresql"]
ARMS = ["tea", "coffee", "cocoa"]
SHOPS = ["north", "south", "east"]


class Call(NamedTuple):
    """A command that calls a function with the transaction."""

    function: Callable[[Transaction], Any]
    experiment: str | None = None

    def apply(self, transaction: Transaction) -> Any:
        return self.function(transaction)


class Answer(Future):
    """The result of a command for a thread that waits, where the app awaits it in its event loop."""

    def get_loop(self):
        return self

    def call_soon_threadsafe(self, function, *given):
        function(*given)


def submit(writer: Writer, command: Command) -> Answer:
    """Have a writer apply a command; its result comes once it is durable, or `Refused`."""
    answer = Answer()
    writer.add(Submission(command, answer))
    return answer


class Clock:
    """A clock that the test sets."""

    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now


@contextlib.contextmanager
def database(backend, folder):
    """The address of an empty database."""
    if backend == "sqlite":
        yield f"sqlite:///{folder / 'posse.db'}"
        return
    if POSTGRES is None:
        pytest.skip("no PostgreSQL: POSSE_POSTGRES_URL names one, and `make test-service` starts one")
    schema = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        try:
            join = "&" if "?" in POSTGRES else "?"
            yield f"{POSTGRES}{join}options=-csearch_path%3D{schema}%20-csynchronous_commit%3Doff"
        finally:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")


@contextlib.contextmanager
def stores(backend, folder, count=1, clock=None):
    """So many stores on one new database, as if each were a worker of its own."""
    with database(backend, folder) as url:
        clock = clock or Clock()
        opened = [ServiceStore(url, create=True, clock=clock)]
        opened += [ServiceStore(url, clock=clock) for _ in range(count - 1)]
        try:
            yield opened
        finally:
            for store in opened:
                store.close()


def new(store, policy=None, name="teas", **options):
    """An experiment with three shops and three arms."""
    options = {"arms": ARMS, "players": SHOPS, "seed": 3, **options}
    return commit(store, Create(name, policy or posse.RobustAggTS(0.1), **options))


def counts(store, name):
    """Pulls and reward sums of each (player, arm)."""
    return store.read(queries.live_experiment, name).state.counts()


def indices(store, name):
    """What the next decision of each player would rest on."""
    return queries.indices(store.read(queries.live_experiment, name).state)


def answered(store, name="teas", player="north", reward=1.0):
    """A decision with its reward."""
    decision = commit(store, Choose(name, [player]))[0]
    assert [outcome.status for outcome in commit(store, Observe(name, [(decision.id, reward)]))] == ["taken"]
    return decision


@contextlib.contextmanager
def workers(backend, folder):
    """Two workers on one database with an experiment, and their clock."""
    with stores(backend, folder, 2, clock := Clock()) as (one, other):
        new(one)
        yield one, other, clock
        assert verify(one) == []


def go(store, *statuses, name="teas", **more):
    """Lead an experiment through these; `more` goes with the first."""
    for status in statuses:
        made = commit(store, Change(name, status=status, **more))
        more = {}
    return made


def again(store):
    """Another worker, which holds nothing in memory."""
    url = store.engine.url.render_as_string(hide_password=False).replace("+psycopg", "")
    return ServiceStore(url, clock=store.clock)


# ---------------------------------------------------------------- status
