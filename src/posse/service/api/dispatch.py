"""How endpoints get at the store: writes one after another through the writer, reads in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from fastapi import Request

from posse.service.api.errors import Refusal
from posse.service.storage.errors import (
    ConflictingKey,
    Damaged,
    ExperimentExists,
    Overloaded,
    Paused,
    Unavailable,
    UnknownExperiment,
)

P = ParamSpec("P")
T = TypeVar("T")

KINDS: list[tuple[type[Exception], str, str]] = [
    (UnknownExperiment, "unknown-experiment", "GET /v1/experiments lists those there are."),
    (ExperimentExists, "experiment-exists", "Take another name, or use the one there is."),
    (ConflictingKey, "conflicting-key", "Use a new key for each new request, and the same one only to repeat it."),
    (Paused, "paused", "PATCH the experiment with paused=false to go on."),
    (Overloaded, "overloaded", "Try again in a second, with the same idempotency key."),
    (Unavailable, "unavailable", "Try again in a second, with the same idempotency key or the same reward."),
    (Damaged, "damaged", "`posse db verify` says what is wrong."),
]


async def write(request: Request, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function of the store returns, once it is on the disk; its errors as problems."""
    with translated("refused"):
        return await submit(request, function, *args, **kwargs)


async def submit(request: Request, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function of the store returns, once it is on the disk."""
    future = request.app.state.writer.submit(function, *args, **kwargs)
    result: T = await asyncio.shield(asyncio.wrap_future(future))  # whoever goes away cancels nothing
    return result


async def read(request: Request, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function that changes nothing returns."""
    with translated("refused"):
        result: T = await request.app.state.reading.do(function, *args, **kwargs)
        return result


@contextmanager
def translated(otherwise: str) -> Iterator[None]:
    """Let a ValueError of the store become the problem that it is, or else the one given."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise refusal_of(error) or Refusal(otherwise, f"{_sentence(error)} Nothing was changed.") from error


def refusal_of(error: Exception) -> Refusal | None:
    """The problem that an error of the store is; None if it is not one of the store's own."""
    for kind, problem, advice in KINDS:
        if isinstance(error, kind):
            headers = {"Retry-After": "1"} if problem in ("overloaded", "unavailable") else None
            return Refusal(problem, f"{_sentence(error)} {advice}", headers)
    return None


def _sentence(error: Exception) -> str:
    return str(error)[:1000].rstrip(".") + "."
