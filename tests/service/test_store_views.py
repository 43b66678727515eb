"""What the store shows of experiments."""

from __future__ import annotations

import pytest

import posse
from stores import BACKENDS, SHOPS, Clock, answered, new, stores


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
    one.change("teas", retire_arms=["cocoa"])
    indices = other.indices("teas")
    assert indices.probabilities.sum(axis=1) == pytest.approx(1)
    assert not indices.probabilities[:, 2].any()
    activity = other.activity("teas", points=10)
    assert (activity.decisions.sum(), activity.rewards.sum(), activity.pulls.sum(), activity.step) == (30, 30, 30, 1)
    pages, after = [], 0
    while page := other.log("teas", after, limit=7):
        pages += page
        after = page[-1]["event"]
    assert [row["event"] for row in pages] == list(range(1, 62))
    assert [row["kind"] for row in pages] == ["decision", "reward"] * 30 + ["retire arm"]


def test_activity_of_many_decisions_is_a_sample(opened, monkeypatch):
    monkeypatch.setattr("posse.service.storage.queries.SAMPLE", 10)
    one, other, clock = opened
    new(one)
    for _ in range(33):
        clock.now += 1
        one.decide("teas", SHOPS)
    activity = other.activity("teas", points=5)
    assert activity.step == 10
    assert activity.decisions.sum() == 100
