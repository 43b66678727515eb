"""The learner's log: decisions and rewards as a table, and the way back from it."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from posse.attributes import Value
from posse.decision import parse_id, write_id
from posse.extras import extra
from posse.learner.guard import OutcomeValue
from posse.learner.ledger import COLUMNS, GIVEN_UP, PackedRows, Row, unpack
from posse.learner.setup import Setup
from posse.learner.state import LearnerState

if TYPE_CHECKING:
    from posse.learner.learner import Learner

SCHEMA = 3

Entry = TypeVar("Entry")
Outcomes = Iterable[tuple[tuple[int, int], float]]
"""Serial number and outcome, and the value that came."""


class Past(NamedTuple):
    """What a log tells beside its rows."""

    first: dict[str, list[Any]]  # the arms and players at the start, and the players' attributes
    changes: list[dict[str, Any]]  # who and what came and went, with the number of the event
    given_up: int  # decisions that are not in the log
    time: float  # −∞ before the first event


def describe(state: LearnerState, past: Past) -> dict[str, Any]:
    """What the table's metadata says: how the learner was set up, who came and went, and how far it is."""
    setup = state.setup.to_dict()
    return {
        "schema": SCHEMA,
        "kind": "learner log",
        "adaptive": True,
        "policy": setup["policy"],
        "epsilon": getattr(state.setup.policy, "epsilon", None),
        "reward_range": [state.setup.low, state.setup.high],
        "players": list(state.player_roster.names),
        "arms": list(state.arm_roster.names),
        "setup": setup,
        "first": past.first,
        "changes": list(past.changes),
        "rounds": state.rounds,
        "events": state.events,
        "decisions": state.decisions,
        "given_up": past.given_up,
        "time": past.time if math.isfinite(past.time) else None,
    }


def arrow_table(
    about: dict[str, Any], parts: list[PackedRows], attributes: Mapping[str, Any] | None, outcomes: Outcomes = ()
) -> Any:
    """The log as an Arrow table, in the order of rounds and decisions, with `about` in its metadata.

    `attributes` has the value of each player, by attribute; each is a column more, and so is each outcome.
    """
    columns, probabilities = unpack(parts)
    order = np.lexsort((columns["serial"], columns["round"]))
    table = arrow_rows(about, columns, probabilities, attributes, outcomes).take(order)
    return table.replace_schema_metadata(metadata(about, len(order), int((columns["serial"] < 0).sum())))


def metadata(about: dict[str, Any], rows: int, recorded: int) -> dict[str, str]:
    """What a table of so many rows has for its metadata; `recorded` of them are rewards of the past."""
    return {"posse": json.dumps(about | {"rows": rows, "recorded": recorded}, sort_keys=True)}


def arrow_rows(
    about: dict[str, Any],
    columns: dict[str, np.ndarray],
    probabilities: np.ndarray,
    attributes: Mapping[str, Any] | None,
    outcomes: Outcomes = (),
) -> Any:
    """Rows of the log as an Arrow table, as they were unpacked."""
    with extra("arrow", "a log"):
        import pyarrow

    past, waits = columns["serial"] < 0, columns["observed"] == 0
    missing = dict.fromkeys(("reward", "defaulted", "observed_at"), columns["observed"] <= 0)
    missing |= {"propensity": past, "observed": waits}

    def taken(texts: Any, places: np.ndarray) -> Any:
        return pyarrow.array(texts, pyarrow.string()).take(pyarrow.array(places))

    def column(name: str) -> Any:
        if name in ("player", "arm"):
            return taken(about[f"{name}s"], columns[name])
        values = columns[name].astype(np.bool_) if name in ("holdout", "defaulted") else columns[name]
        return pyarrow.array(values, mask=missing.get(name))

    ids = zip(columns["serial"].tolist(), columns["tag"].tolist(), strict=True)
    written = [write_id(serial, tag) if serial >= 0 else None for serial, tag in ids]
    each_arm = pyarrow.ListArray.from_arrays(
        pyarrow.array(np.concatenate([[0], columns["arms"].cumsum()]), pyarrow.int32()),
        pyarrow.array(probabilities, mask=np.isnan(probabilities)),
        pyarrow.list_(pyarrow.field("element", pyarrow.float64())),  # as Parquet names it
        mask=pyarrow.array(columns["arms"] == 0),
    )
    made = {"decision": pyarrow.array(written, pyarrow.string()), "probabilities": each_arm}
    more = {name: taken(values, columns["player"]) for name, values in (attributes or {}).items()}
    names = [name for name, _ in about["setup"].get("outcomes", ())]
    for name, values in zip(names, _outcome_columns(len(names), columns["serial"], list(outcomes)), strict=True):
        more[name] = pyarrow.array(values, mask=np.isnan(values))
    return pyarrow.table({name: made[name] if name in made else column(name) for name in COLUMNS} | more)


def _outcome_columns(count: int, serials: np.ndarray, outcomes: list[tuple[tuple[int, int], float]]) -> np.ndarray:
    """The value of each outcome, [outcome, row], of rows with these serial numbers; NaN where none came."""
    found = np.full((count, serials.size), np.nan)
    if outcomes:
        places, values = zip(*outcomes, strict=True)
        of, outcome = np.array(places).T
        order = np.argsort(serials)
        found[outcome, order[np.searchsorted(serials, of, sorter=order)]] = values
    return found


def replay(learner: Learner, table: Any, clock: Callable[[], float]) -> None:
    """Begin a learner and take it through everything that a log tells."""
    about, entries = read(table)
    learner._begin(Setup.from_dict(about["setup"]), about["first"], clock)
    rewards: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        rewards[0 if entry["reward"] is None else entry["observed"]].append(entry)
    for change, answered in events_of(about, lambda event: rewards.get(event, [])):
        if change is None:
            _observe(learner, answered)
        elif change["kind"] == "shares":
            learner._set_shares(change["shares"], change["rounds"])
        else:
            values = values_of(learner.setup, change)
            learner._change(change["kind"], change["name"], change["knows_others"], values, change.get("outcome"))
    for entry in rewards[0]:  # those that wait, or were given up
        row = row_of(learner.state, entry)
        if entry["observed"] == GIVEN_UP.observed:
            learner.ledger.settle(row, GIVEN_UP)
        else:
            learner._wait(row)
    if learner.setup.outcomes:
        came = [each for entry in entries for each in outcomes_of(learner.state, entry)]
        learner.ledger.outcomes = {(each.serial, each.outcome): each.value for each in came}
        learner.state.guard.add(came)
    learner.state.rounds, learner.state.decisions = about["rounds"], about["decisions"]
    learner.ledger.given_up = about["given_up"]
    learner._now = -math.inf if about["time"] is None else about["time"]


def events_of(
    about: dict[str, Any], rewards: Callable[[int], list[Entry]]
) -> Iterator[tuple[dict[str, Any] | None, list[Entry]]]:
    """The events of a log in order: a change, or None and the rewards that came; `rewards` has those of an event."""
    changes = {change["event"]: change for change in about["changes"]}
    for event in range(1, about["events"] + 1):
        answered = [] if event in changes else rewards(event)
        if not (answered or event in changes):
            raise ValueError(f"the log lacks event {event} of {about['events']}: rows are missing")
        yield changes.get(event), answered


def values_of(setup: Setup, change: dict[str, Any]) -> tuple[Value, ...] | None:
    """The values of the attributes of a player that joined; None if it was not given any."""
    return setup.attributes.check(change["attributes"]) if "attributes" in change else None


def read_about(schema: Any) -> tuple[dict[str, Any], list[str]]:
    """What a log says about itself, and the columns that it has, from its table's schema."""
    about = json.loads((getattr(schema, "metadata", None) or {}).get(b"posse", b"{}"))
    if about.get("kind") != "learner log":
        raise ValueError("this is not a learner's log: expected an Arrow table as `log` gives it, with its metadata")
    if about["schema"] > SCHEMA:
        raise ValueError(f"the log has schema {about['schema']}, but this posse reads up to {SCHEMA}; use a newer one")
    columns = [name for name in COLUMNS if about["schema"] > 1 or name != "probabilities"]
    columns += [name for name, _ in about["setup"].get("outcomes", ())]
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise ValueError(f"the log has no column {missing[0]!r}")
    return about, columns


def check_rows(about: dict[str, Any], rows: int, decisions: int) -> None:
    """An error unless a log has all of its rows; `decisions` of them are decisions, each counted once."""
    if rows != about["rows"] or decisions != about["rows"] - about["recorded"]:
        raise ValueError(f"the log was written with {about['rows']} rows, but has {rows}, or some twice")


def read(table: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a log says about itself, and its rows in order, if all of them are there."""
    about, columns = read_about(getattr(table, "schema", None))
    entries = table.select(columns).to_pylist()
    check_rows(about, len(entries), len({entry["decision"] for entry in entries} - {None}))
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
    player, arm = state.player_roster.place(entry["player"]), state.arm_roster.place(entry["arm"])
    each_arm = np.array(entry.get("probabilities") or [], np.float64)  # None, not available, becomes NaN
    rest = entry["propensity"] or 0.0, entry["holdout"], entry["shared"], entry["decided_at"]
    return Row(serial, tag, entry["round"], player, arm, *rest, each_arm.tobytes())


def outcomes_of(state: LearnerState, entry: dict[str, Any]) -> list[OutcomeValue]:
    """The outcomes of a decision, from an entry of a log."""
    given = [(name, entry[name]) for name in state.setup.outcomes if entry[name] is not None]
    if not given:
        return []
    serial, _ = parse_id(entry["decision"])
    pair = state.player_roster.place(entry["player"]), state.arm_roster.place(entry["arm"])
    checked = [state.setup.check_outcome(entry["decision"], *each) for each in given]
    return [OutcomeValue(serial, outcome, *pair, value) for outcome, value in checked]
