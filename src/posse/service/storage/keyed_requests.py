"""Requests with an idempotency key: each is remembered outside of the log, with what it takes to answer it again.

The table has no text of a request. The key is a digest, and what was asked is a digest of the key and the request, so
that a row tells nothing to anybody who does not know the key. A row names the players that the request was about by
their places; when one of them is erased, the row is deleted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.attributes import LONGEST_NAME
from posse.service.storage import schema as tables
from posse.service.storage.errors import ConflictingKey
from posse.service.storage.log_rows import Values, row_digest

NO_EXPERIMENT = 0  # where keys of requests belong that create an experiment
SIZE = 16  # bytes of a digest
AT_ONCE = 500  # keys looked up in one query

_ROW, _MADE = tables.requests.c, tables.decisions.c
_INSERT = sql.insert(tables.requests)
_KNOWN = sql.select(tables.requests).where(
    _ROW.experiment == sql.bindparam("experiment"), _ROW.key.in_(sql.bindparam("keys", expanding=True))
)
_BLANK_KEYS = (
    sql.update(tables.decisions)
    .where(_MADE.experiment == sql.bindparam("of"), _MADE.request_key.is_not(None))
    .where(_MADE.serial >= sql.bindparam("first"), _MADE.serial < sql.bindparam("end"))
    .values(request_key="")
)


class KeyedRequests:
    """The requests with keys that a transaction meets: those that came before, and those that are new."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[tuple[int, bytes], Values | None] = {}  # None: looked up, and not there
        self._new: list[dict[str, Any]] = []  # to be written

    def look_up(self, experiment: int, keys: Iterable[str]) -> None:
        """Look up many keys at once."""
        digests = list(set(map(key_digest, keys)))
        for start in range(0, len(digests), AT_ONCE):
            some = digests[start : start + AT_ONCE]
            self._known |= dict.fromkeys((experiment, digest) for digest in some)
            for row in self._connection.execute(_KNOWN, {"experiment": experiment, "keys": some}).mappings():
                self._known[experiment, row["key"]] = row

    def ask(self, experiment: int, key: str | None, *asked: Any) -> KeyedRequest:
        """A request about to be carried out; `asked` is its kind, and all that tells it from other requests."""
        if key is None:
            return KeyedRequest(self)
        if not isinstance(key, str) or not (0 < len(key) <= LONGEST_NAME and key.isprintable()):
            expected = f"expected 1 to {LONGEST_NAME} printable characters"
            raise ValueError(f"idempotency key {str(key)[:30]!r}, but {expected}")
        place = experiment, key_digest(key)
        if place not in self._known:
            self.look_up(experiment, [key])
        known, digest = self._known[place], request_digest(key, *asked)
        if known is None:
            return KeyedRequest(self, {"experiment": experiment, "key": place[1], "request": digest})
        if known["request"] != digest:
            said = f"the idempotency key {key!r} came before with another request; use a new key for a new one"
            raise ConflictingKey(said)
        return KeyedRequest(self, before=json.loads(known["answer"]))

    def remember(self, row: dict[str, Any]) -> None:
        """Remember a request that was carried out."""
        row["digest"] = row_digest("requests", row)
        self._known[row["experiment"], row["key"]] = row
        self._new.append(row)

    def write(self) -> None:
        """Write those that are new."""
        if self._new:
            self._connection.execute(_INSERT, self._new)
            self._new = []

    def forget(self, experiment: int, player: int) -> None:
        """Delete all requests that were about a player, and blank keys that the log has from before version 4."""
        self.write()
        self._known.clear()
        created = sql.and_(_ROW.experiment == NO_EXPERIMENT, _ROW.players.startswith(f"{experiment},"))
        about = sql.or_(_ROW.experiment == experiment, created), _ROW.players.contains(f",{player},")
        in_log = sql.select(_ROW.answer).where(*about, _ROW.in_log == 1)
        for answer in self._connection.execute(in_log).scalars().all():
            first, end = json.loads(answer)
            self._connection.execute(_BLANK_KEYS, {"of": experiment, "first": first, "end": end})
        self._connection.execute(sql.delete(tables.requests).where(*about))


class KeyedRequest:
    """One request. `before` is what it takes to answer it if it came before; None if it is new, or has no key."""

    def __init__(self, requests: KeyedRequests, row: dict[str, Any] | None = None, before: Any = None) -> None:
        self._requests, self._row, self.before = requests, row, before

    def remember(self, answer: Any, players: Iterable[int], created: int | None = None) -> None:
        """If it has a key, remember what it takes to answer it, and which players it is about, by place.

        `created` is the id of the experiment that it created.
        """
        if self._row is not None:
            about = places_text(players, created)
            self._requests.remember(self._row | {"players": about, "answer": json.dumps(answer), "in_log": 0})


def request_digest(key: str, *asked: Any) -> bytes:
    """The digest of a request. Databases hold such digests, so it has to stay as it is."""
    return key_digest(json.dumps([key, *asked], sort_keys=True, default=str))


def places_text(players: Iterable[int], created: int | None = None) -> str:
    """Places as a text in which one can be found, such as ",3,17,"; after the id of an experiment that was created."""
    return f"{'' if created is None else created},{','.join(map(str, players))},"


def key_digest(text: str) -> bytes:
    """The digest of a key."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:SIZE]
