"""What the dashboard says about attributes of players."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from scenes import BEGIN, snapshot_of
from serving import service
from test_dashboard import HOSTILE, Page

import posse
from posse.service.dashboard import experiment_page as page
from posse.service.dashboard.analysis import diagnosis
from posse.service.dashboard.experiment_page import by_attribute
from posse.service.dashboard.templates import render
from stores import Clock

DECLARED = {"region": "category", "device": ["phone", "desktop"], "age": [18, 30, 50]}
ARMS = ("tea", "coffee", "cocoa")
BEST = {"south": "tea", "north": "coffee", "east": "cocoa", None: "tea"}


@pytest.fixture(scope="module")
def learner():
    """After 900 decisions, some of which wait; regions differ in what is best, ages do not; rewards are in [0, 2]."""
    clock, random = Clock(BEGIN), np.random.default_rng(1)
    learner = posse.Learner(arms=ARMS, attributes=DECLARED, seed=1, reward_range=(0, 2), clock=clock)
    for number in range(900):
        region = ["south", "south", "south", "north", "east", None][random.integers(6)]
        age = [None, 12, 44, 60][random.integers(4)]
        decision = learner.choose({"region": region, "device": ["desktop", "phone"][random.integers(2)], "age": age})
        clock.now += 0.1
        if number % 7:
            learner.observe(decision, 2.0 * (random.random() < (0.7 if BEST[region] == decision.arm else 0.2)))
    learner.join("late")  # with no decisions
    return learner


def snapshot(learner):
    return snapshot_of(learner, learner._clock)


@pytest.mark.parametrize("name", [*DECLARED, "nonsense"])
def test_arms_by_value_are_what_the_log_says(learner, name):
    found = by_attribute(snapshot(learner), name, [0, 2])
    name = "region" if name == "nonsense" else name
    assert (found["name"], found["names"], found["hidden"]) == (name, list(DECLARED), 0)
    rows = defaultdict(list)
    for entry in learner.log().to_pylist():
        rows[entry[name]].append(entry)
    players = defaultdict(set)
    for player, value in zip(learner.counts().players, learner.counts().attributes[name], strict=True):
        players[value].add(player)
    assert {value for value, *_ in found["rows"]} == set(players)
    for value, count, decisions, cells in found["rows"]:
        assert count == len(players[value])
        assert decisions == len(rows[value])
        for arm, (low, mean, high, share) in zip((ARMS[0], ARMS[2]), cells, strict=True):
            mine = [entry for entry in rows[value] if entry["arm"] == arm]
            rewards = [entry["reward"] for entry in mine if entry["reward"] is not None]
            assert share == pytest.approx(len(mine) / max(len(rows[value]), 1))
            if rewards:
                assert mean == pytest.approx(np.mean(rewards))
                assert 0 <= low < mean < high <= 2 or mean in (0, 2)
            else:
                assert not np.isfinite([low, mean, high]).any()


def test_bins_are_in_their_order_and_categories_by_decisions(learner):
    found = by_attribute(snapshot(learner), "age", [0])
    assert [value for value, *_ in found["rows"]] == ["below 18", "30 to 50", "50 and more", None]
    found = by_attribute(snapshot(learner), "region", [0])
    assert found["rows"][0][0] == "south"
    decisions = [row[2] for row in found["rows"]]
    assert decisions == sorted(decisions, reverse=True)


def test_only_the_most_active_values_are_shown(learner, monkeypatch):
    monkeypatch.setattr(page, "ROWS", 2)
    found = by_attribute(snapshot(learner), "region", [0])
    assert (len(found["rows"]), found["hidden"]) == (2, 2)


def test_without_attributes_there_is_no_such_table():
    learner = posse.Learner(arms=ARMS, players=["north", "south"], clock=Clock(BEGIN))
    assert by_attribute(snapshot(learner), "region", [0]) is None


def test_the_attribute_that_explains_the_differences_comes_first(learner):
    shot = snapshot(learner)
    found = diagnosis(shot.counted, shot.notes)["explained"]
    assert found[0]["name"] == "region"
    assert found[-1]["name"] == ""
    assert found[0]["low"] > 0.5
    for explained, said in ((found, "region explains"), (None, "nothing for an attribute to explain")):
        shown = {"state": "free", "rows": [], "explained": explained}
        assert said in Page(render("parts/why.html", values={"name": "age"}, diagnosis=shown, snapshot=shot)).text


def test_the_page_shows_the_attribute_that_was_chosen_and_hostile_values_as_they_are(tmp_path):
    values = [value[:100] for value in HOSTILE]
    with service(tmp_path, defaults_seconds=None) as client:
        body = {"name": "visitors", "arms": ["tea", "coffee"], "attributes": {"region": "category", "age": [18, 30]}}
        for name in ("visitors", "new"):
            client.post("/v1/experiments", json=body | {"name": name})
        example = "client.choose('new', {'region': 'region', 'age': 18.0})"
        assert example in Page(client.get("/experiments/new").text).text
        address = "/experiments/visitors"
        given = [{"region": value, "age": 20} for value in values]
        assert client.post(f"/v1{address}/decisions", json={"attributes": given}).status_code == 200
        text = Page(client.get(address, params={"by": "region"}).text).text
        assert all(value in text for value in values)
        chosen = client.get(address, params={"by": "age"})
        assert "Mean reward of each arm for players with each age" in Page(chosen.text).text
        assert ("option", {"selected": None}) in Page(chosen.text).tags
        live = client.get(f"{address}/live", params={"by": "age"}, headers={"HX-Request": "true"})
        assert "players with each age" in Page(live.text).text
