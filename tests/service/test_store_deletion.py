"""Experiments that are deleted, and who did what: two workers on both databases."""

from __future__ import annotations

import threading
import time

import pytest

import posse
from posse.service import auth
from posse.service.admin.deletion import Delete
from posse.service.admin.transfer import export_log, import_log
from posse.service.admin.verify import verify
from posse.service.auth import CreateToken, RevokeToken
from posse.service.commands import Change, Choose, Create, Erase, Observe, Record
from posse.service.storage import audit, database, queries
from posse.service.storage import schema as tables
from posse.service.storage.errors import (
    Archived,
    ConflictingKey,
    ExperimentExists,
    Finished,
    Refused,
    UnknownExperiment,
)
from posse.service.storage.transaction import commit, commit_group
from stores import ARMS, SHOPS, Call, answered, go, new, stores


def rows_of(store, table, experiment):
    with database.reading(store.engine) as connection:
        found = connection.exec_driver_sql(f"SELECT * FROM {table}").mappings().all()
    return [row for row in found if row["experiment"] == experiment]


def fill(store, name):
    """Something in many tables."""
    commit(store, Choose(name, ["north"], key="k"))
    answered(store, name)
    commit(store, Change(name, join=["Anna Unverwechselbar"]))
    commit(store, CreateToken("read", name, label="till"))
    return store.read(queries.find, name)["id"]


def test_only_an_archived_one_is_deleted_and_nothing_of_it_is_left(opened, tmp_path):
    one, other, _ = opened
    new(one, posse.PosseTS(), name="beers", key="create beers")
    kept, gone = fill(one, "teas"), fill(one, "beers")
    for status in ("running", "paused", "finished"):
        go(one, status, name="beers")
        with pytest.raises(Refused, match="only an archived one can be deleted"):
            commit(other, Delete("beers"))
    go(one, "archived", name="beers")
    assert commit(other, Delete("beers")) == 2
    assert commit(other, Choose("teas", ["north"], key="k"))[0].round == 1  # the other one has all of its own
    for table in tables.metadata.sorted_tables:
        if "experiment" in table.c and table.name != "audit":
            assert not rows_of(one, table.name, gone), table.name
    for store in (one, other):
        with pytest.raises(UnknownExperiment):
            commit(store, Choose("beers", ["north"]))
        assert [each.name for each in store.read(queries.experiments, archived=None)] == ["teas"]
    assert rows_of(one, "decisions", kept)
    found = {row.id: row for row in one.read(auth.all_tokens)}
    assert [(row.label, row.revoked_at is None) for row in found.values()] == [("till", True), ("", False)]
    if one.engine.dialect.name == "sqlite":
        commit(one, Erase("teas", "Anna Unverwechselbar"))
        assert not any(b"Unverwechselbar" in path.read_bytes() for path in tmp_path.iterdir())


def test_a_name_that_is_used_again_is_another_experiment_to_every_worker(opened):
    one, other, _ = opened
    first = one.read(queries.find, "teas")["id"]
    made = [answered(store) for store in (one, other)]  # both hold it in memory
    go(one, "finished", "archived")
    commit(one, Delete("teas"))
    again_made = new(one, arms=["wine", "beer"], players=["north", "far"])
    assert one.read(queries.find, "teas")["id"] > first
    assert (again_made.decisions, again_made.status) == (0, "running")
    for store in (other, one):
        assert commit(store, Choose("teas", ["far"]))[0].arm in ("wine", "beer")
        assert commit(store, Observe("teas", [(made[0].id, 1.0)]))[0].status == "unknown"
        with pytest.raises(ValueError, match="no player 'south'"):
            commit(store, Choose("teas", ["south"]))
    assert one.read(queries.experiment, "teas").decisions == 2


def test_a_group_that_deletes_goes_on_with_the_name(opened):
    one, _, _ = opened
    go(one, "finished", "archived")
    again = Create("teas", posse.IndTS(), ["a", "b"], ["p"], key="new")
    done, gone, made, chosen = commit_group(
        one, [Delete("teas", "bye"), Choose("teas", ["north"]), again, Choose("teas", ["p"])]
    )
    assert done == 0
    assert isinstance(gone, UnknownExperiment)
    assert made.arms == [("a", True), ("b", True)]
    assert chosen[0].player == "p"


def test_a_token_that_is_revoked_while_its_experiment_is_deleted_ends_once(opened):
    one, other, _ = opened
    number = auth.token_number(commit(one, CreateToken("read", "teas")))
    go(one, "finished", "archived")
    answers = []
    revoke = threading.Thread(target=lambda: answers.append(commit(other, RevokeToken(number))))

    def delete_slowly(transaction):
        Delete("teas").apply(transaction)
        revoke.start()
        time.sleep(0.5)  # it reads the token as it was, or waits for what becomes of it

    commit(one, Call(delete_slowly))
    revoke.join(20)
    assert answers == [None]
    (token,) = one.read(auth.all_tokens)
    assert (token.experiment, token.revoked_at) == (None, 1000.0)


def test_another_worker_decides_while_the_experiment_ends_and_begins_anew(opened):
    one, other, _ = opened
    met, stop = [], threading.Event()

    def decide():
        while not stop.wait(0.01):  # SQLite has no queue: who never rests lets nobody else write
            try:
                assert commit(other, Choose("teas", ["north"]))[0].arm in ARMS
                met.append("decided")
            except (Finished, Archived, UnknownExperiment) as error:
                met.append(type(error))
            except Exception as error:
                met.append(error)
                raise

    thread = threading.Thread(target=decide)
    thread.start()
    seen = {one.read(queries.find, "teas")["id"]}
    for _ in range(5):
        for act in (lambda: go(one, "finished"), lambda: go(one, "archived"), lambda: commit(one, Delete("teas"))):
            act()
            time.sleep(0.02)
        new(one)
        seen.add(one.read(queries.find, "teas")["id"])
        time.sleep(0.02)
    stop.set()
    thread.join()
    assert len(seen) == 6
    assert set(met) <= {"decided", Finished, Archived, UnknownExperiment}
    assert "decided" in met
    assert UnknownExperiment in met


def test_a_deletion_happens_once_with_its_key(opened):
    one, other, _ = opened
    answered(one)
    go(one, "finished", "archived")
    assert commit(one, Delete("teas", "k")) == 1
    new(one)
    for store in (one, other):
        assert commit(store, Delete("teas", "k")) == 1  # the new one stays
        with pytest.raises(ConflictingKey):
            commit(store, Delete("beers", "k"))
        with pytest.raises(ExperimentExists):
            new(store)


def test_what_was_deleted_can_be_created_again_with_the_same_key(pair):
    one, other, _ = pair
    create = Create("beers", posse.IndTS(), ARMS, SHOPS, key="k")
    commit(one, create)
    go(one, "finished", "archived", name="beers")
    commit(other, Delete("beers"))
    assert commit(one, create).status == "running"


# ---------------------------------------------------------------- the audit trail


def trail(store, **asked):
    return [(row.who, row.action, row.experiment, row.detail) for row in store.read(audit.entries, **asked)]


def test_every_change_says_who_did_it_and_names_no_player(opened, tmp_path):
    one, other, _ = opened
    commit(one, Choose("teas", ["north"]))
    for command in (
        Change("teas", join=["west", "far west"], retire=["north"], add_arms=["juice"], retire_arms=["tea"], by="Ada"),
        Change("teas", status="finished", ship="juice", ship_for={"west": "coffee"}, description="d", by="Ada"),
        Record("teas", [("south", "tea", 1.0)], by="token 3"),
        Erase("teas", "east", by="Ada"),
        Change("teas", status="archived"),
        Change("teas", status="archived"),  # changes nothing
        CreateToken(["read", "decide"], "teas", by="Bob"),
        RevokeToken(1, by="Bob"),
        RevokeToken(1, by="Bob"),
    ):
        commit(one, command)
    export_log(other, "teas", tmp_path / "log.parquet")
    import_log(other, "copy", tmp_path / "log.parquet")
    commit(other, Delete("teas", by="Ada"))
    expected = [
        ("command line", "create", "teas", "RobustAgg-TS(0.1), 3 arms, 3 players"),
        ("Ada", "change", "teas", "join 2 players, retire 1 player, add arm 'juice', retire arm 'tea'"),
        ("Ada", "change", "teas", "describe, finish and ship 'juice'"),
        ("token 3", "record", "teas", "1 reward"),
        ("Ada", "erase", "teas", "1 player"),
        ("command line", "change", "teas", "archive"),
        ("Bob", "create token", "teas", "token 1, decide read, this experiment"),
        ("Bob", "revoke token", "", "token 1"),
        ("command line", "import", "copy", "1 decision"),
        ("Ada", "delete", "teas", "1 decision"),
    ]
    assert trail(other) == expected
    assert trail(other, experiment="copy") == expected[8:9]
    assert trail(other, after=8) == expected[8:]
    assert trail(other, after=3, limit=2) == expected[3:5]


def test_a_refused_or_repeated_request_leaves_no_trace(pair):
    one, other, _ = pair
    change = Change("teas", join=["west"], key="k")
    commit(one, change)
    commit_group(other, [change, Change("teas", join=["south"]), Change("teas", status="archived"), Delete("teas")])
    for wrong in (Record("teas", []), Erase("teas", "nobody"), RevokeToken(5), CreateToken("all")):
        with pytest.raises(ValueError, match=r"expected|no "):
            commit(one, wrong)
    assert [action for _, action, _, _ in trail(one)] == ["create", "change"]


def test_a_changed_trail_is_found(tmp_path):
    with stores("sqlite", tmp_path) as (store,):
        new(store)
        assert verify(store) == []
        with store.engine.begin() as connection:
            connection.exec_driver_sql("UPDATE audit SET who = 'nobody'")
        assert [str(finding) for finding in verify(store)] == ["audit, id 1: does not match its digest or checksum"]


def test_a_key_makes_one_token_and_shows_it_once(pair):
    one, other, _ = pair
    secret = commit(one, CreateToken("read", label="till", key="k"))
    for store in (one, other):
        with pytest.raises(Refused, match="token 1 was made by this request"):
            commit(store, CreateToken("read", label="till", key="k"))
        with pytest.raises(ConflictingKey):
            commit(store, CreateToken("admin", label="till", key="k"))
    assert [row.id for row in one.read(auth.all_tokens)] == [auth.token_number(secret)] == [1]
    commit(one, RevokeToken(1, "r"))
    commit(other, RevokeToken(1, "r"))
    with pytest.raises(ConflictingKey):
        commit(other, RevokeToken(2, "r"))
