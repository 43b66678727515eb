"""How much the service does if each request is for one decision or one reward, beside what the machine allows.

Two things show the machine's part: a route that does nothing, behind the same server, and bare insertions into the same
database. The load comes from one thread that speaks just enough HTTP, because it takes the same processors.
"""

from __future__ import annotations

import random
import selectors
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
import sqlalchemy as sql

from posse.bench.service_process import ServiceProcess, started
from posse.service.storage import database

CLIENTS = 16
PLAYERS = 200
TRIES = 3  # of which the best counts: whatever else runs on the machine only takes time away
ROW = 200  # bytes of a decision in the database
LEAST_PAIRS, MOST_MS = 1000.0, 50.0  # the bar: pairs a second, and the 99th percentile of a request
EMPTY = "from posse.bench.single_requests import serve_nothing; serve_nothing()"


def best(measured: Callable[[], dict[str, float]]) -> dict[str, float]:
    """The best of several tries."""
    return max((measured() for _ in range(TRIES)), key=lambda each: each["pairs/s"])


def offer(server: ServiceProcess, experiment: str, seconds: float) -> dict[str, float]:
    """What clients get done, each of which sends a request as soon as its last one is answered."""
    selector, took, pairs = selectors.DefaultSelector(), [], 0
    used, began = server.processor_seconds(), time.perf_counter()
    for number in range(CLIENTS):
        client = SingleClient(server.url, experiment, number)
        selector.register(client.socket, selectors.EVENT_READ, client)
        client.decide()
    while selector.get_map():
        for key, _ in selector.select():
            client = key.data
            answer = client.receive()
            if answer is None:
                continue
            took.append(time.perf_counter() - client.sent)
            if client.decides:
                client.reward(answer)
                continue
            pairs += 1
            if time.perf_counter() < began + seconds:
                client.decide()
            else:
                selector.unregister(client.socket)
                client.socket.close()
    elapsed = time.perf_counter() - began
    p50, p99 = (1000 * np.quantile(took, [0.5, 0.99])).tolist()
    each = 1e6 * (server.processor_seconds() - used) / len(took)
    return {"pairs/s": pairs / elapsed, "p50 ms": p50, "p99 ms": p99, "processor µs/request": each}


class SingleClient:
    """A connection on which decisions and their rewards are asked for, one at a time."""

    def __init__(self, url: str, experiment: str, number: int) -> None:
        parts = urlsplit(url)
        self.socket = socket.create_connection((parts.hostname or "", parts.port or 80))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent, self.decides = 0.0, True
        self._random, self._keys, self._buffer = random.Random(number), uuid.uuid4().hex[:20], b""
        self._count = 0
        path = f"POST /v1/experiments/{quote(experiment, safe='')}"
        same = f"HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        self._heads = [f"{path}/{part} {same}".encode() for part in ("decisions", "rewards")]

    def decide(self) -> None:
        """Ask for a decision."""
        self._count += 1
        self.decides = True
        key = b"Idempotency-Key: %s-%d\r\n" % (self._keys.encode(), self._count)
        self._send(self._heads[0] + key, b'{"player": "player %d"}' % self._random.randrange(PLAYERS))

    def reward(self, answer: bytes) -> None:
        """Report the reward of the decision in an answer."""
        identity = answer.partition(b'"id":"')[2].partition(b'"')[0]
        self.decides = False
        self._send(self._heads[1], b'{"decision": "%s", "reward": %d}' % (identity, self._random.random() < 0.4))

    def _send(self, head: bytes, body: bytes) -> None:
        self.sent = time.perf_counter()
        self.socket.sendall(b"%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body))

    def receive(self) -> bytes | None:
        """The body of an answer; None if it is not complete yet."""
        received = self.socket.recv(1 << 16)
        self._buffer += received
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        lower = head.lower()
        length = lower.partition(b"content-length:")[2].partition(b"\r")[0]
        if received and (not end or len(body) < int(length)):
            return None
        if not received or not lower.startswith(b"http/1.1 200"):
            raise RuntimeError(f"the service answered {self._buffer[:1000].decode('latin-1')!r}")
        self._buffer = b""
        return body


# ------------------------------------------------------------------ what the machine allows


@contextmanager
def empty_route() -> Iterator[ServiceProcess]:
    """A service that answers the same requests, and does nothing."""
    with started(EMPTY) as server:
        yield server


def serve_nothing() -> None:
    """Serve routes that FastAPI answers with a constant, with the same settings of the server."""
    from fastapi import FastAPI

    from posse.service.api.middleware import RunningRequests
    from posse.service.process.server import WorkerServer
    from posse.service.process.supervisor import bind, url_of
    from posse.service.settings import Settings

    app = FastAPI()
    app.state.running = RunningRequests()

    @app.post("/v1/experiments/{name}/{part}")
    async def answer(name: str, part: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"decisions": [{"id": "0-00000000", "arm": "arm 0"}]}

    with bind("127.0.0.1", 0) as listener:
        WorkerServer(app, Settings(), lambda: print(url_of(listener), flush=True)).run(sockets=[listener])


def insert(address: str, seconds: float, group: int = CLIENTS) -> dict[str, float]:
    """How many pairs a second could be durable if nothing but rows had to be written, two for each pair."""
    engine = database.connect(address)
    table = sql.Table(f"bench_{uuid.uuid4().hex[:8]}", sql.MetaData(), sql.Column("id", sql.Integer, primary_key=True))
    table.append_column(sql.Column("content", sql.LargeBinary))
    took, rows, content = [], 0, bytes(ROW)
    try:
        with engine.begin() as connection:
            table.create(connection)
        began = time.perf_counter()
        while (start := time.perf_counter()) < began + seconds:
            with engine.begin() as connection:
                added = [{"id": rows + number, "content": content} for number in range(group)]
                database.insert_rows(connection, table, added)
            took.append(time.perf_counter() - start)
            rows += group
        elapsed = time.perf_counter() - began
        with engine.begin() as connection:
            table.drop(connection)
    finally:
        engine.dispose()
    p50, p99 = (1000 * np.quantile(took, [0.5, 0.99])).tolist()
    return {"pairs/s": rows / 2 / elapsed, "p50 ms": p50, "p99 ms": p99}
