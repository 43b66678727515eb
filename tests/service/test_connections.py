"""Connections that wait, are too many, say too much or read too slowly, and clients that hang up."""

from __future__ import annotations

import contextlib
import json
import logging
import resource
import socket
import threading
import time
from urllib.parse import urlsplit

import httpx
import pytest
from fleet import FULL, fleet
from serving import service

from posse.service import metrics
from posse.service.process.connections import LARGEST_HEAD
from posse.service.storage import queries

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
HALF = b"GET /heal"
CROWD = 2300 if FULL else 600


@pytest.fixture
def dial():
    """Opens connections from any of this machine's own addresses, sends something, and closes them in the end."""
    with contextlib.ExitStack() as lines:

        def connect(client: httpx.Client | str, sent: bytes = b"", own: str = "127.0.0.1") -> socket.socket:
            place = urlsplit(str(getattr(client, "base_url", client)))
            line = socket.create_connection((place.hostname, place.port), timeout=20, source_address=(own, 0))
            lines.enter_context(line).sendall(sent)
            return line

        yield connect


def answer_on(line: socket.socket) -> bytes:
    """Everything that comes until the other end hangs up."""
    said = b""
    with contextlib.suppress(ConnectionError):
        while more := line.recv(1 << 16):
            said += more
    return said


def ask(line: socket.socket) -> bool:
    """Whether a request on an open connection is answered."""
    with contextlib.suppress(ConnectionError):
        line.sendall(GET)
        return line.recv(1 << 16).startswith(b"HTTP/1.1 200")
    return False


def test_a_connection_that_waits_for_its_client_is_closed(tmp_path, dial):
    with service(tmp_path, head_seconds=0.3, idle_seconds=0.6) as client:
        silent, half, answered, drops = dial(client), dial(client, HALF), dial(client), dial(client, HALF)
        assert ask(answered)
        for _ in range(14):  # a byte now and then does not make it last longer
            with contextlib.suppress(ConnectionError):
                drops.sendall(b"t")
            time.sleep(0.05)
        assert [answer_on(line) for line in (silent, half, answered, drops)] == [b""] * 4


@pytest.mark.parametrize("piece", [1 << 12, 1 << 20])
@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\nX: ", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000])
def test_headers_have_a_size(started, start, piece, dial):
    sent = start + b"x" * (2 * LARGEST_HEAD) + b"\r\n\r\n"
    line = dial(started)
    with contextlib.suppress(ConnectionError):  # it hangs up before all is sent
        for begin in range(0, len(sent), piece):
            line.sendall(sent[begin : begin + piece])
    said = answer_on(line)
    assert said == b"" or (said.startswith(b"HTTP/1.1 431 ") and b"headers-too-large" in said)


def test_large_headers_are_refused_in_words(started, dial):
    line = dial(started, b"GET / HTTP/1.1\r\nX: ".ljust(LARGEST_HEAD, b"x"))
    line.sendall(b"x")
    said = answer_on(line)
    assert said.startswith(b"HTTP/1.1 431 ")
    assert b"connection: close" in said


def test_headers_after_a_body_have_a_size(started, dial):
    chunked = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
    line = dial(started, chunked + b"X: ")
    with pytest.raises(ConnectionError):
        line.sendall(b"x" * 100_000_000)


def test_many_requests_at_once_are_all_answered(started, dial):
    assert len(GET * 1600) > LARGEST_HEAD
    assert answer_on(dial(started, GET * 1600 + LAST)).count(b"HTTP/1.1 200 OK") == 1601


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    with service(tmp_path_factory.mktemp("connections")) as client:
        yield client


def test_whoever_waits_longest_makes_room(tmp_path, dial):
    with service(tmp_path, connections=20, connections_per_address=10) as client:
        works = dial(client)
        assert ask(works)
        crowd = []
        for _ in range(8):
            crowd += [dial(client, HALF) for _ in range(5)]
            assert ask(works)
        others = [dial(client, HALF, f"127.0.0.{2 + number % 3}") for number in range(30)]
        assert ask(works)
        assert all(ask(dial(client, own="127.0.0.9")) for _ in range(30))
        assert sum(is_open(line) for line in crowd) <= 9
        assert sum(is_open(line) for line in crowd + others) <= 19


def is_open(line: socket.socket) -> bool:
    line.settimeout(0.001)
    try:
        return line.recv(1) != b""
    except TimeoutError:
        return True
    except ConnectionError:
        return False


def test_nobody_is_interrupted_to_make_room(tmp_path, monkeypatch, dial):
    begun, go_on, experiments = threading.Semaphore(0), threading.Event(), queries.experiments

    def slow(*args, **kwargs):
        begun.release()
        go_on.wait(30)
        return experiments(*args, **kwargs)

    monkeypatch.setattr(queries, "experiments", slow)
    with service(tmp_path, connections=2) as client:
        first = [dial(client, LAST.replace(b"/healthz", b"/v1/experiments")) for _ in range(2)]
        assert all(begun.acquire(timeout=30) for _ in first)
        refused = answer_on(dial(client))
        go_on.set()
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in refused
        assert b"connection: close" in refused
        assert all(answer_on(line).startswith(b"HTTP/1.1 200 ") for line in first)


def test_an_answer_that_nobody_reads_is_given_up(tmp_path, monkeypatch, dial):
    size = 30_000_000
    monkeypatch.setattr(metrics.Metrics, "text", lambda *args: b"x" * size)
    asked = LAST.replace(b"/healthz", b"/metrics")
    with service(tmp_path, idle_seconds=0.4) as client:
        stuck, slow = dial(client, asked), dial(client, asked)
        taken = 0
        while more := slow.recv(1 << 21, socket.MSG_WAITALL):
            taken += len(more)
            time.sleep(0.1)
        assert taken > size
        assert len(answer_on(stuck)) < size


def test_a_client_that_hangs_up_is_no_error(tmp_path, caplog, dial):
    head = b"POST /v1/experiments HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with service(tmp_path) as client:
        dial(client, head + b"Content-Length: 9\r\n\r\n{").close()
        until = time.monotonic() + 20
        while 'status="499"' not in (text := client.get("/metrics").text) and time.monotonic() < until:
            time.sleep(0.01)
        assert 'status="499"' in text
        assert 'status="500"' not in text
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("order-7/b", True), ("x" * 128, True), ("x" * 129, False), ("a b", False), ("é", False), ("posse_1_x", False)],
)
def test_every_answer_has_an_id(started, sent, kept):
    headers = {"X-Request-Id": sent.encode()}
    said = [started.get(path, headers=headers).headers["x-request-id"] for path in ("/healthz", "/nowhere")]
    assert (said == [sent, sent]) is kept
    assert len(set(said)) == (1 if kept else 2)


def test_a_crowd_of_idle_connections_stops_no_request_and_fills_no_log(tmp_path, dial):
    """The processes begin with fewer files than there are connections, as they do in most shells."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * CROWD), hard))
    few = ("sh", "-c", 'ulimit -Sn 300 && exec "$@"', "sh")
    options = ("--access-log", "--log-format", "json")
    try:
        with (
            fleet(f"sqlite:///{tmp_path}/posse.db", tmp_path, 1, *options, prefix=few) as service,
            httpx.Client(base_url=service.url, timeout=10) as client,
        ):
            client.get("/healthz")
            crowd = [dial(service.url, HALF) for _ in range(CROWD)]
            answers = [client.get("/healthz", headers={"X-Request-Id": f"r{n}"}) for n in range(50)]
            assert {answer.status_code for answer in answers} == {200}
            assert ask(dial(service.url, own="127.0.0.2"))
            assert sum(is_open(line) for line in crowd) <= 250
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    lines = [json.loads(line) for line in service.log.read_text().splitlines()]
    assert len(lines) < 70
    (line,) = [line for line in lines if line.get("request_id") == "r7"]
    assert line.pop("time").endswith("+00:00")
    assert 0 < line.pop("milliseconds") < 10_000
    assert line.pop("message").startswith("127.0.0.1 GET /healthz 200 ")
    client = {"client": "127.0.0.1", "request_id": "r7"}
    said = {"level": "INFO", "logger": "posse.access", "method": "GET", "route": "/healthz", "status": 200}
    assert line == {**said, **client}


@pytest.mark.parametrize("several", [1, 3])
def test_who_stops_reading_while_a_request_waits_is_no_error(tmp_path, monkeypatch, caplog, dial, several):
    """The second of several requests on one connection waits until the answer to the first is taken."""
    monkeypatch.setattr(metrics.Metrics, "text", lambda *args: b"x" * 30_000_000)
    with service(tmp_path, idle_seconds=0.4, access_log=True) as client, caplog.at_level(logging.INFO):
        line = dial(client, GET.replace(b"/healthz", b"/metrics") * several)
        while not line.recv(1, socket.MSG_PEEK):
            time.sleep(0.01)
        time.sleep(2.0)
        assert len(answer_on(line)) < 30_000_000
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    statuses = [record.fields["status"] for record in caplog.records if record.name == "posse.access"]
    assert statuses == [200, 499][: min(several, 2)]


def test_who_hangs_up_before_the_answer_is_counted_so(tmp_path, monkeypatch, caplog, dial):
    begun, go_on, experiments = threading.Semaphore(0), threading.Event(), queries.experiments

    def slow(*args, **kwargs):
        begun.release()
        go_on.wait(30)
        return experiments(*args, **kwargs)

    monkeypatch.setattr(queries, "experiments", slow)
    with service(tmp_path, access_log=True) as client, caplog.at_level(logging.INFO):
        line = dial(client, GET.replace(b"/healthz", b"/v1/experiments"))
        assert begun.acquire(timeout=30)
        line.close()
        time.sleep(0.3)
        go_on.set()
        time.sleep(0.3)
        client.get("/healthz")
    statuses = [record.fields["status"] for record in caplog.records if record.name == "posse.access"]
    assert sorted(statuses) == [200, 499]
