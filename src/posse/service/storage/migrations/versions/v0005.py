"""An experiment has a status and a description; changes may have details; further outcomes; who did what."""

from typing import Any

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
        *_keys(experiment=Integer, serial=BigInteger, outcome=Integer),
        *_columns(link=BigInteger, player=Integer, arm=Integer, value=Double, observed_at=Double, digest=LargeBinary),
        sqlite_with_rowid=False,
    )
    op.create_index("outcomes_by_link", "outcomes", ["experiment", "link"], unique=True)
    op.create_table(
        "outcome_stats",
        *_keys(experiment=Integer, outcome=Integer, arm=Integer),
        *_columns(count=BigInteger, sum=BigInteger, alarm=SmallInteger),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "audit",
        Column("id", Integer, primary_key=True),
        *_columns(at=Double, who=Text, action=Text, experiment=Text, detail=Text, digest=LargeBinary),
        sqlite_autoincrement=True,
    )


def _keys(**kinds: Any) -> list[Column[Any]]:
    return [Column(name, kind, primary_key=True, autoincrement=False) for name, kind in kinds.items()]


def _columns(**kinds: Any) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name, kind in kinds.items()]
