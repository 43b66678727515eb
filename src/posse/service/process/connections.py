"""Client connections: how many there may be, for how long each may wait for its client, and which one makes room.

docs/decisions/0015-connections.md says why.
"""

import ipaddress
from collections import deque
from http import HTTPStatus
from itertools import islice
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from posse.service.api.middleware import ENCODED, GONE
from posse.service.problems import HttpProblem
from posse.service.settings import Settings

LARGEST_HEAD = 64 * 1024  # bytes of a request's first line and headers
LEAST_TAKEN = 16 * 1024  # bytes of an answer that a client has to take in `idle_seconds`
HEAD, BODY, IDLE, UNREAD = range(4)
"""What a connection waits for: a head, the rest of a body, the next request, or somebody who reads the answer."""
DISCARD: Any = deque(maxlen=0)  # takes headers after the body, which nobody wants, and forgets them
ARRIVALS = 4  # one connection in so many is for clients whose request is not complete yet


def raw_answer(kind: str, detail: str, **headers: str) -> bytes:
    """A problem as bytes, for what never becomes a request; it is the last answer on its connection."""
    answer = HttpProblem(kind, detail, {"connection": "close", **headers}).response()
    lines = [f"HTTP/1.1 {answer.status_code} {HTTPStatus(answer.status_code).phrase}".encode()]
    lines += [name + b": " + value for name, value in (*answer.raw_headers, *ENCODED)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + bytes(answer.body)


NOT_HTTP = raw_answer(
    "bad-request", "This is not HTTP/1.1, or its method is not one of HTTP's. The connection is closed."
)
LARGE_HEAD = raw_answer("headers-too-large", f"Send at most {LARGEST_HEAD:,} bytes of path and headers.")
FULL = raw_answer("overloaded", "All connections are in use; try again in a second.", **{"retry-after": "1"})


class ConnectionGroup:
    """Connections under one limit. Those that wait for their client stand in the order in which they began to."""

    def __init__(self, limit: int, address: str | None = None) -> None:
        self.limit, self.address, self.count = limit, address, 0
        self.waiting: tuple[dict[ClientConnection, None], ...] = ({}, {}, {}, {})

    def make_room(self) -> bool:
        """Whether there is room for one more, if need be because one that waits is closed: the longest waiting.

        That is one whose request is not complete, if these are more than their share; or else one without a request.
        So a crowd of half-sent requests closes each other's connections, and clients that work keep theirs.
        """
        if self.count < self.limit:
            return True
        heads, bodies, idle, unread = self.waiting
        crowded = len(heads) + len(bodies) > self.limit // ARRIVALS
        order = (heads, bodies), (idle, unread)
        for kinds in order if crowded else reversed(order):
            first = [one for kind in kinds for one in islice(kind, 1)]
            if first:
                min(first, key=lambda one: one.since).hang_up()
                return True
        return False


class ConnectionTable(ServerState):
    """All connections of a worker."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings
        self._everybody = ConnectionGroup(settings.connections)
        self._by_address: dict[str, ConnectionGroup] = {}
        self.last_answers = False  # whether each answer is the last one on its connection, because the service stops
        self.closes_idle = False  # whether connections without a request are closed

    def groups(self, client: tuple[str, int] | None) -> tuple[ConnectionGroup, ...]:
        """The groups of a client, the smaller first."""
        address = peer(client[0]) if client else ""
        own = self._by_address.get(address)
        if own is None:
            own = self._by_address[address] = ConnectionGroup(self._settings.connections_per_address, address)
        return own, self._everybody

    def forget(self, group: ConnectionGroup) -> None:
        """Forget an address that has no connection left."""
        if group.address is not None:
            del self._by_address[group.address]

    def close_overdue(self, now: float) -> None:
        """Close what has waited too long for its client; the middleware watches over bodies."""
        settings, waiting = self._settings, self._everybody.waiting
        limits = {HEAD: settings.head_seconds, IDLE: settings.idle_seconds, UNREAD: settings.idle_seconds}
        for kind, seconds in limits.items():
            for connection in list(waiting[kind]):
                if now - connection.since < seconds:
                    break  # the others came later
                connection.run_out()

    def stop(self) -> None:
        """From now on each answer is the last one on its connection."""
        self.last_answers = True
        for connection in self._all():
            connection.end_soon()

    def close_idle(self) -> None:
        """Close every connection without a request, now and from now on."""
        self.closes_idle = True
        for kind in (HEAD, IDLE):
            for connection in list(self._everybody.waiting[kind]):
                connection.transport.close()

    def hang_up(self) -> None:
        """Close every connection, whatever it does."""
        for connection in self._all():
            connection.hang_up()

    def _all(self) -> list["ClientConnection"]:
        return [one for one in self.connections if isinstance(one, ClientConnection)]


def peer(host: str) -> str:
    """Whom a limit for one address counts: an IPv4 address, or the 64 bits of an IPv6 network that one client has.

    >>> peer("192.0.2.7"), peer("::ffff:192.0.2.7"), peer("2001:db8::1") == peer("2001:db8::2")
    ('192.0.2.7', '192.0.2.7', True)
    """
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host)
    return str(address.ipv4_mapped) if address.ipv4_mapped else address.packed[:8].hex()


class ClientConnection(HttpToolsProtocol):
    """A connection that waits for its client for a limited time, and makes room while it waits."""

    server_state: ConnectionTable
    waits: int | None = None  # for what it waits; None while the client waits for the service
    since = 0.0
    _groups: tuple[ConnectionGroup, ...] = ()
    _answered: RequestResponseCycle | None = None  # the request that is being answered, or was last
    _in_head = True
    _unfinished = 0  # bytes of the head, or of anything that is not a body, that came since the last complete thing
    _unsent = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        groups = self.server_state.groups(self.client)
        if not all(group.make_room() for group in groups):
            self._refuse(FULL)
            return
        self._groups = groups
        for group in groups:
            group.count += 1
        self._wait(HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        self._tell_gone()  # first: a request that waits for its client to read goes on in the next line
        super().connection_lost(exc)
        self._leave()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def _tell_gone(self) -> None:
        """Let the request that is being answered know that its client is gone; uvicorn tells the last that came."""
        cycle = self._answered
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            scope: Any = cycle.scope
            scope[GONE] = True

    # ------------------------------------------------------------ for whom it waits

    def _wait(self, kind: int | None) -> None:
        for group in self._groups:
            if self.waits is not None:
                del group.waiting[self.waits][self]
            if kind is not None:
                group.waiting[kind][self] = None
        self.waits, self.since = kind, self.loop.time()

    def _wait_anew(self, nothing_asked: int) -> None:
        """See for whom it waits; `nothing_asked` says what for if there is no request."""
        cycle = self.cycle
        if self.flow.write_paused:
            kind: int | None = UNREAD
        elif cycle is None or cycle.response_complete:
            kind = nothing_asked
        else:
            kind = BODY if cycle.more_body else None
        if kind != self.waits:
            self._wait(kind)

    def _leave(self) -> None:
        self._wait(None)
        for group in self._groups:
            group.count -= 1
            if not group.count:
                self.server_state.forget(group)
        self._groups = ()

    def run_out(self) -> None:
        """It has waited long enough. Somebody who reads slowly, but reads, gets as long again."""
        size = self.transport.get_write_buffer_size()
        if self.waits == UNREAD and self._unsent - size >= LEAST_TAKEN:
            self._unsent = size
            self._wait(UNREAD)
        else:
            self.hang_up()

    def hang_up(self) -> None:
        """Close at once, whatever is under way."""
        self._leave()
        self._tell_gone()
        self.transport.abort()

    def end_soon(self) -> None:
        """Let the answers that have not begun be the last."""
        for cycle in [self.cycle, *(cycle for cycle, _ in self.pipeline)]:
            if cycle is not None and not cycle.response_started:
                cycle.keep_alive = False

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unsent = self.transport.get_write_buffer_size()
        self._wait_anew(IDLE)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._wait_anew(IDLE)

    # ------------------------------------------------------------ what comes in

    def data_received(self, data: bytes) -> None:
        while self._in_head and self._unfinished + len(data) > LARGEST_HEAD:
            part = LARGEST_HEAD - self._unfinished
            if not self._parse(data[:part]):
                return
            data = data[part:]
            if self._unfinished >= LARGEST_HEAD:
                self._refuse(LARGE_HEAD)
                return
        if self._parse(data) and not self.transport.is_closing():
            self._wait_anew(HEAD)

    def _parse(self, data: bytes) -> bool:
        """Whether it is HTTP so far, and not too long."""
        self._unfinished += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.cycle.keep_alive = False  # it is answered as if it had not asked for another protocol
        except httptools.HttpParserError:
            self._refuse(NOT_HTTP)
            return False
        if self._unfinished > LARGEST_HEAD:  # trailers, which have no end
            self.hang_up()
            return False
        return True

    def _refuse(self, answer: bytes) -> None:
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.hang_up()
        else:
            self.transport.write(answer)
            self.transport.close()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_head, self._unfinished, self.headers = False, 0, DISCARD
        if self.server_state.last_answers:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._unfinished = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._unfinished = True, 0

    def on_response_complete(self) -> None:
        """As uvicorn's, but without a timer for each answer."""
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
        self._wait_anew(IDLE)
        if self.waits == IDLE and self.server_state.closes_idle:
            self.transport.close()
