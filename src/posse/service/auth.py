"""Who may do what: tokens, the one rule for the API and the dashboard's pages, and how a request shows its token.

A token is a secret that lets its holder do some things, in one experiment or in all. Only its hash is kept.
"""

import asyncio
import functools
import hashlib
import hmac
import ipaddress
import math
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit

import sqlalchemy as sql
from sqlalchemy.engine import Connection
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from posse.checks import number
from posse.learner.setup import check_name
from posse.service.problems import HttpProblem
from posse.service.settings import LONGEST_SECONDS, Settings
from posse.service.storage import schema as tables
from posse.service.storage.audit import COMMAND_LINE, OPEN_SERVICE, insert_sealed, seal
from posse.service.storage.errors import Refused, UnknownToken
from posse.service.storage.keyed_requests import as_json
from posse.service.storage.store import ReadPool
from posse.service.storage.transaction import Transaction, check_new_names

SCOPES = ("decide", "reward", "read", "admin")  # what a token may be for; `admin` is all of them and more

_FORM = re.compile(r"posse_([1-9][0-9]{0,8})_([A-Za-z0-9_-]{43})", re.ASCII)
_TAKEN = re.compile(rf"{COMMAND_LINE}|{OPEN_SERVICE}|token \d+")  # what the audit trail calls who has no label
_NAMED = sql.select(tables.tokens, tables.experiments.c.name).select_from(
    tables.tokens.outerjoin(tables.experiments, tables.experiments.c.id == tables.tokens.c.experiment)
)
COOKIE = "posse_token"
CHALLENGE = 'Bearer realm="posse"'
LOOKS = 10  # at the tokens in `trust_seconds`, at most, however many unknown ones come
FORWARDING = (
    *("forwarded", "via", "true-client-ip", "x-client-ip", "x-cluster-client-ip", "x-forwarded", "x-real-ip"),
    *("cf-", "fastly-", "x-amzn-", "x-azure-", "x-envoy-", "x-original-", "x-proxy"),
)
"""How the names of headers begin that proxies add."""

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


# ---------------------------------------------------------------- tokens


@dataclass(frozen=True)
class TokenGrant:
    """What a token lets its holder do; `why_denied` is the rule."""

    scopes: frozenset[str]
    experiment: str | None  # None for all of them
    who: str = field(default=OPEN_SERVICE, compare=False)  # how the audit trail calls its holder


class CreateToken(NamedTuple):
    """Make a token. Result: the token, with the secret that is shown only now."""

    scopes: Sequence[str]
    experiment: str | None = None  # None for all experiments
    expires: float | None = None  # seconds from now; None for never
    label: str = ""
    key: str | None = None
    by: str = COMMAND_LINE

    def apply(self, transaction: Transaction) -> str:
        request = transaction.ask_outside(self.key, "create token", as_json(self._replace(key=None, by="")._asdict()))
        if request.before is not None:
            raise Refused(f"token {request.before} was made by this request, and shown then; revoke it, make another")
        scopes = {self.scopes} if isinstance(self.scopes, str) else set(self.scopes)
        if not scopes or scopes - set(SCOPES):
            raise ValueError(f"scopes={sorted(scopes)}, but expected some of {', '.join(SCOPES)}")
        if self.label:
            check_new_names("label", [check_name("label", self.label)])
            if _TAKEN.fullmatch(" ".join(self.label.casefold().split())):
                expected = "the audit trail calls somebody else so, and expected a label that nobody can mistake"
                raise ValueError(f"label={self.label!r}, but {expected}")
        lasts = None if self.expires is None else number("expires", self.expires, above=0, most=LONGEST_SECONDS)
        secret, now = secrets.token_urlsafe(32), transaction.clock()
        row: dict[str, Any] = {
            "hash": _hash(secret),
            "scopes": " ".join(sorted(scopes)),
            "experiment": None if self.experiment is None else transaction.live(self.experiment).id,
            "label": self.label,
            "created_at": now,
            "expires_at": None if lasts is None else now + lasts,
            "revoked_at": None,
        }
        token = insert_sealed(transaction.connection, tables.tokens, row)
        where = "all experiments" if self.experiment is None else "this experiment"
        transaction.note(self.by, "create token", self.experiment or "", f"token {token}, {row['scopes']}, {where}")
        request.remember(str(token), [])
        return f"posse_{token}_{secret}"


class RevokeToken(NamedTuple):
    """End a token, by its number."""

    token: int
    key: str | None = None
    by: str = COMMAND_LINE
    experiment: None = None

    def apply(self, transaction: Transaction) -> None:
        request = transaction.ask_outside(self.key, "revoke token", self.token)
        query = sql.select(tables.tokens).where(tables.tokens.c.id == self.token).with_for_update()
        found = transaction.connection.execute(query).mappings().first()
        if found is None:
            raise UnknownToken(f"no token {self.token}")
        if found["revoked_at"] is None:
            now, rows = transaction.clock(), all_tokens(transaction.connection)
            mighty = [row.id for row in rows if _does_everything(row, now)]
            seal(transaction.connection, tables.tokens, {**found, "revoked_at": now})
            transaction.note(self.by, "revoke token", detail=f"token {self.token}")
            if mighty == [self.token]:
                left = "no token is left that may do everything; `posse token create --scope admin` makes one"
                transaction.alarms.append(f"token {self.token} is revoked, and {left}")
            request.remember("true", [])


def _does_everything(row: Any, now: float) -> bool:
    valid = row.revoked_at is None and (row.expires_at is None or now < row.expires_at)
    return valid and row.experiment is None and "admin" in row.scopes.split()


def token_number(token: str) -> int | None:
    """The number of a token; None if it has not the form of one."""
    match = _FORM.fullmatch(token)
    return int(match[1]) if match else None


def grant_of(row: Any, token: str, now: float) -> TokenGrant | str:
    """What the holder of a token may do, by the row that has its number, if there is one; or what is wrong with it.

    That a token has ended is said only to who has its secret.
    """
    match = _FORM.fullmatch(token)
    if row is None or match is None or not hmac.compare_digest(row.hash, _hash(match[2])):
        return "unknown"
    if row.revoked_at is not None:
        return "revoked"
    if row.expires_at is not None and now >= row.expires_at:
        return "expired"
    return TokenGrant(frozenset(row.scopes.split()), row.name, row.label or f"token {row.id}")


def tokens_exist(connection: Connection) -> bool:
    """Whether there ever was a token; a revoked one counts too, so that revoking the last opens nothing."""
    return connection.execute(sql.select(tables.tokens.c.id).limit(1)).first() is not None


def all_tokens(connection: Connection) -> list[Any]:
    """All tokens, by number: their rows, each with the `name` of its experiment."""
    return list(connection.execute(_NAMED.order_by(tables.tokens.c.id)))


def _hash(secret: str) -> bytes:
    """Long random secrets need no salt and no slow hash."""
    return hashlib.sha256(secret.encode()).digest()


# ---------------------------------------------------------------- the rule


class Permission(NamedTuple):
    """What an endpoint or a page asks of a token."""

    scope: str | None  # None for any token; "nothing" for no token at all
    every_experiment: bool = False
    """Whether a token for one experiment is not enough, even where the path names no experiment."""


EVERYTHING = TokenGrant(frozenset({"admin"}), None)
READ, CHANGE = Permission("read"), Permission("admin")
CREATE = Permission("admin", every_experiment=True)
NO_TOKEN = Permission("nothing")


def why_denied(grant: TokenGrant, permission: Permission, experiment: str | None = None) -> str | None:
    """Why a token is not enough, for an experiment or in general; None if it is enough."""
    scope = permission.scope
    if scope is not None and not grant.scopes & {scope, "admin"}:
        return f"This needs the scope {scope}; `posse token create --scope {scope}` makes such a token."
    if grant.experiment is not None and (permission.every_experiment or experiment not in (None, grant.experiment)):
        return f"The token is for one experiment, {grant.experiment!r}, and this is about others; use another token."
    return None


def _how_to_create(scope: str | None) -> str:
    """How to make a token that is for something; None for any."""
    return f"`posse token create --scope {scope or 'read'}` makes one"


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
            detail = f"Send a token as `Authorization: Bearer …`; {_how_to_create(permission.scope)}."
            raise HttpProblem("no-token", detail, {"WWW-Authenticate": CHALLENGE})
        grant = await self.look_up(secret.strip())
        if isinstance(grant, str):
            detail = f"The token is {grant}; {_how_to_create(permission.scope)}."
            raise HttpProblem("bad-token", detail, {"WWW-Authenticate": CHALLENGE + ', error="invalid_token"'})
        denied = why_denied(grant, permission, request.path_params.get("name"))
        if denied is not None:
            raise HttpProblem("forbidden", denied)
        return grant

    async def page_grant(self, request: Request) -> TokenGrant | None:
        """The grant of somebody who looks at a page, by the cookie that the login set; None if there is none."""
        if await self.is_open(request):
            return EVERYTHING
        grant = await self.look_up(request.cookies.get(COOKIE, ""))
        return None if isinstance(grant, str) else grant

    async def look_up(self, token: str) -> TokenGrant | str:
        """The grant of a token, or what is wrong with it: it is unknown, expired or revoked."""
        number, now = token_number(token), time.monotonic()
        if number is None:
            return "unknown"
        known = await self._known_since(now - self._settings.trust_seconds)
        if number not in known:
            known = await self._known_since(now)
        return grant_of(known.get(number), token, self._clock())

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
        self._known = {row.id: row for row in await self._read_pool.query(all_tokens)}
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
            f"To reach it by another name, create a token first: {_how_to_create('admin')}."
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
