"""Who may do what: the one rule for the API and the dashboard's pages, and how a request shows its token."""

import asyncio
import functools
import ipaddress
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from posse.service.auth import tokens
from posse.service.auth.tokens import TokenGrant
from posse.service.problems import HttpProblem
from posse.service.settings import Settings
from posse.service.storage.store import ReadPool

COOKIE = "posse_token"
EVERYTHING = TokenGrant(frozenset({"admin"}), None)
CHALLENGE = 'Bearer realm="posse"'
HOW_TO_CREATE = "`posse token create --scope decide` makes one"
LOOKS = 10  # at the tokens in `trust_seconds`, at most, however many unknown ones come
FORWARDING = (
    *("forwarded", "via", "true-client-ip", "x-client-ip", "x-cluster-client-ip", "x-forwarded", "x-real-ip"),
    *("cf-", "fastly-", "x-amzn-", "x-azure-", "x-envoy-", "x-original-", "x-proxy"),
)
"""How the names of headers begin that proxies add."""

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


# ---------------------------------------------------------------- the rule


class Permission(NamedTuple):
    """What an endpoint or a page asks of a token."""

    scope: str | None  # None for any token; "nothing" for no token at all
    every_experiment: bool = False
    """Whether a token for one experiment is not enough, even where the path names no experiment."""


READ, CHANGE = Permission("read"), Permission("admin")
CREATE = Permission("admin", every_experiment=True)
NO_TOKEN = Permission("nothing")


def why_denied(grant: TokenGrant, permission: Permission, experiment: str | None = None) -> str | None:
    """Why a token is not enough, for an experiment or in general; None if it is enough."""
    scope = permission.scope
    if scope is not None and not grant.scopes & {scope, "admin"}:
        return f"This needs the scope {scope}; `posse token create --scope {scope}` makes such a token."
    if grant.experiment is not None and (permission.every_experiment or experiment not in (None, grant.experiment)):
        return "The token is for one experiment, and this is about others; use another token."
    return None


def allows(grant: TokenGrant, permission: Permission, experiment: str | None = None) -> bool:
    return why_denied(grant, permission, experiment) is None


def may_read(scope: Scope) -> bool:
    """Whether who sent a request may read the experiment that it is about, and so the names of its players."""
    grant: TokenGrant | None = scope.get("state", {}).get("grant")
    return grant is not None and allows(grant, READ, scope.get("path_params", {}).get("name"))


def needs(permission: Permission, in_reader: bool = False) -> Callable[[Endpoint], Endpoint]:
    """Say what an endpoint asks of a token. One that says nothing asks for "admin" of every experiment.

    With `in_reader` it reads much, so that the reader answers it. It must change nothing.
    """

    def mark(endpoint: Endpoint) -> Endpoint:
        endpoint.__dict__.update(permission=permission, in_reader=in_reader)
        return endpoint

    return mark


def needed(endpoint: Callable[..., Any]) -> Permission:
    return getattr(endpoint, "permission", CREATE)


# ---------------------------------------------------------------- who asks


class Authenticator:
    """Finds out what a request may do: by its token, or because the service is open and no token was ever made.

    All tokens are in memory, no older than `trust_seconds`. A token that is not among them may be a new one, so they
    are read again; whoever asks meanwhile shares that look. Wrong tokens, however many, cost the database next to
    nothing and push out no good one.
    """

    def __init__(self, settings: Settings, read_pool: ReadPool, clock: Callable[[], float]) -> None:
        self._settings, self._read_pool, self._clock = settings, read_pool, clock
        self._known: dict[int, Any] = {}  # rows with hashes: a dump of memory shows no token
        self._read_at = -math.inf
        self._reading: asyncio.Task[None] | None = None

    async def admit(self, request: Request, permission: Permission) -> TokenGrant:
        """The grant of a request to the API, if it is enough."""
        if permission == NO_TOKEN or await self.is_open(request):
            return EVERYTHING
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            secret = request.headers.get("x-api-key", "")
        if not secret.strip():
            detail = f"Send a token as `Authorization: Bearer …`; {HOW_TO_CREATE}."
            raise HttpProblem("no-token", detail, {"WWW-Authenticate": CHALLENGE})
        grant = await self.look_up(secret.strip())
        if grant is None:
            detail = f"The token is unknown, expired or revoked; {HOW_TO_CREATE}."
            raise HttpProblem("bad-token", detail, {"WWW-Authenticate": CHALLENGE + ', error="invalid_token"'})
        denied = why_denied(grant, permission, request.path_params.get("name"))
        if denied is not None:
            raise HttpProblem("forbidden", denied)
        return grant

    async def page_grant(self, request: Request) -> TokenGrant | None:
        """The grant of somebody who looks at a page, by the cookie that the login set; None if there is none."""
        if await self.is_open(request):
            return EVERYTHING
        secret = request.cookies.get(COOKIE)
        return await self.look_up(secret) if secret else None

    async def look_up(self, token: str) -> TokenGrant | None:
        """The grant of a token; None if it is unknown, expired or revoked."""
        number, now = tokens.number_of(token), time.monotonic()
        if number is None:
            return None
        known = await self._known_since(now - self._settings.trust_seconds)
        if number not in known:
            known = await self._known_since(now)
        return tokens.grant_of(known[number], token, self._clock()) if number in known else None

    async def _known_since(self, moment: float) -> dict[int, Any]:
        """All tokens, by number, as they were at a moment or later."""
        while self._read_at < moment:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read())
            await asyncio.shield(self._reading)  # others wait for it too
        return self._known

    async def _read(self) -> None:
        await asyncio.sleep(max(0.0, self._read_at + self._settings.trust_seconds / LOOKS - time.monotonic()))
        began = time.monotonic()
        self._known = {row.id: row for row in await self._read_pool.query(tokens.all_tokens)}
        self._read_at = began

    async def is_open(self, request: Request) -> bool:
        """Whether no token is asked for. Then what comes through a proxy, or by another name, is refused."""
        if not self._settings.open or await self._known_since(time.monotonic() - self._settings.trust_seconds):
            return False
        check_direct(request)
        return True


def check_direct(request: Request) -> None:
    """Refuse what another machine may have sent to an open service.

    A proxy shows by its headers or by HTTP/1.0. Host must be a name of this machine: any other name was made to point
    here by a page that wants to pass for the service (DNS rebinding). A proxy can hide all of that, so `open` is never
    the default.
    """
    host = request.headers.get("host", "")
    if not _is_this_machine(host):
        detail = (
            f"Host is {host[:100]!r}, but without tokens the service answers to localhost and 127.0.0.1 only. "
            f"To reach it by another name, create a token first: {HOW_TO_CREATE}."
        )
        raise HttpProblem("wrong-host", detail)
    sign = next((name for name in request.headers if name.startswith(FORWARDING)), None)
    if sign is not None or request.scope["http_version"] == "1.0":
        found = "it speaks HTTP/1.0" if sign is None else f"it has the header {sign[:100]}"
        detail = (
            f"The request seems to come through a proxy: {found}. A service that runs with --open must not be behind "
            "one. Start it without --open, and it asks for tokens."
        )
        raise HttpProblem("proxied", detail)


def check_origin(method: str, headers: Headers) -> None:
    """Refuse what a page of another site makes a browser send; Origin says where it comes from."""
    origin = headers.get("origin")
    if origin is None or method in ("GET", "HEAD"):
        return
    if _split(origin).netloc != headers.get("host", ""):
        detail = "The Origin of this request is another site; send it from the service's own pages."
        raise HttpProblem("cross-site", detail)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, as seen from itself.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@functools.lru_cache(32)
def _is_this_machine(host: str) -> bool:
    """Whether a Host header names this machine; remembered, because every request has one."""
    return is_loopback(_split(f"//{host}").hostname or "")


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")
