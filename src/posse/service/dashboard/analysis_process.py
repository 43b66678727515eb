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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from posse.service.dashboard.snapshots import Snapshot

REST = {"conclusion": 4.0, "diagnosis": 4.0, "savings": 30.0}  # seconds before an analysis is repeated
GROWTH = 1.02  # the savings are worked out anew only when there are so many times as many decisions
KEPT = 600  # analyses; those asked for first go first
LARGEST = 20_000  # the most players × arms that are analyzed


class _Analysis(NamedTuple):
    """What was found, for an experiment as it was."""

    found: dict[str, Any]
    events: int
    decisions: int
    at: float


class AnalysisProcess:
    """Analyzes experiments one after another in another process. A page shows the latest analysis there is."""

    def __init__(self, note_verdict: Callable[[str, bool], None] = lambda experiment, alarm: None) -> None:
        self._note_verdict = note_verdict
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="posse-analysis")
        self._latest: dict[tuple[str, str, int], _Analysis] = {}  # by kind, experiment and its id
        self._pending: set[tuple[str, str, int]] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def latest(self, kind: str, snapshot: Snapshot) -> dict[str, Any]:
        """What the latest analysis found, with its `state`; a newer one is started if it is time.

        Beside the states that the functions of `analysis` return, there are "waiting", "large" (too many players and
        arms) and, with a `why`, "error".
        """
        if not snapshot.rewards:
            return {"state": "early"}
        if snapshot.counts.pulls.size > LARGEST:
            return {"state": "large"}
        key = kind, snapshot.name, snapshot.id
        with self._lock:
            latest = self._latest.get(key)
            if key not in self._pending and not self._closed and _is_due(latest, kind, snapshot):
                self._pending.add(key)
                self._thread.submit(self._analyze, kind, snapshot)
            return {"state": "waiting"} if latest is None else latest.found

    def alarm_of(self, name: str, id: int) -> bool:
        """Whether the latest diagnosis of an experiment, if there was one, raised an alarm."""
        with self._lock:
            latest = self._latest.get(("diagnosis", name, id))
        return latest is not None and latest.found["state"] == "alarm"

    def _analyze(self, kind: str, snapshot: Snapshot) -> None:
        """Have the process analyze a snapshot, and keep the result. If the process dies, the next look asks again."""
        analysis = None
        try:
            found = self._ask(kind, arguments(kind, snapshot))
            analysis = _Analysis(found, snapshot.events, snapshot.decisions, time.monotonic())
            if kind == "diagnosis" and found["state"] != "error":
                self._note_verdict(snapshot.name, found["state"] == "alarm")
        except (OSError, EOFError, pickle.UnpicklingError):
            self._stop()
        finally:
            with self._lock:
                if analysis is not None:
                    self._latest[kind, snapshot.name, snapshot.id] = analysis
                    while len(self._latest) > KEPT:
                        del self._latest[next(iter(self._latest))]
                self._pending.discard((kind, snapshot.name, snapshot.id))

    def _ask(self, kind: str, given: tuple[Any, ...]) -> dict[str, Any]:
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
        found: dict[str, Any] = pickle.load(process.stdout)
        return found

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


def arguments(kind: str, snapshot: Snapshot) -> tuple[Any, ...]:
    """What the function of `analysis` for this kind is called with."""
    if kind == "diagnosis":
        return snapshot.counted, snapshot.notes
    offered = np.array([here for _, here in snapshot.arms], bool)
    if kind == "conclusion":
        known = snapshot.counted, offered, snapshot.setup.to_dict()
        alarms = [(guard.outcome, guard.arm) for guard in snapshot.watch.guards if guard.alarm]
        return (
            snapshot.evidence,
            *known,
            snapshot.decisions,
            snapshot.head,
            alarms,
            snapshot.notes,
            snapshot.watch.doubts,
        )
    return snapshot.counted, snapshot.chosen, offered, snapshot.setup.to_dict()


def _is_due(latest: _Analysis | None, kind: str, snapshot: Snapshot) -> bool:
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

    def answer(kind: str, given: tuple[Any, ...]) -> None:
        try:
            found = getattr(analysis, kind)(*given)
        except Exception as problem:
            found = {"state": "error", "why": str(problem) or type(problem).__name__}
        pickle.dump(found, answers)
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
