"""Stops under load: every request that was accepted is answered, quickly, and with no error but 503."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import pytest
from fleet import FULL, Fleet
from serving import problem_of, service

from posse.service.process import server
from posse.service.storage import queries

LONGEST = 5.0  # seconds that a stop may take
CLIENTS = 8


class Load:
    """Clients that send one request after another on connections that they keep."""

    def __init__(self, url: str, path: str) -> None:
        self.place, self.path = urlsplit(url), path
        self.statuses: Counter[int] = Counter()
        self.wrong: list[str] = []
        self._threads = [threading.Thread(target=self._ask) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _ask(self) -> None:
        """Ask until nobody listens any more."""
        while True:
            connection = http.client.HTTPConnection(self.place.hostname, self.place.port, timeout=30)
            try:
                connection.connect()
            except OSError:  # it has stopped
                return
            with suppress(ConnectionError):  # nobody has accepted it, or the loop notes that it was
                self._ask_on(connection)
            connection.close()

    def _ask_on(self, connection: http.client.HTTPConnection) -> None:
        """Ask until an answer says that it is the last one."""
        answered, last = 0, False
        while not last:
            try:
                connection.request("GET", self.path)
                answer = connection.getresponse()
                answer.read()
            except ConnectionError as error:
                if answered:
                    self.wrong.append(f"after {answered} answers, none of which said it was the last: {error!r}")
                raise
            answered, last = answered + 1, answer.headers.get("connection") == "close"
            self.statuses[answer.status] += 1
            if answer.status >= 500 and (answer.status != 503 or "retry-after" not in answer.headers):
                self.wrong.append(f"{answer.status} {dict(answer.headers)}")

    def finish(self) -> None:
        for thread in self._threads:
            thread.join()


@pytest.mark.skipif(not FULL, reason="100 stops: make test-service FULL=1; one is in test_serve.py")
@pytest.mark.parametrize("again", range(25))
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_a_stop_answers_every_request_within_seconds(tmp_path, workers, again):
    service = Fleet(f"sqlite:///{tmp_path}/posse.db", workers, tmp_path / "log")
    load = Load(service.url, "/v1/experiments")
    until = time.monotonic() + 30
    while load.statuses[200] < 100 * workers and time.monotonic() < until:
        time.sleep(0.01)
    began = time.monotonic()
    status = service.stop()
    seconds = time.monotonic() - began
    load.finish()
    print(f"{workers} workers: {seconds:.2f} s, {dict(load.statuses)}")
    assert (status, service.log.read_text()) == (0, "")
    assert load.wrong == []
    assert load.statuses[200] >= 100 * workers
    assert seconds < LONGEST


def test_a_request_that_comes_just_after_the_stop_is_answered_and_told_to_go(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "LINGER_SECONDS", 10.0)
    monkeypatch.setattr(server, "FINISH_SECONDS", 20.0)
    said = []

    def ask_late(place, line):
        with suppress(ConnectionError):
            while True:  # until nobody listens
                socket.create_connection(place, timeout=10).close()
                time.sleep(0.01)
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        said.append(line.recv(1 << 16))

    with service(tmp_path) as client:
        place = urlsplit(str(client.base_url))
        line = socket.create_connection((place.hostname, place.port), timeout=30)
        late = threading.Thread(target=ask_late, args=((place.hostname, place.port), line))
        late.start()
    late.join()
    line.close()
    assert said[0].startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in said[0]


def test_a_request_that_takes_too_long_for_a_stop_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "LINGER_SECONDS", 0.1)
    monkeypatch.setattr(server, "FINISH_SECONDS", 0.2)
    begun, go_on, answers = threading.Event(), threading.Event(), []

    def slow(*args, **kwargs):
        begun.set()
        go_on.wait(30)
        return []

    def ask(url):
        answers.append(httpx.get(url, timeout=30))
        go_on.set()

    monkeypatch.setattr(queries, "experiments", slow)
    with service(tmp_path) as client:
        asking = threading.Thread(target=ask, args=(f"{client.base_url}/v1/experiments",))
        asking.start()
        assert begun.wait(30)
    asking.join()
    assert problem_of(answers[0], 503) == "stopping"
    assert (answers[0].headers["retry-after"], answers[0].headers["connection"]) == ("1", "close")
