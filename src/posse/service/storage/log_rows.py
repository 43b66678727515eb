"""Rows of the log, of players and of arms: their digests, and how they are found and read.

SQLite's pages have no checksums, so the log carries its own: each row's digest is

    sha256(digest of the row before ‖ table ‖ numbers ‖ texts and arrays),

one chain for each experiment, from its set-up to its last row, whose digest the experiment's row repeats as its head.
"""

import hashlib
import json
import operator
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.attributes import Attributes, Value
from posse.learner.guard import OutcomeValue
from posse.learner.ledger import Row
from posse.learner.shares import Shares
from posse.service.storage import schema as tables
from posse.service.storage.errors import Damaged

Values = Mapping[Any, Any]  # by the names of columns
PLAYER_CHANGES, ARM_CHANGES = ("join", "retire"), ("add arm", "retire arm")


# ---------------------------------------------------------------- digests


class RowLayout:
    """How a table's row becomes bytes: its numbers, then what varies in length or may be missing."""

    def __init__(self, whole: str, real: str, varying: str, optional: str = "") -> None:
        self.numbers = operator.itemgetter(*whole.split(), *real.split())
        self.pack = struct.Struct(f">{len(whole.split())}q{len(real.split())}d").pack
        self.varying = varying.split()
        self.optional = optional.split()  # columns that came later: where they are empty, digests are as before


NAMES = RowLayout("experiment place", "", "name")
LAYOUTS = {
    "decisions": RowLayout(
        "link serial tag round player arm holdout restricted position",
        "propensity shared decided_at",
        "probabilities offered request_key",
    ),
    "rewards": RowLayout("link serial event round player arm defaulted", "reward seen_n seen_s observed_at", ""),
    "changes": RowLayout("link event place knows_others", "at", "kind", "detail"),
    "outcomes": RowLayout("link serial outcome player arm", "value observed_at", ""),
    "audit": RowLayout("id", "at", "who action experiment detail"),
    "experiments": RowLayout("first_players first_arms", "created_at", "name setup"),
    "players": RowLayout("experiment place", "", "name", "attributes"),
    "arms": NAMES,
    "tokens": RowLayout("id", "created_at", "hash scopes label experiment expires_at revoked_at"),
}


def row_digest(table: str, row: Values, previous: bytes = b"") -> bytes:
    """The digest of a row. `previous` is the digest of the row before it in the log.

    An experiment's row is the first in its chain. The rows of names and tokens are in no chain, so that a name can be
    erased without breaking one. Raises struct.error or TypeError where a value is not of its column's kind.
    """
    layout = LAYOUTS[table]
    content = previous + table.encode() + layout.pack(*layout.numbers(row))
    if layout.varying:
        content += b"".join([_sized(row[name]) for name in layout.varying])
        content += b"".join([_sized(row[name]) for name in layout.optional if row[name] is not None])
    return hashlib.sha256(content).digest()


_length = struct.Struct(">q").pack
NOTHING = _length(-1)


def _sized(value: bytes | str | float | None) -> bytes:
    """A value after its length; length −1 if there is none."""
    if value is None:
        return NOTHING
    if isinstance(value, (int, float)):
        value = repr(float(value))
    content = value.encode() if isinstance(value, str) else bytes(value)
    return _length(len(content)) + content


# ---------------------------------------------------------------- decisions and rewards


_MADE, _GIVEN, _TOLD = tables.decisions.c, tables.rewards.c, tables.outcomes.c
_HERE = _MADE.experiment == sql.bindparam("experiment")
_FROM_SERIAL = sql.and_(_HERE, _MADE.serial >= sql.bindparam("serial"))
_ROW = [_MADE[name] for name in Row._fields]
SAME_DECISION = sql.and_(_GIVEN.experiment == _MADE.experiment, _GIVEN.serial == _MADE.serial)
_ANSWERED = sql.select(_GIVEN.serial).where(SAME_DECISION).scalar_subquery().label("answered")

NEXT_DECISION = (
    sql.select(_MADE.serial, _MADE.decided_at, _MADE.link).where(_FROM_SERIAL).order_by(_MADE.serial).limit(1)
)
MADE_IN = sql.select(tables.decisions).where(_FROM_SERIAL, _MADE.serial < sql.bindparam("end")).order_by(_MADE.serial)
MADE_BEFORE = (  # bounded by serial numbers: times have no index, and the query would read all that are not yet due
    sql.select(*_ROW, _ANSWERED)
    .where(_FROM_SERIAL, _MADE.serial < sql.bindparam("until"), _MADE.decided_at < sql.bindparam("time"))
    .order_by(_MADE.serial)
)
DECISIONS = (
    sql.select(*_ROW, _MADE.offered, _GIVEN.reward, _GIVEN.event, _GIVEN.observed_at, _GIVEN.defaulted)
    .select_from(tables.decisions.outerjoin(tables.rewards, SAME_DECISION))
    .where(_HERE)
    .order_by(_MADE.serial)
)
NEXT_REWARD = (  # likewise, by the row of the log
    sql.select(_GIVEN.link, _GIVEN.observed_at)
    .where(_GIVEN.experiment == sql.bindparam("experiment"), _GIVEN.link >= sql.bindparam("serial"))
    .order_by(_GIVEN.link)
    .limit(1)
)
PAST_REWARDS = (  # in the order in which they came
    sql.select(tables.rewards)
    .where(_GIVEN.experiment == sql.bindparam("experiment"), _GIVEN.serial < 0)
    .order_by(_GIVEN.serial.desc())
)
WITH_REWARDS = (
    sql.select(*_ROW, _GIVEN.reward.label("given"), _GIVEN.defaulted)
    .select_from(tables.decisions.outerjoin(tables.rewards, SAME_DECISION))
    .where(_HERE, _MADE.serial.in_(sql.bindparam("serials", expanding=True)))
)
_OUTCOMES = sql.select(_TOLD.serial, _TOLD.outcome, _TOLD.value).where(_TOLD.experiment == sql.bindparam("experiment"))
OUTCOMES_OF = _OUTCOMES.where(_TOLD.serial.in_(sql.bindparam("serials", expanding=True)))
OUTCOMES_BETWEEN = _OUTCOMES.where(_TOLD.serial.between(sql.bindparam("first"), sql.bindparam("last")))

LOG = (tables.decisions, tables.rewards, tables.changes, tables.outcomes)  # the last if there are any outcomes
UNREAD = [  # what follows in each table of the log, as far as it is worth being replayed
    sql.select(table)
    .where(table.c.experiment == sql.bindparam("experiment"), place >= sql.bindparam(place.name))
    .limit(sql.bindparam("most"))
    for table, place in zip(LOG, (_MADE.serial, *(each.c.link for each in LOG[1:])), strict=True)
]


def decision_row(values: Values) -> Row:
    """A decision as the learner has it, from a row of the table."""
    row = Row(*(values[name] for name in Row._fields))
    return row._replace(holdout=bool(row.holdout), probabilities=values["probabilities"] or b"")


def with_availability(row: Row, offered: bytes | None) -> Row:
    """A decision whose probabilities are NaN for arms that were not offered, as the learner's log has it."""
    if offered is None:
        return row._replace(probabilities=b"")
    probabilities = np.frombuffer(row.probabilities, "<f8")
    available = np.unpackbits(np.frombuffer(offered, np.uint8), count=probabilities.size)
    return row._replace(probabilities=np.where(available, probabilities, np.nan).tobytes())


def stored_probabilities(row: Row) -> dict[str, bytes | None]:
    """The columns of the table for the probabilities of a row of the learner's log."""
    probabilities = np.frombuffer(row.probabilities, "<f8")
    offered = ~np.isnan(probabilities)
    stored = np.where(offered, probabilities, 0.0).tobytes(), np.packbits(offered).tobytes()
    return dict(zip(("probabilities", "offered"), stored if row.probabilities else (None, None), strict=True))


def past_row(values: Values, serial: int = -1) -> Row:
    """What the learner needs to observe a reward, from a row of rewards."""
    return Row(serial, 0, values["round"], values["player"], values["arm"], 0.0, False, 0.0, values["observed_at"])


def first_row(
    connection: Connection, experiment: int, numbers: range, passes: Callable[[Any], bool], query: Any = NEXT_DECISION
) -> int:
    """The serial number from which on decisions pass, or what else `query` finds rows by; the range's end if none does.

    The range is halved until nothing is left of it: times and places in the log grow with the number, so neither needs
    an index.
    """
    low, high = numbers.start, numbers.stop
    while low < high:
        middle = (low + high) // 2
        found = connection.execute(query, {"experiment": experiment, "serial": middle}).first()
        if found is None or passes(found):
            high = middle
        else:
            low = found[0] + 1
    return low


def read_log(
    connection: Connection, experiment: int, after: int = 0, serial: int = 0, limit: int | None = None
) -> Iterator[tuple[str, Values]]:
    """The rows of the log after one of them, each with its table, one table after another.

    `serial` is the first new decision's: decisions have no index of links, but serial numbers have the same order. With
    a limit, rewards and outcomes come with the tag of their decision, and its round as `decided_in`.
    """
    for table in LOG:
        place, first = (table.c.serial, serial) if table is tables.decisions else (table.c.link, after + 1)
        query = sql.select(table).where(table.c.experiment == experiment, place >= first).order_by(place)
        if limit is not None:
            query = query.where(place < first + limit)
            if table in (tables.rewards, tables.outcomes):
                same = sql.and_(table.c.experiment == _MADE.experiment, table.c.serial == _MADE.serial)
                query = query.add_columns(_MADE.tag, _MADE.round.label("decided_in"))
                query = query.select_from(table.outerjoin(tables.decisions, same))
        for row in connection.execute(query).mappings():
            if limit is None or row["link"] <= after + limit:
                yield table.name, row


def known_outcomes(connection: Connection, query: sql.Select[Any], wanted: Values) -> dict[tuple[int, int], float]:
    """Values by serial number and outcome."""
    return {(serial, outcome): value for serial, outcome, value in connection.execute(query, wanted)}


def outcome_value(row: Values) -> OutcomeValue:
    """The value of an outcome, from a row of the table."""
    return OutcomeValue(*(row[name] for name in OutcomeValue._fields))


def archived_at(connection: Connection, experiment: int) -> float:
    """When an experiment that is archived became so."""
    column = tables.changes.c
    query = sql.select(sql.func.max(column.at)).where(column.experiment == experiment, column.kind == "archive")
    return float(connection.execute(query).scalar_one())


def by_link(entry: tuple[str, Values]) -> int:
    """What sorts rows of the log into their order."""
    return entry[1]["link"]


# ---------------------------------------------------------------- names


def read_names(connection: Connection, table: sql.Table, experiment: int) -> list[tuple[str, bool]]:
    """Names, and whether each is here, by place."""
    query = sql.select(table.c.name, table.c.here).where(table.c.experiment == experiment).order_by(table.c.place)
    return [(name, bool(here)) for name, here in connection.execute(query).all()]


def read_some(connection: Connection, table: sql.Table, experiment: int, places: Collection[int]) -> dict[int, str]:
    query = sql.select(table.c.place, table.c.name).where(table.c.experiment == experiment, table.c.place.in_(places))
    return dict(connection.execute(query).all()) if places else {}


def read_name(connection: Connection, table: str, experiment: int, place: int) -> Values:
    names = tables.metadata.tables[table]
    query = sql.select(names).where(names.c.experiment == experiment, names.c.place == place)
    found = connection.execute(query).mappings().first()
    if found is None:
        raise Damaged(f"{table} of experiment {experiment} has nobody at place {place}")
    return found


# ---------------------------------------------------------------- shares


def written_shares(shares: Shares, arms: Sequence[str]) -> str:
    """Limits on arms' shares for a column: by the places of the arms."""
    return json.dumps([[place, *shares[arm]] for place, arm in enumerate(arms) if arm in shares])


def parse_shares(detail: str, arms: Sequence[str]) -> Shares:
    return {arms[place]: (least, greatest) for place, least, greatest in json.loads(detail)}


# ---------------------------------------------------------------- attributes


def read_values(connection: Connection, attributes: Attributes, experiment: int) -> list[tuple[Value, ...]] | None:
    """Each player's values of the attributes, by place; None if there are no attributes."""
    if not attributes:
        return None
    column = tables.players.c
    query = sql.select(column.attributes).where(column.experiment == experiment).order_by(column.place)
    return [parse_values(attributes, text) for text in connection.execute(query).scalars()]


def parse_values(attributes: Attributes, text: str | None) -> tuple[Value, ...]:
    """A player's values from the column of the table."""
    return attributes.values({}) if text is None else attributes.check(json.loads(text))


def written_values(values: Sequence[Value]) -> str | None:
    """A player's values for the column; nothing if it has none."""
    return None if all(value is None for value in values) else json.dumps(values, ensure_ascii=False)
