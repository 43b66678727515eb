"""Outcomes in the store: as the learner has them, in every worker's eyes, in the chain, and out and in again."""

from __future__ import annotations

import logging
import random

import numpy as np
import pyarrow.parquet
import pytest

import posse
from posse.service.admin.rebuild import rebuild
from posse.service.admin.transfer import export_log, import_log
from posse.service.admin.verify import verify
from posse.service.commands import Change, Choose, Erase, Observe, TakeDefaults
from posse.service.storage import queries
from posse.service.storage import schema as tables
from posse.service.storage.transaction import commit, commit_group
from stores import ARMS, BACKENDS, SHOPS, Call, Clock, new, stores

OUTCOMES = {"refund": posse.Outcome(at_most=0.1, action="retire"), "minutes": {"range": [0, 60], "at_least": 20}}


def declared(store, **options):
    return new(store, outcomes=OUTCOMES, **options)


def state(store, name="teas"):
    return store.read(queries.live_experiment, name).state


def statuses(store, *reports):
    return [outcome.status for outcome in commit(store, Observe("teas", reports))]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_store_does_what_the_learner_does(backend, tmp_path, caplog):
    clock, chance = Clock(), random.Random(7)
    with stores(backend, tmp_path, 2, clock) as workers, caplog.at_level(logging.WARNING, "posse.service"):
        setup = declared(workers[0]).setup
        learner = posse.Learner(
            posse.RobustAggTS(0.1),
            **{"arms": ARMS, "players": SHOPS, "seed": 3, "clock": clock, "outcomes": OUTCOMES},
            waiting_limit=setup.waiting_limit,
        )
        learner.counts()  # its time begins now
        waiting = []
        for step in range(40):
            clock.now += 1
            store = chance.choice(workers)
            decisions = learner.choose(SHOPS)
            assert commit(store, Choose("teas", SHOPS)) == decisions
            waiting += decisions
            reports = [(one.id, None, {"refund": chance.random() < 0.6 * (one.arm == "tea")}) for one in decisions]
            late = waiting.pop(chance.randrange(len(waiting)))
            reports.append((late.id, chance.randint(0, 8) / 8, {"minutes": 40 * chance.random()}))
            assert learner.observe(reports) == len({one[0] for one in reports})
            assert statuses(chance.choice(workers), *reports) == ["taken"] * 4
            assert statuses(chance.choice(workers), *reports) == ["known"] * 4
            if step == 25:
                learner.add_arm("juice")
                commit(store, Change("teas", add_arms=["juice"]))
        assert [each[:2] for each in learner.alarms] == [("refund", "tea")]
        for store in workers:
            assert np.array_equal(state(store).guard.tallies, learner.state.guard.tallies)
            assert list(state(store).arm_roster) == list(learner.state.arm_roster)
            assert store.read(queries.log_table, "teas").equals(learner.log(), check_metadata=True)
            assert verify(store) == []
        assert [record.message for record in caplog.records] == [
            "experiment 'teas': the arm 'tea' has crossed the bound of 'refund'",
            "experiment 'teas': the arm 'tea' is retired",
        ]
        (counted,) = workers[1].read(queries.experiment_counts)
        assert counted.alarms == 1
        kinds = [row["kind"] for row in workers[1].read(queries.log, "teas")]
        at = kinds.index("alarm")
        assert kinds[at : at + 2] == ["alarm", "retire arm"]
        assert workers[1].read(queries.log, "teas", at, 1)[0].items() >= {"arm": "tea", "outcome": "refund"}.items()


@pytest.mark.parametrize("backend", BACKENDS)
def test_reports_are_taken_as_a_whole_and_once(backend, tmp_path, monkeypatch):
    monkeypatch.setattr("posse.service.storage.recent_decisions.RECENT", 1)  # most are asked of the database
    clock = Clock()
    with stores(backend, tmp_path, 2, clock) as (one, other):
        declared(one, default_reward=0.0, patience=50)
        first, second, third = commit(one, Choose("teas", SHOPS))
        assert statuses(one, (first.id, 1.0, {"refund": 0}), (second.id, None, {"minutes": 30})) == ["taken"] * 2
        for store in (other, one):
            found = commit(
                store,
                Observe(
                    "teas",
                    [
                        (first.id, None, {"refund": 1}),
                        (first.id, 0.0, {"minutes": 1}),
                        (second.id, 1.0, {"minutes": 31}),
                        (second.id, 1.0, {"price": 3}),
                        (second.id, None, {"refund": 2}),
                        ("9-00000000", None, {"refund": 1}),
                        (second.id, None),
                        (first.id, 1.0, {"refund": 0.0}),
                    ],
                ),
            )
            wanted = ["conflict", "conflict", "conflict", "invalid", "invalid", "unknown", "invalid", "known"]
            assert [each.status for each in found] == wanted
            assert found[0].detail == f"decision {first.id} already has refund=0; 1 is refused"
            assert found[3].detail == "outcome 'price' was not declared; declared: refund, minutes"
        clock.now += 60
        commit(other, TakeDefaults("teas"))
        late = statuses(other, (second.id, None, {"refund": 0}), (third.id, 0.0, {"minutes": 30}))
        assert late == ["taken", "taken"]  # though the default was taken meanwhile
        assert statuses(one, (second.id, 0.5, {"refund": 0})) == ["conflict"]
        group = [Observe("teas", [(third.id, None, {"refund": value})]) for value in (1, 0, 1)]
        assert [each[0].status for each in commit_group(one, group)] == ["taken", "conflict", "known"]
        assert state(other).guard.tallies[0].sum() == 5
        commit(one, Erase("teas", "south"))
        assert verify(one) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_verify_finds_a_change_and_rebuild_mends_what_follows(backend, tmp_path):
    with stores(backend, tmp_path, 2) as (store, other):
        declared(store)
        for _ in range(4):
            (decision,) = commit(store, Choose("teas", ["north"], ["tea"]))
            statuses(store, (decision.id, 1.0, {"refund": 1, "minutes": 30}))
            if not state(store).arm_roster.here[0]:
                break
        before = state(store).guard.tallies.copy()
        assert before[2].sum() == 1
        assert [name for name, here in state(store).arm_roster if not here] == ["tea"]

        def tamper(**values):
            table = tables.outcome_stats
            commit(store, Call(lambda transaction: transaction.connection.execute(table.update(), values)))

        for values in ({"count": 7}, {"sum": 7}, {"alarm": 2}):
            tamper(**values)
            assert {finding.where for finding in verify(store)} == {"outcome_stats"}
            rebuild(store)
            assert verify(other) == []
            assert np.array_equal(state(other).guard.tallies, before)
        commit(store, Call(lambda transaction: transaction.connection.execute(tables.outcome_stats.delete())))
        assert "is missing" in str(verify(store)[0])
        rebuild(store)
        (decision,) = commit(other, Choose("teas", ["north"]))  # another worker goes on from what was rebuilt
        assert statuses(other, (decision.id, None, {"refund": 0})) == ["taken"]
        assert verify(store) == []
        outcomes = tables.outcomes
        one = outcomes.update().where(outcomes.c.serial == 2, outcomes.c.outcome == 1)
        commit(store, Call(lambda transaction: transaction.connection.execute(one, {"value": 31.0})))
        assert "does not match its digest" in " ".join(map(str, verify(store)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_log_goes_out_and_comes_back_with_its_outcomes(backend, tmp_path, monkeypatch):
    monkeypatch.setattr(queries, "TABLE_ROWS", 7)
    with stores(backend, tmp_path, 2) as (store, other):
        declared(store)
        for step in range(30):
            (decision,) = commit(store, Choose("teas", ["north"]))
            statuses(store, (decision.id, None if step % 3 else 1.0, {"refund": step % 2, "minutes": 30}))
        export_log(store, "teas", tmp_path / "a.parquet")
        import_log(other, "again", tmp_path / "a.parquet")
        export_log(store, "again", tmp_path / "b.parquet")
        first, second = (pyarrow.parquet.read_table(tmp_path / name) for name in ("a.parquet", "b.parquet"))
        assert first.equals(second, check_metadata=True)
        assert first["refund"].to_pylist() == [step % 2 for step in range(30)]
        assert np.array_equal(state(store).guard.tallies, state(store, "again").guard.tallies)
        assert state(store).guard.tallies[2].any()
        assert verify(store) == []
        assert posse.Learner.replay(first, clock=Clock()).log().equals(first, check_metadata=True)
        (decision,) = commit(other, Choose("again", ["north"]))
        assert commit(other, Observe("again", [(decision.id, None, {"refund": 0})]))[0].status == "taken"


def test_a_learners_log_with_decisions_that_it_gave_up_is_imported(tmp_path):
    learner = posse.Learner(posse.RobustAggTS(0.1), ARMS, SHOPS, outcomes=OUTCOMES, waiting_limit=2, clock=Clock())
    made = [learner.choose("north") for _ in range(5)]
    learner.observe(made[0], outcomes={"minutes": 30})
    pyarrow.parquet.write_table(learner.log(), tmp_path / "log.parquet")
    with stores("sqlite", tmp_path) as (store,):
        assert import_log(store, "teas", tmp_path / "log.parquet").waiting == 5  # the service gives none up
        assert statuses(store, (made[0].id, 1.0, {"minutes": 30})) == ["taken"]
        assert verify(store) == []


def test_an_arm_that_is_shipped_is_retired_too(tmp_path):
    with stores("sqlite", tmp_path) as (store,):
        declared(store)
        commit(store, Change("teas", status="finished", ship="tea"))
        made = [commit(store, Choose("teas", ["north"]))[0] for _ in range(6)]
        assert {each.arm for each in made} == {"tea"}
        statuses(store, *((each.id, None, {"refund": 1}) for each in made))
        assert "tea" not in commit(store, Choose("teas", ["north"]))[0].probabilities
        assert verify(store) == []
