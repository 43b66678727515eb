"""Requests with idempotency keys in a table of their own, outside of the log.

Keys that are in the log stay there, because its digests cover them; the new table answers them. Keys of requests about
players that were erased before are blanked.
"""

import json
from itertools import groupby
from typing import Any

import numpy as np
import sqlalchemy as sql
from alembic import op
from sqlalchemy import BigInteger, Column, Integer, Text

from posse.service.storage.keyed_requests import checksum, digest_of, places_text, request_digest

revision = "0004"
down_revision = "0003"

KEYED = """
    SELECT experiment, serial, player, request_key, restricted, offered FROM decisions
    WHERE request_key IS NOT NULL ORDER BY experiment, request_key, position
"""
BLANK = "UPDATE decisions SET request_key = '' WHERE experiment = :experiment AND serial = :serial"
AT_ONCE = 1000


def upgrade() -> None:
    """Make the table, with a row for each key that the log has."""
    connection = op.get_bind()
    requests = op.create_table(
        "requests",
        Column("experiment", Integer, primary_key=True, autoincrement=False),
        Column("key", Text, primary_key=True),
        Column("request", Text, nullable=False),
        Column("players", Text, nullable=False),
        Column("answer", Text, nullable=False),
        Column("checksum", BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    names = {
        table: {
            (experiment, place): name
            for experiment, place, name in connection.execute(sql.text(f"SELECT experiment, place, name FROM {table}"))
        }
        for table in ("players", "arms")
    }
    rows = connection.execute(sql.text("SELECT experiment, place FROM changes WHERE kind = 'erase'"))
    erased = {(row.experiment, row.place) for row in rows}
    rows = connection.execute(sql.text(KEYED), execution_options={"yield_per": AT_ONCE})
    blank: list[dict[str, Any]] = []
    new: list[dict[str, Any]] = []
    for (experiment, key), group in groupby(rows, key=lambda row: (row.experiment, row.request_key)):
        made = list(group)
        if any((experiment, row.player) in erased for row in made):
            blank += [{"experiment": experiment, "serial": row.serial} for row in made]
            continue
        players = [names["players"][experiment, row.player] for row in made]
        offered = np.flatnonzero(np.unpackbits(np.frombuffer(made[0].offered, np.uint8))).tolist()
        available = sorted(names["arms"][experiment, arm] for arm in offered) if made[0].restricted else None
        new.append(
            {
                "experiment": experiment,
                "key": digest_of(key),
                "request": request_digest(key, "choose", players, available),
                "players": places_text(row.player for row in made),
                "answer": json.dumps([made[0].serial, made[-1].serial + 1, "in log"]),
            }
        )
        new[-1]["checksum"] = checksum(**new[-1])
        if len(new) == AT_ONCE:
            connection.execute(sql.insert(requests), new)
            new = []
    op.drop_index("decisions_by_key", "decisions")  # it allows a key only once, and nothing in its place several times
    for statement, values in ((sql.insert(requests), new), (sql.text(BLANK), blank)):
        if values:
            connection.execute(statement, values)
