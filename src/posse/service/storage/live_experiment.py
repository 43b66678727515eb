"""An experiment as one process knows it: the learner's state, and how far into the log it goes.

The log in the database is the truth. A book is brought up to date from it inside the transaction that uses it, writes
what happens there back as rows, and is thrown away if the transaction fails.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.learner.ledger import Row
from posse.learner.setup import Setup
from posse.learner.state import Decision, State
from posse.service.storage import log_chain as digest
from posse.service.storage import schema as tables
from posse.service.storage.errors import Damaged
from posse.service.storage.log_chain import Values
from posse.service.storage.pair_statistics import Stats

RECENT = 20_000  # decisions, and answers, that are looked up without asking the database
FEW = 2_000  # rows that are read to catch up; more, and the numbers are read anew

Answered = tuple[int, float, bool]
"""Tag, reward, and whether it was taken by default."""


class Book:
    """One experiment. Whoever changes `state` here writes the log's row at once."""

    def __init__(self, row: Values, state: State) -> None:
        self.id: int = row["id"]
        self.name: str = row["name"]
        self.state = state
        self.waiting: OrderedDict[int, Row] = OrderedDict()  # recent decisions without a reward,
        self.answers: OrderedDict[int, Answered] = OrderedDict()  # and with one
        self.oldest = -math.inf  # when the first decision was made that may yet have to take the default; −∞: unknown
        self.swept = 0  # its serial number, or one before it
        self.stats = Stats()
        self._log: dict[str, list[dict[str, Any]]] = {"decisions": [], "rewards": [], "changes": []}
        self._names: set[tuple[str, int]] = set()  # of players and arms that are to be written
        self._follow(row)

    def _follow(self, row: Values) -> None:
        """Stand at the end of the log."""
        self.links: int = row["links"]
        self.head: bytes = row["head"]
        self.time: float = row["time"]
        self.paused = bool(row["paused"])
        self._at = self.links

    # ---------------------------------------------------------------- up to date

    @classmethod
    def load(cls, connection: Connection, row: Values) -> Book:
        """The book from the numbers that are kept beside the log: the cost does not depend on the log's length."""
        players, arms = (read_names(connection, table, row["id"]) for table in (tables.players, tables.arms))
        state = State(
            Setup.from_dict(json.loads(row["setup"])),
            [name for name, _ in arms[: row["first_arms"]]],
            [name for name, _ in players[: row["first_players"]]],
        )
        book = cls(row, state)
        book.stats.load(connection, book.id, state, players, arms, row["summary"])
        state.rounds, state.events, state.decisions = row["rounds"], row["events"], row["decisions"]
        patience = state.setup.patience
        if patience is not None:  # all that was due when the log's last row was written has been taken then
            book.swept = first_decision(
                connection, book.id, state.decisions, lambda found: found.decided_at + patience > book.time
            )
        return book

    def catch_up(self, connection: Connection, row: Values) -> bool:
        """Take in what others wrote since; False if it is so much that the book is better loaded anew."""
        missed = row["links"] - self.links
        if missed == 0:
            if row["head"] != self.head:
                raise Damaged(f"experiment {self.name!r}: row {self.links} of the log is not the one that was written")
            return True
        if not 0 < missed <= FEW:
            return False
        head = self.head
        rows = read_log(connection, self.id, self.links, self.state.decisions)
        if any(table == "changes" and entry["kind"] == "rebuild" for table, entry in rows):
            return False
        for table, entry in rows:
            head = digest.chained(head, table, entry)
        if head != row["head"] or len(rows) != missed:
            raise Damaged(
                f"experiment {self.name!r}: the log after row {self.links} has {len(rows)} rows that do not add up to "
                f"its head, row {row['links']}; see what `posse db verify` says"
            )
        self.absorb(rows, lambda table, place: read_name(connection, table, self.id, place))
        self._follow(row)
        self.stats.keep(self.state)
        return True

    def absorb(self, rows: Iterable[tuple[str, Values]], name_of: Any) -> None:
        """Go through rows of the log, in order."""
        batch: list[tuple[Row, float]] = []
        event = 0
        for table, row in rows:
            if batch and (table != "rewards" or row["event"] != event):
                self.state.take(batch)
                batch = []
            if table == "decisions":
                self._absorb_decision(row)
            elif table == "rewards":
                batch.append(self._absorb_reward(row))
                event = row["event"]
            else:
                self._absorb_change(row, name_of)
            self._forget()
        if batch:
            self.state.take(batch)

    def _absorb_decision(self, row: Values) -> None:
        decision = as_row(row)
        self.state.rounds, self.state.decisions = decision.round, decision.serial + 1
        self.state.wait(decision)
        self.waiting[decision.serial] = decision
        self.oldest = min(self.oldest, decision.decided_at)

    def _absorb_reward(self, row: Values) -> tuple[Row, float]:
        known = self.waiting.pop(row["serial"], None)
        if row["serial"] < 0:
            self.state.rounds = row["round"]
        elif known is not None:
            self.answers[known.serial] = (known.tag, row["reward"], bool(row["defaulted"]))
        serial = max(row["serial"], -1)
        return Row(serial, 0, row["round"], row["player"], row["arm"], 0.0, False, 0.0, row["observed_at"]), row[
            "reward"
        ]

    def _absorb_change(self, row: Values, name_of: Any) -> None:
        kind, place = row["kind"], row["place"]
        if kind in PLAYER_CHANGES or kind in ARM_CHANGES:
            theirs = kind in PLAYER_CHANGES
            known = (self.state.player_roster if theirs else self.state.arm_roster).names
            name = known[place] if place < len(known) else name_of(tables.players if theirs else tables.arms, place)
            self.state.change(kind, name, bool(row["knows_others"]))
        elif kind == "erase":
            self.state.player_roster.rename(place, name_of(tables.players, place))
        elif kind == "rounds":
            self.state.rounds = place
        elif kind in ("pause", "resume"):
            self.paused = kind == "pause"
        elif kind != "rebuild":
            raise Damaged(f"experiment {self.name!r}: row {row['link']} of the log has the kind {kind!r}")

    # ---------------------------------------------------------------- what happens

    def decide(self, players: list[int], available: Any, now: float, key: str | None) -> list[Decision]:
        """One round."""
        offered = self.state.offered(available)
        bits = np.packbits(offered).tobytes()
        made = self.state.decide(players, offered, now)
        for position, (decision, row) in enumerate(made):
            probabilities = np.zeros(offered.size, "<f8")
            probabilities[offered] = list(decision.probabilities.values())
            self.append_decision(
                row,
                probabilities=probabilities.tobytes(),
                offered=bits,
                restricted=int(available is not None),
                request_key=key,
                position=position,
            )
        return [decision for decision, _ in made]

    def append_decision(self, row: Row, **request: Any) -> None:
        """Write a decision down, and let it wait."""
        self.state.wait(row)
        self.waiting[row.serial] = row
        self.oldest = min(self.oldest, row.decided_at)
        values = row._asdict()
        values["holdout"] = int(row.holdout)
        self._append("decisions", row.decided_at, values | request)

    def take(self, answered: list[tuple[Row, float]], now: float, defaulted: bool = False) -> None:
        """One event: rewards of decisions, or of the past."""
        if not answered:
            return
        state = self.state
        state.take(answered)
        for row, reward in answered:
            seen = state.tally.seen[:, row.player, row.arm] if state.core.own_pull else state.tally.shared[:, row.arm]
            past = row.serial < 0
            values = {
                "serial": -(self.links + 1) if past else row.serial,
                "event": state.events,
                "round": row.round if past else 0,
                "player": row.player,
                "arm": row.arm,
                "reward": reward,
                "seen_n": float(seen[0]),
                "seen_s": float(seen[1]),
                "defaulted": int(defaulted),
                "observed_at": now,
            }
            self._append("rewards", now, values)
            if not past:
                self.waiting.pop(row.serial, None)
                self.answers[row.serial] = (row.tag, reward, defaulted)

    def change(self, kind: str, name: str, now: float, knows_others: bool = True) -> None:
        """One event: a player or an arm comes or goes."""
        self.state.change(kind, name, knows_others)
        table = "players" if kind in PLAYER_CHANGES else "arms"
        roster = self.state.player_roster if kind in PLAYER_CHANGES else self.state.arm_roster
        place = roster.place(name)
        self._names.add((table, place))
        self.append_change(kind, place, now, self.state.events, knows_others)

    def erase(self, player: str, replacement: str, now: float) -> None:
        """Replace a player's name."""
        place = self.state.player_roster.place(player)
        self.state.player_roster.rename(place, replacement)
        self._names.add(("players", place))
        self.append_change("erase", place, now)

    def append_change(self, kind: str, place: int, now: float, event: int = 0, knows_others: bool = True) -> None:
        """Write a change down."""
        values = {"event": event, "kind": kind, "place": place, "knows_others": int(knows_others), "at": now}
        self._append("changes", now, values)

    def _append(self, table: str, at: float, row: dict[str, Any]) -> None:
        row["experiment"], row["link"] = self.id, self.links + 1
        self.head = row["digest"] = digest.chained(self.head, table, row)
        self.links += 1
        self.time = max(self.time, at)
        self._log[table].append(row)

    def _forget(self) -> None:
        """Let go of all but the recent."""
        for known in (self.waiting, self.answers):
            while len(known) > RECENT:
                known.popitem(last=False)

    # ---------------------------------------------------------------- into the database

    def write_log(self, connection: Connection) -> None:
        """Write the rows of the log that are not yet there."""
        for table, rows in self._log.items():
            if rows:
                connection.execute(INSERTS[table], rows)
                rows.clear()

    def finish(self, connection: Connection) -> None:
        """Write everything that is not yet there."""
        self._forget()
        if self.links == self._at:
            return
        self.write_log(connection)
        self._write_names(connection)
        summary = self.stats.write(connection, self.id, self.state)
        state = self.state
        values: dict[str, Any] = {"rounds": state.rounds, "decisions": state.decisions, "events": state.events}
        values |= {"links": self.links, "head": self.head, "time": self.time, "paused": int(self.paused)}
        if summary is not None:
            values["summary"] = summary
        connection.execute(FOLLOW, values | {"experiment": self.id})
        self._at = self.links

    def _write_names(self, connection: Connection) -> None:
        for table, place in sorted(self._names):
            roster = self.state.player_roster if table == "players" else self.state.arm_roster
            row = name_row(table, self.id, place, roster.names[place], bool(roster.here[place]))
            target = tables.metadata.tables[table]
            found = sql.and_(target.c.experiment == self.id, target.c.place == place)
            if connection.execute(sql.update(target).where(found), row).rowcount == 0:
                connection.execute(sql.insert(target), row)
        self._names.clear()


PLAYER_CHANGES, ARM_CHANGES = ("join", "retire"), ("add arm", "retire arm")
FOLLOW = sql.update(tables.experiments).where(tables.experiments.c.id == sql.bindparam("experiment"))
NEXT_DECISION = (
    sql.select(tables.decisions.c.serial, tables.decisions.c.decided_at, tables.decisions.c.link)
    .where(
        tables.decisions.c.experiment == sql.bindparam("experiment"),
        tables.decisions.c.serial >= sql.bindparam("serial"),
    )
    .order_by(tables.decisions.c.serial)
    .limit(1)
)
INSERTS = {name: sql.insert(tables.metadata.tables[name]) for name in ("decisions", "rewards", "changes")}


def name_row(table: str, experiment: int, place: int, name: str, here: bool) -> dict[str, Any]:
    """A row of players or arms."""
    row: dict[str, Any] = {"experiment": experiment, "place": place, "name": name, "here": int(here)}
    row["digest"] = digest.of_name(table, row)
    return row


def as_row(values: Values) -> Row:
    """A decision as the learner has it, from a row of the table."""
    plain = {name: values[name] for name in Row._fields}
    return Row(**{**plain, "holdout": bool(values["holdout"])})


def read_names(connection: Connection, table: sql.Table, experiment: int) -> list[tuple[str, bool]]:
    """Names, and whether each is here, by place."""
    query = sql.select(table.c.name, table.c.here).where(table.c.experiment == experiment).order_by(table.c.place)
    return [(name, bool(here)) for name, here in connection.execute(query)]


def read_name(connection: Connection, table: sql.Table, experiment: int, place: int) -> str:
    """The name at a place."""
    query = sql.select(table.c.name).where(table.c.experiment == experiment, table.c.place == place)
    name = connection.execute(query).scalar()
    if name is None:
        raise Damaged(f"{table.name} of experiment {experiment} has nobody at place {place}")
    return str(name)


def read_log(connection: Connection, experiment: int, after: int, serial: int) -> list[tuple[str, Values]]:
    """The rows of the log after one of them, in order, each with its table; `serial` is the first new decision's."""
    found: list[tuple[str, Values]] = []
    for table, start in (
        (tables.decisions, tables.decisions.c.serial >= serial),
        (tables.rewards, tables.rewards.c.link > after),
        (tables.changes, tables.changes.c.link > after),
    ):
        query = sql.select(table).where(table.c.experiment == experiment, start)
        found += [(table.name, row) for row in connection.execute(query).mappings()]
    return sorted(found, key=lambda entry: entry[1]["link"])


def first_decision(connection: Connection, experiment: int, decisions: int, passes: Callable[[Any], bool]) -> int:
    """The serial number from which on decisions pass, found by halving the range.

    Both times and places in the log grow with the serial number, so this spares an index for each.
    """
    low, high = 0, decisions
    while low < high:
        middle = (low + high) // 2
        found = connection.execute(NEXT_DECISION, {"experiment": experiment, "serial": middle}).first()
        if found is None or passes(found):
            high = middle
        else:
            low = found.serial + 1
    return low
