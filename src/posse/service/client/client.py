"""Clients of the service: the learner's verbs over HTTP."""

from __future__ import annotations

import asyncio
import functools
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

try:
    import httpx
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("clients need httpx: pip install 'posse[client]'", name="httpx") from error

from posse.service.client.protocol import Conversation, Report
from posse.service.client.retry import Came, Pause, Send, ServiceError, Steps, Unreachable
from posse.version import __version__

__all__ = ["AsyncClient", "Client", "Report", "ServiceError", "Unreachable"]

P = ParamSpec("P")
T = TypeVar("T")
Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)
Verb = Callable[Concatenate[Conversation, P], Steps[T]]


def _blocking(verb: Verb[P, T]) -> Callable[Concatenate[Client, P], T]:
    """A verb as a method that waits."""

    @functools.wraps(verb)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(verb(self._conversation, *args, **kwargs))

    return method


def _awaited(verb: Verb[P, T]) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    """A verb as a method that is awaited."""

    @functools.wraps(verb)
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(verb(self._conversation, *args, **kwargs))

    return method


class _Common(ABC, Generic[Http]):
    """What both clients are made of."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        patience: float = 15.0,
        buffer_limit: int = 100_000,
    ) -> None:
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise ValueError(f"url={url!r}, but expected the address of a service, such as 'http://127.0.0.1:8080'")
        headers = {"User-Agent": f"posse/{__version__}"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._options: dict[str, Any] = {"base_url": url, "headers": headers, "timeout": timeout}
        self._conversation = Conversation(patience, buffer_limit)
        self._http: Http = self._connected()

    @abstractmethod
    def _connected(self) -> Http:
        """What makes the requests."""

    @property
    def buffered(self) -> int:
        """How many rewards wait for the service to be back."""
        return len(self._conversation.buffer)

    @property
    def refused(self) -> list[tuple[Report, str]]:
        """The last rewards from the buffer that the service refused, and why."""
        return list(self._conversation.refused)

    def _leaving(self, error: BaseException | None) -> AbstractContextManager[None]:
        """An error of its own does not hide the one that made the program leave."""
        return nullcontext() if error is None else suppress(ServiceError)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._options['base_url']}, {self.buffered:,} rewards buffered>"


class Client(_Common[httpx.Client]):
    """A client that waits for its answers; it may be used from many threads.

        with posse.Client("http://127.0.0.1:8080") as client:
            decision = client.choose("offers", "Lyon")
            client.observe("offers", decision.id, 1.0)

    Args:
        url: where the service is.
        token: made by `posse token create`; a service on this machine needs none until the first is made.
        timeout: how many seconds one attempt may take.
        patience: for how many seconds a request is repeated while the service is away.
        buffer_limit: how many rewards may wait while it is.
    """

    def _connected(self) -> httpx.Client:
        return httpx.Client(**self._options)

    choose = _blocking(Conversation.choose)
    observe = _blocking(Conversation.observe)
    flush = _blocking(Conversation.flush)
    record = _blocking(Conversation.record)
    create = _blocking(Conversation.create)
    change = _blocking(Conversation.change)
    join = _blocking(Conversation.join)
    retire = _blocking(Conversation.retire)
    add_arm = _blocking(Conversation.add_arm)
    retire_arm = _blocking(Conversation.retire_arm)
    erase = _blocking(Conversation.erase)
    experiments = _blocking(Conversation.experiments)
    experiment = _blocking(Conversation.experiment)
    state = _blocking(Conversation.state)
    diagnosis = _blocking(Conversation.diagnosis)
    log = _blocking(Conversation.log)

    def _run(self, steps: Steps[T]) -> T:
        came: Came = None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as done:
                return done.value
            came = self._do(step)

    def _do(self, step: Send | Pause) -> Came:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            return self._http.request(step.method, step.path, json=step.body, headers=step.headers)
        except httpx.TransportError as error:
            return error

    def close(self) -> None:
        """Send what waits in the buffer, and go."""
        try:
            self._run(self._conversation.leave())
        finally:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._leaving(error):
            self.close()


class AsyncClient(_Common[httpx.AsyncClient]):
    """`Client`, with verbs that are awaited.

    async with posse.AsyncClient("http://127.0.0.1:8080") as client:
        decision = await client.choose("offers", "Lyon")
    """

    def _connected(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(**self._options)

    choose = _awaited(Conversation.choose)
    observe = _awaited(Conversation.observe)
    flush = _awaited(Conversation.flush)
    record = _awaited(Conversation.record)
    create = _awaited(Conversation.create)
    change = _awaited(Conversation.change)
    join = _awaited(Conversation.join)
    retire = _awaited(Conversation.retire)
    add_arm = _awaited(Conversation.add_arm)
    retire_arm = _awaited(Conversation.retire_arm)
    erase = _awaited(Conversation.erase)
    experiments = _awaited(Conversation.experiments)
    experiment = _awaited(Conversation.experiment)
    state = _awaited(Conversation.state)
    diagnosis = _awaited(Conversation.diagnosis)
    log = _awaited(Conversation.log)

    async def _run(self, steps: Steps[T]) -> T:
        came: Came = None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as done:
                return done.value
            came = await self._do(step)

    async def _do(self, step: Send | Pause) -> Came:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            return await self._http.request(step.method, step.path, json=step.body, headers=step.headers)
        except httpx.TransportError as error:
            return error

    async def close(self) -> None:
        """Send what waits in the buffer, and go."""
        try:
            await self._run(self._conversation.leave())
        finally:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        with self._leaving(error):
            await self.close()
