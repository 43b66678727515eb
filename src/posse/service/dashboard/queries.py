"""What the pages read from the log: each in a time that does not grow with the log's length."""

from __future__ import annotations

from typing import Any

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.service.dashboard.snapshot import Recent
from posse.service.storage.schema import decisions, rewards

LATEST = 500  # rewards that tell how long rewards take
LOOKED_AT = 5000  # decisions among which the oldest that waits is looked for


def recent(
    connection: Connection, experiment: int, count: int, names: tuple[list[str], list[str]]
) -> tuple[Recent, ...]:
    """The latest decisions, the newest first; `names` are those of players and of arms, by place."""
    columns = decisions.c
    query = (
        sql.select(
            columns.player,
            columns.arm,
            columns.propensity,
            columns.shared,
            columns.holdout,
            columns.decided_at,
            rewards.c.reward,
            rewards.c.observed_at,
            rewards.c.defaulted,
        )
        .select_from(decisions.outerjoin(rewards, _same_decision()))
        .where(columns.experiment == experiment)
        .order_by(columns.serial.desc())
        .limit(count)
    )
    found = []
    for row in connection.execute(query).mappings():
        values = {**row, "player": names[0][row["player"]], "arm": names[1][row["arm"]]}
        found.append(Recent(**{**values, "holdout": bool(row["holdout"]), "defaulted": bool(row["defaulted"])}))
    return tuple(found)


def delays(connection: Connection, experiment: int) -> tuple[np.ndarray, int, int]:
    """Seconds from decision to reward of the latest rewards, how many took the default, and of how many."""
    query = (
        sql.select(rewards.c.observed_at - decisions.c.decided_at, rewards.c.defaulted)
        .select_from(rewards.join(decisions, _same_decision()))
        .where(rewards.c.experiment == experiment)
        .order_by(rewards.c.link.desc())
        .limit(LATEST)
    )
    rows = connection.execute(query).all()
    reported = np.array([seconds for seconds, defaulted in rows if not defaulted], float)
    return np.maximum(reported, 0.0), len(rows) - len(reported), len(rows)


def oldest_waiting(connection: Connection, experiment: int, made: int) -> tuple[float | None, int]:
    """When the oldest decision without a reward was made, among the latest, and how many of these have none."""
    query = (
        sql.select(sql.func.min(decisions.c.decided_at), sql.func.count())
        .select_from(decisions.outerjoin(rewards, _same_decision()))
        .where(decisions.c.experiment == experiment, decisions.c.serial >= made - LOOKED_AT, rewards.c.serial.is_(None))
    )
    oldest, count = connection.execute(query).one()
    return oldest, count


def chosen_between(connection: Connection, experiment: int, start: int, stop: int) -> np.ndarray:
    """Player, arm and number of the decisions with these serial numbers, int [pair, 3]."""
    columns = decisions.c
    query = (
        sql.select(columns.player, columns.arm, sql.func.count())
        .where(columns.experiment == experiment, columns.serial >= start, columns.serial < stop)
        .group_by(columns.player, columns.arm)
    )
    return np.array([tuple(row) for row in connection.execute(query)], np.int64).reshape(-1, 3)


def rewards_between(connection: Connection, experiment: int, start: int, stop: int) -> int:
    """How many rewards are in the log from one row to before another."""
    columns = rewards.c
    query = sql.select(sql.func.count()).where(
        columns.experiment == experiment, columns.link >= start, columns.link < stop
    )
    return int(connection.execute(query).scalar_one())


def first_decision_at(connection: Connection, experiment: int, time: float, low: int, high: int) -> int:
    """The serial number of the first decision that was made at this time or later; `high` if there is none."""
    return _first_at(connection, experiment, time, low, high, decisions.c.serial, decisions.c.decided_at)


def first_reward_at(connection: Connection, experiment: int, time: float, low: int, high: int) -> int:
    """The row of the log with the first reward that came at this time or later; `high` if there is none."""
    return _first_at(connection, experiment, time, low, high, rewards.c.link, rewards.c.observed_at)


def _first_at(connection: Connection, experiment: int, time: float, low: int, high: int, number: Any, at: Any) -> int:
    """Times never go back in the log, so this halves the range until nothing is left of it."""
    while low < high:
        middle = (low + high) // 2
        query = sql.select(number, at).where(number.table.c.experiment == experiment, number >= middle)
        found = connection.execute(query.order_by(number).limit(1)).first()
        if found is None or found[1] >= time:
            high = middle
        else:
            low = found[0] + 1
    return low


def _same_decision() -> Any:
    return sql.and_(rewards.c.experiment == decisions.c.experiment, rewards.c.serial == decisions.c.serial)
