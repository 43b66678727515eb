"""The API over HTTP, as a client meets it: what it does, and what surrounds every request."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import time
from pathlib import Path

import pytest
from serving import new_experiment, problem_of, service

from posse.service.api.middleware import HEADERS

RUNNING = Path(__file__).parents[2] / "docs" / "running.md"

# ---------------------------------------------------------------- what it does


def test_an_experiment_is_created_found_and_listed(client):
    body = {
        "name": "prices & more",
        "arms": ["low", "high"],
        "players": ["Lyon"],
        "policy": {"name": "RobustAggTS", "constants": {"epsilon": 2}},
        "horizon": 1000,
        "reward_range": [-10, 40],
        "floor": 0.1,
        "holdout": 0.05,
        "default_reward": 0,
        "patience": 3600,
        "shares": {"low": [0.2, 0.5]},
        "control": "high",
        "burn_in": 100,
    }
    created = client.post("/v1/experiments", json=body)
    assert created.status_code == 201
    assert created.headers["location"] == "/v1/experiments/prices%20%26%20more"
    found = client.get(created.headers["location"]).json()
    assert found == created.json()
    assert found["policy"]["constants"]["epsilon"] == 2
    assert found["players"] == [{"name": "Lyon", "here": True}]
    same = (
        "name",
        "horizon",
        "reward_range",
        "floor",
        "holdout",
        "default_reward",
        "patience",
        "shares",
        "control",
        "burn_in",
    )
    assert {key: found[key] for key in same} == {key: body[key] for key in same}
    del found["players"], found["ship_for"]
    assert found in client.get("/v1/experiments").json()["experiments"]


def test_a_decision_and_its_reward(client, path):
    made = client.post(f"{path}/decisions", json={"player": "Lyon"}).json()["decisions"]
    assert [each["player"] for each in made] == ["Lyon"]
    (decision,) = made
    assert decision["propensity"] == decision["probabilities"][decision["arm"]]
    report = {"decision": decision["id"], "reward": 1}
    assert client.post(f"{path}/rewards", json=report).json() == {**report_of(decision, "taken")}
    assert client.post(f"{path}/rewards", json=report).json() == {**report_of(decision, "known")}
    assert problem_of(client.post(f"{path}/rewards", json={**report, "reward": 0}), 409) == "conflicting-reward"
    assert problem_of(client.post(f"{path}/rewards", json={**report, "reward": 7}), 422) == "invalid"
    assert problem_of(client.post(f"{path}/rewards", json={**report, "decision": "x"}), 409) == "unknown-decision"
    counts = client.get(path).json()
    assert (counts["decisions"], counts["rewards"], counts["waiting"]) == (1, 1, 0)


def test_outcomes_come_beside_the_reward_and_guard_their_bounds(client):
    bounds = {"refund": {"at_most": 0.05, "action": "pause"}, "minutes": {"range": [0, 60]}}
    path = new_experiment(client, outcomes=bounds)
    assert client.get(path).json()["outcomes"]["refund"] == {
        **{"range": [0.0, 1.0], "at_most": 0.05, "at_least": None, "action": "pause"}
    }
    made = client.post(f"{path}/decisions", json={"players": ["Lyon", "Nice"], "available": ["coupon"]}).json()
    (first, second), rewards = made["decisions"], f"{path}/rewards"
    report = {"decision": first["id"], "reward": 1, "outcomes": {"refund": 1}}
    assert [client.post(rewards, json=report).json()["status"] for _ in range(2)] == ["taken", "known"]
    alone = {"decision": first["id"], "outcomes": {"minutes": 12.5}}
    assert client.post(rewards, json=alone).json() == report_of(first, "taken")
    refused = client.post(rewards, json={**alone, "outcomes": {"minutes": 13}})
    assert problem_of(refused, 409) == "conflicting-reward"
    assert "already has minutes=12.5; 13 is refused. Nothing was changed" in refused.json()["detail"]
    wrong = ({"decision": first["id"]}, {**alone, "outcomes": {"price": 3}}, {**alone, "outcomes": {"minutes": 61}})
    for body in (*wrong, {**alone, "outcomes": {"minutes": True}}):
        assert problem_of(client.post(rewards, json=body), 422) == "invalid"
    batch = [{"decision": second["id"], "reward": 0}, {"decision": second["id"], "outcomes": {"refund": 1}}]
    assert client.post(rewards, json={"rewards": [*batch, wrong[1]]}).json()["taken"] == 2
    rows = client.get(f"{path}/log").json()["rows"]
    assert [row["kind"] for row in rows] == [
        *("decision", "decision", "reward", "outcome", "outcome", "reward", "outcome", "alarm", "retire arm")
    ]
    assert rows[4] == {
        **{"event": 5, "kind": "outcome", "decision": first["id"], "round": 1, "player": "Lyon", "arm": "coupon"},
        **{"outcome": "minutes", "value": 12.5, "observed_at": rows[4]["observed_at"]},
    }
    assert (rows[7]["arm"], rows[7]["outcome"]) == ("coupon", "refund")
    assert [arm["here"] for arm in client.get(path).json()["arms"]] == [False, True]
    assert f'posse_alarms{{experiment="{client.get(path).json()["name"]}"}} 1.0' in client.get("/metrics").text


def report_of(decision, status):
    return {"decision": decision["id"], "status": status, "detail": None}


def test_players_who_act_in_the_same_round(client, path):
    body = {"players": ["Nice", "Lyon"], "available": ["coupon"]}
    made = client.post(f"{path}/decisions", json=body).json()["decisions"]
    assert [(each["player"], each["arm"], each["round"]) for each in made] == [
        ("Nice", "coupon", 1),
        ("Lyon", "coupon", 1),
    ]


def test_combinations_of_attributes_are_players_that_join_by_themselves(client):
    declared = {"region": "category", "device": ["phone", "desktop"], "age": [18, 30, 50]}
    body = {"name": "visitors", "arms": ["coupon", "nothing"], "attributes": declared, "player_limit": 4}
    made = client.post("/v1/experiments", json={**body, "players": {"Lyon": {"region": "south"}}}).json()
    assert (made["attributes"], made["player_limit"]) == (declared, 4)
    path, headers = "/v1/experiments/visitors", {"Idempotency-Key": "k"}
    one = {"attributes": {"region": "south", "age": 44}}
    first = client.post(f"{path}/decisions", json=one, headers=headers)
    assert first.json()["decisions"][0]["player"] == "region=south, age=30 to 50"
    assert client.post(f"{path}/decisions", json=one, headers=headers).json() == first.json()
    several = {"attributes": [{"age": 44.5, "region": "south"}, {"device": "phone"}], "available": ["coupon"]}
    names = [each["player"] for each in client.post(f"{path}/decisions", json=several).json()["decisions"]]
    assert names == ["region=south, age=30 to 50", "device=phone"]
    assert client.patch(path, json={"join": {"Nice": {"age": 3}}}).json()["player_count"] == 4
    assert client.get(f"{path}/players?limit=2").json() == {
        "players": [
            {"name": "Lyon", "here": True, "attributes": {"region": "south"}},
            {"name": names[0], "here": True, "attributes": {"region": "south", "age": "30 to 50"}},
        ],
        "next": 2,
    }
    for wrong, said in [
        ({"attributes": {"region": "new"}}, "5 players, but player_limit=4"),
        ({"attributes": {"regio": "south"}}, "'regio' was not declared"),
        ({"attributes": {"age": "old"}}, "age='old'"),
        ({"attributes": {"device": "oven"}}, "declared are only phone, desktop"),
        ({"attributes": {"age": [1]}}, "attributes"),
        ({"attributes": []}, "attributes"),
        ({"attributes": {"age": 3}, "player": "Lyon"}, "player"),
    ]:
        answer = client.post(f"{path}/decisions", json=wrong)
        assert answer.status_code == (409 if "limit" in said else 422)
        assert said in answer.text
    assert problem_of(client.patch(path, json={"join": {"Metz": {"region": 3}}}), 422) == "invalid"
    assert client.get(path).json()["player_count"] == 4
    bad = {**body, "name": "other", "attributes": {"reward": "category"}}
    assert problem_of(client.post("/v1/experiments", json=bad), 422) == "invalid"


def test_each_reward_of_a_batch_has_its_own_outcome(client, path):
    first, second = (each["id"] for each in decide(client, path, ["Lyon", "Nice"]))
    pairs = [(first, 1), (first, 1), (first, 0), ("7-00000000", 1), (second, 9)]
    body = {"rewards": [{"decision": identity, "reward": reward} for identity, reward in pairs]}
    answer = client.post(f"{path}/rewards", json=body)
    assert answer.status_code == 200
    statuses = [outcome["status"] for outcome in answer.json()["outcomes"]]
    assert statuses == ["taken", "known", "conflict", "unknown", "invalid"]
    assert answer.json()["taken"] == 1
    assert client.get(path).json()["waiting"] == 1


def decide(client, path, players):
    return client.post(f"{path}/decisions", json={"players": players}).json()["decisions"]


def test_the_same_key_gives_the_same_decision(client, path):
    def ask(key, player="Lyon", **more):
        return client.post(f"{path}/decisions", json={"player": player, **more}, headers={"Idempotency-Key": key})

    first = ask("k1").json()
    assert ask("k1").json() == first
    assert client.post(f"{path}/decisions", json={"player": "Lyon", "idempotency_key": "k1"}).json() == first
    assert ask("k2").json() != first
    assert problem_of(ask("k1", "Nice"), 409) == "conflicting-key"
    assert problem_of(ask("k1", idempotency_key="k2"), 409) == "conflicting-key"
    assert problem_of(ask("with space"), 422) == "invalid"
    assert client.get(path).json()["decisions"] == 2


def test_every_change_happens_once_with_a_key(client, path):
    past = {"rewards": [{"player": "Lyon", "arm": "coupon", "reward": 1}]}
    changes = [
        ("POST", "/v1/experiments", {"name": "once", "arms": ["a", "b"], "players": ["Lyon"]}, {"name": "twice"}),
        ("POST", f"{path}/records", past, {"rewards": past["rewards"] * 2}),
        ("PATCH", path, {"join": ["Lille"]}, {"join": ["Metz"]}),
        ("POST", f"{path}/erasures", {"player": "Nice"}, {"player": "Lyon"}),
    ]
    for number, (method, target, body, other) in enumerate(changes):
        key = {"Idempotency-Key": f"once-{number}"}
        first = client.request(method, target, json=body, headers=key)
        assert first.is_success, first.text
        log = client.get(f"{path}/log").json()
        again = client.request(method, target, json=body, headers=key)
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        assert problem_of(client.request(method, target, json={**body, **other}, headers=key), 409) == "conflicting-key"
        assert client.get(f"{path}/log").json() == log
    assert client.get(path).json()["rewards"] == 1


def test_players_and_arms_come_and_go(client, path):
    changed = client.patch(path, json={"join": ["Lille"], "retire": ["Nice"], "add_arms": ["gift"]}).json()
    assert [(each["name"], each["here"]) for each in changed["players"]] == [
        ("Lyon", True),
        ("Nice", False),
        ("Lille", True),
    ]
    assert [each["name"] for each in changed["arms"]] == ["coupon", "nothing", "gift"]
    assert problem_of(client.post(f"{path}/decisions", json={"player": "Nice"}), 409) == "refused"
    assert problem_of(client.patch(path, json={"join": ["Metz"], "retire": ["nobody"]}), 409) == "refused"
    assert client.get(path).json() == changed


def test_a_paused_experiment_decides_nothing_but_takes_rewards(client, path):
    (decision,) = decide(client, path, ["Lyon"])
    assert client.patch(path, json={"status": "paused"}).json()["status"] == "paused"
    assert problem_of(client.post(f"{path}/decisions", json={"player": "Lyon"}), 409) == "paused"
    report = {"decision": decision["id"], "reward": 1}
    assert client.post(f"{path}/rewards", json=report).json()["status"] == "taken"
    client.patch(path, json={"status": "running"})
    assert decide(client, path, ["Lyon"])


def test_rewards_of_the_past_and_what_is_seen_of_them(client, path):
    past = [{"player": "Lyon", "arm": "coupon", "reward": number % 2} for number in range(40)]
    assert client.post(f"{path}/records", json={"rewards": past}).json() == {"taken": 40}
    state = client.get(f"{path}/state").json()
    assert (state["players"], state["arms"]) == (["Lyon", "Nice"], ["coupon", "nothing"])
    assert state["pulls"] == [[40, 0], [0, 0]]
    assert state["means"] == [[0.5, None], [None, None]]
    assert state["low"][0][0] < 0.5 < state["high"][0][0]
    assert sum(state["probabilities"][0]) == pytest.approx(1)
    diagnosis = client.get(f"{path}/diagnosis").json()
    assert diagnosis["kind"] == "diagnosis"
    assert diagnosis["alarm"] is False
    assert diagnosis["pulls"] == state["pulls"]


def test_many_players_are_counted_and_listed_page_by_page(client, path):
    names = [f"shop {number}" for number in range(1500)]
    for start in (0, 1000):
        answer = client.patch(path, json={"join": names[start : start + 1000]}).json()
    client.patch(path, json={"retire": ["shop 3", "shop 1499"]})
    found = client.get(path).json()
    assert (found["player_count"], len(found["players"])) == (1500, 1000)
    assert answer["players"][:2] == found["players"][:2] == [{"name": name, "here": True} for name in ("Lyon", "Nice")]
    players, after = [], 0
    while after is not None:
        page = client.get(f"{path}/players", params={"after": after, "limit": 700}).json()
        players, after = players + page["players"], page["next"]
    assert [each["name"] for each in players] == ["Lyon", "Nice", *names]
    assert [each["name"] for each in players if not each["here"]] == ["shop 3", "shop 1499"]
    assert players[:1000] == [each | {"attributes": {}} for each in found["players"]]
    answer = client.post(f"{path}/decisions", json={"player": "shop 1400"}).json()
    assert answer["decisions"][0]["player"] == client.get(f"{path}/log?after=1502").json()["rows"][-1]["player"]


def test_the_log_page_by_page(client, path):
    made = decide(client, path, ["Lyon", "Nice"])
    client.post(f"{path}/rewards", json={"decision": made[0]["id"], "reward": 1})
    rows, after = [], 0
    while after is not None:
        page = client.get(f"{path}/log", params={"after": after, "limit": 2}).json()
        assert len(page["rows"]) <= 2
        rows, after = rows + page["rows"], page["next"]
    assert rows == client.get(f"{path}/log").json()["rows"]
    assert [(row["kind"], row["decision"]) for row in rows] == [
        ("decision", made[0]["id"]),
        ("decision", made[1]["id"]),
        ("reward", made[0]["id"]),
    ]


def test_an_erased_player_leaves_no_name(client, path):
    decide(client, path, ["Lyon"])
    replacement = client.post(f"{path}/erasures", json={"player": "Lyon"}).json()["player"]
    for part in ("", "/log", "/state"):
        assert "Lyon" not in client.get(path + part).text
    assert replacement in client.get(path).text


# ---------------------------------------------------------------- around every request


def test_every_answer_has_the_headers_of_safety(client, path):
    for target in ("/healthz", path, "/v2", "/v1/experiments/nobody", "/metrics", "/openapi.json"):
        headers = client.get(target).headers
        assert {name: headers.get(name) for name in HEADERS} == HEADERS
        assert "server" not in headers


def test_pages_of_other_sites_can_do_nothing(client, path):
    body = {"player": "Lyon"}
    for origin in ("http://evil.example", "null", "http://[bad"):
        answer = client.post(f"{path}/decisions", json=body, headers={"origin": origin})
        assert problem_of(answer, 403) == "cross-site"
    own = str(client.base_url).rstrip("/")
    assert client.post(f"{path}/decisions", json=body, headers={"origin": own}).status_code == 200
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        for target in (path, "/openapi.json", "/metrics"):
            assert problem_of(client.get(target, headers={"host": host}), 421) == "wrong-host"
    for host in ("localhost:8080", "127.0.0.1", "[::1]:80"):
        assert client.get(path, headers={"host": host}).status_code == 200


def test_well_and_ready(client):
    assert client.get("/healthz").json() == {"status": "alive"}
    assert client.get("/readyz").json() == {"status": "ready"}


def test_requests_are_counted_by_route_and_status(client, path):
    client.get(path)
    client.get("/nowhere/at/all")
    decide(client, path, ["Lyon"])
    text = client.get("/metrics").text
    assert 'posse_requests_total{method="GET",route="/v1/experiments/{name}",status="200"}' in text
    assert 'route="none",status="404"' in text
    assert "nowhere" not in text
    assert "posse_request_seconds_bucket" in text
    assert "posse_group_size_bucket" in text
    assert "posse_queue_depth" in text


def test_what_is_described_is_what_there_is(client):
    described = client.get("/openapi.json").json()
    routes = {f"{method.upper()} {path}" for path, methods in described["paths"].items() for method in methods}
    listed = re.findall(r"^\| `(\w+ /v1/[^`]*)`", RUNNING.read_text(), re.MULTILINE)  # which is checked elsewhere
    assert "POST /v1/experiments/{name}/decisions" in routes
    assert {route for route in routes if " /v1/" in route} == set(listed)
    for path, methods in described["paths"].items():
        kind = "text/html" if path.endswith("/summary") else "application/json"
        for operation in methods.values():
            assert [set(of["content"]) for at, of in operation["responses"].items() if at < "300"] == [{kind}]


def test_an_erased_name_is_gone_from_the_files_while_the_service_runs(tmp_path):
    with service(tmp_path) as client:
        path = new_experiment(client, players=["Anna Unverwechselbar", "Nice"])
        decide(client, path, ["Anna Unverwechselbar"])
        assert named_in(tmp_path)
        assert client.post(f"{path}/erasures", json={"player": "Anna Unverwechselbar"}).status_code == 200
        assert named_in(tmp_path) == []


def named_in(folder):
    return [path.name for path in folder.iterdir() if b"Unverwechselbar" in path.read_bytes()]


def test_default_rewards_are_taken_in_the_background(tmp_path):
    with service(tmp_path, defaults_seconds=0.05) as client:
        path = new_experiment(client, default_reward=0, patience=0.01)
        decide(client, path, ["Lyon", "Nice"])
        await_rewards(client, path, 2)


def await_rewards(client, path, count):
    for _ in range(500):
        if client.get(path).json()["rewards"] == count:
            return
        time.sleep(0.01)
    raise AssertionError(client.get(path).text)


def test_an_experiment_that_cannot_be_read_keeps_no_other_from_its_default_rewards(tmp_path, caplog):
    with service(tmp_path, defaults_seconds=None) as client:
        paths = [new_experiment(client, default_reward=0, patience=0.01) for _ in range(4)]
        for path in paths:
            decide(client, path, ["Lyon"])
    with contextlib.closing(sqlite3.connect(tmp_path / "posse.db")) as connection, connection:
        connection.execute("DELETE FROM stats WHERE experiment = 1")
        connection.execute("UPDATE experiments SET setup = replace(setup, 'PosseTS', 'Elsewhere') WHERE id = 2")
        connection.execute("UPDATE experiments SET setup = 'no JSON' WHERE id = 3")
    with service(tmp_path, defaults_seconds=0.05) as client:
        await_rewards(client, paths[3], 1)
    for path, reason in zip(
        paths, ("posse db rebuild", "Elsewhere is not known here", "Expecting value"), strict=False
    ):
        name = path.rpartition("/")[2].replace("%20", " ")
        assert re.search(f"default rewards of '{name}' wait: .*{reason}", caplog.text)
