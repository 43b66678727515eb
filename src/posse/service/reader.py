"""The way to the reader, the process that answers whatever reads much: docs/decisions/0016-reader-process.md."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from posse.service.logs import request_id
from posse.service.problems import HttpProblem

MOST_UNDER_WAY = 64  # requests of one worker that the reader has not answered yet
IDENTITY = b"x-request-id"  # which the worker says itself, to the reader and to the client
OF_THE_REQUEST = {b"connection", b"content-length", b"expect", b"keep-alive", b"te", b"transfer-encoding", b"upgrade"}
OF_THE_ANSWER = {b"connection", b"date", b"transfer-encoding", IDENTITY}
"""Headers about one connection, which is not the other one."""
RETRY = {"Retry-After": "1"}

Handler = Callable[[Request], Awaitable[Response]]


def by_reader(endpoint: Callable[..., object], handle: Handler) -> Handler:
    """What answers a request whose token is enough: `handle`, or the reader where there is one and it is for it."""
    if not getattr(endpoint, "in_reader", False):
        return handle

    async def answer(request: Request) -> Response:
        reader: ReaderClient | None = request.app.state.reader
        return await (handle(request) if reader is None else reader.answer(request))

    return answer


class ReaderClient:
    """Passes requests on to the reader, a bounded number at a time.

    Args:
        path: of the Unix socket at which the reader listens.
        seconds: how long an answer may take.
    """

    def __init__(self, path: str, seconds: float) -> None:
        self._path, self._seconds = path, seconds
        self._under_way = 0

    async def answer(self, request: Request) -> Response:
        """The reader's answer to a request without a body."""
        if self._under_way >= MOST_UNDER_WAY:
            detail = f"{MOST_UNDER_WAY} requests that read much are under way already. Try again in a second."
            raise HttpProblem("overloaded", detail, RETRY)
        self._under_way += 1
        try:
            async with asyncio.timeout(self._seconds):
                return await self._ask(request)
        except TimeoutError:
            detail = f"Reading took more than {self._seconds:g} s. Ask for less, or try again; decisions go on."
            raise HttpProblem("timeout", detail, RETRY) from None
        except (OSError, EOFError, ValueError):
            detail = "The process that reads is being started again. Try again in a second; decisions go on."
            raise HttpProblem("unavailable", detail, RETRY) from None
        finally:
            self._under_way -= 1

    async def _ask(self, request: Request) -> Response:
        """Ask on a connection of its own; no answer of the service comes in chunks."""
        scope = request.scope
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        lines = [b"%s %s HTTP/1.1" % (scope["method"].encode(), target), b"connection: close"]
        headers = [pair for pair in scope["headers"] if pair[0] not in (*OF_THE_REQUEST, IDENTITY)]
        lines += [b"%s: %s" % pair for pair in (*headers, (IDENTITY, (request_id.get() or "").encode()))]
        incoming, outgoing = await asyncio.open_unix_connection(self._path)
        try:
            outgoing.write(b"\r\n".join([*lines, b"", b""]))
            first, *rest = (await incoming.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
            body = await incoming.read()
        finally:
            outgoing.close()
        fields = (line.partition(b":") for line in rest)
        headers = [(name.lower(), value.strip()) for name, _, value in fields]
        answer = Response(body, int(first.split()[1]))
        answer.raw_headers = [pair for pair in headers if pair[0] not in OF_THE_ANSWER]
        expected = int(answer.headers.get("content-length", "0"))
        if len(body) != expected and request.method != "HEAD":
            raise EOFError(f"{len(body)} bytes of {expected}")
        return answer
