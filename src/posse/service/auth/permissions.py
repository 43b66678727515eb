"""Who may do what: tokens and their scopes, and what protects a service that asks for none."""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request

from posse.service.api.errors import Refusal
from posse.service.auth import tokens
from posse.service.auth.tokens import Grant

if TYPE_CHECKING:
    from posse.service.process.settings import Settings
    from posse.service.storage.read_pool import Reading
    from posse.service.storage.store import Store

COOKIE = "posse_token"
EVERYTHING = Grant(frozenset({"admin"}), None)
MOST_KNOWN = 1000  # tokens that a worker remembers
CHALLENGE = 'Bearer realm="posse"'
HOW_TO_CREATE = "`posse token create --scope decide` makes one"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def needs(scope: str | None, every_experiment: bool = False) -> Callable[[Endpoint], Endpoint]:
    """Say which scope an endpoint needs; None for any token, "nothing" for no token at all.

    A token for one experiment passes where the path names that experiment, or where `every_experiment` is False.
    An endpoint that says nothing needs "admin".
    """

    def mark(endpoint: Endpoint) -> Endpoint:
        endpoint.__dict__["needs"] = (scope, every_experiment)
        return endpoint

    return mark


def needed(endpoint: Callable[..., Any]) -> tuple[str | None, bool]:
    """Which scope an endpoint needs, and whether for all experiments."""
    return getattr(endpoint, "needs", ("admin", True))


class Guard:
    """Lets requests pass, or refuses them."""

    def __init__(self, store: Store, settings: Settings, reading: Reading) -> None:
        self._store, self._settings, self._reading = store, settings, reading
        self._known: dict[bytes, tuple[Grant, float]] = {}  # by digest: a dump of memory shows no token
        self._open_until = 0.0
        self._closed = not settings.loopback  # for good: that a token was ever made does not become untrue

    async def admit(self, request: Request, scope: str | None, every_experiment: bool) -> Grant:
        """The grant of a request, if it is enough."""
        if scope == "nothing" or await self.is_open(request):
            return EVERYTHING
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not secret.strip():
            detail = f"Send a token as `Authorization: Bearer …`; {HOW_TO_CREATE}."
            raise Refusal("no-token", detail, {"WWW-Authenticate": CHALLENGE})
        grant = await self.look_up(secret.strip())
        if grant is None:
            detail = f"The token is unknown, expired or revoked; {HOW_TO_CREATE}."
            raise Refusal("bad-token", detail, {"WWW-Authenticate": CHALLENGE + ', error="invalid_token"'})
        self._check(grant, scope, every_experiment, request.path_params.get("name"))
        return grant

    def _check(self, grant: Grant, scope: str | None, every_experiment: bool, experiment: str | None) -> None:
        if scope is not None and not grant.scopes & {scope, "admin"}:
            raise Refusal(
                "forbidden", f"This needs the scope {scope}; `posse token create --scope {scope}` makes such a token."
            )
        if grant.experiment is not None and (every_experiment or experiment not in (None, grant.experiment)):
            raise Refusal("forbidden", "The token is for one experiment, and this is about others; use another token.")

    async def look_up(self, secret: str) -> Grant | None:
        """The grant of a token, from memory if it was good a moment ago."""
        digest, now = hashlib.sha256(secret.encode("utf-8", "replace")).digest(), time.monotonic()
        if digest in self._known and now < self._known[digest][1]:
            return self._known[digest][0]
        grant: Grant | None = await self._reading.do(tokens.check, self._store, secret)
        self._known.pop(digest, None)
        if grant is not None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[digest] = (grant, now + self._settings.trust_seconds)
        return grant

    async def is_open(self, request: Request) -> bool:
        """Whether anybody on this machine may do everything: no token was ever made, and nobody else gets here.

        Then Host must be a name of this machine: another one was made to point here by a page that wants to pass for
        the service (DNS rebinding), or is that of a proxy that would let the world in.
        """
        now = time.monotonic()
        if not self._closed and now >= self._open_until:
            if await self._reading.do(tokens.exist, self._store):
                self._closed = True
            self._open_until = now + self._settings.trust_seconds
        if self._closed:
            return False
        host = request.headers.get("host", "")
        if not is_loopback(_split(f"//{host}").hostname or ""):
            detail = (
                f"Host is {host[:100]!r}, but without tokens the service answers to localhost and 127.0.0.1 only. "
                f"To reach it by another name, create a token first: {HOW_TO_CREATE}."
            )
            raise Refusal("wrong-host", detail)
        return True


async def page_grant(request: Request) -> Grant | None:
    """The grant of somebody who looks at a page, by the cookie that was set at the login; None if there is none."""
    guard: Guard = request.app.state.guard
    if await guard.is_open(request):
        return EVERYTHING
    secret = request.cookies.get(COOKIE)
    return await guard.look_up(secret) if secret else None


def check_origin(method: str, headers: Headers) -> None:
    """Refuse what a page of another site makes a browser send, which says in Origin where it comes from."""
    origin = headers.get("origin")
    if origin is None or method in ("GET", "HEAD"):
        return
    if _split(origin).netloc != headers.get("host", ""):
        raise Refusal("cross-site", "The Origin of this request is another site; send it from the service's own pages.")


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


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")
