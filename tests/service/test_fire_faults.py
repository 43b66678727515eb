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
from random import Random

import psycopg
import test_disk
from cluster import Cluster, _free_port, cluster
from compared import rows
from cut_network import proxy
from fire_clients import check, recorded
from fleet import FULL, fleet, needs_service, new_postgres_database
from traffic import begin

pytestmark = needs_service

BACK = 15.0  # seconds after a fault is mended in which requests are answered again
WORK = 3.0 if FULL else 1.0  # seconds of work between faults


def wait_until_it_goes_on(database: str) -> float:
    """Wait until more rows are written; how many seconds that took."""
    began, counted = time.monotonic(), "SELECT sum(links) FROM experiments"
    before = rows(database, counted)
    while rows(database, counted) == before:
        assert time.monotonic() < began + BACK, f"nothing is written {BACK:g} s after the fault was mended"
        time.sleep(0.05)
    return time.monotonic() - began


# ---------------------------------------------------------------- the network


def test_a_network_that_is_cut_loses_nothing(tmp_path):
    """Lines that are cut stay open and carry nothing, so that nobody is told; new ones work once it is mended."""
    with new_postgres_database() as database, proxy(database) as way, fleet(way.url, tmp_path, workers=2) as service:
        begin(service.url)
        with recorded(service.url) as finish:
            for seconds in (2.0, 8.0, 30.0) if FULL else (2.0,):
                time.sleep(WORK)
                way.cut()
                time.sleep(seconds)
                way.mend()
                print(f"cut for {seconds:g} s, back {wait_until_it_goes_on(database):.1f} s after it was mended")
            time.sleep(WORK)
            record = finish()
        assert record.unknown() > 0
        print(f"network cut: {check(database, record)}")


# ---------------------------------------------------------------- a standby that takes over


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


def test_a_standby_takes_over_with_all_that_was_acknowledged(tmp_path):

    with cluster() as primary:
        with psycopg.connect(primary.url(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE posse")
        with (
            cluster(lambda folder: Standby(folder, primary)) as standby,
            proxy(primary.url("posse")) as way,
            fleet(way.url, tmp_path, workers=2) as service,
        ):
            begin(service.url)
            with recorded(service.url) as finish:
                time.sleep(WORK)
                primary.kill()
                way.point(standby.url("posse"))
                standby.promote()
                seconds = wait_until_it_goes_on(standby.url("posse"))
                time.sleep(WORK)
                record = finish()
            assert record.unknown() > 0
            print(
                f"failover: back {seconds:.1f} s after the standby was promoted; {check(standby.url('posse'), record)}"
            )


# ---------------------------------------------------------------- the disk, the clock, the workers


small_disk = test_disk.small_disk


def test_a_disk_that_fills_up_loses_nothing(tmp_path, small_disk):
    place, remount = small_disk
    database = f"sqlite:///{place}/posse.db"
    with fleet(database, tmp_path, workers=2) as service:
        begin(service.url)
        with recorded(service.url) as finish:
            for size in (4, 6, 8, 10, 64) if FULL else (64,):
                _fill(place)
                time.sleep(1)
                (place / "filler").unlink()
                remount(f"size={size}m")
                wait_until_it_goes_on(database)
            record = finish()
    assert record.unknown() > 0
    print(f"disk full: {check(database, record)}")


def _fill(place: Path) -> None:
    """Leave no room on a disk."""
    with (place / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))


WRONG_CLOCK = """
import time
from pathlib import Path
from posse.service.storage.store import ServiceStore

begin = ServiceStore.__init__

def begin_with_wrong_clock(self, *args, **kwargs):
    begin(self, *args, **kwargs)
    self.clock = lambda: time.time() + float(Path({offset!r}).read_text() or 0)

ServiceStore.__init__ = begin_with_wrong_clock
"""
MONTH = 30 * 86_400


def test_a_clock_that_is_wrong_by_a_month_loses_nothing(tmp_path):
    """It goes ahead by a month under load, and comes back; a decision that has got its default reward says so."""
    database, offset, wrong = f"sqlite:///{tmp_path}/posse.db", tmp_path / "offset", tmp_path / "wrong.py"
    offset.write_text("0")
    wrong.write_text(WRONG_CLOCK.format(offset=str(offset)))
    with fleet(database, tmp_path, 2, "--import", str(wrong)) as service:
        begin(service.url, default_reward=0.5, patience=86_400.0)
        with recorded(service.url) as finish:
            for seconds in (0, MONTH, 0, -MONTH, 0) if FULL else (0, MONTH, 0):
                offset.write_text(str(seconds))
                time.sleep(WORK)
            record = finish()
    print(f"clock: {check(database, record)}")
    times = rows(database, "SELECT decided_at FROM decisions ORDER BY link")
    assert times == sorted(times)


def test_killed_workers_leave_one_history(tmp_path):
    database, random = f"sqlite:///{tmp_path}/posse.db", Random(3)
    with fleet(database, tmp_path, workers=2) as service:
        begin(service.url)
        with recorded(service.url) as finish:
            for _ in range(60 if FULL else 4):
                time.sleep(random.uniform(0.0, 0.5))
                for worker in service.workers()[:1]:
                    service.kill(worker)
            time.sleep(WORK)
            record = finish()
    assert record.unknown() > 0
    print(f"workers killed: {check(database, record)}")
