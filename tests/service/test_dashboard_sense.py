"""What a newcomer stumbles over on the pages: sentences that contradict each other, dead ends, empty parts."""

from __future__ import annotations

import re
import time

import pytest
from scenes import learner_of_shops, snapshot_of
from serving import service
from test_dashboard import FORM, Page
from test_dashboard_numbers import _concluded, _lead, _text

import posse
from posse.service.auth import CreateToken
from posse.service.dashboard import experiment_page
from posse.service.dashboard.analysis import conclusion
from posse.service.dashboard.analysis_process import arguments
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit
from stores import Clock


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with service(tmp_path_factory.mktemp("sense"), defaults_seconds=None) as client:
        client.headers["origin"] = str(client.base_url).rstrip("/")
        yield client


def _ids(html: str) -> set[str | None]:
    return {attributes.get("id") for _, attributes in Page(html).tags}


def test_a_page_that_stays_open_no_longer_waits_after_the_first_decision(client):
    address = client.post("/experiments", data={**FORM, "name": "begun"}).headers["location"]
    assert "first" not in _ids(client.get(f"{address}/live").text)
    client.post("/v1/experiments/begun/decisions", json={"player": "Lyon"})
    for _ in range(150):  # for as long as a snapshot is kept
        part = client.get(f"{address}/live").text
        if "first" in _ids(part):
            break
        time.sleep(0.1)
    assert '<div id="first" hx-swap-oob="innerHTML"></div>' in part
    assert {"first", "legend"} <= _ids(part) & _ids(client.get(address).text)


def test_nothing_is_checked_or_summed_up_before_it_begins_and_nothing_is_said_twice(client):
    address = client.post("/experiments", data={**FORM, "name": "empty"}).headers["location"]
    page = client.get(address).text
    assert "as far as 0 decisions" not in Page(page).text
    assert "There is nothing to check before the first decision." in Page(page).text
    assert Page(page).text.count("neither") == 1
    assert "summary" not in _ids(page)


def test_what_has_ended_does_not_go_on():
    learner, clock = learner_of_shops(400)
    for status, begins, costs in (("running", "No arm", True), ("finished", "No arm", False)):
        snapshot = snapshot_of(learner, clock, status=status)
        assert _lead(snapshot).startswith(begins)
        values = {"arms": experiment_page.shown_arms(snapshot), "amount": experiment_page.amount_of(snapshot)}
        more = {"may_change": True, "address": "/experiments/x", "conclusion": _concluded(snapshot)}
        text = _text("parts/conclusion.html", snapshot=snapshot, **values, **more)
        assert ("Going on as now" in text) == costs


def test_numbers_of_a_log_that_failed_a_check_are_not_to_be_relied_on():
    snapshot = snapshot_of(*learner_of_shops(40))
    values = {"arms": experiment_page.shown_arms(snapshot), "amount": experiment_page.amount_of(snapshot)}
    given = arguments("conclusion", snapshot)
    for doubts in ((), ("ALARM: arm 'x' is chosen too often",)):
        more = {"may_change": True, "address": "/experiments/x", "conclusion": conclusion(*given[:-1], doubts)}
        text = _text("parts/conclusion.html", snapshot=snapshot, **values, **more)
        assert ("rely on none of them" in text.split("guaranteed range")[0]) == bool(doubts)


def test_the_likeliest_arm_comes_first():
    snapshot = snapshot_of(*learner_of_shops(400))
    values = {"arms": experiment_page.shown_arms(snapshot), "amount": experiment_page.amount_of(snapshot)}
    found = _concluded(snapshot)
    more = {"may_change": True, "address": "/experiments/x", "conclusion": found}
    text = _text("parts/conclusion.html", snapshot=snapshot, **values, **more).split("guaranteed range")[1]
    order = sorted(found["arms"], key=lambda arm: -arm["chance"])
    assert text.index(order[0]["name"]) < text.index(order[1]["name"]) < text.index(order[2]["name"])


def test_the_end_names_players_with_an_arm_of_their_own(client):
    address = client.post("/experiments", data={**FORM, "name": "ended"}).headers["location"]
    made = client.post("/v1/experiments/ended/decisions", json={"player": "Lyon"}).json()["decisions"][0]
    client.post("/v1/experiments/ended/rewards", json={"decision": made["id"], "reward": 1})
    finish = {"do": "finish", "ship": "blue", "ship_for": "Lyon: red"}
    assert client.post(f"{address}/manage", data=finish).status_code == 303
    said = "Every decision is blue, except for 1 player with an arm of their own."
    assert said in Page(client.get(address).text).text.replace(" ,", ",")
    summary = Page(client.get(f"{address}/summary").text).text
    assert re.search(r"As of 20\d\d-\d\d-\d\d \d\d:\d\d UTC, 1 decision\b", summary)
    assert "The experiment is finished; blue was shipped, with other arms for 1 player." in summary
    assert "Go on" not in summary
    assert "To stop or to go on" not in summary
    again = client.get(f"{address}/ask", params={"do": "finish"}).text
    assert "Ship another arm in ended ?" in Page(again).text
    assert f"{address}/summary" in client.get(f"{address}/manage").text


def test_what_is_deleted_is_said_and_its_open_page_says_so_too(client):
    address = client.post("/experiments", data={**FORM, "name": "gone"}).headers["location"]
    for do in ("finish", "archive"):
        client.post(f"{address}/manage", data={"do": do})
    answer = client.post(f"{address}/delete", data={"confirm": "gone"})
    assert "The experiment is deleted." in Page(client.get(answer.headers["location"]).text).text
    assert "The experiment is deleted." not in Page(client.get("/").text).text
    part = client.get(f"{address}/live")
    assert (part.status_code, part.headers["hx-refresh"]) == (404, "true")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"high": "50"}, "choose “A number”, or 0 and 1."),
        ({"epsilon": "0.2"}, "choose that, or leave ε empty."),
        ({"sharing": "alone", "epsilon": "0.2"}, "choose that, or leave ε empty."),
    ],
)
def test_a_number_for_what_was_not_chosen_is_not_dropped_silently(client, change, said):
    answer = client.post("/experiments", data={**FORM, "name": "not chosen", **change})
    assert answer.status_code == 422
    assert said in Page(answer.text).text
    assert client.get("/experiments/not%20chosen").status_code == 404


def test_where_the_program_gets_its_token(tmp_path):
    with service(tmp_path, defaults_seconds=None, trust_seconds=0.0) as client:
        client.headers["origin"] = str(client.base_url).rstrip("/")
        client.post("/experiments", data={**FORM, "name": "one"})
        client.post("/experiments", data={**FORM, "name": "nobody", "players": ""})
        store = ServiceStore(f"sqlite:///{tmp_path}/posse.db")
        secrets = {scope: commit(store, CreateToken(scope)) for scope in ("admin", "read")}
        store.close()
        for scope, links in (("admin", True), ("read", False)):
            client.cookies.clear()
            client.post("/login", data={"token": secrets[scope]})
            page = Page(client.get("/experiments/one").text)
            assert "needs a token for decide and reward" in page.text
            assert "needs a token for admin" in Page(client.get("/experiments/nobody").text).text
            assert ("/tokens" in [each.get("href") for _, each in page.tags]) == links


def test_an_alarm_says_what_to_do_about_the_arm():
    bounds = {"refund": posse.Outcome(at_most=0.1), "complaint": posse.Outcome(at_most=0.1, action="retire")}
    learner = posse.Learner(arms=["blue", "red", "plants"], players=["Lyon"], seed=1, outcomes=bounds)
    for _ in range(150):
        made = learner.choose("Lyon")
        outcomes = {"refund": float(made.arm == "blue"), "complaint": float(made.arm == "red")}
        learner.observe(made, 0.5, outcomes=outcomes)
    snapshot = snapshot_of(learner, Clock(0.0))
    values = {"diagnosis": {"state": "early"}, "address": "/experiments/x"}
    text = _text("parts/alarm.html", snapshot=snapshot, **values, may_change=True)
    assert text.count("Retire the arm… blue") == text.count("The arm is retired") == 1
    assert "Retire the arm" not in _text("parts/alarm.html", snapshot=snapshot, **values, may_change=False)


@pytest.mark.parametrize("token", ["posse_…", "posse_1_abc\n", 7])
def test_the_example_with_its_token_left_as_it_is_says_what_to_put_there(token):
    with pytest.raises(ValueError, match="posse token create"):
        posse.Client("http://127.0.0.1:1", token=token)


def test_averages_that_rest_on_few_decisions_say_so_and_a_random_decision_rests_on_no_data():
    learner, clock = learner_of_shops(300, default_reward=0.0, patience=1e6, holdout=0.5)
    learner.observe(learner.choose("Lyon").id, 1.0)  # while earlier ones wait
    snapshot = snapshot_of(learner, clock)
    assert snapshot.watch.answered < snapshot.rewards
    values = {"arms": experiment_page.shown_arms(snapshot), "amount": experiment_page.amount_of(snapshot)}
    more = {"may_change": True, "address": "/experiments/x", "conclusion": _concluded(snapshot)}
    text = _text("parts/conclusion.html", snapshot=snapshot, **values, **more)
    assert snapshot.counted.pulls.sum() == snapshot.watch.answered
    early = f"{snapshot.rewards - snapshot.watch.answered} reward of decisions made after the oldest one that still"
    assert early in " ".join(text.split())
    recent = _text("parts/recent.html", snapshot=snapshot, **values)
    assert recent.count("holdout") == sum(each.holdout for each in snapshot.recent) > 0
    assert "so did none of the latest" in _text("parts/rewards.html", snapshot=snapshot, **values)


def test_guards_of_arms_without_outcomes_take_no_line():
    bounds = {"refund": posse.Outcome(at_most=0.1)}
    learner = posse.Learner(arms=["blue", "red"], players=["Lyon"], seed=1, outcomes=bounds)
    made = learner.choose("Lyon")
    assert "No outcome has been reported yet." in _text("parts/checks.html", snapshot=snapshot_of(learner, Clock(0.0)))
    learner.observe(made, 1.0, outcomes={"refund": 0.0})
    other = "red" if made.arm == "blue" else "blue"
    text = _text("parts/checks.html", snapshot=snapshot_of(learner, Clock(0.0)))
    assert f"refund {made.arm} 1" in text
    assert f"refund {other}" not in text
