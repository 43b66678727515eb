"""With many players, the database has exactly the pairs with data, and whoever reads it stands where memory stands."""

from __future__ import annotations

import itertools
import random
import struct

import numpy as np
import pytest
from fleet import FULL

import posse
from posse.service.admin.rebuild import rebuild
from posse.service.admin.verify import verify
from posse.service.commands import Change, Choose, Observe, Record
from posse.service.storage import queries
from posse.service.storage import schema as tables
from posse.service.storage.pair_statistics import summary_of
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit
from stores import ARMS, Clock, new, stores

PLAYERS = [f"player {number}" for number in range(2000)]
POLICIES = [posse.PosseTS(), posse.IndTSV(), posse.RobustAggTS(0.1), posse.HierTS(0.1), posse.IndUCB()]
MANY = 70  # pulls of a pair of which the last do not count before the next summary


def slow_rows(state):
    """The table of a state, pair by pair: what waits, the pulls, and every number as eight bytes."""
    rows = {}
    kept = [name for name in ("statistics", "indexed", "seen") if name in state.core.kept]
    for arm, player in itertools.product(range(len(state.arm_roster.names)), range(len(state.player_roster.names))):
        cells = [array[arm, player] for name in kept for array in getattr(state.known, name)]
        waiting = int(state.waiting[arm, player])
        if waiting or any(cells):
            numbers = b"".join(struct.pack("<q" if cell.dtype == np.int64 else "<d", cell) for cell in cells)
            rows[player, arm] = (waiting, int(cells[0]), numbers)
    return rows


def stored_rows(store):
    with store.engine.connect() as connection:
        rows = connection.execute(tables.stats.select()).all()
        return {(row.player, row.arm): (row.waiting, row.pulls, row.numbers) for row in rows}


def assert_same(state, other):
    for name in (*state.core.kept, "totals", "contributions"):
        ours, theirs = getattr(state.all_known(), name), getattr(other.all_known(), name)
        assert ours.tobytes() == theirs.tobytes(), name
    assert np.array_equal(state.waiting, other.waiting)
    assert list(state.player_roster) == list(other.player_roster)


def steps(chance, worker):
    """Commands that touch few pairs of many, each with the worker that applies it."""
    for step in range(40):
        made = commit(worker(), Choose("teas", chance.sample(PLAYERS[:50], 3)))
        if step % 3:
            commit(worker(), Observe("teas", [(each.id, chance.random()) for each in made[:2]]))
        if step % 5 == 0:
            commit(worker(), Change("teas", join=[f"new {step}"], knows_others=step % 2 == 0))
            commit(worker(), Choose("teas", [f"new {step}"]))
        if step in (4, 12, 25):  # the pair's index stays behind until there is a summary
            commit(worker(), Record("teas", [("player 7", "tea", 0.25)] * MANY))
            for _ in range(4):
                commit(worker(), Record("teas", [("player 7", "tea", 0.5)]))
        if step == 20:
            commit(worker(), Change("teas", add_arms=["juice"], retire_arms=["tea"], retire=["player 60"]))
        yield step


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.label)
@pytest.mark.parametrize("workers", [1, 2] if FULL else [2])
def test_what_is_stored_is_what_memory_has_after_every_step(policy, workers, tmp_path):
    chance, behind = random.Random(workers), 0
    with stores("sqlite", tmp_path, workers) as opened:
        new(opened[0], policy, players=PLAYERS)
        assert stored_rows(opened[0]) == {}
        for step in steps(chance, lambda: chance.choice(opened)):
            loaded = opened[0].read(queries.live_experiment, "teas").state
            for store in opened:
                live = store.live.get("teas")
                if live is not None and live.state.events == loaded.events and live.state.rounds == loaded.rounds:
                    assert_same(live.state, loaded)
            behind += int((loaded.known.indexed[0] != loaded.known.statistics[0]).sum())
            if step % 8 == 7:
                assert stored_rows(opened[0]) == slow_rows(loaded)
        assert (behind > 0) == ("summed" in loaded.core.kept)  # the case that only a later summary writes has happened
        found = opened[0].read(queries.experiment, "teas")
        rows = stored_rows(opened[0]).values()
        assert (found.rewards, found.waiting) == (sum(row[1] for row in rows), sum(row[0] for row in rows))
        assert found.player_count == len(PLAYERS) - 1 + 8
        assert verify(opened[0]) == []
        rebuild(opened[0])
        assert stored_rows(opened[0]) == slow_rows(loaded)
        assert verify(opened[0]) == []
        commit(opened[-1], Choose("teas", ["player 1999"]))
        assert verify(opened[0]) == []


def test_a_player_that_joined_after_the_summary_is_taken_for_its_last_row(tmp_path):
    """Without data everybody is alike, so a summary of fewer players says the same."""
    with stores("sqlite", tmp_path) as (store,):
        new(store, posse.PosseTS(), players=PLAYERS[:6])
        state = store.live["teas"].state
        assert len(np.unique(state.known.of_player, axis=0)) == 1
        with store.engine.begin() as connection:
            connection.execute(tables.summaries.update().values(players=4, content=summary_of(state, 2)))
        again = ServiceStore(str(store.engine.url), clock=Clock())
        assert verify(again) == []
        commit(again, Choose("teas", ["player 5"]))
        assert_same(again.live["teas"].state, again.read(queries.live_experiment, "teas").state)
        assert again.live["teas"].state.known.of_player.tobytes() == state.known.of_player.tobytes()
        again.close()


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.label)
def test_players_that_join_one_after_another_are_the_same_after_a_restart(policy, tmp_path):
    with stores("sqlite", tmp_path) as (store,):
        new(store, policy, players=[])
        for number in range(24):
            commit(store, Change("teas", join=[f"player {number}"], knows_others=number % 3 > 0))
            if number in (4, 5, 13):
                commit(store, Record("teas", [(f"player {number}", arm, 0.5) for arm in ARMS] * number))
            assert_same(store.live["teas"].state, store.read(queries.live_experiment, "teas").state)
            assert verify(store) == []


def test_names_are_checked_against_all_players_before_any_of_them_changes(tmp_path):
    with stores("sqlite", tmp_path) as (store,):
        new(store, players=PLAYERS[:30])
        for change, said in [
            ({"join": ["x", "player 3"]}, "player 'player 3' is here already"),
            ({"join": ["x"], "retire": ["y"]}, "no player 'y'; there are player 0, .* and 20 more"),
            ({"retire_arms": ARMS}, "arm 'cocoa' is the last one"),
        ]:
            with pytest.raises(ValueError, match=said):
                commit(store, Change("teas", **change))
        assert store.read(queries.experiment, "teas").player_count == 30
        found = commit(store, Change("teas", join=["x"], retire=["x", "player 3"]))  # come and gone at once
        assert (found.player_count, found.players[3], found.players[30]) == (29, ("player 3", False), ("x", False))
        assert found == store.read(queries.experiment, "teas")
