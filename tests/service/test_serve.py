"""`posse serve` as real processes: it starts without set-up, outlives its workers, and stops without loss."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

import httpx
import pytest
from cluster import children
from fleet import POSSE, POSTGRES, fleet, needs_service
from sqlalchemy import make_url
from test_stop import Load

from posse.service.admin.verify import verify
from posse.service.auth import CreateToken
from posse.service.client import Client, ServiceError
from posse.service.process import supervisor
from posse.service.settings import Settings
from posse.service.storage import database as database_module
from posse.service.storage import queries
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit
from stores import BACKENDS, database


def launch(folder, *options, posse=POSSE):
    """The service as somebody starts it in a folder."""
    return subprocess.Popen(
        [*posse, "serve", "--port", "0", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def start(folder, *options):
    """The service as somebody starts it in a folder, and its address."""
    process = launch(folder, *options)
    return process, process.stdout.readline().partition(" at ")[2].partition("/ ")[0]


def refused(folder, *options):
    """What the service says when it does not start."""
    done = subprocess.run([*POSSE, "serve", "--port", "0", *options], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_needs_no_set_up_and_stops_when_told(tmp_path, number):
    process, url = start(tmp_path)
    assert url.startswith("http://127.0.0.1:")
    assert "no token yet; make one" in process.stdout.readline()  # none is made where a log would show it
    assert httpx.get(f"{url}/").headers["location"] == "/login?next=/"
    assert (tmp_path / "posse.db").exists()
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # Ctrl-C reaches the workers too
    else:
        process.send_signal(number)
    rest, errors = process.communicate(timeout=60)
    assert (process.returncode, rest, errors) == (0, "", "")
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/")


def test_what_cannot_be_is_said_before_anything_starts(tmp_path):
    assert "posse token create --scope admin" in refused(tmp_path, "--host", "0.0.0.0")
    assert "leave out --open" in refused(tmp_path, "--host", "0.0.0.0", "--open")
    assert "host='no such host'" in refused(tmp_path, "--host", "no such host")
    assert "workers=0" in refused(tmp_path, "--workers", "0")
    assert "port=" in subprocess.run([*POSSE, "serve", "--port", "99999"], capture_output=True, text=True).stderr
    assert "database" in refused(tmp_path, "--database", "oracle://x").lower()


NOWHERE = "postgresql://posse:secret@127.0.0.1:1/posse"  # nobody listens there


def test_it_waits_for_a_database_that_is_away_until_it_is_told_to_stop(tmp_path):
    process = launch(tmp_path, "--database", NOWHERE)
    said = process.stderr.readline()
    assert "posse:***@127.0.0.1:1/posse" in said
    assert "posse starts when it is there" in said
    assert process.poll() is None
    process.terminate()
    assert (*process.communicate(timeout=60), process.returncode) == ("", "", 0)


@needs_service
def test_it_goes_on_when_the_database_is_there_and_ends_where_waiting_cannot_help(monkeypatch, caplog):
    there = make_url(POSTGRES)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    shown = [there.set(port=port), there.set(port=port), there]
    connect = database_module.connect
    monkeypatch.setattr(
        database_module, "connect", lambda url: connect(shown.pop(0).render_as_string(hide_password=False))
    )
    assert supervisor.wait_for(POSTGRES)
    assert shown == []
    assert [record.getMessage().count("posse starts when it is there") for record in caplog.records] == [1]
    monkeypatch.undo()
    for wrong in ({"password": "wrong"}, {"database": "nothing"}, {"username": "nobody"}):
        with pytest.raises(ValueError, match="check the user, the password and the names"):
            supervisor.wait_for(there.set(**wrong).render_as_string(hide_password=False))


def test_connections_need_files(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1024, 3000))
    with pytest.raises(ValueError, match="connections=1000 needs 3548 open files, but this process may open 3000"):
        supervisor.allow_files(Settings())
    with pytest.raises(ValueError, match="connections_per_address=0"):
        supervisor.allow_files(Settings(connections_per_address=0))


FAILING = """
import sys, time
from posse.cli import main
from posse.service.process import supervisor as serve

def run_worker(listener, settings, number, folder, ready):
    if number == 0:
        raise OSError("the disk is gone")
    time.sleep(600)  # as one that is slow to start

if __name__ == "__main__":
    serve.run_worker = run_worker
    sys.exit(main())
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_that_cannot_start_ends_the_service_and_all_other_workers(tmp_path, workers):
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    with launch(tmp_path, "--workers", str(workers), posse=[sys.executable, script]) as process:
        try:
            said, errors = process.communicate(timeout=120)  # which ends when nobody is left who could write
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, said) == (1, "")
    assert "OSError: the disk is gone" in errors
    assert errors.endswith("posse: error: the service could not start; the lines above say why\n")


def test_a_public_address_with_a_token(tmp_path):
    store = ServiceStore(f"sqlite:///{tmp_path}/posse.db", create=True)
    secret = commit(store, CreateToken("read"))
    store.close()
    process, url = start(tmp_path, "--host", "0.0.0.0", "--database", f"sqlite:///{tmp_path}/posse.db")
    assert httpx.get(f"{url}/v1/experiments").status_code == 401
    assert httpx.get(f"{url}/v1/experiments", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
    process.terminate()
    process.communicate(timeout=60)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_killed_worker_is_replaced_and_clients_notice_nothing(backend, tmp_path):
    with (
        database(backend, tmp_path) as address,
        fleet(address, tmp_path, workers=2) as service,
        Client(service.url, patience=5.0) as client,  # the seconds in which it has to be back
    ):
        client.create("teas", ["green", "black"], ["north"])
        made = []
        for _ in range(3):
            for worker in service.workers():
                service.kill(worker)
            decision = client.choose("teas", "north")
            made.append(decision.id)
            client.observe("teas", decision.id, 1.0)
        client.flush()
        found = client.experiment("teas")
        assert (found["decisions"], found["rewards"]) == (3, 3)
        assert len(set(made)) == 3
        store = ServiceStore(address)
        assert verify(store) == []
        store.close()


def test_a_killed_fork_server_is_replaced_also_while_it_starts_workers(tmp_path):
    with (
        fleet(f"sqlite:///{tmp_path}/posse.db", tmp_path, 2, "--log-format", "json") as service,
        Client(service.url, patience=60.0) as client,
    ):
        client.create("teas", ["green", "black"], ["north"])
        before = service.workers()
        for _ in range(3):
            for helper in service.helpers():
                service.kill(helper)
            time.sleep(0.4)
        until = time.monotonic() + 60
        while not set(service.workers()) - set(before) or any(map(alive, before)):  # which stop by themselves
            assert time.monotonic() < until, service.log.read_text()
            time.sleep(0.1)
        assert client.choose("teas", "north").player == "north"
        said = [json.loads(line)["message"] for line in service.log.read_text().splitlines()]
        assert any("lost the process that forks workers and is started again" in each for each in said)


def test_a_stop_under_load_loses_nothing_that_was_acknowledged(tmp_path):
    address = f"sqlite:///{tmp_path}/posse.db"
    decided: set[str] = set()
    rewarded: set[str] = set()
    with fleet(address, tmp_path, workers=2) as service:
        with Client(service.url) as client:
            client.create("teas", ["green", "black"], ["north"])

        def ask():
            with suppress(ServiceError), Client(service.url, patience=0.0) as client:  # until it has stopped
                while True:
                    decision = client.choose("teas", "north")
                    decided.add(decision.id)
                    if client.observe("teas", decision.id, 1.0) == "taken":
                        rewarded.add(decision.id)

        load = Load(service.url, "/v1/experiments")
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        while len(rewarded) < 200:
            time.sleep(0.01)
    for thread in threads:
        thread.join()
    load.finish()
    assert load.wrong == []
    assert load.statuses[200] > 0
    store = ServiceStore(address)
    known = {row["decision"]: row["kind"] for row in store.read(queries.log, "teas", limit=10_000)}
    assert decided <= set(known)
    assert {identity for identity in rewarded if known[identity] != "reward"} == set()
    assert verify(store) == []
    store.close()


def test_workers_do_not_outlive_their_supervisor(tmp_path):
    process, _ = start(tmp_path, "--workers", "2", "--database", f"sqlite:///{tmp_path}/posse.db")
    started = children()
    workers = [worker for helper in started[process.pid] for worker in started[helper]]
    assert workers
    process.kill()
    process.communicate()
    for worker in workers:
        while alive(worker):
            time.sleep(0.05)


def alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_counts_are_those_of_all_workers_dead_ones_included(tmp_path):
    def healthy(url):
        assert httpx.get(f"{url}/healthz").status_code == 200  # a new connection each time, to any worker

    def counted(url):
        lines = httpx.get(f"{url}/metrics").text.splitlines()
        starts = ("posse_requests_total", "posse_experiment_decisions_total", "posse_experiment_alarm")
        found = [line for line in lines if line.startswith(starts) and ("/healthz" in line or "teas" in line)]
        return tuple(float(line.split()[-1]) for line in sorted(found))

    with fleet(f"sqlite:///{tmp_path}/posse.db", tmp_path, workers=3) as service:
        for _ in range(20):
            healthy(service.url)
        with Client(service.url) as client:
            client.create("teas", ["green", "black"], ["north"])
            for _ in range(7):
                client.choose("teas", "north")
            client.diagnosis("teas")  # by one of the workers
        assert {counted(service.url) for _ in range(10)} == {(0.0, 7.0, 20.0)}
        for worker in service.workers():
            service.kill(worker)
        with Client(service.url) as client:
            client.experiments()
        healthy(service.url)
        assert {counted(service.url) for _ in range(10)} == {(0.0, 7.0, 21.0)}
