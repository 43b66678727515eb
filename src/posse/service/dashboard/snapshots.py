"""Snapshots of experiments, read from the store and kept for a moment."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import numpy as np

from posse.service.dashboard import queries, words
from posse.service.dashboard.history import History
from posse.service.dashboard.links import experiment_page
from posse.service.dashboard.snapshot import SHOWN_PLAYERS, Snapshot, Traffic, numbers_of
from posse.service.storage import database
from posse.service.storage import queries as storage_queries
from posse.service.storage.queries import Experiment
from posse.service.storage.store import ServiceStore

LATEST = 15  # decisions in the list of the latest
FRESH = 1.0  # seconds for which a snapshot is kept,
REST = 20.0  # or this many times as long as it took, so that looking costs a twentieth of a processor at most,
LONGEST = 10.0  # but not for longer than this: the first may have had to wait for the compiler
MOST = 100  # experiments whose past is kept


@dataclass(frozen=True)
class Card:
    """An experiment on the list."""

    name: str
    address: str
    paused: bool
    about: str
    decisions: str
    rewards: str
    waiting: str
    policy: str
    created: str


@dataclass
class _Kept:
    """What is known of one experiment, and who looks after it."""

    history: History
    lock: threading.Lock = field(default_factory=threading.Lock)
    snapshot: Snapshot | None = None
    until: float = 0.0


class Snapshots:
    """Reads snapshots; each experiment's once at a time, and not more often than it can change the picture."""

    def __init__(self, store: ServiceStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, int], _Kept] = {}

    def of(self, name: str) -> Snapshot:
        """An experiment as it was at most a moment ago."""
        row = self._store.read(storage_queries.find, name)
        kept = self._keep(name, row["id"])
        with kept.lock:
            begun = time.monotonic()
            old = kept.snapshot
            if old is None or begun >= kept.until or old.paused != bool(row["paused"]):
                kept.snapshot = self._read(name, row["created_at"], kept.history)
                done = time.monotonic()
                kept.until = done + min(max(FRESH, REST * (done - begun)), LONGEST)
            assert kept.snapshot is not None
            return kept.snapshot

    def _keep(self, name: str, number: int) -> _Kept:
        with self._lock:
            if len(self._kept) > MOST:
                self._kept.clear()
            return self._kept.setdefault((name, number), _Kept(History(number)))

    def _read(self, name: str, created_at: float, history: History) -> Snapshot:
        with database.reading(self._store.engine) as connection:
            live = storage_queries.live_experiment(connection, name)
            numbers = numbers_of(live.state)
            made, experiment = live.state.decisions, live.id
            now = max(float(self._store.clock()), live.time)
            shown = np.flatnonzero(live.state.player_roster.here)[:SHOWN_PLAYERS]
            names = live.state.player_roster.names, live.state.arm_roster.names
            times, decided, rewarded = history.rates(connection, made, live.links, created_at, now)
            delays, defaulted, looked_at = queries.delays(connection, experiment)
            oldest, found = queries.oldest_waiting(connection, experiment, made)
            return Snapshot(
                name=name,
                paused=live.paused,
                now=now,
                trail=history.trail(connection, made, shown, len(names[1])),
                traffic=Traffic(
                    times, decided, rewarded, delays, oldest, found < numbers["waiting"], defaulted, looked_at
                ),
                recent=queries.recent(connection, experiment, LATEST, names),
                **numbers,
            )

    def cards(self) -> list[Card]:
        """All experiments, for the list."""
        now = float(self._store.clock())
        return [_card(each, now) for each in self._store.read(storage_queries.experiments)]


def _card(each: Experiment, now: float) -> Card:
    players, arms = (sum(here for _, here in names) for names in (each.players, each.arms))
    return Card(
        each.name,
        experiment_page(each.name),
        each.paused,
        f"{words.count(players, 'player')}, {words.count(arms, 'arm')}",
        f"{each.decisions:,}",
        f"{each.rewards:,}",
        f"{each.waiting:,}",
        each.setup.policy.label,
        words.ago(now - each.created_at),
    )
