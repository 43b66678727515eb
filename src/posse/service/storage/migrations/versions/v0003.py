"""Only pairs with data have a row; totals in the experiment's row; a policy's summary in a table of its own.

Players may have attributes. Those of before have none, and their digests stay as they are.
"""

import sqlalchemy as sql
from alembic import op
from sqlalchemy import BigInteger, Column, Integer, LargeBinary, Text

revision = "0003"
down_revision = "0002"

TOTALS = """
    UPDATE experiments SET
        rewards = (SELECT coalesce(sum(pulls), 0) FROM stats WHERE experiment = experiments.id),
        waiting = (SELECT coalesce(sum(stats.waiting), 0) FROM stats WHERE experiment = experiments.id)
"""


def upgrade() -> None:
    """Bring the tables to version 3; policies with a summary wait for `posse db rebuild`, which knows its new form."""
    connection = op.get_bind()
    for name in ("rewards", "waiting"):
        op.add_column("experiments", Column(name, BigInteger, nullable=False, server_default="0"))
    connection.execute(sql.text(TOTALS))
    if connection.dialect.name == "postgresql":  # SQLite cannot take a default back, and needs it for no new row
        for name in ("rewards", "waiting"):
            op.alter_column("experiments", name, server_default=None)
    op.drop_column("experiments", "summary")
    op.add_column("players", Column("attributes", Text))
    op.create_table(
        "summaries",
        Column("experiment", Integer, primary_key=True, autoincrement=False),
        Column("players", Integer, nullable=False),
        Column("content", LargeBinary, nullable=False),
    )
    empty = "numbers = zeroblob(length(numbers))"
    if connection.dialect.name == "postgresql":
        empty = "numbers = decode(repeat('00', length(numbers)), 'hex')"
    connection.execute(
        sql.text(f"DELETE FROM stats WHERE pulls = 0 AND waiting = 0 AND {empty} AND length(numbers) > 0")
    )
