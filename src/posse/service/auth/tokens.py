"""Tokens: secrets that let their holder do some things, in one experiment or in all. Only their hashes are kept."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sql

from posse.checks import number
from posse.learner.setup import check_name
from posse.service.storage import log_chain as digest
from posse.service.storage import schema as tables
from posse.service.storage.store import Store
from posse.service.storage.transaction import Turn

SCOPES = ("decide", "reward", "read", "admin")
"""What a token may be for; `admin` is all of them and more."""

_FORM = re.compile(r"posse_([1-9][0-9]{0,8})_([A-Za-z0-9_-]{43})", re.ASCII)


@dataclass(frozen=True)
class Grant:
    """What a token lets its holder do."""

    scopes: frozenset[str]
    experiment: str | None
    """None for all of them."""

    def allows(self, scope: str, experiment: str | None = None) -> bool:
        """Whether something of this scope may be done, in an experiment or in general."""
        return (scope in self.scopes or "admin" in self.scopes) and self.experiment in (None, experiment)


@dataclass(frozen=True)
class Token:
    """A token, but for its secret."""

    id: int
    scopes: tuple[str, ...]
    experiment: str | None
    label: str
    created_at: float
    expires_at: float | None
    revoked_at: float | None


def create(
    store: Store,
    scope: str | Iterable[str],
    experiment: str | None = None,
    expires: float | None = None,
    label: str = "",
) -> str:
    """Make a token that lasts for `expires` seconds, or for good; return its secret, which is shown only now."""
    scopes = [scope] if isinstance(scope, str) else list(scope)
    for one in scopes:
        if one not in SCOPES:
            raise ValueError(f"scope={one!r}, but expected {', '.join(SCOPES)}")
    if not scopes:
        raise ValueError(f"no scope given; expected {', '.join(SCOPES)}")
    if label:
        check_name("label", label)
    lasts = None if expires is None else number("expires", expires, above=0)
    secret = secrets.token_urlsafe(32)

    def insert(turn: Turn) -> int:
        now = store.clock()
        row: dict[str, Any] = {
            "hash": _hash(secret),
            "scopes": " ".join(sorted(set(scopes))),
            "experiment": None if experiment is None else turn.book(experiment).id,
            "label": label,
            "created_at": now,
            "expires_at": None if lasts is None else now + lasts,
            "revoked_at": None,
            "digest": b"",
        }
        query = sql.insert(tables.tokens).returning(tables.tokens.c.id)
        row["id"] = turn.connection.execute(query, row).scalar_one()
        _seal(turn, row)
        return int(row["id"])

    return f"posse_{store.transact(insert)}_{secret}"


def check(store: Store, secret: str) -> Grant | None:
    """What the holder of a secret may do; None if it is no token, or one that is over."""
    match = _FORM.fullmatch(secret) if isinstance(secret, str) else None
    table, names = tables.tokens, tables.experiments
    query = sql.select(table, names.c.name).select_from(table.outerjoin(names, names.c.id == table.c.experiment))
    with store.reading() as connection:
        row = connection.execute(query.where(table.c.id == (int(match[1]) if match else 0))).mappings().first()
    same = hmac.compare_digest(row["hash"] if row else bytes(32), _hash(match[2] if match else ""))
    if row is None or not same or row["revoked_at"] is not None:
        return None
    if row["expires_at"] is not None and store.clock() >= row["expires_at"]:
        return None
    return Grant(frozenset(row["scopes"].split()), row["name"])


def exist(store: Store) -> bool:
    """Whether there ever was a token; one that was revoked counts too, so that revoking the last opens nothing."""
    with store.reading() as connection:
        return connection.execute(sql.select(tables.tokens.c.id).limit(1)).first() is not None


def revoke(store: Store, token: int) -> None:
    """End a token, by its number."""

    def update(turn: Turn) -> None:
        table = tables.tokens
        found = turn.connection.execute(sql.select(table).where(table.c.id == token)).mappings().first()
        if found is None:
            raise ValueError(f"no token {token}")
        if found["revoked_at"] is None:
            _seal(turn, dict(found) | {"revoked_at": store.clock()})

    store.transact(update)


def everyone(store: Store) -> list[Token]:
    """All tokens, by number."""
    table, names = tables.tokens, tables.experiments
    query = sql.select(table, names.c.name).select_from(table.outerjoin(names, names.c.id == table.c.experiment))
    with store.reading() as connection:
        return [
            Token(
                row.id,
                tuple(row.scopes.split()),
                row.name,
                row.label,
                row.created_at,
                row.expires_at,
                row.revoked_at,
            )
            for row in connection.execute(query.order_by(table.c.id))
        ]


def _seal(turn: Turn, row: dict[str, Any]) -> None:
    """Write a token's row with its digest."""
    row["digest"] = digest.of_token(row)
    turn.connection.execute(sql.update(tables.tokens).where(tables.tokens.c.id == row["id"]), row)


def _hash(secret: str) -> bytes:
    """Long random secrets need no salt and no slow hash."""
    return hashlib.sha256(secret.encode()).digest()
