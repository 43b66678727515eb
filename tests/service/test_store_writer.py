"""The writer: what waits shares a transaction, and each request has its own answer."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from types import SimpleNamespace

import pytest

from posse.service.admin.verify import verify
from posse.service.commands import Change, Choose, Observe, Record
from posse.service.storage import queries
from posse.service.storage.errors import ConflictingKey, Overloaded, Unavailable, UnknownExperiment
from posse.service.writer import Writer
from stores import BACKENDS, SHOPS, Call, counts, new, stores, submit


@pytest.fixture(params=BACKENDS)
def store(request, tmp_path):
    with stores(request.param, tmp_path) as (store,):
        new(store)
        yield store
        assert verify(store) == []


class Gate:
    """Keeps a writer busy until it is opened."""

    def __init__(self, writer):
        self.entered, self.open = threading.Event(), threading.Event()
        self.future = submit(writer, Call(self.wait))
        self.entered.wait(10)

    def wait(self, transaction):
        self.entered.set()
        self.open.wait(10)


def counted(observe):
    """Metrics that give the size of each group to a function."""
    return SimpleNamespace(group=SimpleNamespace(observe=observe), depth=SimpleNamespace(set=lambda waiting: None))


def test_what_waits_shares_a_transaction_and_is_served_in_order(store):
    sizes = []
    writer = Writer(store, metrics=counted(sizes.append))
    gate = Gate(writer)
    futures = [submit(writer, Choose("teas", [SHOPS[k % 3]], key=f"k{k}")) for k in range(20)]
    assert len(writer._waiting) == 20
    gate.open.set()
    made = [future.result()[0] for future in futures]
    assert [int(one.id.split("-")[0]) for one in made] == list(range(20))
    rewards = [submit(writer, Observe("teas", [(one.id, 1.0)])) for one in made]
    assert [future.result()[0].status for future in rewards] == ["taken"] * 20
    writer.close()
    assert sizes[:2] == [1, 20]
    assert sum(sizes) == 41
    assert counts(store, "teas").pulls.sum() == 20


def test_a_refused_request_leaves_no_trace_among_the_others(store):
    writer = Writer(store)
    gate = Gate(writer)
    good = [submit(writer, Choose("teas", ["north"], key="a"))]
    bad = [
        (submit(writer, Choose("teas", ["nobody"])), ValueError),
        (submit(writer, Choose("beers", ["north"])), UnknownExperiment),
        (submit(writer, Choose("teas", ["south"], key="a")), ConflictingKey),
        (submit(writer, Change("teas", join=["west", "north"])), ValueError),
        (submit(writer, Record("teas", [("north", "tea", 2.0)])), ValueError),
    ]
    good += [submit(writer, Choose("teas", ["north"], key="a")), submit(writer, Choose("teas", ["north"]))]
    gate.open.set()
    assert good[0].result() == good[1].result()
    for future, error in bad:
        with pytest.raises(error):
            future.result()
    writer.close()
    seen = store.read(queries.experiment, "teas")
    assert (seen.decisions, seen.rounds, len(seen.players)) == (2, 2, 3)


def test_a_fault_of_one_request_does_not_hit_the_others(store):
    writer = Writer(store)
    gate = Gate(writer)

    def faulty(transaction):
        Choose("teas", ["north"]).apply(transaction)
        raise RuntimeError("a fault of ours")

    commands = (Choose("teas", ["north"]), Call(faulty), Choose("teas", ["south"]))
    before, bad, after = (submit(writer, command) for command in commands)
    gate.open.set()
    assert before.result()[0].player == "north"
    assert after.result()[0].player == "south"
    with pytest.raises(RuntimeError, match="a fault of ours"):
        bad.result()
    writer.close()
    assert store.read(queries.experiment, "teas").decisions == 2


def test_a_commit_that_fails_is_unavailable_to_the_whole_group(store):
    writer = Writer(store)
    gate = Gate(writer)
    futures = [submit(writer, Choose("teas", ["north"], key=f"k{k}")) for k in range(5)]
    commit = store.engine.dialect.do_commit

    def fail(connection):
        connection.rollback()
        raise store.engine.dialect.dbapi.OperationalError("disk I/O error")

    gate.open.set()
    gate.future.result()
    store.engine.dialect.do_commit = fail
    failed = 0
    for future in futures:
        try:
            future.result()
        except Unavailable:
            failed += 1
    store.engine.dialect.do_commit = commit
    assert store.read(queries.experiment, "teas").decisions == 5 - failed
    again = [submit(writer, Choose("teas", ["north"], key=f"k{k}")).result() for k in range(5)]
    assert len({one[0].id for one in again}) == 5
    assert store.read(queries.experiment, "teas").decisions == 5
    writer.close()


def test_it_finishes_what_it_accepted_and_takes_nothing_more(store):
    writer = Writer(store)
    gate = Gate(writer)
    futures = [submit(writer, Choose("teas", ["north"])) for _ in range(10)]
    closing = threading.Thread(target=writer.close)
    closing.start()
    gate.open.set()
    closing.join()
    assert all(future.done() for future in futures)
    assert store.read(queries.experiment, "teas").decisions == 10
    with pytest.raises(Unavailable, match="stopping"):
        submit(writer, Choose("teas", ["north"]))
    writer.close()


def test_more_than_may_wait_is_refused(store):
    writer = Writer(store, waiting=3)
    gate = Gate(writer)
    futures = [submit(writer, Choose("teas", ["north"])) for _ in range(3)]
    with pytest.raises(Overloaded, match="3 requests wait already"):
        submit(writer, Choose("teas", ["north"]))
    gate.open.set()
    assert [future.result() for future in futures]
    submit(writer, Choose("teas", ["north"])).result()
    writer.close()


def test_a_caller_that_goes_away_cancels_nothing(store):
    writer = Writer(store)
    gate = Gate(writer)
    future = submit(writer, Choose("teas", ["north"]))
    assert future.cancel()
    gate.open.set()
    writer.close()
    assert store.read(queries.experiment, "teas").decisions == 1
    with pytest.raises(CancelledError):
        future.result()


def test_an_observer_with_a_fault_stops_nothing(store, caplog):
    writer = Writer(store, metrics=counted(lambda size: 1 / 0))
    for _ in range(3):
        submit(writer, Choose("teas", ["north"])).result()
    writer.close()
    assert "not a request's" in caplog.text


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_writers_on_several_experiments_do_not_get_in_each_others_way(backend, tmp_path):
    names = ["teas", "beers", "wines"]
    with stores(backend, tmp_path, 2) as opened:
        for name in names:
            new(opened[0], name=name)
        writers = [Writer(store) for store in opened]

        def work(store, writer, order):
            for step in range(15):
                made = [submit(writer, Choose(name, [SHOPS[step % 3]])) for name in order]
                told = [
                    submit(writer, Observe(name, [(future.result()[0].id, 1.0)]))
                    for name, future in zip(order, made, strict=True)
                ]
                assert all(future.result()[0].status == "taken" for future in told)

        threads = [
            threading.Thread(target=work, args=(store, writer, order))
            for store, writer in zip(opened, writers, strict=True)
            for order in (names, names[::-1])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for writer in writers:
            writer.close()
        assert [counts(opened[0], name).pulls.sum() for name in names] == [60, 60, 60]
        assert verify(opened[1]) == []
