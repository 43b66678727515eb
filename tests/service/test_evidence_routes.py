"""What the service says of an experiment's log, over HTTP and on its page, is what `watch` and `conclude` say of it."""

from __future__ import annotations

import asyncio
import json
import time
from types import SimpleNamespace

import numpy as np
import pytest
from serving import problem_of, service
from test_dashboard import Page

from posse.insight import conclude, watch
from posse.service.api import routes
from posse.service.client import Client
from posse.service.storage import queries
from posse.service.storage.store import ServiceStore

ARMS, SHOPS = ["99 % free shipping weekend", "coupon", "nothing"], ["Lyon", "Nice", "Lille"]
MEANS = dict(zip(ARMS, (0.7, 0.3, 0.2), strict=True))


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service with an experiment after some hundred decisions, its HTTP client, and its whole log."""
    folder, random = tmp_path_factory.mktemp("evidence"), np.random.default_rng(1)
    with service(folder, defaults_seconds=None) as http, Client(str(http.base_url)) as client:
        bounds = {"refund": {"at_most": 0.1}, "minutes": {"range": [0, 60]}}
        limits = {"coupon": (0.05, 0.3)}
        client.create("offers", ARMS, SHOPS, seed=1, holdout=0.2, control="nothing", outcomes=bounds, shares=limits)
        for number in range(40):
            if number == 20:
                client.set_shares("offers", {"coupon": (0.1, 0.2), ARMS[0]: (0.2, 0.9)})
            made = [decision for _ in range(5) for decision in client.choose("offers", SHOPS)]
            kept = [each for each in made if random.random() < (0.5 if each.arm == ARMS[0] else 1)]
            client.observe(
                "offers",
                [
                    (each.id, float(random.random() < MEANS[each.arm]), {"refund": float(each.arm == "coupon")})
                    for each in kept
                ],
            )
        store = ServiceStore(f"sqlite:///{folder}/posse.db")
        yield http, client, store.read(queries.log_table, "offers")
        store.close()


def test_what_is_watched_is_what_the_log_says(served):
    _, client, table = served
    found, expected = client.watch("offers"), watch(table).to_dict()
    assert (found["decisions"], found["answered"], found["arms"]) == (600, expected["answered"], ARMS)
    assert found["guards"] == expected["guards"]
    assert [each["alarm"] is None for each in found["checks"]] == [True, False]
    assert found["checks"][1]["alarm"]["observed"] < found["checks"][1]["alarm"]["expected"]
    for mine, theirs in zip(found["effects"], expected["effects"], strict=True):
        assert mine["against"] == theirs["against"]
        np.testing.assert_allclose(
            [mine[n] for n in ("value", "low", "high")], [theirs[n] for n in ("value", "low", "high")]
        )


def test_the_conclusion_is_what_the_log_says(served):
    http, client, table = served
    found, expected = client.conclusion("offers"), conclude(table)
    assert (found["winner"], found["verdict"]) == (expected.winner, expected.verdict)
    assert found["alarms"] == [["refund", "coupon"]]
    assert found["best"]["overall"] == pytest.approx(expected.best.overall)
    assert [each["name"] for each in found["arms"]] == ARMS
    np.testing.assert_allclose([each["low"] for each in found["arms"]], [each.low for each in expected.arms])
    assert found["verdict"] in Page(client.summary("offers")).text
    assert [each["against"] for each in found["differences"]] == [each.against for each in expected.differences]
    deadline = time.monotonic() + 60
    while expected.verdict not in (text := Page(http.get("/experiments/offers").text).text):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert "best: " in text
    assert f"{ARMS[0]} looks best for all" in text


def test_the_page_shows_checks_guards_and_what_adapting_earns(served):
    http, client, _ = served
    text = Page(http.get("/experiments/offers").text).text
    assert "is among the decisions with rewards too rarely" in text
    assert "Choices follow their probabilities" in text
    assert "refund coupon" in text
    assert "If you agree, retire the arm." in text
    assert "The adaptive part earns more than the control 'nothing'" in text
    chart = http.get("/experiments/offers/chart.json").json()
    assert list(chart["earned"]) == ["holdout", "control"]
    effect = client.watch("offers")["effects"][0]
    assert [line[-1] for line in chart["earned"]["holdout"]["lines"]] == pytest.approx(
        [effect[name] for name in ("value", "low", "high")], abs=1e-6
    )


def test_an_experiment_without_a_decision_has_nothing_to_say(served):
    http, client, _ = served
    client.create("new", ARMS)
    assert client.watch("new")["decisions"] == 0
    assert "nothing to compare with" in Page(http.get("/experiments/new").text).text
    assert problem_of(http.get("/v1/experiments/none/watch"), 404) == "unknown-experiment"


@pytest.mark.parametrize(("status", "begins"), [("running", "Go on: no arm"), ("finished", "No arm")])
def test_nobody_is_told_to_go_on_with_what_has_ended(status, begins, monkeypatch):
    async def concluded(state, name):
        verdict = {"verdict": "Go on: no arm is shown to be the best yet.", "setup": {}}
        return SimpleNamespace(status=status), SimpleNamespace(to_dict=lambda: verdict)

    monkeypatch.setattr(routes, "concluded", concluded)
    found = asyncio.run(routes.read_conclusion("offers", SimpleNamespace(app=SimpleNamespace(state=None))))
    assert json.loads(found.body)["verdict"].startswith(begins)
