"""The writer: one thread that applies commands. Those that wait while it commits share the next transaction."""

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from posse.checks import whole
from posse.service.metrics import Metrics
from posse.service.storage.errors import Overloaded, Unavailable
from posse.service.storage.store import FORGET_SECONDS, ServiceStore
from posse.service.storage.transaction import Command, commit_group

LOGGER = logging.getLogger("posse.service")
GATHER = 1.0  # of the last transaction's time, in which clients that it answered may send the next command
LONGEST = 0.01  # seconds of that time that count at most


class Submission(NamedTuple):
    """A command on its way, and where its result goes."""

    command: Command
    future: asyncio.Future[Any]


class Writer:
    """A thread that applies commands in order, as many as wait in one transaction.

    Clients that a transaction answered often send the next command at once. So after a group of several, the thread
    waits a little until as many commands are there as it answered, beside those that waited already.

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
        self._most_waiting = whole("waiting", waiting, least=1)
        self._group = whole("group", group, least=1)
        self._metrics = metrics
        self._waiting: list[Submission] = []
        self._wanted = 1  # how many have to wait before the thread is told
        self._changed = threading.Condition(threading.Lock())
        self._closed = False
        self.failed_at = -math.inf  # when the storage could not be written last, by the clock of `time.monotonic`
        self._thread = threading.Thread(target=self._run, name="posse writer", daemon=True)
        self._thread.start()

    async def apply(self, command: Command) -> Any:
        """The result of a command, once it is durable, or `Refused`; a caller that goes away cancels nothing."""
        future = asyncio.get_running_loop().create_future()
        self.add(Submission(command, future))
        return await future

    def add(self, submission: Submission) -> None:
        """Let a command wait for its turn."""
        with self._changed:
            if self._closed:
                raise Unavailable("the service is stopping")
            if len(self._waiting) >= self._most_waiting:
                raise Overloaded(f"{self._most_waiting:,} requests wait already; ask again in a moment")
            self._waiting.append(submission)
            if len(self._waiting) >= self._wanted:
                self._changed.notify()

    def close(self) -> None:
        """Accept nothing more, and finish what was accepted."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        expected, gather = 1, 0.0
        while group := self._next_group(expected, gather):
            start = time.monotonic()
            try:
                self._commit(group)
                expected, gather = len(group) + len(self._waiting), 0.0
                if len(group) > 1:
                    gather = GATHER * min(time.monotonic() - start, LONGEST)
                if self._metrics is not None:
                    self._metrics.group.observe(len(group))
                    self._metrics.depth.set(len(self._waiting))
            except Exception:  # whatever it is, others wait
                LOGGER.exception("the writer met an error that is not a request's")

    def _next_group(self, expected: int, gather: float) -> list[Submission]:
        """The commands for the next transaction, at least one; none once the writer is closed."""
        while True:
            with self._changed:
                if self._wait_for(1, None if math.isinf(self._store.forget_at) else FORGET_SECONDS):
                    if gather:
                        self._wait_for(min(expected, self._group), gather)
                    group, self._waiting = self._waiting[: self._group], self._waiting[self._group :]
                    return group
            self._store.forget()

    def _wait_for(self, wanted: int, seconds: float | None) -> bool:
        self._wanted = wanted
        return self._changed.wait_for(lambda: len(self._waiting) >= wanted or self._closed, seconds)

    def _commit(self, group: list[Submission]) -> None:
        """One transaction for all; if it fails because of one of them, one for each."""
        try:
            results = commit_group(self._store, [submission.command for submission in group])
        except Exception as error:
            if isinstance(error, Unavailable):
                self.failed_at = time.monotonic()
            elif len(group) > 1:
                for submission in group:
                    self._commit([submission])
                return
            results = [error] * len(group)
        _answer(group, results)


def _answer(group: list[Submission], results: Sequence[Any]) -> None:
    """Hand results over, those for one event loop all at once: waking a loop up costs more than an answer."""
    by_loop = defaultdict(list)
    for submission, result in zip(group, results, strict=True):
        by_loop[submission.future.get_loop()].append((submission.future, result))
    for loop, answers in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed, and nobody waits
            loop.call_soon_threadsafe(_set_all, answers)


def _set_all(answers: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in answers:
        if future.done():  # its caller went away
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
