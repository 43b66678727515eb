"""OpenFeature's remote evaluation protocol, request by request."""

from __future__ import annotations

import math
from typing import Any

import httpx
import jsonschema_rs
import pytest
from flags import LYON, SUCCESS, code_of, rows_of
from serving import new_experiment, service

import posse
from posse.service.admin.verify import verify
from posse.service.api import ofrep
from posse.service.api.ofrep import FLAGS, values_of
from posse.service.commands import Change, Create
from posse.service.storage.errors import Overloaded
from posse.service.storage.transaction import commit
from posse.service.writer import Writer
from stores import BACKENDS, stores


def name_of(path: str) -> str:
    return path.rpartition("/")[2].replace("%20", " ")


def evaluate(client: httpx.Client, path: str, **context: Any) -> dict[str, Any]:
    answer = client.post(f"{FLAGS}/{name_of(path)}", json={"context": context})
    assert answer.status_code == 200, answer.text
    assert jsonschema_rs.Draft202012Validator(SUCCESS).is_valid(answer.json())
    return answer.json()


def test_evaluations_are_the_decisions_that_the_service_would_make(client):
    """The same seed, the same rewards: over the protocol and over the API, every draw is the same."""
    one, two = new_experiment(client), new_experiment(client)
    for turn in range(20):
        said = evaluate(client, one, targetingKey="Lyon")
        (decision,) = client.post(f"{two}/decisions", json={"player": "Lyon"}).json()["decisions"]
        assert (said["variant"], said["metadata"]["propensity"]) == (decision["arm"], decision["propensity"])
        for path, identity in ((one, said["metadata"]["decision"]), (two, decision["id"])):
            client.post(f"{path}/rewards", json={"decision": identity, "reward": turn % 2})


def test_who_named_no_player_is_one_and_gets_a_new_decision_each_time(client, path):
    made = {evaluate(client, path, targetingKey="Lyon")["metadata"]["decision"] for _ in range(3)}
    assert len(made) == 3


def test_the_same_subject_has_one_decision_for_each_player(client, path):
    def made(subject, player):
        return evaluate(client, path, targetingKey=subject, player=player)["metadata"]["decision"]

    pairs = [("Ann", "Lyon"), ("Ann", "Nice"), ("Bob", "Lyon"), ("a key\n of any length" * 50, "Lyon")]
    first = [made(*pair) for pair in pairs]
    assert len(set(first)) == len(pairs)
    assert [made(*pair) for pair in pairs] == first


def test_an_arm_that_is_gone_is_given_to_nobody(client, path):
    subjects = [f"visit {number}" for number in range(12)]

    def arms():
        return {s: evaluate(client, path, targetingKey=s, player="Lyon")["variant"] for s in subjects}

    before = arms()
    assert set(before.values()) == {"coupon", "nothing"}
    client.patch(path, json={"retire_arms": ["coupon"]})
    assert set(arms().values()) == {"nothing"}
    client.patch(path, json={"add_arms": ["coupon"]})
    assert arms() == before  # back to where it was, also for those who had another meanwhile


@pytest.mark.parametrize("sticky", [False, True])
def test_a_shipped_arm_is_everybodys_and_without_one_there_is_none(client, path, sticky):
    subjects = [f"visit {number}" for number in range(8)]

    def ask():
        contexts = [{"targetingKey": subject, "player": "Lyon"} if sticky else LYON for subject in subjects]
        return [evaluate(client, path, **context) for context in contexts]

    before = ask()
    client.patch(path, json={"status": "paused"})
    nothing = {"key": name_of(path), "reason": "DISABLED", "variant": "", "metadata": {"experiment": name_of(path)}}
    assert ask() == [nothing] * 8
    client.patch(path, json={"status": "finished", "ship": "coupon", "ship_for": {"Nice": "nothing"}})
    shipped = ask()
    assert {(said["reason"], said["value"], said["metadata"]["propensity"]) for said in shipped} == {
        ("STATIC", "coupon", 1)
    }
    assert (ask() == shipped) is sticky
    assert evaluate(client, path, targetingKey="Nice")["value"] == "nothing"
    client.patch(path, json={"status": "running"})
    assert (ask() == before) is sticky
    client.patch(path, json={"status": "finished"})
    assert ask() == [nothing] * 8
    client.patch(path, json={"status": "archived"})
    assert ask() == [nothing] * 8


def test_what_is_wrong_has_the_protocols_code_and_status(client, path):
    flag = f"{FLAGS}/{name_of(path)}"
    wrong = [
        ({}, "TARGETING_KEY_MISSING"),
        ({"context": {}}, "TARGETING_KEY_MISSING"),
        ({"context": {"targetingKey": ""}}, "TARGETING_KEY_MISSING"),
        ({"context": {"targetingKey": 5}}, "INVALID_CONTEXT"),
        ({"context": {**LYON, "player": 5}}, "INVALID_CONTEXT"),
        ({"context": {**LYON, "player": "Metz"}}, "INVALID_CONTEXT"),
        ({"context": {"targetingKey": "Metz"}}, "INVALID_CONTEXT"),
        ({"context": {"targetingKey": "\n"}}, "INVALID_CONTEXT"),
        ([], "INVALID_CONTEXT"),
    ]
    for body, code in wrong:
        answer = client.post(flag, json=body)
        assert (code_of(answer, 400), answer.json()["key"]) == (code, name_of(path)), body
    headers = {"Content-Type": "application/json"}
    assert code_of(client.post(flag, content="{", headers=headers), 400) == "PARSE_ERROR"
    for name in ("nobody", "x" * 300):
        answer = client.post(f"{FLAGS}/{name}", json={"context": LYON})
        assert (code_of(answer, 404), answer.json()["key"]) == ("FLAG_NOT_FOUND", name)
    attributes = new_experiment(client, attributes={"device": "category"})
    misspelt = {"context": {**LYON, "Device": "phone"}}
    assert code_of(client.post(f"{FLAGS}/{name_of(attributes)}", json=misspelt), 400) == "INVALID_CONTEXT"
    for body in ({}, {"context": {}}):
        assert code_of(client.post(FLAGS, json=body), 400) == "TARGETING_KEY_MISSING"
    assert rows_of(client, name_of(path)) == []


def test_a_service_that_is_overloaded_says_when_to_come_back(client, path, monkeypatch):
    def refuse(self, submission):
        raise Overloaded("10,000 requests wait already")

    monkeypatch.setattr(Writer, "add", refuse)
    for target in (f"{FLAGS}/{name_of(path)}", FLAGS):
        answer = client.post(target, json={"context": LYON})
        assert code_of(answer, 429) == "GENERAL"
        assert answer.headers["retry-after"] == "1"


@pytest.fixture
def alone(tmp_path):
    with service(tmp_path) as client:
        yield client


def test_all_flags_that_fit_come_at_once_and_again_only_if_something_changed(alone):
    path, other = new_experiment(alone, name="both"), new_experiment(alone, name="far", players=["Brest"])
    quick = {"players": [], "policy": {"name": "IndTSV"}}  # to compile
    kinds = new_experiment(alone, name="kinds", attributes={"device": ["phone", "desktop"]}, **quick)
    archived = new_experiment(alone)
    for status in ("finished", "archived"):
        alone.patch(archived, json={"status": status})

    def ask(etag=None, **context):
        headers = {} if etag is None else {"If-None-Match": etag}
        return alone.post(FLAGS, json={"context": context}, headers=headers)

    def keys(answer):
        assert all(jsonschema_rs.Draft202012Validator(SUCCESS).is_valid(flag) for flag in answer.json()["flags"])
        return [flag["key"] for flag in answer.json()["flags"]]

    phone = {**LYON, "device": "phone"}
    first = ask(**phone)
    assert keys(first) == [name_of(path), name_of(kinds)]
    etag = first.headers["etag"]
    for known in (etag, f'"other", W/{etag}'):
        answer = ask(known, **phone)
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
    assert len(rows_of(alone, name_of(path))) == 1  # nothing was decided meanwhile
    assert keys(ask(etag, targetingKey="Brest", device="phone")) == [name_of(other), name_of(kinds)]
    assert keys(ask(etag, targetingKey="Ann", player="Brest")) == [name_of(other)]
    for unfit in (LYON, {**LYON, "device": "fridge"}):
        assert keys(ask(**unfit)) == [name_of(path)]
    alone.patch(path, json={"add_arms": ["tea"]})
    second = ask(etag, **phone)
    assert keys(second) == keys(first)
    assert second.headers["etag"] != etag
    flags = {flag["key"]: flag for flag in first.json()["flags"]}
    assert flags[name_of(kinds)] in second.json()["flags"]  # a subject keeps its decision
    etag = second.headers["etag"]
    for change in ({"status": "paused"}, {"status": "finished"}, {"status": "finished", "ship": "tea"}):
        alone.patch(path, json=change)
        answer = ask(etag, **phone)
        assert answer.json()["flags"][0].get("value") == change.get("ship")
        assert ask(answer.headers["etag"], **phone).status_code == 304
    alone.patch(path, json={"retire": ["Lyon"]})
    assert keys(ask(second.headers["etag"], **phone)) == [name_of(kinds)]


def test_more_flags_than_an_answer_takes_are_refused(alone, monkeypatch):
    monkeypatch.setattr(ofrep, "MOST_FLAGS", 2)
    for number in range(3):
        answer = alone.post(FLAGS, json={"context": LYON})
        assert len(answer.json()["flags"]) == number
        new_experiment(alone)
    assert code_of(alone.post(FLAGS, json={"context": LYON}), 400) == "INVALID_CONTEXT"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_subject_has_one_decision_whichever_worker_answers(backend, tmp_path):
    with stores(backend, tmp_path, count=2) as (one, two):
        commit(one, Create("visits", posse.IndTSV(), ["a", "b"], attributes={"device": ["phone", "desktop"]}))
        commit(one, Create("teas", posse.IndTSV(), ["a", "b"], ["north"]))
        for subject in range(6):
            context = ofrep.EvaluationContext.model_validate({"targetingKey": f"visit {subject}", "device": "phone"})
            found = [commit(store, ofrep.Evaluate("visits", context)) for store in (one, two, one)]
            assert found[0] == found[1] == found[2]
            assert [name for name, *_ in two.read(ofrep.experiments_for, context, None)] == ["visits"]
        north = ofrep.EvaluationContext(targetingKey="visit 1", player="north")
        assert [name for name, *_ in two.read(ofrep.experiments_for, north, None)] == ["teas"]
        assert two.read(ofrep.experiments_for, north, "visits") == []
        odd = ofrep.EvaluationContext.model_validate({"targetingKey": "\0", "device": "phone"})
        assert [name for name, *_ in two.read(ofrep.experiments_for, odd, None)] == ["visits"]
        assert commit(one, ofrep.Evaluate("visits", odd)) == commit(two, ofrep.Evaluate("visits", odd))
        commit(two, Change("teas", status="finished", ship="a"))
        assert commit(one, ofrep.Evaluate("teas", north))["value"] == "a"
        assert verify(one) == []


@pytest.mark.parametrize(
    ("arms", "values"),
    [
        (("true", "false"), [True, False]),
        (("1", "-2"), [1, -2]),
        (("1", "2e0"), [1.0, 2.0]),
        (('{"a": [1]}', "{}"), [{"a": [1]}, {}]),
        (("true", "1"), None),
        (("true", "True"), None),
        (("NaN", "1"), None),
        (("1e999", "1"), None),
        (("9007199254740993", "1"), None),
        (("null", "null "), None),
        (('"a"', '"b"'), None),
        (("[1]", "[2]"), None),
        (("01", "2"), None),
        (("a", "b"), None),
    ],
)
def test_an_arm_stands_for_json_if_all_do(arms, values):
    found = values_of(arms)
    assert found == (list(arms) if values is None else values)
    assert len({type(value) for value in found}) == 1
    assert not any(isinstance(value, float) and not math.isfinite(value) for value in found)
