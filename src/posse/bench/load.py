"""The load on a service that is measured: clients that send one request after another, all from one thread.

They speak just enough HTTP, because they take the same processors as the service.
"""

import random
import re
import selectors
import socket
import time
import uuid
from collections.abc import Iterable, Iterator
from urllib.parse import quote, urlsplit

import numpy as np

_ID = re.compile(rb'"id":"([^"]+)"')


def put_load(url: str, experiment: str, clients: Iterable[Iterator[bytes]]) -> dict[str, float]:
    """What clients get done, each with these requests for decisions, and how long one of their requests takes.

    A pair is a decision and its reward, both on the disk. A client sends a request as soon as the last one is answered,
    on its own connection.
    """
    selector, took, pairs = selectors.DefaultSelector(), [], 0
    began = time.perf_counter()
    for number, requests in enumerate(clients):
        client = LoadClient(url, experiment, requests, number)
        if client.decide():
            selector.register(client.socket, selectors.EVENT_READ, client)
    while selector.get_map():
        for key, _ in selector.select():
            client = key.data
            answer = client.receive()
            if answer is None:
                continue
            took.append(time.perf_counter() - client.sent)
            if client.decisions:
                pairs += len(client.decisions)
                if not client.decide():
                    selector.unregister(client.socket)
                    client.socket.close()
            else:
                client.reward(answer)
    elapsed = time.perf_counter() - began
    p50, p99, slowest = (1000 * np.quantile(took, [0.5, 0.99, 1.0])).tolist()
    counts = {"requests": len(took), "pairs": pairs, "pairs/s": pairs / elapsed}
    return counts | {"p50 ms": p50, "p99 ms": p99, "slowest": slowest}


class LoadClient:
    """A connection on which decisions are asked for, and then their rewards are reported, in turns."""

    def __init__(self, url: str, experiment: str, requests: Iterator[bytes], number: int) -> None:
        parts = urlsplit(url)
        self.socket = socket.create_connection((parts.hostname or "", parts.port or 80))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent = 0.0
        self.decisions: list[bytes] = []  # whose rewards were reported last; none if decisions were asked for
        self._requests, self._random, self._buffer = requests, random.Random(number), b""
        self._keys, self._count = uuid.uuid4().hex[:20], 0
        path = f"POST /v1/experiments/{quote(experiment, safe='')}"
        same = f"HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        self._heads = [f"{path}/{part} {same}".encode() for part in ("decisions", "rewards")]

    def decide(self) -> bool:
        """Ask for the next decisions; whether there were any left to ask for."""
        body = next(self._requests, None)
        if body is None:
            return False
        self._count += 1
        self.decisions = []
        self._send(self._heads[0] + b"Idempotency-Key: %s-%d\r\n" % (self._keys.encode(), self._count), body)
        return True

    def reward(self, answer: bytes) -> None:
        """Report the rewards of the decisions in an answer."""
        self.decisions = _ID.findall(answer)
        each = [b'{"decision": "%s", "reward": %d}' % (name, self._random.random() < 0.4) for name in self.decisions]
        self._send(self._heads[1], each[0] if len(each) == 1 else b'{"rewards": [%s]}' % b", ".join(each))

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
        if not received or not lower.startswith((b"http/1.1 200", b"http/1.1 201")):
            raise RuntimeError(f"the service answered {self._buffer[:1000].decode('latin-1')!r}")
        self._buffer = b""
        return body
