"""What the tests of the pages that manage have in common."""

from __future__ import annotations

import contextlib

from serving import service
from test_dashboard import FORM, Page

SHOPS = "\n".join(f"shop {number}" for number in range(60))


@contextlib.contextmanager
def pages(folder):
    """A client that sends forms as a browser does."""
    with service(folder, defaults_seconds=None) as client:
        client.headers["origin"] = str(client.base_url).rstrip("/")
        yield client


def made(client, name: str, **more: str) -> str:
    """The address of a new experiment of the form."""
    answer = client.post("/experiments", data={**FORM, "name": name, **more})
    assert answer.status_code == 303, Page(answer.text).text
    return answer.headers["location"]


def described(client, address: str):
    return client.get("/v1" + address).json()


def roster(client, address: str, kind: str) -> dict[str, bool]:
    return {each["name"]: each["here"] for each in described(client, address)[kind]}


def do(client, address: str, what: str, **more: str):
    return client.post(f"{address}/manage", data={"do": what, **more})
