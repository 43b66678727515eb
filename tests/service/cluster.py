"""A throw-away PostgreSQL: a cluster in a temporary folder, which can be killed and started again.

    python tests/service/cluster.py COMMAND …

runs a command with POSSE_POSTGRES_URL set to such a cluster, and removes it afterwards.
"""

from __future__ import annotations

import contextlib
import getpass
import glob
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

SETTINGS = {"listen_addresses": "127.0.0.1", "max_connections": "300", "log_min_messages": "warning"}
USER = "posse"
PATIENCE = 30  # seconds until it has to answer


def programs() -> Path | None:
    """The folder of PostgreSQL's programs, None if there is none."""
    found = [os.path.realpath(path) for path in (shutil.which("initdb"), shutil.which("postgres")) if path]
    found += sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    return Path(found[0]).parent if found else None


class Cluster:
    """A cluster in a folder, which runs as somebody who is not root, as PostgreSQL wants it."""

    def __init__(self, folder: Path) -> None:
        where = programs()
        assert where is not None, "no PostgreSQL here"
        self._programs, self._folder, self._port = where, folder, _free_port()
        self._owner = None if os.getuid() else _somebody()
        self._password = secrets.token_urlsafe()  # others on this machine reach the port too
        self._server: subprocess.Popen[bytes] | None = None
        (folder / "password").write_text(self._password)
        if self._owner:
            shutil.chown(folder, self._owner)
            shutil.chown(folder / "password", self._owner)
        subprocess.run(
            [where / "initdb", "-D", "data", "-U", USER, "-A", "scram-sha-256", "--pwfile=password", "-E", "UTF8"],
            check=True,
            stdout=subprocess.DEVNULL,
            user=self._owner,
            cwd=folder,
        )
        self.start()

    def url(self, database: str = "postgres") -> str:
        """The address of a database."""
        return f"postgresql://{USER}:{self._password}@127.0.0.1:{self._port}/{database}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        import psycopg

        settings = {**SETTINGS, "unix_socket_directories": str(self._folder), "port": str(self._port)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        until = time.monotonic() + PATIENCE
        while True:
            if self._server is None or self._server.poll() is not None:  # what was killed may not quite be gone
                with (self._folder / "log").open("ab") as log:
                    self._server = subprocess.Popen(
                        [self._programs / "postgres", "-D", self._folder / "data", *options],
                        stdout=log,
                        stderr=log,
                        user=self._owner,
                        cwd=self._folder,
                    )
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < until, (self._folder / "log").read_text()[-2000:]
                time.sleep(0.05)

    def tablespace(self, folder: Path) -> str:
        """The name of a new tablespace, which keeps its files in a folder."""
        import psycopg

        if self._owner:
            shutil.chown(folder, self._owner)
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE elsewhere LOCATION '{folder}'")
        return "elsewhere"

    def kill(self) -> None:
        """End every process of it at once, as a power cut would."""
        assert self._server is not None
        for process in [self._server.pid, *children()[self._server.pid]]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._server.wait()

    def stop(self) -> None:
        """Stop it, without waiting for those who are connected."""
        assert self._server is not None
        self._server.send_signal(signal.SIGINT)
        self._server.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _somebody() -> str:
    """Anybody but root."""
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in known), getpass.getuser())


def children() -> dict[int, list[int]]:
    """The processes that each process has started."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True, text=True).stdout
    found: dict[int, list[int]] = defaultdict(list)
    for line in listed.splitlines():
        process, parent = map(int, line.split())
        found[parent].append(process)
    return found


@contextlib.contextmanager
def cluster(make: Callable[[Path], Cluster] = Cluster) -> Iterator[Cluster]:
    """A new cluster, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="posse-postgres-"))
    try:
        made = make(folder)
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    with cluster() as made:
        print(f"a throw-away PostgreSQL runs for: {' '.join(sys.argv[1:])}", flush=True)
        sys.exit(subprocess.run(sys.argv[1:], env={**os.environ, "POSSE_POSTGRES_URL": made.url()}).returncode)
