"""The learner's log: decisions and rewards as a table, and the way back from it."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from posse.learner.ledger import Answer, Row, parse_id, write_id
from posse.learner.setup import Setup
from posse.learner.state import LearnerState

if TYPE_CHECKING:
    from posse.learner.learner import Learner

SCHEMA = 1
COLUMNS = ["decision", "round", "player", "arm", "propensity", "holdout", "shared"]
COLUMNS += ["reward", "observed", "defaulted", "decided_at", "observed_at"]


Rows = list[tuple[Row, Answer | None]]
"""Decisions and rewards of the past, each with what came of it, in the order of rounds and serial numbers."""


class Past(NamedTuple):
    """What a log tells beside its rows."""

    first: dict[str, list[str]]  # the arms and players at the start
    changes: list[dict[str, Any]]  # who and what came and went, with the number of the event
    given_up: int  # decisions that are not in the log
    time: float  # −∞ before the first event


def to_arrow(state: LearnerState, past: Past, rows: Rows) -> Any:
    """The log as an Arrow table; what is not in its rows is in its metadata."""
    import pyarrow

    players, arms = state.player_roster.names, state.arm_roster.names
    text, real, whole, flag = pyarrow.string(), pyarrow.float64(), pyarrow.int64(), pyarrow.bool_()
    columns = {
        "decision": (text, [write_id(row.serial, row.tag) if row.serial >= 0 else None for row, _ in rows]),
        "round": (whole, [row.round for row, _ in rows]),
        "player": (text, [players[row.player] for row, _ in rows]),
        "arm": (text, [arms[row.arm] for row, _ in rows]),
        "propensity": (real, [row.propensity if row.serial >= 0 else None for row, _ in rows]),
        "holdout": (flag, [bool(row.holdout) for row, _ in rows]),
        "shared": (real, [row.shared for row, _ in rows]),
        "reward": (real, [answer.reward if answer else None for _, answer in rows]),
        "observed": (whole, [answer.observed if answer else None for _, answer in rows]),
        "defaulted": (flag, [bool(answer.defaulted) if answer else None for _, answer in rows]),
        "decided_at": (real, [row.decided_at for row, _ in rows]),
        "observed_at": (real, [answer.observed_at if answer else None for _, answer in rows]),
    }
    recorded = sum(row.serial < 0 for row, _ in rows)
    about = {"posse": _about(state, past, len(rows), recorded)}
    schema = pyarrow.schema([(name, kind) for name, (kind, _) in columns.items()], metadata=about)
    return pyarrow.table([pyarrow.array(values, kind) for kind, values in columns.values()], schema=schema)


def _about(state: LearnerState, past: Past, rows: int, recorded: int) -> str:
    setup = state.setup.to_dict()
    return json.dumps(
        {
            "schema": SCHEMA,
            "kind": "learner log",
            "adaptive": True,
            "policy": setup["policy"],
            "epsilon": getattr(state.setup.policy, "epsilon", None),
            "reward_range": [state.setup.low, state.setup.high],
            "players": state.player_roster.names,
            "arms": state.arm_roster.names,
            "setup": setup,
            "first": past.first,
            "changes": past.changes,
            "rounds": state.rounds,
            "events": state.events,
            "decisions": state.decisions,
            "given_up": past.given_up,
            "rows": rows,
            "recorded": recorded,
            "time": past.time if math.isfinite(past.time) else None,
        }
    )


def replay(learner: Learner, table: Any, clock: Callable[[], float]) -> None:
    """Begin a learner and take it through everything that a log tells."""
    about, entries = read(table)
    learner._begin(Setup.from_dict(about["setup"]), about["first"]["arms"], about["first"]["players"], clock)
    rewards: dict[int, list[dict[str, Any]]] = defaultdict(list)
    waiting = []
    for entry in entries:
        if entry["reward"] is None:
            waiting.append(entry)
        else:
            rewards[entry["observed"]].append(entry)
    changes = {change["event"]: change for change in about["changes"]}
    for event in range(1, about["events"] + 1):
        if event in changes:
            change = changes[event]
            learner._change(change["kind"], change["name"], knows_others=change["knows_others"])
        elif event in rewards:
            _observe(learner, rewards[event])
        else:
            raise ValueError(f"the log lacks event {event} of {about['events']}: rows are missing")
    for entry in waiting:
        learner._wait(row_of(learner.state, entry))
    learner.state.rounds, learner.state.decisions = about["rounds"], about["decisions"]
    learner.ledger.given_up = about["given_up"]
    learner._now = -math.inf if about["time"] is None else about["time"]


def read(table: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a log says about itself, and its rows in order, if all of them are there."""
    metadata = getattr(getattr(table, "schema", None), "metadata", None) or {}
    about = json.loads(metadata.get(b"posse", b"{}"))
    if about.get("kind") != "learner log":
        raise ValueError("this is not a learner's log: expected an Arrow table as `log` gives it, with its metadata")
    if about["schema"] > SCHEMA:
        raise ValueError(f"the log has schema {about['schema']}, but this posse reads up to {SCHEMA}; use a newer one")
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise ValueError(f"the log has no column {missing[0]!r}")
    entries = table.select(COLUMNS).to_pylist()
    ids = [entry["decision"] for entry in entries if entry["decision"] is not None]
    if len(entries) != about["rows"] or len(set(ids)) != about["rows"] - about["recorded"]:
        raise ValueError(f"the log was written with {about['rows']} rows, but has {len(entries)}, or some twice")
    order = {id(entry): parse_id(entry["decision"])[0] if entry["decision"] else -1 for entry in entries}
    return about, sorted(entries, key=lambda entry: (entry["round"], order[id(entry)]))


def _observe(learner: Learner, entries: list[dict[str, Any]]) -> None:
    """One event of the log."""
    learner._now = entries[0]["observed_at"]
    answered = []
    for entry in entries:
        row = row_of(learner.state, entry)
        if row.serial >= 0:
            learner._wait(row)
        answered.append((row, learner.state.setup.check_reward("reward in the log", entry["reward"])))
    learner._observe(answered, defaulted=entries[0]["defaulted"])


def row_of(state: LearnerState, entry: dict[str, Any]) -> Row:
    """A decision, or a reward of the past, from an entry of a log."""
    serial, tag = (-1, 0) if entry["decision"] is None else parse_id(entry["decision"])
    return Row(
        serial,
        tag,
        entry["round"],
        state.player_roster.place(entry["player"]),
        state.arm_roster.place(entry["arm"]),
        entry["propensity"] or 0.0,
        entry["holdout"],
        entry["shared"],
        entry["decided_at"],
    )
