"""A way between a service and its database that can be cut: a proxy which stops forwarding, and tells nobody."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from sqlalchemy import make_url


class Proxy:
    """Forwards TCP connections to a database, until it is cut."""

    def __init__(self, database: str) -> None:
        self._database = make_url(database)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self._cut, self._held = threading.Event(), []  # what is set for all lines that are dead; sockets of dead lines
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The database's address, by way of the proxy."""
        host, port = self._listener.getsockname()
        return self._database.set(host=host, port=port).render_as_string(hide_password=False)

    def point(self, database: str) -> None:
        """Forward new connections elsewhere."""
        self._database = make_url(database)

    def cut(self) -> None:
        """Forward nothing more on any line, old or new; all of them stay open, and what is sent is lost."""
        self._cut.set()

    def mend(self) -> None:
        """Forward new connections again; the old ones stay dead."""
        self._cut = threading.Event()

    def close(self) -> None:
        self._cut.set()
        for line in (self._listener, *self._held):
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self._held.append(near)
            if self._cut.is_set():
                continue
            try:
                far = socket.create_connection((self._database.host, self._database.port), timeout=2)
            except OSError:
                near.shutdown(socket.SHUT_RDWR)
                continue
            far.settimeout(None)
            self._held.append(far)
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=_forward, args=(source, sink, self._cut), daemon=True).start()


def _forward(source: socket.socket, sink: socket.socket, cut: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            if cut.is_set():
                return
            sink.sendall(data)
    if not cut.is_set():
        for line in (source, sink):
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def proxy(database: str) -> Iterator[Proxy]:
    """A proxy, gone afterwards."""
    made = Proxy(database)
    try:
        yield made
    finally:
        made.close()
