"""Summaries that several threads make together, as on a GPU: the same bits, whichever thread is faster."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from test_effects import planted_tables

import posse
from by_name import nothing_known
from posse.attributes import Attributes, Coder
from posse.compile import Walk
from posse.policies import all_policies
from posse.policies.state import state_shapes
from posse.policies.statistics import BASIC
from posse.rewards import GRID
from test_likeness import random_tables

SHARED = [cls for cls in all_policies() if "lane" in cls.named_by("summary")]


class Lanes:
    """Threads that take turns from barrier to barrier, always in this order, so that each could be the fastest."""

    def __init__(self, order, dealt=None, barrier=None, patience=60):
        self.order, self.turns = order, {}
        self.next = dict(zip(order, order[1:] + order[:1], strict=True))
        self.errors, self.patience = [], patience
        dealt = dealt or self.dealt
        self.names = {"dealt": dealt, "dealt_to_teams": dealt, "barrier": barrier or self.barrier}

    def dealt(self, lane, count):
        return range(lane, count, len(self.order))

    def barrier(self, lane):
        self.turns[self.next[lane]].release()
        if not self.turns[lane].acquire(timeout=self.patience):
            raise TimeoutError("a thread waits at a barrier that another never comes to")

    def run(self, cls, tables):
        """Let all threads make one summary."""
        self.turns = {lane: threading.Semaphore(0) for lane in self.order}
        (summary,) = Walk([cls.summary], self.names).entries

        def work(lane):
            try:
                self.turns[lane].acquire()
                summary(*(lane if name == "lane" else tables[name] for name in cls.named_by("summary")))
            except Exception as error:
                self.errors.append(error)
            self.turns[self.next[lane]].release()

        threads = [threading.Thread(target=work, args=(lane,)) for lane in self.order]
        for thread in threads:
            thread.start()
        self.turns[self.order[0]].release()
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]


def tables_of(policy, n, s, q, coded):
    """All that a summary may take."""
    shapes = state_shapes(policy, BASIC, *n.shape, coded.columns.shape[1], coded.part_of.size)
    tables = {name: np.zeros(shape) for name, (_, shape) in shapes.items() if name.startswith(("of_", "work"))}
    counts = [n.T.astype(np.int64), *(np.rint(table.T * GRID).astype(np.int64) for table in (s, q))]
    constants = dict(zip(policy.constant_names(), policy.constants(), strict=True))
    return tables | dict(zip("nsq", counts, strict=True)) | coded._asdict() | constants | {"log_T": 13.0}


def made_by(lanes, policy, *problem):
    """What a summary fills, and the next one with twice the data."""
    filled = "of_arm", "of_player", "of_pair", "of_value"
    tables = tables_of(policy, *problem)
    lanes.run(type(policy), tables)
    first = [tables[name].copy() for name in filled]
    for name in "nsq":
        tables[name] *= 2
    lanes.run(type(policy), tables)
    return [*first, *(tables[name] for name in filled)]


def same(one, other):
    return all(map(np.array_equal, one, other))


ORDERS = [0, 1, 2], [4, 3, 2, 1, 0], [5, 1, 11, 0, 7, 3, 10, 2, 9, 4, 8, 6]


def with_attributes():
    kinds = {"region": "category", "age": [1, 2]}
    n, s, values = planted_tables(3, kinds, 9, 2, 60)
    return n, s, s, Coder(Attributes(kinds)).coded(values)


PROBLEMS = {
    "own": (*random_tables(2, "own", 7, 3, 200), nothing_known(7)),
    "groups": (*random_tables(2, "groups", 9, 2, 200), nothing_known(9)),
    "two players": (*random_tables(2, "odd", 2, 5, 200), nothing_known(2)),
    "attributes": with_attributes(),
}


@pytest.mark.parametrize("cls", SHARED, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_any_number_of_threads_makes_the_same_summary(cls, problem):
    policy = cls(0.3) if cls is posse.RobustPosseTS else cls()
    alone = made_by(Lanes([0]), policy, *problem)
    assert sum(map(np.count_nonzero, alone)) > 0
    for order in ORDERS:
        assert same(made_by(Lanes(order), policy, *problem), alone), order


def noticed(lanes):
    """Whether these threads give another result, or none."""
    alone = made_by(Lanes([0]), posse.PosseTS(), *PROBLEMS["own"])
    try:
        return not same(made_by(lanes, posse.PosseTS(), *PROBLEMS["own"]), alone)
    except (ArithmeticError, ValueError, RuntimeWarning):
        return True


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
def test_missing_barriers_are_noticed(order):
    """Negative control."""
    assert noticed(Lanes(order, barrier=lambda lane: None))


def test_work_that_is_done_twice_is_noticed():
    assert noticed(Lanes([0, 1, 2], dealt=lambda lane, count: range(count), patience=5))
