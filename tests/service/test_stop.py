"""Stops under load: every request that was accepted is answered, quickly, and with no error but 503."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from fleet import FULL, Fleet

LONGEST = 5.0  # seconds that a stop may take
CLIENTS = 12
STOPS = [(workers, again) for again in range(25 if FULL else 1) for workers in ((1, 2, 3, 4) if FULL else (2,))]


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


@pytest.mark.parametrize(("workers", "again"), STOPS)
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
    print(f"{workers} workers: {seconds:.2f} s, {dict(load.statuses)}, {len(load.wrong)} wrong {load.wrong[:2]}")
    assert (status, service.log.read_text()) == (0, "")
    assert load.wrong == []
    assert load.statuses[200] >= 100 * workers
    assert seconds < LONGEST
