"""The first version."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sql
from alembic import op
from sqlalchemy import BigInteger, Column, Double, ForeignKey, Integer, LargeBinary, SmallInteger, Text

revision = "0001"
down_revision = None

KINDS = {"int": Integer, "big": BigInteger, "small": SmallInteger, "real": Double, "text": Text, "bytes": LargeBinary}
EXPERIMENT = """
    setup text, created_at real, first_players int, first_arms int, origin bytes, paused small, rounds big,
    decisions big, events big, links big, head bytes, time real, summary bytes
"""
TABLES = {  # those whose key begins with the experiment
    "decisions": """
        experiment int key, serial big key, link big, tag big, round big, player int, arm int, propensity real,
        shared real, holdout small, decided_at real, probabilities bytes null, offered bytes null, restricted small,
        request_key text null, position int, digest bytes
    """,
    "rewards": """
        experiment int key, serial big key, link big, event big, round big, player int, arm int, reward real,
        seen_n real, seen_s real, defaulted small, observed_at real, digest bytes
    """,
    "changes": """
        experiment int key, link big key, event big, kind text, place big, knows_others small, at real, digest bytes
    """,
    "stats": """
        experiment int key, player int key, arm int key, pulls big, sums big, squares big, own_pulls big, own_sums big,
        waiting big, seen_n real, seen_s real
    """,
}


def upgrade() -> None:
    """Create everything."""
    name = Column("name", Text, nullable=False, unique=True)
    op.create_table("experiments", Column("id", Integer, primary_key=True), name, *_columns(EXPERIMENT))
    for table in ("players", "arms"):
        op.create_table(
            table,
            Column("experiment", Integer, ForeignKey("experiments.id"), primary_key=True),
            *_columns("place int key, name text, here small, digest bytes"),
            sql.UniqueConstraint("experiment", "name"),
        )
    for table, columns in TABLES.items():
        op.create_table(table, *_columns(columns), sqlite_with_rowid=False)
    asked = sql.text("request_key IS NOT NULL")
    by_key = ["experiment", "request_key", "position"]
    op.create_index("decisions_by_key", "decisions", by_key, unique=True, sqlite_where=asked, postgresql_where=asked)
    op.create_index("rewards_by_link", "rewards", ["experiment", "link"], unique=True)
    op.create_table(
        "tokens",
        Column("id", Integer, primary_key=True),
        *_columns("hash bytes, scopes text"),
        Column("experiment", Integer, ForeignKey("experiments.id")),
        *_columns("label text, created_at real, expires_at real null, revoked_at real null, digest bytes"),
    )


def _columns(described: str) -> list[Column[Any]]:
    """Columns from their names and kinds; a column has a value unless it says `null`."""
    made: list[Column[Any]] = []
    for column in described.split(","):
        name, kind, *marks = column.split()
        if "key" in marks:
            made.append(Column(name, KINDS[kind], primary_key=True, autoincrement=False))
        else:
            made.append(Column(name, KINDS[kind], nullable="null" in marks))
    return made
