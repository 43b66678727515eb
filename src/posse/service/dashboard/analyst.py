"""Asks a process beside the service for what takes longer than a page may, and keeps the answers."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
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
        self._pending: set[tuple[str, str]] = set()  # kind and experiment of questions without an answer
        self._asked: dict[int, tuple[str, Snapshot]] = {}
        self._questions: queue.SimpleQueue[tuple[str, Snapshot] | None] = queue.SimpleQueue()
        self._process: subprocess.Popen[str] | None = None
        self._threads: list[threading.Thread] = []
        self._closed = False

    def ask(self, kind: str, snapshot: Snapshot) -> Answer | None:
        """The latest answer, None if there is none yet; a newer one is asked for if it is time."""
        what = kind, snapshot.name
        if snapshot.pulls.size > LARGEST:
            return Answer(None, TOO_LARGE, snapshot.events, snapshot.decisions, 0.0)
        with self._lock:
            latest = self._answers.get(what)
            if what not in self._pending and _due(latest, kind, snapshot):
                self._pending.add(what)
                self._questions.put((kind, snapshot))
                if not self._threads:
                    self._start(self._pass_on)
            return latest

    def _start(self, function: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=function, args=args, name="posse-analyst", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _pass_on(self) -> None:
        """Hand questions to the process, which is started when there are any, and again when it has died."""
        number = 0
        while (question := self._questions.get()) is not None:
            number += 1
            with self._lock:
                if self._closed:
                    return
                if self._process is None or self._process.poll() is not None:
                    self._process = _new_process()
                    self._start(self._listen, self._process)
                process = self._process
                self._asked[number] = question
            kind, snapshot = question
            try:
                assert process.stdin is not None
                process.stdin.write(json.dumps({"id": number, "kind": kind, **_question(snapshot)}) + "\n")
                process.stdin.flush()
            except OSError:
                self._forget()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        """Take answers until the process ends, and clean up after it."""
        with contextlib.suppress(OSError), process:
            assert process.stdout is not None
            for line in process.stdout:
                self._hear(json.loads(line))
        self._forget()

    def _hear(self, reply: dict[str, Any]) -> None:
        with self._lock:
            if reply["id"] in self._asked:
                kind, snapshot = self._asked.pop(reply["id"])
                found, error = reply.get("answer"), reply.get("error", "")
                answer = Answer(found, error, snapshot.events, snapshot.decisions, time.monotonic())
                self._answers[kind, snapshot.name] = answer
                self._pending.discard((kind, snapshot.name))

    def _forget(self) -> None:
        """What the process was asked it will not answer; it may be asked again."""
        with self._lock:
            self._pending.clear()
            self._asked.clear()

    def close(self) -> None:
        """End the process."""
        self._questions.put(None)
        with self._lock:
            threads, self._threads, self._closed = self._threads, [], True
            if self._process is not None:
                self._process.kill()
        for thread in threads:
            thread.join()


def _new_process() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "posse.service.dashboard.analysis"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


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
