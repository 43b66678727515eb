"""What is measured, and how: the setting of the paper, posse's policies and users' own; time, and memory."""

from __future__ import annotations

import dataclasses
import math
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
import resource, sys
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""


def shipped() -> dict[str, type[Policy]]:
    """posse's own policies by class name."""
    return {cls.__name__: cls for cls in all_policies() if cls.__module__.startswith("posse.policies.")}


def example(cls: type[Policy]) -> Policy:
    """The policy as it is measured. Where it needs them, it gets ε = 0.15 or the deviations that go with it."""
    needed = {field.name for field in dataclasses.fields(cls) if field.default is dataclasses.MISSING}
    given: dict[str, Any] = {"epsilon": EPSILON} | dict.fromkeys(("spread", "own", "effects"), EPSILON / math.sqrt(12))
    missing = needed - set(given)
    if missing:
        raise ValueError(
            f"{cls.__name__} needs {' and '.join(sorted(missing))}; give each a default, or list what is to be "
            f"measured in the file that defines it: POLICIES = [{cls.__name__}({', '.join(sorted(missing))}=…)]"
        )
    return cls(**{name: given[name] for name in needed})


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


def peak_megabytes(code: str, *arguments: str) -> float:
    """Run Python code in a process of its own, and return its peak memory in MB."""
    command = [sys.executable, "-c", code + PEAK, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1]) / 1e6
