"""Going through rows of an experiment's log: to catch up with other processes, and to check or rebuild a database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from posse.learner.ledger import Row
from posse.service.storage import errors, lifecycle, log_rows
from posse.service.storage.log_rows import Values

if TYPE_CHECKING:
    from posse.service.storage.live_experiment import LiveExperiment


def replay(live: LiveExperiment, rows: Iterable[tuple[str, Values]], entry_of: Callable[[str, int], Values]) -> None:
    """Go through rows of the log, in order; `entry_of` gives the row at a place of a table of names."""
    batch: list[tuple[Row, float]] = []
    event = 0
    for table, row in rows:
        if batch and (table != "rewards" or row["event"] != event):
            live.state.observe(batch)
            batch = []
        if table == "decisions":
            decision = log_rows.decision_row(row)
            live.state.rounds, live.state.decisions = decision.round, decision.serial + 1
            live.wait(decision)
        elif table == "rewards":
            batch.append(_replay_reward(live, row))
            event = row["event"]
        elif table == "outcomes":
            value = log_rows.outcome_value(row)
            live.state.guard.add([value])
            live.recent.note(value)
        else:
            _replay_change(live, row, entry_of)
        live.recent.trim()
    if batch:
        live.state.observe(batch)


def _replay_reward(live: LiveExperiment, row: Values) -> tuple[Row, float]:
    live.rewards += 1
    live.statistics.touched.add((row["arm"], row["player"]))
    live.recent.answer(row["serial"], row["reward"], bool(row["defaulted"]))
    if row["serial"] < 0:
        live.state.rounds = row["round"]
    return log_rows.past_row(row, max(row["serial"], -1)), row["reward"]


def _replay_change(live: LiveExperiment, row: Values, entry_of: Callable[[str, int], Values]) -> None:
    kind, place = row["kind"], row["place"]
    if kind in (*log_rows.PLAYER_CHANGES, *log_rows.ARM_CHANGES):
        roster, values = live.roster_of(kind), None
        if place < len(roster.names):
            name = roster.names[place]
        else:
            entry = entry_of(f"{roster.kind}s", place)
            name = entry["name"]
            if kind == "join":
                values = log_rows.parse_values(live.state.setup.attributes, entry["attributes"])
        live.state.change(kind, name, bool(row["knows_others"]), values)
    elif kind == "erase":
        live.replace_name(place, entry_of("players", place)["name"])
    elif kind == "shares":
        live.state.set_shares(log_rows.parse_shares(row["detail"], live.state.arm_roster.names))
    elif kind == "alarm":
        outcome = list(live.state.setup.outcomes)[json.loads(row["detail"])["outcome"]]
        live.state.alarm(live.state.arm_roster.names[place], outcome)
    elif kind == "rounds":
        live.state.rounds = place
    elif kind in lifecycle.KINDS:
        live.life.follow(kind, row["detail"])
    elif kind != "rebuild":
        raise errors.Damaged(f"experiment {live.name!r}: row {row['link']} of the log has the kind {kind!r}")
