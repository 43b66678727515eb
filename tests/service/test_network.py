"""A network to PostgreSQL that stops forwarding, is cut, or leads to another server: noticed soon, and no harm done."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from compared import differences, rows
from cut_network import network_to
from fleet import FULL, needs_service, new_postgres_database
from serving import problem_of
from traffic import EXPERIMENT, PLAYERS, Memory, Watched, begin, customer

from posse.service.admin.verify import verify
from posse.service.commands import Choose
from posse.service.process.supervisor import background
from posse.service.settings import Settings
from posse.service.storage import database as databases
from posse.service.storage import postgres, queries
from posse.service.storage.errors import Unavailable
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import Transaction, commit
from stores import SHOPS, Call, new, stores

SILENCE = 10.0 if FULL else 1.0
"""After how many seconds without a word the database counts as away."""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the short form, wait less for a connection."""
    if not FULL:
        monkeypatch.setattr(databases, "PATIENCE", 2)


def decisions(database: str) -> int:
    return int(rows(database, "SELECT count(*) FROM decisions")[0][0])


def await_decisions(database: str, more: int) -> None:
    """Wait until the service has made so many decisions more."""
    wanted, until = decisions(database) + more, time.monotonic() + 60
    while decisions(database) < wanted:
        assert time.monotonic() < until, "no decisions are made"
        time.sleep(0.1)


@contextlib.contextmanager
def clients(url: str, count: int) -> Iterator[Callable[[], list[Memory]]]:
    """Customers in threads; what is given ends them and returns what each remembers."""
    stop, memories = threading.Event(), queue.SimpleQueue()
    arguments = [(url, seed, stop, memories, Watched) for seed in range(count)]
    threads = [threading.Thread(target=customer, args=each) for each in arguments]
    for thread in threads:
        thread.start()

    def finish() -> list[Memory]:
        stop.set()
        return [memories.get(timeout=60) for _ in threads]

    try:
        yield finish
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@needs_service
def test_a_network_that_fails_loses_nothing_and_the_service_goes_on_by_itself(caplog, impatient):
    with (
        new_postgres_database() as database,
        network_to(database) as (network, through),
        background(Settings(through, open=True, silence_seconds=SILENCE)) as url,
    ):
        begin(url)
        with clients(url, 3) as finish:
            await_decisions(database, 20)
            for blow in [network.stop, network.cut] * (10 if FULL else 1):
                blow()
                began, body = time.monotonic(), {"player": PLAYERS[0]}
                answer = httpx.post(f"{url}/v1/experiments/{EXPERIMENT}/decisions", json=body, timeout=60)
                assert problem_of(answer, 503) == "unavailable"
                assert answer.headers["retry-after"] == "1"
                assert "127.0.0.1" not in answer.text
                assert time.monotonic() - began < SILENCE + 2 * databases.PATIENCE + 2
                network.resume()
                await_decisions(database, 20)
            memories = finish()
        assert [error for each in memories for error in each.errors] == []
        assert differences(database, memories) == []
        store = ServiceStore(database)
        assert verify(store) == []
        store.close()
    assert f"127.0.0.1:{network.port}" in caplog.text


@needs_service
def test_a_transaction_that_is_cut_off_is_given_up_at_both_ends(tmp_path, impatient):
    def choose_and_stop(transaction: Transaction) -> None:
        Choose("teas", SHOPS).apply(transaction)
        network.stop()

    with stores("postgresql", tmp_path) as (direct,):
        new(direct)
        with network_to(direct.engine.url.set(drivername="postgresql").render_as_string(False)) as (network, through):
            store = ServiceStore(through, silence=0.5)
            with pytest.raises(Unavailable, match="cannot do it now, and the log says why"):
                commit(store, Call(choose_and_stop))
            commit(direct, Choose("teas", SHOPS))  # the experiment is no longer locked
            network.resume()
            time.sleep(postgres.AWAY_SECONDS)
            commit(store, Choose("teas", SHOPS))
            store.close()
        assert direct.read(queries.experiment, "teas").decisions == 6
        assert verify(direct) == []


class TestSeveralHosts:
    """An address with several hosts; the first of those that can write is taken."""

    def test_they_are_found_in_the_address(self):
        engine = databases.connect("postgresql://me:word@one,two:5433/shop?sslmode=require")
        _, options = engine.dialect.create_connect_args(engine.url)
        found = {name: options[name] for name in ("host", "port", "user", "password", "dbname", "sslmode")}
        expected = {"host": "one,two", "port": ",5433", "user": "me", "password": "word"}
        assert found == expected | {"dbname": "shop", "sslmode": "require"}
        with pytest.raises(ValueError, match="expected sqlite:///FILE or postgresql://"):
            databases.connect("postgresql://me@one:54x3/shop")

    @needs_service
    def test_one_that_is_away_is_passed_over_and_one_that_only_reads_is_refused(self):
        with new_postgres_database() as database:
            head, _, tail = database.rpartition("@")
            several = f"{head}@127.0.0.1:1,{tail}"
            ServiceStore(several, create=True).close()
            with pytest.raises(Unavailable):
                ServiceStore(f"{several}?options=-cdefault_transaction_read_only%3Don")


@needs_service
def test_a_server_that_has_become_a_standby_is_left_for_the_one_that_took_over(tmp_path):
    """Its old connections answer, but can no longer write."""
    with stores("postgresql", tmp_path) as (store,):
        new(store)
        commit(store, Choose("teas", SHOPS))

        with store.engine.connect() as connection:
            connection.exec_driver_sql("SET default_transaction_read_only = on")
            connection.commit()
        commit(store, Choose("teas", SHOPS))
        assert verify(store) == []
