"""Group commit: one thread writes, and what waits while it does shares the next transaction."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from posse.checks import whole
from posse.service.storage.errors import Overloaded, Unavailable
from posse.service.storage.store import Store

LOGGER = logging.getLogger("posse.service")
GATHER = 0.25  # of the time of the last transaction, to let those whom it answered ask again before the next
LONGEST = 0.02  # seconds that count for this


@dataclass(frozen=True, slots=True)
class Request:
    """A call of a method of the store, and where its answer goes."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    future: Future[Any] = field(default_factory=Future)

    @property
    def experiments(self) -> list[str]:
        """The experiment that it is about, by the first argument."""
        return [name for name in self.arguments[:1] if isinstance(name, str)]

    @property
    def keys(self) -> list[tuple[str, str]]:
        """The experiment and the idempotency key of a decision."""
        key = self.options.get("key")
        return [(name, key) for name in self.experiments if isinstance(key, str)]

    def call(self) -> tuple[Any, Exception | None]:
        """The result, or why it is refused; whatever else goes wrong is not the request's own affair."""
        try:
            return self.function(*self.arguments, **self.options), None
        except (ValueError, TypeError) as refusal:
            return None, refusal


class Writer:
    """A thread that serves requests in order, as many as wait in one transaction.

    Args:
        store: where they go.
        waiting: how many may wait; more are refused.
        group: how many share a transaction at most.
        observe: is told the size of each group.
    """

    def __init__(
        self, store: Store, waiting: int = 10_000, group: int = 500, observe: Callable[[int], None] | None = None
    ) -> None:
        self._store = store
        self._waiting = whole("waiting", waiting, least=1)
        self._group = whole("group", group, least=1)
        self._observe = observe
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="posse writer", daemon=True)
        self._thread.start()

    @property
    def depth(self) -> int:
        """How many requests wait."""
        return self._queue.qsize()

    def submit(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Future[Any]:
        """Have a method of the store called, such as `submit(store.decide, "teas", ["north"])`; the answer comes once
        it is durable."""
        request = Request(function, arguments, options)
        with self._lock:
            if self._closed:
                raise Unavailable("the service is stopping")
            if self._queue.qsize() >= self._waiting:
                raise Overloaded(f"{self._waiting:,} requests wait already; ask again in a moment")
            self._queue.put(request)
        return request.future

    def close(self) -> None:
        """Take nothing more on, and finish what was accepted."""
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
                request = self._queue.get()
                if request is None:
                    more = False
                    break
                group.append(request)
            group = [request for request in group if request.future.set_running_or_notify_cancel()]
            if not group:
                continue
            start = time.monotonic()
            for run in _runs(group):
                try:
                    self._serve(run)
                    if self._observe is not None:
                        self._observe(len(run))
                except Exception:  # whatever it is, others wait to be served
                    LOGGER.exception("the writer met an error that is not a request's")
            gather = GATHER * min(time.monotonic() - start, LONGEST) if len(group) > 1 else 0.0

    def _serve(self, group: list[Request]) -> None:
        """One transaction for all; where it fails for a reason of its own making, one for each."""
        names = [name for request in group for name in request.experiments]
        keys = [pair for request in group for pair in request.keys]
        try:
            answers = self._store.transact(lambda turn: [request.call() for request in group], names, keys)
        except Exception as error:
            if len(group) == 1 or isinstance(error, Unavailable):
                for request in group:
                    request.future.set_exception(error)
            else:
                for request in group:
                    self._serve([request])
            return
        for request, (result, refusal) in zip(group, answers, strict=True):
            if refusal is None:
                request.future.set_result(result)
            else:
                request.future.set_exception(refusal)


def _runs(group: list[Request]) -> list[list[Request]]:
    """The requests that share a transaction: those about one experiment each, whose locks are taken in a fixed order.

    One that may be about any number of them has a transaction of its own, or two processes could wait for each other.
    """
    runs: list[list[Request]] = []
    for named, found in itertools.groupby(group, key=lambda request: bool(request.experiments)):
        some = list(found)
        runs += [some] if named else [[request] for request in some]
    return runs
