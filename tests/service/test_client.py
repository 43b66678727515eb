"""Both clients: the learner's verbs over HTTP, and what they do when the service is away."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time

import httpx
import pyarrow
import pytest
from serving import new_experiment, service

import posse
from posse.learner import ConflictingReward, UnknownDecision
from posse.service.client import AsyncClient, Client, ServiceError, Unreachable, delivery, retry


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    with service(tmp_path_factory.mktemp("client")) as client:
        yield client


@pytest.fixture
def offers(http):
    return http.get(new_experiment(http)).json()["name"]


class Line(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """The way to the service, which goes wrong as it is told: each word is about one request.

    "lost" delivers the request but loses the answer, "away" and "cut" deliver nothing, "busy" answers 503, "no" 403,
    "page" is a proxy's page in place of an answer, "other" another service's, "garbled" the service's own with another
    body. Requests about the `damaged` experiment fail in any case.
    """

    def __init__(self) -> None:
        self.words: list[str] = []
        self.damaged = ""
        self.sent: list[httpx.Request] = []
        self._blocking = httpx.HTTPTransport()

    def handle_request(self, request):
        self.sent.append(request)
        word = self.words.pop(0) if self.words else "well"
        if word == "away":
            raise httpx.ConnectError("nobody there", request=request)
        if word == "cut":
            raise httpx.ReadError("cut off", request=request)
        if word == "no":
            problem = {"type": "urn:posse:problem:forbidden", "detail": "enough"}
            return httpx.Response(403, json=problem, headers={"Content-Type": "application/problem+json"})
        if word == "busy":
            problem = {"type": "urn:posse:problem:unavailable", "detail": "the disk is full"}
            return httpx.Response(503, json=problem, headers={"Content-Type": "application/problem+json"})
        if self.damaged and f"/{self.damaged}/" in request.url.path:
            problem = {"type": "urn:posse:problem:damaged", "detail": "posse verify says more"}
            return httpx.Response(500, json=problem, headers={"Content-Type": "application/problem+json"})
        if word == "page":
            return httpx.Response(200, html="<p>We will be back soon.</p>")
        if word == "other":
            return httpx.Response(200, json={"status": "fine"})
        if word == "garbled":
            return httpx.Response(200, html="<p>!</p>", headers={"Posse-API": "1"})
        answer = self._blocking.handle_request(request)
        answer.read()
        if word == "lost":
            raise httpx.ReadError("cut off", request=request)
        return answer

    async def handle_async_request(self, request):
        await request.aread()
        answer = self.handle_request(request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    def close(self):
        self._blocking.close()

    async def aclose(self):
        self.close()


class Waiting:
    """An asynchronous client, used as a blocking one."""

    def __init__(self, client: AsyncClient) -> None:
        self.client, self.runner = client, asyncio.Runner()

    def __getattr__(self, name):
        found = getattr(self.client, name)
        if not callable(found):
            return found
        return lambda *args, **kwargs: self.runner.run(found(*args, **kwargs))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, at):
        try:
            self.runner.run(self.client.__aexit__(kind, error, at))
        finally:
            self.runner.close()


def clients(kind, url, line, **options):
    """A client of one kind, on a line."""
    client = {"blocking": Client, "awaited": AsyncClient}[kind](url, **options)
    made = {"blocking": httpx.Client, "awaited": httpx.AsyncClient}[kind]
    client._http = made(transport=line, **client._options)
    return client if kind == "blocking" else Waiting(client)


@pytest.fixture
def line():
    return Line()


@pytest.fixture(params=["blocking", "awaited"])
def client(request, http, line, monkeypatch):
    monkeypatch.setattr(delivery, "SHORT", 0.05)
    monkeypatch.setattr(retry, "FIRST_DELAY", 0.005)
    with clients(request.param, str(http.base_url), line, patience=10.0) as client:
        yield client


# ---------------------------------------------------------------- when all is well


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
        (lambda: client.observe(offers, decision.id, float("nan")), ValueError),
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


# ---------------------------------------------------------------- when it is not


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
assert posse.PosseTS().label and "numba" in sys.modules  # the control
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_posse_is_imported_without_what_only_clients_need():
    code = "import sys\nfrom posse import *\nassert Learner and PosseTS and not {'httpx', 'fastapi'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
