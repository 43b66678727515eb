"""Downloads of the log, tokens, the audit trail, and how the question before the end is filled in."""

from __future__ import annotations

import csv
import io
import re
import time

import pyarrow.csv
import pyarrow.parquet
import pytest
from managing import SHOPS, do, made, pages
from serving import service
from sizes import FULL
from test_dashboard import Page

import posse
from posse.service.commands import Change, Create
from posse.service.dashboard import admin_routes, manage_routes
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with pages(tmp_path_factory.mktemp("pages")) as client:
        yield client


# ---------------------------------------------------------------- its log


def test_a_spreadsheet_computes_nothing_that_a_visitor_sent(client):
    """A combination's values come from whoever decides; a text after an apostrophe is no formula."""
    address = made(client, "formulas", attributes="region", players="", arms="-5\n@b")
    sent = ["=1+1", "+cmd", "-x", "@SUM(1)", "south", "-5", "+2.5", "a=b"]
    for value in sent:
        answer = client.post(f"/v1{address}/decisions", json={"attributes": {"region": value}})
        assert answer.status_code == 200
    rows = list(csv.DictReader(io.StringIO(client.get(f"{address}/log.csv").text)))
    assert [row["region"] for row in rows] == ["'=1+1", "'+cmd", "'-x", "'@SUM(1)", "south", "-5", "+2.5", "a=b"]
    assert {row["arm"] for row in rows} <= {"-5", "'@b"}
    table = pyarrow.parquet.read_table(io.BytesIO(client.get(f"{address}/log.parquet").content))
    assert table["region"].to_pylist() == sent


def test_the_log_is_downloaded_as_parquet_and_as_csv(client, monkeypatch):
    address = made(client, "log of 100 %", attributes="region", players="Lyon: region=south\nNice")
    for number in range(20):
        decision = client.post(f"/v1{address}/decisions", json={"player": ["Lyon", "Nice"][number % 2]}).json()
        if number % 3:
            report = {"decision": decision["decisions"][0]["id"], "reward": number % 2}
            client.post(f"/v1{address}/rewards", json=report)
    answer = client.get(f"{address}/log.parquet")
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''log%20of%20100%20%25.parquet"
    table = pyarrow.parquet.read_table(io.BytesIO(answer.content))
    assert posse.Learner.replay(table).log().equals(table)
    answer = client.get(f"{address}/log.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    rows = pyarrow.csv.read_csv(io.BytesIO(answer.content))
    assert rows.column_names == [name for name in table.column_names if name != "probabilities"]
    for name in ("player", "arm", "reward", "propensity"):
        assert rows[name].to_pylist() == table[name].to_pylist()
    assert client.get(f"{address}/log.txt").status_code == 404
    assert client.get("/experiments/none/log.csv").status_code == 404
    monkeypatch.setattr(manage_routes, "MOST_ROWS", 10)
    answer = client.get(f"{address}/log.csv")
    assert answer.status_code == 409
    assert "posse db export" in Page(answer.text).text


# ---------------------------------------------------------------- tokens


def test_tokens_are_made_shown_once_and_revoked(tmp_path):
    with service(tmp_path, defaults_seconds=None, trust_seconds=0.0) as client:
        client.headers["origin"] = str(client.base_url).rstrip("/")
        made(client, "ours")
        assert "This service is open" in Page(client.get("/tokens").text).text
        for wrong, said in [
            ({}, "Tick what the token is for."),
            ({"scope-read": "yes"}, "The first token must be for admin"),
            ({"scope-admin": "yes", "experiment": "ours"}, "The first token must be for admin"),
            ({"scope-admin": "yes", "label": "\x07"}, "label"),
            ({"scope-admin": "yes", "days": "a"}, "Choose how long it lasts."),
        ]:
            answer = client.post("/tokens", data=wrong)
            assert answer.status_code == 422
            assert said in Page(answer.text).text
        assert client.get("/v1/experiments").status_code == 200  # still open
        admin = secret_of(client.post("/tokens", data={"scope-admin": "yes", "label": "<me>"}))
        assert client.get("/tokens").status_code == 303  # to the login
        client.post("/login", data={"token": admin})
        page = Page(client.get("/tokens").text)
        assert admin not in page.text
        assert "1 <me> you are signed in with it admin all" in page.text
        answer = client.post("/tokens", data={"scope-read": "yes", "experiment": "theirs"})
        assert "no experiment 'theirs'" in Page(answer.text).text
        data = {"scope-read": "yes", "scope-reward": "yes", "experiment": "ours", "days": "30"}
        secret = secret_of(client.post("/tokens", data=data))
        bearer = {"Authorization": f"Bearer {secret}"}
        assert client.get("/v1/experiments/ours", headers=bearer).status_code == 200
        assert "read, reward ours" in Page(client.get("/tokens").text).text
        assert "valid for 30 days" in Page(client.get("/tokens").text).text
        assert "cannot be undone" in Page(client.get("/tokens/2/ask").text).text
        assert "you will be signed out" in Page(client.get("/tokens/1/ask").text).text
        assert client.post("/tokens/2/revoke").status_code == 303
        assert client.get("/v1/experiments/ours", headers=bearer).status_code == 401
        assert "revoked" in Page(client.get("/tokens").text).text
        assert "<me> revoke token token 2" in Page(client.get("/audit").text).text
        for number in ("3", "-1", "x", "9" * 30):
            assert client.get(f"/tokens/{number}/ask").status_code == 404
            assert client.post(f"/tokens/{number}/revoke").status_code == 404


def test_the_audit_trail_says_who_did_what_and_names_no_player(client, monkeypatch):
    address = made(client, "audited <b>", players="Lyon\nNice")
    do(client, address, "retire-arm", who="red")
    do(client, address, "shares", shares="blue: 50 to 60")
    do(client, address, "erase", who="Lyon")
    text = Page(client.get("/audit", params={"experiment": "audited <b>"}).text).text
    assert "open service change retire arm 'red'" in text
    assert text.index("erase") < text.index("retire arm 'red'") < text.index("create")
    assert "open service change shares" in text
    assert "Lyon" not in text
    assert "audited <b>" in Page(client.get("/audit").text).text
    monkeypatch.setattr(admin_routes, "ENTRIES", 2)
    first = Page(client.get("/audit", params={"experiment": "audited <b>"}).text)
    (older,) = [each["href"] for tag, each in first.tags if "before=" in (each.get("href") or "")]
    assert "create" in Page(client.get(older).text).text
    for query in ({"before": "x"}, {"before": "9" * 40}, {"experiment": "\0"}):
        assert client.get("/audit", params=query).status_code == 200


def secret_of(answer) -> str:
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    (found,) = re.findall(r"posse_\d+_[\w-]{43}", answer.text)
    return found


@pytest.mark.parametrize(
    ("conclusion", "filled"),
    [
        ({"winner": "red", "leader": "red", "winners": {"Lyon": "red", "Nice": "blue"}}, ("red", "Nice: blue")),
        ({"winner": None, "leader": "red", "winners": {"Nice": "red"}}, ("blue", "Nice: red")),  # the control goes on
        ({"state": "early"}, ("blue", "")),
        ({"winner": "plants", "leader": "plants", "winners": {"Nice": "plants"}}, ("blue", "")),  # which has retired
    ],
)
def test_the_end_is_filled_in_by_what_is_known(tmp_path, conclusion, filled):
    store = ServiceStore(f"sqlite:///{tmp_path}/posse.db", create=True)
    players = ["Lyon", "Nice"]
    commit(store, Create("life", posse.IndTSV(), ["blue", "red", "plants"], players, control="blue"))
    experiment = commit(store, Change("life", retire_arms=["plants"]))
    assert manage_routes._to_ship(experiment, conclusion) == dict(zip(("ship", "ship_for"), filled, strict=True))
    finished = commit(store, Change("life", status="finished", ship="red", ship_for={"Lyon": "blue"}))
    assert manage_routes._to_ship(finished, conclusion) == {"ship": "red", "ship_for": "Lyon: blue"}
    store.close()


@pytest.mark.skipif(not FULL, reason="half a minute until there is a conclusion: make test-service FULL=1")
def test_the_end_is_filled_in_by_the_conclusion(client):
    address = made(client, "clear", control="blue", players=SHOPS)
    question = Page(client.get(f"{address}/ask?do=finish").text)
    assert selected(question) == ["blue"]  # nothing is known yet, so the control goes on
    for _ in range(12):
        decisions = client.post(f"/v1{address}/decisions", json={"players": SHOPS.split("\n")}).json()["decisions"]
        reports = [{"decision": each["id"], "reward": float(each["arm"] == "red")} for each in decisions]
        assert client.post(f"/v1{address}/rewards", json={"rewards": reports}).status_code == 200
    for _ in range(100):
        question = Page(client.get(f"{address}/ask?do=finish").text)
        if "Ship red for everybody" in question.text:
            break
        time.sleep(0.2)
    assert "Ship red for everybody" in question.text
    assert selected(question) == ["red"]
    assert "shop 1: red" not in question.text  # everybody has it already
    do(client, address, "finish", ship="plants")
    assert selected(Page(client.get(f"{address}/ask?do=finish").text)) == ["plants"]


def selected(page: Page) -> list[str | None]:
    return [each.get("value") for tag, each in page.tags if tag == "option" and "selected" in each]
