"""The dashboard's pages as a browser gets them: what they say, whom they serve, and that nothing in them can run."""

from __future__ import annotations

import hashlib
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from serving import new_experiment, service

from posse.service import dashboard

HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "שלום עולם مرحبا",
    "{{ 7 * 7 }}",
    "x" * 200,
    "&lt;b&gt; O'Hara & sons",
    "javascript:alert(1)",
)
FORM = {"name": "shop windows", "arms": "blue\nred\r\n\nplants ", "players": "Lyon\nNice", "reward": "yes-no"}


class Page(HTMLParser):
    """The tags, the words and the links of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with service(tmp_path_factory.mktemp("dashboard"), defaults_seconds=None) as client:
        client.headers["origin"] = str(client.base_url).rstrip("/")
        yield client


@pytest.fixture(scope="module")
def hostile(client):
    """The address of an experiment in which every name is an attack."""
    name = HOSTILE[0].replace("/", "|") + " ".join(HOSTILE[1:4]).replace("/", "|")
    body = {"name": name, "arms": HOSTILE, "players": HOSTILE, "policy": {"name": "IndTSV"}}
    assert client.post("/v1/experiments", json=body).status_code == 201
    path = client.get("/v1/experiments").json()["experiments"]
    assert name in [each["name"] for each in path]
    for player in HOSTILE:
        decision = client.post(f"/v1/experiments/{_quoted(name)}/decisions", json={"player": player}).json()
        report = {"decision": decision["decisions"][0]["id"], "reward": 1}
        assert client.post(f"/v1/experiments/{_quoted(name)}/rewards", json=report).status_code == 200
    return f"/experiments/{_quoted(name)}"


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")


# ---------------------------------------------------------------- safety


@pytest.mark.parametrize("path", ["/", "/login", "/experiments/nothing", "hostile", "hostile/live"])
def test_no_page_has_anything_that_could_run_or_come_from_elsewhere(client, hostile, path):
    answer = client.get(path.replace("hostile", hostile))
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag, attributes in Page(answer.text).tags:
        assert tag not in ("style", "iframe", "object", "embed", "img", "base")
        assert tag != "script" or (attributes["src"] or "").startswith("/static/")
        assert not [name for name in attributes if name.startswith("on") or name in ("style", "hx-on", "srcdoc")]
        for name in ("src", "href", "action", "hx-get"):
            assert (attributes.get(name) or "/").startswith(("/", "#")), attributes
            assert not (attributes.get(name) or "/").startswith("//")


def test_hostile_names_are_shown_as_they_are(client, hostile):
    text = Page(client.get(hostile).text).text
    for name in HOSTILE:
        assert name in text


def test_answers_for_charts_are_json_and_nothing_else(client, hostile):
    answer = client.get(f"{hostile}/chart.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    data = answer.json()
    assert len(data["names"]) == len(HOSTILE)
    assert len(data["ribbons"]) == len(HOSTILE)


def test_a_form_that_another_site_sends_is_refused(client):
    answer = client.post("/experiments", data=FORM, headers={"origin": "https://elsewhere.example"})
    assert answer.status_code == 403
    assert client.get("/experiments/shop%20windows").status_code == 404


@pytest.mark.parametrize(
    "path", ["../routes.py", "%2e%2e/routes.py", "vendor", "vendor/../dashboard.css/..", "none.css"]
)
def test_only_static_files_are_served(client, path):
    assert client.get(f"/static/{path}").status_code == 404


def test_static_files_are_kept_by_browsers_as_long_as_they_stay_the_same(client):
    page = client.get("/").text
    links = [attributes["href"] for tag, attributes in Page(page).tags if tag == "link"]
    for link in links:
        answer = client.get(link)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert "immutable" not in client.get("/static/dashboard.css?v=old").headers["cache-control"]


def test_what_is_vendored_is_what_its_note_says():
    folder = Path(dashboard.__file__).parent / "static" / "vendor"
    note = (folder / "VERSIONS").read_text()
    for file in ("htmx.min.js", "uplot.iife.min.js", "uplot.min.css"):
        assert f"{hashlib.sha256((folder / file).read_bytes()).hexdigest()}  {file}" in note
    assert (folder / "htmx.LICENSE").exists()
    assert (folder / "uplot.LICENSE").exists()


# ---------------------------------------------------------------- the form


def test_the_form_creates_an_experiment(client):
    answer = client.post("/experiments", data={**FORM, "sharing": "limit", "epsilon": "0.2", "holdout": "5"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/experiments/shop%20windows")
    made = client.get("/v1/experiments/shop%20windows").json()
    assert [arm["name"] for arm in made["arms"]] == ["blue", "red", "plants"]
    assert [player["name"] for player in made["players"]] == ["Lyon", "Nice"]
    assert made["policy"]["constants"] == {"epsilon": 0.2}
    assert made["holdout"] == 0.05
    text = Page(client.get(answer.headers["location"]).text).text
    assert "2 players choose among 3 arms" in text
    assert "Nothing has been tried yet" in text
    assert "client.choose('shop windows', 'Lyon')" in text
    assert "token=" not in text  # which an open service does not ask for


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": " "}, "Give the experiment a name."),
        ({"name": "a/b"}, "a/b"),
        ({"arms": "only one"}, "Name at least two arms"),
        ({"arms": "blue\nblue"}, "arm 'blue' is named twice"),
        ({"reward": "number", "low": "5", "high": "1"}, "The highest reward must be above the lowest."),
        ({"reward": "number", "low": "0", "high": "many"}, "Give a number for the highest reward; 'many' is none."),
        ({"sharing": "limit", "epsilon": "-1"}, "epsilon=-1"),
        ({"sharing": "limit"}, "Give a number for ε."),
        ({"sharing": "limit", "epsilon": "7"}, "epsilon=7"),
        ({"patience": "5"}, "Give a number for the reward to count."),
        ({"patience": "0", "default_reward": "0"}, "Wait for more than 0 minutes."),
        ({"patience": "1", "default_reward": "4"}, "default_reward=4"),
        ({"holdout": "200"}, "Give a percentage from 0 to 100."),
        ({"holdout": "nan"}, "Give a percentage from 0 to 100."),
    ],
)
def test_a_form_that_is_not_right_comes_back_with_what_was_typed(client, change, said):
    before = len(client.get("/v1/experiments").json()["experiments"])
    answer = client.post("/experiments", data={**FORM, "name": "typed in <vain>", **change})
    page = Page(answer.text)
    assert answer.status_code == 422
    assert said in page.text
    assert "Not created yet." in page.text
    fields = {each.get("id"): each for tag, each in page.tags if tag == "input"}
    assert fields["name"]["value"] == change.get("name", "typed in <vain>")
    assert len(client.get("/v1/experiments").json()["experiments"]) == before


def test_two_experiments_have_two_names(client):
    client.post("/experiments", data={**FORM, "name": "twice"})
    answer = client.post("/experiments", data={**FORM, "name": "twice"})
    assert answer.status_code == 422
    assert "There is an experiment of this name already." in Page(answer.text).text


def test_a_form_in_another_encoding_is_refused(client):
    answer = client.post("/experiments", content=b"name=%ff%fe", headers={"content-type": "x"})
    assert answer.status_code == 400


# ---------------------------------------------------------------- one experiment


def test_a_page_follows_what_happens(client):
    address = client.post("/experiments", data={**FORM, "name": "followed"}).headers["location"]
    assert "Waiting for the first decision" in Page(client.get(address).text).text
    for number in range(12):
        decision = client.post("/v1/experiments/followed/decisions", json={"player": "Lyon"}).json()["decisions"][0]
        if number % 3:
            report = {"decision": decision["id"], "reward": 1}
            client.post("/v1/experiments/followed/rewards", json=report)
    time.sleep(1.1)  # for as long as a snapshot is kept
    text = Page(client.get(address).text).text
    assert "Decisions 12" in text
    assert "Rewards 8" in text
    assert "Waiting for a reward 4" in text
    assert text.count("waiting") >= 4
    data = client.get(f"{address}/chart.json").json()
    assert data["upto"] == list(range(1, 13))


def test_what_has_not_changed_is_not_sent_again(client):
    address = client.post("/experiments", data={**FORM, "name": "quiet"}).headers["location"]
    for _ in range(3):  # once more if a new stretch of ten seconds has begun in between
        page = Page(client.get(f"{address}/live").text)
        seen = next(each["value"] for tag, each in page.tags if each.get("id") == "seen")
        again = client.get(f"{address}/live", params={"seen": seen})
        if again.status_code == 204:
            break
    assert again.status_code == 204
    assert client.get(f"{address}/live", params={"seen": "other"}).status_code == 200


def test_an_experiment_is_paused_and_resumed(client):
    address = client.post("/experiments", data={**FORM, "name": "paused"}).headers["location"]
    assert client.post(f"{address}/manage", data={"do": "pause"}).headers["location"] == address
    assert client.post("/v1/experiments/paused/decisions", json={"player": "Lyon"}).status_code == 409
    assert "Paused. No decisions are made" in Page(client.get(address).text).text
    client.post(f"{address}/manage", data={"do": "resume"})
    assert client.post("/v1/experiments/paused/decisions", json={"player": "Lyon"}).status_code == 200
    assert "Running" in Page(client.get(address).text).text


def test_many_players_come_page_by_page_and_are_found(client):
    players = "\n".join(f"shop {number}" for number in range(60))
    address = client.post("/experiments", data={**FORM, "name": "many", "players": players}).headers["location"]
    text = Page(client.get(address, params={"page": "3"}).text).text
    assert "Page 3 of 3" in text
    assert "shop 59" in text
    assert "shop 1 " not in text
    found = Page(client.get(address, params={"q": "SHOP 42"}).text).text
    assert "shop 42" in found
    assert "shop 41" not in found
    for page in ("-1", "x", "9" * 50):
        assert client.get(address, params={"page": page}).status_code == 200


def test_what_is_not_there_is_said_in_words(client):
    answer = client.get("/experiments/nothing%20like%20it")
    assert answer.status_code == 404
    assert "No such experiment" in Page(answer.text).text
    assert client.get("/experiments/nothing/live").status_code == 404
    assert client.post("/experiments/nothing/manage", data={"do": "pause"}).status_code == 404


def test_the_list_shows_which_experiments_have_an_alarm(client):
    shops = [f"shop {number}" for number in range(40)]
    outcomes = {"refund": {"at_most": 0.1}}
    for name, rewarded, refund in (("calm", 2, 0), ("one arm silent", 1, 0), ("many refunds", 2, 1)):
        made = {"players": shops, "policy": {"name": "IndTS"}, "outcomes": outcomes}
        path = new_experiment(client, name=f"alarm, {name}", **made)
        for _ in range(10):
            decisions = client.post(f"{path}/decisions", json={"players": shops}).json()["decisions"]
            arms = ["coupon", "nothing"][:rewarded]
            known = [each["id"] for each in decisions if each["arm"] in arms]
            rewards = [{"decision": id, "reward": 0.5, "outcomes": {"refund": refund}} for id in known]
            assert client.post(f"{path}/rewards", json={"rewards": rewards}).json()["taken"] == len(known)
    deadline = time.monotonic() + 30
    while True:  # nobody has opened their pages: they are checked beside the list
        cards = client.get("/", params={"q": "alarm,"}).text.split('<li class="card">')[1:]
        texts = [Page(card).text for card in cards]
        if sum("Alarm" in text for text in texts) == 2 or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert ["Alarm: see its page" in text for text in texts] == [False, True, True]
    assert "calm" in texts[0]


# ---------------------------------------------------------------- tokens
