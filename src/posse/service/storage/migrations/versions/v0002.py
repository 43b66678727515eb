"""The numbers of a pair in one column, as the policy declares them, in place of a fixed list of columns."""

import json
import struct
from typing import Any

import sqlalchemy as sql
from alembic import op
from sqlalchemy import BigInteger, Column, Integer, LargeBinary

revision = "0002"
down_revision = "0001"

AT_OWN_PULL = ("RobustAggTS", "IndTS", "IndUCB")  # the policies of version 1 by when they were refreshed
AT_ANY_PULL = ("RobustAggTSV", "RobustAgg", "NaiveAgg", "HierTS")
BY_SCHEDULE = ("PosseTS", "IndTSV")
KEPT = ("experiment", "player", "arm", "pulls", "waiting")  # columns that stay as they are
AT_ONCE = 1000


def upgrade() -> None:
    """Make the table anew; pairs of a user's own policy wait for `posse db rebuild`."""
    connection = op.get_bind()
    op.rename_table("stats", "stats_1")
    stats = op.create_table(
        "stats",
        *(Column(name, Integer, primary_key=True, autoincrement=False) for name in ("experiment", "player", "arm")),
        Column("pulls", BigInteger, nullable=False),
        Column("waiting", BigInteger, nullable=False),
        Column("numbers", LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    for id_, setup, summary in connection.execute(sql.text("SELECT id, setup, summary FROM experiments")).all():
        policy, here = json.loads(setup)["policy"]["name"], {"id": id_}
        pairs = connection.execute(sql.text("SELECT * FROM stats_1 WHERE experiment = :id"), here).mappings().all()
        for start in range(0, len(pairs), AT_ONCE):
            some = pairs[start : start + AT_ONCE]
            made = [{name: pair[name] for name in KEPT} | {"numbers": _numbers(policy, pair)} for pair in some]
            connection.execute(sql.insert(stats), made)
        summary = bytes(summary) if policy in BY_SCHEDULE else b""
        if policy == "IndTSV":  # it had a number for each arm that it never used
            arms = connection.execute(sql.text("SELECT count(*) FROM arms WHERE experiment = :id"), here).scalar_one()
            summary = summary[:8] + summary[8 + 8 * arms :]
        update = sql.text("UPDATE experiments SET summary = :summary WHERE id = :id")
        connection.execute(update, {**here, "summary": summary})
    op.drop_table("stats_1")


def _numbers(policy: str, pair: Any) -> bytes:
    statistics = struct.pack("<3q", pair["pulls"], pair["sums"], pair["squares"])
    if policy in AT_OWN_PULL:
        return statistics + struct.pack("<2d", pair["seen_n"], pair["seen_s"])
    if policy in BY_SCHEDULE:
        return statistics + struct.pack("<3q", pair["own_pulls"], pair["own_sums"], 0)
    return statistics if policy in AT_ANY_PULL else b""
