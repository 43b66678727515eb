"""What the store shows of experiments."""

from __future__ import annotations

import pytest

import posse
from posse.service.commands import Change
from posse.service.storage import audit, queries
from posse.service.storage.transaction import commit
from stores import BACKENDS, SHOPS, Clock, answered, indices, new, stores


@pytest.fixture(params=BACKENDS)
def opened(request, tmp_path):
    """Two workers on one database, and their clock."""
    clock = Clock()
    with stores(request.param, tmp_path, 2, clock) as (one, other):
        yield one, other, clock


def test_what_there_is_to_see(opened):
    one, other, clock = opened
    new(one, posse.PosseTS())
    for step in range(30):
        clock.now += 1
        answered(one, player=SHOPS[step % 3], reward=step % 2)
    commit(one, Change("teas", retire_arms=["cocoa"]))
    found = indices(other, "teas")
    assert found.probabilities.sum(axis=1) == pytest.approx(1)
    assert not found.probabilities[:, 2].any()
    pages, after = [], 0
    while page := other.read(queries.log, "teas", after, limit=7):
        pages += page
        after = page[-1]["event"]
    assert [row["event"] for row in pages] == list(range(1, 62))
    assert [row["kind"] for row in pages] == ["decision", "reward"] * 30 + ["retire arm"]


def test_players_are_found_and_the_audit_trail_is_read_backwards(opened):
    one, other, _ = opened
    new(one, posse.IndTSV())
    players = ["100 % Lyon", "100_Lyon", "nice"]
    commit(one, Change("teas", join=players))
    commit(one, Change("teas", retire=["nice"]))
    for search, found in (
        ("100 %", players[:1]),
        ("_", players[1:2]),
        ("NIC", players[2:]),
        ("\0", []),
        ("lyon", players[:2]),
    ):
        assert [name for name, _, _ in other.read(queries.players, "teas", len(SHOPS), 10, search)] == found
    rows = other.read(audit.entries)
    assert other.read(audit.entries, 0, 10, before=10**15) == rows[::-1]
    assert other.read(audit.entries, 0, 1, "teas", before=rows[-1].id) == [rows[-2]]
    assert other.read(audit.entries, 0, 10, "coffees", before=10**15) == []
    assert other.read(audit.entries, 10**15) == []
