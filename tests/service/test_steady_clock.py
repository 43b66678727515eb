"""Clocks that are set while the service runs or is away: time goes on, and defaults come when they are due."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

import pytest

from posse.service.admin.verify import verify
from posse.service.api.app import create_app
from posse.service.commands import Choose, TakeDefaults
from posse.service.process.supervisor import prepare
from posse.service.settings import Settings
from posse.service.steady_clock import SLEW, STEP, SteadyClock, offset_now
from posse.service.storage import queries
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit
from posse.text import moment
from stores import BACKENDS, database, new

MONTH = 30 * 86_400.0
PATIENCE = 60.0


class Machine:
    """A machine whose clock can be set; seconds pass all the same."""

    def __init__(self) -> None:
        self.passed, self.off = 500.0, 0.0

    @property
    def wall(self) -> float:
        return 1.7e9 + self.passed + self.off

    def clock(self, offset: float | None = None) -> SteadyClock:
        """The clock of a process that starts now."""
        return SteadyClock(offset, lambda: self.wall, lambda: self.passed)


class Service:
    """A store with an experiment in which decisions wait for a minute, and what was seen of it."""

    def __init__(self, url: str, machine: Machine) -> None:
        self.url, self.machine = url, machine
        self.store = ServiceStore(url, create=True, clock=machine.clock())
        self.made: dict[str, float] = {}  # seconds that had passed at each decision

    def restart(self) -> None:
        self.store.close()
        self.store = ServiceStore(self.url, clock=self.machine.clock())

    def choose(self) -> None:
        (decision,) = commit(self.store, Choose("teas", ["north"]))
        self.made[decision.id] = self.machine.passed

    def go_on(self, seconds: float) -> None:
        """Let seconds pass, one after another, as the sweep of a service does."""
        for _ in range(round(seconds)):
            self.machine.passed += 1
            commit(self.store, TakeDefaults("teas"))
            self.check()

    def check(self) -> None:
        """A decision has the default if and only if it has waited for a minute, give or take a second."""
        rows = [row for row in self.store.read(queries.log, "teas") if row["kind"] == "reward"]
        taken = [row["decision"] for row in rows]
        assert len(taken) == len(set(taken))
        for decision, at in self.made.items():
            waited = self.machine.passed - at
            assert (decision in taken) == (waited >= PATIENCE) or abs(waited - PATIENCE) <= 1, (decision, waited)


@pytest.fixture(params=BACKENDS)
def service(request, tmp_path):
    with database(request.param, tmp_path) as url:
        made = Service(url, Machine())
        new(made.store, default_reward=0.0, patience=PATIENCE)
        yield made
        made.go_on(PATIENCE + 2)
        found = made.store.read(queries.experiment, "teas")
        assert (found.decisions, found.rewards, found.waiting) == (len(made.made), len(made.made), 0)
        times = [row.get("observed_at", row.get("decided_at")) for row in made.store.read(queries.log, "teas")]
        assert times == sorted(times)
        assert verify(made.store) == []
        made.store.close()


@pytest.mark.parametrize("step", [MONTH, -MONTH, 2 * STEP, STEP / 2, -STEP / 2])
def test_a_clock_that_is_set_and_set_back(service, step):
    service.choose()
    service.go_on(10)
    for off in (step, 0.0):
        service.machine.off = off
        service.check()
        service.choose()
        service.go_on(20)
    before = service.store.clock()
    service.go_on(5)
    assert service.store.clock() - before == pytest.approx(5, rel=1.1 * SLEW)


@pytest.mark.parametrize("step", [MONTH, -MONTH])
def test_a_service_that_restarts_while_the_clock_is_wrong_and_again_when_it_is_right(service, step):
    """The log tells how late it was when something happened last; time goes on from there."""
    if step < 0:  # ahead, what waits from before is overdue by the only clock there is
        service.choose()
    service.machine.off = step
    service.restart()
    service.choose()
    service.go_on(10)
    service.machine.off = 0.0
    for _ in range(2):
        service.go_on(10)
        service.choose()
        service.restart()
        service.go_on(25)


def test_a_worker_whose_clock_is_ahead_beside_one_whose_clock_is_right(service):
    service.machine.off = MONTH
    ahead = ServiceStore(service.url, clock=service.machine.clock())
    service.machine.off = 0.0
    right = service.store
    for store in (ahead, right, ahead, right):
        service.store = store
        service.choose()
        service.store = right  # it takes the defaults
        service.go_on(15)
    ahead.close()


def test_a_step_is_told_once_and_small_differences_are_made_up_for(caplog):
    machine = Machine()
    clock = machine.clock()
    with caplog.at_level(logging.WARNING, "posse.service"):
        for off in (MONTH, 0.0):
            machine.off = off
            for _ in range(100):
                machine.passed += 1
                assert clock() == pytest.approx(machine.wall - off, abs=1e-3)
    assert [record.getMessage()[:30] for record in caplog.records] == [
        "the machine's clock was set by",
        "the machine's clock is right a",
    ]
    assert "+2592000 s" in caplog.text
    assert "restart the service" in caplog.text
    for off in (STEP - 1, -1.0):
        machine.off, last = off, clock()
        for _ in range(900):
            machine.passed += 1
            assert last < clock()
            last = clock()
        assert last == pytest.approx(machine.wall, abs=1e-3)


@pytest.mark.parametrize("behind", [0.0, MONTH])
def test_a_clock_behind_the_log_is_told_at_the_start(tmp_path, caplog, behind):
    store = ServiceStore(f"sqlite:///{tmp_path}/posse.db", create=True)
    new(store)
    store.close()
    prepare(Settings(f"sqlite:///{tmp_path}/posse.db", clock_offset=offset_now() - behind), "127.0.0.1")
    told = [record.getMessage() for record in caplog.records if "the log ends at" in record.getMessage()]
    assert len(told) == (behind > 0)
    assert all(f"says {moment(time.time() - MONTH)[:10]}" in each for each in told)


def test_a_worker_that_is_started_later_goes_on_from_the_same_time(tmp_path):
    settings = Settings(f"sqlite:///{tmp_path}/posse.db", clock_offset=offset_now() - MONTH)
    ServiceStore(settings.database, create=True).close()
    app = create_app(replace(settings, defaults_seconds=None))  # as the supervisor makes settings for a worker
    assert app.state.store.clock() == pytest.approx(time.time() - MONTH, abs=5)
    app.state.writer.close()
    app.state.read_pool.close()
    app.state.store.close()
    assert Settings().clock_offset == pytest.approx(offset_now(), abs=5)
