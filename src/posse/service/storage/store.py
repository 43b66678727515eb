"""The store: a database, the experiments of it that this process holds in memory, and threads that read."""

import asyncio
import functools
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy.engine import Connection

from posse.service.steady_clock import SteadyClock
from posse.service.storage import database, errors
from posse.service.storage.live_experiment import LiveExperiment

FORGET_SECONDS = 0.5  # until something is tried again that a reader hindered
NOW = 0.0  # a time that has come
READ_THREADS = 4
MOST_READS_WAITING = 200

P = ParamSpec("P")
Result = TypeVar("Result")


class ServiceStore:
    """Experiments in a database. `transaction.commit` writes, one transaction at a time; reading goes on beside it.

    Args:
        url: `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/DATABASE`.
        create: make the database, or bring it to the newest schema, if need be.
        clock: gives the time in seconds; a `SteadyClock` if None.
        silence: for how many seconds PostgreSQL may say nothing before it counts as away; None for any time.
    """

    def __init__(
        self, url: str, create: bool = False, clock: Callable[[], float] | None = None, silence: float | None = None
    ) -> None:
        if create:
            database.upgrade(url)
        self.engine = database.connect(url, silence)
        self.clock = SteadyClock() if clock is None else clock
        self.writing: Connection | None = None  # of whoever writes; it stays open from one transaction to the next
        self.live: dict[str, LiveExperiment] = {}
        self.lock = threading.Lock()  # held by whoever writes
        self.forget_at = math.inf  # when `forget` is due, by the clock of `time.monotonic`
        database.check_version(self.engine)

    def close(self) -> None:
        if self.writing is not None:
            self.writing.close()
            self.writing = None
        self.engine.dispose()

    def forget(self) -> None:
        """If it is time, remove what was erased from SQLite's write-ahead file; again later if somebody reads it."""
        if time.monotonic() < self.forget_at:
            return
        hindrance, first = database.forget(self.engine), self.forget_at == NOW
        self.forget_at = math.inf if hindrance is None else time.monotonic() + FORGET_SECONDS
        if hindrance is not None and first:
            file, until = self.engine.url.database, "until that is over, at the latest until the service stops"
            database.LOGGER.warning("an erased name may be in %s-wal %s: %s", file, until, hindrance)

    def read(self, query: Callable[Concatenate[Connection, P], Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """What a query returns, asked of one moment of the database; those of `queries`, for example."""
        with database.reading(self.engine) as connection:
            return query(connection, *args, **kwargs)


class ReadPool:
    """Runs functions that read in threads, so that the event loop never waits; refuses more when too many wait.

    Tokens and health have a pool of their own, so that no slow read is ever in front of them.
    """

    def __init__(self, store: ServiceStore, threads: int = READ_THREADS) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="posse-read")
        self._waiting = 0

    async def run(self, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        if self._waiting >= MOST_READS_WAITING:
            raise errors.Overloaded(f"{MOST_READS_WAITING} reads wait already")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, functools.partial(function, *args, **kwargs))
        finally:
            self._waiting -= 1

    async def query(
        self, query: Callable[Concatenate[Connection, P], Result], *args: P.args, **kwargs: P.kwargs
    ) -> Result:
        """What a query returns, asked of one moment of the database; Refused if it cannot be answered as it stands."""
        try:
            return await self.run(functools.partial(self._store.read, query, *args, **kwargs))
        except errors.Refused:
            raise
        except (ValueError, TypeError) as error:
            raise errors.Refused(str(error)) from error

    def close(self) -> None:
        self._threads.shutdown()
