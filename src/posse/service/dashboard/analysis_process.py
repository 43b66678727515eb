"""A process beside the service for analyses that take longer than a page may.

The service writes one question at a time to its standard input and reads one answer from its standard output, both
pickled. Why it is no process pool: docs/decisions/0010-analysis-process.md.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.learner import Counts

if TYPE_CHECKING:
    from posse.service.dashboard.snapshots import Snapshot

REST = {"diagnosis": 4.0, "savings": 30.0}  # seconds before an analysis is repeated
GROWTH = 1.02  # the savings are worked out anew only when there are so many times as many decisions
LARGEST = 20_000  # the most players × arms that are analyzed
TOO_LARGE = (
    "There are too many players and arms to do this beside the service. `posse db export` writes the log to a file; "
    "`posse diagnose` and `posse plan` take it from there."
)


@dataclass(frozen=True, eq=False)
class AnalysisInput:
    """What an analysis is made from. Tables are [player, arm]."""

    counts: Counts
    squares: np.ndarray
    chosen: np.ndarray
    offered: np.ndarray
    """Whether each arm is offered."""
    setup: dict[str, Any]

    @classmethod
    def of(cls, snapshot: Snapshot) -> AnalysisInput:
        """The part of a snapshot that analyses need."""
        offered = np.array([here for _, here in snapshot.arms], bool)
        return cls(snapshot.counts, snapshot.squares, snapshot.chosen, offered, snapshot.setup.to_dict())


@dataclass(frozen=True)
class Analysis:
    """What was found, for an experiment as it was."""

    found: dict[str, Any] | None
    """None if there is too little data."""
    error: str
    events: int
    decisions: int
    at: float


class AnalysisProcess:
    """Analyzes experiments one after another in another process. A page shows the latest analysis there is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="posse-analysis")
        self._latest: dict[tuple[str, str], Analysis] = {}
        self._pending: set[tuple[str, str]] = set()  # kind and experiment
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def latest(self, kind: str, snapshot: Snapshot) -> Analysis | None:
        """The latest analysis, None if there is none yet. A newer one is started if it is time."""
        if snapshot.counts.pulls.size > LARGEST:
            return Analysis(None, TOO_LARGE, snapshot.events, snapshot.decisions, 0.0)
        key = kind, snapshot.name
        with self._lock:
            latest = self._latest.get(key)
            if key not in self._pending and not self._closed and _is_due(latest, kind, snapshot):
                self._pending.add(key)
                self._thread.submit(self._analyze, kind, snapshot)
            return latest

    def _analyze(self, kind: str, snapshot: Snapshot) -> None:
        """Have the process analyze a snapshot, and keep the result. If the process dies, the next look asks again."""
        analysis = None
        try:
            found, error = self._ask(kind, AnalysisInput.of(snapshot))
            analysis = Analysis(found, error, snapshot.events, snapshot.decisions, time.monotonic())
        except (OSError, EOFError, pickle.UnpicklingError):
            self._stop()
        finally:
            with self._lock:
                if analysis is not None:
                    self._latest[kind, snapshot.name] = analysis
                self._pending.discard((kind, snapshot.name))

    def _ask(self, kind: str, given: AnalysisInput) -> tuple[dict[str, Any] | None, str]:
        with self._lock:
            if self._closed:
                raise EOFError("the service stops")
            if self._process is None:
                path = os.pathsep.join(filter(None, sys.path))  # so that it finds the modules of users' policies
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "posse.service.dashboard.analysis_process"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env={**os.environ, "PYTHONPATH": path},
                )
            process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        pickle.dump((kind, given), process.stdin)
        process.stdin.flush()
        answer: tuple[dict[str, Any] | None, str] = pickle.load(process.stdout)
        return answer

    def _stop(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            with contextlib.suppress(OSError), process:  # closes its pipes and waits for its end
                pass

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._closed = True
        with self._lock:
            if self._process is not None:
                self._process.kill()
        self._thread.shutdown(cancel_futures=True)
        self._stop()


def _is_due(latest: Analysis | None, kind: str, snapshot: Snapshot) -> bool:
    if latest is None:
        return True
    if snapshot.events == latest.events:
        return False
    grown = kind != "savings" or snapshot.decisions > GROWTH * latest.decisions
    return grown and time.monotonic() - latest.at > REST[kind]


def main() -> None:
    """Answer questions until the input ends, which it does when the service is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches everybody; the service says when to stop
    with contextlib.suppress(OSError):
        os.nice(10)  # decisions come first
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # whatever a library prints must not get between the answers
    from posse.service.dashboard import analysis  # here, so that the service itself need not load it

    def answer(kind: str, given: AnalysisInput) -> None:
        found, error = None, ""
        try:
            found = getattr(analysis, kind)(given)
        except Exception as problem:
            error = str(problem) or type(problem).__name__
        pickle.dump((found, error), answers)
        answers.flush()

    thread = ThreadPoolExecutor(1)
    while True:
        try:
            question = pickle.load(questions)
        except EOFError:
            os._exit(0)  # answers still being computed are not needed any more
        thread.submit(answer, *question)


if __name__ == "__main__":
    main()
