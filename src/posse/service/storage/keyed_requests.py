"""Requests with an idempotency key: each is remembered outside of the log, with what it takes to answer it again.

The table has no text of a request. The key is a digest, and what was asked is a digest of the key and the request, so
that a row tells nothing to anybody who does not know the key. A row names the players that the request was about by
their places; when one of them is erased, the row is deleted.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.service.storage import database, errors
from posse.service.storage import schema as tables
from posse.service.storage.log_rows import Values

NO_EXPERIMENT = 0  # where keys of requests belong that create an experiment
SIZE = 20  # hexadecimal digits of a digest
IN_LOG = '"in log"]'  # how an answer ends if the log has the key too, from before version 4

_ROW, _MADE = tables.requests.c, tables.decisions.c
_SELECT = "SELECT key, request, answer FROM requests WHERE experiment = "
_KNOWN = {  # SQLAlchemy's own way, with a parameter for each key, would cost more than the query
    "sqlite": _SELECT + ":experiment AND key IN (SELECT value FROM json_each(:keys))",
    "postgresql": _SELECT + "%(experiment)s AND key = ANY(%(keys)s)",
}
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
        self._known: dict[tuple[int, str], tuple[str, Values | None]] = {}  # digest of the key; None: not there
        self._new: list[dict[str, Any]] = []  # to be written

    def look_up(self, experiment: int, keys: Iterable[str]) -> None:
        digests, dialect = {digest_of(key): key for key in keys}, self._connection.dialect.name
        for digest, key in digests.items():
            self._known[experiment, key] = digest, None
        wanted = {"experiment": experiment, "keys": json.dumps([*digests]) if dialect == "sqlite" else [*digests]}
        for row in self._connection.exec_driver_sql(_KNOWN[dialect], wanted).mappings():
            self._known[experiment, digests[row["key"]]] = row["key"], row

    def ask(self, experiment: int, key: str | None, *asked: Any) -> "KeyedRequest":
        """A request about to be carried out; `asked` is its kind, and all that tells it from other requests."""
        if key is None:
            return KeyedRequest(None)
        if (experiment, key) not in self._known:
            self.look_up(experiment, [key])
        (digest, known), request = self._known[experiment, key], request_digest(key, *asked)
        if known is None:
            return KeyedRequest(self, (experiment, key, digest, request))
        if known["request"] != request:
            said = f"the idempotency key {key!r} came before with another request; use a new key for a new one"
            raise errors.ConflictingKey(said)
        return KeyedRequest(None, before=json.loads(known["answer"]))

    def add(self, key: str, row: dict[str, Any]) -> None:
        """Remember a request that was carried out."""
        self._known[row["experiment"], key] = row["key"], row
        self._new.append(row)

    def write(self) -> None:
        if self._new:
            database.insert_rows(self._connection, tables.requests, self._new)
            self._new = []

    def forget(self, experiment: int, player: int | None = None) -> None:
        """Delete all requests that were about a player, and blank keys that the log has from before version 4.

        Without a player, delete all that were about the experiment.
        """
        self.write()
        self._known.clear()
        created = sql.and_(_ROW.experiment == NO_EXPERIMENT, _ROW.players.startswith(f"{experiment},"))
        about = [sql.or_(_ROW.experiment == experiment, created)]
        if player is not None:
            about.append(_ROW.players.contains(f",{player},"))
        in_log = sql.select(_ROW.answer).where(*about, _ROW.answer.endswith(IN_LOG))
        for answer in self._connection.execute(in_log).scalars().all():
            first, end, *_ = json.loads(answer)
            self._connection.execute(_BLANK_KEYS, {"of": experiment, "first": first, "end": end})
        self._connection.execute(sql.delete(tables.requests).where(*about))


class KeyedRequest:
    """One request. `before` is what it takes to answer it if it came before; None if it is new, or has no key."""

    __slots__ = ("_asked", "_requests", "before")

    def __init__(self, requests: KeyedRequests | None, asked: Any = None, before: Any = None) -> None:
        self._requests, self._asked, self.before = requests, asked, before

    def remember(self, answer: str, players: Iterable[int], created: int | None = None) -> None:
        """If it has a key, remember what it takes to answer it, as JSON, and which players it is about, by place.

        `created` is the id of the experiment that it created.
        """
        if self._requests is not None:
            experiment, key, digest, request = self._asked
            about = places_text(players, created)
            row = {"experiment": experiment, "key": digest, "request": request, "players": about, "answer": answer}
            row["checksum"] = checksum(experiment, digest, request, about, answer)
            self._requests.add(key, row)


def request_digest(key: str, *asked: Any) -> str:
    """The digest of a request. Databases hold such digests, so it has to stay as it is."""
    return digest_of(ascii((key, *asked)))


def as_json(fields: Mapping[str, Any]) -> str:
    """What was asked, as a text in which the order of names does not matter; a policy as it is written in code."""
    return json.dumps(fields, sort_keys=True, default=str)


def places_text(players: Iterable[int], created: int | None = None) -> str:
    """Places as a text in which one can be found, such as ",3,17,"; after the id of an experiment that was created."""
    return f"{'' if created is None else created},{','.join(map(str, players))},"


def checksum(experiment: int, key: str, request: str, players: str, answer: str) -> int:
    """What tells whether a row was changed; a digest would cost more, and find no more accidents."""
    return zlib.crc32(f"{experiment} {key} {request} {players} {answer}".encode(errors="surrogatepass"))


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:SIZE]
