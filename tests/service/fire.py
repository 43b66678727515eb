"""The service under siege: what becomes of its decisions, measured in the same run without and with the siege.

    python tests/service/fire.py [--short] [--workers N] [storm | joins] …

prints the figures that docs/reliability.md has. Clients ask for decisions at a steady rate, first alone, then in a
storm of connections, readers and viewers, then while players join another experiment.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fleet import Fleet, fleet
from traffic import ARMS, EXPERIMENT, PLAYERS

import posse
from posse.service.commands import Choose, Create, Record
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit, commit_group

ATTACKERS = Path(__file__).with_name("fire_attackers.py")
GENTLE = 10  # by how much attackers are nicer than the service and its clients, with whom they share the processors
DECIDERS = 2
FILES = 1024  # that a process may open unless it asks for more, as most systems have it
KINDS = ["storm", "joins"]


class Siege(NamedTuple):
    """How large it is."""

    seconds: float = 60.0
    """Of the quiet phase, and of the siege."""
    connections: int = 5000
    readers: int = 10
    viewers: int = 30
    players: int = 10_300
    arms: int = 50
    experiments: int = 1000
    joins: int = 10_000


SHORT = Siege(seconds=2.0, connections=300, readers=2, viewers=4, players=300, arms=10, experiments=30, joins=100)


class Figures(NamedTuple):
    """What was measured; times in ms."""

    quiet_p99: float
    p99: float
    slowest: float
    failed: int
    """Decisions that were not made."""
    made: int
    health: float
    """The slowest answer to /healthz."""
    log: float
    """MB that the service wrote to its log in a minute."""
    attacks: dict[str, Any]
    """What each kind of attacker counted."""

    @property
    def ratio(self) -> float:
        return self.p99 / self.quiet_p99


@contextlib.contextmanager
def attack(kind: str, url: str, number: int, gentle: int = GENTLE) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """Attackers at work; what they counted is in the dictionary afterwards."""
    found: dict[str, Any] = {}
    with subprocess.Popen(
        ["nice", "-n", str(gentle), sys.executable, str(ATTACKERS), kind, url, str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process, found
        finally:
            found |= json.loads(process.communicate()[0] or "{}")


def measure(url: str, seconds: float, attackers: Sequence[subprocess.Popen[str]] = ()) -> tuple[Any, Any]:
    """The times of decisions, and of answers to /healthz, for so long or until one of the attackers has done all."""
    with attack("probe", url, 1, 0) as (_, health), attack("decide", url, DECIDERS, 0) as (_, made):
        until = time.monotonic() + seconds
        while time.monotonic() < until and all(each.poll() is None for each in attackers):
            time.sleep(0.1)
    return made, health


def p99(measured: dict[str, Any]) -> float:
    """The 99th percentile in ms, in which a decision that failed takes for ever."""
    times = np.sort([*measured["seconds"]])
    times = np.append(times[: len(times) - len(measured["failed"])], [np.inf] * len(measured["failed"]))
    return float(1e3 * times[int(0.99 * len(times))])


def besiege(service: Fleet, attackers: dict[str, int], seconds: float, quiet: float) -> Figures:
    """What becomes of decisions meanwhile."""
    with contextlib.ExitStack() as stack:
        begun = {kind: stack.enter_context(attack(kind, service.url, many)) for kind, many in attackers.items() if many}
        size, began = service.log.stat().st_size, time.monotonic()
        made, health = measure(service.url, seconds, [process for process, _ in begun.values()])
        written = (service.log.stat().st_size - size) / (time.monotonic() - began) * 60 / 1e6
    times, unwell = made["seconds"], health["failed"]
    slowest = np.inf if unwell else 1e3 * max(health["seconds"])
    figures = quiet, p99(made), 1e3 * max(times), len(made["failed"]), len(times), slowest, written
    return Figures(*figures, {kind: counted for kind, (_, counted) in begun.items()})


# ---------------------------------------------------------------- the two sieges


def prepare(database: str, siege: Siege) -> None:
    """The experiment that decides, the one that is large, and many that are only there."""
    store = ServiceStore(database, create=True)
    commit(store, Create(EXPERIMENT, posse.PosseTS(), ARMS, PLAYERS, seed=1))
    arms = [f"arm {number}" for number in range(siege.arms)]
    commit(store, Create("big", posse.PosseTS(), arms, [f"player {number}" for number in range(siege.players)], seed=2))
    random = np.random.default_rng(3)
    for _ in range(20):
        pairs = zip(random.integers(siege.players, size=500), random.integers(siege.arms, size=500), strict=True)
        commit(store, Record("big", [(f"player {who}", arms[what], float(random.random())) for who, what in pairs]))
    commit(store, Create("growing", posse.PosseTS(), arms, ["player"], seed=4))
    for start in range(0, siege.experiments, 100):
        names = [f"small {number}" for number in range(start, min(start + 100, siege.experiments))]
        commit_group(store, [Create(name, posse.PosseTS(), ARMS, PLAYERS, seed=1) for name in names])
        commit_group(store, [Choose(name, PLAYERS[:2]) for name in names])
    store.close()


def run(siege: Siege, workers: int = 2, which: Sequence[str] = KINDS) -> Iterator[tuple[str, Figures]]:
    """The sieges, one after the other, of the same service, on a database in memory: the disk is not besieged."""
    storm = {"hold": siege.connections, "read": siege.readers, "view": siege.viewers}
    with contextlib.ExitStack() as stack:
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=memory)))
        database = f"sqlite:///{folder}/posse.db"
        prepare(database, siege)
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, before[1]))  # which the service may raise, as attackers do
        service = stack.enter_context(fleet(database, folder, workers))
        measure(service.url, siege.seconds / 2)  # so that everything is in memory
        quiet = p99(measure(service.url, siege.seconds)[0])
        for kind in which:
            longest = siege.seconds if kind == "storm" else 20 * siege.seconds
            yield kind, besiege(service, storm if kind == "storm" else {"join": siege.joins}, longest, quiet)


def table(name: str, figures: Figures) -> str:
    """The figures as lines of a table for the documentation."""
    lines = [
        ("p99 of a decision, quiet", f"{figures.quiet_p99:.1f} ms"),
        ("p99 of a decision", f"{figures.p99:.1f} ms, {figures.ratio:.1f} × the quiet one"),
        ("slowest decision", f"{figures.slowest:.0f} ms"),
        ("decisions that failed", f"{figures.failed} of {figures.made}"),
        ("slowest /healthz", f"{figures.health:.0f} ms"),
        ("log", f"{figures.log:.2f} MB a minute"),
        *((f"attackers: {kind}", json.dumps(counted)) for kind, counted in figures.attacks.items()),
    ]
    return "\n".join([f"{name} |", "--- | ---", *(f"{what} | {value}" for what, value in lines)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="the small form that the tests have")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, help="how long each phase lasts")
    parser.add_argument("which", nargs="*", default=KINDS, help="of storm and joins; both by default")
    options = parser.parse_args()
    print(f"posse {posse.__version__}, {options.workers} workers, {os.cpu_count()} cores", flush=True)
    siege = SHORT if options.short else Siege()
    siege = siege._replace(seconds=options.seconds or siege.seconds)
    for name, figures in run(siege, options.workers, options.which):
        print(table(name, figures), flush=True)


if __name__ == "__main__":
    main()
