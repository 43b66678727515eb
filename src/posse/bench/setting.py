"""What is measured, and how: the setting of the paper, posse's policies and users' own; time, and memory."""

import dataclasses
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from posse.policies import Policy, all_policies

EPSILON = 0.15
PLAYERS = 20
ARMS = 10
HORIZON = 50_000
PAPER_POLICIES = ("RobustAggTS", "RobustAggTSV", "RobustAgg", "IndTS", "IndUCB")

PEAK = """
import pathlib, re, resource, sys
status = pathlib.Path("/proc/self/status")  # what Linux gives as ru_maxrss includes the memory of the parent process
peak = re.search(r"VmHWM:\\s+(\\d+)", status.read_text()) if status.exists() else None
print(1024 * int(peak[1]) if peak else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def shipped() -> dict[str, Policy]:
    """posse's own policies as they are measured, by class name."""
    return {cls.__name__: example(cls) for cls in all_policies() if is_shipped(cls)}


def is_shipped(policy: Policy | type[Policy]) -> bool:
    """Whether it is one of posse's own, which every process knows."""
    return policy.__module__.startswith("posse.policies.")


def example(cls: type[Policy]) -> Policy:
    """The policy as it is measured: with ε = 0.15 or the deviations that go with it, and 0.1 for what else it needs."""
    needed = (field.name for field in dataclasses.fields(cls) if field.default is dataclasses.MISSING)
    given: dict[str, Any] = {"epsilon": EPSILON} | dict.fromkeys(("spread", "own", "effects"), EPSILON / math.sqrt(12))
    return cls(**{name: given.get(name, 0.1) for name in needed})


def from_file(path: str | Path) -> list[Policy]:
    """The policies of a user's file: those in its list POLICIES if it has one, otherwise an example of each class."""
    from posse.policies.user import import_file

    classes = import_file(path)
    listed = getattr(sys.modules[Path(path).stem], "POLICIES", None)
    if listed is None:
        return [example(cls) for cls in classes]
    for each in listed:
        if not isinstance(each, Policy):
            raise ValueError(f"{path}: POLICIES has {each!r}, but expected policies, such as MyTS(0.1)")
    return list(listed)


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


def worked(work: Callable[..., object], *args: object) -> float:
    """How many seconds of processor time it takes, which other work on the machine hardly changes."""
    start = time.process_time()
    work(*args)
    return time.process_time() - start


def peak_megabytes(code: str, *arguments: str) -> float:
    """Run Python code in a process of its own, and return its peak memory in MB."""
    return printed_and_peak(code, *arguments)[1]


def printed_and_peak(code: str, *arguments: str) -> tuple[str, float]:
    """Run Python code in a process of its own, and return what it prints and its peak memory in MB."""
    *printed, peak = run_alone(code + PEAK, *arguments).splitlines()
    return "\n".join(printed), int(peak) / 1e6


def processor_seconds(code: str, *arguments: str, **environment: str) -> float:
    """Run Python code in a process of its own, and return the processor time that it took from start to end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_alone(code, *arguments, **environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run_alone(code: str, *arguments: str, **environment: str) -> str:
    """Run Python code in a process of its own, and return what it prints."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return done.stdout
