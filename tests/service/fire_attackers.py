"""Those who besiege a service, each kind in a process of its own: `python fire_attackers.py KIND URL NUMBER`.

Says "ready" once it has begun, works until its standard input ends or it has done all, and then writes what came of it
as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import resource
import sys
import time
from collections import Counter
from typing import Any
from urllib.parse import quote, urlsplit

ADDRESSES = [f"127.0.0.{number}" for number in range(1, 6)]  # the victims' clients use the first one too
RATE = 10.0  # decisions a second of each client
TICK = 2.0  # seconds between two requests of a page
GIVE_UP = 60.0
POLLED = {"HX-Request": "true"}
HALVES = [  # of a request
    b"",
    b"GET / HT",
    b"POST /v1/experiments/teas/decisions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n",
    b"POST /v1/experiments/teas/decisions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b'Content-Length: 99\r\n\r\n{"player":',
]


class Line:
    """A connection to the service, which is opened when it is needed."""

    def __init__(self, url: str, address: str = ADDRESSES[0], keep: bool = False) -> None:
        self._host, self._port = urlsplit(url).hostname, urlsplit(url).port
        self._address, self._keep = address, keep
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            local = (self._address, 0)
            self._streams = await asyncio.open_connection(self._host, self._port, local_addr=local, limit=1 << 24)
        return self._streams

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def ask(self, path: str, body: Any = None, method: str = "", **headers: str) -> tuple[int, bytes]:
        """Status and body of an answer; 0 if there is none."""
        content = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method or ('GET' if body is None else 'POST')} {path} HTTP/1.1", f"Host: {self._host}:{self._port}"]
        headers |= {"Connection": "keep-alive" if self._keep else "close", "Content-Length": str(len(content))}
        headers |= {} if body is None else {"Content-Type": "application/json"}
        lines += [f"{name}: {value}" for name, value in headers.items()]
        try:
            async with asyncio.timeout(GIVE_UP):
                reader, writer = await self.open()
                writer.write("\r\n".join([*lines, "", ""]).encode() + content)
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = re.search(r"(?i)content-length: (\d+)", head)
                status = int(head.split()[1])
                if status == 204:
                    said = b""
                elif length:
                    said = await reader.readexactly(int(length[1]))
                else:
                    said = await (reader.readuntil(b"\r\n0\r\n\r\n") if self._keep else reader.read())
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            self.close()
            return 0, b""
        if not self._keep or "connection: close" in head.lower():
            self.close()
        return status, said


async def hold(url: str, number: int, ready: asyncio.Event) -> dict[str, Any]:
    """Open connections, send nothing or half a request, and open anew what the service closes."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    counts: Counter[str] = Counter()

    async def keep_open(place: int) -> None:
        while True:
            line = Line(url, ADDRESSES[place % len(ADDRESSES)])
            try:
                async with asyncio.timeout(GIVE_UP):
                    reader, writer = await line.open()
                counts["opened"] += 1
                writer.write(HALVES[place % len(HALVES)])
                counts["open"] += 1
                counts["most"] = max(counts["most"], counts["open"])
                try:
                    await reader.read()
                finally:
                    counts["open"] -= 1
            except (OSError, TimeoutError):
                counts["refused"] += 1
            finally:
                line.close()
            await asyncio.sleep(1.0)

    async def begin(group: asyncio.TaskGroup) -> None:
        for place in range(number):
            group.create_task(keep_open(place))
            if place % 50 == 49:
                await asyncio.sleep(0.02)
        await asyncio.sleep(1.0)
        ready.set()

    await _forever(begin)
    return dict(counts)


async def read(url: str, number: int, ready: asyncio.Event) -> dict[str, Any]:
    """Read the state of the largest experiment, again and again."""
    counts: Counter[str] = Counter()

    async def keep_reading(place: int) -> None:
        while True:
            status, said = await Line(url, ADDRESSES[place % len(ADDRESSES)]).ask("/v1/experiments/big/state")
            counts[str(status)] += 1
            counts["bytes"] += len(said)
            await asyncio.sleep(0 if status == 200 else 1.0)

    return await _each(number, keep_reading, counts, ready)


async def view(url: str, number: int, ready: asyncio.Event) -> dict[str, Any]:
    """Look at the dashboard as a browser does: half of the viewers at the list, half at the largest experiment."""
    counts: Counter[str] = Counter()

    async def look(place: int) -> None:
        line = Line(url, ADDRESSES[place % len(ADDRESSES)], keep=True)
        page, part = [("/", "/experiments"), ("/experiments/big", "/experiments/big/live")][place % 2]
        while True:
            seen = b""
            for tick in range(10):  # then the page is loaded anew
                if tick == 0:
                    status, said = await line.ask(page)
                else:
                    status, said = await line.ask(f"{part}?seen={quote(seen.decode())}", **POLLED)
                counts[str(status)] += 1
                if found := re.search(rb'id="seen" name="seen" value="([^"]*)"', said):
                    seen = found[1]
                if place % 2:
                    counts[str((await line.ask(f"{page}/chart.json"))[0])] += 1
                await asyncio.sleep(TICK)

    return await _each(number, look, counts, ready)


async def join(url: str, number: int, ready: asyncio.Event) -> dict[str, Any]:
    """Let players join an experiment, one by one, until all are there."""
    counts: Counter[str] = Counter()
    line = Line(url, keep=True)

    async def keep_joining(_: int) -> None:
        for player in range(number):
            status, _ = await line.ask("/v1/experiments/growing", {"join": [f"late {player}"]}, "PATCH")
            counts[str(status)] += 1

    return await _each(1, keep_joining, counts, ready)


async def decide(url: str, number: int, ready: asyncio.Event) -> dict[str, Any]:
    """Ask for decisions at a steady rate. Half of the clients keep their connection, half open one for each request.

    A decision's time counts from when it was due, so that one that takes long also delays those after it. One that
    fails takes for ever.
    """
    found: dict[str, list[float]] = {"seconds": [], "failed": []}

    async def keep_deciding(place: int) -> None:
        line, due = Line(url, keep=place % 2 == 0), time.monotonic()
        while True:
            await _timed(line.ask("/v1/experiments/teas/decisions", {"player": f"shop {place % 12}"}), due, found)
            due += 1 / RATE
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    await _each(number, keep_deciding, found, ready)
    return found


async def probe(url: str, number: int, ready: asyncio.Event) -> dict[str, Any]:
    """Ask whether the service is well, four times a second, each time on a new connection."""
    found: dict[str, list[float]] = {"seconds": [], "failed": []}

    async def keep_probing(_: int) -> None:
        while True:
            await _timed(Line(url).ask("/healthz"), time.monotonic(), found)
            await asyncio.sleep(0.25)

    await _each(number, keep_probing, found, ready)
    return found


async def _timed(asking: Any, due: float, found: dict[str, list[float]]) -> None:
    """Note how long an answer takes, or has taken so far when all ends, and whether it is a good one."""
    status = 200
    try:
        status, _ = await asking
    finally:
        found["seconds"].append(time.monotonic() - due)
        if status != 200:
            found["failed"].append(status)


async def _each(number: int, work: Any, result: Any, ready: asyncio.Event) -> Any:
    """So many at work, until all are cancelled; the result."""

    async def begin(group: asyncio.TaskGroup) -> None:
        for place in range(number):
            group.create_task(work(place))
        ready.set()

    await _forever(begin)
    return result


async def _forever(begin: Any) -> None:
    """Let tasks begin, and wait until they end or all is cancelled."""
    with contextlib.suppress(asyncio.CancelledError):
        async with asyncio.TaskGroup() as group:
            await begin(group)


async def main(kind: str, url: str, number: int) -> None:
    ready, ended = asyncio.Event(), asyncio.Event()
    attack = {"hold": hold, "read": read, "view": view, "join": join, "decide": decide, "probe": probe}[kind]
    task = asyncio.create_task(attack(url, number, ready))
    for event in (ready, ended):
        await asyncio.wait([task, asyncio.create_task(event.wait())], return_when=asyncio.FIRST_COMPLETED)
        if event is ready:
            print("ready", flush=True)
            asyncio.get_running_loop().add_reader(sys.stdin, ended.set)  # nothing is ever written to it
    task.cancel()
    print(json.dumps(await task), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
