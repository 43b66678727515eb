"""Players with attributes in the service: everything is as with a learner in memory, and nothing is left of who was
erased."""

from __future__ import annotations

import sqlite3

import pytest
from fleet import FULL
from test_learner_combinations import ARMS, COMBINATIONS, DECLARED

import posse
from posse.service.admin.rebuild import rebuild
from posse.service.admin.transfer import export_log, import_log
from posse.service.admin.verify import verify
from posse.service.commands import Change, Choose, Create, Erase, Observe, Record
from posse.service.storage import queries
from posse.service.storage.errors import ConflictingKey, Paused
from posse.service.storage.transaction import commit, commit_group
from stores import BACKENDS, Clock, stores

POLICIES = [
    posse.PosseTS(),
    posse.RobustAggTS(0.1),
    posse.IndTSV(),
    *([posse.RobustPosseTS(0.1, 400)] if FULL else []),
    posse.TreeTS(),
    posse.MixedTS(0.1, 0.2),
]
by_label = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.label)


def new(store, policy=posse.PosseTS(), **options):
    options = {"arms": ARMS, "seed": 3, "attributes": DECLARED, **options}
    return commit(store, Create("teas", policy, **options))


def state_of(store, name="teas"):
    return store.read(queries.live_experiment, name).state


def reward_of(given, arm):
    return 0.25 + 0.5 * ((given["region"], arm) in {("south", "tea"), ("north", "coffee")})


def busy(store, rounds=60, first=0):
    """Decisions for combinations, most with rewards."""
    for number in range(first, first + rounds):
        given = COMBINATIONS[number * number % len(COMBINATIONS)]
        (made,) = commit(store, Choose("teas", [given]))
        if number % 5:
            commit(store, Observe("teas", [(made.id, reward_of(given, made.arm))]))


def assert_same(first, second):
    """Two states are the same, and so are their next decisions."""
    assert (first.player_roster.names, first.values) == (second.player_roster.names, second.values)
    for name in first.core.kept:
        assert getattr(first.known, name).tolist() == getattr(second.known, name).tolist(), name
    for player in range(len(first.values)):
        assert first.evaluate(player)[:3].tolist() == second.evaluate(player)[:3].tolist()


@pytest.mark.parametrize("backend", BACKENDS)
@by_label
def test_two_workers_decide_as_one_learner(backend, policy, tmp_path):
    with stores(backend, tmp_path, 2) as pair:
        players = {"shop": {"device": "phone"}}
        new(pair[0], policy, players=players)
        learner = posse.Learner(policy, ARMS, players, seed=3, attributes=DECLARED, clock=Clock())
        for number in range(60):
            store, given = pair[number % 3 == 0], COMBINATIONS[number * number % len(COMBINATIONS)]
            several = [given, {"age": number}, given] if number % 4 == 0 else [given]
            made = commit(store, Choose("teas", several))
            assert made == learner.choose(several)
            if number % 5:
                pairs = [(each.id, reward_of(given, each.arm)) for each in made]
                commit(store, Observe("teas", pairs))
                learner.observe(pairs)
            if number == 30:
                commit(store, Change("teas", join={"late": {"region": "east", "age": 70}}, knows_others=False))
                learner.join("late", {"region": "east", "age": 70}, knows_others=False)
        for store in pair:
            assert_same(state_of(store), learner.state)
            assert verify(store) == []
        table = pair[0].read(queries.log_table, "teas")
        assert table.drop_columns(["decided_at", "observed_at"]).equals(
            learner.log().drop_columns(["decided_at", "observed_at"])
        )
        assert pair[0].read(queries.players, "teas")[0] == ("shop", True, {"device": "phone"})


@by_label
def test_what_is_beside_the_log_is_made_anew_from_it(policy, tmp_path):
    with stores("sqlite", tmp_path) as (store,):
        new(store, policy, players={"shop": {"device": "phone"}})
        busy(store)
        before = state_of(store)
        rebuild(store)
        assert verify(store) == []
        if policy.of_value:
            assert before.known.of_value.any()
        assert_same(state_of(store), before)


@by_label
def test_an_export_replays_and_is_imported(policy, tmp_path):
    with stores("sqlite", tmp_path) as (store,):
        new(store, policy, players={"shop": {"device": "phone"}, "other": {}})
        busy(store)
        commit(store, Erase("teas", "shop"))
        commit(store, Erase("teas", "region=south, device=phone, age=below 18"))
        busy(store, first=60, rounds=7)
        export_log(store, "teas", tmp_path / "log.parquet")
        import_log(store, "again", tmp_path / "log.parquet")
        assert verify(store) == []
        replayed = posse.Learner.replay(store.read(queries.log_table, "teas"), clock=Clock())
        assert_same(state_of(store), replayed.state)
        assert_same(state_of(store, "again"), replayed.state)
        (made,) = commit(store, Choose("teas", [COMBINATIONS[3]]))
        assert made == replayed.choose(COMBINATIONS[3])


@by_label
def test_who_joined_after_the_last_summary_is_no_part_of_it(policy, tmp_path):
    """Among many, a join makes no summary: the one in the database stays, and all adds up."""
    with stores("sqlite", tmp_path, 2) as (store, other):
        new(store, policy, players=[f"shop {number}" for number in range(20)])
        commit(store, Record("teas", [(f"shop {number}", "tea", 0.5) for number in range(20)]))
        commit(store, Choose("teas", [{"region": "south"}]))
        assert verify(store) == []
        assert_same(state_of(other), state_of(store))


class TestRequests:
    def test_with_a_key_a_combination_joins_once(self, tmp_path):
        with stores("sqlite", tmp_path) as (store,):
            new(store)
            command = Choose("teas", [{"region": "south"}, {"region": "south"}, {"age": 3}], None, "key")
            first, again = commit_group(store, [command, command])
            assert first == again == commit(store, command)
            assert [each.player for each in first] == ["region=south", "region=south", "age=below 18"]
            assert state_of(store).events == 2
            with pytest.raises(ConflictingKey):
                commit(store, command._replace(players=[{"region": "north"}]))
            assert state_of(store).events == 2

    def test_what_is_refused_leaves_no_trace(self, tmp_path):
        with stores("sqlite", tmp_path) as (store,):
            new(store, player_limit=2, players=["shop"])
            links = store.read(queries.find, "teas")["links"]
            for command, error in [
                (Choose("teas", [{"region": "a"}, {"region": "b"}]), "3 players, but player_limit=2"),
                (Choose("teas", [{"region": "a"}, {"regio": "b"}]), "'regio' was not declared"),
                (Choose("teas", [{"region": "a"}], ["milk"]), "no arm 'milk'"),
                (Choose("teas", [{"region": "a"}, "nobody"]), "no player 'nobody'"),
                (Change("teas", join=["a", "b"]), "3 players, but player_limit=2"),
                (Change("teas", join={"a": {"age": "old"}}), "player 'a': attribute age='old'"),
                (Change("teas", join={"shop": {"age": 3}}), "has the attributes it came with"),
            ]:
                with pytest.raises((ValueError, TypeError), match=error):
                    commit(store, command)
            commit(store, Change("teas", status="paused"))
            with pytest.raises(Paused):
                commit(store, Choose("teas", [{"region": "a"}]))
            assert store.read(queries.find, "teas")["links"] == links + 1
            assert state_of(store).player_roster.names == ["shop"]

    def test_declarations_are_checked(self, tmp_path):
        with stores("sqlite", tmp_path) as (store,):
            for options, error in [
                ({"attributes": {"reward": "category"}}, "has the name of a column of the log"),
                ({"attributes": {"age": [3, 1]}}, "rising numbers"),
                ({"player_limit": 0}, "player_limit=0"),
                ({"players": {"shop": {"size": 3}}}, "player 'shop': attribute 'size' was not declared"),
            ]:
                with pytest.raises((ValueError, TypeError), match=error):
                    new(store, **options)
            assert store.read(queries.experiments) == []

    def test_a_player_that_comes_back_keeps_its_attributes(self, tmp_path):
        with stores("sqlite", tmp_path) as (store,):
            new(store, players={"shop": {"region": "south"}})
            commit(store, Change("teas", retire=["shop"]))
            commit(store, Change("teas", join=["shop"]))
            assert state_of(store).values == [("south", None, None)]
            assert verify(store) == []


class TestErasure:
    @by_label
    def test_nothing_is_left_of_the_attributes_and_all_still_adds_up(self, policy, tmp_path):
        secret = "Hinterbrühl"
        with stores("sqlite", tmp_path, 2) as (store, other):
            new(store, policy, players=["shop"])
            busy(store, rounds=20)
            (made,) = commit(store, Choose("teas", [{"region": secret, "age": 44}]))
            commit(store, Observe("teas", [(made.id, 1.0)]))
            busy(other, rounds=5, first=20)
            assert secret.encode() in (tmp_path / "posse.db").read_bytes() + (tmp_path / "posse.db-wal").read_bytes()
            replacement = commit(store, Erase("teas", made.player))
            for path in tmp_path.iterdir():
                assert secret.encode() not in path.read_bytes()
            place = state_of(store).player_roster.place(replacement)
            assert state_of(store).values[place] == (None, None, None)
            assert verify(store) == []
            busy(other, rounds=5, first=25)  # the other worker comes to the same
            busy(store, rounds=5, first=30)
            assert verify(store) == []
            (again,) = commit(other, Choose("teas", [{"region": secret, "age": 44}]))
            assert again.player == made.player
            assert state_of(store).player_roster.place(again.player) > place
            before = state_of(store)
            rebuild(store)
            assert_same(state_of(store), before)

    def test_without_attributes_an_erasure_is_no_event(self, tmp_path):
        with stores("sqlite", tmp_path) as (store,):
            new(store, attributes=None, players=["shop", "other"])
            commit(store, Record("teas", [("shop", "tea", 1.0)]))
            commit(store, Change("teas", retire=["shop"]))
            events = state_of(store).events
            commit(store, Erase("teas", "shop"))
            assert state_of(store).events == events


class TestDamage:
    @pytest.mark.parametrize(
        ("attributes", "said"),
        [
            ('["north", null, null]', "does not match its digest"),
            (None, "does not match its digest"),
            ('["south"', "cannot be replayed"),
            ('["south", null, 9]', "cannot be replayed"),
        ],
    )
    def test_a_changed_attribute_is_noticed(self, attributes, said, tmp_path):
        with stores("sqlite", tmp_path) as (store,):
            new(store)
            busy(store, rounds=6)
            with sqlite3.connect(tmp_path / "posse.db") as connection:
                connection.execute("UPDATE players SET attributes = ? WHERE place = 1", [attributes])
            connection.close()
            found = [str(finding) for finding in verify(store)]
            assert any(said in finding for finding in found), found
