"""An experiment's life over HTTP and in the client: status, shipping, deletion, tokens, and who did what."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from serving import new_experiment, problem_of

import posse
from posse.service.auth import CreateToken
from posse.service.client import ServiceError
from posse.service.client.delivery import RewardReport
from posse.service.process.supervisor import background
from posse.service.settings import Settings
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit


def test_an_experiment_from_its_description_to_its_end(client, path):
    name = path.rpartition("/")[2].replace("%20", " ")
    decision = client.post(f"{path}/decisions", json={"player": "Lyon"}).json()["decisions"][0]
    assert client.patch(path, json={"description": "Which offer?"}).json()["description"] == "Which offer?"
    finish = {"status": "finished", "ship": "coupon", "ship_for": {"Nice": "nothing"}}
    headers = {"Idempotency-Key": "the-end"}
    ended = client.patch(path, json=finish, headers=headers).json()
    assert (ended["status"], ended["ship"], ended["ship_for"]) == ("finished", "coupon", {"Nice": "nothing"})
    assert client.patch(path, json=finish, headers=headers).json() == ended
    both = client.post(f"{path}/decisions", json={"players": ["Lyon", "Nice"]}).json()["decisions"]
    assert [(each["arm"], each["propensity"]) for each in both] == [("coupon", 1.0), ("nothing", 1.0)]
    assert client.post(f"{path}/rewards", json={"decision": decision["id"], "reward": 1}).json()["status"] == "taken"
    assert problem_of(client.delete(path), 409) == "refused"
    assert client.patch(path, json={"status": "archived"}).json()["status"] == "archived"
    for part, body in (("decisions", {"player": "Lyon"}), ("rewards", {"decision": both[0]["id"], "reward": 1})):
        assert problem_of(client.post(f"{path}/{part}", json=body), 409) == "archived"
    assert problem_of(client.patch(path, json={"join": ["Metz"]}), 409) == "archived"

    def listed(**asked):
        return [each["name"] for each in client.get("/v1/experiments", params=asked).json()["experiments"]]

    assert name not in listed()
    assert listed(archived="true") == [name]
    rows = client.get(f"{path}/log").json()["rows"]
    assert [row["kind"] for row in rows] == [
        *("decision", "describe", "finish"),
        *["decision"] * 2,
        "reward",
        "archive",
    ]
    assert client.delete(path).json() == {"name": name, "decisions": 3}
    assert problem_of(client.get(path), 404) == problem_of(client.delete(path), 404) == "unknown-experiment"
    told = client.get("/v1/audit", params={"experiment": name}).json()
    assert [entry["action"] for entry in told["entries"]] == ["create", "change", "change", "change", "delete"]
    assert {entry["who"] for entry in told["entries"]} == {"open service"}
    assert told["next"] is None
    page = client.get("/v1/audit", params={"limit": 1}).json()
    assert page["next"] == page["entries"][0]["number"]


def test_a_finished_one_that_ships_nothing_refuses(client, path):
    client.patch(path, json={"status": "finished"})
    assert problem_of(client.post(f"{path}/decisions", json={"player": "Lyon"}), 409) == "finished"


@pytest.mark.parametrize(
    "body",
    [
        {"status": "over"},
        {"status": True},
        {"paused": True},
        {"status": "finished", "ship": 3},
        {"status": "finished", "ship": "coupon", "ship_for": ["Lyon"]},
        {"description": "x" * 2001},
        {"description": "\u0007"},
    ],
)
def test_what_the_description_does_not_allow_is_invalid(client, path, body):
    before = client.get(path).json()
    assert problem_of(client.patch(path, json={"join": ["Metz"], **body}), 422) == "invalid"
    assert client.get(path).json() == before


@contextlib.contextmanager
def guarded(folder, label):
    """A service that asks for tokens, and a client with one that may do everything."""
    url = f"sqlite:///{folder}/posse.db"
    store = ServiceStore(url, create=True)
    secret = commit(store, CreateToken("admin", label=label))
    store.close()
    with background(Settings(url, trust_seconds=0.0)) as url, posse.Client(url, token=secret) as client:
        yield url, client


def test_the_client_leads_an_experiment_to_its_end_and_every_change_says_who(tmp_path):
    with guarded(tmp_path, "Ada") as (url, ada):
        ada.create("offers", ["coupon", "nothing"], ["Lyon", "Nice"])
        secret = ada.create_token(["admin"], "offers", expires=3600)
        with posse.Client(url, token=secret) as other:
            decision = other.choose("offers", "Lyon")
            other.record("offers", [("Lyon", "coupon", 1.0)])
            other.erase("offers", "Nice")
            with pytest.raises(ServiceError, match="for one experiment"):
                other.delete("offers")
        assert ada.change("offers", status="finished", ship="nothing")["ship"] == "nothing"
        assert ada.choose("offers", "Lyon").arm == "nothing"
        ada.change("offers", status="archived", description="")
        assert ada.experiments() == []
        assert [each["name"] for each in ada.experiments(archived=True)] == ["offers"]
        with pytest.raises(ServiceError) as refused:
            ada.observe("offers", decision.id, 1.0)
        assert refused.value.kind == "archived"
        (first, second) = ada.tokens()
        assert (first["label"], first["experiment"], second["scopes"], second["experiment"]) == (
            *("Ada", None, ["admin"], "offers"),
        )
        assert second["expires_at"] == pytest.approx(second["created_at"] + 3600)
        third = ada.create_token(["read"], label="Bob")
        ada.revoke_token(3)
        with posse.Client(url, token=third) as bob, pytest.raises(ServiceError, match="revoked"):
            bob.experiments()
        assert ada.delete("offers") == 2
        assert [(each["who"], each["action"]) for each in ada.audit()] == [
            ("command line", "create token"),
            ("Ada", "create"),
            ("Ada", "create token"),
            ("token 2", "record"),
            ("token 2", "erase"),
            ("Ada", "change"),
            ("Ada", "change"),
            ("Ada", "create token"),
            ("Ada", "revoke token"),
            ("Ada", "delete"),
        ]
        assert len(ada.audit("offers", after=2)) == 6

        async def asked():
            async with posse.AsyncClient(url, token=ada._options["headers"]["Authorization"].split()[1]) as client:
                return await client.audit()

        assert asyncio.run(asked()) == ada.audit()


def test_a_token_made_again_with_its_key_is_refused(tmp_path):
    with guarded(tmp_path, "Ada") as (_, ada):
        ada.create_token(["read"], key="k")
        with pytest.raises(ValueError, match="token 2 was made by this request"):
            ada.create_token(["read"], key="k")
        with pytest.raises(ServiceError, match="no token 7"):
            ada.revoke_token(7)
        assert len(ada.tokens()) == 2


def test_rewards_for_an_archived_experiment_leave_the_buffer(client, path):
    name = path.rpartition("/")[2].replace("%20", " ")
    with posse.Client(str(client.base_url)) as buffered:
        decision = buffered.choose(name, "Lyon")
        client.patch(path, json={"status": "finished"})
        client.patch(path, json={"status": "archived"})
        buffered._protocol._keep([RewardReport(name, decision.id, 1.0)])
        assert buffered.flush() == 0
        assert (buffered.buffered, len(buffered.refused)) == (0, 1)


def test_a_page_of_a_new_experiment_shows_nothing_of_an_old_one_of_the_same_name(client):
    path = new_experiment(client)
    page = path.replace("/v1", "")
    client.post(f"{path}/records", json={"rewards": [{"player": "Lyon", "arm": "coupon", "reward": 1}]})
    assert "coupon" in client.get(page).text
    for status in ("finished", "archived"):
        client.patch(path, json={"status": status})
    client.delete(path)
    assert client.get(page).status_code == 404
    name = path.rpartition("/")[2].replace("%20", " ")
    body = {"name": name, "arms": ["bonbon", "nothing"], "players": ["Lyon"]}
    assert client.post("/v1/experiments", json=body).status_code == 201
    shown = client.get(page).text
    assert "bonbon" in shown
    assert "coupon" not in shown
