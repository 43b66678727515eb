"""Both clients when answers are lost and the service is away: what they repeat, keep in the buffer and give up."""

from __future__ import annotations

import time

import pyarrow
import pytest
from client_line import clients
from serving import new_experiment

import posse
from posse.learner import ConflictingReward
from posse.service.client import Client, ServiceError, Unreachable, delivery


@pytest.fixture
def client(either_client):
    return either_client


def test_a_request_is_repeated_under_the_same_key_and_happens_once(client, line, http, offers):
    line.words = ["away", "lost", "busy", "lost"]
    decision = client.choose(offers, "Lyon")
    keys = {request.headers["idempotency-key"] for request in line.sent}
    assert (len(line.sent), len(keys)) == (5, 1)
    assert http.get(f"/v1/experiments/{offers}").json()["decisions"] == 1
    assert client.choose(offers, "Lyon").id != decision.id  # the control: another call, another key


def test_a_reward_whose_answer_was_lost_counts_once(client, line, http, offers, monkeypatch):
    monkeypatch.setattr(delivery, "SHORT", 10.0)
    decision = client.choose(offers, "Lyon")
    line.words = ["lost"]
    assert client.observe(offers, decision.id, 1.0) == "known"  # from the first time
    assert http.get(f"/v1/experiments/{offers}").json()["rewards"] == 1


CHANGES = {
    "choose": lambda client, name, **more: client.choose(name, "Lyon", **more),
    "record": lambda client, name, **more: client.record(name, [("Lyon", "coupon", 1.0)], **more),
    "create": lambda client, name, **more: client.create("another", ["a"], **more),
    "change": lambda client, name, **more: client.change(name, status="paused", **more),
    "join": lambda client, name, **more: client.join(name, "Metz", **more),
    "retire": lambda client, name, **more: client.retire(name, "Lyon", **more),
    "add_arm": lambda client, name, **more: client.add_arm(name, "tea", **more),
    "retire_arm": lambda client, name, **more: client.retire_arm(name, "coupon", **more),
    "set_shares": lambda client, name, **more: client.set_shares(name, {"coupon": 0.3}, **more),
    "erase": lambda client, name, **more: client.erase(name, "Lyon", **more),
    "delete": lambda client, name, **more: client.delete(name, **more),
    "create_token": lambda client, name, **more: client.create_token(["read"], name, **more),
    "revoke_token": lambda client, name, **more: client.revoke_token(7, **more),
}
"""Everything that must not happen twice."""


@pytest.mark.parametrize("verb", CHANGES)
def test_what_must_not_happen_twice_has_a_key_under_which_it_is_repeated(client, line, verb):
    for given in ({}, {}, {"key": "mine"}):
        line.words = ["away", "cut", "busy", "no"]
        with pytest.raises(ServiceError, match="enough"):
            CHANGES[verb](client, "offers", **given)
    keys = [request.headers["idempotency-key"] for request in line.sent]
    assert len(keys) == 12
    assert [len(set(keys[at : at + 4])) for at in (0, 4, 8)] == [1, 1, 1]  # the same for each repetition,
    assert (len(set(keys)), keys[-1]) == (3, "mine")  # and another for each call
    assert len({request.content for request in line.sent}) == 1


def test_a_key_of_ones_own_gives_the_same_decision_to_another_client(client, http, offers):
    decision = client.choose(offers, "Lyon", key="visit-4711")
    with Client(str(http.base_url)) as other:
        assert other.choose(offers, "Lyon", key="visit-4711") == decision
        with pytest.raises(ServiceError, match="came before with another request"):
            other.choose(offers, "Nice", key="visit-4711")


def test_patience_ends(client, line, offers):
    client._protocol.patience = 0.2
    line.words = ["away"] * 100
    with pytest.raises(Unreachable, match="nobody there"):
        client.choose(offers, "Lyon")
    assert len(line.sent) < 100
    line.words.clear()


def test_rewards_wait_in_the_buffer_while_the_service_is_away(client, line, http, offers):
    decisions = [client.choose(offers, "Lyon") for _ in range(5)]
    line.words = ["away"] * 1000
    line.sent.clear()
    for decision in decisions[:-1]:
        assert client.observe(offers, decision.id, 1.0) == "buffered"
    assert client.observe(offers, [(decisions[-1].id, 1.0)]) == ["buffered"]
    assert client.buffered == 5
    assert len(line.sent) < 25  # it does not try again for each of them
    line.words.clear()
    assert client.flush() == 5
    assert client.buffered == 0
    assert http.get(f"/v1/experiments/{offers}").json()["rewards"] == 5


def test_the_next_reward_takes_those_of_the_buffer_along(client, line, http, offers):
    first, second = client.choose(offers, ["Lyon", "Nice"])
    line.words = ["away"] * 1000
    client.observe(offers, first.id, 1.0)
    line.words.clear()
    time.sleep(0.1)  # past the rest that it takes
    assert client.observe(offers, second.id, 1.0) == "taken"
    assert client.buffered == 0
    assert http.get(f"/v1/experiments/{offers}").json()["rewards"] == 2


@pytest.mark.parametrize("word", ["page", "other", "garbled"])
def test_what_somebody_else_answers_loses_no_reward(client, line, http, offers, word):
    decision = client.choose(offers, "Lyon")
    line.words = [word] * 3
    assert client.observe(offers, decision.id, 1.0) == "buffered"
    for verb in (client.flush, client.experiments):
        with pytest.raises(Unreachable, match=r"status 200, but no (answer of posse's|JSON)"):
            verb()
    assert (client.buffered, client.refused) == (1, [])
    assert client.flush() == 1
    assert http.get(f"/v1/experiments/{offers}").json()["rewards"] == 1


def test_a_reward_of_the_buffer_that_is_refused_is_told_and_keeps_nobody_up(client, line, offers):
    decision = client.choose(offers, "Lyon")
    line.words = ["away"] * 1000
    client.observe(offers, "99-00000000", 1.0)
    client.observe("a name that was never right", decision.id, 1.0)
    client.observe("nor / this", decision.id, 1.0)
    client.observe(offers, decision.id, 1.0)
    line.words.clear()
    assert client.flush() == 1
    assert client.buffered == 0
    assert [report.decision for report, _ in client.refused] == ["99-00000000", decision.id, decision.id]
    assert all(why for _, why in client.refused)


def test_an_experiment_that_fails_keeps_no_reward_of_another_up(client, line, http, offers, caplog):
    hurt = http.get(new_experiment(http)).json()["name"]
    of_hurt = client.choose(hurt, ["Lyon", "Nice"])
    of_offers = client.choose(offers, ["Lyon", "Nice"])
    third, fourth = client.choose(offers, ["Lyon", "Nice"])

    def counts():
        return [http.get(f"/v1/experiments/{name}").json()["rewards"] for name in (hurt, offers)]

    line.words = ["away"] * 1000
    for one, other in zip(of_hurt, of_offers, strict=True):
        client.observe(hurt, one.id, 1.0)
        client.observe(offers, other.id, 1.0)
    line.words.clear()
    line.damaged = hurt
    with pytest.raises(ServiceError, match="posse verify says more") as raised:
        client.flush()
    assert raised.value.kind == "damaged"
    assert (client.buffered, counts()) == (2, [0, 2])
    line.sent.clear()
    assert client.observe(offers, third.id, 1.0) == "taken"
    assert client.observe(offers, fourth.id, 1.0) == "taken"
    assert len(line.sent) == 3  # it does not try the others again for each of them
    assert f"rewards of {hurt} stay in the buffer: posse verify says more" in caplog.text
    assert (client.buffered, client.refused, counts()) == (2, [], [0, 4])
    line.damaged = ""
    assert client.flush() == 2
    assert (client.buffered, counts()) == (0, [2, 4])


def test_outcomes_go_with_rewards_alone_and_through_the_buffer(client, line):
    name = f"outcomes of {type(client).__name__}"
    bounds = {"refund": posse.Outcome(at_most=0.05), "minutes": {"range": (0, 60)}}
    made = client.create(name, ["tea", "coffee"], ["north"], posse.IndTS(), outcomes=bounds)
    assert made["outcomes"]["minutes"]["range"] == [0.0, 60.0]
    first, second, third = (client.choose(name, "north") for _ in range(3))
    assert client.observe(name, first, 1.0, {"refund": 0}) == "taken"
    assert client.observe(name, first, outcomes={"refund": False}) == "known"
    with pytest.raises(ConflictingReward, match="already has refund=0; 1 is refused"):
        client.observe(name, first, outcomes={"refund": 1})
    with pytest.raises(ValueError, match="outcome 'price' was not declared"):
        client.observe(name, first, outcomes={"price": 1})
    with pytest.raises(TypeError, match="reward=None"):
        client.observe(name, first)
    line.words = ["away"] * 1000
    assert client.observe(name, second, None, {"minutes": 12.5}) == "buffered"
    line.words.clear()
    assert client.flush() == 1
    table = pyarrow.table({"id": [second.id, third.id], "reward": [0.0, None], "minutes": [12.5, 3.0]})
    assert client.observe(name, table, outcomes=["minutes"]) == ["taken", "taken"]
    assert client.observe(name, [(third, None, {"minutes": 3}), (third, 1.0)]) == ["known", "taken"]
    values = [(row["decision"], row["outcome"], row["value"]) for row in client.log(name) if row["kind"] == "outcome"]
    assert values == [(first.id, "refund", 0.0), (second.id, "minutes", 12.5), (third.id, "minutes", 3.0)]


def test_the_buffer_is_bounded(client, line, offers):
    client._protocol.buffer_limit = 3
    line.words = ["away"] * 1000
    client.observe(offers, [("0-00000000", 1.0)] * 3)
    with pytest.raises(Unreachable, match="limit of 3"):
        client.observe(offers, "0-00000000", 1.0)
    assert client.buffered == 3
    line.words.clear()


@pytest.mark.parametrize("kind", ["blocking", "awaited"])
def test_leaving_delivers_what_waits_or_says_what_does_not(kind, http, offers, line, monkeypatch):
    monkeypatch.setattr(delivery, "SHORT", 0.05)
    with clients(kind, str(http.base_url), line, patience=0.1) as client:
        decision = client.choose(offers, "Lyon")
        line.words = ["away"] * 100
        client.observe(offers, decision.id, 1.0)
        line.words.clear()
    assert http.get(f"/v1/experiments/{offers}").json()["rewards"] == 1
    with (
        pytest.raises(ServiceError, match="1 rewards were not delivered: posse verify") as raised,
        clients(kind, str(http.base_url), line, patience=0.1) as client,
    ):
        fail_for_good_after_a_while(client, line, offers)
    assert raised.value.kind == "damaged"
    line.words = ["away"] * 1000
    with (
        pytest.raises(Unreachable, match="1 rewards were not delivered"),
        clients(kind, str(http.base_url), line, patience=0.1) as client,
    ):
        client.observe(offers, decision.id, 1.0)
    with pytest.raises(KeyError), clients(kind, str(http.base_url), line, patience=0.1) as client:
        fail_while_rewards_wait(client, offers)


def fail_for_good_after_a_while(client, line, offers):
    line.words = ["away"] * 100
    client.observe(offers, "0-00000000", 1.0)
    line.words.clear()
    line.damaged = offers


def fail_while_rewards_wait(client, offers):
    client.observe(offers, "0-00000000", 1.0)
    raise KeyError
