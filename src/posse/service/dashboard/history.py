"""What happened to an experiment over time. What is past does not change, so it is read once and kept."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy.engine import Connection

from posse.service.dashboard import queries
from posse.service.dashboard.snapshot import Trail

STRETCHES = 80  # in the picture of who chooses what, at most
SAMPLE = 512  # decisions that are counted of a stretch
SECONDS, WINDOWS = 10, 60  # of traffic: so many stretches of so many seconds


@dataclass
class History:
    """One experiment's past, as far as pages have shown it."""

    experiment: int
    size: int = 1
    """Decisions in a stretch, a power of two."""
    counted: list[np.ndarray] = field(default_factory=list)
    """For each whole stretch: player, arm and number of decisions, [pair, 3]."""
    edges: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By the number of a window of time: the first decision in it or later, and the first reward's row in the log."""
    came: dict[int, int] = field(default_factory=dict)
    """How many rewards came in it."""

    def trail(self, connection: Connection, made: int, players: np.ndarray, arms: int) -> Trail:
        """What was chosen, in stretches of equally many decisions, by some of the players and by everybody."""
        while made > STRETCHES * self.size:
            self._double()
        while (len(self.counted) + 1) * self.size <= made:
            self.counted.append(self._stretch(connection, len(self.counted), made))
        stretches = list(self.counted)
        if len(stretches) * self.size < made:
            stretches.append(self._stretch(connection, len(stretches), made))
        row = np.full(int(players.max(initial=-1)) + 1, -1)
        row[players] = np.arange(len(players))
        counts, everybody = np.zeros((len(stretches), len(players), arms)), np.zeros((len(stretches), arms))
        for number, pairs in enumerate(stretches):
            np.add.at(everybody[number], pairs[:, 1], pairs[:, 2])
            shown = pairs[pairs[:, 0] < len(row)]
            shown = shown[row[shown[:, 0]] >= 0]
            np.add.at(counts[number], (row[shown[:, 0]], shown[:, 1]), shown[:, 2])
        return Trail(self.size, players, counts, everybody)

    def _stretch(self, connection: Connection, number: int, made: int) -> np.ndarray:
        start = number * self.size
        stop = min(start + self.size, start + SAMPLE, made)
        return queries.chosen_between(connection, self.experiment, start, stop)

    def _double(self) -> None:
        """Make one stretch of every two; a last one without a partner is counted again later."""
        pairs = zip(self.counted[::2], self.counted[1::2], strict=False)
        self.counted = [np.concatenate(pair) for pair in pairs]
        self.size *= 2

    def rates(
        self, connection: Connection, made: int, links: int, created_at: float, now: float
    ) -> tuple[np.ndarray, ...]:
        """The ends of windows of time up to now, and the decisions and rewards in each."""
        last = math.floor(now / SECONDS)
        windows = range(max(last - WINDOWS + 1, min(math.floor(created_at / SECONDS), last)), last + 1)
        self.edges = {window: edge for window, edge in self.edges.items() if window in windows}
        self.came = {window: count for window, count in self.came.items() if window in windows}
        low = (0, 0)
        for window in windows:
            if window not in self.edges:
                time = float(window * SECONDS)
                self.edges[window] = (
                    queries.first_decision_at(connection, self.experiment, time, low[0], made),
                    queries.first_reward_at(connection, self.experiment, time, low[1], links + 1),
                )
            low = self.edges[window]
        firsts = [*(self.edges[window] for window in windows), (made, links + 1)]
        for window, ((_, start), (_, stop)) in zip(windows, itertools.pairwise(firsts), strict=True):
            if window not in self.came:
                self.came[window] = queries.rewards_between(connection, self.experiment, start, stop)
        times = np.array([*(window * SECONDS for window in windows), max(now, last * SECONDS + 1.0)], float)
        found = times, np.diff([serial for serial, _ in firsts]), np.array([self.came[window] for window in windows])
        del self.came[last]  # it goes on
        return found
