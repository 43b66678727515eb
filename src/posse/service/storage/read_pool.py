"""A few threads that read the database, so that the event loop never waits for it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy.engine import Connection

from posse.service.storage.errors import Overloaded, Refused
from posse.service.storage.store import ServiceStore

THREADS = 4
MOST_WAITING = 200

P = ParamSpec("P")
Result = TypeVar("Result")


class ReadPool:
    """Runs functions that read in threads, and refuses more when too many wait."""

    def __init__(self, store: ServiceStore) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="posse-read")
        self._waiting = 0

    async def run(self, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """What a function returns."""
        if self._waiting >= MOST_WAITING:
            raise Overloaded(f"{MOST_WAITING} reads wait already")
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
        except Refused:
            raise
        except (ValueError, TypeError) as error:
            raise Refused(str(error)) from error

    def close(self) -> None:
        """Finish what was begun."""
        self._threads.shutdown()
