"""`verify` finds every fault that is sown, and says which; `rebuild` mends what follows from the log, and only that."""

from __future__ import annotations

import random
import re
import sqlite3

import pytest

import posse
from posse.service.admin.rebuild import rebuild
from posse.service.admin.verify import verify
from posse.service.auth import CreateToken
from posse.service.commands import Change, Choose, Observe, Record
from posse.service.storage import queries
from posse.service.storage.errors import Damaged
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit
from stores import SHOPS, Clock, answered, counts, new, stores

LOGS = ("decisions", "rewards", "changes", "outcomes")
ANSWERED = 15  # the serial number of a decision with a reward
BESIDE = ("status", "description", "shares", "rounds", "decisions", "events", "time", "rewards", "waiting")


@pytest.fixture
def path(written, tmp_path):
    """A database in which everything has happened, closed."""
    (tmp_path / "posse.db").write_bytes(written)
    return tmp_path / "posse.db"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What is in its file."""
    clock, folder = Clock(), tmp_path_factory.mktemp("written")
    with stores("sqlite", folder, 1, clock) as (store,):
        for name, policy in (("teas", posse.PosseTS()), ("beers", posse.RobustAggTS(0.1))):
            new(store, policy, name, default_reward=0.0, patience=50, outcomes={"refund": {"at_most": 0.5}})
            commit(store, Record(name, [("north", "tea", 0.5)]))
            for step in range(12):
                clock.now += 5
                commit(store, Choose(name, SHOPS, available=["tea", "coffee"] if step % 3 else None, key=f"key {step}"))
                decision = answered(store, name, SHOPS[step % 3], step / 12)
                commit(store, Observe(name, [(decision.id, None, {"refund": step / 24})]))
            changes = {"join": ["west"], "retire": ["north"], "add_arms": ["juice"], "shares": {"tea": 0.2}}
            commit(store, Change(name, **changes, status="paused"))
        commit(store, CreateToken(["decide", "reward"], "teas", 3600, "a label"))
        assert verify(store) == []
    return (folder / "posse.db").read_bytes()


def findings(path, name=None):
    """What `verify` says, as text."""
    store = ServiceStore(f"sqlite:///{path}")
    try:
        return [str(finding) for finding in verify(store, name)]
    finally:
        store.close()


def tamper(path, *statements):
    """Change a database behind everybody's back."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        for statement in statements:
            assert connection.execute(statement).rowcount != 0, statement
    connection.close()


def columns(path, table):
    connection = sqlite3.connect(path)
    found = [(row[1], bool(row[5])) for row in connection.execute(f"PRAGMA table_info({table})")]
    connection.close()
    return found


def flipped(value, chance):
    """A value with one bit, or one character, changed."""
    if value is None:
        return "x"
    if isinstance(value, bytes):
        place = chance.randrange(len(value)) if value else 0
        return value[:place] + bytes([(value[place] if value else 0) ^ (1 << chance.randrange(8))]) + value[place + 1 :]
    if isinstance(value, str):
        place = chance.randrange(len(value)) if value else 0
        return value[:place] + ("x" if value[place : place + 1] != "x" else "y") + value[place + 1 :]
    if isinstance(value, float):
        return value + (1 + abs(value)) * 2.0 ** -chance.randrange(1, 40)
    return value ^ (1 << chance.randrange(8))


def flip(path, table, column, chance):
    """Change one value of a column; return what and where."""
    connection = sqlite3.connect(path)
    keys = [name for name, key in columns(path, table) if key]
    rows = connection.execute(f"SELECT {', '.join(keys)}, {column} FROM {table}").fetchall()
    *key, value = chance.choice(rows)
    where = " AND ".join(f"{name} = ?" for name in keys)
    new_value = flipped(value, chance)
    try:
        with connection:
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", [new_value, *key])
    except sqlite3.IntegrityError:  # there is such a row already
        return flip(path, table, column, chance)
    finally:
        connection.close()
    return f"{table}.{column} of {key}: {value!r} became {new_value!r}"


@pytest.mark.parametrize(
    "table",
    ["experiments", "players", "arms", *LOGS, "requests", "stats", "outcome_stats", "summaries", "tokens"],
)
def test_a_changed_value_in_any_column_is_found(path, table, tmp_path):
    chance = random.Random(table)
    whole = path.read_bytes()
    for column, _ in columns(path, table):
        for _ in range(1 if table.startswith("outcome") else 3):
            path.write_bytes(whole)
            what = flip(path, table, column, chance)
            found = findings(path)
            assert found, what
            assert any(table in one or "log" in one for one in found), (what, found)
    path.write_bytes(whole)
    assert findings(path) == []


@pytest.mark.parametrize("table", LOGS)
def test_the_row_that_was_changed_is_named_and_no_other(path, table):
    values = {"decisions": "propensity", "rewards": "reward", "changes": "at", "outcomes": "value"}
    column, key = values[table], "link" if table == "changes" else "serial"
    connection = sqlite3.connect(path)
    serials = [row[0] for row in connection.execute(f"SELECT {key} FROM {table} WHERE experiment = 1 ORDER BY link")]
    connection.close()
    tamper(path, f"UPDATE {table} SET {column} = {column} * 0.5 + 0.01 WHERE experiment = 1 AND {key} = {serials[1]}")
    found = findings(path)
    assert f"'teas': {table}, {key} {serials[1]}: does not match its digest" in found[0]
    assert [one for one in found if "does not match" in one] == found[:1]
    assert not any("beers" in one for one in found)
    assert findings(path, "beers") == []


def test_a_changed_digest_is_the_fault_of_its_own_row_only(path):
    tamper(path, "UPDATE decisions SET digest = zeroblob(32) WHERE experiment = 1 AND serial = 5")
    found = findings(path)
    assert ["serial 5: does not match its digest" in one for one in found] == [True, False]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (f"DELETE FROM rewards WHERE experiment = 1 AND serial = {ANSWERED}", r"log: row \d+ is missing"),
        ("DELETE FROM decisions WHERE experiment = 1 AND serial BETWEEN 4 AND 6", "rows .* are missing"),
        (
            "DELETE FROM changes WHERE experiment = 1 AND link = (SELECT max(link) FROM changes WHERE experiment = 1)",
            r"ends with row \d+.* but its head is row \d+.*its end is missing",
        ),
        (
            "INSERT INTO rewards SELECT experiment, serial - 1000, link + 1000, event, round, player, arm, reward, "
            "seen_n, seen_s, defaulted, observed_at, digest FROM rewards WHERE experiment = 1 AND link = 1",
            "missing",
        ),
        (
            "UPDATE rewards SET player = 1 - player WHERE experiment = 1 AND serial = 3",
            "rewards: serial 3 is for player",
        ),
        ("DELETE FROM stats WHERE experiment = 1 AND player = 2 AND arm = 1", "player 2, arm 1: the row is missing"),
        ("INSERT INTO stats VALUES (1, 99, 0, 0, 0, x'')", "player 99, arm 0: there is a row"),
        ("INSERT INTO stats VALUES (1, 3, 3, 0, 0, zeroblob(48))", "player 3, arm 3: there is a row.* without data"),
        ("DELETE FROM summaries", "'teas': summaries: content is None, but the log says [0-9]+ bytes"),
        ("INSERT INTO summaries VALUES (2, 3, x'00')", "'beers': summaries: content is 1 bytes.*the log says None"),
        (
            "UPDATE stats SET pulls = pulls + 1 WHERE experiment = 2 AND player = 0 AND arm = 0",
            r"pulls is \d+, but the log",
        ),
        ("UPDATE experiments SET rounds = 7 WHERE id = 2", "rounds is 7, but the log says 25"),
        ("UPDATE players SET name = 'x' WHERE experiment = 2 AND place = 0", "players, place 0: the name 'x' does not"),
        ("UPDATE arms SET here = 0 WHERE experiment = 2 AND place = 0", "arms, place 0: here is 0, but the log says 1"),
        ("UPDATE decisions SET experiment = 77 WHERE experiment = 2 AND serial = 0", "1 rows belong to experiment 77"),
        ("UPDATE tokens SET scopes = 'admin'", "tokens, id 1: does not match its digest"),
        (
            f"UPDATE rewards SET reward = 'much' WHERE experiment = 1 AND serial = {ANSWERED}",
            "a column is not of its kind",
        ),
        ("UPDATE experiments SET setup = '{' WHERE id = 1", "do not match origin"),
    ],
)
def test_what_is_wrong_is_said(path, statement, said):
    tamper(path, statement)
    found = findings(path)
    assert any(re.search(said, one) for one in found), found


def test_a_truncated_file_is_found_and_raises_nothing_else(path):
    whole = path.read_bytes()
    for share in (0.1, 0.3, 0.5, 0.7, 0.9, 0.99):
        path.write_bytes(whole[: int(len(whole) * share) // 4096 * 4096])
        try:
            found = findings(path)
        except Damaged as error:
            found = [str(error)]
        assert any("malformed" in one or "database file" in one for one in found), (share, found)


def test_random_damage_to_the_file_is_refused_or_found_or_harmless(path):
    """Whatever is read in spite of the damage is what was written."""
    chance, whole = random.Random(1), path.read_bytes()
    store = ServiceStore(f"sqlite:///{path}")
    expected = store.read(queries.log_table, "teas"), store.read(queries.experiment, "teas")
    store.close()
    noticed = 0
    for _ in range(80):
        place = chance.randrange(200, len(whole))
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << chance.randrange(8))]) + whole[place + 1 :])
        try:
            found = findings(path)
            if not found:
                store = ServiceStore(f"sqlite:///{path}")
                assert (store.read(queries.log_table, "teas"), store.read(queries.experiment, "teas")) == expected
                store.close()
        except (Damaged, ValueError) as error:
            found = [str(error)]
        noticed += bool(found)
    assert noticed > 10


@pytest.mark.parametrize(
    "content", ["x'00'", "substr(content, 1, length(content) - 8)", "CAST(content || x'00' AS BLOB)"]
)
def test_rebuild_mends_a_summary(path, content):
    tamper(path, f"UPDATE summaries SET content = {content}")
    store = ServiceStore(f"sqlite:///{path}", clock=Clock(2000))
    with pytest.raises(
        Damaged, match="what PosseTS keeps in experiment 1 beside its log is missing, or as another version"
    ):
        commit(store, Choose("teas", ["south"]))
    assert [finding.experiment for finding in verify(store)] == ["teas"]
    rebuild(store, "teas")
    commit(store, Change("teas", status="running"))
    commit(store, Choose("teas", ["south"]))
    assert verify(store) == []
    store.close()


@pytest.mark.parametrize("column", BESIDE)
def test_rebuild_mends_the_experiments_row(path, column):
    tamper(path, f"UPDATE experiments SET {column} = {column} + 1 WHERE id = 1")
    assert findings(path)
    store = ServiceStore(f"sqlite:///{path}")
    assert rebuild(store) == ["teas", "beers"]
    assert verify(store) == []
    store.close()


def test_rebuild_mends_stats_and_who_is_here_and_other_workers_notice(path):
    untouched = ServiceStore(f"sqlite:///{path}", clock=Clock(2000))
    expected = counts(untouched, "teas").pulls.tolist()
    tamper(path, "UPDATE stats SET arm = -1 - arm WHERE arm < 2", "UPDATE stats SET arm = 2 + arm WHERE arm < 0")
    tamper(path, "UPDATE stats SET pulls = pulls + 5", "UPDATE players SET here = 0")
    worker, other = (ServiceStore(f"sqlite:///{path}", clock=Clock(2000)) for _ in range(2))
    commit(worker, Observe("teas", []))
    rebuild(other)
    commit(worker, Change("teas", status="running"))
    commit(worker, Choose("teas", ["south"]))
    assert verify(worker) == []
    assert counts(worker, "teas").pulls.sum() >= sum(map(sum, expected))
    for store in (untouched, worker, other):
        store.close()


@pytest.mark.parametrize(
    "statement",
    [
        f"DELETE FROM rewards WHERE experiment = 1 AND serial = {ANSWERED}",
        "UPDATE decisions SET arm = 0 WHERE experiment = 1",
        "DELETE FROM changes WHERE experiment = 1 AND link = (SELECT max(link) FROM changes WHERE experiment = 1)",
    ],
)
def test_rebuild_does_not_touch_a_damaged_log(path, statement):
    tamper(path, statement)
    before = path.read_bytes()
    store = ServiceStore(f"sqlite:///{path}")
    with pytest.raises(Damaged, match="the log of 'teas' is damaged, restore a backup"):
        rebuild(store)
    store.close()
    assert path.read_bytes() == before


def test_a_token_for_all_experiments_is_right_even_before_the_first(tmp_path):
    with stores("sqlite", tmp_path) as (store,):
        commit(store, CreateToken(["admin"]))
        assert verify(store) == []
