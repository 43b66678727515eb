"""What a user sees while a policy is compiled for the first time."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Collection
from typing import Any, TextIO

from numba.core import event

from posse.status_line import StatusLine, status_stream

TERMINAL = (0.2, 0.2)  # seconds until the first line on a terminal or in a notebook, and between lines
LOG = (2.0, 10.0)  # the same in a file


class CompileProgress(event.Listener):
    """Says what is compiled, which of its functions, and for how many seconds, on the `status_stream`.

    On a terminal and in a notebook it rewrites one line. In a file it writes a plain line after two seconds, and one
    every ten seconds from then on. A thread writes them, because the compiler is silent for most
    of the time. Nothing is said if `POSSE_QUIET=1` is set, and in worker processes.
    """

    def __init__(self, what: str, functions: Collection[Any]) -> None:
        self.what = what or "a kernel"
        self.functions = functions
        self.done: set[Any] = set()
        self.told = False  # that it is only the first time
        self.out: TextIO | None = None
        self.ended = threading.Event()
        self.writer: threading.Thread | None = None

    def open(self) -> None:
        """Begin to watch."""
        quiet = os.environ.get("POSSE_QUIET", "") not in ("", "0") or multiprocessing.parent_process() is not None
        self.out = None if quiet else status_stream()

    def on_start(self, event: Any) -> None:
        """A function is about to be compiled."""
        if self.out is not None and self.writer is None and event.data["dispatcher"].py_func in self.functions:
            self.ended.clear()
            self.writer = threading.Thread(target=self._write, args=(self.out,), daemon=True)
            self.writer.start()

    def on_end(self, event: Any) -> None:
        """A function has been compiled."""
        self.done |= {event.data["dispatcher"].py_func} & set(self.functions)

    def _write(self, out: TextIO) -> None:
        """Write lines until the end."""
        start, shown = time.monotonic(), StatusLine(out)
        pause, between = TERMINAL if shown.rewrites else LOG
        written = False
        while not self.ended.wait(pause):
            number, seconds = min(len(self.done) + 1, len(self.functions)), time.monotonic() - start
            line = f"compiling {self.what}: function {number} of {len(self.functions)}, {seconds:.0f} s"
            if shown.rewrites:
                shown.write(line)
            else:
                print(line if self.told else f"{line}; only the first time", file=out, flush=True)
                self.told = True
            written, pause = True, between
        if shown.rewrites and written:
            shown.end(f"compiled {self.what} in {time.monotonic() - start:.0f} s")

    def close(self) -> None:
        """Stop writing, and remove the line from a terminal."""
        if self.writer is not None:
            self.ended.set()
            self.writer.join()
        self.out, self.writer = None, None
