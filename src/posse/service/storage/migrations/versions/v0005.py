"""An experiment has a status and a description; changes may have details; further outcomes; who did what."""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op
from sqlalchemy import BigInteger, Column, Double, Integer, LargeBinary, SmallInteger, Text

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Bring the tables to version 5. The digests of rows from before stay as they are."""
    connection = op.get_bind()
    for name, value in (("status", "running"), ("description", "")):
        op.add_column("experiments", Column(name, Text, nullable=False, server_default=value))
    connection.execute(sql.text("UPDATE experiments SET status = 'paused' WHERE paused = 1"))
    # SQLite makes the table anew: from now on the id of an experiment that was deleted is not used again.
    kind = {"sqlite_autoincrement": True}
    with op.batch_alter_table("experiments", table_kwargs=kind) as table:
        for name in ("status", "description"):
            table.alter_column(name, server_default=None)
        table.drop_column("paused")
    for name in ("shipped", "shares"):
        op.add_column("experiments", Column(name, Text))
    op.add_column("changes", Column("detail", Text))
    op.create_table(
        "outcomes",
        Column("experiment", Integer, primary_key=True, autoincrement=False),
        Column("serial", BigInteger, primary_key=True, autoincrement=False),
        Column("outcome", Integer, primary_key=True, autoincrement=False),
        Column("link", BigInteger, nullable=False),
        Column("player", Integer, nullable=False),
        Column("arm", Integer, nullable=False),
        Column("value", Double, nullable=False),
        Column("observed_at", Double, nullable=False),
        Column("digest", LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("outcomes_by_link", "outcomes", ["experiment", "link"], unique=True)
    op.create_table(
        "outcome_stats",
        Column("experiment", Integer, primary_key=True, autoincrement=False),
        Column("outcome", Integer, primary_key=True, autoincrement=False),
        Column("arm", Integer, primary_key=True, autoincrement=False),
        Column("count", BigInteger, nullable=False),
        Column("sum", BigInteger, nullable=False),
        Column("alarm", SmallInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "audit",
        Column("id", Integer, primary_key=True),
        Column("at", Double, nullable=False),
        Column("who", Text, nullable=False),
        Column("action", Text, nullable=False),
        Column("experiment", Text, nullable=False),
        Column("detail", Text, nullable=False),
        Column("digest", LargeBinary, nullable=False),
        sqlite_autoincrement=True,
    )
