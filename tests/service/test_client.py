"""Both clients when all is well: the learner's verbs over HTTP, and how they are set up."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest
from client_line import clients

import posse
from posse.checks import WrongValue
from posse.learner import ConflictingReward, UnknownDecision
from posse.service.client import Client, ServiceError, Unreachable


@pytest.fixture
def client(either_client):
    return either_client


def test_the_verbs_of_the_learner(client, http):
    name = f"verbs of {type(client).__name__}"
    limited = {"floor": 0.01, "shares": {"tea": (0.1, 0.6)}, "control": "tea", "burn_in": 2}
    made = client.create(
        name, ["tea", "coffee"], ["north"], posse.RobustAggTS(0.1), 1000, seed=1, reward_range=(0, 2), **limited
    )
    assert (made["shares"], made["control"], made["burn_in"]) == ({"tea": [0.1, 0.6]}, "tea", 2)
    assert (made["policy"]["name"], made["policy"]["constants"]["epsilon"]) == ("RobustAggTS", 0.1)
    decision = client.choose(name, "north")
    assert isinstance(decision, posse.Decision)
    assert decision.propensity == decision.probabilities[decision.arm]
    assert client.observe(name, decision.id, 1.5) == "taken"
    assert client.observe(name, decision.id, 1.5) == "known"
    assert client.join(name, "south")["players"][1] == {"name": "south", "here": True}
    both = client.choose(name, ["north", "south"], available=["tea"])
    assert [(each.player, each.arm) for each in both] == [("north", "tea"), ("south", "tea")]
    assert client.observe(name, {decision.id: 1.5} | {each.id: 0.0 for each in both}) == ["known", "taken", "taken"]
    assert client.observe(name, []) == []
    assert client.record(name, [("north", "tea", 1.0), ("south", "coffee", 2.0)]) == 2
    client.add_arm(name, "water")
    assert client.set_shares(name, {"water": 0.2})["shares"] == {"water": [0.2, 0.2]}
    client.retire_arm(name, "tea")
    client.retire(name, "south")
    client.change(name, status="paused")
    now = client.experiment(name)
    assert [arm["here"] for arm in now["arms"]] == [False, True, True]
    assert client.players(name) == [each | {"attributes": {}} for each in now["players"]]
    assert (now["rewards"], now["status"]) == (5, "paused")
    assert name in [each["name"] for each in client.experiments()]
    assert client.state(name)["pulls"][0][0] >= 1
    assert client.diagnosis(name)["epsilon"] == 0.1
    kinds = [row["kind"] for row in client.log(name)]
    assert kinds.count("decision") == 3
    assert kinds.count("record") == 2
    assert [row["shares"] for row in client.log(name) if row["kind"] == "shares"] == [{"water": [0.2, 0.2]}]
    assert client.log(name, after=2) == client.log(name)[2:]
    assert "north" not in client.erase(name, "north")


def test_a_combination_joins_once_though_answers_are_lost(client, line, http):
    name = f"visitors of {type(client).__name__}"
    declared = {"region": "category", "age": [18, 30]}
    twin = posse.Learner(posse.PosseTS(), ["tea", "coffee"], {"shop": {"age": 3}}, seed=1, attributes=declared)
    client.create(name, ["tea", "coffee"], {"shop": {"age": 3}}, seed=1, attributes=declared, player_limit=4)
    line.words = ["lost", "busy"]
    decision = client.choose(name, {"region": "south", "age": 44})
    expected = twin.choose({"region": "south", "age": 44})
    assert (decision.player, decision.arm) == (expected.player, expected.arm)
    assert decision.probabilities == expected.probabilities
    both = client.choose(name, [{"region": "south"}, {"age": 31, "region": "south"}])
    assert [each.player for each in both] == ["region=south", "region=south, age=30 and more"]
    client.join(name, "late", {"region": "north"})
    assert [each["attributes"] for each in client.players(name)] == [
        {"age": "below 18"},
        {"region": "south", "age": "30 and more"},
        {"region": "south"},
        {"region": "north"},
    ]
    with pytest.raises(ValueError, match="5 players, but player_limit=4"):
        client.choose(name, {"region": "east"})
    with pytest.raises(TypeError, match="by name and by attributes"):
        client.choose(name, ["shop", {"region": "south"}])
    assert client.experiment(name)["player_count"] == 4


def test_errors_are_the_learners(client, offers):
    decision = client.choose(offers, "Lyon")
    client.observe(offers, decision.id, 1.0)
    assert client.observe(offers, decision, True) == "known"  # the same decision and reward, in other words
    for wrong, error in [
        (lambda: client.observe(offers, decision.id, 0.0), ConflictingReward),
        (lambda: client.observe(offers, "99-00000000", 0.0), UnknownDecision),
        (lambda: client.observe(offers, "no decision", 0.0), UnknownDecision),
        (lambda: client.observe(offers, decision.id, 7.0), ValueError),
        (lambda: client.observe(offers, decision.id, float("nan")), WrongValue),
        (lambda: client.observe(offers, decision.id), TypeError),
        (lambda: client.choose(offers, "nobody"), ValueError),
        (lambda: client.choose(offers, "x" * 300), ValueError),
        (lambda: client.choose(offers, "Lyon", available=[]), ValueError),
        (lambda: client.create(offers, ["a"]), ServiceError),
        (lambda: client.choose("no such", "Lyon"), ServiceError),
    ]:
        with pytest.raises(error) as raised:
            wrong()
        assert type(raised.value) is error
        assert str(raised.value)
    assert raised.value.status == 404
    assert raised.value.kind == "unknown-experiment"
    assert client.buffered == 0


def test_a_string_is_not_taken_for_its_letters(client, offers):
    for ask in (
        lambda: client.create("letters", "Lyon"),
        lambda: client.create("letters", ["a", "b"], "Lyon"),
        lambda: client.create("letters", 5),
        lambda: client.choose(offers, "Lyon", available="coupon"),
        lambda: client.choose(offers, 5),
        lambda: client.change(offers, join="Paris"),
        lambda: client.change(offers, retire_arms="coupon"),
    ):
        with pytest.raises(TypeError, match="but expected names, such as"):
            ask()
    assert client.experiments(search="letters") == []
    assert len(client.experiment(offers)["players"]) == 2


def test_an_experiment_is_described_and_found(client):
    name = f"described by {type(client).__name__}"
    assert client.create(name, ["a", "b"], description="Ask Ada.")["description"] == "Ask Ada."
    assert [each["name"] for each in client.experiments(search=name[:-3])] == [name]
    assert client.experiments(search="nothing & nobody") == []


def test_good_rewards_of_a_batch_are_taken_though_one_is_refused(client, http, offers):
    first, second = client.choose(offers, ["Lyon", "Nice"])
    with pytest.raises(UnknownDecision):
        client.observe(offers, [("99-00000000", 1.0), (first.id, 1.0), (second.id, 0.0)])
    assert http.get(f"/v1/experiments/{offers}").json()["rewards"] == 2


def test_many_rewards_go_out_in_batches(client, line, offers):
    client.change(offers, join=[f"shop {number}" for number in range(250)])
    pairs = [(decision.id, 1.0) for decision in client.choose(offers, [f"shop {number}" for number in range(250)])]
    line.sent.clear()
    assert client.observe(offers, pairs * 10) == ["taken"] * 250 + ["known"] * 2250
    assert [len(json.loads(request.content)["rewards"]) for request in line.sent] == [1000, 1000, 500]


def test_one_client_in_many_threads(http, offers):
    with Client(str(http.base_url)) as client:

        def work():
            for _ in range(10):
                client.observe(offers, client.choose(offers, "Lyon").id, 1.0)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = client.experiment(offers)
    assert (found["decisions"], found["rewards"]) == (80, 80)


# ---------------------------------------------------------------- set up


def test_a_token_comes_from_the_environment_if_none_is_given(monkeypatch):
    monkeypatch.setenv("POSSE_TOKEN", "posse_1_hush")
    for given, sent in ((None, "Bearer posse_1_hush"), ("posse_2_own", "Bearer posse_2_own")):
        with Client("http://127.0.0.1:1", given) as client:
            assert client._http.headers["authorization"] == sent


def test_a_token_is_sent_but_not_shown(line):
    line.words = ["busy"]
    client = clients("blocking", "http://127.0.0.1:1", line, token="posse_1_hush", patience=0.0)
    with pytest.raises(Unreachable):
        client.experiments()
    assert line.sent[0].headers["authorization"] == "Bearer posse_1_hush"
    assert "hush" not in repr(client)
    client.close()


def test_an_address_that_is_none_is_refused():
    for url in ("127.0.0.1:8080", "", None, "ftp://x"):
        with pytest.raises(ValueError, match="url="):
            posse.Client(url)
    with pytest.raises(AttributeError):
        _ = posse.Clients


def test_a_client_loads_only_what_clients_need():
    code = """
import sys
from posse import Client
large = {"numpy", "numba", "llvmlite", "scipy", "pandas", "pyarrow", "fastapi", "sqlalchemy"}
client = Client("http://127.0.0.1:1", patience=0.0)
assert client.observe("offers", "0-00000000", True) == "buffered"
import posse
assert posse.Client is Client and posse.Decision and posse.__version__
assert not large & set(sys.modules), large & set(sys.modules)
assert posse.PosseTS().label and "numpy" in sys.modules  # the control
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_posse_is_imported_without_what_only_clients_need():
    code = "import sys\nfrom posse import *\nassert Learner and PosseTS and not {'httpx', 'fastapi'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
