"""The server in a worker: uvicorn's, with connections of our own. It says when it answers, and stops within seconds."""

import asyncio
import contextlib
import functools
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from posse.service.process.connections import ClientConnection, ConnectionTable
from posse.service.settings import Settings

BACKLOG = 2048  # connections that wait to be accepted
LINGER_SECONDS = 1.0  # after a stop, in which a client may still send a request on a connection that it has
FINISH_SECONDS = 3.0  # after a stop, in which a request may be finished; later it is answered 503
FLUSH_SECONDS = 1.0  # after that, in which clients take their answers


class WorkerServer(uvicorn.Server):
    """A server that says when it answers, and stops on SIGTERM only."""

    server_state: ConnectionTable

    def __init__(self, app: FastAPI, settings: Settings, ready: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app,
            http=ClientConnection,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,  # it would write query strings; the middleware has its own
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
        )
        super().__init__(config)
        self.server_state = ConnectionTable(settings)
        self._running, self._say_ready = app.state.running, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._say_ready()

    async def on_tick(self, counter: int) -> bool:
        self.server_state.close_overdue(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Finish what was accepted, however often the signal comes."""
        if sig == signal.SIGTERM:
            self.stop()

    def stop(self) -> None:
        """Accept no more, finish, and end."""
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer every request that was accepted, each as the last one on its connection, and end.

        uvicorn's own tells the connections once. One that is being accepted at that moment is not told, goes on, and
        holds up the stop until its requests are cancelled.
        """
        table = self.server_state
        table.stop()
        await self._close(sockets or [])
        await self._quiet(LINGER_SECONDS)
        table.close_idle()
        await self._quiet(FINISH_SECONDS - LINGER_SECONDS)
        self._running.stop()
        await self._quiet(FLUSH_SECONDS)
        table.hang_up()
        await self.lifespan.shutdown()

    async def _close(self, listeners: list[socket.socket]) -> None:
        """Listen no more, but take those who have connected already."""
        accepted = []
        for listener in listeners:
            with contextlib.suppress(OSError):  # nobody waits any more
                while True:
                    accepted.append(listener.accept()[0])
        for server in self.servers:
            server.close()
        for listener in listeners:
            listener.close()
        connect = functools.partial(ClientConnection, self.config, self.server_state, self.lifespan.state)
        for line in accepted:
            await asyncio.get_running_loop().connect_accepted_socket(connect, line)

    async def _quiet(self, seconds: float) -> None:
        """Wait until no connection and no request is left, but not for longer than this."""
        until = time.monotonic() + seconds
        await asyncio.sleep(0.01)  # for connections that are being accepted
        while (self.server_state.connections or self.server_state.tasks) and time.monotonic() < until:
            await asyncio.sleep(0.01)
