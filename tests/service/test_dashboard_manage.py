"""The pages that manage experiments and tokens, as a browser without scripts sends their forms."""

from __future__ import annotations

import time
from urllib.parse import quote_plus

import pytest
from managing import SHOPS, described, do, made, pages, roster
from test_dashboard import FORM, HOSTILE, Page

from posse.service.dashboard import manage_routes


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with pages(tmp_path_factory.mktemp("pages")) as client:
        yield client


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
