"""Clients as processes of their own, which remember what the service has acknowledged to them."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from random import Random
from typing import Any

import httpx

import posse
from posse.service.client import ServiceError
from posse.service.commands import Choose, Observe
from posse.service.storage.store import ServiceStore
from posse.service.writer import Writer
from stores import submit

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["traffic", "posse.service.process.warm_up"]
)  # so that sixteen processes do not compile each
EXPERIMENT = "teas"
ARMS = ["black", "green", "white"]
PLAYERS = [f"shop {number}" for number in range(12)]
WAITING = 25  # decisions that a client holds back, to reward them late and out of order
RECOVERY = 5.0  # seconds after the last blow in which a request has to be answered


@dataclass
class Memory:
    """What a client knows to have happened."""

    decisions: dict[str, tuple[str, str, float, int]] = field(default_factory=dict)
    """Player, arm, propensity and round, by id."""
    rewards: dict[str, float] = field(default_factory=dict)
    interrupted: int = 0
    """Requests whose connection broke."""
    unavailable: int = 0
    """Requests that were answered 503."""
    last_blow: float = 0.0
    """When a request was last interrupted or answered 503."""
    slowest_recovery: float = 0.0
    """Seconds from the last blow that a decision met until it was answered."""
    slowest_request: float = 0.0
    """Seconds from when such a decision was asked for until it was answered, all its blows included."""
    errors: list[str] = field(default_factory=list)


class Watched(httpx.BaseTransport):
    """Counts what goes wrong on the way."""

    def __init__(self, memory: Memory) -> None:
        self._memory, self._inner = memory, httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Pass a request on."""
        try:
            answer = self._inner.handle_request(request)
        except httpx.TransportError:
            self._memory.interrupted += 1
            self._memory.last_blow = time.monotonic()
            raise
        if answer.status_code == 503:
            self._memory.unavailable += 1
            self._memory.last_blow = time.monotonic()
        return answer

    def close(self) -> None:
        """Hang up."""
        self._inner.close()


class Lossy(Watched):
    """Loses an answer now and then, on the way back."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Pass a request on, and lose one answer in ten."""
        answer = super().handle_request(request)
        self._requests = getattr(self, "_requests", 0) + 1
        if self._requests % 10:
            return answer
        answer.close()
        self._memory.interrupted += 1
        raise httpx.ReadError("lost on the way back", request=request)


class Forgetful(Lossy):
    """Loses answers, and sends requests without their idempotency keys."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Pass a request on, without what makes it safe to repeat."""
        request.headers.pop("Idempotency-Key", None)
        return super().handle_request(request)


def client_of(url: str, memory: Memory, transport: type[Watched] = Watched) -> posse.Client:
    """A client that is watched."""
    client = posse.Client(url, timeout=RECOVERY)
    client._http.close()
    client._http = httpx.Client(transport=transport(memory), **client._options)
    return client


def customer(url: str, seed: int, stop: Event, memories: Any, transport: type[Watched]) -> None:
    """Ask for decisions and report rewards until told to stop; put the memory into the queue."""
    random, memory, held = Random(seed), Memory(), []
    try:
        client = client_of(url, memory, transport)
        while not stop.is_set():
            held += decide(client, memory, random.sample(PLAYERS, random.choice([1, 1, 1, 4])))
            random.shuffle(held)
            while len(held) > WAITING:
                some, held = held[: random.choice([1, 1, 5])], held[5:]
                report(client, memory, [(decision.id, random.choice([0.0, 0.25, 1.0])) for decision in some])
        client.flush()
        client.close()
        memory.errors += [why for _, why in client.refused]
    except (ServiceError, ValueError) as error:
        memory.errors.append(f"{type(error).__name__}: {error}")
    memories.put(memory)


def decide(client: posse.Client, memory: Memory, players: list[str]) -> list[posse.Decision]:
    """Decisions, remembered."""
    began = time.monotonic()
    made = client.choose(EXPERIMENT, players)
    if memory.last_blow > began:
        memory.slowest_recovery = max(memory.slowest_recovery, time.monotonic() - memory.last_blow)
        memory.slowest_request = max(memory.slowest_request, time.monotonic() - began)
    for each in made:
        assert each.id not in memory.decisions
        memory.decisions[each.id] = each.player, each.arm, each.propensity, each.round
    return made


def report(client: posse.Client, memory: Memory, rewards: list[tuple[str, float]]) -> None:
    """Rewards, remembered; those that have to wait in the buffer are delivered before the client ends."""
    client.observe(EXPERIMENT, rewards)
    memory.rewards |= dict(rewards)


@contextlib.contextmanager
def customers(
    url: str, count: int, seed: int, transport: type[Watched] = Watched
) -> Iterator[Callable[[], list[Memory]]]:
    """Processes that use the service; what is given ends them and returns what each remembers."""
    stop, memories = CONTEXT.Event(), CONTEXT.Queue()
    processes = start(count, customer, lambda number: (url, seed + number, stop, memories, transport))

    def finish() -> list[Memory]:
        stop.set()
        found = [memories.get(timeout=60) for _ in processes]
        for process in processes:
            process.join()
        return found

    try:
        yield finish
    finally:
        for process in processes:
            process.kill()
            process.join()


def start(count: int, target: Callable[..., None], arguments: Callable[[int], tuple[Any, ...]]) -> list[Any]:
    """So many processes."""
    processes = [CONTEXT.Process(target=target, args=arguments(number)) for number in range(count)]
    for process in processes:
        process.start()
    return processes


def pull(database: str, experiments: list[str], rounds: int, seed: int, failures: Any) -> None:
    """One process on a database of its own accord: ten decisions and their rewards a round, which share transactions
    and lock several experiments."""
    random, store = Random(seed), ServiceStore(database)
    writer = Writer(store)
    try:
        for _ in range(rounds):
            asked = [(random.choice(experiments), random.choice(PLAYERS)) for _ in range(10)]
            made = [submit(writer, Choose(name, [player])) for name, player in asked]
            answers = [
                submit(writer, Observe(name, [(future.result()[0].id, random.random())]))
                for (name, _), future in zip(asked, made, strict=True)
            ]
            assert {answer.result()[0].status for answer in answers} == {"taken"}
    except Exception as error:
        failures.put(f"{type(error).__name__}: {error}")
    finally:
        writer.close()
        store.close()


def begin(url: str, **more: Any) -> None:
    """The experiment that all of it is about."""
    with posse.Client(url) as client:
        client.create(EXPERIMENT, ARMS, PLAYERS, seed=1, **more)
