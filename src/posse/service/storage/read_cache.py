"""What is read more than once is worked out once: answers for all who ask the same, and experiments kept in memory.

Everything here is to be used in one event loop, which holds the bookkeeping; the work is done in the read pool.
"""

import asyncio
import math
import time
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

from sqlalchemy.engine import Connection

from posse.service.storage import queries
from posse.service.storage.live_experiment import LiveExperiment
from posse.service.storage.store import ReadPool

MOST_BYTES = 64 << 20  # of answers that are kept
BYTES_OF_OTHERS = 1 << 17  # that an answer counts as which is not bytes itself
MOST_PAIRS = 1_000_000  # of players and arms in the experiments that are kept, a few hundred bytes each

Value = TypeVar("Value")
Result = TypeVar("Result")


class BoundedCache(Generic[Value]):
    """Keeps the values that were used last up to a total weight; the latest is kept whatever it weighs."""

    def __init__(self, most: int) -> None:
        self._most, self._total = most, 0
        self._kept: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()

    def take(self, key: Hashable) -> Value | None:
        """Take a value out; None if it is not there."""
        value, weight = self._kept.pop(key, (None, 0))
        self._total -= weight
        return value

    def put(self, key: Hashable, value: Value, weight: int) -> None:
        self.take(key)
        self._kept[key] = value, weight
        self._total += weight
        while self._total > self._most and len(self._kept) > 1:
            self.take(next(iter(self._kept)))


class SharedAnswers:
    """Answers that are worked out once for all who ask the same, and kept as long as they are right."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._kept: BoundedCache[tuple[Any, float]] = BoundedCache(most)
        self._pending: dict[Hashable, asyncio.Task[Any]] = {}

    async def get(self, key: Hashable, work_out: Callable[[], Awaitable[Result]], seconds: float = math.inf) -> Result:
        """The answer to what the key says, at most so many seconds old: for ever if the key names a moment of the log.

        Who asks while it is worked out gets the same answer or error, and one that goes away cancels nothing.
        """
        kept = self._kept.take(key)
        if kept is not None and time.monotonic() - kept[1] < seconds:
            self._keep(key, *kept)
            answer: Result = kept[0]
            return answer
        task = self._pending.get(key)
        if task is None:
            task = self._pending[key] = asyncio.ensure_future(self._work_out(key, work_out, seconds))
            task.add_done_callback(lambda done: self._finish(key, done))
        found: Result = await asyncio.shield(task)
        return found

    async def _work_out(self, key: Hashable, work_out: Callable[[], Awaitable[Result]], seconds: float) -> Result:
        answer = await work_out()
        if seconds > 0:
            self._keep(key, answer, time.monotonic())
        return answer

    def _keep(self, key: Hashable, answer: Any, at: float) -> None:
        self._kept.put(key, (answer, at), len(answer) if isinstance(answer, bytes) else BYTES_OF_OTHERS)

    def _finish(self, key: Hashable, done: asyncio.Task[Any]) -> None:
        del self._pending[key]
        if not done.cancelled():
            done.exception()  # it was for those who asked; if all of them have gone, nobody need hear of it


class KeptExperiments:
    """Live experiments to read from, brought up to date from the log at each use, one use of each at a time."""

    def __init__(self, read_pool: ReadPool, most: int = MOST_PAIRS) -> None:
        self._read_pool = read_pool
        self._kept: BoundedCache[LiveExperiment] = BoundedCache(most)
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def read(self, name: str, function: Callable[[Connection, LiveExperiment], Result]) -> Result:
        """What a function says of an experiment as it is now."""
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        async with lock:
            # Taken out while it is used: after an error, or if nobody waits any more, it is not put back half-changed.
            live, found = await self._read_pool.query(_read, name, self._kept.take(name), function)
            self._kept.put(name, live, live.state.waiting.size)
        return found


def _read(
    connection: Connection,
    name: str,
    live: LiveExperiment | None,
    function: Callable[[Connection, LiveExperiment], Result],
) -> tuple[LiveExperiment, Result]:
    row = queries.find(connection, name)
    if live is None or live.id != row["id"] or not live.catch_up(connection, row):
        live = LiveExperiment.load(connection, row)
    return live, function(connection, live)
