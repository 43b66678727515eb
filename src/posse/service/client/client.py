"""Clients of the service: the learner's verbs over HTTP."""

from __future__ import annotations

import asyncio
import functools
import os
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from posse.extras import extra

with extra("client", "a client"):
    import httpx

from posse.service.client.delivery import RewardReport
from posse.service.client.protocol import ClientProtocol
from posse.service.client.retry import ServiceError, StepResult, Steps
from posse.version import __version__

P = ParamSpec("P")
T = TypeVar("T")
Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)
Verb = Callable[Concatenate[ClientProtocol, P], Steps[T]]


def _blocking(verb: Verb[P, T]) -> Callable[Concatenate[Client, P], T]:
    """A verb as a blocking method."""

    @functools.wraps(verb)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(verb(self._protocol, *args, **kwargs))

    return method


def _awaited(verb: Verb[P, T]) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    """A verb as an asynchronous method."""

    @functools.wraps(verb)
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(verb(self._protocol, *args, **kwargs))

    return method


class _BaseClient(Generic[Http]):
    """What both clients have in common."""

    _http_class: type[Http]

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
        token = os.environ.get("POSSE_TOKEN") if token is None else token
        if token is not None:
            if not isinstance(token, str) or not re.fullmatch(r"[!-~]*", token):
                expected = "expected one as `posse serve` or `posse token create` prints it, without spaces"
                raise ValueError(f"token={str(token)[:8]!r} and so on, but {expected}")
            headers["Authorization"] = f"Bearer {token}"
        self._options: dict[str, Any] = {"base_url": url, "headers": headers, "timeout": timeout}
        self._protocol = ClientProtocol(patience, buffer_limit)
        self._http: Http = self._http_class(**self._options)

    @property
    def buffered(self) -> int:
        """How many rewards wait in the buffer until the service is back."""
        return self._protocol.buffered

    @property
    def refused(self) -> list[tuple[RewardReport, str]]:
        """The last rewards from the buffer that the service refused, and why."""
        return list(self._protocol.refused)

    def _leaving(self, error: BaseException | None) -> AbstractContextManager[None]:
        """An error while closing must not hide the error that ended the `with` block."""
        return nullcontext() if error is None else suppress(ServiceError)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._options['base_url']}, {self.buffered:,} rewards buffered>"


class Client(_BaseClient[httpx.Client]):
    """A blocking client, which may be used from many threads.

        with posse.Client("http://127.0.0.1:8080") as client:
            decision = client.choose("offers", "Lyon")
            client.observe("offers", decision.id, 1.0)

    Args:
        url: the address of the service.
        token: shown by the first `posse serve`, or made by `posse token create`. POSSE_TOKEN in the environment is used
            if none is given.
        timeout: how many seconds one attempt may take.
        patience: for how many seconds a request is repeated while the service is away.
        buffer_limit: how many rewards may wait while the service is away.
    """

    _http_class = httpx.Client

    choose = _blocking(ClientProtocol.choose)
    observe = _blocking(ClientProtocol.observe)
    flush = _blocking(ClientProtocol.flush)
    record = _blocking(ClientProtocol.record)
    create = _blocking(ClientProtocol.create)
    change = _blocking(ClientProtocol.change)
    join = _blocking(ClientProtocol.join)
    retire = _blocking(ClientProtocol.retire)
    add_arm = _blocking(ClientProtocol.add_arm)
    retire_arm = _blocking(ClientProtocol.retire_arm)
    set_shares = _blocking(ClientProtocol.set_shares)
    erase = _blocking(ClientProtocol.erase)
    experiments = _blocking(ClientProtocol.experiments)
    experiment = _blocking(ClientProtocol.experiment)
    players = _blocking(ClientProtocol.players)
    state = _blocking(ClientProtocol.state)
    diagnosis = _blocking(ClientProtocol.diagnosis)
    watch = _blocking(ClientProtocol.watch)
    conclusion = _blocking(ClientProtocol.conclusion)
    summary = _blocking(ClientProtocol.summary)
    log = _blocking(ClientProtocol.log)
    delete = _blocking(ClientProtocol.delete)
    create_token = _blocking(ClientProtocol.create_token)
    tokens = _blocking(ClientProtocol.tokens)
    revoke_token = _blocking(ClientProtocol.revoke_token)
    audit = _blocking(ClientProtocol.audit)

    def _run(self, steps: Steps[T]) -> T:
        result: StepResult = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as done:
                return done.value
            if isinstance(step, float):
                time.sleep(step)
                continue
            try:
                result = self._http.request(**step)
            except httpx.TransportError as error:
                result = error

    def close(self) -> None:
        """Send the rewards in the buffer and close the connections."""
        try:
            self._run(self._protocol.leave())
        finally:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._leaving(error):
            self.close()


class AsyncClient(_BaseClient[httpx.AsyncClient]):
    """A `Client` whose verbs are awaited.

    async with posse.AsyncClient("http://127.0.0.1:8080") as client:
        decision = await client.choose("offers", "Lyon")
    """

    _http_class = httpx.AsyncClient

    choose = _awaited(ClientProtocol.choose)
    observe = _awaited(ClientProtocol.observe)
    flush = _awaited(ClientProtocol.flush)
    record = _awaited(ClientProtocol.record)
    create = _awaited(ClientProtocol.create)
    change = _awaited(ClientProtocol.change)
    join = _awaited(ClientProtocol.join)
    retire = _awaited(ClientProtocol.retire)
    add_arm = _awaited(ClientProtocol.add_arm)
    retire_arm = _awaited(ClientProtocol.retire_arm)
    set_shares = _awaited(ClientProtocol.set_shares)
    erase = _awaited(ClientProtocol.erase)
    experiments = _awaited(ClientProtocol.experiments)
    experiment = _awaited(ClientProtocol.experiment)
    players = _awaited(ClientProtocol.players)
    state = _awaited(ClientProtocol.state)
    diagnosis = _awaited(ClientProtocol.diagnosis)
    watch = _awaited(ClientProtocol.watch)
    conclusion = _awaited(ClientProtocol.conclusion)
    summary = _awaited(ClientProtocol.summary)
    log = _awaited(ClientProtocol.log)
    delete = _awaited(ClientProtocol.delete)
    create_token = _awaited(ClientProtocol.create_token)
    tokens = _awaited(ClientProtocol.tokens)
    revoke_token = _awaited(ClientProtocol.revoke_token)
    audit = _awaited(ClientProtocol.audit)

    async def _run(self, steps: Steps[T]) -> T:
        result: StepResult = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as done:
                return done.value
            if isinstance(step, float):
                await asyncio.sleep(step)
                continue
            try:
                result = await self._http.request(**step)
            except httpx.TransportError as error:
                result = error

    async def close(self) -> None:
        """Send the rewards in the buffer and close the connections."""
        try:
            await self._run(self._protocol.leave())
        finally:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        with self._leaving(error):
            await self.close()
