"""What the pages read from an experiment's log. No query takes longer as the log grows."""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.service.storage import log_rows
from posse.service.storage.schema import decisions, rewards

STRETCHES = 80  # the most stretches in the picture of who chooses what
SAMPLE = 512  # how many decisions of a stretch are counted
SECONDS, WINDOWS = 10, 60  # traffic is counted in this many windows of this many seconds
LATEST_DECISIONS = 15  # in the list of the latest decisions
LATEST_REWARDS = 500  # rewards that show how long rewards take
SEARCHED = 5000  # latest decisions among which the oldest waiting one is searched
RECENT = [
    *(decisions.c[name] for name in ("player", "arm", "propensity", "shared", "holdout", "decided_at")),
    *(rewards.c[name] for name in ("reward", "observed_at", "defaulted")),
]
"""The columns in the list of the latest decisions."""


class ChoiceHistory(NamedTuple):
    """What was chosen, in stretches of equally many decisions. Of a long stretch only a sample is counted."""

    size: int  # decisions in a stretch; the last stretch may have fewer
    players: np.ndarray  # the places of the players that are counted one by one
    counts: np.ndarray  # the decisions of these players, [stretch, player, arm]
    everybody: np.ndarray  # the decisions of all players, [stretch, arm]


class Traffic(NamedTuple):
    """Decisions and rewards in recent windows of time."""

    times: np.ndarray  # the edges of the windows, in seconds: one more than there are windows
    decisions: np.ndarray
    rewards: np.ndarray


class Lateness(NamedTuple):
    """How long rewards take, and which decisions wait for theirs."""

    delays: tuple[float, ...]
    """Seconds in which half, and 19 of 20, of the latest reported rewards came; empty if none was reported."""
    defaulted: int  # how many of the latest rewards are default rewards
    latest: int  # how many latest rewards were looked at
    oldest: float | None  # when the oldest waiting decision among the latest was made; None if none of them waits
    older: bool  # whether still older decisions wait


@dataclass
class History:
    """One experiment's past. The past does not change, so whatever was counted once is kept."""

    experiment: int
    size: int = 1  # decisions in a stretch, a power of two
    stretches: list[np.ndarray] = field(default_factory=list)
    """For each full stretch: player, arm and number of decisions, [pair, 3]."""
    windows: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=WINDOWS - 1))
    """Decisions and rewards in each of the latest windows that are over."""
    window: int = 0  # the number of the window after these
    start: tuple[int, int] = (0, 0)  # the serial number of its first decision, and the log's row of its first reward

    def choices(self, connection: Connection, made: int, players: np.ndarray, arms: int) -> ChoiceHistory:
        """What these players, sorted, and what everybody chose, in stretches of equally many decisions."""
        while made > STRETCHES * self.size:  # make one stretch of every two; one without a partner is counted again
            couples = zip(self.stretches[::2], self.stretches[1::2], strict=False)
            self.stretches = [np.concatenate(couple) for couple in couples]
            self.size *= 2
        while (len(self.stretches) + 1) * self.size <= made:
            self.stretches.append(self._stretch(connection, len(self.stretches), made))
        stretches = list(self.stretches)
        if len(stretches) * self.size < made:
            stretches.append(self._stretch(connection, len(stretches), made))
        counts, everybody = np.zeros((len(stretches), len(players), arms)), np.zeros((len(stretches), arms))
        for number, pairs in enumerate(stretches):
            np.add.at(everybody[number], pairs[:, 1], pairs[:, 2])
            shown = pairs[np.isin(pairs[:, 0], players)]
            np.add.at(counts[number], (np.searchsorted(players, shown[:, 0]), shown[:, 1]), shown[:, 2])
        return ChoiceHistory(self.size, players, counts, everybody)

    def _stretch(self, connection: Connection, number: int, made: int) -> np.ndarray:
        """Player, arm and number of decisions in a stretch, int [pair, 3]."""
        start, columns = number * self.size, decisions.c
        stop = min(start + self.size, start + SAMPLE, made)
        query = (
            sql.select(columns.player, columns.arm, sql.func.count())
            .where(columns.experiment == self.experiment, columns.serial >= start, columns.serial < stop)
            .group_by(columns.player, columns.arm)
        )
        return np.array([tuple(row) for row in connection.execute(query)], np.int64).reshape(-1, 3)

    def traffic(self, connection: Connection, made: int, links: int, created_at: float, now: float) -> Traffic:
        """Recent traffic, of an experiment with so many decisions, and rows in its log."""
        last = max(math.floor(now / SECONDS), self.window)
        first = max(last - WINDOWS + 1, min(math.floor(created_at / SECONDS), last))
        if self.window < first:
            self.windows.clear()
            self.window, self.start = first, self._start(connection, first, made, links)
        while self.window < last:
            stop = self._start(connection, self.window + 1, made, links)
            self.windows.append(self._between(connection, stop))
            self.window, self.start = self.window + 1, stop
        counts = np.array([*self.windows, self._between(connection, (made, links + 1))])
        times = [float(SECONDS * window) for window in range(last - len(self.windows), last + 1)]
        return Traffic(np.array([*times, max(now, times[-1] + 1)]), *counts.T)

    def _start(self, connection: Connection, window: int, made: int, links: int) -> tuple[int, int]:
        """The first decision and the first reward of a window."""
        (serial, link), in_window = self.start, lambda found: found[1] >= SECONDS * window
        return (
            log_rows.first_row(connection, self.experiment, range(serial, made), in_window),
            log_rows.first_row(connection, self.experiment, range(link, links + 1), in_window, log_rows.NEXT_REWARD),
        )

    def _between(self, connection: Connection, stop: tuple[int, int]) -> tuple[int, int]:
        """How many decisions and rewards there are from `start` to before `stop`."""
        link, (serial, first) = rewards.c.link, self.start
        query = sql.select(sql.func.count()).where(rewards.c.experiment == self.experiment)
        return stop[0] - serial, connection.execute(query.where(link >= first, link < stop[1])).scalar_one()


def latest_decisions(connection: Connection, experiment: int) -> list[sql.Row[Any]]:
    """The latest decisions, newest first, with their rewards if these are known."""
    query = sql.select(*RECENT).select_from(decisions.outerjoin(rewards, log_rows.SAME_DECISION))
    query = query.where(decisions.c.experiment == experiment).order_by(decisions.c.serial.desc())
    return list(connection.execute(query.limit(LATEST_DECISIONS)))


def lateness(connection: Connection, experiment: int, made: int, waiting: int) -> Lateness:
    """How late rewards come, in an experiment with so many decisions, some of them waiting."""
    query = (
        sql.select(rewards.c.observed_at - decisions.c.decided_at, rewards.c.defaulted)
        .select_from(rewards.join(decisions, log_rows.SAME_DECISION))
        .where(rewards.c.experiment == experiment)
        .order_by(rewards.c.link.desc())
        .limit(LATEST_REWARDS)
    )
    rows = connection.execute(query).all()
    reported = [max(seconds, 0.0) for seconds, defaulted in rows if not defaulted]
    delays = np.quantile(reported, (0.5, 0.95)).tolist() if reported else ()
    query = (
        sql.select(sql.func.min(decisions.c.decided_at), sql.func.count())
        .select_from(decisions.outerjoin(rewards, log_rows.SAME_DECISION))
        .where(decisions.c.experiment == experiment, decisions.c.serial >= made - SEARCHED, rewards.c.serial.is_(None))
    )
    oldest, found = connection.execute(query).one()
    return Lateness(tuple(delays), len(rows) - len(reported), len(rows), oldest, found < waiting)
