"""Faults under clients that get in each other's way: every answer fits into one order of events, which is the log.

The network to PostgreSQL is cut, PostgreSQL dies and its standby takes over, the disk fills up, the clock is wrong by a
month, workers are killed. The full form has more of each.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from pathlib import Path

import psycopg
import pytest
import test_disk
from cluster import Cluster, _free_port, cluster
from compared import rows
from cut_network import network_to
from fire_clients import check, recorded
from fleet import FULL, fleet, needs_service
from traffic import begin

pytestmark = needs_service

COUNTED = "SELECT sum(links) FROM experiments"
BACK = 30.0  # seconds after a fault is mended in which requests are answered again
WORK = 200 if FULL else 40  # rows of the log between faults


def let_them_work(database: str) -> None:
    """Wait until so many rows more are written."""
    wanted, until = rows(database, COUNTED)[0][0] + WORK, time.monotonic() + 120
    while rows(database, COUNTED)[0][0] < wanted:
        assert time.monotonic() < until, f"{WORK} rows took more than two minutes"
        time.sleep(0.05)


def wait_until_it_goes_on(database: str) -> float:
    """Wait until more rows are written; how many seconds that took."""
    began, before = time.monotonic(), rows(database, COUNTED)
    while rows(database, COUNTED) == before:
        assert time.monotonic() < began + BACK, f"nothing is written {BACK:g} s after the fault was mended"
        time.sleep(0.05)
    return time.monotonic() - began


# ---------------------------------------------------------------- PostgreSQL: the network, and a standby


class Standby(Cluster):
    """A copy of a cluster that follows it. Once it does, the first acknowledges only what both have on the disk."""

    def __init__(self, folder: Path, primary: Cluster) -> None:
        self._programs, self._owner, self._password = primary._programs, primary._owner, primary._password
        self._folder, self._port, self._server = folder, _free_port(), None
        if self._owner:
            shutil.chown(folder, self._owner)
        copy = [self._programs / "pg_basebackup", "-D", folder / "data", "-R", "-c", "fast", "-d", primary.url()]
        subprocess.run(copy, check=True, user=self._owner, cwd=folder)
        self.start()
        with psycopg.connect(primary.url(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            while connection.execute("SELECT sync_state FROM pg_stat_replication").fetchall() != [("sync",)]:
                time.sleep(0.05)

    def promote(self) -> None:
        """Take over."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            assert connection.execute("SELECT pg_promote()").fetchone() == (True,)


@pytest.mark.skipif(not FULL, reason="two clusters, minutes: make test-service FULL=1")
def test_a_network_that_fails_and_a_standby_that_takes_over_lose_nothing(tmp_path):
    """A network that stops keeps its lines open and tells nobody; what was sent into it arrives late."""
    with cluster() as primary:
        with psycopg.connect(primary.url(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE posse")
        with (
            cluster(lambda folder: Standby(folder, primary)) as standby,
            network_to(primary.url("posse")) as (network, through),
            fleet(through, tmp_path, workers=2) as service,
        ):
            begin(service.url)
            database = primary.url("posse")
            with recorded(service.url) as finish:
                for number, fault in enumerate(["stop", "break", "stop", "break", "stop", "standby"]):
                    let_them_work(database)
                    if fault == "stop":
                        network.stop()
                        time.sleep(1.0 + 6 * number)
                    else:
                        network.cut()
                    if fault == "standby":
                        primary.kill()
                        network.target = "127.0.0.1", standby._port
                        standby.promote()
                        database = standby.url("posse")
                    network.resume()
                    print(f"{fault}: back {wait_until_it_goes_on(database):.1f} s after it was mended")
                let_them_work(database)
                record = finish()
            assert record.unknown() > 0
            print(check(database, record))


# ---------------------------------------------------------------- SQLite: the disk, the clock, the workers


small_disk = test_disk.small_disk
WRONG_CLOCK = """
import time
from pathlib import Path
import posse
from posse.service.storage.store import ServiceStore

begin = ServiceStore.__init__

def begin_with_wrong_clock(self, *args, **kwargs):
    begin(self, *args, **kwargs)
    wrong = lambda: time.time() + float(Path({offset!r}).read_text() or 0)
    if hasattr(self.clock, "_wall"):
        self.clock._wall = wrong
    else:
        self.clock = wrong

ServiceStore.__init__ = begin_with_wrong_clock

class Needless(posse.PosseTS):  # a file that is imported has to define a policy
    name = "Needless"
"""
MONTH = 30 * 86_400


@pytest.fixture
def disk(request, tmp_path):
    """A small disk and how to resize it, or where none can be mounted a folder."""
    try:
        return request.getfixturevalue("small_disk")
    except pytest.skip.Exception:
        return tmp_path, None


def test_a_full_disk_a_wrong_clock_and_killed_workers_lose_nothing(tmp_path, disk):
    """While the machine's clock is a month off, no decision of today gets its default reward, and times are right."""
    place, remount = disk
    database, offset, wrong = f"sqlite:///{place}/posse.db", tmp_path / "offset", tmp_path / "wrong.py"
    began = time.time()
    offset.write_text("0")
    wrong.write_text(WRONG_CLOCK.format(offset=str(offset)))
    with fleet(database, tmp_path, 2, "--import", str(wrong)) as service:
        begin(service.url, default_reward=0.5, patience=86_400.0)
        with recorded(service.url) as finish:
            for number in range(12 if FULL else 1):
                let_them_work(database)
                offset.write_text(str(-MONTH if number % 3 == 2 else MONTH))
                let_them_work(database)
                for worker in service.workers()[:1]:
                    service.kill(worker)
                let_them_work(database)
                offset.write_text("0")
                if remount is not None:
                    fill(place)
                    time.sleep(1)
                    (place / "filler").unlink()
                    remount(f"size={4 + 2 * number}m")
                wait_until_it_goes_on(database)
            record = finish()
        assert record.unknown() > 0
        print(check(database, record))
    assert "clock" in service.log.read_text()
    assert rows(database, "SELECT count(*) FROM rewards WHERE defaulted = 1") == [(0,)]
    times = [at for (at,) in rows(database, "SELECT decided_at FROM decisions ORDER BY link")]
    assert times == sorted(times)
    assert began < times[0] < times[-1] < time.time()


def fill(place: Path) -> None:
    """Leave no room on a disk."""
    with (place / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(1024))
