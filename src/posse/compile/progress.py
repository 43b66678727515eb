"""What a user sees while a policy is compiled for the first time."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Collection
from typing import Any, TextIO

from numba.core import event

QUIET_SECONDS = 2.0  # where nobody watches a terminal, compiling for so long is worth a line


class CompileProgress(event.Listener):  # type: ignore[misc]
    """Counts the functions of a walk as numba compiles them, and says so on standard error.

    On a terminal it rewrites one line, and `close` removes it. Elsewhere it writes one plain line if compiling takes
    longer than two seconds. It is silent if `POSSE_QUIET=1` is set, and in worker processes.
    """

    def __init__(self, what: str, functions: Collection[Any]) -> None:
        self.what = what or "a kernel"
        self.functions = functions
        self.done: set[Any] = set()
        self.out: TextIO | None = None
        self.start = 0.0
        self.told = False

    def open(self) -> None:
        """Begin to watch."""
        quiet = os.environ.get("POSSE_QUIET", "") not in ("", "0") or multiprocessing.parent_process() is not None
        self.out = None if quiet else sys.stderr
        self.start = time.monotonic()

    def on_start(self, event: Any) -> None:
        """A function is about to be compiled."""
        self._show(event.data["dispatcher"].py_func)

    def on_end(self, event: Any) -> None:
        """A function has been compiled."""
        self.done |= {event.data["dispatcher"].py_func} & set(self.functions)
        self._show(event.data["dispatcher"].py_func)

    def _show(self, function: Any) -> None:
        if self.out is None or function not in self.functions:
            return
        if self.out.isatty():
            done = f"{len(self.done)} of {len(self.functions)} functions"
            print(f"\rcompiling {self.what}: {done}\033[K", end="", file=self.out, flush=True)
        elif not self.told and time.monotonic() - self.start > QUIET_SECONDS:
            self.told = True
            print(f"compiling {self.what}: this takes some seconds the first time", file=self.out, flush=True)

    def close(self) -> None:
        """Remove the line."""
        if self.out is not None and self.out.isatty() and self.done:
            print("\r\033[K", end="", file=self.out, flush=True)
        self.out = None
