"""One transaction that writes: begin, lock, apply commands in order, commit."""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import sqlalchemy as sql
from sqlalchemy import exc
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.engine import Connection

from posse.checks import WrongValue
from posse.decision import UnknownDecision, parse_id
from posse.learner.roster import PlayerError
from posse.learner.setup import Setup, check_name
from posse.service.storage import audit, database, errors, keyed_requests, log_rows, queries
from posse.service.storage import schema as tables
from posse.service.storage.live_experiment import LiveExperiment
from posse.service.storage.store import NOW, ServiceStore

LOGGER = logging.getLogger("posse.service")
Result = TypeVar("Result")
TRIES = 4  # of a transaction that another one got in the way of
PAUSE = 0.05  # seconds before the second try, then twice as long each time
LONGEST = 5.0  # seconds after which nothing is tried again: whoever asked waits
BUSY = 100  # experiments whose recent decisions stay in memory; those of others are asked of the database
MANY = 10_000  # serial numbers of overdue decisions that take the default as one event
SLACK = 1.0  # seconds by which the database is asked for more than is due; each time is then checked exactly
AT_ONCE = 500  # decisions looked up in one query
CREATE_LOCK = 0x637265617465  # "create": PostgreSQL's advisory lock of requests with keys that create experiments

_NAME = tables.experiments.c.name
_IN_ORDER = sql.select(tables.experiments).order_by(tables.experiments.c.id).with_for_update()
LOCKED = _IN_ORDER.where(_NAME.in_(sql.bindparam("names", expanding=True)))
LOCKED_ANY = _IN_ORDER.where(sql.any_(sql.bindparam("names", type_=ARRAY(sql.Text))) == _NAME)  # PostgreSQL's words


class Command(Protocol):
    """Anything that changes the database: `posse.service.commands` has most of them."""

    @property
    def experiment(self) -> str | None:
        """The experiment that it is about, which is locked before anything is done; None for no particular one."""

    def apply(self, transaction: Transaction) -> Any:
        """Do it, and return its result."""


# ---------------------------------------------------------------- from begin to commit


def commit(store: ServiceStore, command: Command) -> Any:
    """Apply one command in a transaction of its own; an error undoes all of it."""
    result, until = _commit(store, command.apply), time.monotonic() + LONGEST
    while store.forget_at < math.inf and time.monotonic() < until:  # nobody may be there to do it later
        time.sleep(PAUSE)
        store.forget()
    return result


def commit_group(store: ServiceStore, commands: Sequence[Command]) -> list[Any]:
    """Apply commands in one transaction; return the result of each, or the `Refused` that it met."""

    def apply_all(transaction: Transaction) -> list[Any]:
        transaction.lock(command.experiment for command in commands if command.experiment is not None)
        transaction.look_up_keys(commands)
        return [transaction.apply_or_refuse(command) for command in commands]

    return _commit(store, apply_all)


def _commit(store: ServiceStore, work: Callable[[Transaction], Result]) -> Result:
    """Do work in a transaction, again where the database made it fail without having committed anything."""
    with store.lock, database.explained(store.engine):
        attempt, until = 1, time.monotonic() + LONGEST
        while True:
            try:
                return _try_to_commit(store, work)
            except exc.DBAPIError as error:
                if attempt == TRIES or time.monotonic() > until or not database.can_retry(error):
                    raise
                time.sleep(PAUSE * 2 ** (attempt - 1))
                attempt += 1


def _try_to_commit(store: ServiceStore, work: Callable[[Transaction], Result]) -> Result:
    with _writing(store) as connection:
        connection.begin()
        transaction = Transaction(connection, store)
        result = work(transaction)
        try:
            with database.pipeline(connection):
                transaction.write()
                connection.commit()
        except exc.DBAPIError as error:
            if not (error.connection_invalidated and _was_committed(store, transaction)):
                raise
        try:
            database.check_same(store.engine)
        except errors.Unavailable as error:
            raise errors.OutcomeUnknown(f"what was written may be lost: {error}") from error
    store.live |= transaction.touched  # at the end: a transaction takes out those that it uses
    for live in list(store.live.values())[:-BUSY]:
        live.recent.clear()
    if transaction.erased:
        store.forget_at = NOW
    if store.forget_at < math.inf:
        store.forget()
    for alarm in transaction.alarms:
        LOGGER.warning(alarm)
    return result


@contextlib.contextmanager
def _writing(store: ServiceStore) -> Iterator[Connection]:
    """The store's connection for writing, which stays open until an error; that rolls back and closes it."""
    connection, store.writing = store.writing or store.engine.connect(), None
    good = False
    try:
        yield connection
        good = not connection.invalidated
    finally:
        if good:
            store.writing = connection
        else:
            connection.close()


def _was_committed(store: ServiceStore, transaction: Transaction) -> bool:
    """Whether the database has what a transaction wrote, though the connection broke before it could say so."""
    changed, until = transaction.changed(), time.monotonic() + LONGEST
    for attempt in range(TRIES):
        time.sleep(PAUSE * 2**attempt)
        try:
            with store.engine.begin() as connection:
                return bool(changed) and all(queries.has_last_row(connection, live) for live in changed)
        except exc.DBAPIError as error:
            last = error
            if time.monotonic() > until:
                break
    reason = database.explain(store.engine, last)  # not a database error, which would repeat the transaction
    raise errors.OutcomeUnknown(f"it is not known whether the database took what was written: {reason}") from last


class Transaction:
    """What commands do in one transaction, on a connection that holds it."""

    def __init__(self, connection: Connection, store: ServiceStore) -> None:
        self.connection = connection
        self.clock = store.clock
        self.touched: dict[str, LiveExperiment] = {}
        self.erased = False  # whether a name was; copies of it may be left in the database's files
        self.alarms: list[str] = []  # what the log of the service says once they are written
        self.requests = keyed_requests.KeyedRequests(connection)
        self._live = store.live
        self._links: dict[str, int] = {}  # rows that the logs had before

    def apply_or_refuse(self, command: Command) -> Any:
        """The result of a command, or why it is refused; any other error is a fault, and undoes the transaction."""
        try:
            return command.apply(self)
        except errors.Refused as refused:
            return refused
        except PlayerError as error:
            return errors.Refused(error.text, error.others)
        except (WrongValue, TypeError) as error:
            return errors.Invalid(str(error))
        except ValueError as error:
            return errors.Refused(str(error))

    def lock(self, names: Iterable[str]) -> None:
        """Lock experiments for this transaction, in the order of their ids, and bring them up to date."""
        wanted = sorted(set(names) - set(self.touched))
        if not wanted:
            return
        known = {name: self._live.pop(name) for name in wanted if name in self._live}  # after an error: loaded anew
        rows: Sequence[log_rows.Values]
        if self.connection.dialect.name == "sqlite":
            rows, unread = self.connection.execute(LOCKED, {"names": wanted}).mappings().all(), {}
        else:  # what others wrote is read in the same round trip, once the lock is there
            shared = [name for name, live in known.items() if live.shared]
            asked = {name: known[name].unread() for name in shared}
            first: tuple[Any, Mapping[str, Any]] = (LOCKED_ANY, {"names": wanted})
            rows, *read = database.read_together(self.connection, [first, *itertools.chain(*asked.values())])
            answers = iter(read)
            unread = {name: [next(answers) for _ in questions] for name, questions in asked.items()}
        for row in rows:
            live = known.get(row["name"])
            found = unread.get(row["name"], ())
            if live is None or live.id != row["id"] or not live.catch_up(self.connection, row, found):
                live = LiveExperiment.load(self.connection, row)
            self.touched[row["name"]], self._links[row["name"]] = live, live.links

    def changed(self) -> list[LiveExperiment]:
        """The experiments whose logs have new rows."""
        return [live for name, live in self.touched.items() if live.links != self._links.get(name)]

    def look_up_keys(self, commands: Iterable[Command]) -> None:
        """Look up the idempotency keys of a group of commands at once."""
        by_name: dict[str, list[str]] = {}
        for command in commands:
            key = getattr(command, "key", None)
            if isinstance(key, str) and command.experiment in self.touched:
                by_name.setdefault(command.experiment, []).append(key)
        for name, keys in by_name.items():
            self.requests.look_up(self.touched[name].id, keys)

    def ask_outside(self, key: str | None, *asked: Any) -> keyed_requests.KeyedRequest:
        """A request whose key is of no experiment: it creates or deletes one, or is about tokens.

        There may be nothing to lock, so all of them with keys take turns.
        """
        if key is not None and self.connection.dialect.name == "postgresql":
            self.connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({CREATE_LOCK})")
        return self.requests.ask(keyed_requests.NO_EXPERIMENT, key, *asked)

    def live(self, name: str) -> LiveExperiment:
        """An experiment, locked and up to date."""
        if name not in self.touched:
            self.lock([check_name("experiment", name)])
        if name not in self.touched:
            raise errors.UnknownExperiment(f"no experiment {name!r}")
        return self.touched[name]

    def create(self, name: str, setup: Setup, first: Mapping[str, list[Any]], now: float) -> LiveExperiment:
        """Begin an experiment; `first` has its arms, its players and their attributes, as a learner's log has it."""
        check_new_names("experiment", [check_experiment_name(name)])
        self.touched[name] = LiveExperiment.create(self.connection, name, setup, first, now)
        return self.touched[name]

    def forget(self, name: str) -> None:
        """Know nothing of an experiment any more."""
        self.requests.forget(self.touched.pop(name).id)
        self.erased = True

    def note(self, who: str, action: str, experiment: str = "", detail: str = "") -> None:
        """Write to the audit trail, once all is checked. The detail names no player."""
        entry = {"at": float(self.clock()), "who": who, "action": action, "experiment": experiment, "detail": detail}
        audit.insert_sealed(self.connection, tables.audit, entry)

    def write(self) -> None:
        for live in self.touched.values():
            live.write(self.connection)
        self.requests.write()

    def describe(self, name: str) -> queries.Experiment:
        """An experiment as it stands now."""
        self.write()
        return queries.described(self.connection, self.touched[name])

    def now(self, live: LiveExperiment) -> float:
        """The time, which never goes back. Every decision that has waited too long takes the default first."""
        now = float(self.clock())
        if not math.isfinite(now):
            raise ValueError(f"the clock says {now}, but expected seconds")
        now = live.time_at(now)
        setup = live.state.setup
        if setup.patience is not None and setup.default_reward is not None and live.life.status != "archived":
            while live.oldest + setup.patience <= now:
                self._take_defaults(live, setup.patience, setup.default_reward, now)
        return now

    def _take_defaults(self, live: LiveExperiment, patience: float, default: float, now: float) -> None:
        """Take the default for the oldest decisions that are due, and find out when the next was made."""
        live.write_log(self.connection)
        wanted = {"experiment": live.id, "serial": live.oldest_serial, "until": live.oldest_serial + MANY}
        late = []
        for row in self.connection.execute(log_rows.MADE_BEFORE, wanted | {"time": now - patience + SLACK}).mappings():
            if row["decided_at"] + patience > now:
                break
            live.oldest_serial = row["serial"] + 1
            if row["answered"] is None:
                late.append((log_rows.decision_row(row), default))
        live.observe(late, now, defaulted=True)
        wanted = {"experiment": live.id, "serial": live.oldest_serial}
        following = self.connection.execute(log_rows.NEXT_DECISION, wanted).first()
        if following is None:
            live.oldest = math.inf
        else:  # serial numbers may be missing: a learner gave those decisions up before its log was imported
            live.oldest_serial, live.oldest = following.serial, following.decided_at

    def look_up_decisions(self, live: LiveExperiment, ids: Iterable[str]) -> None:
        """Load what the database knows of these decisions."""
        wanted, recent = [], live.recent
        for identity in ids:
            with contextlib.suppress(UnknownDecision):
                serial, _ = parse_id(identity)
                if serial < live.state.decisions and serial not in recent.waiting and serial not in recent.answers:
                    wanted.append(serial)
        if not wanted:
            return
        live.write_log(self.connection)
        for start in range(0, len(wanted), AT_ONCE):
            serials = {"experiment": live.id, "serials": wanted[start : start + AT_ONCE]}
            for row in self.connection.execute(log_rows.WITH_REWARDS, serials).mappings():
                if row["given"] is None:
                    recent.waiting[row["serial"]] = log_rows.decision_row(row)
                else:
                    answer = row["tag"], row["given"], bool(row["defaulted"]), row["player"], row["arm"]
                    recent.answers[row["serial"]] = answer
            if live.state.setup.outcomes:
                recent.outcomes |= log_rows.known_outcomes(self.connection, log_rows.OUTCOMES_OF, serials)


def check_new_names(kind: str, names: Iterable[str]) -> None:
    """Refuse new names that look like others: with spaces at an end, or with letters that are put together of several.

    Those that there are already are used as they are.
    """
    for name in names:
        usual = unicodedata.normalize("NFC", name).strip()
        if name != usual:
            form = "no spaces at its ends, and letters in Unicode's composed form (NFC)"
            raise WrongValue(f"{kind}={name!r}, but expected {usual!r}: a new name has {form}")


def check_experiment_name(name: Any) -> str:
    """A name that can be a part of a path."""
    check_name("experiment", name)
    if name in (".", "..") or "/" in name or "\\" in name:
        raise ValueError(f"experiment={name!r}, but a name with / or \\, or of dots only, cannot be part of an address")
    return str(name)
