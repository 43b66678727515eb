"""The file of a SQLite database: whether it is there, and who may read it."""

import contextlib
import logging
import os
from pathlib import Path
from typing import BinaryIO

from sqlalchemy.engine import Engine

from posse.checks import SQLITE
from posse.service.storage.address import command
from posse.service.storage.errors import Damaged

LOGGER = logging.getLogger("posse.service")
PRIVATE = 0o600  # the rights of every file that is made: its owner reads and writes, and nobody else


def private(path: Path) -> BinaryIO:
    """A file to write, which only its owner may read."""
    return open(path, "wb", opener=lambda file, flags: os.open(file, flags, PRIVATE))


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
