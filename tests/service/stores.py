"""Stores for the tests, on both databases, and a learner beside one to compare with."""

from __future__ import annotations

import contextlib
import os
import secrets

import psycopg
import pytest

import posse
from posse.service.storage.store import Store

POSTGRES = os.environ.get("POSSE_POSTGRES_URL")
BACKENDS = ["sqlite", "postgresql"]
ARMS = ["tea", "coffee", "cocoa"]
SHOPS = ["north", "south", "east"]


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
        opened = [Store.open(url, create=True, clock=clock)]
        opened += [Store(url, clock=clock) for _ in range(count - 1)]
        try:
            yield opened
        finally:
            for store in opened:
                store.close()


def new(store, policy=None, name="teas", **options):
    """An experiment with three shops and three arms."""
    options = {"arms": ARMS, "players": SHOPS, "seed": 3, **options}
    return store.create(name, policy or posse.RobustAggTS(0.1), **options)


def answered(store, name="teas", player="north", reward=1.0):
    """A decision with its reward."""
    decision = store.decide(name, [player])[0]
    assert [outcome.status for outcome in store.reward(name, [(decision.id, reward)])] == ["taken"]
    return decision
