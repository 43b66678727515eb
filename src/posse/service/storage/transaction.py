"""One transaction that writes: the requests of a group, served in order.

Each request is checked before it changes anything, so that a refused one leaves no trace among the others.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Iterable
from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.learner.ledger import Row, UnknownDecision, parse_id
from posse.learner.roster import Roster
from posse.learner.setup import Setup, check_name, check_names
from posse.learner.state import Decision, State
from posse.service.storage import log_chain as digest
from posse.service.storage import schema as tables
from posse.service.storage.errors import ExperimentExists, Paused, UnknownExperiment
from posse.service.storage.idempotency import check_key, repeated
from posse.service.storage.live_experiment import ARM_CHANGES, NEXT_DECISION, PLAYER_CHANGES, Book, as_row, name_row
from posse.service.storage.log_chain import Values
from posse.service.storage.pair_statistics import insert_into, summary_of
from posse.service.storage.reward_reports import Outcome, Reports, judge, pairs

MANY = 10_000  # serial numbers of overdue decisions that take the default as one event
SLACK = 1.0  # seconds by which the database is asked for more than is due, which is then told exactly
AT_ONCE = 500  # decisions looked up in one query

LOCKED = (
    sql.select(tables.experiments)
    .where(tables.experiments.c.name.in_(sql.bindparam("names", expanding=True)))
    .order_by(tables.experiments.c.id)
    .with_for_update()
)
KNOWN_KEYS = sql.select(tables.decisions.c.request_key).where(
    tables.decisions.c.experiment == sql.bindparam("experiment"),
    tables.decisions.c.request_key.in_(sql.bindparam("keys", expanding=True)),
)

SAME = sql.and_(
    tables.rewards.c.experiment == tables.decisions.c.experiment,
    tables.rewards.c.serial == tables.decisions.c.serial,
)
MADE_BEFORE = (  # bounded by serial numbers, since times have no index: it would go on through all that are not yet due
    sql.select(
        *(tables.decisions.c[name] for name in Row._fields),
        sql.select(tables.rewards.c.serial).where(SAME).scalar_subquery().label("answered"),
    )
    .where(
        tables.decisions.c.experiment == sql.bindparam("experiment"),
        tables.decisions.c.serial >= sql.bindparam("serial"),
        tables.decisions.c.serial < sql.bindparam("until"),
        tables.decisions.c.decided_at < sql.bindparam("time"),
    )
    .order_by(tables.decisions.c.serial)
)
REPORTED = (
    sql.select(
        *(tables.decisions.c[name] for name in Row._fields),
        tables.rewards.c.reward.label("given"),
        tables.rewards.c.defaulted,
    )
    .select_from(tables.decisions.outerjoin(tables.rewards, SAME))
    .where(
        tables.decisions.c.experiment == sql.bindparam("experiment"),
        tables.decisions.c.serial.in_(sql.bindparam("serials", expanding=True)),
    )
)


class Turn:
    """What requests do in one transaction, on a connection that holds it."""

    def __init__(self, connection: Connection, books: dict[str, Book], clock: Callable[[], float]) -> None:
        self.connection = connection
        self.touched: dict[str, Book] = {}
        self.erased = False  # whether names were, of which copies may lie about
        self._new_keys: set[tuple[str, str]] = set()  # experiments and keys that were looked up together and not found
        self._books = books
        self._clock = clock

    def lock(self, names: Iterable[str]) -> None:
        """Take these experiments for this transaction, in the order of their ids, and bring their books up to date."""
        wanted = sorted(set(names) - set(self.touched))
        if not wanted:
            return
        for row in self.connection.execute(LOCKED, {"names": wanted}).mappings().all():
            book = self._books.pop(row["name"], None)  # whatever goes wrong from here on, it is read anew
            if book is None or book.id != row["id"] or not book.catch_up(self.connection, row):
                book = Book.load(self.connection, row)
            self.touched[row["name"]] = book

    def look_for(self, keys: Iterable[tuple[str, str]]) -> None:
        """Look up the idempotency keys of a group of requests at once, each with its experiment."""
        by_name: dict[str, list[str]] = {}
        for name, key in keys:
            by_name.setdefault(name, []).append(key)
        for name in by_name.keys() & self.touched.keys():
            for start in range(0, len(by_name[name]), AT_ONCE):
                some = by_name[name][start : start + AT_ONCE]
                wanted = {"experiment": self.touched[name].id, "keys": some}
                found = self.connection.execute(KNOWN_KEYS, wanted).scalars()
                self._new_keys |= {(name, key) for key in set(some).difference(found)}

    def book(self, name: str) -> Book:
        """The book of an experiment, up to date."""
        if name not in self.touched:
            self.lock([check_name("experiment", name)])
        if name not in self.touched:
            raise UnknownExperiment(f"no experiment {name!r}")
        return self.touched[name]

    def finish(self) -> None:
        """Write all that is not yet written."""
        for book in self.touched.values():
            book.finish(self.connection)

    # ---------------------------------------------------------------- time

    def tick(self, book: Book) -> float:
        """The time, which never goes back; take the default for every decision that has waited too long."""
        now = float(self._clock())
        if not math.isfinite(now):
            raise ValueError(f"the clock says {now}, but expected seconds")
        now = max(now, book.time)
        patience, default = book.state.setup.patience, book.state.setup.default_reward
        if patience is not None and default is not None:
            while book.oldest + patience <= now:
                self._sweep(book, patience, default, now)
        return now

    def _sweep(self, book: Book, patience: float, default: float, now: float) -> None:
        """Take the default for the oldest decisions that are due, and see when the next was made."""
        book.write_log(self.connection)
        wanted = {"experiment": book.id, "serial": book.swept, "until": book.swept + MANY}
        late = []
        for row in self.connection.execute(MADE_BEFORE, wanted | {"time": now - patience + SLACK}).mappings():
            if row["decided_at"] + patience > now:
                break
            book.swept = row["serial"] + 1
            if row["answered"] is None:
                late.append((as_row(row), default))
        book.take(late, now, defaulted=True)
        following = self.connection.execute(NEXT_DECISION, {"experiment": book.id, "serial": book.swept}).first()
        if following is None:
            book.oldest = math.inf
        else:  # beyond the serial numbers, if any, of decisions that a learner gave up before its log came here
            book.swept, book.oldest = following.serial, following.decided_at

    # ---------------------------------------------------------------- requests

    def create(
        self, name: str, setup: Setup, arms: list[str], players: list[str], created_at: float | None = None
    ) -> Book:
        """Begin an experiment, now or in the past."""
        check_experiment_name(name)
        state = State(setup, arms, players)
        now = float(self._clock()) if created_at is None else created_at
        row: dict[str, Any] = {
            "name": name,
            "setup": json.dumps(setup.to_dict(), sort_keys=True, allow_nan=False),
            "created_at": now,
            "first_players": len(players),
            "first_arms": len(arms),
        }
        row["origin"] = row["head"] = digest.origin(row)
        row |= {"paused": 0, "rounds": 0, "decisions": 0, "events": 0, "links": 0, "time": now}
        row["summary"] = summary_of(state)
        insert = insert_into(tables.experiments, self.connection.dialect.name).on_conflict_do_nothing()
        row["id"] = self.connection.execute(insert.returning(tables.experiments.c.id), row).scalar()
        if row["id"] is None:
            raise ExperimentExists(f"there is an experiment {name!r} already")
        for kind, names in (("players", players), ("arms", arms)):
            rows = [name_row(kind, row["id"], place, one, True) for place, one in enumerate(names)]
            if rows:
                self.connection.execute(sql.insert(tables.metadata.tables[kind]), rows)
        book = self.touched[name] = Book(row, state)
        book.stats.write(self.connection, book.id, state)
        return book

    def change(
        self,
        name: str,
        join: Iterable[str] = (),
        retire: Iterable[str] = (),
        add_arms: Iterable[str] = (),
        retire_arms: Iterable[str] = (),
        paused: bool | None = None,
        knows_others: bool = True,
    ) -> None:
        """Players and arms come and go, decisions pause and resume: all of it or nothing."""
        for flag, value in (("paused", paused), ("knows_others", knows_others)):
            if not (isinstance(value, bool) or (value is None and flag == "paused")):
                raise TypeError(f"{flag}={value!r}, but expected True or False")
        book = self.book(name)
        steps = [("add arm", arm) for arm in check_names("arm", add_arms)]
        steps += [("retire arm", arm) for arm in check_names("arm", retire_arms)]
        steps += [("join", player) for player in check_names("player", join)]
        steps += [("retire", player) for player in check_names("player", retire)]
        _rehearse(book.state, steps)
        now = self.tick(book)
        for kind, who in steps:
            book.change(kind, who, now, knows_others)
        if paused is not None and paused != book.paused:
            book.append_change("pause" if paused else "resume", 0, now)
            book.paused = paused

    def decide(
        self, name: str, players: Iterable[str], available: Iterable[str] | None = None, key: str | None = None
    ) -> list[Decision]:
        """One round; the same key again gives the same decisions again."""
        book = self.book(name)
        names = check_names("player", players)
        if not names:
            raise ValueError("players=[], but expected at least one")
        if available is not None:
            available = check_names("arm", available)
        if key is not None:
            made = self._made(book, check_key(key))
            if made:
                return repeated(book, made, names, available, key)
        if book.paused:
            raise Paused(f"experiment {name!r} is paused: it takes rewards, but makes no decisions")
        places = [book.state.player_roster.current(one) for one in names]
        book.state.offered(available)
        return book.decide(places, available, self.tick(book), key)

    def _made(self, book: Book, key: str) -> list[Values]:
        """The decisions that were made for a key."""
        if (book.name, key) in self._new_keys:
            self._new_keys.discard((book.name, key))  # the next request with it is no longer the first
            return []
        book.write_log(self.connection)
        table = tables.decisions
        query = sql.select(table).where(table.c.experiment == book.id, table.c.request_key == key)
        return list(self.connection.execute(query.order_by(table.c.position)).mappings())

    def reward(self, name: str, reports: Reports) -> list[Outcome]:
        """Take the rewards of decisions; those that are news count as one round."""
        book = self.book(name)
        reported = pairs(reports)
        now = self.tick(book)
        self._look_up(book, [identity for identity, _ in reported])
        fresh: dict[int, float] = {}
        outcomes = [judge(book, identity, value, fresh) for identity, value in reported]
        book.take([(book.waiting[serial], value) for serial, value in fresh.items()], now)
        return outcomes

    def _look_up(self, book: Book, identities: list[str]) -> None:
        """Have at hand what the database knows of these decisions."""
        wanted = []
        for identity in identities:
            try:
                serial, _ = parse_id(identity)
            except UnknownDecision:
                continue
            if serial < book.state.decisions and serial not in book.waiting and serial not in book.answers:
                wanted.append(serial)
        if not wanted:
            return
        book.write_log(self.connection)
        for start in range(0, len(wanted), AT_ONCE):
            some = {"experiment": book.id, "serials": wanted[start : start + AT_ONCE]}
            for row in self.connection.execute(REPORTED, some).mappings():
                if row["given"] is None:
                    book.waiting[row["serial"]] = as_row(row)
                else:
                    book.answers[row["serial"]] = (row["tag"], row["given"], bool(row["defaulted"]))

    def record(self, name: str, rewards: Iterable[tuple[str, str, float]]) -> int:
        """Take rewards of the past that were not decided here, as one round; return how many."""
        book = self.book(name)
        checked = book.state.check_past(rewards)
        if not checked:
            raise ValueError("rewards=[], but expected at least one")
        now = self.tick(book)
        book.take(book.state.take_past(checked, now), now)
        return len(checked)

    def erase(self, name: str, player: str) -> str:
        """Let a player go and replace its name everywhere; return what stands there now."""
        book = self.book(name)
        place = book.state.player_roster.place(player)
        now = self.tick(book)
        if book.state.player_roster.here[place]:
            book.change("retire", player, now)
        replacement = f"erased-{secrets.token_hex(8)}"
        book.erase(player, replacement, now)
        self.erased = True
        return replacement

    def sweep(self, name: str) -> None:
        """Take the default rewards that are due."""
        self.tick(self.book(name))


def _rehearse(state: State, steps: list[tuple[str, str]]) -> None:
    """An error if one of the steps cannot be taken after those before it."""
    rosters = {
        kind: Roster.of(kind, list(roster))
        for kind, roster in (("player", state.player_roster), ("arm", state.arm_roster))
    }
    for kind, name in steps:
        roster = rosters["player" if kind in PLAYER_CHANGES else "arm"]
        if kind == "add arm":
            state.setup.check_floor(roster.count + 1)
        if kind in (PLAYER_CHANGES[0], ARM_CHANGES[0]):
            roster.add(name)
        else:
            roster.retire(name)


def check_experiment_name(name: Any) -> str:
    """A name that can be a part of a path."""
    check_name("experiment", name)
    if name in (".", "..") or "/" in name or "\\" in name:
        raise ValueError(f"experiment={name!r}, but a name with / or \\, or of dots only, cannot be part of an address")
    return str(name)
