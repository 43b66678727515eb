"""Idempotency keys: every command with a key happens once, and nothing of an erased player is left in one."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest
from test_store_requests import whole

import posse
from posse.service.admin.rebuild import rebuild
from posse.service.admin.verify import verify
from posse.service.commands import Change, Choose, Create, Erase, Record
from posse.service.storage import database, queries
from posse.service.storage.errors import ConflictingKey, ExperimentExists
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit, commit_group
from stores import ARMS, BACKENDS, SHOPS, Clock, answered, new, stores
from stores import database as new_database

SCHEMA_3 = Path(__file__).parent / "fixtures" / "schema-3-keys.db"
POLICY = posse.RobustAggTS(0.1)
PAST = [("north", "tea", 0.5), ("south", "cocoa", 1.0)]
KEYED = {
    "choose": Choose("teas", ["north", "south"], ["tea", "cocoa"], key="k"),
    "record": Record("teas", PAST, key="k"),
    "create": Create("beers", POLICY, ARMS, SHOPS, key="k"),
    "change": Change("teas", join=["west"], retire=["south"], add_arms=["juice"], status="paused", key="k"),
    "shares": Change("teas", shares={"tea": (0.1, 0.3)}, key="k"),
    "no change": Change("teas", status="running", key="k"),
    "erase": Erase("teas", "east", key="k"),
}
OTHERS = [
    Choose("teas", ["north"], key="k"),
    Record("teas", PAST[:1], key="k"),
    Change("teas", join=["south west"], key="k"),
    Change("teas", shares={}, key="k"),
    Erase("teas", "north", key="k"),
]
kinds = pytest.mark.parametrize("kind", KEYED)


@pytest.fixture(params=BACKENDS)
def opened(request, tmp_path):
    """Two workers on one database, and their clock."""
    clock = Clock()
    with stores(request.param, tmp_path, 2, clock) as (one, other):
        new(one)
        yield one, other, clock
        assert verify(one) == []


def everything(store):
    """All there is, requests included."""
    with database.reading(store.engine) as connection:
        kept = connection.exec_driver_sql("SELECT * FROM requests ORDER BY 1, 2").all()
    return whole(store) | {"requests": kept}


@kinds
def test_the_same_again_has_the_same_result_and_changes_nothing(opened, kind):
    one, other, clock = opened
    command = KEYED[kind]
    first = commit(one, command)
    clock.now += 10
    commit(other, Choose("teas", ["north"])) if kind != "change" else commit(other, Change("teas", add_arms=["milk"]))
    before = everything(one)
    again = ServiceStore(one.engine.url.render_as_string(hide_password=False).replace("+psycopg", ""), clock=clock)
    for store in (one, other, again):
        assert commit(store, command) == first
        assert commit_group(store, [command, command]) == [first, first]
    again.close()
    assert everything(one) == before


@kinds
def test_a_group_of_the_same_does_it_once(opened, kind):
    one, other, _ = opened
    first, *more = commit_group(one, [KEYED[kind]] * 5)
    assert not isinstance(first, Exception)
    assert more == [first] * 4
    assert commit(other, KEYED[kind]) == first


@kinds
def test_another_request_with_the_key_is_refused(opened, kind):
    one, other, _ = opened
    commit(one, KEYED[kind])
    before = everything(one)
    creating = [Create("wines", POLICY, ARMS, SHOPS, key="k"), Create("beers", POLICY, ARMS, key="k")]
    for another in creating if kind == "create" else OTHERS:
        with pytest.raises(ConflictingKey, match="'k' came before with another request"):
            commit(other, another)
    assert everything(one) == before


@kinds
def test_a_hundred_at_once_over_two_workers_happen_once(opened, kind):
    one, other, _ = opened
    made, workers = [], itertools.cycle((one, other))

    def ask(store):
        made.append(commit(store, KEYED[kind]))

    threads = [threading.Thread(target=ask, args=(next(workers),)) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 100
    assert all(each == made[0] for each in made)


def test_without_a_key_or_with_another_it_is_a_new_request(opened):
    one, _, _ = opened
    for key in (None, None, "a", "b"):
        commit(one, Record("teas", PAST, key))
    assert one.read(queries.experiment, "teas").rewards == 8
    with pytest.raises(ExperimentExists):
        commit(one, Create("teas", POLICY, ARMS, key="k"))
    commit(one, Create("beers", POLICY, ARMS, key="k"))  # what was refused is not remembered
    commit(one, Erase("teas", "east", "k"))  # keys that create are apart from those of an experiment


def test_a_repeated_key_costs_no_more_in_a_long_log(tmp_path):
    with stores("sqlite", tmp_path) as (store,):
        steps = {}
        for name, count in (("short", 20), ("long", 1000)):
            new(store, name=name)
            commit_group(store, [Choose(name, ["north"], key=f"k{number}") for number in range(count)])
            taken = itertools.count()
            store.close()
            with store.engine.connect() as connection:
                connection.connection.dbapi_connection.set_progress_handler(lambda taken=taken: next(taken) and 0, 1)
            commit(store, Choose(name, ["north"], key="k7"))
            store.close()
            steps[name] = next(taken)
        assert 0 < steps["long"] < 1.2 * steps["short"]


# ---------------------------------------------------------------- erasing


ANNA = "Anna Unverwechselbar"


def in_files(folder, text):
    """Whether a text is in any file of a folder."""
    return any(text.encode() in path.read_bytes() for path in folder.iterdir())


def test_nothing_of_an_erased_player_is_left_in_keys(opened, tmp_path):
    one, other, _ = opened
    about = [
        Create("beers", POLICY, ARMS, [*SHOPS, ANNA], key=f"create {ANNA}"),
        Choose("beers", [ANNA], key=f"choose {ANNA}"),
        Choose("beers", ["north", ANNA], key=f"both {ANNA}"),
        Record("beers", [("north", "tea", 1.0), (ANNA, "tea", 1.0)], key=f"record {ANNA}"),
        Change("beers", retire=[ANNA], key=f"retire {ANNA}"),
        Change("beers", join=[ANNA], key=f"join {ANNA}"),
    ]
    others = [Create("wines", POLICY, ARMS, [*SHOPS, "Bert"], key="k"), Choose("beers", ["north"], key="k")]
    others += [Record("beers", PAST, key="l"), Choose("teas", ["north", "south", "east"], key="k")]
    erasure = Erase("beers", ANNA, key=f"erase {ANNA}")
    for command in about:
        commit(one, command)
    kept = [commit(one, command) for command in others]
    replacement = commit(one, erasure)
    with database.reading(one.engine) as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM requests").scalar() == len(others) + 1
    for store in (one, other):
        assert [commit(store, command) for command in others] == kept
        assert commit(store, erasure) == replacement  # the erasure itself can be repeated,
        with pytest.raises(ConflictingKey):
            commit(store, erasure._replace(player="north"))  # and nothing else with its key
        with pytest.raises(ValueError, match="no player"):
            commit(store, about[1])
    if one.engine.dialect.name == "sqlite":
        assert not in_files(tmp_path, "Unverwechselbar")  # while the service runs, the write-ahead file included
    one.close()
    other.close()
    assert not in_files(tmp_path, "Unverwechselbar")


def test_a_key_that_is_asked_again_in_the_group_that_erased_it_is_new(opened):
    one, _, _ = opened
    first = Choose("teas", ["north", "south"], key="k")
    made, _, again = commit_group(one, [first, Erase("teas", "north"), Choose("teas", ["south"], key="k")])
    assert len(made) == 2
    assert [each.player for each in again] == ["south"]


# ---------------------------------------------------------------- keys of before version 4


@pytest.fixture
def upgraded(tmp_path):
    """A database of version 3, upgraded, and the requests with keys that it had: experiment, key, players, arms."""
    path = tmp_path / "posse.db"
    shutil.copy(SCHEMA_3, path)
    connection = sqlite3.connect(path)
    rows = connection.execute(
        "SELECT e.name, d.request_key, p.name, d.restricted, d.offered, d.serial, d.player FROM decisions d JOIN "
        "experiments e ON e.id = d.experiment JOIN players p ON p.experiment = e.id AND p.place = d.player "
        "WHERE request_key IS NOT NULL ORDER BY 1, 2, d.position"
    ).fetchall()
    connection.close()
    store = ServiceStore(f"sqlite:///{path}", create=True, clock=Clock(2e9))
    rebuild(store)
    yield store, [list(group) for _, group in itertools.groupby(rows, key=lambda row: row[:2])]
    store.close()


def request_of(store, rows):
    """The request for which decisions were made."""
    name, key, _, restricted, offered, _, _ = rows[0]
    arms = [arm for arm, _ in store.read(queries.experiment, name).arms]
    bits = "".join(f"{byte:08b}" for byte in offered)
    available = [arm for arm, bit in zip(arms, bits, strict=False) if bit == "1"] if restricted else None
    return Choose(name, [row[2] for row in rows], available, key)


def test_keys_of_an_older_database_are_answered_and_can_be_erased(upgraded, tmp_path):
    store, made = upgraded
    made = [rows for rows in made if not any("erased-" in row[2] for row in rows)]
    assert {len(rows) for rows in made} == {1, 2}
    for rows in made:
        request = request_of(store, rows)
        assert [each.id.split("-")[0] for each in commit(store, request)] == [f"{row[5]}" for row in rows]
        with pytest.raises(ConflictingKey):
            commit(store, request._replace(players=["east", "south"]))
    stay = [rows for rows in made if not any(row[2] == ANNA for row in rows)]
    answers = [commit(store, request_of(store, rows)) for rows in stay]
    assert in_files(tmp_path, f"of {ANNA}")
    for name in ("teas", "beers"):
        commit(store, Erase(name, ANNA))
    assert not in_files(tmp_path, ANNA)
    assert verify(store) == []
    assert [commit(store, request_of(store, rows)) for rows in stay] == answers
    with database.reading(store.engine) as connection:
        kept = connection.exec_driver_sql("SELECT count(*) FROM decisions WHERE request_key > ''").scalar()
        blank = connection.exec_driver_sql("SELECT max(serial) FROM decisions WHERE request_key = ''").scalar()
    assert kept == sum(map(len, stay))
    with store.engine.begin() as connection:  # the chain goes on after a key that was erased
        connection.exec_driver_sql(f"UPDATE decisions SET shared = 7 WHERE serial = {blank + 1}")
    assert any(f"decisions, serial {blank + 1}: does not match" in str(finding) for finding in verify(store))


def test_keys_of_players_that_were_erased_before_the_upgrade_are_gone(upgraded, tmp_path):
    store, made = upgraded
    gone = [rows for rows in made if any("erased-" in row[2] for row in rows)]
    assert len(gone) > 4
    assert in_files(SCHEMA_3.parent, gone[0][0][1])
    assert not any(in_files(tmp_path, rows[0][1]) for rows in gone)
    assert verify(store) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_database_that_is_new_has_no_keys_in_its_log(backend, tmp_path):
    with new_database(backend, tmp_path) as url:
        store = ServiceStore(url, create=True)
        new(store)
        answered(store)
        commit(store, Choose("teas", ["north"], key="k"))
        with database.reading(store.engine) as connection:
            assert connection.exec_driver_sql("SELECT count(request_key) FROM decisions").scalar() == 0
        store.close()
