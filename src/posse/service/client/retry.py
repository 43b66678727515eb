"""Requests that are repeated until they are answered. Nothing here does input or output.

A request is a generator. It yields the next step, a request to send or the seconds to wait, and receives the result.
So the blocking and the asynchronous client share all of this code.
"""

import random
import time
from collections.abc import Generator
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

T = TypeVar("T")

FIRST_DELAY, LONGEST_DELAY = 0.05, 1.0  # seconds before a request is repeated; doubled each time
REPEATED_STATUS = {429, 502, 503, 504}
VALUE_ERRORS = {"invalid", "refused"}  # problems that are ValueErrors, as they are with a learner


class ServiceError(RuntimeError):
    """The service refused a request or did not answer."""

    def __init__(self, detail: str, status: int | None = None, kind: str = "") -> None:
        super().__init__(detail)
        self.status = status
        """The status of the answer; None if there was none."""
        self.kind = kind
        """The name of the problem, such as unknown-experiment."""


class Unreachable(ServiceError):
    """The service is away, or cannot write at the moment."""


StepResult = httpx.Response | httpx.TransportError | None
Steps = Generator[dict[str, Any] | float, StepResult, T]
"""Each step is the arguments of httpx's `request`, or the seconds to wait."""


def ask(
    method: str, path: str, body: Any = None, *, patience: float, key: str | None = None, page: bool = False
) -> Steps[Any]:
    """Send a request and return the answer. The request is repeated for `patience` seconds, which must be harmless.

    It is for one that reads, that has an idempotency key, or that says what is so whether it was said before or not.
    The answer is JSON, or the text of a page.
    """
    send = {"method": method, "url": path, "json": body, "headers": {} if key is None else {"Idempotency-Key": key}}
    until = time.monotonic() + patience
    delay = FIRST_DELAY
    while True:
        result = yield send
        if isinstance(result, httpx.Response) and result.status_code not in REPEATED_STATUS:
            return _read(result, page)
        error, wait = _trouble(result)
        wait = max(wait, delay * random.uniform(0.5, 1.0))
        if time.monotonic() + wait > until:
            raise error
        yield wait
        delay = min(2 * delay, LONGEST_DELAY)


def experiment_path(experiment: str) -> str:
    if not isinstance(experiment, str):
        raise TypeError(f"experiment={experiment!r}, but expected the name of an experiment")
    return f"/v1/experiments/{quote(experiment, safe='')}"


def _read(answer: httpx.Response, page: bool) -> Any:
    """What an answer says; the error if it is one."""
    if answer.is_success:
        if "posse-api" not in answer.headers:  # for example the page of a proxy in front of the service
            detail = f"status {answer.status_code}, but no answer of posse's: is this the address of the service?"
            raise Unreachable(detail, answer.status_code)
        if page:
            return answer.text
        try:
            return answer.json()
        except ValueError:
            detail = f"status {answer.status_code}, but no JSON: what is between here and the service?"
            raise Unreachable(detail, answer.status_code) from None
    error = _problem(answer)
    raise ValueError(str(error)) if error.kind in VALUE_ERRORS else error


def _problem(answer: httpx.Response, cls: type[ServiceError] = ServiceError) -> ServiceError:
    try:
        problem = answer.json()
        return cls(str(problem["detail"]), answer.status_code, str(problem["type"]).rpartition(":")[2])
    except (ValueError, KeyError, TypeError):
        return cls(f"status {answer.status_code}, without a description of the problem by posse", answer.status_code)


def _trouble(result: StepResult) -> tuple[ServiceError, float]:
    """Why there is no answer, and for how many seconds to wait."""
    if isinstance(result, httpx.Response):
        wait = result.headers.get("retry-after", "")
        return _problem(result, Unreachable), float(wait) if wait.isdecimal() else 0.0
    return Unreachable(f"the service does not answer: {result}"), 0.0
