"""Snapshots: everything that the pages show of an experiment at one moment."""

from __future__ import annotations

import functools
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posse.learner import Counts
from posse.learner.setup import Setup
from posse.learner.state import LearnerState
from posse.policies.statistics import SQUARES
from posse.rewards import GRID
from posse.service.dashboard.beliefs import beliefs
from posse.service.dashboard.history import ChoiceHistory, History, RecentDecision, Traffic, latest_decisions
from posse.service.storage import database, queries
from posse.service.storage.store import ServiceStore

SHOWN_PLAYERS = 40  # in the picture of who chooses what
FRESH = 1.0  # seconds for which a snapshot is kept,
REST = 20.0  # or this many times as long as reading it took, so that it takes at most a twentieth of a processor,
LONGEST = 10.0  # but no longer than this: the first reading may have waited for the compiler
MOST = 100  # experiments whose past is kept


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One experiment at one moment. Tables are [player, arm]."""

    name: str
    setup: Setup
    players: tuple[tuple[str, bool], ...]
    """Names, and whether each is here."""
    arms: tuple[tuple[str, bool], ...]
    paused: bool
    decisions: int
    events: int
    rewards: int
    waiting: int
    now: float
    counts: Counts
    """Pulls whose reward is known, and their rewards in the user's units."""
    squares: np.ndarray
    """Sums of squares of the rewards on [0, 1]."""
    chosen: np.ndarray
    """Pulls, including those that wait for a reward, int."""
    estimates: np.ndarray
    """What the policy believes of the mean rewards, in the user's units; NaN where nothing is known."""
    lows: np.ndarray
    """The lower ends of the 95 % intervals."""
    highs: np.ndarray
    weights: np.ndarray
    """How much each index rests on other players' data, 0 to 1."""
    probabilities: np.ndarray
    """The chance of each arm if the player chose now; 0 for arms that are not offered."""
    choices: ChoiceHistory
    traffic: Traffic
    recent: tuple[RecentDecision, ...]


def numbers_of(state: LearnerState) -> dict[str, Any]:
    """The fields of a snapshot that the learner's state knows."""
    counts, indices = state.counts(), queries.indices(state)
    estimates, lows, highs = beliefs(state)
    return {
        "setup": state.setup,
        "players": tuple(state.player_roster),
        "arms": tuple(state.arm_roster),
        "decisions": state.decisions,
        "events": state.events,
        "rewards": int(counts.pulls.sum()),
        "waiting": int(state.waiting.sum()),
        "counts": counts,
        "squares": state.known.statistics[SQUARES].T / GRID,
        "chosen": counts.pulls + state.waiting.T,
        "estimates": estimates,
        "lows": lows,
        "highs": highs,
        "weights": indices.weights,
        "probabilities": indices.probabilities,
    }


@dataclass
class _Kept:
    """What is kept of one experiment. Whoever holds the lock may read it anew."""

    history: History
    lock: threading.Lock = field(default_factory=threading.Lock)
    snapshot: Snapshot | None = None
    until: float = 0.0


class Snapshots:
    """Reads snapshots from the database: one reader at a time for each experiment, and at most every second."""

    def __init__(self, store: ServiceStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept = functools.lru_cache(MOST)(lambda name, number: _Kept(History(number)))

    def of(self, name: str) -> Snapshot:
        """The experiment as it was at most a moment ago."""
        row = self._store.read(queries.find, name)
        with self._lock:
            kept = self._kept(name, row["id"])
        with kept.lock:
            began = time.monotonic()
            old = kept.snapshot
            if old is None or began >= kept.until or old.paused != bool(row["paused"]):
                kept.snapshot = self._read(name, row["created_at"], kept.history)
                ended = time.monotonic()
                kept.until = ended + min(max(FRESH, REST * (ended - began)), LONGEST)
            assert kept.snapshot is not None
            return kept.snapshot

    def _read(self, name: str, created_at: float, history: History) -> Snapshot:
        with database.reading(self._store.engine) as connection:
            live = queries.live_experiment(connection, name)
            state, numbers = live.state, numbers_of(live.state)
            now = max(float(self._store.clock()), live.time)
            shown = np.flatnonzero(state.player_roster.here)[:SHOWN_PLAYERS]
            players, arms = state.player_roster.names, state.arm_roster.names
            return Snapshot(
                name=name,
                paused=live.paused,
                now=now,
                choices=history.choices(connection, state.decisions, shown, len(arms)),
                traffic=history.traffic(connection, state.decisions, live.links, numbers["waiting"], created_at, now),
                recent=latest_decisions(connection, live.id, players, arms),
                **numbers,
            )
