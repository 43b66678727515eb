"""Services to test against: real ones, in a thread, on a database of their own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from posse.service.process.supervisor import background
from posse.service.settings import Settings

NUMBERS = itertools.count()


@contextmanager
def service(folder: Path, **settings: Any) -> Iterator[httpx.Client]:
    """A client of a new service on a SQLite file in the folder; open, so that it asks for no token."""
    with (
        background(Settings(f"sqlite:///{folder}/posse.db", **{"open": True, **settings})) as url,
        httpx.Client(base_url=url, timeout=30) as client,
    ):
        yield client


def new_experiment(client: httpx.Client, **more: Any) -> str:
    """The path of a new experiment of two shops and two offers."""
    name = f"offers {next(NUMBERS)}"
    body = {"name": name, "arms": ["coupon", "nothing"], "players": ["Lyon", "Nice"], "seed": 7, **more}
    answer = client.post("/v1/experiments", json=body)
    assert answer.status_code == 201, answer.text
    return answer.headers["location"]


def problem_of(answer: httpx.Response, status: int) -> str:
    """The kind of the problem that an answer is, which has this status and says what to do."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["title"]
    assert len(problem["detail"]) > 20
    return problem["type"].removeprefix("urn:posse:problem:")
