"""Looking after a database: no more memory for a longer log, decisions during a rebuild, and files that are private."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
import threading
import tracemalloc

import pyarrow.parquet
import pytest
from serving import new_experiment, problem_of, service
from sqlalchemy import exc
from test_store_exchange import FIXTURES

import posse
from posse.cli import main
from posse.service.admin import rebuild as rebuilding
from posse.service.admin import transfer
from posse.service.admin import verify as verifying
from posse.service.admin.rebuild import rebuild
from posse.service.admin.transfer import export_log, import_log
from posse.service.admin.verify import LogAudit, verify
from posse.service.commands import Change, Choose, Erase, Observe, TakeDefaults
from posse.service.storage import database, queries
from posse.service.storage.address import command, parse
from posse.service.storage.errors import Damaged, Unavailable
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit
from stores import ARMS, BACKENDS, SHOPS, Clock, answered, new, stores
from test_learner_state import busy

# ---------------------------------------------------------------- logs by parts


def log_of(rounds, path):
    """The log of a learner with three decisions and two rewards a round, in a file."""
    learner = posse.Learner(posse.IndTS(), ARMS, SHOPS, seed=1, clock=Clock())
    for _ in range(rounds):
        made = learner.choose(SHOPS)
        learner.observe([(one.id, 1.0) for one in made[:2]])
    pyarrow.parquet.write_table(learner.log(), path)


def peak_of(call):
    """The most bytes that Python held at a time, beyond those before."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_longer_log_takes_hardly_more_memory_to_import_and_to_export(tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "AT_ONCE", 50)
    monkeypatch.setattr(queries, "TABLE_ROWS", 50, raising=False)
    monkeypatch.setattr("posse.service.storage.recent_decisions.RECENT", 50)
    peaks = {}
    with stores("sqlite", tmp_path) as (store,):
        for rounds in (30, 30, 300):  # the first is for what is loaded once
            name, file = f"teas {len(store.read(queries.experiments))}", tmp_path / f"{rounds}.parquet"
            log_of(rounds, file)
            taken = (
                peak_of(lambda name=name, file=file: import_log(store, name, file)),
                peak_of(lambda name=name: export_log(store, name, tmp_path / "again.parquet")),
            )
            peaks[rounds] = taken
            assert pyarrow.parquet.read_table(tmp_path / "again.parquet").num_rows == 3 * rounds
    for short, long in zip(peaks[30], peaks[300], strict=True):
        assert long - short < 810 * 300, "bytes for each row more"


def test_a_log_by_parts_is_the_log(tmp_path, monkeypatch):
    learner, clock = busy(posse.RobustAggTS(0.1))
    with stores("sqlite", tmp_path, 1, clock) as (store,):
        pyarrow.parquet.write_table(learner.log(), tmp_path / "learner.parquet")
        import_log(store, "teas", tmp_path / "learner.parquet")
        whole = store.read(queries.log_table, "teas")
        assert whole.drop_columns(["probabilities"]).equals(learner.log().drop_columns(["probabilities"]))
        monkeypatch.setattr(queries, "TABLE_ROWS", 7)
        monkeypatch.setattr(transfer, "AT_ONCE", 7)
        assert export_log(store, "teas", tmp_path / "parts.parquet") == whole.num_rows > 30
        assert pyarrow.parquet.ParquetFile(tmp_path / "parts.parquet").num_row_groups == -(-whole.num_rows // 7)
        assert pyarrow.parquet.read_table(tmp_path / "parts.parquet").equals(whole, check_metadata=True)
        shuffled = whole.sort_by([("arm", "ascending"), ("decision", "descending")])
        pyarrow.parquet.write_table(shuffled, tmp_path / "shuffled.parquet")
        for name in ("parts", "shuffled"):
            import_log(store, name, tmp_path / f"{name}.parquet")
            assert store.read(queries.log_table, name).equals(whole, check_metadata=True)
        assert verify(store) == []


def test_an_export_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    def fail(row):
        raise RuntimeError("it fails")

    with stores("sqlite", tmp_path) as (store,):
        new(store)
        answered(store)
        export_log(store, "teas", tmp_path / "log.parquet")
        before = (tmp_path / "log.parquet").read_bytes()
        monkeypatch.setattr(queries, "_decision", fail)
        with pytest.raises(RuntimeError, match="it fails"):
            export_log(store, "teas", tmp_path / "log.parquet")
        assert (tmp_path / "log.parquet").read_bytes() == before
        assert [file.name for file in tmp_path.glob("log*")] == ["log.parquet"]
        os.mkfifo(tmp_path / "pipe.parquet")
        with pytest.raises(ValueError, match=r"pipe\.parquet is no file"):
            export_log(store, "teas", tmp_path / "pipe.parquet")


@pytest.mark.parametrize("name", ["posse.db", "copy.db", "copy.parquet", "notes.txt"])
def test_an_export_replaces_no_database_and_nothing_but_parquet(tmp_path, name):
    with stores("sqlite", tmp_path) as (store,):
        new(store)
        (tmp_path / "notes.txt").write_text("notes")
        for copy in ("copy.db", "copy.parquet"):
            database.backup(store.engine, tmp_path / copy)
        before = (tmp_path / name).read_bytes()
        with pytest.raises((ValueError, FileExistsError), match=r"ends in \.parquet|is a database"):
            export_log(store, "teas", tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


# ---------------------------------------------------------------- a rebuild while decisions go on


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("few", [2000, 1])
def test_decisions_go_on_during_a_rebuild(backend, few, tmp_path, monkeypatch):
    """Others write whenever the log has been replayed: between two looks at it, but for the last."""
    monkeypatch.setattr(database, "PATIENCE", 0.2 if backend == "sqlite" else 5)
    monkeypatch.setattr(rebuilding, "FEW", few, raising=False)
    replay, replays = verifying.replay, []

    def replayed(live, rows, entry_of):
        replay(live, rows, entry_of)
        replays.append(live.state.decisions)
        if len(replays) == 1:
            commit(other, Choose("teas", SHOPS, key="during"))
            commit(other, Change("teas", join=["west"], add_arms=["juice"]))
            answered(other, player="west")
            commit(other, Erase("teas", "south"))

    with stores(backend, tmp_path, 2) as (store, other):
        new(store, posse.PosseTS())
        for _ in range(5):
            answered(store)
        commit(store, Change("teas", join=["gone"]))
        commit(store, Change("teas", retire=["gone"]))
        with store.engine.begin() as connection:
            connection.exec_driver_sql("UPDATE stats SET pulls = pulls + 1")
            connection.exec_driver_sql("UPDATE players SET here = 1 WHERE name = 'gone'")
        monkeypatch.setattr(verifying, "replay", replayed)
        rebuild(store)
        monkeypatch.undo()
        assert replays == {2000: [5, 9], 1: [5, 9, 9, 9]}[few]
        assert verify(store) == []
        for each in (store, other):
            answered(each, player="west")
            assert len(commit(each, Choose("teas", ["north", "east", "west"]))) == 3
        assert verify(store) == []


def test_a_rebuild_whose_connection_breaks_begins_again(tmp_path, monkeypatch):
    """The second look at the log ends in the middle of an event."""
    checked, looks = LogAudit._checked, []

    def breaking(audit):
        looks.append(1)
        for number, row in enumerate(checked(audit)):
            yield row
            if len(looks) == 2 and number == 3:
                raise exc.OperationalError("", {}, sqlite3.OperationalError("gone"), connection_invalidated=True)
        if len(looks) == 1:
            made = commit(other, Choose("teas", SHOPS))
            commit(other, Observe("teas", [(one.id, 1.0) for one in made]))

    with stores("sqlite", tmp_path, 2) as (store, other):
        new(store)
        answered(store)
        monkeypatch.setattr(LogAudit, "_checked", breaking)
        rebuild(store)
        monkeypatch.undo()
        assert len(looks) == 3
        assert verify(store) == []


# ---------------------------------------------------------------- what another version kept


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_a_service_makes_what_another_version_kept_anew_by_itself(path, tmp_path, caplog):
    shutil.copy(path, tmp_path / "posse.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "posse.db")) as connection, connection:
        connection.execute("DELETE FROM tokens")
    caplog.set_level(logging.INFO, "posse.service")
    for start in range(2):
        with service(tmp_path, defaults_seconds=None) as client:
            asked = client.get("/v1/experiments")
            assert asked.status_code == 200, asked.text
            names = [one["name"] for one in asked.json()["experiments"]]
            assert {"teas", "beers"} <= set(names)
            for name in names:
                answer = client.post(f"/v1/experiments/{name}/decisions", json={"player": "south"})
                assert answer.status_code == 200, answer.text
        made_anew = [record.args[0] for record in caplog.records if "is made anew" in record.msg]
        assert bool(made_anew) == (start == 0 and path.stem < "schema-3")
        caplog.clear()
    store = ServiceStore(f"sqlite:///{tmp_path / 'posse.db'}")
    assert verify(store) == []
    store.close()


def test_a_log_that_is_damaged_is_not_made_anew_and_the_others_are_served(tmp_path, caplog):
    with service(tmp_path) as client:
        paths = [new_experiment(client) for _ in range(3)]
        for path in paths:
            assert client.post(f"{path}/decisions", json={"player": "Lyon"}).status_code == 200
    with contextlib.closing(sqlite3.connect(tmp_path / "posse.db")) as connection, connection:
        connection.execute("UPDATE stats SET numbers = x'00' WHERE experiment < 3")
        connection.execute("UPDATE decisions SET arm = 1 - arm WHERE experiment = 1")
        connection.execute("UPDATE experiments SET setup = 'no JSON' WHERE id = 3")
    caplog.set_level(logging.INFO, "posse.service")
    with service(tmp_path) as client:
        answers = [client.post(f"{path}/decisions", json={"player": "Lyon"}) for path in paths[:2]]
    assert [answer.status_code for answer in answers] == [500, 200]
    assert problem_of(answers[0], 500) == "damaged"
    assert "as another version of posse made it" in caplog.text
    assert "could not be made anew: the log of 'offers" in caplog.text


# ---------------------------------------------------------------- files


def mode(path):
    return f"{path.stat().st_mode & 0o777:o}"


def test_every_file_that_is_made_is_its_owners_only(tmp_path, caplog):
    before = os.umask(0o022)
    try:
        store = ServiceStore(f"sqlite:///{tmp_path / 'posse.db'}", create=True)
        new(store)
        answered(store)
        database.backup(store.engine, tmp_path / "copy.db")
        export_log(store, "teas", tmp_path / "log.parquet")
        found = {path.name: mode(path) for path in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    names = {"posse.db", "posse.db-wal", "posse.db-shm", "copy.db", "log.parquet"}
    assert found == dict.fromkeys(names, "600")
    assert "other users" not in caplog.text


def test_a_database_that_others_may_read_is_warned_of(tmp_path, caplog):
    path = tmp_path / "posse.db"
    ServiceStore(f"sqlite:///{path}", create=True).close()
    path.chmod(0o640)
    with service(tmp_path):
        pass
    assert f"other users of this machine may open the database {path}: unless that is wanted, run" in caplog.text
    assert f"`chmod 600 {path}" in caplog.text
    assert mode(path) == "640"


# ---------------------------------------------------------------- defaults, and what is said of trouble


def test_what_to_type_names_the_database_unless_the_environment_does(monkeypatch):
    address = parse("postgresql://somebody:hush@here/shop")
    assert command("db init", address) == "posse db init --database postgresql://somebody:***@here/shop"
    monkeypatch.setenv("POSSE_DATABASE", "postgresql://somebody:hush@here/shop")
    assert command("db init", address) == "posse db init"
    assert command("db init", parse("sqlite:///posse.db")) == "posse db init --database sqlite:///posse.db"


@pytest.mark.parametrize("name", ["we?ird.db", "posse.db?mode=ro", "file:posse.db?uri=true&mode=rwc"])
def test_an_address_that_is_more_than_a_file_is_refused(name):
    """It would lead to another file, which others may read, or whose loss nobody notices."""
    with pytest.raises(ValueError, match="%3F"):
        parse(f"sqlite:///{name}")
    assert parse("sqlite:///we%3Fird.db").database == "we?ird.db"


def test_nothing_is_said_of_default_rewards_while_the_database_is_away(tmp_path, monkeypatch, caplog):
    looked = threading.Event()

    def away(connection):
        looked.set()
        raise Unavailable("it is away")

    monkeypatch.setattr(queries, "where_decisions_wait", away)
    with service(tmp_path, defaults_seconds=0.01):
        assert looked.wait(30)
    assert "default rewards" not in caplog.text


def test_an_experiment_is_opened_for_its_defaults_only_when_one_may_be_due(tmp_path, monkeypatch):
    opened, looked, enough = [], [], threading.Event()
    apply, look = TakeDefaults.apply, queries.where_decisions_wait

    def applied(command, transaction):
        opened.append(command.experiment)
        return apply(command, transaction)

    def looked_at(connection):
        looked.append(1)
        if len(looked) > 20:
            enough.set()
        return look(connection)

    monkeypatch.setattr(TakeDefaults, "apply", applied)
    with stores("sqlite", tmp_path) as (store,):
        store.clock.now = 1e12  # ahead of the service's clock, which then stands still
        for name in ("waiting", "answered", "empty"):
            new(store, name=name, default_reward=0.0, patience=1000)
        new(store, name="patient")
        for name in ("waiting", "answered", "patient"):
            made = commit(store, Choose(name, SHOPS))
            if name == "answered":
                commit(store, Observe(name, [(one.id, 1.0) for one in made]))
        monkeypatch.setattr(queries, "where_decisions_wait", looked_at)
        with service(tmp_path, defaults_seconds=0.01):
            assert enough.wait(30)
    assert opened == ["waiting"]


def test_what_clients_are_told_of_a_database_does_not_say_where_it_is(tmp_path, caplog, capsys):
    engine = database.connect("postgresql://somebody:hush@127.0.0.1:1/shop")
    with pytest.raises(Unavailable) as trouble, database.reading(engine):
        pass
    assert str(trouble.value) == "the database cannot do it now, and the log says why"
    assert "the database postgresql://somebody:***@127.0.0.1:1/shop: connection failed" in caplog.text
    assert main(["token", "list", "--database", "postgresql://somebody:hush@127.0.0.1:1/shop"]) == 1
    said = "posse: error: the database postgresql://somebody:***@127.0.0.1:1/shop cannot be reached: connection failed"
    assert said in capsys.readouterr().err
    with stores("sqlite", tmp_path) as (store,):
        new(store)
        with store.engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE arms")
        with pytest.raises(Damaged, match="no such table: arms") as trouble:
            store.read(queries.experiments)
        assert str(tmp_path) not in str(trouble.value)
        assert f"{tmp_path}/posse.db: no such table: arms" in caplog.text
