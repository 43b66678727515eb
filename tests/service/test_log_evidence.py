"""The evidence that the service keeps of an experiment, against a slow way to know it: the whole log, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from scenes import BEGIN

import posse
from posse.decision import parse_id
from posse.insight.conclusion.evidence import ConclusionEvidence
from posse.insight.logs import read_log
from posse.insight.watching.evidence import DecisionBlock, WatchEvidence
from posse.service.commands import Change, Choose, Create, Observe, Record, TakeDefaults
from posse.service.dashboard import log_evidence, snapshots
from posse.service.dashboard.analysis_process import arguments
from posse.service.dashboard.log_evidence import LogEvidence, conclude_from
from posse.service.dashboard.snapshots import Snapshots
from posse.service.storage import database, queries
from posse.service.storage.complete_counts import complete_counts
from posse.service.storage.transaction import commit
from stores import BACKENDS, Clock, stores

ARMS, SHOPS = ["tea", "coffee", "cocoa"], ["Lyon", "Nice", "Lille"]


@pytest.fixture(params=BACKENDS)
def store(request, tmp_path):
    with stores(request.param, tmp_path, clock=Clock(BEGIN)) as (store,):
        yield store


def _decide(store, rounds, seed, answered=0.7):
    """Some rounds, in which rewards come late, out of order, and not always."""
    random, waiting = np.random.default_rng(seed), []
    for number in range(rounds):
        waiting += commit(store, Choose("drinks", SHOPS, ARMS[:2] if number % 5 == 0 else None))
        store.clock.now += 1.0
        random.shuffle(waiting)
        some, waiting = waiting[:3], waiting[3 if number % 3 else 1 :]
        commit(
            store, Observe("drinks", [(each.id, 2 * random.random()) for each in some if random.random() < answered])
        )


def _look(store, evidence=None):
    with database.reading(store.engine) as connection:
        live = queries.live_experiment(connection, "drinks")
        evidence = LogEvidence(live, 3) if evidence is None else evidence
        while not evidence.complete or evidence.made < live.state.decisions:
            evidence.read(connection, live)
        evidence.read(connection, live)
    return evidence


def _expected(store, default):
    """The same evidence from the log as a table, one decision at a time."""
    table = store.read(queries.log_table, "drinks").to_pylist()
    players, arms = ([name for name, _ in roster] for roster in _rosters(store))
    watch, conclusion = WatchEvidence(3, holdout=0.2, control=1, arrivals=not default), ConclusionEvidence(3)
    made = sorted((row for row in table if row["decision"]), key=lambda row: parse_id(row["decision"])[0])
    answered = [row for row in made if row["reward"] is not None]
    if default:
        answered = made[: next((place for place, row in enumerate(made) if row["reward"] is None), len(made))]
    else:
        answered.sort(key=lambda row: row["observed"])

    def block(row):
        chances = np.zeros((1, len(arms)))
        chances[0, : len(row["probabilities"])] = [each or 0.0 for each in row["probabilities"]]
        reward = np.nan if row["reward"] is None else row["reward"] / 2
        return DecisionBlock(
            np.array([players.index(row["player"])]), np.array([arms.index(row["arm"])]), chances, np.array([reward])
        )

    for row in made:
        watch.add_choices(block(row))
    for row in answered:
        watch.add_answers(block(row))
        conclusion.add_answers(block(row))
    return watch, conclusion


def _check_counts(store, default):
    """Analyses of a page rest on the same rewards as those of the exported log."""
    with database.reading(store.engine) as connection:
        found, early = complete_counts(connection, queries.live_experiment(connection, "drinks"))
    log = read_log(store.read(queries.log_table, "drinks"))
    assert early == log.early
    expected = log.counts()
    np.testing.assert_array_equal(found.pulls, expected.pulls)
    np.testing.assert_allclose(found.sums, expected.sums, atol=1e-4)
    np.testing.assert_allclose(found.squares, expected.squares, atol=1e-4)
    assert not default or early > 0


def _rosters(store):
    live = store.read(queries.live_experiment, "drinks")
    return live.state.player_roster, live.state.arm_roster


def _check(seen, watch, conclusion):
    np.testing.assert_allclose(seen.watch.choices._sums, watch.choices._sums)
    np.testing.assert_allclose(seen.watch.against_holdout.estimate(0.05), watch.against_holdout.estimate(0.05))
    np.testing.assert_allclose(seen.watch.against_control.estimate(0.05), watch.against_control.estimate(0.05))
    np.testing.assert_allclose(seen.conclusion.counts, conclusion.counts)
    np.testing.assert_allclose(seen.conclusion.sums, conclusion.sums, atol=1e-9)


@pytest.mark.parametrize("default", [False, True])
def test_it_is_what_the_whole_log_says(store, monkeypatch, default):
    monkeypatch.setattr(log_evidence, "ROWS", 7)
    monkeypatch.setattr(log_evidence, "MOST", 21)
    more = {"default_reward": 0.0, "patience": 20.0} if default else {}
    setup = {"reward_range": (0.0, 2.0), "holdout": 0.2, "control": "coffee", "seed": 1, **more}
    commit(store, Create("drinks", posse.IndTSV(), ARMS, SHOPS, **setup))
    commit(store, Record("drinks", [("Lyon", "tea", 1.0)]))
    evidence = _look(store)
    for number in range(3):
        _decide(store, 20, number)
        if number == 1:
            commit(store, Change("drinks", add_arms=["milk"], join=["Metz"]))
            commit(store, Choose("drinks", ["Metz"]))
        if default:
            commit(store, TakeDefaults("drinks"))
        evidence = _look(store, evidence)
        _check(evidence, *_expected(store, default))
        _check_counts(store, default)
    assert evidence.watch.choices.count == 181
    assert evidence.conclusion.answers == (evidence.answered if default else evidence.watch.answers.count)
    assert evidence.conclusion.answers > 60


def test_a_look_takes_in_a_bounded_part_of_a_long_log(store, monkeypatch):
    commit(store, Create("drinks", posse.IndTSV(), ARMS, SHOPS, holdout=0.2, control="coffee", reward_range=(0, 2)))
    _decide(store, 30, 1)
    monkeypatch.setattr(log_evidence, "ROWS", 10)
    monkeypatch.setattr(log_evidence, "MOST", 40)
    with database.reading(store.engine) as connection:
        live = queries.live_experiment(connection, "drinks")
        evidence = LogEvidence(live, 3)
        evidence.read(connection, live)
        assert (evidence.made, evidence.complete) == (40, False)
        while not evidence.complete:
            evidence.read(connection, live)
    _check(evidence, *_expected(store, False))


def test_a_snapshot_says_how_far_into_the_log_it_goes(store, monkeypatch):
    commit(store, Create("drinks", posse.IndTSV(), ARMS, SHOPS, reward_range=(0, 2)))
    _decide(store, 30, 1)
    monkeypatch.setattr(log_evidence, "ROWS", 10)
    monkeypatch.setattr(log_evidence, "MOST", 40)
    snapshots, seen = Snapshots(store), []
    while not seen or not seen[-1].complete:
        seen.append(snapshots.of("drinks"))  # each goes on where the one before has stopped
    said = "40 of 90 decisions are read so far; look again in a moment"
    assert [said in each.watch.notes for each in seen] == [True, *[False] * (len(seen) - 1)]
    assert [each.watch.decisions for each in seen[:3]] == [40, 80, 90]
    assert snapshots.of("drinks") is seen[-1]


@pytest.mark.parametrize("default", [None, 0.0])
def test_an_arm_that_came_without_a_decision_since_stops_no_conclusion(store, default, monkeypatch):
    monkeypatch.setattr(snapshots, "LONGEST", 0.0)  # each look is a new one
    patience = None if default is None else 9.0
    commit(store, Create("drinks", posse.PosseTS(), ARMS, SHOPS, default_reward=default, patience=patience))
    made = commit(store, Choose("drinks", SHOPS))
    commit(store, Observe("drinks", [(each.id, 1.0) for each in made]))
    kept = Snapshots(store)
    kept.of("drinks")
    commit(store, Change("drinks", add_arms=["water"]))
    found = conclude_from(*arguments("conclusion", kept.of("drinks")))
    assert [arm.name for arm in found.arms] == [*ARMS, "water"]
