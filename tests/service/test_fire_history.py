"""The checker of histories: it accepts what a service that does one thing at a time can answer, and nothing else."""

from __future__ import annotations

import math

import pytest
from fleet import FULL
from history import REFUSED, LogRow, Operation, Progress, faults, is_explained
from hypothesis import given, settings
from hypothesis import strategies as st

PLAYERS = ("north", "south")
VALUES = (0.0, 1.0)


class Atomic:
    """A service that does one thing at a time, and its log."""

    def __init__(self) -> None:
        self.log: list[LogRow] = []
        self.made: dict[str, tuple] = {}
        self.rewards: dict[str, float] = {}

    def apply(self, kind: str, target: str, given: object):
        """Do it; the answer."""
        if kind == "decide":
            if target not in self.made:
                number = len(self.made)
                made = [(f"{number}{place}-00000000", player, "tea", 0.5) for place, player in enumerate(given)]
                self.made[target] = tuple(made)
                for identity, *content in made:
                    self.log.append(LogRow(len(self.log) + 1, identity, tuple(content), number + 1))
            return self.made[target]
        if kind == "reward":
            if target not in self.rewards:
                self.rewards[target] = given
                self.log.append(LogRow(len(self.log) + 1, target, given, 1))
                return "taken"
            return "known" if self.rewards[target] == given else "conflict"
        decisions = sum(not row.is_reward for row in self.log)
        return Progress(decisions, len(self.log) - decisions, len(self.made))


REQUESTS = st.tuples(
    st.sampled_from(["decide", "decide", "reward", "reward", "read"]),
    st.integers(0, 3),  # which key or decision
    st.sampled_from(VALUES),
    st.floats(0, 2),  # seconds from when it is sent until it happens,
    st.floats(0, 2),  # and from then until it is answered
    st.sampled_from(["answered", "answered", "answered", "lost on the way", "answer lost", "refused"]),
)


@settings(max_examples=1000 if FULL else 80, deadline=None)
@given(st.lists(REQUESTS, max_size=24))
def test_what_a_service_that_does_one_thing_at_a_time_answers_is_accepted(requests):
    service, happening = Atomic(), []
    for number, (kind, which, value, before, after, fate) in enumerate(requests):
        happens = 0.3 * number + before
        happening.append((happens, 0.3 * number, happens + after, kind, which, value, fate))
    operations = []
    for _, sent, answered, kind, which, value, fate in sorted(happening):
        target = f"key {which}"
        if kind == "reward":  # of a decision that is known by then
            made = [identity for each in service.made.values() for identity, *_ in each]
            if not made:
                continue
            target = made[which % len(made)]
        body = {"decide": PLAYERS[: 1 + which % 2], "reward": value, "read": None}[kind]
        asked = Operation(kind, target, sent, given=body)
        if fate == "refused":
            operations.append(asked._replace(answered=answered, answer=REFUSED))
            continue
        answer = None if fate == "lost on the way" else service.apply(kind, target, body)
        operations.append(asked._replace(answered=answered, answer=answer) if fate == "answered" else asked)
    assert faults(operations, service.log) == []


# ---------------------------------------------------------------- histories that are wrong on purpose


def sound() -> tuple[list[Operation], list[LogRow]]:
    """Two keys for two decisions and one, their rewards, and reads in between, one after the other."""
    service, operations = Atomic(), []
    asked = [
        ("decide", "a", PLAYERS),
        ("read", "teas", None),
        ("decide", "b", PLAYERS[:1]),
        ("reward", "00-00000000", 1.0),
        ("read", "teas", None),
        ("reward", "00-00000000", 1.0),
        ("reward", "00-00000000", 0.0),
        ("decide", "a", PLAYERS),
        ("reward", "10-00000000", 0.0),
    ]
    for number, (kind, target, sent) in enumerate(asked):
        answer = service.apply(kind, target, sent)
        operations.append(Operation(kind, target, number, number + 0.5, sent, answer))
    return operations, service.log


def lost_decision(operations, log):
    del log[2]


def lost_reward(operations, log):
    log[:] = [row for row in log if row.content != 1.0]


def doubled_reward(operations, log):
    operations[5] = operations[5]._replace(answer="taken")


def reward_twice_in_the_log(operations, log):
    log.append(log[3]._replace(link=99))


def changed_reward(operations, log):
    log[3] = log[3]._replace(content=0.0)


def answer_that_changed(operations, log):
    operations[7] = operations[7]._replace(answer=operations[2].answer)


def second_decision_for_a_key(operations, log):
    log.append(log[2]._replace(link=99, decision="90-00000000", round=9))


def half_a_request(operations, log):
    operations[0] = operations[0]._replace(answered=math.inf, answer=None)
    del operations[7], log[1]


def stale_read(operations, log):
    operations[4] = operations[4]._replace(answer=operations[1].answer)


def torn_read(operations, log):
    operations[1] = operations[1]._replace(answer=Progress(1, 0, 1))


def read_of_the_future(operations, log):
    operations[1] = operations[1]._replace(answer=Progress(3, 0, 2))


def order_against_real_time(operations, log):
    log[0], log[1], log[2] = (
        log[2]._replace(link=1, round=1),
        log[0]._replace(link=2, round=2),
        log[1]._replace(round=2),
    )


def known_before_it_was_sent(operations, log):
    operations[3] = operations[3]._replace(sent=20, answered=21)
    operations[5] = operations[5]._replace(answer="known")


def conflict_with_itself(operations, log):
    operations[5] = operations[5]._replace(answer="conflict")


def refused_and_done(operations, log):
    operations[2] = operations[2]._replace(answer=REFUSED)


def reward_from_nobody(operations, log):
    log.append(LogRow(99, "01-00000000", 1.0, 1))


def rounds_go_back(operations, log):
    log[2] = log[2]._replace(round=0)


WRONG = [
    lost_decision,
    lost_reward,
    doubled_reward,
    reward_twice_in_the_log,
    changed_reward,
    answer_that_changed,
    second_decision_for_a_key,
    half_a_request,
    stale_read,
    torn_read,
    read_of_the_future,
    order_against_real_time,
    known_before_it_was_sent,
    conflict_with_itself,
    refused_and_done,
    reward_from_nobody,
    rounds_go_back,
]


@pytest.mark.parametrize("spoil", WRONG)
def test_a_history_that_is_wrong_on_purpose_is_found(spoil):
    operations, log = sound()
    assert faults(operations, log) == []
    spoil(operations, log)
    assert faults(operations, log) != []


def test_an_outcome_that_is_not_known_is_once_or_never_and_at_any_later_time():
    one = Operation("reward", "d", 0.0, given=1.0)
    other = Operation("reward", "d", 5.0, 6.0, 0.0, "taken")
    again = Operation("reward", "d", 7.0, 8.0, 1.0, "conflict")
    assert is_explained([one, other, again])  # it never happened, or came too late
    assert is_explained([one, other._replace(answer="conflict"), again._replace(answer="known")])
    assert not is_explained([one, other._replace(answer="conflict"), again._replace(answer="conflict")])
    assert not is_explained([one._replace(sent=6.5), other._replace(answer="conflict")])  # it was not yet sent


def test_reports_at_the_same_time_may_have_come_in_any_order():
    first, second = (Operation("reward", "d", 0.0, 9.0, value, "taken") for value in VALUES)
    assert is_explained([first, second._replace(answer="conflict")])
    assert is_explained([first._replace(answer="conflict"), second])
    assert not is_explained([first, second])
    assert not is_explained([first._replace(answer="conflict"), second._replace(answer="conflict")])


def test_a_default_reward_that_was_taken_explains_a_conflict():
    made = Operation("decide", "a", 0.0, 0.5, ("north",), (("0-00000000", "north", "tea", 0.5),))
    late = Operation("reward", "0-00000000", 9.0, 9.5, 1.0, "conflict")
    log = [LogRow(1, "0-00000000", ("north", "tea", 0.5), 1)]
    default = LogRow(2, "0-00000000", 0.0, 1, True)
    assert faults([made, late], [*log, default]) == []
    assert faults([made, late], [*log, default._replace(defaulted=False)]) != []
    assert faults([made, late], log) != []
