"""The benchmark of the service, made small: every figure is there, and is what it says."""

from __future__ import annotations

import json

import pytest
from fleet import needs_service, new_postgres_database

from posse.bench import service as bench
from posse.cli import main
from posse.service.storage import queries
from posse.service.storage.store import ServiceStore


@needs_service
def test_the_service_is_measured_on_both_databases(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "LOADS", [(1, 1), (4, 20)])
    out = tmp_path / "bench.json"
    with new_postgres_database() as database:
        options = ["--past", "4000", "--minutes", "0.1", "--postgres", database, "--json", str(out)]
        assert main(["bench", "--service", "--quick", *options]) == 0
    shown, report = capsys.readouterr().out, json.loads(out.read_text())
    for name in ("SQLite", "PostgreSQL"):
        assert name in shown
        assert [(load["clients"], load["batch"]) for load in report["loads"][name]] == [(1, 1), (4, 20)]
        for load in [*report["loads"][name], report["growth"][name]["empty"], report["growth"][name]["full"]]:
            assert load["pairs"] > 0
            assert 0 < load["p50"] <= load["p99"] <= load["slowest"]
        assert report["growth"][name]["past"] == 4000
    assert report["soak"]["pairs"] > 0
    assert min(report["soak"]["megabytes"]) > 10


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
    assert bench.Soak(1, 1, [100.0, 200, 300, 300, 300, 300, 300, 300]).growth == 0
    assert bench.Soak(1, 1, [float(100 + 10 * step) for step in range(40)]).growth > 0.1
