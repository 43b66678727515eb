"""Who may do what: the one rule for the API and the dashboard's pages, and how a request shows its token."""

from __future__ import annotations

import functools
import hashlib
import ipaddress
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request

from posse.service.auth import tokens
from posse.service.auth.tokens import TokenGrant
from posse.service.problems import HttpProblem
from posse.service.settings import Settings
from posse.service.storage.store import ReadPool

COOKIE = "posse_token"
EVERYTHING = TokenGrant(frozenset({"admin"}), None)
MOST_KNOWN = 1000  # tokens that a worker remembers
CHALLENGE = 'Bearer realm="posse"'
HOW_TO_CREATE = "`posse token create --scope decide` makes one"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


# ---------------------------------------------------------------- the rule


class Permission(NamedTuple):
    """What an endpoint or a page asks of a token."""

    scope: str | None
    """None for any token; "nothing" for no token at all."""
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
    """Whether a token is enough."""
    return why_denied(grant, permission, experiment) is None


def needs(permission: Permission) -> Callable[[Endpoint], Endpoint]:
    """Say what an endpoint asks of a token. One that says nothing asks for "admin" of every experiment."""

    def mark(endpoint: Endpoint) -> Endpoint:
        endpoint.__dict__["permission"] = permission
        return endpoint

    return mark


def needed(endpoint: Callable[..., Any]) -> Permission:
    """What an endpoint asks of a token."""
    return getattr(endpoint, "permission", CREATE)


# ---------------------------------------------------------------- who asks


class Authenticator:
    """Finds out what a request may do: by its token, or because no token was ever made."""

    def __init__(self, settings: Settings, read_pool: ReadPool, clock: Callable[[], float]) -> None:
        self._settings, self._read_pool, self._clock = settings, read_pool, clock
        self._known: dict[bytes, tuple[TokenGrant, float]] = {}  # by digest: a dump of memory shows no token
        self._open_until = 0.0
        self._closed = not settings.loopback  # for good: once a token was made, tokens are needed

    async def admit(self, request: Request, permission: Permission) -> TokenGrant:
        """The grant of a request to the API, if it is enough."""
        if permission == NO_TOKEN or await self.is_open(request):
            return EVERYTHING
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not secret.strip():
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

    async def look_up(self, secret: str) -> TokenGrant | None:
        """The grant of a token, from memory if it was good a moment ago."""
        digest, now = hashlib.sha256(secret.encode("utf-8", "replace")).digest(), time.monotonic()
        if digest in self._known and now < self._known[digest][1]:
            return self._known[digest][0]
        grant = await self._read_pool.query(tokens.grant_of, secret, self._clock())
        self._known.pop(digest, None)
        if grant is not None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[digest] = (grant, now + self._settings.trust_seconds)
        return grant

    async def is_open(self, request: Request) -> bool:
        """Whether authentication is off: no token was ever made, and only this machine reaches the service.

        Then Host must be a name of this machine. Any other name was made to point here by a page that wants to pass
        for the service (DNS rebinding), or belongs to a proxy that would let everybody in.
        """
        now = time.monotonic()
        if not self._closed and now >= self._open_until:
            if await self._read_pool.query(tokens.exist):
                self._closed = True
            self._open_until = now + self._settings.trust_seconds
        if self._closed:
            return False
        host = request.headers.get("host", "")
        if not _is_this_machine(host):
            detail = (
                f"Host is {host[:100]!r}, but without tokens the service answers to localhost and 127.0.0.1 only. "
                f"To reach it by another name, create a token first: {HOW_TO_CREATE}."
            )
            raise HttpProblem("wrong-host", detail)
        return True


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
