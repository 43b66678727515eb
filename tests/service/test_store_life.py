"""An experiment's life: its status, what it ships, and keys of such requests; two workers on both databases."""

from __future__ import annotations

import contextlib
import itertools
from typing import get_args

import pytest

import posse
from posse.service.admin.rebuild import rebuild
from posse.service.api.bodies import ChangeBody, ExperimentBody
from posse.service.commands import Change, Choose, Create, Erase, Observe, Record, TakeDefaults, _asked
from posse.service.storage import queries
from posse.service.storage.errors import (
    Archived,
    ConflictingKey,
    Finished,
    Refused,
)
from posse.service.storage.lifecycle import LONGEST_DESCRIPTION, MOVES, Status
from posse.service.storage.transaction import commit
from stores import SHOPS, again, answered, counts, go, new

PLACES = {
    "running": ["paused", "finished"],
    "paused": ["running", "finished"],
    "finished": ["running", "archived"],
    "archived": ["finished"],
}
"""Where each status leads to, from the description of the API."""
WAYS = {"running": [], "paused": ["paused"], "finished": ["finished"], "archived": ["finished", "archived"]}


@pytest.fixture
def store(pair):
    return pair[0]


# ---------------------------------------------------------------- status


def test_every_way_from_one_status_to_another_is_open_or_refused(store):
    for before, after in itertools.product(get_args(Status), repeat=2):
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
    for wrong in ("x" * (LONGEST_DESCRIPTION + 1), "nul\0", "\x1b[31m"):
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
        ({"ship": "tea", "retire_arms": ["tea"]}, "ship='tea', but retire_arms has it too"),
        ({"ship": "tea", "ship_for": {"north": "cocoa"}, "retire_arms": ["cocoa"]}, "ship='cocoa', but"),
        ({"ship": "tea", "status": None}, "expected 'finished' together with ship"),
        ({"ship": "tea", "status": "paused"}, "expected 'finished' together with ship"),
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
