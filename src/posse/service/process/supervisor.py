"""The supervisor: it holds the socket, and starts workers again when they die.

uvicorn has one too; docs/decisions/0009-own-supervisor.md says why it is not enough.
"""

from __future__ import annotations

import ipaddress
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

import uvicorn

from posse.checks import whole
from posse.policies.user import import_file
from posse.service import metrics
from posse.service.api.middleware import TokenFilter
from posse.service.auth import tokens
from posse.service.auth.permissions import is_loopback
from posse.service.settings import Settings
from posse.service.storage.store import ServiceStore

PRELOADED = [  # by the process that workers are forked from, so that a new worker answers at once
    "posse.service.api.app",
    "posse.service.process.warm_up",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
]
FINISH_SECONDS = 20  # in which workers finish what they accepted, once the service is to stop
LONGEST_PAUSE = 1.0  # seconds before a worker that failed to start is started again


def serve(
    host: str = "127.0.0.1",
    port: int = 8080,
    settings: Settings = Settings(),
    workers: int = 1,
    announce: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until SIGTERM or SIGINT; `announce` is called with the URL once it answers."""
    workers = whole("workers", workers, least=1, most=256)
    with bind(host, whole("port", port, least=0, most=65535)) as listener:
        prepare(settings, listener.getsockname()[0])
        with tempfile.TemporaryDirectory(prefix="posse-metrics-") as folder:
            Supervisor(listener, settings, workers, folder, lambda: announce(url_of(listener))).run()


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens at an address."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ValueError(f"host={host!r}, but expected a name or an address of this machine: {error}") from None
    try:
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()  # at ::, IPv4 too
        listener = socket.create_server(address, family=family, backlog=2048, dualstack_ipv6=both)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise OSError(f"cannot listen on {host}:{port}: {reason}; --port takes another") from None
    listener.set_inheritable(True)
    return listener


def url_of(listener: socket.socket) -> str:
    """The address at which a browser on this machine reaches a socket."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "127.0.0.1" if listener.family == socket.AF_INET else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def prepare(settings: Settings, address: str) -> None:
    """Import the user's policies, create the database if there is none, and refuse to be open where that is unsafe."""
    if settings.import_file is not None:
        import_file(settings.import_file)
    with closing(ServiceStore(settings.database, create=True)) as store:
        known = store.read(tokens.exist)
    outside = not is_loopback(address)
    if settings.open and (known or outside):
        why = f"host={address!r} can be reached from other machines" if outside else "its database has tokens"
        raise ValueError(f"the service is to be open to everybody on this machine, but {why}; leave out --open")
    if outside and not known:
        raise ValueError(
            f"host={address!r} can be reached from other machines, but there is no token yet, so nobody could use it; "
            "make one first, with the same --database: posse token create --scope admin"
        )


class Supervisor:
    """Keeps workers alive until it is told to stop."""

    def __init__(
        self, listener: socket.socket, settings: Settings, workers: int, folder: str, announce: Callable[[], None]
    ) -> None:
        self._listener, self._settings, self._folder, self._announce = listener, settings, folder, announce
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        self._workers: dict[int, BaseProcess] = {}
        self._count, self._pause = workers, 0.0
        self._signals = 0
        self._wake_read, self._wake_write = os.pipe()
        self._ready, self._tell_ready = self._context.Pipe(duplex=False)
        self._announced = False

    def run(self) -> None:
        """Start the workers, and replace those that die, until a signal comes."""
        before = {number: signal.signal(number, self._signalled) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            for number in range(self._count):
                self._start(number)
            while not self._signals:
                self._wait()
        finally:
            self._stop()
            for number, handler in before.items():
                signal.signal(number, handler)
            for end in (self._wake_read, self._wake_write):
                os.close(end)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1
        os.write(self._wake_write, b".")

    def _start(self, number: int) -> None:
        settings = self._settings if number == 0 else replace(self._settings, defaults_seconds=None)
        worker = self._context.Process(
            target=run_worker,
            args=(self._listener, settings, number, self._folder, self._tell_ready),
            name=f"posse-worker-{number}",
        )
        worker.start()
        self._workers[number] = worker

    def _wait(self) -> None:
        """Wait until a worker is ready or dies, or a signal comes."""
        happened = wait([self._wake_read, self._ready, *(worker.sentinel for worker in self._workers.values())])
        if self._ready in happened:
            self._ready.recv_bytes()
            self._pause = 0.0
            if not self._announced:
                self._announced = True
                self._announce()
        for number, worker in list(self._workers.items()):
            if worker.sentinel in happened and not self._signals:
                self._replace(number, worker)

    def _replace(self, number: int, worker: BaseProcess) -> None:
        worker.join()
        code = worker.exitcode or 0
        if code > 0:  # it exited by itself, and would do so again right away
            if not self._announced:
                raise RuntimeError("the service could not start; the lines above say why")
            self._pause = min(2 * self._pause or 0.1, LONGEST_PAUSE)
            wait([self._wake_read], self._pause)
        logging.getLogger("posse").warning("worker %d died (%d) and is started again", number, code)
        self._start(number)

    def _stop(self) -> None:
        """Let the workers finish what they accepted; a second signal ends them at once, and so does a time limit."""
        self._listener.close()  # from here on connections are refused, not left waiting
        for worker in self._workers.values():
            if worker.is_alive():
                worker.terminate()
        first, until = self._signals, time.monotonic() + FINISH_SECONDS + 5
        for worker in self._workers.values():
            while worker.is_alive() and self._signals <= first and time.monotonic() < until:
                worker.join(0.1)
            worker.kill()
            worker.join()


def run_worker(listener: socket.socket, settings: Settings, number: int, folder: str, ready: Connection) -> None:
    """A worker process: serve until SIGTERM, or until the supervisor is gone."""
    from posse.service.api.app import create_app

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches everybody; the supervisor says when to stop
    write_log()
    metrics.share(folder, number)
    server = WorkerServer(configuration(create_app(settings)), lambda: ready.send_bytes(b"."))
    threading.Thread(target=_stop_with_supervisor, args=(server,), daemon=True).start()
    server.run(sockets=[listener])


def _stop_with_supervisor(server: WorkerServer) -> None:
    """Stop when the supervisor is gone, even if it was killed."""
    if (supervisor := multiprocessing.parent_process()) is not None:
        supervisor.join()
        server.stop()


class WorkerServer(uvicorn.Server):
    """A server that says when it answers, and stops on SIGTERM only."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._say_ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._say_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Finish what was accepted, however often the signal comes."""
        if sig == signal.SIGTERM:
            self.stop()

    def stop(self) -> None:
        """Accept no more, finish, and end."""
        self.should_exit = True


def configuration(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # it would write query strings; the middleware has its own
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=FINISH_SECONDS,
    )


def write_log() -> None:
    """Write log lines to standard error, without tokens."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(TokenFilter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for noisy in ("uvicorn", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


@contextmanager
def background(settings: Settings | str) -> Iterator[str]:
    """A service in a thread of this process, on a free port of this machine; gives its URL.

    For trying out and for tests; `posse serve` is for everything else.
    """
    from posse.service.api.app import create_app

    settings = Settings(settings, open=True) if isinstance(settings, str) else settings
    began = threading.Event()
    with bind("127.0.0.1", 0) as listener:
        url = url_of(listener)
        prepare(settings, "127.0.0.1")
        server = WorkerServer(configuration(create_app(settings)), began.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="posse-service")
        thread.start()
        try:
            while not began.wait(0.1):
                if not thread.is_alive():
                    raise RuntimeError("the service could not start")
            yield url
        finally:
            server.stop()
            thread.join()
