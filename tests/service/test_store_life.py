"""An experiment's life: its status, what it ships, its end, and who did what; two workers on both databases."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time

import pytest

import posse
from posse.service.admin.deletion import Delete
from posse.service.admin.rebuild import rebuild
from posse.service.admin.transfer import export_log, import_log
from posse.service.admin.verify import verify
from posse.service.api.bodies import ChangeBody, ExperimentBody
from posse.service.auth import tokens
from posse.service.auth.tokens import CreateToken, RevokeToken
from posse.service.commands import Change, Choose, Create, Erase, Observe, Record, TakeDefaults, _asked
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
from posse.service.storage.lifecycle import LONGEST_DESCRIPTION, MOVES, STATUSES
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit, commit_group
from stores import ARMS, BACKENDS, SHOPS, Clock, answered, counts, new, stores

PLACES = {
    "running": ["paused", "finished"],
    "paused": ["running", "finished"],
    "finished": ["running", "archived"],
    "archived": ["finished"],
}
"""Where each status leads to, from the description of the API."""
WAYS = {"running": [], "paused": ["paused"], "finished": ["finished"], "archived": ["finished", "archived"]}


@contextlib.contextmanager
def workers(backend, folder):
    """Two workers on one database with an experiment, and their clock."""
    with stores(backend, folder, 2, clock := Clock()) as (one, other):
        new(one)
        yield one, other, clock
        assert verify(one) == []


@pytest.fixture(params=BACKENDS)
def opened(request, tmp_path):
    with workers(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def pair(tmp_path):
    """For what depends on no database."""
    with workers("sqlite", tmp_path) as found:
        yield found


@pytest.fixture
def store(pair):
    return pair[0]


def go(store, *statuses, name="teas", **more):
    """Lead an experiment through these; `more` goes with the first."""
    for status in statuses:
        made = commit(store, Change(name, status=status, **more))
        more = {}
    return made


def rows_of(store, table, experiment):
    with database.reading(store.engine) as connection:
        found = connection.exec_driver_sql(f"SELECT * FROM {table}").mappings().all()
    return [row for row in found if row["experiment"] == experiment]


def again(store):
    """Another worker, which holds nothing in memory."""
    url = store.engine.url.render_as_string(hide_password=False).replace("+psycopg", "")
    return ServiceStore(url, clock=store.clock)


# ---------------------------------------------------------------- status


def test_every_way_from_one_status_to_another_is_open_or_refused(store):
    for before, after in itertools.product(STATUSES, STATUSES):
        new(store, name=(name := f"{before} to {after}"))
        for status in WAYS[before]:
            go(store, status, name=name)
        links = store.read(queries.find, name)["links"]
        if after == before or after in PLACES[before]:
            assert go(store, after, name=name).status == after == store.read(queries.experiment, name).status
            assert store.read(queries.find, name)["links"] == links + (after != before)
        else:
            with pytest.raises(Refused, match=f"is {before}, so it can become .*, but not {after}"):
                go(store, after, name=name)
            assert store.read(queries.find, name)["links"] == links
        assert ((before, after) in MOVES) == (after in PLACES[before])


def test_what_each_status_takes(opened):
    one, other, _ = opened
    decisions = [commit(one, Choose("teas", ["north"]))[0] for _ in range(3)]
    go(one, "finished")
    with pytest.raises(Finished, match="'teas' is finished"):
        commit(other, Choose("teas", ["north"]))
    assert commit(other, Observe("teas", [(decisions[0].id, 1.0)]))[0].status == "taken"  # late rewards
    commit(other, Change("teas", join=["west"]))
    go(other, "archived")
    before = other.read(queries.find, "teas")
    for refused in (
        Choose("teas", ["north"]),
        Observe("teas", [(decisions[1].id, 1.0)]),
        Record("teas", [("north", "tea", 1.0)]),
        Change("teas", join=["far west"]),
        Change("teas", description=""),
        Change("teas", status="archived", add_arms=["juice"]),
    ):
        with pytest.raises(Archived, match="'teas' is archived"):
            commit(one, refused)
    assert one.read(queries.find, "teas") == before
    go(one, "archived")  # it is so already
    assert other.read(queries.log_table, "teas").num_rows == 3  # it can be read and exported
    go(one, "finished", "running")
    assert commit(other, Observe("teas", [(decisions[1].id, 1.0)]))[0].status == "taken"
    commit(other, Choose("teas", ["north"]))


def test_archived_ones_are_listed_apart(pair):
    one, other, _ = pair
    new(one, name="beers")
    go(one, "finished", "archived", name="beers")
    for store in (one, other):
        assert [each.name for each in store.read(queries.experiments)] == ["teas"]
        assert [each.name for each in store.read(queries.experiments, archived=True)] == ["beers"]
        assert [each.name for each in store.read(queries.experiments, archived=None)] == ["beers", "teas"]
        assert store.read(queries.count_experiments) == store.read(queries.count_experiments, archived=True) == 1
        assert store.read(queries.experiment, "beers").status == "archived"


def test_an_archived_one_takes_no_defaults_until_it_is_restored(pair):
    one, other, clock = pair
    new(one, name="slow", default_reward=0.0, patience=10.0)
    commit(one, Choose("slow", ["north"]))
    go(one, "finished", "archived", name="slow")
    clock.now += 100
    assert "slow" not in one.read(queries.where_decisions_wait).values()
    commit(other, TakeDefaults("slow"))
    commit(other, Erase("slow", "south"))  # a person may ask for it at any time
    assert counts(one, "slow").pulls.sum() == 0
    go(other, "finished", name="slow")
    commit(one, TakeDefaults("slow"))
    assert counts(one, "slow").pulls.sum() == 1


@pytest.mark.parametrize("held", [True, False], ids=["in memory", "loaded anew"])
def test_defaults_that_came_due_in_the_archive_are_taken_when_it_is_restored(opened, held):
    """By whoever restores it, so that no worker that loads it later takes them for taken."""
    one, _, clock = opened
    new(one, name="slow", default_reward=0.0, patience=10.0)
    commit(one, Choose("slow", SHOPS))
    go(one, "finished", name="slow")
    clock.now += 5
    go(one, "archived", name="slow")
    clock.now += 100
    commit(one, Erase("slow", "south"))
    clock.now += 100
    with contextlib.closing(again(one)) as fresh:
        go(one if held else fresh, "finished", name="slow")
    with contextlib.closing(again(one)) as fresh:
        assert counts(fresh, "slow").pulls.sum() == 3
        assert fresh.read(queries.find, "slow")["waiting"] == 0


def test_a_description_is_text_in_lines(pair):
    one, other, _ = pair
    text = "Which drink?\nAsk Ada. ☕"
    assert commit(one, Change("teas", description=text)).description == text
    links = other.read(queries.find, "teas")["links"]
    commit(other, Change("teas", description=text))
    assert other.read(queries.find, "teas")["links"] == links  # nothing changed
    for wrong in (5, "x" * (LONGEST_DESCRIPTION + 1), "nul\0", "\x1b[31m"):
        with pytest.raises((ValueError, TypeError), match="description="):
            commit(other, Change("teas", join=["west"], description=wrong))
    assert other.read(queries.experiment, "teas").description == text
    assert commit(other, Change("teas", description="")).description == ""
    assert new(one, name="told", description=text).description == text
    kinds = [(row["kind"], row.get("description")) for row in one.read(queries.log, "teas")]
    assert kinds == [("describe", text), ("describe", "")]


# ---------------------------------------------------------------- shipping


def test_a_shipped_arm_is_every_decision_from_then_on(opened):
    one, other, _ = opened
    commit(one, Change("teas", add_arms=["juice"], join=["west"]))
    answered(one)
    made = go(one, "finished", ship="coffee", ship_for={"south": "juice"})
    assert (made.status, made.ship, made.ship_for) == ("finished", "coffee", {"south": "juice"})
    fresh = again(one)
    for store in (one, other, fresh):
        assert store.read(queries.experiment, "teas").ship_for == {"south": "juice"}
        assert [each.ship for each in store.read(queries.experiments)] == ["coffee"]
        chosen = commit(store, Choose("teas", ["north", "south", "west"]))
        assert [(each.player, each.arm, each.propensity) for each in chosen] == [
            ("north", "coffee", 1.0),
            ("south", "juice", 1.0),
            ("west", "coffee", 1.0),
        ]
        assert [each.probabilities for each in chosen] == [{"coffee": 1.0}, {"juice": 1.0}, {"coffee": 1.0}]
        assert len({each.round for each in chosen}) == 1
        assert commit(store, Observe("teas", [(chosen[1].id, 1.0)]))[0].status == "taken"
    fresh.close()
    commit(other, Change("teas", join=["later"]))
    assert commit(one, Choose("teas", ["later"], key="k"))[0].arm == "coffee"
    assert commit(other, Choose("teas", ["later"], key="k"))[0].arm == "coffee"
    rebuild(one)
    assert commit(other, Choose("teas", ["south"]))[0].arm == "juice"
    log = other.read(queries.log_table, "teas")
    assert log["probabilities"][-1].as_py() == [None, None, None, 1.0]  # as if nothing else had been on offer
    posse.Learner.replay(log)


def test_another_arm_can_be_shipped_and_the_experiment_resumed(pair):
    one, other, _ = pair
    go(one, "finished", ship="tea")
    assert go(other, "finished", ship="cocoa", ship_for={"east": "tea"}).ship == "cocoa"
    links = one.read(queries.find, "teas")["links"]
    assert go(one, "finished", ship="cocoa", ship_for={"east": "tea"}).ship_for == {"east": "tea"}
    assert go(one, "finished").ship == "cocoa"
    assert one.read(queries.find, "teas")["links"] == links  # it is so already
    go(other, "archived")
    assert go(one, "finished").ship == "cocoa"
    assert commit(other, Choose("teas", ["east"]))[0].arm == "tea"
    go(one, "archived")
    assert go(other, "finished", ship="tea").ship == "tea"
    assert commit(one, Choose("teas", ["north"]))[0].arm == "tea"
    made = go(one, "running")
    assert (made.ship, made.ship_for) == (None, {})
    assert len(commit(other, Choose("teas", ["north"]))[0].probabilities) == 3
    go(other, "finished")
    with pytest.raises(Finished):
        commit(one, Choose("teas", ["north"]))
    kinds = [row["kind"] for row in one.read(queries.log, "teas") if row["kind"] != "decision"]
    assert kinds == ["finish", "finish", "archive", "restore", "archive", "restore", "finish", "resume", "finish"]
    shipped = [(row["ship"], row["ship_for"]) for row in one.read(queries.log, "teas") if row["kind"] == "finish"]
    assert shipped == [("tea", {}), ("cocoa", {"east": "tea"}), ("tea", {}), (None, {})]


def test_where_the_shipped_arm_is_not_available_the_policy_chooses(store):
    go(store, "finished", ship="tea")
    made = commit(store, Choose("teas", ["north"], available=["coffee", "cocoa"]))[0]
    assert set(made.probabilities) == {"coffee", "cocoa"}
    assert commit(store, Choose("teas", ["north"], available=["tea", "cocoa"]))[0].arm == "tea"
    commit(store, Change("teas", retire_arms=["tea"]))
    assert set(commit(store, Choose("teas", ["north"]))[0].probabilities) == {"coffee", "cocoa"}


def test_what_cannot_be_shipped_is_refused_and_changes_nothing(store):
    commit(store, Change("teas", add_arms=["old"]))
    commit(store, Change("teas", retire_arms=["old"]))
    before = store.read(queries.find, "teas")
    for wrong, said in (
        ({"ship": "beer"}, "no arm 'beer'"),
        ({"ship": "old"}, "'old' has retired"),
        ({"ship_for": {"north": "tea"}}, "expected ship too"),
        ({"ship": "tea", "ship_for": {"nobody": "tea"}}, "no player 'nobody'"),
        ({"ship": "tea", "ship_for": {"north": "beer"}}, "no arm 'beer'"),
        ({"ship": "tea", "ship_for": ["north"]}, "ship_for="),
        ({"ship": "tea", "retire_arms": ["tea"]}, "ship='tea', but retire_arms has it too"),
        ({"ship": "tea", "ship_for": {"north": "cocoa"}, "retire_arms": ["cocoa"]}, "ship='cocoa', but"),
        ({"ship": "tea", "status": None}, "expected 'finished' together with ship"),
        ({"ship": "tea", "status": "paused"}, "expected 'finished' together with ship"),
        ({"status": "over"}, "status='over', but expected running"),
    ):
        with pytest.raises((ValueError, TypeError), match=said):
            commit(store, Change("teas", **{"status": "finished", "join": ["west"], **wrong}))
    assert store.read(queries.find, "teas") == before


def test_an_erased_player_keeps_its_shipped_arm_under_its_new_name(pair):
    one, other, _ = pair
    made = go(one, "finished", ship="tea", ship_for={"north": "cocoa"})
    erased = commit(other, Erase("teas", "north"))
    assert one.read(queries.experiment, "teas").ship_for == {erased: "cocoa"}
    assert one.read(queries.log, "teas")[0]["ship_for"] == {erased: "cocoa"}
    assert made.ship_for == {"north": "cocoa"}


# ---------------------------------------------------------------- keys


def test_a_change_with_a_key_has_the_answer_of_then(pair):
    one, other, _ = pair
    finish = Change("teas", status="finished", ship="tea", ship_for={"north": "cocoa"}, description="d", key="k")
    first = commit(one, finish)
    commit(one, Change("teas", status="running", description="other"))
    for store in (one, other):
        assert commit(store, finish) == first
        assert commit(store, finish._replace(by="somebody else")) == first
        for another in ({"ship": "cocoa"}, {"ship_for": {}}, {"description": ""}, {"description": None}):
            with pytest.raises(ConflictingKey):
                commit(store, finish._replace(**another))
    assert one.read(queries.experiment, "teas").status == "running"


def test_what_was_asked_before_there_was_a_status_is_known_by_its_key():
    """The texts are of version 4: a client may repeat its request after the upgrade."""
    change = Change("teas", **ChangeBody(join=["west"]).model_dump(), key="k", by="Ada")
    said = '{"add_arms": [], "experiment": "teas", "join": ["west"], "key": null, "knows_others": true, "paused": null'
    assert _asked(change) == said + ', "retire": [], "retire_arms": []}'
    said = '{"arms": ["a"], "attributes": {}, "default_reward": null, "experiment": "teas", "floor": 0.0, "holdout": '
    said += '0.0, "horizon": null, "key": null, "patience": null, "player_limit": 100000, "players": [], "policy": '
    said += '"IndTS(label=\'Ind-TS\', forget=None, c2=1.0)", "reward_range": [0.0, 1.0], "seed": null}'
    body = ExperimentBody(name="teas", arms=["a"]).model_dump(exclude={"name", "policy"})
    assert _asked(Create("teas", posse.IndTS(), **body, key="k", by="Ada")) == said


# ---------------------------------------------------------------- deleting


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
    found = {row.id: row for row in one.read(tokens.all_tokens)}
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


def test_another_worker_decides_while_the_experiment_ends_and_begins_anew(opened):
    one, other, _ = opened
    met, stop = [], threading.Event()

    def decide():
        while not stop.wait(0.01):  # SQLite has no queue: who never rests lets nobody else write
            try:
                met.append(commit(other, Choose("teas", ["north"]))[0].arm in ARMS)
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
    assert set(met) <= {True, Finished, Archived, UnknownExperiment}
    assert True in met
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
    assert [row.id for row in one.read(tokens.all_tokens)] == [tokens.number_of(secret)] == [1]
    commit(one, RevokeToken(1, "r"))
    commit(other, RevokeToken(1, "r"))
    with pytest.raises(ConflictingKey):
        commit(other, RevokeToken(2, "r"))
