"""The store: a database, and the experiments of it that this process holds in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy.engine import Connection

from posse.service.storage import database
from posse.service.storage.live_experiment import LiveExperiment

P = ParamSpec("P")
Result = TypeVar("Result")


class ServiceStore:
    """Experiments in a database. `transaction.commit` writes, one transaction at a time; reading goes on beside it.

    Args:
        url: `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/DATABASE`.
        clock: gives the time in seconds.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.time) -> None:
        self.engine = database.connect(url)
        self.clock = clock
        self.live: dict[str, LiveExperiment] = {}
        self.lock = threading.Lock()
        """Held by whoever writes."""
        database.check_version(self.engine)

    @classmethod
    def open(cls, url: str, create: bool = False, clock: Callable[[], float] = time.time) -> ServiceStore:
        """The store at an address; with `create` the database is made, or brought to the newest schema, if need be."""
        if create:
            database.upgrade(url)
        return cls(url, clock)

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    def read(self, query: Callable[Concatenate[Connection, P], Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """What a query returns, asked of one moment of the database; those of `queries`, for example."""
        with database.reading(self.engine) as connection:
            return query(connection, *args, **kwargs)
