"""Storage that fails: nothing half-written, nothing twice, and a plain word about it."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
import types
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import exc

from posse.service.admin.verify import verify
from posse.service.commands import Change, Choose, Erase, Observe, Record
from posse.service.storage import database, queries, transaction
from posse.service.storage.errors import Damaged, Unavailable
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit
from posse.service.writer import Writer
from stores import SHOPS, Call, Clock, answered, new, stores


@pytest.fixture
def store(tmp_path):
    with stores("sqlite", tmp_path) as (store,):
        new(store)
        for _ in range(5):
            answered(store)
        yield store


def pragma(store, text):
    """Have every connection from now on begin with a PRAGMA."""
    store.close()
    sqlalchemy.event.listen(store.engine, "connect", lambda connection, _: connection.execute(text))


def writes(store):
    """Every way to write."""
    waiting = commit(store, Choose("teas", ["north"]))[0]
    return [
        lambda: commit(store, Choose("teas", SHOPS, key="k")),
        lambda: commit(store, Observe("teas", [(waiting.id, 1.0)])),
        lambda: commit(store, Record("teas", [("north", "tea", 1.0)])),
        lambda: commit(store, Change("teas", join=["west"])),
        lambda: commit(store, Erase("teas", "south")),
        lambda: new(store, name="beers"),
    ]


def test_a_read_only_database_is_unavailable_and_can_still_be_read(store):
    attempts = writes(store)
    before = store.read(queries.experiment, "teas")
    pragma(store, "PRAGMA query_only = ON")
    for attempt in attempts:
        with pytest.raises(Unavailable, match="readonly database"):
            attempt()
    assert store.read(queries.experiment, "teas") == before
    assert verify(store) == []


def test_a_full_disk_is_unavailable_and_leaves_nothing_half_written(store):
    pages = sqlite3.connect(store.engine.url.database).execute("PRAGMA page_count").fetchone()[0]
    pragma(store, f"PRAGMA max_page_count = {pages + 3}")
    done = store.read(queries.experiment, "teas").decisions
    with pytest.raises(Unavailable, match="full"):  # noqa: PT012
        for number in range(1000):
            done = commit(store, Choose("teas", SHOPS, key=f"{number} {'x' * 150}"))[-1]
    last = int(done.id.split("-")[0])
    assert store.read(queries.experiment, "teas").decisions == last + 1
    assert verify(store) == []
    assert commit(store, Observe("teas", [(done.id, 1.0)]))[0].status in ("taken", "known")


def test_a_file_that_cannot_grow_is_unavailable(store, tmp_path):
    """A limit of the operating system on the file's size, in a process of its own."""
    store.close()
    program = """
        import resource, sys
        from posse.service.commands import Choose
        from posse.service.storage import queries
        from posse.service.storage.errors import Unavailable
        from posse.service.storage.store import ServiceStore
        from posse.service.storage.transaction import commit
        store = ServiceStore(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        done = store.read(queries.experiment, "teas").decisions
        try:
            while True:
                done = int(commit(store, Choose("teas", ["north"]))[0].id.split("-")[0]) + 1
        except Unavailable as error:
            print(done)
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program), str(store.engine.url)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    again = ServiceStore(str(store.engine.url))
    assert again.read(queries.experiment, "teas").decisions == int(run.stdout)
    assert verify(again) == []
    commit(again, Choose("teas", ["north"]))
    again.close()


def test_a_database_that_another_keeps_locked_is_unavailable(store):
    pragma(store, "PRAGMA busy_timeout = 50")
    other = sqlite3.connect(store.engine.url.database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"):
        commit(store, Choose("teas", ["north"]))
    assert store.read(queries.experiment, "teas").decisions == 5
    other.execute("ROLLBACK")
    other.close()
    commit(store, Choose("teas", ["north"]))


def test_a_commit_that_fails_leaves_no_trace_in_the_file_nor_in_memory(store):
    attempts = writes(store)
    before = store.read(queries.experiment, "teas")
    commit, store.engine.dialect.do_commit = store.engine.dialect.do_commit, fail
    for attempt in attempts:
        with pytest.raises(Unavailable, match="disk I/O error"):
            attempt()
    store.engine.dialect.do_commit = commit
    assert store.read(queries.experiment, "teas") == before
    for attempt in attempts:
        attempt()
    assert verify(store) == []


def test_an_erasure_while_somebody_reads_stops_nobody_and_removes_the_copy_afterwards(store, caplog):
    """A long read, as of `posse db verify`, keeps what was there before in SQLite's write-ahead file."""
    written = Path(f"{store.engine.url.database}-wal")
    writer = Writer(store)
    with database.reading(store.engine) as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM players").scalar() == 3
        began = time.monotonic()
        asyncio.run(writer.apply(Erase("teas", "south")))
        asyncio.run(writer.apply(Choose("teas", ["north"])))
        assert time.monotonic() - began < database.PATIENCE / 2
        assert "posse.db-wal until that is over" in caplog.text
        assert b"south" in written.read_bytes()
    while b"south" in written.read_bytes():  # without any other request
        assert time.monotonic() - began < 20
        time.sleep(0.05)
    writer.close()
    assert store.read(queries.experiment, "teas").players[1][0].startswith("erased-")


def fail(connection):
    connection.rollback()
    raise sqlite3.OperationalError("disk I/O error")


def test_an_error_in_the_middle_undoes_everything(store):
    before = store.read(queries.experiment, "teas")

    def half(transaction):
        Choose("teas", SHOPS).apply(transaction)
        Change("teas", join=["west"]).apply(transaction)
        transaction.write()
        raise RuntimeError("a fault of ours")

    with pytest.raises(RuntimeError, match="a fault of ours"):
        commit(store, Call(half))
    assert store.read(queries.experiment, "teas") == before
    answered(store)
    assert verify(store) == []


def test_a_log_that_was_changed_under_a_worker_is_noticed(store):
    commit(store, Choose("teas", ["north"]))
    other = ServiceStore(str(store.engine.url), clock=Clock())
    commit(other, Choose("teas", ["north"]))
    with other.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE decisions SET arm = 1 - arm WHERE serial = 6")
    with pytest.raises(Damaged, match="do not add up to its head"):
        commit(store, Choose("teas", ["north"]))
    other.close()


def test_numbers_that_are_missing_are_noticed(store):
    with store.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM stats WHERE arm = 1")
    again = ServiceStore(str(store.engine.url))
    with pytest.raises(Damaged, match="posse db rebuild"):
        commit(again, Choose("teas", ["north"]))
    again.close()


@pytest.mark.parametrize("url", ["nonsense", "mysql://host/x", "sqlite://", "sqlite:///:memory:", 5])
def test_other_addresses_are_refused(url):
    with pytest.raises((ValueError, TypeError), match="expected sqlite:///FILE or postgresql"):
        ServiceStore(url)


def test_a_password_is_not_repeated(tmp_path):
    with pytest.raises(Unavailable) as caught:
        ServiceStore("postgresql://posse:geheim@127.0.0.1:1/none")
    assert "geheim" not in str(caught.value)
    with pytest.raises(ValueError, match="expected sqlite") as refused:
        ServiceStore("mysql://posse:geheim@127.0.0.1/none")
    assert "geheim" not in str(refused.value)


def test_a_missing_or_foreign_file_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="posse db init"):
        ServiceStore(f"sqlite:///{tmp_path / 'none.db'}")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="no folder"):
        ServiceStore(f"sqlite:///{tmp_path / 'nowhere' / 'posse.db'}", create=True)
    with pytest.raises(ValueError, match="is a folder"):
        ServiceStore(f"sqlite:///{tmp_path}")
    (tmp_path / "text.db").write_text("not a database, but long enough to be looked at" * 100)
    with pytest.raises(Damaged, match="not a database"):
        ServiceStore(f"sqlite:///{tmp_path / 'text.db'}")


class TestPostgres:
    @pytest.fixture
    def store(self, tmp_path):
        with stores("postgresql", tmp_path) as (store,):
            new(store)
            answered(store)
            yield store
            assert verify(store) == []

    def cut(self, transaction):
        transaction.connection.connection.dbapi_connection.close()

    def test_a_connection_that_breaks_before_the_commit_is_replaced(self, store):
        breaks = [True, True, False]

        def choose(transaction):
            made = Choose("teas", ["north"]).apply(transaction)
            transaction.write()
            if breaks.pop(0):
                self.cut(transaction)
            return made

        commit(store, Call(choose))
        assert breaks == []
        assert store.read(queries.experiment, "teas").decisions == 2

    @pytest.mark.parametrize("committed", [True, False])
    @pytest.mark.parametrize("key", [None, "k"])
    def test_a_commit_without_an_answer_counts_once_whatever_became_of_it(self, store, committed, key):
        command = Record("teas", [("north", "tea", 1.0)]) if key is None else Change("teas", status="running", key=key)
        do_commit = store.engine.dialect.do_commit
        calls = []

        def lose(connection):
            calls.append(1)
            if len(calls) > 1:
                do_commit(connection)
                return
            if committed:
                do_commit(connection)
            connection.dbapi_connection.close()
            raise psycopg.OperationalError("the connection is lost")

        store.engine.dialect.do_commit = lose
        made = commit(store, command)
        store.engine.dialect.do_commit = do_commit
        if key is None:
            assert (made, store.read(queries.experiment, "teas").rewards) == (1, 2)
        else:  # it changed nothing, but its key is known
            commit(store, Change("teas", status="paused"))
            assert commit(store, command) == made

    def test_what_may_have_been_committed_is_not_done_again_where_nobody_can_tell(self, store, monkeypatch):
        do_commit, calls = store.engine.dialect.do_commit, []

        def lose(connection):
            do_commit(connection)
            connection.dbapi_connection.close()
            raise psycopg.OperationalError("the connection is lost")

        def lost(connection, live):
            connection.connection.dbapi_connection.close()
            connection.exec_driver_sql("SELECT 1")

        def record(transaction):
            calls.append(1)
            return Record("teas", [("north", "tea", 1.0)]).apply(transaction)

        monkeypatch.setattr("posse.service.storage.transaction.PAUSE", 0.0)
        with monkeypatch.context() as broken:
            broken.setattr(store.engine.dialect, "do_commit", lose)
            broken.setattr("posse.service.storage.queries.has_last_row", lost)
            with pytest.raises(Unavailable, match="not known whether the database took"):
                commit(store, Call(record))
        assert calls == [1]
        assert store.read(queries.experiment, "teas").rewards == 2

    def test_a_deadlock_is_tried_again(self, store):
        attempts = []

        def choose(transaction):
            attempts.append(1)
            if len(attempts) < 3:
                raise exc.OperationalError("", {}, psycopg.errors.DeadlockDetected("deadlock detected"))
            return Choose("teas", ["north"]).apply(transaction)

        commit(store, Call(choose))
        assert len(attempts) == 3

    def test_a_server_that_is_away_is_unavailable(self, store, monkeypatch):
        engine = database.connect("postgresql://posse@127.0.0.1:1/none")
        store.close()
        monkeypatch.setattr(store, "engine", engine)
        with pytest.raises(Unavailable):
            commit(store, Choose("teas", ["north"]))
        with pytest.raises(Unavailable):
            database.check_version(store.engine)
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("there", "committed"), [({}, False), ({"teas": True}, True), ({"teas": True, "pies": False}, False)]
)
def test_a_commit_without_an_answer_counts_only_if_every_last_row_is_there(tmp_path, monkeypatch, there, committed):
    """After a broken connection the database is asked; without anything to ask for, nothing counts as written."""
    monkeypatch.setattr(transaction.queries, "has_last_row", lambda connection, live: there[live])
    written = types.SimpleNamespace(changed=lambda: list(there))
    with stores("sqlite", tmp_path) as (store,):
        assert transaction._was_committed(store, written) is committed


def test_a_command_that_erases_waits_a_while_for_whoever_reads(store, caplog):
    with database.reading(store.engine) as connection:
        connection.exec_driver_sql("SELECT count(*) FROM players").all()
        erases = threading.Thread(target=commit, args=(store, Erase("teas", "south")))
        erases.start()
        time.sleep(0.2)
        with contextlib.closing(ServiceStore(str(store.engine.url))) as service:
            commit(service, Choose("teas", ["north"]))
        assert erases.is_alive()
    erases.join()
    assert b"south" not in Path(f"{store.engine.url.database}-wal").read_bytes()
    assert caplog.text.count("an erased name may be in") == 1
