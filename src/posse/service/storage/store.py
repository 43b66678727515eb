"""The store: experiments, decisions and rewards in a database, exactly once and in one order."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import exc
from sqlalchemy.engine import Connection

from posse.learner.counts import Counts
from posse.learner.setup import Setup, check_names
from posse.learner.state import Decision
from posse.policies.base import Policy
from posse.service.storage import database
from posse.service.storage import queries as views
from posse.service.storage.errors import (
    ConflictingKey,
    Damaged,
    ExperimentExists,
    Overloaded,
    Paused,
    Unavailable,
    UnknownExperiment,
)
from posse.service.storage.live_experiment import Book
from posse.service.storage.queries import Activity, Experiment, Indices
from posse.service.storage.reward_reports import Outcome, Reports
from posse.service.storage.transaction import Turn

__all__ = [
    "Activity",
    "ConflictingKey",
    "Damaged",
    "Decision",
    "Experiment",
    "ExperimentExists",
    "Indices",
    "Outcome",
    "Overloaded",
    "Paused",
    "Store",
    "Unavailable",
    "UnknownExperiment",
]

Result = TypeVar("Result")
TRIES = 4  # of a transaction that another's got in the way of
PAUSE = 0.05  # seconds before the second one, then twice as long each time
BUSY = 100  # experiments whose recent decisions are kept in memory; those of others are asked of the database
NO_LIMIT = 10**15  # decisions wait in the database for as long as it takes


class Store:
    """Experiments in a database. Writing is one transaction at a time; reading goes on beside it.

    Args:
        url: `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/DATABASE`.
        clock: gives the time in seconds.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.time) -> None:
        self.engine = database.connect(url)
        self.clock = clock
        self._books: dict[str, Book] = {}
        self._lock = threading.RLock()
        self._turn: Turn | None = None
        database.check_version(self.engine)

    @classmethod
    def open(cls, url: str, create: bool = False, clock: Callable[[], float] = time.time) -> Store:
        """The store at an address; with `create` the database is made, or brought to the newest schema, if need be."""
        if create:
            engine = database.connect(url)
            try:
                database.upgrade(engine)
            finally:
                engine.dispose()
        return cls(url, clock)

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    def check(self) -> None:
        """An error if the database does not answer or is not what it should be."""
        database.check_version(self.engine)

    # ---------------------------------------------------------------- writing

    def transact(
        self, function: Callable[[Turn], Result], names: Iterable[str] = (), keys: Iterable[tuple[str, str]] = ()
    ) -> Result:
        """Call a function in one transaction that writes; inside another one, as a part of that.

        It is called again where the database made the transaction fail without having committed anything; whether it
        has is looked up where that is unknown. The experiments `names` are locked first, in a fixed order; `keys` are
        idempotency keys that will be asked for, each with its experiment.
        """
        with self._lock:
            if self._turn is not None:
                self._turn.lock(names)
                return function(self._turn)
            with database.explained(self.engine):
                for attempt in itertools.count():
                    try:
                        return self._attempt(function, names, keys)
                    except exc.DBAPIError as error:
                        if attempt == TRIES - 1 or not database.can_retry(error):
                            raise
                        time.sleep(PAUSE * 2**attempt)
        raise AssertionError("unreachable")

    def _attempt(
        self, function: Callable[[Turn], Result], names: Iterable[str], keys: Iterable[tuple[str, str]]
    ) -> Result:
        with self.engine.connect() as connection:
            transaction = connection.begin()
            turn = self._turn = Turn(connection, self._books, self.clock)
            try:
                turn.lock(names)
                turn.look_for(keys)
                result = function(turn)
                turn.finish()
            except BaseException:
                transaction.rollback()
                raise
            finally:
                self._turn = None
            try:
                transaction.commit()
            except exc.DBAPIError as error:
                if not (error.connection_invalidated and self._has(turn)):
                    raise
            self._keep(turn.touched)
        if turn.erased:
            database.forget(self.engine)
        return result

    def _keep(self, books: dict[str, Book]) -> None:
        """Keep books for later transactions; the bulk of them, their recent decisions, only for those used last."""
        self._books |= books  # at the end: a turn takes out those that it uses
        for book in list(self._books.values())[:-BUSY]:
            book.waiting.clear()
            book.answers.clear()

    def _has(self, turn: Turn) -> bool:
        """Whether the database has what a turn wrote, though the connection broke before it could say so."""
        books = list(turn.touched.values())
        for attempt in range(TRIES):
            time.sleep(PAUSE * 2**attempt)
            try:
                with self.engine.begin() as connection:
                    return bool(books) and all(views.has_row(connection, book) for book in books)
            except exc.DBAPIError as error:
                last = error
        reason = database.explain(self.engine, last)  # no error of the database: it would have the turn tried again
        raise Unavailable(f"it is not known whether the database took what was written: {reason}") from last

    def create(
        self,
        name: str,
        policy: Policy,
        arms: Iterable[str],
        players: Iterable[str] = (),
        horizon: int | None = None,
        *,
        seed: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        floor: float = 0.0,
        holdout: float = 0.0,
        default_reward: float | None = None,
        patience: float | None = None,
    ) -> Experiment:
        """Begin an experiment; the arguments are those of `posse.Learner`."""
        try:
            low, high = reward_range
        except (TypeError, ValueError):
            raise TypeError(f"reward_range={reward_range!r}, but expected (lowest, highest)") from None
        chosen = secrets.randbits(53) if seed is None else seed
        setup = Setup(policy, horizon, chosen, low, high, floor, holdout, default_reward, patience, NO_LIMIT, True)
        checked = check_names("arm", arms), check_names("player", players)
        return self.transact(lambda turn: _seen(turn, turn.create(name, setup, *checked).name))

    def change(
        self,
        name: str,
        join: Iterable[str] = (),
        retire: Iterable[str] = (),
        add_arms: Iterable[str] = (),
        retire_arms: Iterable[str] = (),
        paused: bool | None = None,
        knows_others: bool = True,
    ) -> Experiment:
        """Let players and arms come and go, pause and resume: all of it or nothing."""

        def change(turn: Turn) -> Experiment:
            turn.change(name, join, retire, add_arms, retire_arms, paused, knows_others)
            return _seen(turn, name)

        return self.transact(change)

    def decide(
        self, name: str, players: Iterable[str], available: Iterable[str] | None = None, key: str | None = None
    ) -> list[Decision]:
        """Choose an arm for each of the players, as one round; the same key again gives the same decisions again."""
        return self.transact(lambda turn: turn.decide(name, players, available, key))

    def reward(self, name: str, reports: Reports) -> list[Outcome]:
        """Take the rewards of decisions; what is refused is said for each, and keeps no other from being taken."""
        return self.transact(lambda turn: turn.reward(name, reports))

    def record(self, name: str, rewards: Iterable[tuple[str, str, float]]) -> int:
        """Take rewards of the past, as (player, arm, reward), that were not decided here; return how many."""
        return self.transact(lambda turn: turn.record(name, rewards))

    def erase(self, name: str, player: str) -> str:
        """Let a player go and replace its name for good; return what stands there now."""
        return self.transact(lambda turn: turn.erase(name, player))

    def sweep(self, name: str) -> None:
        """Take the default rewards that are due."""
        self.transact(lambda turn: turn.sweep(name))

    # ---------------------------------------------------------------- reading

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees one moment of the database."""
        with database.reading(self.engine) as connection:
            yield connection

    def experiments(self) -> list[Experiment]:
        """All experiments, by name."""
        with self.reading() as connection:
            return views.experiments(connection)

    def impatient(self) -> list[str]:
        """The names of the experiments whose decisions take the default after a while."""
        with self.reading() as connection:
            return views.impatient(connection)

    def experiment(self, name: str) -> Experiment:
        """One experiment."""
        with self.reading() as connection:
            return views.experiment(connection, name)

    def counts(self, name: str) -> Counts:
        """Pulls and reward sums of each (player, arm)."""
        with self.reading() as connection:
            return views.book(connection, name).state.counts()

    def indices(self, name: str) -> Indices:
        """What the next decision of each player would rest on."""
        with self.reading() as connection:
            return views.indices(views.book(connection, name).state)

    def log(self, name: str, after: int = 0, limit: int = 1000) -> list[dict[str, Any]]:
        """Rows of the log after the one with the number `after`, in order."""
        with self.reading() as connection:
            return views.log(connection, name, after, limit)

    def log_table(self, name: str) -> Any:
        """The whole log as an Arrow table, as `Learner.log` gives it, so that `Learner.replay` takes it."""
        with self.reading() as connection:
            return views.log_table(connection, name)

    def activity(self, name: str, points: int = 100) -> Activity:
        """Decisions, rewards and pulls over time."""
        with self.reading() as connection:
            return views.activity(connection, name, points)


def _seen(turn: Turn, name: str) -> Experiment:
    """An experiment as it stands inside a transaction."""
    turn.finish()
    return views.experiment(turn.connection, name)
