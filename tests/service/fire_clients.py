"""Clients that get in each other's way on purpose, and write down what came of every request."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Event
from typing import NamedTuple

from compared import rows
from fleet import run_posse
from history import REFUSED, Operation, Recorder, faults, read_log
from traffic import EXPERIMENT, PLAYERS

CLIENTS = 4
REPEATS = 3  # of a request whose outcome is not known; then it stays unknown
SECONDS = 10.0  # that a client waits for an answer
KEY_SECONDS = 0.05  # for which all clients use the same idempotency key


class Record(NamedTuple):
    """What all clients wrote down."""

    operations: list[Operation]
    errors: list[str]

    def unknown(self) -> int:
        """How many requests have an outcome that is not known."""
        return sum(not one.is_known for one in self.operations)

    def longest_pause(self) -> float:
        """The longest time, in seconds, in which nothing was answered."""
        ends = sorted(one.answered for one in self.operations if one.is_known and one.answer != REFUSED)
        return max(b - a for a, b in itertools.pairwise(ends))


def work(url: str, seed: int, stop: Event) -> Recorder:
    """Decide and report until told to stop. Keys, and with them decisions, are those of the other clients too."""
    random, recorder = Random(seed), Recorder(url, EXPERIMENT, SECONDS)

    def insist(send: Callable[[], Operation]) -> Operation:
        for _ in range(REPEATS):
            done = send()
            if done.is_known or stop.is_set():
                break
            time.sleep(random.uniform(0.0, 0.2))
        return done

    held: list[str] = []
    while not stop.is_set():
        number = int(time.monotonic() / KEY_SECONDS) - random.choice([0, 0, 0, 1, 20])
        key, players = f"key-{number}", Random(number).sample(PLAYERS, 1 + number % 3)
        made = insist(lambda key=key, players=players: recorder.decide(key, players))
        if isinstance(made.answer, tuple):
            held += [identity for identity, *_ in made.answer]
        random.shuffle(held)
        while len(held) > 6:
            decision = held.pop()
            for _ in range(random.choice([1, 1, 2])):
                value = random.choice([0.0, 1.0])
                insist(lambda decision=decision, value=value: recorder.reward(decision, value))
        if random.random() < 0.2:
            recorder.read()
    recorder.close()
    return recorder


@contextlib.contextmanager
def recorded(url: str, seed: int = 1, clients: int = CLIENTS) -> Iterator[Callable[[], Record]]:
    """Clients at work; what is given ends them and returns what they wrote down."""
    stop = Event()
    with ThreadPoolExecutor(clients) as pool:
        working = [pool.submit(work, url, seed + number, stop) for number in range(clients)]

        def finish() -> Record:
            stop.set()
            recorders = [each.result() for each in working]
            operations = [one for each in recorders for one in each.operations]
            return Record(operations, [error for each in recorders for error in each.errors])

        try:
            yield finish
        finally:
            stop.set()


def check(database: str, record: Record) -> str:
    """All that must hold after a fault; a line of figures."""
    log = read_log(database, EXPERIMENT)
    assert record.errors == []
    assert faults(record.operations, log) == []
    verified = run_posse("db", "verify", "--database", database)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    kinds = [kind for kind in ("taken", "known", "conflict") for one in record.operations if one.answer == kind]
    assert len(set(kinds)) > 1, "clients did not get in each other's way"
    last = rows(database, f"SELECT links FROM experiments WHERE name = '{EXPERIMENT}'")[0][0]
    return (
        f"{len(record.operations)} requests, {record.unknown()} of unknown outcome; {last} rows; "
        f"{kinds.count('taken')} rewards taken, {kinds.count('known')} known, {kinds.count('conflict')} in conflict; "
        f"the longest pause was {record.longest_pause():.2f} s"
    )
