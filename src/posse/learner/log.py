"""The learner's log: decisions and rewards as a table, and the way back from it."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from posse.learner.ledger import Row, parse_id, write_id
from posse.learner.setup import Setup

if TYPE_CHECKING:
    from posse.learner.learner import Learner

SCHEMA = 1
COLUMNS = ["decision", "round", "player", "arm", "propensity", "holdout", "shared"]
COLUMNS += ["reward", "observed", "defaulted", "decided_at", "observed_at"]


def to_arrow(learner: Learner) -> Any:
    """The log as an Arrow table; what is not in its rows is in its metadata."""
    import pyarrow

    if not learner.setup.keep_log:
        raise ValueError("this learner keeps no log: it was made with keep_log=False")
    rows = learner.ledger.rows()
    players, arms = learner.player_roster.names, learner.arm_roster.names
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
    schema = pyarrow.schema([(name, kind) for name, (kind, _) in columns.items()], metadata={"posse": _about(learner)})
    return pyarrow.table([pyarrow.array(values, kind) for kind, values in columns.values()], schema=schema)


def _about(learner: Learner) -> str:
    setup, serials = learner.setup.to_dict(), learner.ledger.columns["serial"]
    return json.dumps(
        {
            "schema": SCHEMA,
            "kind": "learner log",
            "adaptive": True,
            "policy": setup["policy"],
            "epsilon": getattr(learner.setup.policy, "epsilon", None),
            "reward_range": [learner.setup.low, learner.setup.high],
            "players": learner.player_roster.names,
            "arms": learner.arm_roster.names,
            "setup": setup,
            "first": learner.first,
            "changes": learner.changes,
            "rounds": learner.rounds,
            "events": learner.events,
            "decisions": learner.decisions,
            "given_up": learner.ledger.given_up,
            "rows": len(serials) + len(learner.ledger.waiting),
            "recorded": serials.count(-1),
            "time": learner._now if math.isfinite(learner._now) else None,
        }
    )


def replay(learner: Learner, table: Any, clock: Callable[[], float]) -> None:
    """Begin a learner and take it through everything that a log tells."""
    about, entries = _read(table)
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
            _take(learner, rewards[event])
        else:
            raise ValueError(f"the log lacks event {event} of {about['events']}: rows are missing")
    for entry in waiting:
        learner._wait(_row(learner, entry))
    learner.rounds, learner.decisions = about["rounds"], about["decisions"]
    learner.ledger.given_up = about["given_up"]
    learner._now = -math.inf if about["time"] is None else about["time"]


def _read(table: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
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


def _take(learner: Learner, entries: list[dict[str, Any]]) -> None:
    """One event of the log."""
    learner._now = entries[0]["observed_at"]
    answered = []
    for entry in entries:
        row = _row(learner, entry)
        if row.serial >= 0:
            learner._wait(row)
        answered.append((row, learner.setup.check_reward("reward in the log", entry["reward"])))
    learner._take(answered, defaulted=entries[0]["defaulted"])


def _row(learner: Learner, entry: dict[str, Any]) -> Row:
    serial, tag = (-1, 0) if entry["decision"] is None else parse_id(entry["decision"])
    return Row(
        serial,
        tag,
        entry["round"],
        learner.player_roster.place(entry["player"]),
        learner.arm_roster.place(entry["arm"]),
        entry["propensity"] or 0.0,
        entry["holdout"],
        entry["shared"],
        entry["decided_at"],
    )
