"""Hostile requests, in every place that a request has: no fault of the service, and not a row changes."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

import httpx
import pytest
from compared import rows
from fleet import fleet, needs_service
from traffic import EXPERIMENT, PLAYERS, begin

pytestmark = needs_service

PATH = f"/v1/experiments/{EXPERIMENT}"
LONG = "x" * 1_000_000
WRITES = [("POST", "/v1/experiments"), ("PATCH", PATH)] + [
    ("POST", f"{PATH}/{part}") for part in ("decisions", "rewards", "records", "erasures")
]
NAMES = {
    "a million characters": LONG,
    "NUL": "a\0b",
    "line end": "a\r\nX-Injected: 1",
    "half a surrogate pair": "\ud800",
    "right to left": "\u202egnp.exe",
    "nothing": "",
    "a space": " ",
    "an object": {"name": "Lyon"},
    "a list": [["Lyon"]],
    "a number": 10**400,
    "none": None,
    "true": True,
}
VALUES = {"huge": 10**400, "text": "1", "none": None, "true": True, "a list": [1.0], "over": 1.5, "under": -0.5}


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('hostile')}/posse.db"


@pytest.fixture(scope="module")
def client(database, tmp_path_factory):
    with (
        fleet(database, tmp_path_factory.mktemp("serve"), workers=2) as service,
        httpx.Client(base_url=service.url, timeout=30) as client,
    ):
        begin(service.url)
        client.post(f"{PATH}/decisions", json={"players": PLAYERS})
        yield client


@pytest.fixture(autouse=True)
def nothing_changes(client, database):
    before = everything(database)
    yield
    assert everything(database) == before
    assert client.post(f"{PATH}/decisions", json={"player": PLAYERS[0]}).status_code == 200  # and it still works


def everything(database: str) -> list[list[tuple]]:
    tables = ("experiments", "players", "arms", "decisions", "rewards", "changes", "stats", "tokens")
    return [rows(database, f"SELECT * FROM {table}") for table in tables]


def check(answer: httpx.Response) -> None:
    assert 400 <= answer.status_code < 500, answer.text[:300]
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.content) < 10_000  # what was sent is not sent back


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_name_anywhere_in_a_body(client, name):
    new = {"name": "new", "arms": ["a", "b"]}
    bodies = [
        ("/v1/experiments", {**new, "name": name}),
        ("/v1/experiments", {**new, "arms": [name, "b"]}),
        ("/v1/experiments", {**new, "players": [name]} if name is not None else {**new, "arms": [None]}),
        ("/v1/experiments", {**new, "policy": {"name": name}}),
        (f"{PATH}/decisions", {"player": name}),
        (f"{PATH}/decisions", {"players": [PLAYERS[0], name]}),
        (f"{PATH}/decisions", {"player": PLAYERS[0], "available": [name]}),
        (f"{PATH}/rewards", {"decision": name, "reward": 1}),
        (f"{PATH}/records", {"rewards": [{"player": name, "arm": "green", "reward": 1}]}),
        (f"{PATH}/records", {"rewards": [{"player": PLAYERS[0], "arm": name, "reward": 1}]}),
        (f"{PATH}/erasures", {"player": name}),
    ]
    for path, body in bodies:
        check(client.post(path, content=json.dumps(body), headers={"content-type": "application/json"}))


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_that_is_no_reward(client, value):
    identity = client.get(f"{PATH}/log?limit=1").json()["rows"][0]["decision"]
    check(client.post(f"{PATH}/rewards", json={"decision": identity, "reward": value}))
    check(client.post(f"{PATH}/records", json={"rewards": [{"player": PLAYERS[0], "arm": "green", "reward": value}]}))


@pytest.mark.parametrize("body", [b"[" * 500_000, b'{"a":' * 100_000, b"NaN", b'{"player": NaN}', b"\0", b"\xff\xfe"])
@pytest.mark.parametrize(("method", "path"), WRITES)
def test_json_that_is_deep_or_is_none(client, method, path, body):
    check(client.request(method, path, content=body, headers={"content-type": "application/json"}))


@pytest.mark.parametrize("key", ["k" * 60_000, "with space", "\x7f", "é".encode(), b"\xff", ""])
def test_a_key_that_is_none(client, key):
    check(client.post(f"{PATH}/decisions", json={"player": PLAYERS[0]}, headers={"Idempotency-Key": key}))


@pytest.mark.parametrize("place", ["%00", "%2e%2e", "..%2f..", "%ff", "x" * 60_000, "%F0%9F%8D%B5", "%0d%0aX:1"])
def test_an_address_that_is_none(client, place):
    for method, path in (("GET", ""), ("GET", "/log"), ("GET", "/state"), ("POST", "/decisions"), ("POST", "/rewards")):
        answer = client.request(method, f"/v1/experiments/{place}{path}", json={"player": "Lyon"})
        assert 400 <= answer.status_code < 500, answer.text[:300]


@pytest.mark.parametrize(
    "query", ["after=-1", "after=1e9", "after=" + "9" * 400, "limit=0", "limit=10**9", "limit=NaN"]
)
def test_a_query_that_is_none(client, query):
    check(client.get(f"{PATH}/log?{query}"))


POST = b"POST %s/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" % PATH.encode()
GARBAGE = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "a long line": b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 100_000 + b"\r\n",
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "half a body": POST + b'Content-Length: 99\r\n\r\n{"player": "shop 0"}',
    "a chunk that lies": POST + b"Transfer-Encoding: chunked\r\n\r\nfffffff\r\n{}",
}


@pytest.mark.parametrize("sent", GARBAGE.values(), ids=GARBAGE)
def test_what_is_no_request(client, sent):
    parts = urlsplit(str(client.base_url))
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as line:
        try:
            line.sendall(sent)
            line.shutdown(socket.SHUT_WR)
            said = line.recv(4096)
        except OSError:  # it hung up before all was sent
            said = b""
    assert said == b"" or said.startswith(b"HTTP/1.1 4"), said[:200]
