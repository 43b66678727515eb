"""An experiment as one process holds it in memory: the learner's state, and how far into the log it goes.

The log in the database is the truth. A live experiment is brought up to date from the log inside the transaction that
uses it, adds rows for what happens there, and is thrown away if the transaction fails.
"""

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.attributes import Value
from posse.decision import Decision
from posse.learner.guard import OutcomeValue
from posse.learner.ledger import Row
from posse.learner.roster import Roster
from posse.learner.setup import Setup
from posse.learner.shares import check_least, check_limits, check_shares
from posse.learner.state import LearnerState
from posse.service.storage import database, lifecycle, log_rows, pair_statistics
from posse.service.storage import schema as tables
from posse.service.storage.errors import Damaged, ExperimentExists
from posse.service.storage.log_replay import replay
from posse.service.storage.log_rows import UNREAD, Values, row_digest
from posse.service.storage.recent_decisions import RECENT, RecentDecisions

NAMES = ("players", "arms")  # tables whose rows may change
SHARED = 16  # transactions after one in which another process had written
FEW = 2_000  # rows that are read to catch up; if there are more, the statistics are read anew
UPDATE = sql.update(tables.experiments).where(tables.experiments.c.id == sql.bindparam("experiment"))


class LiveExperiment:
    """One experiment. Every method that changes `state` adds the log's row at once."""

    def __init__(self, row: Values, state: LearnerState) -> None:
        self.id: int = row["id"]
        self.name: str = row["name"]
        self.state = state
        self.recent = RecentDecisions(name=row["name"], outcomes=len(state.setup.outcomes))
        self.oldest = -math.inf  # time of the oldest decision that may still take the default; −∞ if unknown
        self.oldest_serial = 0  # its serial number, or a smaller one
        self.statistics = pair_statistics.PairStatistics()
        self.shared = 0  # transactions in which others' rows are asked for together with the lock
        self._rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)  # to be written, by table
        self._stand_at(row)

    def _stand_at(self, row: Values) -> None:
        """Stand at the end of the log, as the experiment's row says."""
        self.links: int = row["links"]
        self.head: bytes = row["head"]
        self.time: float = row["time"]
        self.life = lifecycle.Life(row["status"], row["description"], lifecycle.Shipment.parse(row["shipped"]))
        self.rewards: int = row["rewards"]
        self._ahead = 0.0  # seconds by which the experiment's time is ahead of this process's clock
        self._written = self.links
        self._changed = False  # whether a change is yet to be written

    @classmethod
    def create(
        cls, connection: Connection, name: str, setup: Setup, first: Mapping[str, list[Any]], now: float
    ) -> Self:
        """A new experiment, written to the database; `first` has its arms, its players and their attributes."""
        if setup.policy.forget is not None:
            raise ValueError(f"forget={setup.policy.forget}, but the service has no policies that forget; see Learner")
        values = [setup.attributes.check(each) for each in first.get("attributes", ())]
        state = LearnerState(setup, first["arms"], first["players"], values)
        row: dict[str, Any] = {"name": name, "created_at": now}
        row |= {f"first_{kind}": len(first[kind]) for kind in ("players", "arms")}
        row["setup"] = json.dumps(setup.to_dict(), sort_keys=True, allow_nan=False)
        row["origin"] = row["head"] = row_digest("experiments", row)
        row |= dict.fromkeys(("rounds", "decisions", "events", "links", "rewards", "waiting"), 0)
        row |= {"status": "running", "description": "", "shipped": None, "time": now}
        insert = database.insert_into(tables.experiments, connection.dialect.name).on_conflict_do_nothing()
        row["id"] = connection.execute(insert.returning(tables.experiments.c.id), row).scalar()
        if row["id"] is None:
            raise ExperimentExists(f"there is an experiment {name!r} already")
        live = cls(row, state)
        for roster in (state.player_roster, state.arm_roster):
            for place in range(len(roster.names)):
                live._append_name(roster, place)
        live.write_log(connection)
        live.statistics.write(connection, live.id, state)
        return live

    # ---------------------------------------------------------------- up to date with the database

    @classmethod
    def load(cls, connection: Connection, row: Values) -> Self:
        """The experiment from the statistics beside the log: the cost does not depend on the log's length."""
        players, arms = (log_rows.read_names(connection, table, row["id"]) for table in (tables.players, tables.arms))
        first = [name for name, _ in arms[: row["first_arms"]]]  # without players, which would take long if many
        state = LearnerState(Setup.from_dict(json.loads(row["setup"])), first, [])
        live = cls(row, state)
        state.rounds, state.events, state.decisions = row["rounds"], row["events"], row["decisions"]
        live.statistics.load(connection, row, state, players, arms)
        if row["shares"] is not None:
            state.limit(log_rows.parse_shares(row["shares"], state.arm_roster.names))
        patience = state.setup.patience
        if patience is not None:  # every default that was due when the log's last row was written has been taken,
            # or that was due when the experiment was archived: rows that came after that, as of erasures, took none
            until = log_rows.archived_at(connection, live.id) if live.life.status == "archived" else live.time
            live.oldest_serial = log_rows.first_row(
                connection, live.id, range(state.decisions), lambda found: found.decided_at + patience > until
            )
        return live

    def unread(self) -> list[tuple[sql.Select[Any], dict[str, int]]]:
        """The queries for what other processes wrote, with their parameters."""
        wanted = {"experiment": self.id, "serial": self.state.decisions, "link": self.links + 1, "most": FEW}
        return [(query, wanted) for query in UNREAD[: None if self.state.setup.outcomes else -1]]

    def catch_up(self, connection: Connection, row: Values, read: Sequence[Iterable[Values]] = ()) -> bool:
        """Replay what other processes wrote; False if it is so much that loading anew is faster.

        `read` has what `unread` finds, where it was asked for already.
        """
        missed = row["links"] - self.links
        self.shared = SHARED if missed else max(self.shared - 1, 0)
        if missed == 0:
            if row["head"] != self.head:
                raise Damaged(f"experiment {self.name!r}: row {self.links} of the log is not the one that was written")
            return True
        if not 0 < missed <= FEW:
            return False
        head, read = self.head, read or [connection.execute(*asked).mappings() for asked in self.unread()]
        found = [(table.name, entry) for table, rows in zip(log_rows.LOG, read, strict=False) for entry in rows]
        missing = sorted(found, key=log_rows.by_link)
        if any(table == "changes" and entry["kind"] == "rebuild" for table, entry in missing):
            return False
        for table, entry in missing:
            head = row_digest(table, entry, head)
        if head != row["head"] or len(missing) != missed:
            raise Damaged(
                f"experiment {self.name!r}: the log after row {self.links} has {len(missing)} rows that do not add up "
                f"to its head, row {row['links']}; see what `posse db verify` says"
            )
        replay(self, missing, lambda table, place: log_rows.read_name(connection, table, self.id, place))
        self._stand_at(row)
        self.statistics.keep(self.state)
        return True

    def roster_of(self, kind: str) -> Roster:
        """The roster that a change is about."""
        return self.state.player_roster if kind in log_rows.PLAYER_CHANGES else self.state.arm_roster

    # ---------------------------------------------------------------- what happens

    def time_at(self, clock: float) -> float:
        """The experiment's time when the clock says this. Where the log is ahead of the clock, it goes on from there.

        What another process has written since sets it anew, so processes whose clocks differ agree.
        """
        self._ahead = max(self._ahead, self.time - clock)
        return max(clock + self._ahead, self.time)  # rounding must not bring it back

    def choose(self, players: list[int], offered: np.ndarray, restricted: bool, now: float) -> list[Decision]:
        """One round; `restricted` says that the request named the arms that are offered."""
        own = {} if self.life.shipment is None else self.life.shipment.offers(players, offered)
        made = self.state.choose(players, offered, now, own)
        bits = np.packbits(offered).tobytes()
        for position, (decision, row) in enumerate(made):
            given = own.get(row.player, offered)
            probabilities = np.zeros(given.size, "<f8")
            probabilities[given] = list(decision.probabilities.values())
            stored = {"probabilities": probabilities.tobytes(), "restricted": int(restricted), "position": position}
            self.append_decision(row, offered=bits if given is offered else np.packbits(given).tobytes(), **stored)
        return [decision for decision, _ in made]

    def append_decision(self, row: Row, **request: Any) -> None:
        """Write a decision to the log, and let it wait for its reward."""
        self.wait(row)
        values = row._asdict()
        values |= request
        values["holdout"], values["request_key"] = int(row.holdout), None
        self._append("decisions", row.decided_at, values)

    def wait(self, row: Row) -> None:
        """Let a decision wait for its reward."""
        self.state.wait(row)
        self.statistics.touched.add((row.arm, row.player))
        self.recent.waiting[row.serial] = row
        self.oldest = min(self.oldest, row.decided_at)

    def observe(self, answered: list[tuple[Row, float]], now: float, defaulted: bool = False) -> None:
        """One event: rewards of decisions, or of the past."""
        if not answered:
            return
        state = self.state
        state.observe(answered)
        self.rewards += len(answered)
        for row, reward in answered:
            self.statistics.touched.add((row.arm, row.player))
            seen_n, seen_s = state.core.last_seen(state.known, row.player, row.arm)
            past = row.serial < 0
            values = {
                "serial": -(self.links + 1) if past else row.serial,
                "event": state.events,
                "round": row.round if past else 0,
                "player": row.player,
                "arm": row.arm,
                "reward": reward + 0.0,  # not −0.0: SQLite keeps no sign of it, and the digest would not match
                "seen_n": seen_n,
                "seen_s": seen_s,
                "defaulted": int(defaulted),
                "observed_at": now,
            }
            self._append("rewards", now, values)
            self.recent.answer(row.serial, reward, defaulted)

    def observe_outcomes(self, values: Collection[OutcomeValue], now: float) -> list[str]:
        """Take in what else came of decisions, the alarms that it raises and what follows; return what to tell."""
        self.append_outcomes(values, now)
        said = []
        for kind, arm, outcome in self.state.guarded(values):
            self.change(kind, arm, now, outcome=outcome)
            what = f"the arm {arm!r} has crossed the bound of {outcome!r}" if outcome else f"the arm {arm!r} is retired"
            said.append(f"experiment {self.name!r}: {what}")
        return said

    def append_outcomes(self, values: Iterable[OutcomeValue], now: float) -> None:
        """Write to the log what else came of decisions."""
        for each in values:
            each = each._replace(value=each.value + 0.0)  # not −0.0, as above
            self.recent.note(each)
            self._append("outcomes", now, each._asdict() | {"observed_at": now})

    def check_changes(
        self, steps: list[tuple[str, str]], values: Mapping[str, tuple[Value, ...]], shares: Any = None
    ) -> None:
        """An error if one of these changes, each a kind and a name, cannot be made after those before it.

        `values` are the attributes of players who join, as far as they are given, and `shares` the limits at the end.
        """
        new = [name for kind, name in steps if kind == "join" and name not in self.state.player_roster]
        self.state.setup.check_players(len(self.state.player_roster.names) + len(new))
        for name, given in values.items():
            self.state.check_join(name, given)
        names = [name for _, name in steps]
        roster = self.state.arm_roster
        players, arms = self.state.player_roster.copy_of(names), roster.copy_of(roster.names)
        for kind, name in steps:
            roster = players if kind in log_rows.PLAYER_CHANGES else arms
            if kind == "add arm":
                check_least(self.state.shares, self.state.setup.floor, [*(here for _, here in roster.listed()), name])
            if kind in (log_rows.PLAYER_CHANGES[0], log_rows.ARM_CHANGES[0]):
                roster.add(name)
            else:
                if name not in roster:
                    self.roster_of(kind).place(name)  # its error says who there is
                roster.retire(name)
        if shares is not None:
            here = [name for _, name in arms.listed()]
            check_limits(check_shares(shares), self.state.setup.floor, here, arms.names)

    def change(
        self,
        kind: str,
        name: str,
        now: float,
        knows_others: bool = True,
        values: tuple[Value, ...] | None = None,
        outcome: str | None = None,
    ) -> None:
        """One event: a player or an arm comes or goes. A player that is new has these values of the attributes.

        With "alarm", an arm has crossed the bound of an outcome.
        """
        if kind == "erase":
            return self.erase(name, name, now)
        if kind == "alarm":
            self.state.alarm(name, outcome)
            detail = json.dumps({"outcome": list(self.state.setup.outcomes).index(str(outcome))})
            return self.append_change(
                kind, self.state.arm_roster.place(name), now, self.state.events, knows_others, detail
            )
        self.state.change(kind, name, knows_others, values)
        roster = self.roster_of(kind)
        place = roster.place(name)
        self._append_name(roster, place)
        self.append_change(kind, place, now, self.state.events, knows_others)

    def erase(self, player: str, replacement: str, now: float) -> None:
        """Replace a player's name. Its attributes are forgotten, which is an event where there are any."""
        place = self.state.player_roster.place(player)
        self.replace_name(place, replacement)
        self._append_name(self.state.player_roster, place)
        self.append_change("erase", place, now, self.state.events if self.state.setup.attributes else 0)

    def replace_name(self, place: int, replacement: str) -> None:
        """Give a player another name, and forget its attributes."""
        self.state.player_roster.rename(place, replacement)
        if self.state.setup.attributes:
            self.state.change("erase", replacement)
            self.statistics.expect_summary()

    def set_shares(self, shares: Any, now: float, rounds: int | None = None) -> None:
        """One event: these are the arms' limits from now on, after so many rounds."""
        checked = self.state.set_shares(shares)
        detail = log_rows.written_shares(checked, self.state.arm_roster.names)
        place = self.state.rounds if rounds is None else rounds
        self.append_change("shares", place, now, self.state.events, detail=detail)

    def append_change(
        self, kind: str, place: int, now: float, event: int = 0, knows_others: bool = True, detail: str | None = None
    ) -> None:
        values: dict[str, Any] = {"event": event, "kind": kind, "place": place, "knows_others": int(knows_others)}
        values |= {"at": now, "detail": detail}
        self._changed = True
        self._append("changes", now, values)

    def move(self, moves: Iterable[tuple[str, str | None]], now: float) -> None:
        """Go on in its life, as `Life.moves` says."""
        for kind, detail in moves:
            self.append_change(kind, 0, now, detail=detail)
            self.life.follow(kind, detail)

    def _append(self, table: str, at: float, row: dict[str, Any]) -> None:
        row["experiment"], row["link"] = self.id, self.links + 1
        self.head = row["digest"] = row_digest(table, row, self.head)
        self.links += 1
        self.time = max(self.time, at)
        self._rows[table].append(row)

    def _append_name(self, roster: Roster, place: int) -> None:
        table, row = f"{roster.kind}s", {"experiment": self.id, "place": place, "name": roster.names[place]}
        if roster.kind == "player":
            row["attributes"] = log_rows.written_values(self.state.values[place])
        self._rows[table].append({**row, "here": int(roster.here[place]), "digest": row_digest(table, row)})

    # ---------------------------------------------------------------- into the database

    def write_log(self, connection: Connection) -> None:
        """Write the rows of the log, and the names, that are not yet there."""
        for name, rows in self._rows.items():
            if rows:
                database.insert_rows(connection, tables.metadata.tables[name], rows, replace=name in NAMES)
                rows.clear()

    def write(self, connection: Connection) -> None:
        """Write everything that is not yet there."""
        if max(len(self.recent.waiting), len(self.recent.answers)) > RECENT:
            self.recent.trim()
        if self.links == self._written:
            return
        self.write_log(connection)
        self.statistics.write(connection, self.id, self.state)
        values = self.progress() if self._changed else self._counts()
        connection.execute(UPDATE, values | {"experiment": self.id})
        self._written, self._changed = self.links, False

    def progress(self) -> dict[str, Any]:
        """How far the experiment is: columns of its row that follow from the log."""
        state = self.state
        limits = None
        if state.shares != state.setup.shares:
            limits = log_rows.written_shares(state.shares, state.arm_roster.names)
        return self._counts() | self.life.columns() | {"shares": limits}

    def _counts(self) -> dict[str, Any]:
        """Those that decisions and rewards change too."""
        state = self.state
        values: dict[str, Any] = {"rounds": state.rounds, "decisions": state.decisions, "events": state.events}
        values |= {"links": self.links, "head": self.head, "time": self.time}
        return values | {"rewards": self.rewards, "waiting": int(state.all_waiting.sum())}
