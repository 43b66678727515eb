"""What the pages read from an experiment's log. No query takes longer as the log grows."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.service.storage.log_rows import SAME_DECISION
from posse.service.storage.schema import decisions, rewards

STRETCHES = 80  # the most stretches in the picture of who chooses what
SAMPLE = 512  # how many decisions of a stretch are counted
SECONDS, WINDOWS = 10, 60  # traffic is counted in this many windows of this many seconds
LATEST_DECISIONS = 15  # in the list of the latest decisions
LATEST_REWARDS = 500  # rewards that show how long rewards take
SEARCHED = 5000  # latest decisions among which the oldest waiting one is searched


@dataclass(frozen=True)
class RecentDecision:
    """One of the latest decisions."""

    player: str
    arm: str
    propensity: float
    shared: float
    holdout: bool
    decided_at: float
    reward: float | None
    """None while the decision waits for it."""
    observed_at: float | None
    defaulted: bool


@dataclass(frozen=True, eq=False)
class ChoiceHistory:
    """What was chosen, in stretches of equally many decisions. Of a long stretch only a sample is counted."""

    size: int
    """Decisions in a stretch; the last stretch may have fewer."""
    players: np.ndarray
    """The places of the players that are counted one by one."""
    counts: np.ndarray
    """The decisions of these players, [stretch, player, arm]."""
    everybody: np.ndarray
    """The decisions of all players, [stretch, arm]."""


@dataclass(frozen=True, eq=False)
class Traffic:
    """Decisions and rewards in recent windows of time, and how long rewards take."""

    times: np.ndarray
    """The edges of the windows, in seconds: one more than there are windows."""
    decisions: np.ndarray
    rewards: np.ndarray
    delays: np.ndarray
    """Seconds from decision to reward, for those of the latest rewards that were reported."""
    oldest: float | None
    """When the oldest waiting decision among the latest was made; None if none of them waits."""
    older: bool
    """Whether still older decisions wait."""
    defaulted: int
    """How many of the latest rewards are default rewards."""
    latest: int
    """How many latest rewards were looked at."""


@dataclass
class History:
    """One experiment's past. The past does not change, so whatever was counted once is kept."""

    experiment: int
    size: int = 1
    """Decisions in a stretch, a power of two."""
    counted: list[np.ndarray] = field(default_factory=list)
    """For each full stretch: player, arm and number of decisions, [pair, 3]."""
    edges: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By window: the serial number of its first decision, and the log's row of its first reward."""
    rewarded: dict[int, int] = field(default_factory=dict)
    """By window: how many rewards came in it."""

    def choices(self, connection: Connection, made: int, players: np.ndarray, arms: int) -> ChoiceHistory:
        """What these players, sorted, and what everybody chose, in stretches of equally many decisions."""
        while made > STRETCHES * self.size:  # make one stretch of every two; one without a partner is counted again
            couples = zip(self.counted[::2], self.counted[1::2], strict=False)
            self.counted = [np.concatenate(couple) for couple in couples]
            self.size *= 2
        while (len(self.counted) + 1) * self.size <= made:
            self.counted.append(self._stretch(connection, len(self.counted), made))
        stretches = list(self.counted)
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

    def traffic(
        self, connection: Connection, made: int, links: int, waiting: int, created_at: float, now: float
    ) -> Traffic:
        """Recent traffic, of an experiment with so many decisions, rows in its log, and waiting decisions."""
        last = math.floor(now / SECONDS)
        windows = range(max(last - WINDOWS + 1, min(math.floor(created_at / SECONDS), last)), last + 1)
        self.edges = {window: edge for window, edge in self.edges.items() if window in windows}
        self.rewarded = {window: count for window, count in self.rewarded.items() if window in windows}
        low = (0, 0)
        for window in windows:
            if window not in self.edges:
                of = connection, self.experiment, float(window * SECONDS)
                self.edges[window] = (
                    _first_at(*of, low[0], made, decisions.c.serial, decisions.c.decided_at),
                    _first_at(*of, low[1], links + 1, rewards.c.link, rewards.c.observed_at),
                )
            low = self.edges[window]
        firsts = [*(self.edges[window] for window in windows), (made, links + 1)]
        for window, ((_, start), (_, stop)) in zip(windows, itertools.pairwise(firsts), strict=True):
            if window not in self.rewarded:
                self.rewarded[window] = _rewards_between(connection, self.experiment, start, stop)
        times = np.array([*(window * SECONDS for window in windows), max(now, last * SECONDS + 1.0)], float)
        counts = np.array([self.rewarded[window] for window in windows])
        del self.rewarded[last]  # this window is not over
        delays, defaulted, latest = _delays(connection, self.experiment)
        oldest, found = _oldest_waiting(connection, self.experiment, made)
        made_in = np.diff([serial for serial, _ in firsts])
        return Traffic(times, made_in, counts, delays, oldest, found < waiting, defaulted, latest)


def latest_decisions(
    connection: Connection, experiment: int, players: list[str], arms: list[str]
) -> tuple[RecentDecision, ...]:
    """The latest decisions, newest first; `players` and `arms` are the names by place."""
    columns = [(decisions if each.name in decisions.c else rewards).c[each.name] for each in fields(RecentDecision)]
    query = (
        sql.select(*columns)
        .select_from(decisions.outerjoin(rewards, SAME_DECISION))
        .where(decisions.c.experiment == experiment)
        .order_by(decisions.c.serial.desc())
        .limit(LATEST_DECISIONS)
    )
    found = []
    for row in connection.execute(query).mappings():
        flags = {name: bool(row[name]) for name in ("holdout", "defaulted")}
        found.append(RecentDecision(**{**row, **flags, "player": players[row["player"]], "arm": arms[row["arm"]]}))
    return tuple(found)


def _delays(connection: Connection, experiment: int) -> tuple[np.ndarray, int, int]:
    """Seconds from decision to reward of the latest rewards, how many were defaults, and how many there are."""
    query = (
        sql.select(rewards.c.observed_at - decisions.c.decided_at, rewards.c.defaulted)
        .select_from(rewards.join(decisions, SAME_DECISION))
        .where(rewards.c.experiment == experiment)
        .order_by(rewards.c.link.desc())
        .limit(LATEST_REWARDS)
    )
    rows = connection.execute(query).all()
    reported = np.array([seconds for seconds, defaulted in rows if not defaulted], float)
    return np.maximum(reported, 0.0), len(rows) - len(reported), len(rows)


def _oldest_waiting(connection: Connection, experiment: int, made: int) -> tuple[float | None, int]:
    """When the oldest waiting decision among the latest was made, and how many of these wait."""
    query = (
        sql.select(sql.func.min(decisions.c.decided_at), sql.func.count())
        .select_from(decisions.outerjoin(rewards, SAME_DECISION))
        .where(decisions.c.experiment == experiment, decisions.c.serial >= made - SEARCHED, rewards.c.serial.is_(None))
    )
    oldest, count = connection.execute(query).one()
    return oldest, count


def _rewards_between(connection: Connection, experiment: int, start: int, stop: int) -> int:
    """How many rewards are in the log from row `start` to before row `stop`."""
    link = rewards.c.link
    query = sql.select(sql.func.count()).where(rewards.c.experiment == experiment, link >= start, link < stop)
    return int(connection.execute(query).scalar_one())


def _first_at(connection: Connection, experiment: int, time: float, low: int, high: int, number: Any, at: Any) -> int:
    """The number of the first row from this time on; `high` if there is none.

    Times never go back in the log, so it halves the range until nothing is left of it.
    """
    while low < high:
        middle = (low + high) // 2
        query = sql.select(number, at).where(number.table.c.experiment == experiment, number >= middle)
        found = connection.execute(query.order_by(number).limit(1)).first()
        if found is None or found[1] >= time:
            high = middle
        else:
            low = found[0] + 1
    return low
