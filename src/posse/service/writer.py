"""The writer: one thread that applies commands. Those that wait while it commits share the next transaction."""

from __future__ import annotations

import asyncio
import logging
import math
import queue
import threading
import time
from concurrent.futures import Future
from typing import Any, NamedTuple

from posse.checks import whole
from posse.service.metrics import Metrics
from posse.service.storage.errors import Overloaded, Refused, Unavailable
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import Command, commit_group

LOGGER = logging.getLogger("posse.service")
GATHER = 0.25  # of the last transaction's time, in which clients that it answered may send the next command
LONGEST = 0.02  # seconds of that time that count at most


class Submission(NamedTuple):
    """A command on its way, and where its result goes."""

    command: Command
    future: Future[Any]


class Writer:
    """A thread that applies commands in order, as many as wait in one transaction.

    Args:
        store: where they go.
        waiting: how many may wait; more are refused.
        group: how many share a transaction at most.
        metrics: counts the groups, and how many commands wait.
    """

    def __init__(
        self, store: ServiceStore, waiting: int = 10_000, group: int = 500, metrics: Metrics | None = None
    ) -> None:
        self._store = store
        self._waiting = whole("waiting", waiting, least=1)
        self._group = whole("group", group, least=1)
        self._metrics = metrics
        self._queue: queue.SimpleQueue[Submission | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self.failed_at = -math.inf
        """When the storage could not be written last, by the clock of `time.monotonic`."""
        self._thread = threading.Thread(target=self._run, name="posse writer", daemon=True)
        self._thread.start()

    @property
    def depth(self) -> int:
        return self._queue.qsize()

    def submit(self, command: Command) -> Future[Any]:
        """Have a command applied; its result comes once it is durable, or `Refused`."""
        submission = Submission(command, Future())
        with self._lock:
            if self._closed:
                raise Unavailable("the service is stopping")
            if self._queue.qsize() >= self._waiting:
                raise Overloaded(f"{self._waiting:,} requests wait already; ask again in a moment")
            self._queue.put(submission)
        return submission.future

    async def apply(self, command: Command) -> Any:
        """The result of a command, once it is durable; a caller that goes away cancels nothing."""
        return await asyncio.shield(asyncio.wrap_future(self.submit(command)))

    def close(self) -> None:
        """Accept nothing more, and finish what was accepted."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        more, gather = True, 0.0
        while more:
            first = self._queue.get()
            if first is None:
                return
            time.sleep(gather)
            group = [first]
            while len(group) < self._group and not self._queue.empty():
                submission = self._queue.get()
                if submission is None:
                    more = False
                    break
                group.append(submission)
            group = [submission for submission in group if submission.future.set_running_or_notify_cancel()]
            if not group:
                continue
            start = time.monotonic()
            try:
                self._commit(group)
                if self._metrics is not None:
                    self._metrics.group.observe(len(group))
                    self._metrics.depth.set(self.depth)
            except Exception:  # whatever it is, others wait
                LOGGER.exception("the writer met an error that is not a request's")
            gather = GATHER * min(time.monotonic() - start, LONGEST) if len(group) > 1 else 0.0

    def _commit(self, group: list[Submission]) -> None:
        """One transaction for all; if it fails because of one of them, one for each."""
        try:
            results = commit_group(self._store, [submission.command for submission in group])
        except Exception as error:
            if isinstance(error, Unavailable):
                self.failed_at = time.monotonic()
            if len(group) == 1 or isinstance(error, Unavailable):
                for submission in group:
                    submission.future.set_exception(error)
            else:
                for submission in group:
                    self._commit([submission])
            return
        for submission, result in zip(group, results, strict=True):
            if isinstance(result, Refused):
                submission.future.set_exception(result)
            else:
                submission.future.set_result(result)
