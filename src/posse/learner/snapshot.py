"""A learner in a file: JSON that a person can read, with a schema version and a digest, replaced as a whole."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from posse.checks import output_file
from posse.learner.ledger import FIELDS, Answer, PackedRows, Row, RowLog
from posse.learner.setup import Setup
from posse.learner.shares import check_shares
from posse.version import __version__

if TYPE_CHECKING:
    from posse.learner.learner import Learner

KIND = "posse learner"
SCHEMA = 4
_writing = threading.Lock()  # the file beside has one name, so one writer at a time


class SnapshotError(ValueError):
    """A file that is not a whole, readable learner."""


def write(learner: Learner, path: Path) -> None:
    """Write a learner to `path`, through a file beside it that takes its place once it is safely on the disk."""
    path = output_file(os.path.realpath(path), to="save")  # behind links
    beside = path.with_name(path.name + ".new")
    with _writing:
        with learner._lock:  # only for a copy, which shares with the learner what does not change
            body = _body(learner)
        try:
            with beside.open("w", encoding="utf-8") as file:
                _write(file, body)
                file.flush()
                os.fsync(file.fileno())
            if path.exists():
                beside.chmod(stat.S_IMODE(path.stat().st_mode))
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)
        _sync_folder(path.parent)


def _write(file: TextIO, body: dict[str, Any]) -> None:
    """Write a body and its digest piece by piece, one line for each name, so that other threads get their turn."""
    digest = hashlib.sha256()
    file.write(f'{{"kind": "{KIND}",\n"schema": {SCHEMA},\n"version": "{__version__}",\n"learner":\n')
    for number, name in enumerate(sorted(body)):
        start = f"{', ' if number else '{'}{json.dumps(name)}: "
        for piece in itertools.chain([start], ENCODER.iterencode(body[name])):
            digest.update(piece.encode())
            file.write(piece)
        file.write("\n")
    digest.update(b"}")
    file.write(f'}},\n"sha256": "{digest.hexdigest()}"}}\n')


def _sync_folder(folder: Path) -> None:
    """Make the replacement itself durable, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _plain(value: np.ndarray | bytes) -> Any:
    """What JSON does not know: arrays as lists, and the packed log as text."""
    return value.tolist() if isinstance(value, np.ndarray) else base64.b64encode(value).decode()


ENCODER = json.JSONEncoder(sort_keys=True, allow_nan=False, default=_plain)


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(ENCODER.encode(body).encode()).hexdigest()


def _body(learner: Learner) -> dict[str, Any]:
    state, known = learner.state, learner.state.all_known()
    values = {"values": list(state.values)} if state.setup.attributes else {}  # of each player's attributes
    return values | {
        "setup": state.setup.to_dict(),
        "first": learner.first,
        "changes": list(learner.changes),
        "rounds": state.rounds,
        "events": state.events,
        "decisions": state.decisions,
        "time": learner._now if np.isfinite(learner._now) else None,
        "players": [list(entry) for entry in state.player_roster],
        "arms": [list(entry) for entry in state.arm_roster],
        "statistics": [statistic.name for statistic in state.setup.policy.statistics],
        "known": {name: getattr(known, name).copy() for name in state.core.kept},
        "ledger": learner.ledger.copy(),
        "tallies": state.guard.tallies.copy(),  # of outcomes: counts, sums and alarms
    }


def read(learner: Learner, path: Path, clock: Callable[[], float]) -> None:
    """Make a learner what the file at `path` says."""
    schema, body = _checked(path)
    try:
        body = _from_schema_1(body) if schema < 2 else body
        body = _from_schema_2(body) if schema < 3 else body
        body = _from_schema_3(body) if schema < 4 else body
        _restore(learner, body, clock)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise SnapshotError(f"{path} is not a learner that this posse can read: {error!r}") from None


def _checked(path: Path) -> tuple[int, dict[str, Any]]:
    """The file's schema and what it says, if it is whole and the schema is known."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise SnapshotError(f"{path} is damaged: {error}") from None
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise SnapshotError(f"{path} is not a saved learner: expected the kind {KIND!r}")
    schema = content.get("schema")
    if type(schema) is not int or not 1 <= schema <= SCHEMA:
        wrote, reads = f"written by posse {content.get('version')}", f"{__version__}, reads 1 to {SCHEMA}"
        raise SnapshotError(f"{path} has schema {schema}, {wrote}; this posse, {reads}: use a newer one")
    body = content.get("learner")
    if not isinstance(body, dict) or _digest(body) != content.get("sha256"):
        raise SnapshotError(f"{path} is damaged: its content does not match its digest")
    return schema, body


def _from_schema_1(body: dict[str, Any]) -> dict[str, Any]:
    """The content of a file of schema 1, which had a fixed list of arrays, [player, arm], as of the current one."""

    def turned(*tables: Any) -> np.ndarray:
        return np.array(tables).reshape(len(tables), len(body["players"]), -1).transpose(0, 2, 1)

    unused = np.zeros_like(body["squares"])
    known = {name: body[name] for name in ("of_arm", "of_player", "summed")} | {
        "statistics": turned(body["pulls"], body["sums"], body["squares"]),
        "indexed": turned(body["own_pulls"], body["own_sums"], unused),
        "seen": turned(*body["seen"]),
    }
    if body["setup"]["policy"]["name"] == "IndTSV":
        known["of_arm"] = []  # it had a number there that it never used
    return body | {"statistics": ["n", "s", "q"], "known": known}


def _from_schema_2(body: dict[str, Any]) -> dict[str, Any]:
    """The content of a file of schema 2, which had a list for each column of the log and no probabilities."""
    ledger = body["ledger"]
    rows = zip(*(ledger["answered"][name] for name in FIELDS[:-1]), strict=True)
    answered = RowLog((Row(*values[:9]), Answer(*values[9:])) for values in rows)
    newer = {
        "answered": answered.parts(),
        "waiting": [[*row, b""] for row in ledger["waiting"]],
        "recent": [(serial, rest) for serial, *rest in ledger["recent"]],
    }
    return body | {"ledger": ledger | json.loads(ENCODER.encode(newer))}


def _from_schema_3(body: dict[str, Any]) -> dict[str, Any]:
    """The content of a file of schema 3, which had no outcomes; who was decided for did not matter any more."""
    recent = [(serial, [*answer, 0, 0]) for serial, answer in body["ledger"]["recent"]]
    return body | {"ledger": body["ledger"] | {"recent": recent, "outcomes": []}, "tallies": []}


def _restore(learner: Learner, body: dict[str, Any], clock: Callable[[], float]) -> None:
    setup = Setup.from_dict(body["setup"])
    learner._begin(setup, body["first"], clock)
    learner.changes = body["changes"]
    for change in learner.changes:
        if change["kind"] == "shares":
            learner.state.limit(check_shares(change["shares"]))
    learner._now = -np.inf if body["time"] is None else body["time"]
    ledger = body["ledger"]
    ledger["waiting"] = [Row._make([*row[:-1], base64.b64decode(row[-1])]) for row in ledger["waiting"]]
    ledger["answered"] = [PackedRows(*map(base64.b64decode, part)) for part in ledger["answered"]]
    ledger["recent"] = [(serial, tuple(answer)) for serial, answer in ledger["recent"]]
    ledger["outcomes"] = [(tuple(key), value) for key, value in ledger["outcomes"]]
    learner.ledger.restore(ledger)
    state = learner.state
    state.rounds, state.events, state.decisions = body["rounds"], body["events"], body["decisions"]
    names = [statistic.name for statistic in setup.policy.statistics]
    if body["statistics"] != names:
        raise ValueError(f"it has the statistics {body['statistics']}, but {setup.policy.label} keeps {names}")
    values = [setup.attributes.check(each) for each in body["values"]] if "values" in body else None
    waiting = np.zeros((len(body["arms"]), len(body["players"])))
    state.restore(body["players"], body["arms"], waiting, body["known"], values)
    shape = (3, len(setup.outcomes), len(body["arms"]))
    state.guard.tallies = np.array(body["tallies"], np.int64).reshape(shape)
    for row in learner.ledger.waiting.values():
        state.wait(row)
