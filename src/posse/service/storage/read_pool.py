"""A few threads that read the database, so that the event loop never waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from posse.service.api.errors import Refusal

THREADS = 4
MOST_WAITING = 200

P = ParamSpec("P")
T = TypeVar("T")


class Reading:
    """Calls functions in threads, and refuses more when too many wait."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="posse-read")
        self._waiting = 0

    async def do(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns."""
        if self._waiting >= MOST_WAITING:
            raise Refusal("overloaded", "Too many reads wait; try again in a second.", {"Retry-After": "1"})
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Finish what was begun."""
        self._threads.shutdown()
