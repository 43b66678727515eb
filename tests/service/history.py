"""A history of requests that overlap, and whether one order of events explains every answer: linearisability.

`Recorder` writes down each request with the moments before it was sent and after it was answered. `faults` compares
the requests with the log. The log is one order of events, so the search for an order is short:

- all answers for one idempotency key are the same decisions, which are one round of the log; a round that was given to
  nobody belongs to one request whose outcome is not known;
- what was answered before another request was sent stands before it in the log, reads included;
- the answers to all reports of one decision's reward are those of a register that is written once, in some order that
  respects real time. That order is searched for, as Wing and Gong do (1993).

A request whose outcome is not known may have happened at any moment after it was sent, once, or never.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import httpx
from compared import rows

from posse.decision import write_id

REFUSED = "refused"  # the answer that says that nothing happened
END = sys.float_info.max  # when the log is read, after everything else


class Operation(NamedTuple):
    """One request: what was asked, when, and what came of it."""

    kind: str
    """`decide`, `reward` or `read`."""
    target: str
    """The idempotency key, the id of the decision, or the experiment."""
    sent: float
    answered: float = math.inf
    """Infinite if the outcome is not known."""
    given: Any = None
    """The players, or the reward."""
    answer: Any = None
    """Decisions as (id, player, arm, propensity); `taken`, `known` or `conflict`; `Progress`; or `REFUSED`."""

    @property
    def is_known(self) -> bool:
        return self.answer is not None


class Progress(NamedTuple):
    """How far an experiment says it is."""

    decisions: int
    rewards: int
    rounds: int


class LogRow(NamedTuple):
    """A row of the log, in the log's order."""

    link: int
    decision: str
    content: Any
    """Player, arm and propensity, or the reward."""
    round: int
    """The round of the decision; each request for decisions is one."""
    defaulted: bool = False

    @property
    def is_reward(self) -> bool:
        return not isinstance(self.content, tuple)


# ---------------------------------------------------------------- recording


class Recorder:
    """Sends requests, one at a time, and writes down what came of them."""

    def __init__(self, url: str, experiment: str, seconds: float) -> None:
        self._http = httpx.Client(base_url=url, timeout=seconds)
        self._experiment = experiment
        self.operations: list[Operation] = []
        self.errors: list[str] = []
        """Answers that these requests should not get, such as 404 or 500, or 503 without Retry-After."""

    def decide(self, key: str, players: Sequence[str]) -> Operation:
        def read(said: Any) -> Any:
            return tuple((one["id"], one["player"], one["arm"], one["propensity"]) for one in said["decisions"])

        asked = Operation("decide", key, 0.0, given=tuple(players))
        return self._send(asked, "POST", "/decisions", {"players": list(players)}, read, {"Idempotency-Key": key})

    def reward(self, decision: str, value: float) -> Operation:
        body = {"decision": decision, "reward": value}
        asked = Operation("reward", decision, 0.0, given=value)
        return self._send(asked, "POST", "/rewards", body, lambda said: said["status"])

    def read(self) -> Operation:
        def progress(said: Any) -> Progress:
            return Progress(*(said[name] for name in Progress._fields))

        return self._send(Operation("read", self._experiment, 0.0), "GET", "", None, progress)

    def close(self) -> None:
        self._http.close()

    def _send(
        self, asked: Operation, method: str, path: str, body: Any, read: Any, headers: dict[str, str] | None = None
    ) -> Operation:
        sent, answer = time.monotonic(), None
        try:
            said = self._http.request(method, f"/v1/experiments/{self._experiment}{path}", json=body, headers=headers)
            if said.status_code == 200:
                answer = read(said.json())
            elif said.status_code == 409 and said.json()["type"].endswith("conflicting-reward"):
                answer = "conflict"
            elif said.status_code == 429:
                answer = REFUSED
            elif said.status_code != 503 or "retry-after" not in said.headers:
                self.errors.append(f"{method} {path}: {said.status_code} {said.text[:200]}")
        except httpx.TransportError:
            pass  # whether it happened is not known
        answered = math.inf if answer is None else time.monotonic()
        done = asked._replace(sent=sent, answered=answered, answer=answer)
        self.operations.append(done)
        return done


LOGGED_DECISIONS = """
    SELECT d.link, d.serial, d.tag, p.name, a.name, d.propensity, d.round FROM decisions d
    JOIN players p ON p.experiment = d.experiment AND p.place = d.player
    JOIN arms a ON a.experiment = d.experiment AND a.place = d.arm
    JOIN experiments e ON e.id = d.experiment WHERE e.name = '{name}'
"""
LOGGED_REWARDS = """
    SELECT r.link, d.serial, d.tag, r.reward, r.defaulted, d.round FROM rewards r
    JOIN decisions d ON d.experiment = r.experiment AND d.serial = r.serial
    JOIN experiments e ON e.id = r.experiment WHERE e.name = '{name}'
"""


def read_log(database: str, experiment: str) -> list[LogRow]:
    """The log of an experiment, read by plain SQL."""
    found = [
        LogRow(link, write_id(serial, tag), tuple(content), in_round)
        for link, serial, tag, *content, in_round in rows(database, LOGGED_DECISIONS.format(name=experiment))
    ]
    found += [
        LogRow(link, write_id(serial, tag), reward, in_round, bool(defaulted))
        for link, serial, tag, reward, defaulted, in_round in rows(database, LOGGED_REWARDS.format(name=experiment))
    ]
    return sorted(found, key=lambda row: row.link)


# ---------------------------------------------------------------- checking


def faults(operations: Iterable[Operation], log: Sequence[LogRow]) -> list[str]:
    """All that no order of events explains; nothing if the history is linearisable."""
    by_kind: dict[str, dict[str, list[Operation]]] = defaultdict(lambda: defaultdict(list))
    for operation in operations:
        by_kind[operation.kind][operation.target].append(operation)
    found, made_by = _about_decisions(by_kind["decide"], log)
    found += _about_rewards(by_kind["reward"], log)
    reads = [one for each in by_kind["read"].values() for one in each if isinstance(one.answer, Progress)]
    spans = [_span(row, by_kind["reward"][row.decision] if row.is_reward else made_by[row.round]) for row in log]
    return found + _about_order(spans, reads, log) + _about_numbers(log)


def _about_decisions(
    asked: dict[str, list[Operation]], log: Sequence[LogRow]
) -> tuple[list[str], dict[int, list[Operation]]]:
    """Every key has one answer, which is a round of the log, and nothing else is; the requests of each round."""
    rounds: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for row in log:
        if not row.is_reward:
            rounds[row.round].append((row.decision, *row.content))
    round_of = {made[0][0]: number for number, made in rounds.items()}  # by the id of its first decision
    found: list[str] = []
    made_by: dict[int, list[Operation]] = defaultdict(list)
    open_: dict[Any, list[list[Operation]]] = defaultdict(list)  # requests that may have happened, by their players
    for key, repeats in asked.items():
        answers = {one.answer for one in repeats if one.is_known and one.answer != REFUSED}
        if len(answers) > 1:
            found.append(f"key {key} was answered with different decisions: {sorted(answers)}")
        for answer in answers:
            number = round_of.get(answer[0][0], -1)
            if tuple(rounds.get(number, ())) != answer:
                found.append(f"key {key} was answered with {answer}, but the log has {rounds.get(number)}")
            if number in made_by:
                found.append(f"round {number} was given to two keys, {key} and {made_by[number][0].target}")
            made_by[number] = [one for one in repeats if one.answer != REFUSED]
        if not answers and any(not one.is_known for one in repeats):
            open_[repeats[0].given].append([one for one in repeats if not one.is_known])
    for each in open_.values():
        each.sort(key=lambda repeats: -min(one.sent for one in repeats))
    for number, made in sorted(rounds.items()):
        if number not in made_by:  # the request that was sent first: any other order allows less
            maybe = open_[tuple(player for _, player, *_ in made)]
            if maybe:
                made_by[number] = maybe.pop()
            else:
                found.append(f"round {number} is there, and nobody asked for it: {made}")
    return found, made_by


def _about_rewards(asked: dict[str, list[Operation]], log: Sequence[LogRow]) -> list[str]:
    """The reports of each decision are explained by one register, whose last value is in the log."""
    values: dict[str, list[LogRow]] = defaultdict(list)
    for row in log:
        if row.is_reward:
            values[row.decision].append(row)
    found = [f"reward of {one} is there {len(each)} times" for one, each in values.items() if len(each) > 1]
    for one, (last, *_) in values.items():
        if one not in asked and not last.defaulted:
            found.append(f"reward of {one} is there, and nobody reported it")
    for one, reports in asked.items():
        last = values[one][0] if one in values else None
        taken = [Operation("reward", one, -math.inf, given=last.content)] if last and last.defaulted else []
        final = Operation("read", one, END, END, answer=(last.content if last else None,))
        if not is_explained([*reports, *taken, final]):
            found.append(f"no order explains the rewards of {one}, which are {last and last.content}: {reports}")
    return found


def is_explained(operations: Sequence[Operation]) -> bool:
    """Whether one order of the operations on a reward respects real time and explains every answer.

    A read's answer is a tuple of the reward, or of None.
    """

    @functools.cache
    def search(remaining: frozenset[int], value: float | None) -> bool:
        soonest = min((operations[one].answered for one in remaining), default=math.inf)
        if soonest == math.inf:  # only those are left that may never have happened
            return True
        for one in remaining:
            operation = operations[one]
            if operation.sent <= soonest and operation.answer in _possible(operation, value):
                after = operation.given if value is None and operation.answer in (None, "taken") else value
                if search(remaining - {one}, after):
                    return True
        return False

    return search(frozenset(range(len(operations))), None)


def _possible(operation: Operation, value: float | None) -> tuple[Any, ...]:
    """The answers that an operation can get from a reward that has this value; None stands for no answer."""
    if operation.kind == "read":
        return ((value,),)
    if value is None:
        return ("taken", REFUSED, None)
    return ("known" if value == operation.given else "conflict", REFUSED, None)


class Span(NamedTuple):
    """The earliest and the latest moment at which something can have happened."""

    earliest: float
    latest: float


def _span(row: LogRow, about: list[Operation]) -> Span:
    """When a row was written, as far as the requests about it say."""
    happened = [one for one in about if one.answer != REFUSED]
    makers = [one for one in happened if not row.is_reward or (one.given == row.content and not row.defaulted)]
    earliest = min((one.sent for one in makers), default=-math.inf)
    return Span(earliest, min((one.answered for one in happened), default=math.inf))


def _about_order(spans: list[Span], reads: list[Operation], log: Sequence[LogRow]) -> list[str]:
    """Rows, and the reads between them, are in an order that real time allows."""
    counts, at = Counter[bool](), {(0, 0): 0}
    for place, row in enumerate(log, 1):
        counts[row.is_reward] += 1
        if row.is_reward or place == len(log) or log[place].is_reward or log[place].round != row.round:
            at[counts[False], counts[True]] = place
    found = []
    events = [(2 * place, *span, f"row {log[place].link}") for place, span in enumerate(spans)]
    for one in reads:
        place = at.get(one.answer[:2])
        if place is None:
            found.append(f"{one.answer} was read, which the log has at no moment")
        else:
            events.append((2 * place - 1, one.sent, one.answered, f"the read of {one.answer}"))
    begun, last = -math.inf, ""
    for _, earliest, latest, what in sorted(events):
        if latest < begun:
            found.append(f"{what} was answered {begun - latest:.6f} s before {last} was asked for, and comes after it")
        if earliest > begun:
            begun, last = earliest, what
    rounds = [one.answer.rounds for one in sorted(reads, key=lambda one: one.answer[:2])]
    return found + (["rounds go back"] if rounds != sorted(rounds) else [])


def _about_numbers(log: Sequence[LogRow]) -> list[str]:
    """Rounds and the numbers of rows grow along the log."""
    rounds = [row.round for row in log if not row.is_reward]
    links = Counter(row.link for row in log)
    found = [f"round {b} comes after {a}" for a, b in itertools.pairwise(rounds) if b < a]
    return found + [f"row {link} is there {times} times" for link, times in links.items() if times > 1]
