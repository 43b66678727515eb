"""posse bench --service: how much the service does in a second and how long a request takes, on real disks."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import numpy as np

from posse.bench.service_load import Load, measure
from posse.bench.table import BenchReport, table
from posse.checks import number, whole
from posse.policies.posse_ts import PosseTS
from posse.service.commands import Choose, Create, Observe
from posse.service.storage import queries
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit, commit_group

PLAYERS = [f"player {number}" for number in range(200)]
ARMS = [f"arm {number}" for number in range(5)]
LOADS = [(clients, batch) for batch in (1, 20, 100) for clients in (1, 4, 16)]
ROUNDS = 20  # of all players, written in one transaction while the past is made
SLICES = 6  # of the time in which two services are compared, taken in turns
SOAK = (4, 20)  # clients, and pairs in a request
COMMAND = "import sys; from posse.cli import main; sys.exit(main())"

Note = Callable[[str], None]


@dataclass(frozen=True)
class Growth:
    """Single requests of one client, with an empty log and with a long one."""

    past: int
    empty: Load
    full: Load


@dataclass(frozen=True)
class Soak:
    """Memory while clients work for a long time."""

    minutes: float
    pairs: int
    megabytes: list[float]
    """Of all processes of the service, at equal intervals."""

    @property
    def growth(self) -> float:
        """Relative growth of the peak memory from the third quarter to the last."""
        quarters = np.array_split(np.array(self.megabytes), 4)
        return float(quarters[3].max() / quarters[2].max() - 1)


@dataclass(frozen=True)
class ServiceReport(BenchReport):
    """All figures of a run on the service."""

    machine: str
    loads: dict[str, list[Load]]
    """By database."""
    growth: dict[str, Growth]
    soak: Soak | None

    def to_text(self) -> str:
        """The figures as tables and sentences."""
        head = ("database", "clients", "batch", "pairs/s", "p50 ms", "p99 ms", "slowest")
        grown = []
        for name, growth in self.growth.items():
            change = f"{growth.past:,} events: p50 {growth.full.p50 / growth.empty.p50 - 1:+.0%}"
            grown += [(name, *growth.empty.cells(), "empty"), ("", *growth.full.cells(), change)]
        lines = [
            f"The service, one worker, {len(PLAYERS)} players, {len(ARMS)} arms, on {self.machine}.",
            "",
            "Durable pairs (a decision and its reward), and how long one request takes",
            *table(head, [(name, *load.cells()) for name, loads in self.loads.items() for load in loads]),
            "",
            "One client, one decision a request, with an empty log and with a long one",
            *table(head, grown),
        ]
        if self.soak is not None:
            soak = self.soak
            lines += [
                "",
                f"Memory over {soak.minutes:g} minutes and {soak.pairs:,} pairs: {soak.megabytes[0]:.0f} MB at first, "
                f"{max(soak.megabytes):.0f} MB at most, {soak.megabytes[-1]:.0f} MB in the end; "
                f"last quarter against the one before: {soak.growth:+.1%}",
            ]
        return "\n".join(lines)


def run(
    quick: bool = False, past: int = 1_000_000, minutes: float = 0.0, postgres: str | None = None, note: Note = print
) -> ServiceReport:
    """Measure SQLite, and PostgreSQL if the address of an empty database is given.

    Args:
        quick: shorter and rougher.
        past: events in the long log, which is compared with an empty one.
        minutes: how long memory is watched, on SQLite; not at all if 0.
        postgres: the address of a database, postgresql://…; what is written there stays.
        note: is called with what is measured now.
    """
    past, minutes = whole("past", past, least=1), number("minutes", minutes, least=0)
    seconds = 1.0 if quick else 8.0
    loads: dict[str, list[Load]] = {}
    growth: dict[str, Growth] = {}
    with tempfile.TemporaryDirectory(prefix="posse-bench-") as folder:
        places = {"SQLite": f"sqlite:///{folder}/posse.db"} | ({"PostgreSQL": postgres} if postgres else {})
        for database in places.values():  # all of them first, so that a wrong address is refused at once
            ServiceStore(database, create=True).close()
        for name, database in places.items():
            note(f"{name}, {past:,} past events")
            short, long = new_experiment(database), new_experiment(database)
            make_past(database, long, past)
            with service(database) as server:
                loads[name] = []
                for clients, batch in LOADS:
                    note(f"{name}, {clients} clients, batches of {batch}")
                    loads[name].append(_load(server, database, clients, batch, seconds))
                note(f"{name}, empty against {past:,} past events")
                growth[name] = _grow(server, short, long, past, seconds)
        note("memory")
        soak = _soak(f"sqlite:///{folder}/soak.db", minutes) if minutes else None
    return ServiceReport(f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}", loads, growth, soak)


def _load(server: ServiceProcess, database: str, clients: int, batch: int, seconds: float) -> Load:
    name = new_experiment(database)
    measure(server.url, name, PLAYERS, clients, batch, seconds / 8)  # to warm up
    return measure(server.url, name, PLAYERS, clients, batch, seconds)


def _grow(server: ServiceProcess, short: str, long: str, past: int, seconds: float) -> Growth:
    turns = [
        [measure(server.url, name, PLAYERS, 1, 1, seconds / SLICES) for name in (short, long)]
        for _ in range(SLICES + 1)
    ]
    empty, full = map(_middle, zip(*turns[1:], strict=True))  # the first turn is to warm up
    return Growth(past, empty, full)


def _middle(loads: Sequence[Load]) -> Load:
    """Several loads as one, with the medians of their times."""
    p50, p99, slowest = np.median([(each.p50, each.p99, each.slowest) for each in loads], axis=0).tolist()
    seconds, pairs = sum(each.seconds for each in loads), sum(each.pairs for each in loads)
    return Load(loads[0].clients, loads[0].batch, seconds, pairs, p50, p99, slowest)


def _soak(database: str, minutes: float) -> Soak:
    with service(database) as server:
        name, pairs, megabytes = new_experiment(database), 0, []
        until = time.monotonic() + 60 * minutes
        while time.monotonic() < until:
            pairs += measure(server.url, name, PLAYERS, *SOAK, min(5.0, 60 * minutes / 12)).pairs
            megabytes.append(server.megabytes())
    return Soak(minutes, pairs, megabytes)


def new_experiment(database: str) -> str:
    """An experiment of its own."""
    name = f"bench {uuid.uuid4().hex[:8]}"
    with closing(ServiceStore(database)) as store:
        commit(store, Create(name, PosseTS(), ARMS, PLAYERS, seed=1))
    return name


def make_past(database: str, name: str, events: int) -> None:
    """Write so many events to the log: half decisions, half rewards."""
    random = np.random.default_rng(0)
    with closing(ServiceStore(database)) as store:
        while 2 * store.read(queries.experiment, name).decisions < events:
            rounds = commit_group(store, [Choose(name, PLAYERS)] * ROUNDS)
            reports = [[(each.id, float(random.random() < 0.4)) for each in made] for made in rounds]
            commit_group(store, [Observe(name, pairs) for pairs in reports])


# ---------------------------------------------------------------- the server


@dataclass(frozen=True)
class ServiceProcess:
    """A service that runs in processes of its own."""

    url: str
    process: int

    def megabytes(self) -> float:
        """The memory of all its processes. Memory that they share counts for each of them."""
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,rss="], check=True, capture_output=True, text=True)
        rows = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
        family, kilobytes = {self.process}, 0
        for process, parent, size in sorted(rows):
            if parent in family or process == self.process:
                family.add(process)
                kilobytes += size
        return kilobytes / 1024


@contextmanager
def service(database: str, workers: int = 1) -> Iterator[ServiceProcess]:
    """`posse serve` on a free port."""
    options = ["serve", "--port", "0", "--workers", str(workers), "--database", database]
    process = subprocess.Popen([sys.executable, "-c", COMMAND, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = re.search(r"http://[^/\s]+", process.stdout.readline())
        if found is None:
            raise RuntimeError("the service did not start; the lines above say why")
        yield ServiceProcess(found[0], process.pid)
    finally:
        process.terminate()
        process.communicate()
