"""The audit trail: who changed what. A row is written in the transaction of the change, and outlives what it is about.

A row has a digest, of which its number is a part; so have tokens.
"""

from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.service.settings import LARGEST_PAGE
from posse.service.storage import schema as tables
from posse.service.storage.log_rows import row_digest

COMMAND_LINE, OPEN_SERVICE = "command line", "open service"  # who it was where there is no token
LARGEST_ID = 2**31 - 1  # that PostgreSQL compares with the numbers of rows


def insert_sealed(connection: Connection, table: sql.Table, row: dict[str, Any]) -> int:
    """Insert a row and seal it; return its number."""
    number: int = connection.execute(sql.insert(table).returning(table.c.id), {**row, "digest": b""}).scalar_one()
    seal(connection, table, {**row, "id": number})
    return number


def seal(connection: Connection, table: sql.Table, row: dict[str, Any]) -> None:
    """Write a row that is there with its digest."""
    sealed = {**row, "digest": row_digest(table.name, row)}
    connection.execute(sql.update(table).where(table.c.id == row["id"]), sealed)


def entries(
    connection: Connection,
    after: int = 0,
    limit: int = LARGEST_PAGE,
    experiment: str | None = None,
    before: int | None = None,
) -> list[sql.Row[Any]]:
    """At most so many rows after one of them, or before one and the newest first; about one experiment or about all."""
    table = tables.audit
    query = sql.select(table).where(table.c.id > min(after, LARGEST_ID)).order_by(table.c.id).limit(limit)
    if before is not None:
        query = query.where(table.c.id < min(before, LARGEST_ID)).order_by(None).order_by(table.c.id.desc())
    return list(connection.execute(query if experiment is None else query.where(table.c.experiment == experiment)))
