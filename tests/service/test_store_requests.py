"""Requests: what is taken once, what is refused, and that a refusal changes nothing."""

from __future__ import annotations

import itertools
import math
import threading
from dataclasses import replace

import pytest

import posse
from posse.service.admin.verify import verify
from posse.service.commands import Change, Choose, Erase, Observe, Record, TakeDefaults
from posse.service.storage import database, queries
from posse.service.storage.errors import ConflictingKey, ExperimentExists, Paused, UnknownExperiment
from posse.service.storage.transaction import commit, commit_group
from stores import ARMS, BACKENDS, SHOPS, Clock, answered, counts, new, stores


@pytest.fixture(params=BACKENDS)
def opened(request, tmp_path):
    """Two workers on one database, and their clock."""
    clock = Clock()
    with stores(request.param, tmp_path, 2, clock) as (one, other):
        yield one, other, clock
        assert verify(one) == []


@pytest.fixture
def store(tmp_path):
    with stores("sqlite", tmp_path) as (store,):
        new(store)
        yield store
        assert verify(store) == []


def whole(store):
    """Everything there is, to be compared."""
    with database.reading(store.engine) as connection:
        return {
            table: connection.exec_driver_sql(f"SELECT * FROM {table} ORDER BY 1, 2, 3").all()
            for table in ("experiments", "players", "arms", "decisions", "rewards", "changes", "stats")
        }


class TestExperiments:
    def test_what_was_created_is_there_for_every_worker(self, opened):
        one, other, clock = opened
        made = new(one, posse.PosseTS(), horizon=1000, floor=0.01)
        assert (
            made
            == other.read(queries.experiment, "teas")
            == replace(other.read(queries.experiments)[0], players=made.players)
        )
        assert (made.players, made.arms) == ([(shop, True) for shop in SHOPS], [(arm, True) for arm in ARMS])
        assert (made.setup.horizon, made.setup.floor, made.created_at) == (1000, 0.01, clock.now)
        assert (made.rounds, made.decisions, made.events, made.rewards, made.waiting) == (0, 0, 0, 0, 0)

    def test_a_policy_that_forgets_is_refused(self, store):
        with pytest.raises(ValueError, match=r"forget=50, but the service has no policies that forget"):
            new(store, posse.PosseTS(forget=50), name="forgetful")

    def test_a_name_is_taken_once(self, opened):
        one, other, _ = opened
        new(one)
        for store in (one, other):
            with pytest.raises(ExperimentExists, match="'teas' already"):
                new(store)

    def test_many_at_once_make_one(self, opened):
        made, refused = [], []

        def create(store):
            try:
                made.append(new(store))
            except ExperimentExists:
                refused.append(store)

        threads = [threading.Thread(target=create, args=(store,)) for store in opened[:2] for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(made), len(refused)) == (1, 9)

    def test_one_without_a_seed_draws_its_own(self, store):
        seeds = {new(store, name=f"number {k}", seed=None).setup.seed for k in range(5)}
        assert len(seeds) == 5

    @pytest.mark.parametrize("name", ["", " ", "a/b", "a\\b", ".", "..", "x" * 201, "nul\0", 5, None])
    def test_odd_names_are_refused(self, store, name):
        before = whole(store)
        with pytest.raises((ValueError, TypeError)):
            new(store, name=name)
        assert whole(store) == before

    def test_unknown_ones_are_named(self, store):
        for query in (queries.experiment, queries.live_experiment, queries.log, queries.log_table):
            with pytest.raises(UnknownExperiment, match="no experiment 'beers'"):
                store.read(query, "beers")
        with pytest.raises(UnknownExperiment):
            commit(store, Choose("beers", ["north"]))

    def test_players_and_arms_come_and_go_all_or_nothing(self, opened):
        one, other, _ = opened
        new(one, floor=0.2)
        made = commit(one, Change("teas", join=["west"], retire=["north"], add_arms=["juice"], retire_arms=["tea"]))
        assert made.players == [("north", False), ("south", True), ("east", True), ("west", True)]
        assert made.arms == [("tea", False), ("coffee", True), ("cocoa", True), ("juice", True)]
        before = whole(one)
        for wrong in (
            {"join": ["new", "west"]},
            {"join": ["new"], "retire": ["nobody"]},
            {"join": ["new"], "retire_arms": ["coffee", "cocoa", "juice"]},
            {"add_arms": ["a", "b", "c"]},
            {"join": ["new", "new"]},
            {"join": ["new"], "status": "stopped"},
            {"join": ["new"], "shares": {"coffee": 2}},
            {"join": ["new"], "shares": {"nobody": 0.1}},
            {"add_arms": ["a"], "shares": {"coffee": 0.5}},
        ):
            with pytest.raises((ValueError, TypeError)):
                commit(other, Change("teas", **wrong))
        assert whole(one) == before
        assert commit(other, Change("teas", join=["north"])).players[0] == ("north", True)

    def test_a_paused_one_takes_rewards_and_decides_nothing(self, opened):
        one, other, _ = opened
        new(one)
        decision = commit(one, Choose("teas", ["north"], key="before"))[0]
        assert commit(one, Change("teas", status="paused")).status == "paused"
        with pytest.raises(Paused, match="'teas' is paused"):
            commit(other, Choose("teas", ["north"]))
        assert commit(other, Choose("teas", ["north"], key="before")) == [decision]
        assert commit(other, Observe("teas", [(decision.id, 1.0)]))[0].status == "taken"
        commit(other, Change("teas", status="running"))
        commit(one, Choose("teas", ["north"]))


class TestKeys:
    def test_the_same_key_gives_the_same_decisions_again(self, opened):
        one, other, clock = opened
        new(one, holdout=0.3)
        made = commit(one, Choose("teas", ["north", "south"], available=["tea", "cocoa"], key="k1"))
        clock.now += 10
        answered(one)
        for store in (one, other):
            assert commit(store, Choose("teas", ["north", "south"], available=["cocoa", "tea"], key="k1")) == made
        assert one.read(queries.experiment, "teas").decisions == 3
        assert list(made[0].probabilities) == ["tea", "cocoa"]

    def test_arms_that_came_or_went_since_do_not_matter(self, opened):
        one, other, _ = opened
        new(one, posse.IndUCB())
        made = commit(one, Choose("teas", ["north"], key="k"))
        commit(one, Change("teas", add_arms=["juice"], retire_arms=["tea"], retire=["north"]))
        assert commit(other, Choose("teas", ["north"], key="k")) == made

    def test_another_request_with_the_key_is_refused(self, store):
        commit(store, Choose("teas", ["north", "south"], key="k"))
        before = whole(store)
        for players, available in (
            (["south", "north"], None),
            (["north"], None),
            (["north", "south", "east"], None),
            (["north", "south"], ARMS),
            (["nobody"], None),
        ):
            with pytest.raises(ConflictingKey, match="'k' came before"):
                commit(store, Choose("teas", players, available, key="k"))
        assert whole(store) == before

    def test_keys_belong_to_one_experiment(self, store):
        new(store, name="beers")
        commit(store, Choose("teas", ["north"], key="k"))
        commit(store, Choose("beers", ["south"], key="k"))


class TestRewards:
    def test_every_report_has_its_own_answer(self, opened):
        one, other, _ = opened
        new(one)
        first, second, third = commit(one, Choose("teas", SHOPS))
        commit(one, Observe("teas", [(first.id, 0.5)]))
        reports = [
            (first.id, 0.5),
            (first.id, 0.25),
            (second.id, 1.0),
            (second.id, 1.0),
            (second.id, 0.0),
            (third.id, 2.0),
            (third.id, float("nan")),
            (third.id, "1"),
            ("99-00000000", 1.0),
            (third.id[:-1] + ("0" if third.id[-1] != "0" else "1"), 1.0),
            ("nonsense", 1.0),
            (None, 1.0),
        ]
        outcomes = commit(other, Observe("teas", reports))
        expected = "known conflict taken known conflict invalid invalid invalid unknown unknown unknown unknown"
        assert [outcome.status for outcome in outcomes] == expected.split()
        assert "already has the reward 0.5; 0.25 is refused" in outcomes[1].detail
        assert counts(one, "teas").pulls.sum() == 2
        assert one.read(queries.experiment, "teas").waiting == 1

    def test_rewards_sent_twice_from_different_workers_and_out_of_order_count_once(self, opened):
        one, other, _ = opened
        new(one)
        made = [decision for _ in range(20) for decision in commit(one, Choose("teas", SHOPS))]
        for store, order in ((one, made[::-1]), (other, made), (one, made[::2])):
            commit(store, Observe("teas", [(decision.id, 0.5) for decision in order]))
        assert counts(one, "teas").pulls.sum() == counts(other, "teas").pulls.sum() == 60

    def test_a_decision_of_another_experiment_is_unknown(self, store):
        new(store, name="beers", seed=4)
        decision = commit(store, Choose("teas", ["north"]))[0]
        commit(store, Choose("beers", ["north"]))
        assert commit(store, Observe("beers", [(decision.id, 1.0)]))[0].status == "unknown"

    def test_what_was_forgotten_is_asked_of_the_database(self, opened, monkeypatch):
        monkeypatch.setattr("posse.service.storage.recent_decisions.RECENT", 2)
        one, _, _ = opened
        new(one)
        made = [commit(one, Choose("teas", ["north"]))[0] for _ in range(10)]
        assert [commit(one, Observe("teas", [(decision.id, 1.0)]))[0].status for decision in made] == ["taken"] * 10
        assert [commit(one, Observe("teas", [(decision.id, 1.0)]))[0].status for decision in made] == ["known"] * 10
        assert [commit(one, Observe("teas", [(decision.id, 0.0)]))[0].status for decision in made] == ["conflict"] * 10

    def test_what_is_kept_in_memory_is_that_of_the_experiments_used_last(self, opened, monkeypatch):
        monkeypatch.setattr("posse.service.storage.transaction.BUSY", 2)
        one, other, _ = opened
        names = ["teas", "beers", "wines"]
        for name in names:
            new(one, name=name)
        made = {name: commit(one, Choose(name, SHOPS)) for name in names}
        answered(one, name="beers")
        kept = {name: len(live.recent.waiting) + len(live.recent.answers) for name, live in one.live.items()}
        assert kept == {"teas": 0, "wines": 3, "beers": 4}
        for status in ("taken", "known"):
            for name in names:
                reports = [(decision.id, 1.0) for decision in made[name]]
                assert [outcome.status for outcome in commit(one, Observe(name, reports))] == [status] * 3
        assert [other.read(queries.experiment, name).rewards for name in names] == [3, 4, 3]

    def test_the_default_is_taken_once_it_is_due(self, opened):
        one, other, clock = opened
        new(one, default_reward=0.25, patience=60)
        late = commit(one, Choose("teas", ["north"]))[0]
        clock.now += 30
        later = commit(other, Choose("teas", ["south"]))[0]
        clock.now += 30
        assert commit(other, Observe("teas", [(later.id, 1.0), (late.id, 1.0)]))[0].status == "taken"
        outcome = commit(one, Observe("teas", [(late.id, 1.0)]))[0]
        assert (outcome.status, "0.25, taken by default after 60 s" in outcome.detail) == ("conflict", True)
        assert commit(one, Observe("teas", [(late.id, 0.25)]))[0].status == "known"
        assert counts(one, "teas").sums.sum() == 1.25

    def test_a_sweep_takes_all_that_are_due_in_all_experiments(self, opened, monkeypatch):
        monkeypatch.setattr("posse.service.storage.transaction.MANY", 7)
        one, other, clock = opened
        for name in ("teas", "beers"):
            new(one, name=name, default_reward=0.0, patience=60)
            for _ in range(10):
                commit(one, Choose(name, SHOPS))
        new(one, name="patient")
        waiting = commit(one, Choose("patient", ["north"]))[0]
        clock.now += 60
        found = other.read(queries.where_decisions_wait)
        assert list(found.values()) == ["teas", "beers", "patient"]
        assert other.read(queries.without_patience, list(found)) == [3]
        for name in ("teas", "beers"):
            assert commit(other, TakeDefaults(name)) == math.inf
        assert [one.read(queries.experiment, name).waiting for name in ("teas", "beers", "patient")] == [0, 0, 1]
        before = whole(one)
        commit(other, TakeDefaults("teas"))
        assert whole(one) == before
        assert commit(one, Observe("patient", [(waiting.id, 1.0)]))[0].status == "taken"

    def test_a_sweep_costs_no_more_for_all_that_is_not_yet_due(self, store, monkeypatch):
        monkeypatch.setattr("posse.service.storage.transaction.MANY", 10)
        steps = {}
        for name, later in (("few", 20), ("many", 1000)):
            new(store, name=name, default_reward=0.0, patience=60)
            commit(store, Choose(name, ["north"]))
            store.clock.now += 30

            commit_group(store, [Choose(name, ["north"])] * later)
            store.clock.now += 30
            steps[name] = self.steps(store, lambda name=name: commit(store, TakeDefaults(name)))
            assert (store.read(queries.experiment, name).rewards, store.read(queries.experiment, name).waiting) == (
                1,
                later,
            )
        assert 0 < steps["many"] < 1.2 * steps["few"]

    def steps(self, store, call):
        """How many steps of SQLite's machine a call takes."""
        taken = itertools.count()
        store.close()
        with store.engine.connect() as connection:
            connection.connection.dbapi_connection.set_progress_handler(lambda: next(taken) and 0, 1)
        call()
        store.close()
        return next(taken)

    def test_a_clock_that_goes_back_takes_nothing_too_early(self, opened):
        one, other, clock = opened
        new(one, default_reward=0.0, patience=60)
        commit(one, Choose("teas", ["north"]))
        clock.now -= 500
        commit(other, Choose("teas", ["north"]))
        assert {row["decided_at"] for row in one.read(queries.log, "teas")} == {1000.0}
        clock.now = 1059
        commit(one, Choose("teas", ["north"]))
        assert one.read(queries.experiment, "teas").rewards == 0

    def test_a_clock_that_stands_for_nothing_is_refused(self, store):
        before = whole(store)
        store.clock = lambda: float("nan")
        with pytest.raises(ValueError, match="the clock says nan"):
            commit(store, Choose("teas", ["north"]))
        assert whole(store) == before

    def test_bad_input_changes_nothing(self, store):
        before = whole(store)
        for call in (
            lambda: commit(store, Choose("teas", [])),
            lambda: commit(store, Choose("teas", "north")),
            lambda: commit(store, Choose("teas", ["north", "nobody"])),
            lambda: commit(store, Choose("teas", ["north", "north"])),
            lambda: commit(store, Choose("teas", ["north"], available=[])),
            lambda: commit(store, Choose("teas", ["north"], available=["beer"])),
            lambda: commit(store, Observe("teas", "0-00000000")),
            lambda: commit(store, Observe("teas", [("0-00000000",)])),
            lambda: commit(store, Record("teas", [])),
            lambda: commit(store, Record("teas", [("north", "tea", 0.5), ("north", "tea", 7)])),
            lambda: commit(store, Erase("teas", "nobody")),
        ):
            with pytest.raises((ValueError, TypeError)):
                call()
        assert whole(store) == before


class TestErasing:
    def test_a_name_is_gone_from_the_tables_and_the_file_and_everything_still_verifies(self, opened, tmp_path):
        one, other, _ = opened
        new(one, players=["Anna Unverwechselbar", *SHOPS])
        answered(one, player="Anna Unverwechselbar")
        commit(other, Choose("teas", ["Anna Unverwechselbar"]))
        replacement = commit(one, Erase("teas", "Anna Unverwechselbar"))
        assert other.read(queries.experiment, "teas").players[0] == (replacement, False)
        for store in (one, other):
            with pytest.raises(ValueError, match="no player"):
                commit(store, Choose("teas", ["Anna Unverwechselbar"]))
            assert commit(store, Choose("teas", ["north"]))
        assert verify(one) == []
        assert counts(other, "teas").pulls[0].sum() == 1
        assert posse.Learner.replay(other.read(queries.log_table, "teas")).counts().players[0] == replacement
        one.close()
        other.close()
        assert not any(b"Unverwechselbar" in path.read_bytes() for path in tmp_path.iterdir())

    def test_a_name_can_be_used_again(self, store):
        commit(store, Erase("teas", "north"))
        assert commit(store, Change("teas", join=["north"])).players[-1] == ("north", True)
