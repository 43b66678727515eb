"""A network between a service and its database that can stop forwarding, be cut, and come back."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class CutNetwork:
    """Forwards TCP connections from a port of this machine to a server, as long as it is told to.

    Args:
        host: the server's host.
        port: the server's port.
    """

    def __init__(self, host: str, port: int) -> None:
        self.target = host, port
        """Where new connections go; another server may take over."""
        self._forwarding, self._refusing = threading.Event(), False
        self._forwarding.set()
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        """Take what is sent and forward nothing, without a word; connections stay open, and new ones are accepted."""
        self._forwarding.clear()

    def cut(self) -> None:
        """Break every connection, and refuse new ones."""
        self._refusing = True
        self._forwarding.set()
        with self._lock:
            for each in self._sockets:
                _shut(each)

    def resume(self) -> None:
        """Forward again, first what was sent meanwhile."""
        self._refusing = False
        self._forwarding.set()

    def close(self) -> None:
        """End it."""
        self.cut()
        _shut(self._listener)

    def _accept(self) -> None:
        with self._listener, contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self._forwarding.wait()
        try:
            if self._refusing:
                raise ConnectionRefusedError
            server = socket.create_connection(self.target)
        except OSError:
            client.close()
            return
        with client, server:
            with self._lock:
                self._sockets |= {client, server}
            back = threading.Thread(target=self._forward, args=(server, client), daemon=True)
            back.start()
            self._forward(client, server)
            back.join()
            with self._lock:
                self._sockets -= {client, server}

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._forwarding.wait()
                target.sendall(data)
        self._forwarding.wait()
        for each in (source, target):
            _shut(each)


def _shut(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def network_to(database: str) -> Iterator[tuple[CutNetwork, str]]:
    """A network to a PostgreSQL database, and the database's address through it."""
    from sqlalchemy import make_url

    address = make_url(database)
    network = CutNetwork(address.host or "127.0.0.1", address.port or 5432)
    try:
        through = address.set(host="127.0.0.1", port=network.port)
        yield network, through.render_as_string(hide_password=False)
    finally:
        network.close()
