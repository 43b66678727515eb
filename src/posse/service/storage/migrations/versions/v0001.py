"""The first version."""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op
from sqlalchemy import BigInteger, Column, Double, ForeignKey, Integer, LargeBinary, SmallInteger, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create everything."""
    _create_experiments()
    _create_log()
    op.create_table(
        "stats",
        *_place("player", "arm"),
        *(Column(name, BigInteger, nullable=False) for name in ("pulls", "sums", "squares", "own_pulls", "own_sums")),
        Column("waiting", BigInteger, nullable=False),
        Column("seen_n", Double, nullable=False),
        Column("seen_s", Double, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tokens",
        Column("id", Integer, primary_key=True),
        Column("hash", LargeBinary, nullable=False),
        Column("scopes", Text, nullable=False),
        Column("experiment", Integer, ForeignKey("experiments.id")),
        Column("label", Text, nullable=False),
        Column("created_at", Double, nullable=False),
        Column("expires_at", Double),
        Column("revoked_at", Double),
        Column("digest", LargeBinary, nullable=False),
    )


def _place(*names: str) -> list[Column[int]]:
    """The columns of a primary key that begins with the experiment."""
    kinds = {"link": BigInteger, "serial": BigInteger}
    return [
        Column(name, kinds.get(name, Integer), primary_key=True, autoincrement=False) for name in ("experiment", *names)
    ]


def _create_experiments() -> None:
    op.create_table(
        "experiments",
        Column("id", Integer, primary_key=True),
        Column("name", Text, nullable=False, unique=True),
        Column("setup", Text, nullable=False),
        Column("created_at", Double, nullable=False),
        Column("first_players", Integer, nullable=False),
        Column("first_arms", Integer, nullable=False),
        Column("origin", LargeBinary, nullable=False),
        Column("paused", SmallInteger, nullable=False),
        *(Column(name, BigInteger, nullable=False) for name in ("rounds", "decisions", "events", "links")),
        Column("head", LargeBinary, nullable=False),
        Column("time", Double, nullable=False),
        Column("summary", LargeBinary, nullable=False),
    )
    for table in ("players", "arms"):
        op.create_table(
            table,
            Column("experiment", Integer, ForeignKey("experiments.id"), primary_key=True),
            Column("place", Integer, primary_key=True, autoincrement=False),
            Column("name", Text, nullable=False),
            Column("here", SmallInteger, nullable=False),
            Column("digest", LargeBinary, nullable=False),
            sql.UniqueConstraint("experiment", "name"),
        )


def _create_log() -> None:
    op.create_table(
        "decisions",
        *_place("serial"),
        *(Column(name, BigInteger, nullable=False) for name in ("link", "tag", "round")),
        *(Column(name, Integer, nullable=False) for name in ("player", "arm")),
        *(Column(name, Double, nullable=False) for name in ("propensity", "shared")),
        Column("holdout", SmallInteger, nullable=False),
        Column("decided_at", Double, nullable=False),
        Column("probabilities", LargeBinary),
        Column("offered", LargeBinary),
        Column("restricted", SmallInteger, nullable=False),
        Column("request_key", Text),
        Column("position", Integer, nullable=False),
        Column("digest", LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    asked = sql.text("request_key IS NOT NULL")
    op.create_index(
        "decisions_by_key",
        "decisions",
        ["experiment", "request_key", "position"],
        unique=True,
        sqlite_where=asked,
        postgresql_where=asked,
    )
    op.create_table(
        "rewards",
        *_place("serial"),
        *(Column(name, BigInteger, nullable=False) for name in ("link", "event", "round")),
        *(Column(name, Integer, nullable=False) for name in ("player", "arm")),
        *(Column(name, Double, nullable=False) for name in ("reward", "seen_n", "seen_s")),
        Column("defaulted", SmallInteger, nullable=False),
        Column("observed_at", Double, nullable=False),
        Column("digest", LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("rewards_by_link", "rewards", ["experiment", "link"], unique=True)
    op.create_table(
        "changes",
        *_place("link"),
        Column("event", BigInteger, nullable=False),
        Column("kind", Text, nullable=False),
        Column("place", BigInteger, nullable=False),
        Column("knows_others", SmallInteger, nullable=False),
        Column("at", Double, nullable=False),
        Column("digest", LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
