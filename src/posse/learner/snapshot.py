"""A learner in a file: JSON that a person can read, with a schema version and a digest, replaced as a whole."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.learner.ledger import Ledger
from posse.learner.roster import Roster
from posse.learner.setup import Setup
from posse.version import __version__

if TYPE_CHECKING:
    from posse.learner.learner import Learner

KIND = "posse learner"
SCHEMA = 1


class SnapshotError(ValueError):
    """A file that is not a whole, readable learner."""


def write(learner: Learner, path: Path) -> None:
    """Write a learner to `path`, through a file beside it that takes its place once it is safely on the disk."""
    body = _body(learner)
    lines = [f'"kind": {json.dumps(KIND)}', f'"schema": {SCHEMA}', f'"version": {json.dumps(__version__)}']
    lines += [f'"sha256": "{_digest(body)}"', '"learner": {\n  ' + ",\n  ".join(_lines(body)) + "\n }"]
    text = "{\n " + ",\n ".join(lines) + "\n}\n"
    beside = path.with_name(path.name + ".new")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the replacement itself durable, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _lines(body: dict[str, Any]) -> list[str]:
    return [f"{json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in body.items()]


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _body(learner: Learner) -> dict[str, Any]:
    return {
        "setup": learner.setup.to_dict(),
        "first": learner.first,
        "changes": learner.changes,
        "rounds": learner.rounds,
        "events": learner.events,
        "decisions": learner.decisions,
        "time": learner._now if np.isfinite(learner._now) else None,
        "players": [list(entry) for entry in learner.player_roster],
        "arms": [list(entry) for entry in learner.arm_roster],
        "pulls": learner.tally.pulls.tolist(),
        "sums": learner.tally.sums.tolist(),
        "squares": learner.tally.squares.tolist(),
        "seen": learner.tally.seen.tolist(),
        "of_arm": learner.tally.of_arm.tolist(),
        "of_player": learner.tally.of_player.tolist(),
        "summed": learner.tally.summed.tolist(),
        "ledger": learner.ledger.to_dict(),
    }


def read(learner: Learner, path: Path, clock: Callable[[], float]) -> None:
    """Make a learner what the file at `path` says."""
    body = _checked(path)
    try:
        _restore(learner, body, clock)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise SnapshotError(f"{path} is not a learner that this posse can read: {error!r}") from None


def _checked(path: Path) -> dict[str, Any]:
    """What the file says, if it is whole and of a schema that is known."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise SnapshotError(f"{path} is damaged: {error}") from None
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise SnapshotError(f"{path} is not a saved learner: expected the kind {KIND!r}")
    schema = content.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise SnapshotError(
            f"{path} has schema {schema}, written by posse {content.get('version')}; this posse, {__version__}, reads "
            f"up to {SCHEMA}: use a newer one"
        )
    body = content.get("learner")
    if not isinstance(body, dict) or _digest(body) != content.get("sha256"):
        raise SnapshotError(f"{path} is damaged: its content does not match its digest")
    return body


def _restore(learner: Learner, body: dict[str, Any], clock: Callable[[], float]) -> None:
    setup = Setup.from_dict(body["setup"])
    learner._begin(setup, body["first"]["arms"], body["first"]["players"], clock)
    learner.first, learner.changes = body["first"], body["changes"]
    learner.rounds, learner.events, learner.decisions = body["rounds"], body["events"], body["decisions"]
    learner._now = -np.inf if body["time"] is None else body["time"]
    learner.player_roster = Roster.of("player", body["players"])
    learner.arm_roster = Roster.of("arm", body["arms"])
    shape = (len(body["players"]), len(body["arms"]))
    tally = learner.core.empty(*shape)
    for name in ("pulls", "sums", "squares"):
        getattr(tally, name)[:] = np.array(body[name], np.int64).reshape(shape)
    tally.all_pulls[:], tally.all_sums[:] = tally.pulls.sum(axis=0), tally.sums.sum(axis=0)
    learner.core.share_all(tally)
    for name in ("seen", "of_arm", "of_player", "summed"):
        array = getattr(tally, name)
        array[:] = np.array(body[name], array.dtype).reshape(array.shape)
    learner.tally = tally
    learner.ledger = Ledger.from_dict(body["ledger"], setup.waiting_limit, setup.keep_log)
    learner.waiting = np.zeros(shape, np.int64)
    for row in learner.ledger.waiting.values():
        learner.waiting[row.player, row.arm] += 1
    learner.all_waiting = learner.waiting.sum(axis=0)
