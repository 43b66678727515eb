"""The tables. Decisions, rewards and changes are the log, and the truth; all else but names and keys follows from it.

The log refers to players and arms by their places, and idempotency keys are beside it, so that a person can be erased
without touching the log. Flags are small integers: a boolean type would read 2 as true, and so hide a damaged value
from the digest.
"""

from typing import Any

import sqlalchemy as sql
from sqlalchemy import BigInteger, Column, Double, ForeignKey, Integer, LargeBinary, SmallInteger, Text

SCHEMA = "0005"  # the revision that this posse writes and reads

metadata = sql.MetaData()

experiments = sql.Table(
    "experiments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("setup", Text, nullable=False),  # Setup.to_dict() as JSON
    Column("created_at", Double, nullable=False),
    Column("first_players", Integer, nullable=False),  # how many of them there were at the start
    Column("first_arms", Integer, nullable=False),
    Column("origin", LargeBinary, nullable=False),  # the digest of the columns so far
    # What follows from the log:
    Column("status", Text, nullable=False),  # running, paused, finished or archived
    Column("description", Text, nullable=False),  # what people say about it
    Column("shipped", Text),  # the arms that a finished one gives, as in the detail of the change; none if none
    Column("shares", Text),  # limits on arms' shares, as in the detail of a change; none if they are the set-up's
    Column("rounds", BigInteger, nullable=False),
    Column("decisions", BigInteger, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("links", BigInteger, nullable=False),  # rows in the log
    Column("head", LargeBinary, nullable=False),  # the digest of the last one
    Column("time", Double, nullable=False),  # of the last one; it never goes back
    Column("rewards", BigInteger, nullable=False),  # all pulls in `stats`, which would be slow to add up
    Column("waiting", BigInteger, nullable=False),  # likewise
    sqlite_autoincrement=True,  # the id of one that was deleted is not used again
)


def _names(table: str, *more: Column[Any]) -> sql.Table:
    return sql.Table(
        table,
        metadata,
        Column("experiment", ForeignKey("experiments.id"), primary_key=True),
        _key("place", Integer),
        Column("name", Text, nullable=False),
        Column("here", SmallInteger, nullable=False),
        *more,
        Column("digest", LargeBinary, nullable=False),  # of place, name, and attributes if there are any
        sql.UniqueConstraint("experiment", "name"),
    )


def _table(name: str, *columns: Any) -> sql.Table:
    """A table with rows of experiments, by the experiment and further keys."""
    return sql.Table(name, metadata, _key("experiment", Integer), *columns, sqlite_with_rowid=False)


def _key(name: str, kind: Any) -> Column[Any]:
    return Column(name, kind, primary_key=True, autoincrement=False)


players = _names("players", Column("attributes", Text))  # values as JSON, as `posse.attributes` has them
arms = _names("arms")

decisions = _table(
    "decisions",
    _key("serial", BigInteger),  # the counter of the draw
    Column("link", BigInteger, nullable=False),  # the row's place in the experiment's log
    Column("tag", BigInteger, nullable=False),
    Column("round", BigInteger, nullable=False),
    Column("player", Integer, nullable=False),
    Column("arm", Integer, nullable=False),
    Column("propensity", Double, nullable=False),
    Column("shared", Double, nullable=False),
    Column("holdout", SmallInteger, nullable=False),
    Column("decided_at", Double, nullable=False),
    Column("probabilities", LargeBinary),  # float64 for each arm; none if imported from an old log
    Column("offered", LargeBinary),  # a bit for each arm, likewise
    Column("restricted", SmallInteger, nullable=False),  # whether the request named the arms available
    Column("request_key", Text),  # of before version 4: `requests` has newer ones; "" once a player of it was erased
    Column("position", Integer, nullable=False),  # in its request
    Column("digest", LargeBinary, nullable=False),
)

rewards = _table(
    "rewards",
    _key("serial", BigInteger),  # −link for a reward of the past
    Column("link", BigInteger, nullable=False),
    Column("event", BigInteger, nullable=False),  # rewards of one event count as one round
    Column("round", BigInteger, nullable=False),  # of a reward of the past; 0 where there is a decision
    Column("player", Integer, nullable=False),
    Column("arm", Integer, nullable=False),
    Column("reward", Double, nullable=False),
    Column("seen_n", Double, nullable=False),  # everybody's count for the arm, as the player sees it from now on,
    Column("seen_s", Double, nullable=False),  # and their sum
    Column("defaulted", SmallInteger, nullable=False),
    Column("observed_at", Double, nullable=False),
    Column("digest", LargeBinary, nullable=False),
)
sql.Index("rewards_by_link", rewards.c.experiment, rewards.c.link, unique=True)

changes = _table(
    "changes",
    _key("link", BigInteger),
    Column("event", BigInteger, nullable=False),  # 0 for what the learner does not count
    Column("kind", Text, nullable=False),
    Column("place", BigInteger, nullable=False),  # of the player or the arm; rounds so far for `rounds`, `shares`
    Column("knows_others", SmallInteger, nullable=False),
    Column("at", Double, nullable=False),
    Column("detail", Text),  # what more there is to say, as JSON
    Column("digest", LargeBinary, nullable=False),
)

outcomes = _table(  # what came of decisions beside their rewards
    "outcomes",
    _key("serial", BigInteger),  # of the decision
    _key("outcome", Integer),  # its place in the set-up
    Column("link", BigInteger, nullable=False),
    Column("player", Integer, nullable=False),
    Column("arm", Integer, nullable=False),
    Column("value", Double, nullable=False),
    Column("observed_at", Double, nullable=False),
    Column("digest", LargeBinary, nullable=False),
)
sql.Index("outcomes_by_link", outcomes.c.experiment, outcomes.c.link, unique=True)

requests = _table(  # those with an idempotency key: `keyed_requests`
    "requests",
    # The experiment is 0 for those that created one.
    Column("key", Text, primary_key=True),  # its digest
    Column("request", Text, nullable=False),  # the digest of what was asked
    Column("players", Text, nullable=False),  # places of those that it is about
    Column("answer", Text, nullable=False),  # what it takes to answer again, as JSON
    Column("checksum", BigInteger, nullable=False),  # of the columns before it
)

stats = _table(  # a pair whose numbers are all 0 has no row
    "stats",
    _key("player", Integer),
    _key("arm", Integer),
    Column("pulls", BigInteger, nullable=False),
    Column("waiting", BigInteger, nullable=False),
    Column("numbers", LargeBinary, nullable=False),  # as the policy declares them: `pair_statistics`
)

outcome_stats = _table(  # what follows from `outcomes`
    "outcome_stats",
    _key("outcome", Integer),
    _key("arm", Integer),
    Column("count", BigInteger, nullable=False),
    Column("sum", BigInteger, nullable=False),  # in steps of the grid of rewards
    Column("alarm", SmallInteger, nullable=False),  # whether its bound was ever crossed
)

summaries = sql.Table(  # apart from `experiments`, because SQLite writes a row anew whenever a column changes
    "summaries",
    metadata,
    _key("experiment", Integer),
    Column("players", Integer, nullable=False),  # how many there were; it says nothing of those who joined later
    Column("content", LargeBinary, nullable=False),  # what the policy's summary said: `pair_statistics`
)

tokens = sql.Table(
    "tokens",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("hash", LargeBinary, nullable=False),  # sha256 of the secret
    Column("scopes", Text, nullable=False),
    Column("experiment", ForeignKey("experiments.id")),
    Column("label", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double),
    Column("revoked_at", Double),
    Column("digest", LargeBinary, nullable=False),  # of the columns before it
)

audit = sql.Table(  # who did what; it outlives the experiments that it is about
    "audit",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Double, nullable=False),
    Column("who", Text, nullable=False),  # the name of a token, or where there is none, who else it was
    Column("action", Text, nullable=False),
    Column("experiment", Text, nullable=False),  # its name; "" for none
    Column("detail", Text, nullable=False),  # names no player
    Column("digest", LargeBinary, nullable=False),  # of the columns before it
    sqlite_autoincrement=True,  # the number of a row that was removed is not used again
)
