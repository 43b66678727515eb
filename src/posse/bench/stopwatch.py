"""Time, measured so that a noisy machine does little harm, and the memory of processes of their own."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

PEAK = """
import resource, sys
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""


class Stopwatch:
    """The shortest time that each thing took. Things take turns, so that noise does not hit one of them alone."""

    def __init__(self) -> None:
        self.best: dict[Any, float] = {}

    def time(self, name: Any, work: Callable[..., object], *args: object) -> None:
        """Time it once more."""
        self.best[name] = min(self.best.get(name, math.inf), timed(work, *args))

    def total(self, *name: Any) -> float:
        """The sum over everything whose name begins so."""
        return sum(seconds for key, seconds in self.best.items() if key[: len(name)] == name)


def timed(work: Callable[..., object], *args: object) -> float:
    """How many seconds it takes."""
    start = time.perf_counter()
    work(*args)
    return time.perf_counter() - start


def peak_megabytes(code: str, *arguments: str) -> float:
    """Run Python code in a process of its own, and return its peak memory in MB."""
    command = [sys.executable, "-c", code + PEAK, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1]) / 1e6
