"""Asks a process beside the service for what takes longer than a page may, and keeps the answers."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from posse.service.dashboard.snapshot import Snapshot

GROWTH = 1.02  # savings are worked out anew when decisions have grown by this, and not before this many seconds:
LARGEST = 20_000  # players × arms that are handed over
TOO_LARGE = (
    "There are too many players and arms to do this beside the service. `posse db export` writes the log to a file; "
    "`posse diagnose` and `posse plan` take it from there."
)
REST = {"diagnosis": 4.0, "savings": 30.0}


@dataclass(frozen=True)
class Answer:
    """What was found, for an experiment as it was."""

    found: Any
    """None if there is too little to go by."""
    error: str
    events: int
    decisions: int
    at: float


class Analyst:
    """Answers about experiments, worked out in the background; a page shows the latest there is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, str], Answer] = {}
        self._asked: dict[int, tuple[str, str, int, int]] = {}
        self._pending: set[tuple[str, str]] = set()
        self._number = 0
        self._process: subprocess.Popen[str] | None = None
        self._listener: threading.Thread | None = None

    def ask(self, kind: str, snapshot: Snapshot) -> Answer | None:
        """The latest answer, None if there is none yet; a newer one is asked for if it is time."""
        what = kind, snapshot.name
        if snapshot.pulls.size > LARGEST:
            return Answer(None, TOO_LARGE, snapshot.events, snapshot.decisions, 0.0)
        with self._lock:
            latest = self._answers.get(what)
            if what not in self._pending and _due(latest, kind, snapshot):
                self._send(kind, snapshot)
            return latest

    def _send(self, kind: str, snapshot: Snapshot) -> None:
        if self._process is None or self._process.poll() is not None:
            self._pending.clear()
            self._asked.clear()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "posse.service.dashboard.analysis"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self._listener = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
            self._listener.start()
        self._number += 1
        question = {"id": self._number, "kind": kind, **_question(snapshot)}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except OSError:
            return  # it has died; the next question starts another
        self._pending.add((kind, snapshot.name))
        self._asked[self._number] = kind, snapshot.name, snapshot.events, snapshot.decisions

    def _listen(self, process: subprocess.Popen[str]) -> None:
        """Take answers until the process ends, and clean up after it."""
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                self._hear(json.loads(line))

    def _hear(self, reply: dict[str, Any]) -> None:
        with self._lock:
            if reply["id"] in self._asked:
                kind, name, events, decisions = self._asked.pop(reply["id"])
                self._pending.discard((kind, name))
                self._answers[kind, name] = Answer(
                    reply.get("answer"), reply.get("error", ""), events, decisions, time.monotonic()
                )

    def close(self) -> None:
        """End the process."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                process.kill()
        if self._listener is not None:
            self._listener.join()


def _due(latest: Answer | None, kind: str, snapshot: Snapshot) -> bool:
    if latest is None:
        return True
    if snapshot.events == latest.events:
        return False
    grown = kind != "savings" or snapshot.decisions > GROWTH * latest.decisions
    return grown and time.monotonic() - latest.at > REST[kind]


def _question(snapshot: Snapshot) -> dict[str, Any]:
    counts = snapshot.counts
    return {
        "counts": {
            "players": counts.players,
            "arms": counts.arms,
            "pulls": counts.pulls.tolist(),
            "sums": counts.sums.tolist(),
            "low": counts.low,
            "high": counts.high,
            "epsilon": counts.epsilon,
        },
        "squares": snapshot.squares.tolist(),
        "chosen": snapshot.chosen.tolist(),
        "offered": [here for _, here in snapshot.arms],
        "setup": snapshot.setup.to_dict(),
    }
