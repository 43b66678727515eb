"""Tokens: secrets that let their holder do some things, in one experiment or in all. Only their hashes are kept."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.checks import number
from posse.learner.setup import check_name
from posse.service.storage import schema as tables
from posse.service.storage.audit import COMMAND_LINE, OPEN_SERVICE, insert_sealed, seal
from posse.service.storage.errors import Refused
from posse.service.storage.keyed_requests import as_json
from posse.service.storage.transaction import Transaction

SCOPES = ("decide", "reward", "read", "admin")  # what a token may be for; `admin` is all of them and more

_FORM = re.compile(r"posse_([1-9][0-9]{0,8})_([A-Za-z0-9_-]{43})", re.ASCII)
_TAKEN = re.compile(rf"{COMMAND_LINE}|{OPEN_SERVICE}|token \d+")  # what the audit trail calls who has no label
_NAMED = sql.select(tables.tokens, tables.experiments.c.name).select_from(
    tables.tokens.outerjoin(tables.experiments, tables.experiments.c.id == tables.tokens.c.experiment)
)


@dataclass(frozen=True)
class TokenGrant:
    """What a token lets its holder do; `permissions.why_denied` is the rule."""

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
        scopes = [self.scopes] if isinstance(self.scopes, str) else list(self.scopes)
        for scope in scopes:
            if scope not in SCOPES:
                raise ValueError(f"scope={scope!r}, but expected {', '.join(SCOPES)}")
        if not scopes:
            raise ValueError(f"no scope given; expected {', '.join(SCOPES)}")
        if self.label:
            check_name("label", self.label)
            if _TAKEN.fullmatch(" ".join(self.label.casefold().split())):
                expected = "the audit trail calls somebody else so, and expected a label that nobody can mistake"
                raise ValueError(f"label={self.label!r}, but {expected}")
        lasts = None if self.expires is None else number("expires", self.expires, above=0)
        secret, now = secrets.token_urlsafe(32), transaction.clock()
        row: dict[str, Any] = {
            "hash": _hash(secret),
            "scopes": " ".join(sorted(set(scopes))),
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
        query = sql.select(tables.tokens).where(tables.tokens.c.id == self.token)
        found = transaction.connection.execute(query).mappings().first()
        if found is None:
            raise ValueError(f"no token {self.token}")
        if found["revoked_at"] is None:
            seal(transaction.connection, tables.tokens, {**found, "revoked_at": transaction.clock()})
            transaction.note(self.by, "revoke token", detail=f"token {self.token}")
            request.remember("true", [])


def number_of(token: str) -> int | None:
    """The number of a token; None if it has not the form of one."""
    match = _FORM.fullmatch(token)
    return int(match[1]) if match else None


def grant_of(row: Any, token: str, now: float) -> TokenGrant | None:
    """What the holder of a token may do, by the row that has its number; None if it is wrong, expired or revoked."""
    match = _FORM.fullmatch(token)
    if match is None or not hmac.compare_digest(row.hash, _hash(match[2])) or row.revoked_at is not None:
        return None
    if row.expires_at is not None and now >= row.expires_at:
        return None
    return TokenGrant(frozenset(row.scopes.split()), row.name, row.label or f"token {row.id}")


def exist(connection: Connection) -> bool:
    """Whether there ever was a token; a revoked one counts too, so that revoking the last opens nothing."""
    return connection.execute(sql.select(tables.tokens.c.id).limit(1)).first() is not None


def all_tokens(connection: Connection) -> list[Any]:
    """All tokens, by number: their rows, each with the `name` of its experiment."""
    return list(connection.execute(_NAMED.order_by(tables.tokens.c.id)))


def _hash(secret: str) -> bytes:
    """Long random secrets need no salt and no slow hash."""
    return hashlib.sha256(secret.encode()).digest()
