"""The supervisor: it holds the socket, and starts workers again when they die.

uvicorn has one too; docs/decisions/0009-own-supervisor.md says why it is not enough.
"""

import ipaddress
import logging
import math
import multiprocessing
import os
import resource
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

from posse.checks import whole
from posse.policies.user import import_file
from posse.service import auth, metrics
from posse.service.admin.rebuild import rebuild_outdated
from posse.service.auth import is_loopback
from posse.service.logs import write_log
from posse.service.process.server import BACKLOG, WorkerServer
from posse.service.settings import Settings
from posse.service.steady_clock import since_boot
from posse.service.storage import database, queries
from posse.service.storage.store import ServiceStore
from posse.text import moment

PRELOADED = [  # by the process that workers are forked from, so that a new worker answers at once
    "posse.service.api.app",
    "posse.service.process.server",
    "posse.service.process.warm_up",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
]
KILL_SECONDS = 10  # after which a worker that has not stopped is killed
LONGEST_PAUSE = 1.0  # seconds before a worker that failed to start is started again
START_TRIES = 5  # to start a worker before the service has ever answered
ORPHANED = 255  # what multiprocessing gives as the exit code of a worker whose fork server died
WATCH_SECONDS = 10.0  # how often a worker looks whether its fork server is there; a new one starts meanwhile
SAY_SECONDS = 10  # between two lines that say that the database is away
CLOCK_SECONDS = 2.0  # by which the log may be ahead of the machine's clock, as clocks of several machines differ
FILES = 500  # that a worker opens beside its connections
READER = -1  # the number among the workers of the reader, which listens on a Unix socket where only workers ask it
NICE = 10  # the priority of the reader: decisions come first


def serve(
    host: str = "127.0.0.1",
    port: int = 8080,
    settings: Settings = Settings(),
    workers: int = 1,
    announce: Callable[[str], None] = lambda url: None,
    database_opened: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT; `announce` is called with the URL once it answers."""
    workers = whole("workers", workers, least=1, most=256)
    port = whole("port", port, least=0, most=65535)
    allow_files(settings)
    bind(host, port).close()  # what is wrong with the address is said now; while the database is away, nobody listens
    if not wait_for(settings.database):
        return
    with bind(host, port) as listener:
        prepare(settings, listener.getsockname()[0])
        database_opened()
        with tempfile.TemporaryDirectory(prefix="posse-") as folder:
            Supervisor(listener, settings, workers, folder, lambda: announce(url_of(listener))).run()


def allow_files(settings: Settings) -> None:
    """Let the workers, which inherit the limit, open as many files as their connections need."""
    most = whole("connections", settings.connections, least=1)
    whole("connections_per_address", settings.connections_per_address, least=1)
    needed = most + BACKLOG + FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise ValueError(
            f"connections={most} needs {needed} open files, but this process may open {hard}; take fewer, or raise the "
            "limit: `ulimit -Hn` in a shell, LimitNOFILE= in a unit of systemd, `ulimits` in a compose file"
        )
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def wait_for(url: str) -> bool:
    """Wait until the database's server can be reached; False if SIGTERM or Ctrl-C came first.

    An error if waiting cannot help: a wrong address, user, password or name.
    """
    log, said_at = logging.getLogger("posse"), -math.inf
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while (away := database.why_away(url)) is not None:
            if time.monotonic() - said_at >= SAY_SECONDS:
                log.warning("%s; posse starts when it is there", away)
                said_at = time.monotonic()
            time.sleep(0.5)
        return True
    except KeyboardInterrupt:
        return False
    finally:
        signal.signal(signal.SIGTERM, before)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens at an address."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ValueError(f"host={host!r}, but expected a name or an address of this machine: {error}") from None
    try:
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()  # at ::, IPv4 too
        listener = socket.create_server(address, family=family, backlog=BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise OSError(f"cannot listen on {host}:{port}: {reason}; --port takes another") from None
    listener.set_inheritable(True)
    return listener


def bind_reader(folder: str) -> socket.socket:
    """The socket of the reader, in a folder that nobody else may enter.

    The supervisor holds it, so that requests wait while a reader that died is replaced.
    """
    path, listener = str(Path(folder) / "reader"), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
    except OSError as error:
        listener.close()
        raise OSError(
            f"cannot listen on {path}: {error}; the variable TMPDIR may name a folder with a shorter path"
        ) from None
    listener.listen(1024)
    return listener


def url_of(listener: socket.socket) -> str:
    """The address at which a browser on this machine reaches a socket."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "127.0.0.1" if listener.family == socket.AF_INET else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def prepare(settings: Settings, address: str) -> None:
    """Import the user's policies, refuse to be open where that is unsafe, and make the database ready.

    It is created if there is none, and what another version of posse kept in another form is made anew from the logs.
    """
    if settings.import_file is not None:
        import_file(settings.import_file)
    with closing(ServiceStore(settings.database, create=True)) as store:
        known, outside = store.read(auth.tokens_exist), not is_loopback(address)
        if settings.open and (known or outside):
            why = f"host={address!r} can be reached from other machines" if outside else "its database has tokens"
            raise ValueError(f"the service is to be open to everybody on this machine, but {why}; leave out --open")
        if outside and not known:
            raise ValueError(
                f"host={address!r} can be reached from other machines, but there is no token yet, so nobody could use "
                "it; make one first, with the same --database: posse token create --scope admin"
            )
        last, now = store.read(queries.last_time), settings.clock_offset + since_boot()
        if last is not None and last > now + CLOCK_SECONDS:
            behind = f"the machine's clock says {moment(now)}, but the log ends at {moment(last)}"
            advice = "times go on from the log's end; if the clock is wrong, set it right and restart the service"
            logging.getLogger("posse").warning("%s: %s", behind, advice)
        rebuild_outdated(store)


class Supervisor:
    """Keeps workers alive until it is told to stop."""

    def __init__(
        self, listener: socket.socket, settings: Settings, workers: int, folder: str, announce: Callable[[], None]
    ) -> None:
        self._listener, self._folder, self._announce = listener, folder, announce
        self._reader_listener = bind_reader(folder)
        self._settings = replace(settings, reader=self._reader_listener.getsockname())
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
            for number in (*range(self._count), READER):
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
        listener, name = self._listener, f"worker {number}"
        if number == READER:  # it asks nobody else, workers write the access log, and all it hears is one address
            one = settings.connections
            settings = replace(settings, reader=None, access_log=False, connections_per_address=one)
            listener, name = self._reader_listener, "the reader"
        given = listener, settings, number, self._folder, self._tell_ready
        failures = 0
        while not self._signals:
            worker = self._context.Process(target=run_worker, args=given, name=name)
            try:
                worker.start()
                self._workers[number] = worker
                return
            except (EOFError, OSError) as error:  # the process that forks workers was killed, or the system is short
                failures += 1
                if not self._announced and failures == START_TRIES:
                    raise RuntimeError(f"{name} could not be started: {error!r}") from error
                logging.getLogger("posse").warning("%s could not be started, and is tried again: %r", name, error)
                self._rest()

    def _rest(self) -> None:
        """Wait for a moment, longer each time until a worker is ready, or until a signal comes."""
        self._pause = min(2 * self._pause or 0.1, LONGEST_PAUSE)
        wait([self._wake_read], self._pause)

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
        if code > 0 and code != ORPHANED:  # it exited by itself, and would do so again right away
            if not self._announced:
                raise RuntimeError("the service could not start; the lines above say why")
            self._rest()
        what = "lost the process that forks workers" if code == ORPHANED else f"died ({code})"
        logging.getLogger("posse").warning("%s %s and is started again", worker.name, what)
        self._start(number)

    def _stop(self) -> None:
        """Let the workers finish what they accepted; a second signal ends them at once, and so does a time limit."""
        self._listener.close()  # from here on connections are refused, not left waiting
        first, until = self._signals, time.monotonic() + KILL_SECONDS
        reader = self._workers.pop(READER, None)
        for worker in self._workers.values():
            if worker.is_alive():
                worker.terminate()
        for worker in self._workers.values():
            while worker.is_alive() and self._signals <= first and time.monotonic() < until:
                worker.join(0.1)
            worker.kill()
            worker.join()
        if reader is not None:  # until now workers may have asked it; it only reads, so nothing is lost
            reader.kill()
            reader.join()
        self._reader_listener.close()


def run_worker(listener: socket.socket, settings: Settings, number: int, folder: str, ready: Connection) -> None:
    """A worker process: serve until SIGTERM, or until the supervisor is gone."""
    from posse.service.api.app import create_app

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches everybody; the supervisor says when to stop
    write_log(settings.log_format)
    if number == READER:  # it reads the counts of all workers, and has none of its own
        os.nice(NICE)
        os.environ[metrics.FOLDER] = folder
    else:
        metrics.share(folder, number)

    def say_ready() -> None:
        with suppress(BrokenPipeError):  # the supervisor was killed meanwhile, so this worker is about to stop
            if number != READER:
                ready.send_bytes(b".")

    server = WorkerServer(create_app(settings), settings, say_ready)
    threading.Thread(target=_stop_with_supervisor, args=(server,), daemon=True).start()
    server.run(sockets=[listener])


def _stop_with_supervisor(server: WorkerServer) -> None:
    """Stop when the supervisor is gone, even if it was killed, or the fork server, so that nobody knows this worker."""
    if (supervisor := multiprocessing.parent_process()) is not None:
        fork_server = os.getppid()
        while supervisor.is_alive() and os.getppid() == fork_server:
            supervisor.join(WATCH_SECONDS)
        server.stop()


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
        server = WorkerServer(create_app(settings), settings, began.set)
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
