"""The numbers of a pair in one column, as the policy declares them, in place of a fixed list of columns."""

import sqlalchemy as sql
from alembic import op
from sqlalchemy import BigInteger, Column, Integer, LargeBinary

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table anew. The numbers are missing: the service, or `posse db rebuild`, makes them from the log."""
    op.rename_table("stats", "stats_1")
    op.create_table(
        "stats",
        *(Column(name, Integer, primary_key=True, autoincrement=False) for name in ("experiment", "player", "arm")),
        Column("pulls", BigInteger, nullable=False),
        Column("waiting", BigInteger, nullable=False),
        Column("numbers", LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    kept = "experiment, player, arm, pulls, waiting"
    nothing = sql.bindparam("nothing", b"", LargeBinary)
    copied = sql.text(f"INSERT INTO stats ({kept}, numbers) SELECT {kept}, :nothing FROM stats_1")
    op.get_bind().execute(copied.bindparams(nothing))
    op.drop_table("stats_1")
