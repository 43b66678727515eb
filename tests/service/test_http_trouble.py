"""What the API says when something behind it fails."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time

import httpx
import pytest
from serving import new_experiment, problem_of, service

from posse.service import auth
from posse.service.auth import COOKIE
from posse.service.storage import database, queries
from posse.service.storage.errors import Damaged, Overloaded, Unavailable
from posse.service.storage.live_experiment import LiveExperiment
from posse.service.storage.store import ServiceStore
from posse.service.writer import Writer


@pytest.fixture
def client(tmp_path):
    with service(tmp_path) as client:
        yield client


def failing(error):
    def fail(*args, **kwargs):
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (Unavailable("the disk is full"), 503, "unavailable"),
        (Overloaded("10,000 requests wait already"), 503, "overloaded"),
        (Damaged("row 7 cannot be right"), 500, "damaged"),
        (KeyError("posse_1_hush"), 500, "internal"),
    ],
)
@pytest.mark.parametrize("where", ["writing", "reading", "looking whether it is ready"])
def test_what_fails_behind_it_becomes_a_problem(client, monkeypatch, caplog, error, status, kind, where):
    path = new_experiment(client)
    target, method = {
        "writing": (LiveExperiment, "choose"),
        "reading": (queries, "experiment"),
        "looking whether it is ready": (database, "check_version"),
    }[where]
    monkeypatch.setattr(target, method, failing(error))
    with caplog.at_level(logging.ERROR):
        if where == "writing":
            answer = client.post(f"{path}/decisions", json={"player": "Lyon"})
        else:
            answer = client.get(path if where == "reading" else "/readyz")
    assert problem_of(answer, status) == kind
    assert answer.headers.get("retry-after") == ("1" if status == 503 else None)
    assert ("hush" in answer.text) is False
    assert bool(caplog.records) is (kind == "internal")
    monkeypatch.undo()
    assert client.get(path).json()["decisions"] == 0
    assert client.post(f"{path}/decisions", json={"player": "Lyon"}).status_code == 200


@pytest.mark.parametrize("trouble", ["no file", "an older schema", "a newer schema", "no schema", "no database"])
def test_a_database_that_is_not_what_it_was_is_not_ready(client, tmp_path, caplog, trouble):
    assert client.get("/readyz").status_code == 200
    if trouble == "no file":
        (tmp_path / "posse.db").rename(tmp_path / "elsewhere.db")
    elif trouble == "no database":
        (tmp_path / "posse.db").write_bytes(b"something else altogether" * 1000)
    else:
        version = {"an older schema": "0000", "a newer schema": "9999"}.get(trouble)
        with contextlib.closing(sqlite3.connect(tmp_path / "posse.db")) as connection, connection:
            connection.execute("DELETE FROM alembic_version")
            if version is not None:
                connection.execute("INSERT INTO alembic_version VALUES (?)", (version,))
    answer = client.get("/readyz")
    damaged = trouble == "no database"
    assert problem_of(answer, 500 if damaged else 503) == ("damaged" if damaged else "unavailable")
    assert str(tmp_path) in caplog.text
    assert str(tmp_path) not in answer.text  # nobody was asked for a token
    assert answer.headers.get("retry-after") == (None if damaged else "1")


@pytest.mark.parametrize("is_open", [False, True])
def test_a_database_that_is_away_lets_nobody_in_but_says_so(tmp_path, monkeypatch, is_open):
    token = f"posse_1_{43 * 'x'}"
    headers, path = {"Authorization": f"Bearer {token}"}, "/v1/experiments/offers"
    with service(tmp_path, trust_seconds=0.0, open=is_open) as client:
        monkeypatch.setattr(auth, "all_tokens", failing(Unavailable("the database is away")))
        assert problem_of(client.get(path, headers=headers), 503) == "unavailable"
        assert problem_of(client.post(f"{path}/decisions", json={"player": "Lyon"}, headers=headers), 503)
        assert client.get("/", headers={"Cookie": f"{COOKIE}={token}"}).status_code == 503


def test_a_queue_that_is_full_is_said_at_once(client, monkeypatch):
    path = new_experiment(client)
    monkeypatch.setattr(Writer, "apply", failing(Overloaded("10,000 requests wait already")))
    assert problem_of(client.post(f"{path}/decisions", json={"player": "Lyon"}), 503) == "overloaded"


def test_an_answer_that_takes_too_long_is_given_up_but_not_what_was_asked(tmp_path, monkeypatch):
    go_on, choose = threading.Event(), LiveExperiment.choose

    def slow(*args, **kwargs):
        go_on.wait(30)
        return choose(*args, **kwargs)

    body, key = {"player": "Lyon"}, {"Idempotency-Key": "k"}
    with service(tmp_path) as client:
        path = new_experiment(client)
    with service(tmp_path, answer_seconds=0.1, body_seconds=0.1) as client:
        monkeypatch.setattr(LiveExperiment, "choose", slow)
        assert problem_of(client.post(f"{path}/decisions", json=body, headers=key), 503) == "timeout"
        go_on.set()
    monkeypatch.undo()
    with service(tmp_path) as client:
        assert client.post(f"{path}/decisions", json=body, headers=key).status_code == 200
        assert client.get(path).json()["decisions"] == 1


def test_a_stop_finishes_what_was_accepted(tmp_path, monkeypatch):
    begun, choose, answers = threading.Event(), LiveExperiment.choose, []

    def slow(*args, **kwargs):
        begun.set()
        time.sleep(0.5)
        return choose(*args, **kwargs)

    with service(tmp_path) as client:
        path = new_experiment(client)
        monkeypatch.setattr(LiveExperiment, "choose", slow)
        url = f"{client.base_url}{path}/decisions"
        asking = threading.Thread(target=lambda: answers.append(httpx.post(url, json={"player": "Lyon"}, timeout=30)))
        asking.start()
        assert begun.wait(30)
    asking.join()
    assert [answer.status_code for answer in answers] == [200]
    store = ServiceStore(f"sqlite:///{tmp_path}/posse.db")
    assert store.read(queries.experiments)[0].decisions == 1
    store.close()


def test_a_database_that_takes_too_long_is_told_in_the_log(tmp_path, monkeypatch, caplog):
    with service(tmp_path) as client:
        monkeypatch.setattr("posse.service.api.operation.PROBE_LIMIT", 0.1)
        monkeypatch.setattr("posse.service.api.operation.database.check_version", lambda engine: time.sleep(0.3))
        assert problem_of(client.get("/readyz"), 503) == "unavailable"
    assert "not ready: the database did not answer in 0.1 s" in caplog.text
