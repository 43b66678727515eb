"""The benchmark of the service, made small: every figure is there, and is what it says."""

from __future__ import annotations

import json

import pytest
from fleet import FULL, needs_service, new_postgres_database

from posse.attributes import Attributes
from posse.bench import service as bench
from posse.cli import main
from posse.service.storage import queries
from posse.service.storage.store import ServiceStore


@needs_service
@pytest.mark.skipif(not FULL, reason="starts a dozen services: make test-service FULL=1")
def test_the_service_is_measured_on_its_databases(capsys, monkeypatch, tmp_path):
    for name, value in {
        "LOADS": [(4, 20)],
        "CROWD_PAST": 800,
        "REPEATS": 20,
        "JOINS": 5,
        "LATER": 50,
        "TRIES": 1,
    }.items():
        monkeypatch.setattr(bench, name, value)
    out = tmp_path / "bench.json"
    with new_postgres_database() as database:
        options = ["--past", "4000", "--minutes", "0.1", "--postgres", database, "--json", str(out)]
        assert main(["bench", "--service", "--quick", *options]) == 0
    shown, report = capsys.readouterr().out, json.loads(out.read_text())
    tables = {table["name"]: table["rows"] for table in report["tables"]}
    for name in ("SQLite", "PostgreSQL"):
        loads = [f"{name}, 4 clients, batches of 20"]
        assert [row for row in tables["loads"] if row.startswith(name)] == loads
        grown = [f"{name}, an empty log", f"{name}, 4,000 events"]
        for row in (*(tables["loads"][row] for row in loads), *(tables["growth"][row] for row in grown)):
            assert row["pairs/s"]["value"] > 0
            assert 0 < row["p50 ms"]["value"] <= row["p99 ms"]["value"] <= row["slowest"]["value"]
        workers = {"SQLite": "1 worker", "PostgreSQL": "2 workers"}[name]
        singles, empty, inserts = (
            {column: figure["value"] for column, figure in tables["singles"][f"{name}, {row}"].items()}
            for row in (workers, "an empty route", "rows inserted")
        )
        assert min(singles["pairs/s"], empty["pairs/s"], inserts["pairs/s"]) > 0
        assert 0 < singles["p50 ms"] <= singles["p99 ms"]
        assert singles["processor µs/request"] > 0
        assert singles["of empty"] == pytest.approx(singles["pairs/s"] / empty["pairs/s"])
        assert singles["of inserts"] == pytest.approx(singles["pairs/s"] / inserts["pairs/s"])
        crowd = tables["players"][f"{name}, 100 players"]
        assert crowd.keys() == {"opening", "decision", "reward", "join"}
        assert all(figure["value"] > 0 for figure in crowd.values())
        newcomers = tables["combinations"][f"{name}, 100 combinations"]
        assert newcomers.keys() == {"joins/s", "slowest ms", "MB", "opening s", "p50 ms", "p99 ms"}
        assert 0 < newcomers["p50 ms"]["value"] <= newcomers["p99 ms"]["value"]
        assert all(row in shown for row in (*loads, *grown))
    (memory,) = tables["memory"].values()
    assert memory["pairs"]["value"] > 0
    assert memory["at most"]["value"] >= memory["in the end"]["value"] > 10


def test_there_are_as_many_combinations_as_there_should_be():
    made = {json.dumps(bench.combination(number)) for number in range(bench.COMBINATIONS)}
    assert len(made) == bench.COMBINATIONS
    declared = Attributes(bench.ATTRIBUTES)
    values = {declared.values(json.loads(text)) for text in made}
    assert len(values) == bench.COMBINATIONS


def test_the_past_is_as_long_as_it_should_be(tmp_path):
    database = f"sqlite:///{tmp_path}/posse.db"
    ServiceStore(database, create=True).close()
    name = bench.new_experiment(database)
    bench.make_past(database, name, 8000)
    store = ServiceStore(database)
    assert (store.read(queries.experiment, name).decisions, store.read(queries.experiment, name).rewards) == (
        4000,
        4000,
    )
    store.close()


@pytest.mark.parametrize(("option", "value"), [("--past", "0"), ("--minutes", "-1"), ("--minutes", "nan")])
def test_what_cannot_be_measured_is_refused(capsys, option, value):
    assert main(["bench", "--service", option, value]) == 2
    assert f"{option.strip('-')}=" in capsys.readouterr().err


def test_an_address_that_is_none_is_refused_before_anything_is_measured(capsys):
    assert main(["bench", "--service", "--postgres", "mysql://here/posse"]) == 2
    shown = capsys.readouterr()
    assert "mysql://here/posse" in shown.err
    assert "past events" not in shown.out + shown.err


def test_memory_that_grows_is_told_from_memory_that_does_not():
    assert bench.growth_of([100.0, 200, 300, 300, 300, 300, 300, 300]) == 0
    assert bench.growth_of([float(100 + 10 * step) for step in range(40)]) > 0.1
