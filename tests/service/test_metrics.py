"""What Prometheus is told of experiments: exact, bounded in number, whatever they are called."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import new_experiment, service

from posse.service import metrics
from posse.service.storage import database, queries
from posse.service.storage.errors import Unavailable

PREFIX = "posse_experiment_"
POLICY = {"name": "RobustAggTS", "constants": {"epsilon": 0.1}}  # its kernels load in less time than PosseTS's


@pytest.fixture
def http(tmp_path):
    with service(tmp_path) as client:
        yield client


def told(client):
    """The values by the name of the metric, then by experiment."""
    found = {}
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            if sample.name.startswith(PREFIX):
                of_metric = found.setdefault(sample.name.removeprefix(PREFIX), {})
                assert sample.labels["experiment"] not in of_metric  # twice would make Prometheus refuse all of it
                of_metric[sample.labels["experiment"]] = sample.value
    return found


def busy(client, decisions, **more):
    """A new experiment with so many decisions, of which one has its reward."""
    players = [f"shop {number}" for number in range(decisions)]
    path = new_experiment(client, players=players, policy=POLICY, **more)
    made = client.post(f"{path}/decisions", json={"players": players}).json()["decisions"]
    client.post(f"{path}/rewards", json={"decision": made[0]["id"], "reward": 1})
    return path


def test_every_experiment_is_counted_whatever_its_name(http):
    for name, decisions in (('he said "hi" {le="1"}', 3), ("zählt # 1", 5), ("others", 2)):
        busy(http, decisions, name=name)
    assert told(http) == {
        "decisions_total": {'he said "hi" {le="1"}': 3, "zählt # 1": 5, "others": 2},
        "rewards_total": {'he said "hi" {le="1"}': 1, "zählt # 1": 1, "others": 1},
        "waiting": {'he said "hi" {le="1"}': 2, "zählt # 1": 4, "others": 1},
        "alarm": {"others": 0},
    }


def test_every_metric_is_documented(http):
    page = (Path(__file__).parents[2] / "docs" / "running.md").read_text()
    http.get(f"{busy(http, 1)}/diagnosis")
    lines = http.get("/metrics").text.splitlines()
    names = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {"posse_requests_total", "posse_experiment_alarm", "posse_group_size"} <= names
    assert {"posse_worker_starts_total", "posse_database_bytes"} <= names
    assert [name for name in names if f"`{name}`" not in page and not name.endswith("_created")] == []


def test_the_size_of_the_database_is_told(opened):
    (store, *_) = opened
    assert 10_000 < store.read(database.size) < 50_000_000


def test_only_the_busiest_have_names_and_the_others_are_added_up(http, monkeypatch):
    monkeypatch.setattr(queries, "MOST_NAMED", 2)
    for name, decisions in (("a", 1), ("others", 9), ("b", 4), ("c", 3), ("d", 3)):
        busy(http, decisions, name=name)
    found = told(http)
    assert found["decisions_total"] == {"b": 4, "c": 3, "others": 13}
    assert found["rewards_total"] == {"b": 1, "c": 1, "others": 3}
    assert found["waiting"] == {"b": 3, "c": 2, "others": 10}


def test_the_verdict_of_a_diagnosis_is_told_for_a_while(http, monkeypatch):
    differ, alike = (new_experiment(http, name=name, policy=POLICY) for name in ("differ", "alike"))
    rows = [{"player": name, "arm": "coupon", "reward": reward} for name, reward in (("Lyon", 1), ("Nice", 0))] * 100
    http.post(f"{differ}/records", json={"rewards": rows})
    assert "alarm" not in told(http)
    for path in (differ, alike):
        assert http.get(f"{path}/diagnosis").json()["alarm"] is (path == differ)
    assert told(http)["alarm"] == {"differ": 1, "alike": 0}
    monkeypatch.setattr(queries, "MOST_NAMED", 1)
    assert told(http)["alarm"] == {"differ": 1, "others": 0}
    monkeypatch.setattr(metrics, "LATELY", 0.0)
    assert told(http)["alarm"] == {"others": 0}


def test_a_database_that_does_not_answer_leaves_the_other_counts(http, monkeypatch):
    def away(connection):
        raise Unavailable("the database is away")

    busy(http, 1)
    monkeypatch.setattr(queries, "experiment_counts", away)
    assert told(http) == {}
    assert "posse_requests_total" in http.get("/metrics").text
