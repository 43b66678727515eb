"""Requests that are repeated until they are answered, without input or output of their own."""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

T = TypeVar("T")

FIRST_DELAY, LONGEST_DELAY = 0.05, 1.0  # seconds before a request is repeated; doubled each time
AGAIN = {429, 502, 503, 504}
AS_LEARNER: dict[str, type[ValueError]] = {"invalid": ValueError, "refused": ValueError}


class ServiceError(RuntimeError):
    """The service refused a request, or did not answer."""

    def __init__(self, detail: str, status: int | None = None, kind: str = "") -> None:
        super().__init__(detail)
        self.status = status
        """The status of the answer; None if there was none."""
        self.kind = kind
        """The name of the problem, such as unknown-experiment."""


class Unreachable(ServiceError):
    """The service is away, or cannot write at the moment."""


@dataclass(frozen=True)
class Send:
    """A request to be made."""

    method: str
    path: str
    body: Any
    headers: dict[str, str]


@dataclass(frozen=True)
class Pause:
    """Seconds to be waited."""

    seconds: float


Came = httpx.Response | httpx.TransportError | None
Steps = Generator[Send | Pause, Came, T]


class Asking:
    """Asks the service, for as long as patience lasts."""

    def __init__(self, patience: float) -> None:
        self.patience = patience

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        patience: float | None = None,
        repeatable: bool = True,
    ) -> Steps[Any]:
        """The answer to a request, which is repeated for as long as patience lasts.

        One that must not happen twice is repeated only where it has surely not happened.
        """
        send = Send(method, path, body, {} if key is None else {"Idempotency-Key": key})
        until = time.monotonic() + (self.patience if patience is None else patience)
        delay = FIRST_DELAY
        while True:
            came = yield send
            if isinstance(came, httpx.Response) and came.status_code not in AGAIN:
                return _read(came)
            error, happened, wait = _trouble(came)
            wait = max(wait, delay * random.uniform(0.5, 1.0))
            if (happened and not repeatable) or time.monotonic() + wait > until:
                raise error
            yield Pause(wait)
            delay = min(2 * delay, LONGEST_DELAY)


def _read(answer: httpx.Response) -> Any:
    """What an answer says, or the error that it is."""
    if answer.is_success:
        if "posse-api" not in answer.headers:  # the page of a proxy, say, which stands in for the service
            detail = f"status {answer.status_code}, but no answer of posse's: is this the address of the service?"
            raise Unreachable(detail, answer.status_code)
        try:
            return answer.json()
        except ValueError:
            detail = f"status {answer.status_code}, but no JSON: what is between here and the service?"
            raise Unreachable(detail, answer.status_code) from None
    error = _problem(answer)
    raise AS_LEARNER[error.kind](str(error)) if error.kind in AS_LEARNER else error


def _problem(answer: httpx.Response, kind: type[ServiceError] = ServiceError) -> ServiceError:
    try:
        problem = answer.json()
        return kind(str(problem["detail"]), answer.status_code, str(problem["type"]).rpartition(":")[2])
    except (ValueError, KeyError, TypeError):
        return kind(f"status {answer.status_code}, and no problem that posse would describe", answer.status_code)


def _trouble(came: Came) -> tuple[Unreachable, bool, float]:
    """Why there is no answer, whether the request may have happened, and how many seconds to wait at least."""
    if isinstance(came, httpx.Response):
        error = _problem(came, Unreachable)
        wait = came.headers.get("retry-after", "")
        assert isinstance(error, Unreachable)
        return error, error.kind != "overloaded", float(wait) if wait.isdecimal() else 0.0
    happened = not isinstance(came, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
    return Unreachable(f"the service does not answer: {came}"), happened, 0.0
