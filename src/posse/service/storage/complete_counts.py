"""What an experiment has earned without early rewards, where a default reward is taken (`posse.insight.logs`)."""

from dataclasses import replace

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.learner import Counts
from posse.service.storage.live_experiment import LiveExperiment
from posse.service.storage.log_rows import SAME_DECISION
from posse.service.storage.schema import decisions, rewards

_FIRST = sql.bindparam("first", type_=sql.BigInteger)
WAITS = (
    sql.select(decisions.c.serial)
    .select_from(decisions.outerjoin(rewards, SAME_DECISION))
    .where(decisions.c.experiment == sql.bindparam("experiment"), decisions.c.serial >= _FIRST)
    .where(rewards.c.serial.is_(None))
    .order_by(decisions.c.serial)
    .limit(1)
)
EARLY = (  # rewards of the past, which have no decision, have numbers below 0
    sql.select(
        *(rewards.c.player, rewards.c.arm, sql.func.count(), sql.func.sum(rewards.c.reward)),
        sql.func.sum(rewards.c.reward * rewards.c.reward),
    )
    .where(rewards.c.experiment == sql.bindparam("experiment"), rewards.c.serial > _FIRST)
    .group_by(rewards.c.player, rewards.c.arm)
)


def complete_counts(connection: Connection, live: LiveExperiment) -> tuple[Counts, int | None]:
    """The counts without early rewards, and how many these are; None if no default reward is taken."""
    counts = live.state.counts()
    if live.state.setup.default_reward is None or counts.squares is None:
        return counts, None
    wanted = {"experiment": live.id, "first": live.oldest_serial}
    waits = connection.execute(WAITS, wanted).scalar()
    if waits is None:
        return counts, 0
    low, unit = counts.low, counts.high - counts.low
    pulls, sums, squares = counts.pulls.copy(), (counts.sums - low * counts.pulls) / unit, counts.squares.copy()
    early = connection.execute(EARLY, wanted | {"first": waits}).all()
    for player, arm, count, total, square in early:
        pulls[player, arm] -= count
        sums[player, arm] -= (total - low * count) / unit
        squares[player, arm] -= (square - 2 * low * total + low * low * count) / unit**2
    sums, squares = (np.clip(each, 0, pulls) for each in (sums, squares))  # they were rounded one by one
    found = replace(counts, pulls=pulls, sums=low * pulls + unit * sums, squares=squares)
    return found, sum(row[2] for row in early)
