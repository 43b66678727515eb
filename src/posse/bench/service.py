"""posse bench --service: how much the service does in a second and how long a request takes, on real disks."""

import json
import os
import platform
import random
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import sqlalchemy as sql

from posse.bench.load import put_load
from posse.bench.report import BenchFigure, BenchReport, BenchTable, Rows
from posse.bench.service_process import EMPTY, ServiceProcess, service, started
from posse.checks import number, whole
from posse.policies.posse_ts import PosseTS
from posse.service.commands import Change, Choose, Create, Observe
from posse.service.storage import database as databases
from posse.service.storage import queries
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import Command, commit, commit_group
from posse.text import plural

PLAYERS = [f"player {number}" for number in range(200)]
ARMS = [f"arm {number}" for number in range(5)]
LOADS = [(clients, batch) for batch in (1, 20, 100) for clients in (1, 4, 16)]
SINGLE_CLIENTS = 16  # that send requests for one decision or one reward
TRIES = 3  # of which the best counts: whatever else runs on the machine only takes time away
LEAST_PAIRS, MOST_MS = 1000.0, 50.0  # the bar: pairs a second, and the 99th percentile of a request
ROW = 200  # bytes of a decision in the database
ROUNDS = 20  # of all players, written in one transaction while the past is made
SLICES = 6  # of the time in which two services are compared, taken in turns
SOAK = (4, 20)  # clients, and pairs in a request
CROWDS = (100, 10_000, 100_000)  # players in experiments that are compared
CROWD_PAST = 8000  # events before: fewer, and the policy would make a summary at almost every reward
REPEATS, JOINS = 100, 20  # decisions and rewards, and joins, that are timed in each of them
ATTRIBUTES = {
    "region": "category",
    "device": ["phone", "desktop"],
    "age": [18, 30, 45, 60],
    "hour": [6, 12, 18],
    "plan": "category",
}
REGIONS, PLANS, AGES, HOURS = 100, 25, (9, 20, 40, 50, 70), (3, 9, 15, 21)  # 100,000 combinations in all
COMBINATIONS, AT_ONCE, LATER = 100_000, 100, 500  # that join, in one request, and decisions that are timed after that

TITLES = {
    "singles": f"Single requests, {SINGLE_CLIENTS} clients: durable pairs (a decision and its reward), how long one "
    "request takes, and the service's part of the processors; beside it a route that does nothing, and rows inserted "
    "in groups as large. The best of several turns",
    "loads": "Durable pairs (a decision and its reward), and how long one request takes",
    "growth": "One client, one decision a request, with an empty log and with a long one; medians of several turns",
    "players": "Without HTTP: median ms of a transaction with one command, by players × 5 arms",
    "combinations": f"Combinations of {len(ATTRIBUTES)} attributes × {len(ARMS)} arms, which join as they come, "
    f"{AT_ONCE} in a request; then requests for one of them; memory; and seconds until a new service has answered the "
    "first",
    "memory": "Memory of all processes in MB; the growth is that of the last quarter's peak",
}
Note = Callable[[str], None]


def run(
    quick: bool = False, past: int = 1_000_000, minutes: float = 0.0, postgres: str | None = None, note: Note = print
) -> BenchReport:
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
    rows: dict[str, Rows] = {name: {} for name in TITLES}
    with tempfile.TemporaryDirectory(prefix="posse-bench-") as folder:
        places = {"SQLite": f"sqlite:///{folder}/posse.db"} | ({"PostgreSQL": postgres} if postgres else {})
        for database in places.values():  # all of them first, so that a wrong address is refused at once
            ServiceStore(database, create=True).close()
        for name, database in places.items():
            note(f"{name}, single requests")
            rows["singles"] |= _singles(name, database, 1 if name == "SQLite" else 2, seconds)
            note(f"{name}, {past:,} past events")
            logs = {"an empty log": new_experiment(database), f"{past:,} events": new_experiment(database)}
            make_past(database, logs[f"{past:,} events"], past)
            with service(database) as server:
                for clients, batch in LOADS:
                    what = f"{name}, {plural(clients, 'client')}, batches of {batch}"
                    note(what)
                    experiment = new_experiment(database)
                    measure(server.url, experiment, clients, batch, seconds / 8)  # to warm up
                    rows["loads"][what] = _figures([measure(server.url, experiment, clients, batch, seconds)])
                note(f"{name}, empty against {past:,} past events")
                turns = [
                    [measure(server.url, experiment, 1, 1, seconds / SLICES) for experiment in logs.values()]
                    for _ in range(SLICES + 1)
                ]
                for log, each in zip(logs, zip(*turns[1:], strict=True), strict=True):  # the first turn is to warm up
                    rows["growth"][f"{name}, {log}"] = _figures(each)
            for players in CROWDS[: 1 if quick else None]:
                note(f"{name}, {players:,} players")
                rows["players"][f"{name}, {players:,} players"] = _crowd(database, players)
            count = AT_ONCE if quick else COMBINATIONS
            note(f"{name}, {count:,} combinations of attributes")
            rows["combinations"][f"{name}, {count:,} combinations"] = _newcomers(database, count)
        if minutes:
            note("memory")
            rows["memory"][f"SQLite, {minutes:g} minutes"] = _soak(f"sqlite:///{folder}/soak.db", minutes)
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    setup = f"The service, one worker, {len(PLAYERS)} players, {len(ARMS)} arms, on {machine}."
    return BenchReport(setup, [BenchTable(name, TITLES[name], found) for name, found in rows.items() if found])


def _singles(name: str, database: str, workers: int, seconds: float) -> Rows:
    """Requests for one decision or one reward, and what the machine allows.

    Two things show the machine's part: a route that does nothing, behind the same server, and bare insertions into the
    same database.
    """
    experiment = new_experiment(database)
    with service(database, workers) as server:
        _offer(server, experiment, seconds / 4)  # to warm up
        found = _best(lambda: _offer(server, experiment, seconds / 2))
    with started(EMPTY) as server:
        _offer(server, experiment, seconds / 8)
        empty = _best(lambda: _offer(server, experiment, seconds / 4))
    bare = _best(lambda: _insert(database, seconds / 4))
    row = {kind: BenchFigure(value) for kind, value in found.items()}
    row["pairs/s"] = BenchFigure(found["pairs/s"], least=LEAST_PAIRS)
    row["p99 ms"] = BenchFigure(found["p99 ms"], most=MOST_MS)
    row["of empty"] = BenchFigure(found["pairs/s"] / empty["pairs/s"])
    row["of inserts"] = BenchFigure(found["pairs/s"] / bare["pairs/s"])
    beside = {f"{name}, an empty route": empty, f"{name}, rows inserted": bare}
    return {f"{name}, {plural(workers, 'worker')}": row} | {each: _figures([load]) for each, load in beside.items()}


def _best(measured: Callable[[], dict[str, float]]) -> dict[str, float]:
    return max((measured() for _ in range(TRIES)), key=lambda each: each["pairs/s"])


def _offer(server: ServiceProcess, experiment: str, seconds: float) -> dict[str, float]:
    """What clients get done with requests for one player, and the service's processor time for a request."""
    used, until = server.processor_seconds(), time.perf_counter() + seconds

    def requests(number: int) -> Iterator[bytes]:
        chance = random.Random(number)
        while time.perf_counter() < until:
            yield b'{"player": "player %d"}' % chance.randrange(len(PLAYERS))

    found = put_load(server.url, experiment, map(requests, range(SINGLE_CLIENTS)))
    each = 1e6 * (server.processor_seconds() - used) / found["requests"]
    return {name: found[name] for name in ("pairs/s", "p50 ms", "p99 ms")} | {"processor µs/request": each}


def _insert(address: str, seconds: float) -> dict[str, float]:
    """How many pairs a second could be durable if nothing but rows had to be written, two for each pair."""
    engine = databases.connect(address)
    table = sql.Table(f"bench_{uuid.uuid4().hex[:8]}", sql.MetaData(), sql.Column("id", sql.Integer, primary_key=True))
    table.append_column(sql.Column("content", sql.LargeBinary))
    took, rows, content = [], 0, bytes(ROW)
    try:
        with engine.begin() as connection:
            table.create(connection)
        began = time.perf_counter()
        while (start := time.perf_counter()) < began + seconds:
            with engine.begin() as connection:
                added = [{"id": rows + number, "content": content} for number in range(SINGLE_CLIENTS)]
                databases.insert_rows(connection, table, added)
            took.append(time.perf_counter() - start)
            rows += SINGLE_CLIENTS
        elapsed = time.perf_counter() - began
        with engine.begin() as connection:
            table.drop(connection)
    finally:
        engine.dispose()
    p50, p99 = (1000 * np.quantile(took, [0.5, 0.99])).tolist()
    return {"pairs/s": rows / 2 / elapsed, "p50 ms": p50, "p99 ms": p99}


def _figures(loads: Sequence[dict[str, float]]) -> dict[str, BenchFigure]:
    """Loads as one row, with the medians of their figures."""
    return {name: BenchFigure(float(np.median([load[name] for load in loads]))) for name in loads[0]}


def _soak(database: str, minutes: float) -> dict[str, BenchFigure]:
    """The memory of the service while clients work for a long time."""
    with service(database) as server:
        name, pairs, megabytes = new_experiment(database), 0.0, []
        until = time.monotonic() + 60 * minutes
        while time.monotonic() < until:
            pairs += measure(server.url, name, *SOAK, min(5.0, 60 * minutes / 12))["pairs"]
            megabytes.append(server.megabytes())
    found = {"pairs": pairs, "at first": megabytes[0], "at most": max(megabytes), "in the end": megabytes[-1]}
    return {name: BenchFigure(value) for name, value in (found | {"growth": growth_of(megabytes)}).items()}


def growth_of(megabytes: Sequence[float]) -> float:
    """Relative growth of the peak memory from the third quarter to the last."""
    quarters = np.array_split(np.array(megabytes), 4)
    return float(quarters[3].max() / quarters[2].max() - 1)


def _crowd(database: str, players: int) -> dict[str, BenchFigure]:
    """How long a command about one of so many players takes, and how long opening their experiment."""
    names = [f"player {number}" for number in range(players)]
    name, chance, took = new_experiment(database, names), np.random.default_rng(0), defaultdict(list)
    make_past(database, name, CROWD_PAST, names[: len(PLAYERS)])
    with closing(ServiceStore(database)) as store:

        def timed(kind: str, command: Command) -> Any:
            began = time.perf_counter()
            result = commit(store, command)
            took[kind].append(1000 * (time.perf_counter() - began))
            return result

        timed("opening", Observe(name, []))
        for number in range(REPEATS):
            (made,) = timed("decision", Choose(name, [names[chance.integers(players)]]))
            timed("reward", Observe(name, [(made.id, float(chance.random() < 0.4))]))
            if number < JOINS:
                timed("join", Change(name, join=[f"new {number}"]))
    return {kind: BenchFigure(float(np.median(each))) for kind, each in took.items()}


def _newcomers(database: str, count: int) -> dict[str, BenchFigure]:
    """An experiment in which so many combinations of attributes join as they come."""
    name, chance, found = new_experiment(database, (), ATTRIBUTES), np.random.default_rng(0), {}
    everybody = [combination(number) for number in chance.permutation(COMBINATIONS)[:count].tolist()]
    batches = [_body(attributes=everybody[start : start + AT_ONCE]) for start in range(0, count, AT_ONCE)]
    singles = [_body(attributes=everybody[place]) for place in chance.integers(count, size=LATER).tolist()]
    with service(database) as server:
        joining = put_load(server.url, name, [iter(batches)])
        later = put_load(server.url, name, [iter(singles)])
        found = {"joins/s": joining["pairs/s"], "slowest ms": joining["slowest"], "MB": server.megabytes()}
    began = time.perf_counter()
    with service(database) as server:
        put_load(server.url, name, [iter(singles[:1])])
        found["opening s"] = time.perf_counter() - began
    return {kind: BenchFigure(value) for kind, value in (found | {k: later[k] for k in ("p50 ms", "p99 ms")}).items()}


def combination(number: int) -> dict[str, Any]:
    """One of the combinations of attributes."""
    number, region = divmod(number, REGIONS)
    number, plan = divmod(number, PLANS)
    number, age = divmod(number, len(AGES))
    device, hour = divmod(number, len(HOURS))
    values = f"region {region}", ATTRIBUTES["device"][device], AGES[age], HOURS[hour], f"plan {plan}"
    return dict(zip(ATTRIBUTES, values, strict=True))


def new_experiment(database: str, players: Sequence[str] = PLAYERS, attributes: dict[str, Any] | None = None) -> str:
    """An experiment of its own."""
    name = f"bench {uuid.uuid4().hex[:8]}"
    with closing(ServiceStore(database)) as store:
        commit(store, Create(name, PosseTS(), ARMS, players, seed=1, attributes=attributes))
    return name


def make_past(database: str, name: str, events: int, players: Sequence[str] = PLAYERS) -> None:
    """Write so many events to the log: half decisions, half rewards."""
    chance = np.random.default_rng(0)
    with closing(ServiceStore(database)) as store:
        while 2 * store.read(queries.experiment, name).decisions < events:
            rounds = commit_group(store, [Choose(name, players)] * ROUNDS)
            reports = [[(each.id, float(chance.random() < 0.4)) for each in made] for made in rounds]
            commit_group(store, [Observe(name, pairs) for pairs in reports])


def measure(url: str, experiment: str, clients: int, batch: int, seconds: float) -> dict[str, float]:
    """What clients get done in so many seconds with so many decisions, and then rewards, in a request."""
    found = put_load(url, experiment, [_rounds(batch, seed, seconds) for seed in range(clients)])
    return {name: found[name] for name in ("pairs", "pairs/s", "p50 ms", "p99 ms", "slowest")}


def _rounds(batch: int, seed: int, seconds: float) -> Iterator[bytes]:
    """Requests for decisions of some players, as long as there is time."""
    chance, until = np.random.default_rng(seed), time.perf_counter() + seconds
    while time.perf_counter() < until:
        yield _body(players=[PLAYERS[place] for place in chance.choice(len(PLAYERS), batch, replace=False)])


def _body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()
