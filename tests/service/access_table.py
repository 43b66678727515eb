"""Every route against every credential, asked of an app in this process.

`python tests/service/access_table.py` prints what each scope opens, as docs/running.md shows it.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx

from posse.policies.ind_tsv import IndTSV
from posse.service import auth
from posse.service.api.app import create_app
from posse.service.api.middleware import AuthRoute
from posse.service.auth import COOKIE, CreateToken, Permission, RevokeToken, needed
from posse.service.commands import Create
from posse.service.process.supervisor import prepare
from posse.service.settings import Settings
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit

BODIES: dict[str, Any] = {
    "/v1/experiments": {"name": "new", "arms": ["a", "b"]},
    "/v1/experiments/{name}": {"join": ["Lille"]},
    "/v1/experiments/{name}/decisions": {"player": "Lyon"},
    "/v1/experiments/{name}/rewards": {"rewards": [{"decision": "0-00000000", "reward": 1}]},
    "/v1/experiments/{name}/records": {"rewards": [{"player": "Lyon", "arm": "a", "reward": 1}]},
    "/v1/experiments/{name}/erasures": {"player": "Nice"},
    "/ofrep/v1/evaluate/flags/{name}": {"context": {"targetingKey": "Lyon"}},
    "/ofrep/v1/evaluate/flags": {"context": {"targetingKey": "Lyon"}},
}
"""What is sent to the routes that are known here. Others are sent {}, which is enough to see whether they let in."""


class Entrance(NamedTuple):
    """A method of a route, and what it says that it asks of a token."""

    method: str
    path: str
    permission: Permission
    page: bool
    """Whether it takes a cookie, as a page does, and not a bearer token."""


class Credential(NamedTuple):
    """A token, or something that is none."""

    secret: str | None
    scope: str | None = None
    """None if it is not valid."""
    experiment: str | None = None


class Attempt(NamedTuple):
    """A request."""

    entrance: Entrance
    credential: Credential = Credential(None)
    by_cookie: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    http: str = "1.1"


@contextmanager
def app_in(folder: Any, **settings: Any):
    """The app on a database in a folder, and its store."""
    chosen = Settings(f"sqlite:///{folder}/posse.db", trust_seconds=0.1, **settings)
    prepare(chosen, "127.0.0.1")
    app = create_app(chosen)
    try:
        yield app
    finally:
        for part in (app.state.analyses, app.state.writer, app.state.read_pool, app.state.store):
            part.close()


def fill(store: ServiceStore) -> dict[str, Credential]:
    """Two experiments, ours and theirs, and credentials of every kind by name."""
    for name in ("ours", "theirs"):
        commit(store, Create(name, IndTSV(), ["a", "b"], ["Lyon", "Nice"]))
    found = {}
    for experiment in (None, "ours", "theirs"):
        for scope in auth.SCOPES:
            secret = commit(store, CreateToken(scope, experiment))
            found[f"{scope} {experiment or 'every'}"] = Credential(secret, scope, experiment)
    revoked = commit(store, CreateToken("admin"))
    commit(store, RevokeToken(auth.token_number(revoked) or 0))
    clock, store.clock = store.clock, lambda: 1.0
    expired = commit(store, CreateToken("admin", expires=60))
    store.clock = clock
    real = found["admin every"].secret or ""
    wrong = {
        "none": None,
        "wrong": real[:-4] + ("AAAA" if real[-4:] != "AAAA" else "BBBB"),
        "of another number": real.replace("posse_4_", "posse_3_"),
        "of no number": real.replace("posse_4_", "posse_999999999_"),
        "malformed": "x" * 5000,
        "revoked": revoked,
        "expired": expired,
    }
    return found | {kind: Credential(secret) for kind, secret in wrong.items()}


def entrances(app: Any) -> list[Entrance]:
    """Every method of every route there is."""
    return [
        Entrance(method, route.path, needed(route.endpoint), not isinstance(route, AuthRoute))
        for route in app.routes
        for method in sorted(route.methods)
    ]


def answers(app: Any, attempts: Iterable[Attempt]) -> list[httpx.Response]:
    """The answers of an app, one after the other."""

    async def ask_all() -> list[httpx.Response]:
        async def speak(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "http_version": dict(scope["headers"])[b"spoken"].decode()}, receive, send)

        transport = httpx.ASGITransport(speak, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            return [await client.send(_request(client, attempt)) for attempt in attempts]

    return asyncio.run(ask_all())


def _request(client: httpx.AsyncClient, attempt: Attempt) -> httpx.Request:
    method, path, _, page = attempt.entrance
    headers, secret = dict(attempt.headers), attempt.credential.secret
    if secret is not None:
        headers |= {"Cookie": f"{COOKIE}={secret}"} if attempt.by_cookie else {"Authorization": f"Bearer {secret}"}
    body: dict[str, Any] = {"json": BODIES.get(path, {})} if method in ("POST", "PATCH") and not page else {}
    target = path.replace("{name}", "ours").replace("{path:path}", "icon.svg").replace("{number}", "999999999")
    return client.build_request(method, target, headers=headers | {"spoken": attempt.http}, **body)


def outcome(answer: httpx.Response) -> str:
    """What became of a request: "in" if it was let in, "token" if it needs a token, or else why it was refused."""
    if answer.headers.get("content-type") == "application/problem+json":
        kind = answer.json()["type"].removeprefix("urn:posse:problem:")
        if kind in ("no-token", "bad-token") and answer.headers["www-authenticate"].startswith("Bearer"):
            return "token"
        if answer.status_code in (401, 403, 421):
            return str(kind)
    elif answer.status_code == 403:
        return "forbidden"
    elif answer.headers.get("location", "").startswith("/login?") or (
        answer.status_code == 401 and "hx-refresh" in answer.headers
    ):
        return "token"
    return "in" if answer.status_code < 500 else f"{answer.status_code}"


def printed(app: Any, credentials: dict[str, Credential]) -> list[str]:
    """What each scope opens, as rows of Markdown."""
    rows = ["| | none | decide | reward | read | admin |", "| --- | --- | --- | --- | --- | --- |"]
    for entrance in entrances(app):
        if entrance.method == "HEAD":
            continue
        tried = [Attempt(entrance)]
        for scope in auth.SCOPES:
            tried += [Attempt(entrance, credentials[f"{scope} {which}"], entrance.page) for which in ("ours", "every")]
        none, *found = [outcome(answer) == "in" for answer in answers(app, tried)]
        cells = ["yes" if none else ""]
        cells += ["yes" if own else "all" if every else "" for own, every in zip(found[::2], found[1::2], strict=True)]
        rows.append(f"| `{entrance.method} {entrance.path.replace(':path', '')}` | {' | '.join(cells)} |")
    return rows


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, app_in(folder) as app:
        print("\n".join(printed(app, fill(app.state.store))))
