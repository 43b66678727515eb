"""The file of a SQLite database: how it is opened, and whether it is there and still the same."""

import contextlib
import logging
import os
import sqlite3
from pathlib import Path
from typing import Any, BinaryIO

import sqlalchemy as sql
from sqlalchemy.engine import URL, Connection, Engine

from posse.checks import SQLITE
from posse.service.storage.address import command
from posse.service.storage.errors import Damaged, Unavailable

LOGGER = logging.getLogger("posse.service")
PRIVATE = 0o600  # the rights of every file that is made: its owner reads and writes, and nobody else


def private(path: Path) -> BinaryIO:
    """A file to write, which only its owner may read."""
    return open(path, "wb", opener=lambda file, flags: os.open(file, flags, PRIVATE))


def connect(address: URL, patience: int) -> Engine:
    """An engine that waits so many seconds to write, and works with one file for all of its life.

    SQLite would go on with a file that was deleted or replaced, and everything that it wrote would be lost.
    """
    opened = OpenedFile(os.path.abspath(str(address.database)))
    options = {"connect_args": {"timeout": patience}, "execution_options": {"opened_file": opened}}
    engine = sql.create_engine(address, pool_size=4, max_overflow=64, **options)
    sql.event.listen(engine, "do_connect", lambda *_: opened.check())
    sql.event.listen(engine, "connect", _prepare)
    sql.event.listen(engine, "begin", _begin)
    return engine


class OpenedFile:
    """The file that an engine has opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None  # of the file that was opened first

    def check(self) -> None:
        """An error unless the path leads to the same file as before."""
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise Unavailable(f"the database's file is gone: {error}; put it back, or restart the service") from error
        identity = found.st_dev, found.st_ino
        if identity != (self._identity or identity):
            raise Unavailable(f"another file is in the place of the database {self._path}; restart the service")
        self._identity = identity


def check_same(database: Engine | Connection) -> None:
    """An error if the file of a SQLite database was deleted or replaced since it was opened."""
    opened: OpenedFile | None = database.get_execution_options().get("opened_file")
    if opened is not None:
        opened.check()


def _prepare(connection: sqlite3.Connection, _: Any) -> None:
    """Commits are durable, and only we begin transactions."""
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")  # an erased name is gone from the file too


def _begin(connection: Connection) -> None:
    """A transaction that writes locks the database at once; one that upgraded its lock later could fail."""
    check_same(connection)
    reads = connection.get_execution_options().get("posse_reads", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def check_file(engine: Engine, create: bool = False) -> None:
    """An error unless SQLite's file is there; with `create` it is made, and others who may read it are warned of."""
    if engine.dialect.name != "sqlite":
        return
    path = Path(str(engine.url.database))
    if path.is_dir():
        raise ValueError(f"{path} is a folder, but expected a file for the database")
    if not create and not path.exists():
        raise ValueError(f"there is no database {path}; `{command('db init', engine.url)}` makes one")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} for the database {path.name}")
    if create:
        with contextlib.suppress(OSError):  # SQLite then says what is wrong
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, PRIVATE))  # its -wal and -shm get the same rights
        files = [str(path), *(f"{path}-{kind}" for kind in ("wal", "shm") if os.path.exists(f"{path}-{kind}"))]
        if os.name == "posix" and path.exists() and any(os.stat(file).st_mode & 0o077 for file in files):
            advice = f"unless that is wanted, run `chmod 600 {' '.join(files)}`"
            LOGGER.warning("other users of this machine may open the database %s: %s", path, advice)
    if path.exists():
        with path.open("rb") as file:  # SQLite itself may go on for a while with what it has in memory
            begins = file.read(len(SQLITE))
        if not begins and not create:  # SQLite would write to it
            raise ValueError(
                f"{path} is empty, and holds no posse database; `{command('db init', engine.url)}` makes one of it"
            )
        if begins not in (b"", SQLITE):
            raise Damaged(f"{path}: file is not a database; restore a backup")
