"""`posse serve` as real processes: to be asked, and to be killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import children

FULL = bool(os.environ.get("POSSE_FULL"))
"""Whether the tests run in their full form; `make test-service FULL=1`."""
POSTGRES = os.environ.get("POSSE_POSTGRES_URL")
needs_service = pytest.mark.skipif(POSTGRES is None, reason="real processes, PostgreSQL, minutes: make test-service")
POSSE = [sys.executable, "-c", "import sys; from posse.cli import main; sys.exit(main())"]
START_SECONDS = 120


class Fleet:
    """A supervisor and its workers."""

    def __init__(
        self,
        database: str,
        workers: int,
        log: Path,
        *options: str,
        prefix: tuple[str, ...] = (),
        open_to_all: bool = True,
    ) -> None:
        self.log = log
        serve = ["serve", "--port", "0", *(["--open"] if open_to_all else [])]
        with log.open("ab") as errors:
            self._supervisor = subprocess.Popen(
                [*prefix, *POSSE, *serve, "--workers", str(workers), "--database", database, *options],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._supervisor.stdout is not None
        said = self._supervisor.stdout.readline()
        assert "http://" in said, log.read_text()
        self.url = said.partition(" at ")[2].partition("/ ")[0]
        until = time.monotonic() + START_SECONDS
        while len(self.workers()) < workers:
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)

    def _forked(self, is_reader: bool) -> list[int]:
        """The children of the process that forks them: the reader, which has a lower priority, or the others."""
        started, found = children(), []
        for process in (each for helper in started[self._supervisor.pid] for each in started[helper]):
            with contextlib.suppress(ProcessLookupError):
                low = os.getpriority(os.PRIO_PROCESS, process) > os.getpriority(os.PRIO_PROCESS, self._supervisor.pid)
                if low == is_reader:
                    found.append(process)
        return found

    def helpers(self) -> list[int]:
        """The processes that fork workers and keep the books about them."""
        return children()[self._supervisor.pid]

    def workers(self) -> list[int]:
        """The processes that answer."""
        return self._forked(is_reader=False)

    def reader(self) -> int:
        """The process that answers what reads much."""
        until = time.monotonic() + START_SECONDS
        while not (found := self._forked(is_reader=True)):
            assert time.monotonic() < until, self.log.read_text()
            time.sleep(0.05)
        return found[0]

    def kill(self, worker: int) -> None:
        """Let a worker die where it stands."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to stop; the status with which it did."""
        self._supervisor.send_signal(signal.SIGTERM)
        self._supervisor.communicate(timeout=60)
        return self._supervisor.returncode


@contextlib.contextmanager
def fleet(database: str, folder: Path, workers: int = 4, *options: str, **more: Any) -> Iterator[Fleet]:
    """A service on a database, which stops cleanly; a `prefix` is a command that starts it."""
    started = Fleet(database, workers, folder / f"serve-{uuid.uuid4().hex[:6]}.log", *options, **more)
    try:
        yield started
    finally:
        status = started.stop()
    assert status == 0, started.log.read_text()[-3000:]


@contextlib.contextmanager
def new_postgres_database(server: str | None = POSTGRES, tablespace: str = "pg_default") -> Iterator[str]:
    """A new database on a PostgreSQL server; gone afterwards."""
    import psycopg
    from sqlalchemy import make_url

    assert server is not None
    name = f"posse_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TABLESPACE {tablespace}')
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def run_posse(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What a command says."""
    return subprocess.run([*POSSE, *arguments], capture_output=True, text=True)
