"""What the API refuses over HTTP, and that a refusal changes nothing."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

import pytest
from serving import new_experiment, problem_of, service

from posse.service.settings import LARGEST_BODY

JSON = {"content-type": "application/json"}


HOSTILE = {
    "nothing": b"",
    "half": b'{"player": "Ly',
    "no object": b"[1]",
    "NaN": b'{"rewards": [{"decision": "0-00000000", "reward": NaN}], "player": "Lyon", "name": NaN}',
    "infinity": b'{"player": -Infinity}',
    "too large a number": b'{"reward": 1e999, "player": 1e999}',
    "many digits": b'{"player": %s}' % (b"9" * 100_000),
    "deep": b"[" * 100_000,
    "deep and closed": b'{"player": ' * 5_000 + b"1" + b"}" * 5_000,
    "NUL": rb'{"player": "\u0000", "name": "\u0000"}',
    "half a surrogate pair": rb'{"player": "\ud800", "name": "\ud800"}',
    "not UTF-8": b'{"player": "\xff"}',
    "a long name": b'{"player": "%s"}' % (b"x" * 1_000_000),
    "a long key": b'{"%s": 1}' % (b"x" * 1_000_000),
    "something unknown": b'{"player": "Lyon", "arms": ["a"], "color": "red"}',
    "a string for a number": b'{"decision": "0-00000000", "reward": "1", "rewards": "1"}',
    "true for a number": b'{"decision": "0-00000000", "reward": true, "arms": true}',
    "several": b'{"player": "Lyon", "players": ["Lyon"]}',
    "nobody": b'{"players": [], "rewards": [], "name": "x", "arms": []}',
    "too many": json.dumps({"players": [str(number) for number in range(1001)]}).encode(),
    "twice the same": b'{"players": ["Lyon", "Lyon"]}',
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_body_is_refused_and_changes_nothing(client, path, body):
    before = client.get("/v1/experiments").json()
    for method, target in [
        ("POST", "/v1/experiments"),
        ("PATCH", path),
        *(("POST", f"{path}/{part}") for part in ("decisions", "rewards", "records", "erasures")),
    ]:
        answer = client.request(method, target, content=body, headers=JSON)
        assert answer.status_code in (400, 422), f"{method} {target}: {answer.status_code}"
        problem_of(answer, answer.status_code)
        assert len(answer.content) < 20_000
    assert client.get("/v1/experiments").json() == before


def test_what_contradicts_itself_is_refused(client):
    for more, word in [
        ({"floor": 0.9}, "floor"),
        ({"shares": {"c": 0.1}}, "shares has the arm 'c'"),
        ({"shares": {"a": [0.2, 0.1]}}, "the least cannot be above"),
        ({"shares": {"a": 0.6, "b": [0.5, 1]}}, "add up to 1.1"),
        ({"shares": {"a": [0.2, 0.1, 0.3]}}, "shares"),
        ({"control": "c"}, "control"),
        ({"burn_in": -1}, "burn_in"),
        ({"reward_range": [1, 0]}, "reward_range"),
        ({"patience": 5}, "patience"),
        ({"default_reward": 3, "patience": 5}, "default_reward"),
        ({"default_reward": 0, "patience": 1e300}, "patience"),
        ({"default_reward": 0, "patience": 1e-300}, "patience"),
        ({"policy": {"name": "RobustAggTS"}}, "constants"),
        ({"policy": {"name": "RobustAggTS", "constants": {}}}, "epsilon"),
        ({"policy": {"name": "PosseTS", "constants": {"color": 1}}}, "color"),
        ({"policy": {"name": "RobustAggTS", "constants": {"epsilon": -1}}}, "epsilon"),
        ({"policy": {"name": "Nobody"}}, "PosseTS"),
        ({"arms": ["a", "a"]}, "twice"),
        ({"name": "a/b"}, "name"),
        ({"name": ".."}, "name"),
    ]:
        answer = client.post("/v1/experiments", json={"name": "odd", "arms": ["a", "b"], **more})
        assert problem_of(answer, 422) == "invalid"
        assert word in answer.json()["detail"]
    assert problem_of(client.get("/v1/experiments/odd"), 404) == "unknown-experiment"


def test_a_token_expires_within_a_hundred_years(client):
    for expires in (1e300, 3.2e9, 0, -1):
        answer = client.post("/v1/tokens", json={"scopes": ["read"], "expires": expires})
        assert problem_of(answer, 422) == "invalid"


def test_a_name_is_taken_once(client, path):
    name = client.get(path).json()["name"]
    answer = client.post("/v1/experiments", json={"name": name, "arms": ["a"]})
    assert problem_of(answer, 409) == "experiment-exists"


@pytest.mark.parametrize("name", ["%00", "%0A", "x" * 201, "%ED%A0%80", "%FF", "%2e%2e", "a%2Fb", "%20", "x" * 10_000])
def test_a_bad_name_in_the_path_is_not_found_or_refused(client, name):
    for part in ("", "/log", "/state", "/diagnosis"):
        answer = client.get(f"/v1/experiments/{name}{part}")
        assert answer.status_code in (404, 422)
        problem_of(answer, answer.status_code)


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=0", "limit=1e9", f"after={10**30}", "after=NaN"])
def test_a_bad_page_of_the_log_is_refused(client, path, query):
    assert problem_of(client.get(f"{path}/log?{query}"), 422) == "invalid"


def test_a_wrong_method_is_told_the_right_ones(client, path):
    for target, allowed in [
        ("/v1/experiments", "GET, POST"),
        (path, "DELETE, GET, PATCH"),
        (f"{path}/decisions", "POST"),
        ("/healthz", "GET, HEAD"),
    ]:
        for method in {"PUT", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} - set(allowed.split(", ")):
            answer = client.request(method, target)
            assert problem_of(answer, 405) == "wrong-method"
            assert answer.headers["allow"] == allowed
    assert problem_of(client.request("QUUX", path), 400) == "bad-request"
    assert problem_of(client.get("/v2"), 404) == "not-found"


def test_another_content_type_is_refused(client, path):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""):
        answer = client.post(f"{path}/decisions", content=b'{"player": "Lyon"}', headers={"content-type": kind})
        assert problem_of(answer, 415) == "not-json-type"
    accepted = client.post(
        f"{path}/decisions", content=b'{"player": "Lyon"}', headers={"content-type": "Application/JSON; charset=utf-8"}
    )
    assert accepted.status_code == 200


def test_a_body_that_is_too_large_is_refused_declared_or_in_chunks(client, path):
    for content in (b" " * (LARGEST_BODY + 1), iter([b" " * 100_000] * 20)):
        assert problem_of(client.post(f"{path}/decisions", content=content, headers=JSON), 413) == "too-large"
    largest = b'{"player": "Lyon"}'.ljust(LARGEST_BODY)
    assert client.post(f"{path}/decisions", content=largest, headers=JSON).status_code == 200


def test_a_length_that_is_none_is_refused(client, path):
    """What httpx would not send. The server itself answers most of it."""
    for length in ("-1", "x", "1e3", "9" * 30):
        connection = http.client.HTTPConnection(urlsplit(str(client.base_url)).netloc, timeout=10)
        try:
            connection.putrequest("POST", f"{path}/decisions")
            for name, value in (("Content-Type", "application/json"), ("Content-Length", length)):
                connection.putheader(name, value)
            connection.endheaders(b"{}")
            assert connection.getresponse().status in (400, 413)
        finally:
            connection.close()


def test_a_body_that_never_ends_is_given_up(tmp_path):
    with service(tmp_path, body_seconds=0.2) as client:
        path = new_experiment(client)
        connection = http.client.HTTPConnection(urlsplit(str(client.base_url)).netloc, timeout=10)
        try:
            connection.putrequest("POST", f"{path}/decisions")
            for name, value in (("Content-Type", "application/json"), ("Content-Length", "50")):
                connection.putheader(name, value)
            connection.endheaders(b'{"player": ')
            answer = connection.getresponse()
            assert (answer.status, answer.headers["connection"]) == (408, "close")
            assert json.loads(answer.read())["type"].endswith("too-slow")
        finally:
            connection.close()


REFUSED = [
    ("rewards", {"decision": "0-00000000", "reward": "one"}, "body.reward: 'one', but expected a number."),
    ("decisions", {"attributes": {"who": True}}, "body.attributes.who: True, but expected a string or a number."),
    (
        "decisions",
        {"player": "p", "players": ["q"]},
        "body: it has 'player', 'players', but expected one of player, players",
    ),
    ("decisions", {}, "body: it has no field, but expected one of player, players and attributes."),
    ("decisions", [1], "body: [1], but expected one of player, players and attributes."),
    ("decisions", {"player": "Lyon", "idempotency_key": "a b"}, "'a b', but expected visible ASCII characters without"),
    ("decisions", {"player": "Lyon", "color": "red"}, "body.color: there is no such field."),
    ("decisions", {"player": "x" * 201}, "but expected at most 200 characters."),
    ("decisions", {"players": []}, "body.players: [], but expected at least 1 entries."),
    ("rewards", {"decision": "0-00000000", "rewards": []}, "but expected one of decision and rewards."),
    ("records", {"rewards": [{"player": "Lyon", "arm": "coupon"}]}, "body.rewards.0.reward: missing."),
    (
        "records",
        {"rewards": [{"player": "Lyon", "arm": "coupon", "reward": 7}]},
        "=7.0, but expected a number in [0, 1]",
    ),
    ("", {"shares": {"coupon": 2}}, "body.shares.coupon: 2, but expected at most 1 or a list."),
    ("", {"shares": {"coupon": [0.1, 2]}}, "body.shares.coupon.1: 2, but expected at most 1."),
    ("", {"join": {"Lille": {"who": [1]}}}, "body.join.Lille.who: [1], but expected a string or a number."),
    ("", {"knows_others": 1}, "body.knows_others: 1, but expected true or false."),
]


@pytest.mark.parametrize(("part", "body", "said"), REFUSED)
def test_a_refusal_names_the_place_the_value_and_what_was_expected(client, path, part, body, said):
    answer = client.post(f"{path}/{part}", json=body) if part else client.patch(path, json=body)
    assert problem_of(answer, 422) == "invalid"
    assert said in answer.json()["detail"]


def test_what_would_be_ignored_is_refused(client, path):
    twice = b'{"players": ["Lyon"], "available": ["coupon"], "available": ["nothing"]}'
    answer = client.post(f"{path}/decisions", content=twice, headers=JSON)
    assert problem_of(answer, 422) == "invalid"
    assert "The field 'available' is there twice" in answer.json()["detail"]
    colons = {"player": "Lyon", "idempotency_key": "a:b:c", "available": ["coupon"]}
    assert client.post(f"{path}/decisions", json=colons).status_code == 200
    for method, target, said in [
        ("GET", "/v1/experiments?archved=true", "archved is not known (did you mean archived?)"),
        ("GET", "/v1/experiments?limit=1&limit=2", "limit is there twice"),
        ("GET", f"{path}/log?befor=3", "befor is not known"),
        ("POST", f"{path}/decisions?player=Lyon", "player is not known; expected nothing"),
    ]:
        answer = client.request(method, target, json={"player": "Lyon"} if method == "POST" else None)
        assert problem_of(answer, 422) == "invalid"
        assert said in answer.json()["detail"]
    assert client.get(path).json()["decisions"] == 1
    assert client.get("/healthz?at=12345").status_code == 200  # as some that look after health ask


def test_a_range_that_is_too_wide_or_too_narrow_is_told_the_limits(client):
    for ends in ([0, 1e300], [-1e150, 1e150], [0, 1e-300]):
        answer = client.post("/v1/experiments", json={"name": "odd", "arms": ["a", "b"], "reward_range": ends})
        assert problem_of(answer, 422) == "invalid"
        assert "between 1e-100 and 1e+100 wide" in answer.json()["detail"]


ALIKE = ["trail ", " lead", "cafe\u0301"]


@pytest.mark.parametrize("name", ALIKE)
def test_a_new_name_that_looks_like_another_is_refused(client, path, name):
    for more in ({"name": name}, {"arms": ["a", name]}, {"players": [name]}):
        answer = client.post("/v1/experiments", json={"name": "looks alike", "arms": ["a", "b"], **more})
        assert problem_of(answer, 422) == "invalid"
        assert f"={name!r}, but expected " in answer.json()["detail"]
    for more in ({"join": [name]}, {"add_arms": [name]}):
        assert problem_of(client.patch(path, json=more), 422) == "invalid"
    answer = client.post("/v1/tokens", json={"scopes": ["read"], "label": name})
    assert problem_of(answer, 422) == "invalid"


def test_a_name_that_looks_like_another_is_used_if_it_is_there(tmp_path, monkeypatch):
    """As an earlier version let it be."""
    name, arm, player = ALIKE[:3]
    with service(tmp_path) as client:
        with monkeypatch.context() as before:
            before.setattr("posse.service.commands.check_new_names", lambda *_: None)
            before.setattr("posse.service.storage.transaction.check_new_names", lambda *_: None)
            path = new_experiment(client, name=name, arms=["a", arm], players=[player])
        made = client.post(f"{path}/decisions", json={"player": player, "available": [arm]}).json()["decisions"]
        assert (made[0]["player"], made[0]["arm"]) == (player, arm)
        for change in ({"retire": [player]}, {"join": [player]}, {"retire_arms": [arm]}, {"add_arms": [arm]}):
            assert client.patch(path, json=change).status_code == 200
    with service(tmp_path) as client:
        assert client.get(path).json()["name"] == name


def test_a_reward_of_minus_nothing_is_nothing(client, path):
    made = client.post(f"{path}/decisions", json={"player": "Lyon"}).json()["decisions"][0]
    client.post(f"{path}/rewards", content=f'{{"decision": "{made["id"]}", "reward": -0.0}}', headers=JSON)
    (row,) = [row for row in client.get(f"{path}/log").json()["rows"] if row["kind"] == "reward"]
    assert str(row["reward"]) == "0.0"


def test_a_token_that_there_is_not_is_not_found(client):
    assert problem_of(client.delete("/v1/tokens/999"), 404) == "not-found"


def test_an_error_in_one_of_several_says_where_it_is(client, path):
    answer = client.post(f"{path}/rewards", json={"rewards": [{"decision": "0-00000000", "reward": "one"}]})
    assert [each["where"] for each in answer.json()["errors"]] == ["body.rewards.0.reward"]
