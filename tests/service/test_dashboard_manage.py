"""The pages that manage experiments and tokens, as a browser without scripts sends their forms."""

from __future__ import annotations

import csv
import io
import re
import time
from urllib.parse import quote_plus

import pyarrow.csv
import pyarrow.parquet
import pytest
from serving import service
from sizes import FULL
from test_dashboard import FORM, HOSTILE, Page

import posse
from posse.service.commands import Change, Create
from posse.service.dashboard import admin_routes, manage_routes
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit

SHOPS = "\n".join(f"shop {number}" for number in range(60))


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with service(tmp_path_factory.mktemp("manage"), defaults_seconds=None) as client:
        client.headers["origin"] = str(client.base_url).rstrip("/")
        yield client


def made(client, name: str, **more: str) -> str:
    """The address of a new experiment of the form."""
    answer = client.post("/experiments", data={**FORM, "name": name, **more})
    assert answer.status_code == 303, Page(answer.text).text
    return answer.headers["location"]


def described(client, address: str):
    return client.get("/v1" + address).json()


def roster(client, address: str, kind: str) -> dict[str, bool]:
    return {each["name"]: each["here"] for each in described(client, address)[kind]}


def do(client, address: str, what: str, **more: str):
    return client.post(f"{address}/manage", data={"do": what, **more})


# ---------------------------------------------------------------- the form


def test_the_form_declares_attributes_and_takes_players_with_values(client):
    declared = "region\ndevice: phone, desktop\r\nage: 18, 30.5"
    players = "Lyon: region=south, age=44\nNice: device=phone\nTours: the one on the Loire"
    address = made(client, "attributes", attributes=declared, players=players)
    expected = {"region": "category", "device": ["phone", "desktop"], "age": [18, 30.5]}
    assert described(client, address)["attributes"] == expected
    found = {each["name"]: each["attributes"] for each in client.get(f"/v1{address}/players").json()["players"]}
    assert found == {
        "Lyon": {"region": "south", "age": "30.5 and more"},
        "Nice": {"device": "phone"},
        "Tours: the one on the Loire": {},
    }
    assert do(client, address, "add-players", players="Metz: region=east").status_code == 303
    text = Page(client.get(f"{address}/manage").text).text
    assert "Metz east – – here" in text
    assert "such as Lyon: region=region, device=phone, age=18" in text


def test_the_form_limits_shares_and_they_are_edited_while_it_runs(client):
    more = {"shares": "red: 5 to 30\nplants: 12.5 %", "control": " blue", "burn_in": "50"}
    address = made(client, "ramp", **more)
    found = described(client, address)
    assert found["shares"] == {"red": [0.05, 0.3], "plants": [0.125, 0.125]}
    assert (found["control"], found["burn_in"]) == ("blue", 50)
    page = client.get(f"{address}/manage").text
    assert "red: 5 to 30\nplants: 12.5<" in page
    assert "with which the others are compared, is blue" in Page(page).text
    assert do(client, address, "shares", shares="red: 10 – 60").status_code == 303
    assert described(client, address)["shares"] == {"red": [0.1, 0.6]}
    assert do(client, address, "shares").status_code == 303  # no limits at all
    assert described(client, address)["shares"] == {}


def test_the_form_declares_outcomes(client):
    typed = "refund: 0 to 1, at most 0.05, retire the arm\nminutes: −5 to 60, at least 1.5\ncalls: 0 to 9"
    found = described(client, made(client, "outcomes", outcomes=typed))["outcomes"]
    assert {name: [each[field] for field in each] for name, each in found.items()} == {
        "refund": [[0, 1], 0.05, None, "retire"],
        "minutes": [[-5, 60], None, 1.5, "alarm"],
        "calls": [[0, 9], None, None, "alarm"],
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"attributes": "", "outcomes": "refund, 0 to 1"}, "'refund, 0 to 1' is no outcome"),
        ({"attributes": "", "outcomes": "refund: 0 to 1, at most 2"}, "at_most=2"),
        ({"attributes": "", "outcomes": "refund: . to 1"}, "is no outcome; write it as"),
        ({"attributes": "", "shares": "red: 60\nblue: 50"}, "add up to 1.1"),
        ({"attributes": "", "shares": "green: 60"}, "the arm 'green'"),
        ({"attributes": "", "shares": "red at 5"}, "'red at 5' gives no share of an arm"),
        ({"attributes": "", "control": "green"}, "green"),
        ({"attributes": "", "burn_in": "0.5"}, "burn_in=0.5"),
        ({"attributes": "age: 30, 18"}, "expected rising numbers"),
        ({"attributes": "what for"}, "attribute 'what for'"),
        ({"attributes": "age\nage: 3"}, "attribute 'age' is named twice"),
        ({"attributes": "age: 18", "players": "Lyon: age=old"}, "player 'Lyon'"),
        ({"attributes": "age: 18", "players": "Lyon: height=2"}, "attribute 'height' was not declared"),
        ({"attributes": "age: 18", "players": "Lyon\nLyon: age=3"}, "player 'Lyon' is named twice"),
    ],
)
def test_what_is_wrong_on_a_line_is_said_and_kept(client, change, said):
    answer = client.post("/experiments", data={**FORM, "name": "in vain", **change})
    assert answer.status_code == 422
    assert said in Page(answer.text).text
    assert change["attributes"] in answer.text
    assert client.get("/v1/experiments/in%20vain").status_code == 404


# ---------------------------------------------------------------- one experiment


def test_arms_and_players_come_and_go(client):
    address = made(client, "come and go")
    assert (
        do(client, address, "add-arms", arms="black\r\n white").headers["location"] == f"{address}/manage?done=add-arms"
    )
    assert do(client, address, "retire-arm", who="red").status_code == 303
    assert roster(client, address, "arms") == {
        "blue": True,
        "red": False,
        "plants": True,
        "black": True,
        "white": True,
    }
    assert do(client, address, "return-arm", who="red").status_code == 303
    assert roster(client, address, "arms")["red"]
    do(client, address, "add-players", players="Metz")
    do(client, address, "retire-player", who="Lyon")
    assert roster(client, address, "players") == {"Lyon": False, "Nice": True, "Metz": True}
    do(client, address, "return-player", who="Lyon")
    assert roster(client, address, "players")["Lyon"]
    assert do(client, address, "erase", who="Lyon").status_code == 303
    first = next(iter(roster(client, address, "players")))
    assert first.startswith("erased-")
    page = Page(client.get(f"{address}/manage", params={"done": "erase"}).text)
    assert "The name is erased." in page.text
    assert "Lyon" not in page.text.replace("such as Lyon", "")


def test_the_page_asks_first_and_every_question_has_a_way_back(client):
    address = made(client, "asks")
    for what in manage_routes.ASKED:
        page = Page(client.get(f"{address}/ask", params={"do": what, "who": "<b>blue</b>"}).text)
        fields = {each.get("name"): each.get("value") for tag, each in page.tags if tag == "input"}
        assert fields["do"] == what
        assert ("b", {}) not in page.tags
        assert "Cancel" in page.text
        assert f"{address}/manage" in [each.get("href") for tag, each in page.tags if "data-close" in each]
    before = described(client, address)
    assert before["status"] == "running"
    do(client, address, "finish")
    do(client, address, "archive")
    late = do(client, address, "resume")  # from a page that was open all the time
    assert (late.status_code, "the experiment is archived" in Page(late.text).text) == (409, True)
    do(client, address, "restore")
    before = described(client, address)
    assert client.get(f"{address}/ask", params={"do": "dance"}).status_code == 404
    assert do(client, address, "dance").status_code == 400
    assert client.post(f"{address}/manage").status_code == 400
    assert described(client, address) == before


@pytest.mark.parametrize(
    ("what", "more", "said"),
    [
        ("add-arms", {"arms": "blue"}, "blue"),
        ("add-arms", {}, "Name at least one arm"),
        ("add-players", {"players": "\n"}, "Name at least one player"),
        ("add-players", {"players": "Metz\nMetz"}, "Metz"),
        ("retire-arm", {"who": "none"}, "none"),
        ("retire-player", {"who": "Nobody"}, "Nobody"),
        ("erase", {"who": "Nobody"}, "Nobody"),
        ("finish", {"ship": "no such arm"}, "no such arm"),
        ("finish", {"ship": "red", "ship_for": "Lyon blue"}, "'Lyon blue' names no arm for a player"),
        ("finish", {"ship": "red", "ship_for": "Nobody: blue"}, "Nobody"),
        ("finish", {"ship_for": "Lyon: blue"}, "expected ship too"),
        ("archive", {}, "the experiment is running"),
        ("shares", {"shares": "red: 110"}, "red"),
        ("shares", {"shares": "red: 1\nred: 2"}, "arm 'red' is named twice"),
        ("describe", {"description": "x" * 3000}, "expected at most 2,000 printable characters"),
    ],
)
def test_what_cannot_be_done_is_said_where_it_was_asked(client, what, more, said):
    address = "/experiments/refusals"
    if client.get(address).status_code == 404:
        made(client, "refusals")
    before = described(client, address)
    answer = do(client, address, what, **more)
    page = Page(answer.text)
    assert answer.status_code == 422
    assert said in page.text
    where = [each.get("aria-invalid") for tag, each in page.tags if each.get("name") == manage_routes.FIELDS.get(what)]
    assert where in (["true"], []) if what in manage_routes.FIELDS else "Cancel" in page.text
    assert described(client, address) == before


def test_an_experiment_goes_through_its_whole_life(client):
    address = made(client, "life", description="Which window sells?\nAsk Ada.")
    assert described(client, address)["description"] == "Which window sells?\nAsk Ada."
    do(client, address, "describe", description="Which <window> sells?")
    assert "Which <window> sells?" in Page(client.get(f"{address}/manage").text).text
    do(client, address, "pause")
    assert described(client, address)["status"] == "paused"
    do(client, address, "finish", ship="red")
    assert (described(client, address)["status"], described(client, address)["ship"]) == ("finished", "red")
    assert "Every decision is red" in Page(client.get(f"{address}/manage").text).text
    page = Page(client.get(address).text).text
    assert "Which <window> sells?" in page
    assert "Finished. Every decision is red" in page
    question = Page(client.get(f"{address}/ask?do=finish").text)
    assert "Ship another arm in life" in question.text
    options = [each for tag, each in question.tags if tag == "option"]
    assert [each["value"] for each in options if "selected" in each] == ["red"]
    assert "" not in [each["value"] for each in options]  # nothing would change
    refused = do(client, address, "finish", ship="")
    assert (refused.status_code, "to ship nothing, resume it" in Page(refused.text).text) == (422, True)
    do(client, address, "finish", ship="blue", ship_for="Nice: plants")
    said = "except for 1 player with an arm of their own"  # once the page of before has been shown for a second
    assert any(said in Page(client.get(address).text).text or time.sleep(0.2) for _ in range(50))
    assert (described(client, address)["ship"], described(client, address)["ship_for"]) == ("blue", {"Nice": "plants"})
    assert "Nice: plants" in Page(client.get(f"{address}/ask?do=finish").text).text
    assert "except for 1 player" in Page(client.get(f"{address}/manage").text).text
    do(client, address, "resume")
    assert described(client, address)["status"] == "running"
    do(client, address, "finish")
    assert described(client, address)["ship"] is None
    do(client, address, "archive")
    listed = [each.get("href") for tag, each in Page(client.get("/").text).tags]
    assert address not in listed
    assert "/?archived=yes" in listed
    archived = Page(client.get("/?archived=yes").text)
    assert address in [each.get("href") for tag, each in archived.tags]
    assert "New experiment" not in archived.text
    page = Page(client.get(f"{address}/manage").text)
    assert {each.get("name") for tag, each in page.tags if tag == "textarea"} == set()  # it takes nothing
    assert "Erase… Nice" in page.text  # but for this
    assert do(client, address, "erase", who="Nice").status_code == 303
    do(client, address, "restore")
    assert described(client, address)["status"] == "finished"
    refused = client.post(f"{address}/delete", data={"confirm": "life"})
    assert (refused.status_code, "only an archived one can be deleted" in Page(refused.text).text) == (422, True)
    do(client, address, "archive")
    for wrong in ({}, {"confirm": "Life"}):
        refused = client.post(f"{address}/delete", data=wrong)
        assert (refused.status_code, "Type the name" in Page(refused.text).text) == (422, True)
    assert described(client, address)["status"] == "archived"
    assert client.post(f"{address}/delete", data={"confirm": " life "}).headers["location"] == "/?done=delete"
    assert client.get(address).status_code == 404
    assert client.post(f"{address}/delete", data={"confirm": "life"}).status_code == 404
    assert client.post(f"{address}/manage", data={"do": "restore"}).status_code == 404
    assert made(client, "life") == address  # the name is free


def test_many_players_come_page_by_page_and_are_found(client):
    address = made(client, "crowd", players=SHOPS)
    first = Page(client.get(f"{address}/manage").text)
    assert "shop 24" in first.text
    assert "shop 25" not in first.text
    more = next(each["href"] for tag, each in first.tags if "after=" in (each.get("href") or ""))
    assert "shop 25" in Page(client.get(more).text).text
    assert "shop 42" in Page(client.get(f"{address}/manage", params={"q": "SHOP 4"}).text).text
    for search in ("%", "_", "\0", "'"):
        assert "No player matches." in Page(client.get(f"{address}/manage", params={"q": search}).text).text
    assert client.get(f"{address}/manage", params={"after": "x"}).status_code == 200


def test_hostile_names_are_shown_and_sent_back_as_they_are(client):
    body = {"name": "hostile", "arms": HOSTILE, "players": HOSTILE, "policy": {"name": "IndTSV"}}
    assert client.post("/v1/experiments", json=body).status_code == 201
    page = Page(client.get("/experiments/hostile/manage").text)
    for name in HOSTILE:
        assert name in page.text
        link = f"/experiments/hostile/ask?do=retire-arm&who={quote_plus(name)}"
        assert link in [each.get("href") for tag, each in page.tags]
        assert name in Page(client.get(link).text).text
        assert do(client, "/experiments/hostile", "retire-player", who=name).status_code == 303
    assert not any(roster(client, "/experiments/hostile", "players").values())
    assert {tag for tag, _ in page.tags} & {"img", "b", "style"} == set()
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 3


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


def test_an_old_page_neither_ends_a_running_experiment_nor_brings_an_archived_one_back(client):
    address = made(client, "old pages")
    answer = do(client, address, "restore")
    assert answer.status_code == 409
    assert "is running, so there is nothing to restore" in Page(answer.text).text
    assert described(client, address)["status"] == "running"
    for what in ("finish", "archive"):
        assert do(client, address, what).status_code == 303
    answer = do(client, address, "finish", ship="red")
    assert answer.status_code == 422
    assert "is archived, so there is nothing to finish" in Page(answer.text).text
    assert described(client, address)["status"] == "archived"
    for _ in range(2):
        assert do(client, address, "restore").status_code == 303
    assert described(client, address)["status"] == "finished"


def test_a_form_takes_no_more_arms_than_the_api(client):
    address, many = made(client, "arms"), "\n".join(f"arm {number}" for number in range(1001))
    assert "1,001 arms, but expected at most 1,000" in Page(do(client, address, "add-arms", arms=many).text).text
    answer = client.post("/experiments", data={**FORM, "name": "too many arms", "arms": many})
    assert answer.status_code == 422
    assert "1,001 arms, but expected at most 1,000" in Page(answer.text).text


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
