"""Snapshots: everything that the pages show of an experiment at one moment."""

import functools
import pickle
import threading
import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from posse.confidence import reward_interval
from posse.insight.logs import left_out
from posse.insight.watching.api import Watch
from posse.learner import Counts
from posse.learner.state import LearnerState
from posse.service.dashboard.analysis_process import LARGEST
from posse.service.dashboard.history import ChoiceHistory, History, Lateness, Traffic, lateness, latest_decisions
from posse.service.dashboard.log_evidence import LogEvidence
from posse.service.storage import database, log_rows, queries
from posse.service.storage.complete_counts import complete_counts
from posse.service.storage.live_experiment import LiveExperiment
from posse.service.storage.read_cache import MOST_PAIRS, BoundedCache
from posse.service.storage.store import ServiceStore

SAMPLED = 2000  # players at most that are asked which arm looks best; asking takes some 10 µs a player
SHOWN_PLAYERS = 40  # in the picture of who chooses what
FRESH = 1.0  # seconds for which a snapshot is kept,
REST = 20.0  # or this many times as long as reading it took, so that it takes at most a twentieth of a processor,
LONGEST = 10.0  # but no longer than this: the first reading may have waited for the compiler
LEAST_PAIRS = 10_000  # that a small experiment counts as, so that no more than a hundred are kept
MOST_CHECKED = 10_000  # experiments of which is kept whether their checks raised an alarm
BYTES = 300  # of evidence that count as a pair
NORMAL_95 = 1.96  # so many standard deviations to either side hold 95 % of a normal distribution


@dataclass(eq=False, repr=False)
class Snapshot:
    """One experiment at one moment. Tables are [player, arm]; rewards are in the user's units."""

    live: LiveExperiment
    now: float
    _: KW_ONLY
    choices: ChoiceHistory
    traffic: Traffic
    late: Lateness
    recent: Sequence[Any]
    watch: Watch
    counted: Counts  # pulls whose reward is known, without early rewards: for analyses
    notes: tuple[str, ...]  # what is left out of them
    evidence: bytes  # for a conclusion, pickled; nothing where there are too many players and arms for one
    complete: bool = True  # whether all of the log has been read

    def __post_init__(self) -> None:
        live, state, shipment = self.live, self.live.state, self.live.life.shipment
        self.id, self.name, self.head, self.state = live.id, live.name, live.head.hex(), state
        self.status, self.description = live.life.status, live.life.description
        self.shipped = None if shipment is None else state.arm_roster.names[shipment.arm]
        self.shipped_for = 0 if shipment is None else len(shipment.players)  # players with an arm of their own
        self.setup, self.decisions, self.events = state.setup, state.decisions, state.events
        self.players, self.arms = tuple(state.player_roster), tuple(state.arm_roster)  # names, and whether each is here
        self.counts = state.counts()  # pulls whose reward is known
        self.rewards, self.waiting = int(self.counts.pulls.sum()), int(state.waiting.sum())
        self.chosen = self.counts.pulls + state.waiting.T  # pulls, including those that wait for a reward
        self.estimates, self.lows, self.highs = beliefs(state)
        here = np.flatnonzero(state.player_roster.here)
        self.player_count = len(here)
        self.sample = here[:: max(1, -(-len(here) // SAMPLED))]  # places of players for the top of the page
        self.sampled = queries.indices(state, self.sample)

    def values_of(self, attribute: str) -> tuple[list[str | None], np.ndarray, np.ndarray]:
        """The values of an attribute, which of them each player has, and how many players have each."""
        places: dict[str | None, int] = {}
        texts = (self.counts.attributes or {})[attribute]
        found = np.array([places.setdefault(text, len(places)) for text in texts], np.int64)
        return list(places), found, np.bincount(found, minlength=len(places))

    def indices(self, players: Sequence[int]) -> queries.Indices:
        """What the next decisions of the players at these places would rest on."""
        return queries.indices(self.state, players)


def beliefs(state: LearnerState) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimates of mean rewards and the ends of 95 % intervals, each [player, arm]; NaN where nothing is known yet.

    A policy that draws says what it believes. A policy that does not draw has a bonus and no posterior: its players'
    own means stand with intervals that hold at all times.
    """
    policy, counts = state.setup.policy, state.counts()
    if not policy.randomised:
        found = reward_interval(counts.pulls, counts.sums, 0.05, counts.low, counts.high)
        estimates, lows, highs = np.where(counts.pulls > 0, found, np.nan)
    else:
        centers, scales = state.beliefs()
        # What the policy believes of an arm that nobody has tried is its prior, no knowledge.
        known = np.isfinite(centers) & counts.pulls.any(axis=0)
        centers, scales = np.where(known, (centers, scales), np.nan)
        ends = (policy.reward_of(centers + side * NORMAL_95 * scales) for side in (0, -1, 1))
        estimates, lows, highs = (counts.low + (counts.high - counts.low) * end for end in ends)
    return estimates, lows, highs


@dataclass
class _Kept:
    """What is kept of one experiment."""

    history: History
    evidence: LogEvidence | None = None
    snapshot: Snapshot | None = None
    until: float = 0.0


class Snapshots:
    """Reads snapshots from the database, of each experiment at most every second; those used last are kept."""

    def __init__(self, store: ServiceStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept: BoundedCache[_Kept] = BoundedCache(MOST_PAIRS)
        self._checked: dict[int, tuple[int, int, bool]] = {}  # by id: decisions and events so far, and the alarm

    def of(self, name: str) -> Snapshot:
        """The experiment as it was at most a moment ago."""
        row = self._store.read(queries.find, name)
        with self._lock:  # taken out while it is used: another thread that asks for it would read it anew
            kept = self._kept.take((name, row["id"])) or _Kept(History(row["id"]))
        began, found = time.monotonic(), kept.snapshot
        if found is None or not found.complete or began >= kept.until or found.status != row["status"]:
            kept.snapshot = found = self._read(name, row, kept)
            ended = time.monotonic()
            kept.until = ended + min(max(FRESH, REST * (ended - began)), LONGEST)
        with self._lock:
            self._kept.put((name, row["id"]), kept, LEAST_PAIRS + found.chosen.size + len(found.evidence) // BYTES)
            self._checked.pop(found.id, None)
            self._checked[found.id] = found.decisions if found.complete else -1, found.events, bool(found.watch.doubts)
            if len(self._checked) > MOST_CHECKED:
                del self._checked[next(iter(self._checked))]
        return found

    def alarm_of(self, id: int) -> bool:
        """Whether a check of an experiment had raised an alarm when somebody last looked."""
        return self._checked.get(id, (0, 0, False))[2]

    def is_checked(self, id: int, decisions: int, events: int) -> bool:
        """Whether the checks of an experiment have seen all of it."""
        return self._checked.get(id, (0, 0, False))[:2] == (decisions, events)

    def _read(self, name: str, row: log_rows.Values, kept: _Kept) -> Snapshot:
        history = kept.history
        with database.reading(self._store.engine) as connection:
            live = queries.live_experiment(connection, name)
            state, now = live.state, live.time_at(float(self._store.clock()))
            evidence = kept.evidence = kept.evidence or LogEvidence(live, row["first_arms"])
            evidence.read(connection, live)
            counted, early = complete_counts(connection, live)
            shown, arms = np.flatnonzero(state.player_roster.here)[:SHOWN_PLAYERS], len(state.arm_roster.names)
            return Snapshot(
                live,
                now,
                choices=history.choices(connection, state.decisions, shown, arms),
                traffic=history.traffic(connection, state.decisions, live.links, row["created_at"], now),
                late=lateness(connection, live.id, state.decisions, int(state.waiting.sum())),
                recent=latest_decisions(connection, live.id),
                watch=evidence.watched(state, early),
                counted=counted,
                notes=tuple(left_out(early)),
                evidence=pickle.dumps(evidence.conclusion) if state.waiting.size <= LARGEST else b"",
                complete=evidence.complete,
            )


async def latest_snapshot(state: Any, name: str) -> Snapshot:
    """A snapshot that is read once for all who ask at the same time; `state` is the app's."""
    read = functools.partial(state.read_pool.run, state.snapshots.of, name)
    found: Snapshot = await state.answers.get(("snapshot", name), read, seconds=0.0)
    return found


async def complete_snapshot(state: Any, name: str) -> Snapshot:
    """A snapshot for which all of the log has been read. Whoever waits too long for it may ask again."""
    while not (found := await latest_snapshot(state, name)).complete:
        pass
    return found
