"""Storage that fails under a running service, and clocks that jump: refused or found, and nothing half-written."""

from __future__ import annotations

import contextlib
import math
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from random import Random

import httpx
import pytest
from cluster import cluster
from compared import differences, rows
from fleet import FULL, Fleet, fleet, needs_service, new_postgres_database, run_posse
from serving import new_experiment, problem_of, service
from traffic import ARMS, EXPERIMENT, PLAYERS, Memory, begin, client_of, decide, report

import posse
from posse.cli import main
from posse.service.admin.verify import verify
from posse.service.commands import Choose, Create, Observe
from posse.service.storage import queries
from posse.service.storage.errors import Damaged, OutcomeUnknown, Unavailable
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit
from stores import BACKENDS, Call, database

PATH = f"/v1/experiments/{EXPERIMENT}"


def work_until(client: httpx.Client, memory: Memory, status: int) -> httpx.Response:
    """Ask for decisions and remember them until one is answered like this; the answer."""
    for _ in range(10_000):
        answer = client.post(f"{PATH}/decisions", json={"players": PLAYERS})
        if answer.status_code == status:
            return answer
        if answer.status_code == 200:
            for each in answer.json()["decisions"]:
                memory.decisions[each["id"]] = each["player"], each["arm"], each["propensity"], each["round"]
        time.sleep(0.02 if status == 200 else 0)
    raise AssertionError(f"no {status} came")


def check_that_it_waits_and_goes_on(service: Fleet, database: str, mend) -> None:
    """The service says 503 while it cannot write, still reads, and goes on as soon as it can again."""
    memory = Memory()
    with httpx.Client(base_url=service.url, timeout=30) as client:
        refused = work_until(client, memory, 503)
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.headers["retry-after"] == "1"
        assert client.get("/readyz").status_code == 503
        assert client.get(PATH).json()["decisions"] == len(memory.decisions)  # it is read all the same
        mend()
        answer = work_until(client, memory, 200)
        for each in answer.json()["decisions"]:
            memory.decisions[each["id"]] = each["player"], each["arm"], each["propensity"], each["round"]
    with client_of(service.url, memory) as again:
        made = decide(again, memory, PLAYERS)
        time.sleep(1.1)
        assert httpx.get(f"{service.url}/readyz").status_code == 200
        report(again, memory, [(each.id, 1.0) for each in made])
    assert differences(database, [memory]) == []
    verified = run_posse("db", "verify", "--database", database)
    assert verified.returncode == 0, verified.stdout


@pytest.fixture
def small_disk():
    """A folder with a small file system of its own, where the system lets us mount one; gives also how to resize it."""
    place = Path(tempfile.mkdtemp(prefix="posse-disk-"))  # where PostgreSQL's user gets too

    def mount(*options: str) -> int:
        return subprocess.run(["mount", *options, str(place)], capture_output=True).returncode

    if mount("-t", "tmpfs", "-o", "size=2m", "posse"):
        place.rmdir()
        pytest.skip("needs the right to mount a file system")
    yield place, lambda option: mount("-o", f"remount,{option}")
    subprocess.run(["umount", "-l", str(place)], check=True)
    place.rmdir()


@needs_service
def test_a_full_disk_is_waited_out(tmp_path, small_disk):
    place, remount = small_disk
    database = f"sqlite:///{place}/posse.db"
    with fleet(database, tmp_path, workers=2) as service:
        begin(service.url)
        check_that_it_waits_and_goes_on(service, database, lambda: remount("size=64m"))


@needs_service
@pytest.mark.skipif(not FULL, reason="a minute: make test-service FULL=1")
def test_a_full_disk_under_postgresql_is_waited_out(tmp_path, small_disk):
    place, remount = small_disk
    remount("size=10m")  # an empty database takes most of it
    with (
        cluster() as server,
        new_postgres_database(server.url(), server.tablespace(place)) as database,
        fleet(database, tmp_path, workers=2) as service,
    ):
        begin(service.url)
        check_that_it_waits_and_goes_on(service, database, lambda: remount("size=64m"))


@needs_service
def test_a_full_folder_for_temporary_files_stops_nobody(tmp_path, small_disk, monkeypatch):
    """The counts of all workers are there; a worker that could not write them would be killed, again and again."""
    place, _ = small_disk
    monkeypatch.setenv("TMPDIR", str(place))
    with fleet(f"sqlite:///{tmp_path}/posse.db", tmp_path, workers=1) as service:
        workers = service.workers()
        with contextlib.suppress(OSError), (place / "full").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1024))
        with httpx.Client(base_url=service.url) as client:
            for path in client.get("/openapi.json").json()["paths"]:  # more counts than fit into one page of memory
                for method in ("GET", "POST", "PATCH", "DELETE"):
                    assert client.request(method, path).status_code < 503
        assert service.workers() == workers


@needs_service
def test_a_read_only_disk_is_refused_at_the_start_and_not_changed(small_disk):
    place, remount = small_disk
    path = place / "posse.db"
    store = ServiceStore(f"sqlite:///{path}", create=True)
    commit(store, Create(EXPERIMENT, posse.PosseTS(), ARMS, PLAYERS))
    store.close()
    before = path.read_bytes()
    assert remount("ro") == 0
    refused = run_posse("serve", "--port", "0", "--database", f"sqlite:///{path}")
    assert refused.returncode == 1
    assert "readonly" in refused.stderr or "unable to open" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_database_that_is_deleted_or_replaced_takes_nothing(tmp_path, how):
    """SQLite itself goes on with the file that it has open, and all that it acknowledges is lost."""
    path, moved = tmp_path / "posse.db", tmp_path / "moved.db"
    with service(tmp_path) as client:
        experiment = new_experiment(client)
        key = {"Idempotency-Key": "one"}
        made = client.post(f"{experiment}/decisions", json={"player": "Lyon"}, headers=key).json()
        shutil.copy(path, tmp_path / "copy.db")
        path.rename(moved)
        if how == "replaced":
            (tmp_path / "copy.db").rename(path)
        for method, target, body in [
            ("POST", f"{experiment}/decisions", {"player": "Lyon"}),
            ("POST", f"{experiment}/rewards", {"decision": made["decisions"][0]["id"], "reward": 1}),
            ("GET", experiment, None),
            ("GET", "/readyz", None),
        ]:
            assert problem_of(client.request(method, target, json=body), 503) == "unavailable"
        moved.rename(path)
        again = client.post(f"{experiment}/decisions", json={"player": "Lyon"}, headers=key)
        assert again.json() == made
        assert client.get(experiment).json()["decisions"] == 1


def test_what_is_written_while_the_database_is_deleted_is_not_acknowledged(tmp_path):
    store = ServiceStore(f"sqlite:///{tmp_path}/posse.db", create=True)
    with pytest.raises(OutcomeUnknown, match="may be lost: the database's file is gone"):
        commit(store, Call(lambda _: (tmp_path / "posse.db").unlink()))
    store.close()


def test_a_backup_for_which_there_is_no_room_leaves_no_file(sound, capsys):
    """The largest file that this process may write stands for a full disk."""
    copy, limits = sound.with_name("copy.db"), resource.getrlimit(resource.RLIMIT_FSIZE)
    command = ["db", "backup", str(copy), "--database", f"sqlite:///{sound}"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, limits[1]))
    try:
        assert main(command) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert capsys.readouterr().err.startswith(f"posse: error: no backup was made to {copy}: ")
    assert [path.name for path in sound.parent.iterdir()] == ["posse.db"]
    assert main(command) == 0
    assert contents(copy) == contents(sound)


def test_an_empty_file_is_no_database_and_stays_empty(tmp_path, capsys):
    path = tmp_path / "copy.db"
    path.touch()
    assert main(["db", "verify", "--database", f"sqlite:///{path}"]) == 2
    assert "copy.db is empty" in capsys.readouterr().err
    assert path.stat().st_size == 0


# ---------------------------------------------------------------- damage


DAMAGES = 2000 if FULL else 100


@pytest.fixture
def sound(tmp_path):
    """A database file with something in it, closed."""
    path = tmp_path / "posse.db"
    store = ServiceStore(f"sqlite:///{path}", create=True)
    commit(store, Create(EXPERIMENT, posse.PosseTS(), ARMS, PLAYERS, seed=1))
    for number in range(20):
        made = commit(store, Choose(EXPERIMENT, PLAYERS, key=f"key {number}"))
        commit(store, Observe(EXPERIMENT, [(each.id, 0.5) for each in made[::2]]))
    store.close()
    return path


def contents(path: Path) -> dict[str, list[tuple]]:
    names = [name for (name,) in rows(f"sqlite:///{path}", "SELECT name FROM sqlite_master WHERE type = 'table'")]
    # Names of tables are the same to SQLite in small and capital letters, one bit apart.
    return {name.lower(): rows(f"sqlite:///{path}", f"SELECT * FROM {name}") for name in names}


def noticed(path: Path) -> bool:
    """Whether opening or verifying a file says that something is wrong; no other error may come of it."""
    with contextlib.ExitStack() as stack:
        try:
            store = ServiceStore(f"sqlite:///{path}")
            stack.callback(store.close)
            return bool(verify(store))
        except (Damaged, Unavailable, ValueError):
            return True


@needs_service
@pytest.mark.parametrize("kind", ["flipped", "truncated", "zeroed"])
def test_damage_that_is_not_noticed_has_changed_nothing(sound, kind):
    """Whatever `verify` does not find left every row of every table as it was."""
    random, whole, expected = Random(7), sound.read_bytes(), contents(sound)
    assert not noticed(sound)
    found = 0
    for _ in range(DAMAGES):
        place = random.randrange(len(whole))
        if kind == "flipped":
            damaged = whole[:place] + bytes([whole[place] ^ (1 << random.randrange(8))]) + whole[place + 1 :]
        elif kind == "zeroed":
            damaged = whole[:place] + bytes(min(512, len(whole) - place)) + whole[place + 512 :]
        else:
            damaged = whole[:place]
        sound.write_bytes(damaged)
        if noticed(sound):
            found += 1
        else:
            assert contents(sound) == expected, (kind, place)
    print(f"{kind}: {found} of {DAMAGES} noticed, the others harmless")
    assert found > DAMAGES / 5


@needs_service
def test_a_log_cut_off_by_a_torn_write_ahead_file_is_whole_up_to_there(tmp_path):
    """What SQLite has not yet moved into the database lies in the file beside it; torn, it ends earlier, consistently.

    That is the limit: a disk that loses what it promised to have written loses it, but leaves nothing half-written.
    """
    path, copy = tmp_path / "posse.db", tmp_path / "copy.db"
    store = ServiceStore(f"sqlite:///{path}", create=True)
    commit(store, Create(EXPERIMENT, posse.PosseTS(), ARMS, PLAYERS, seed=1))
    for _ in range(40):
        commit(store, Choose(EXPERIMENT, PLAYERS))
    torn = Path(f"{path}-wal").read_bytes()
    assert len(torn) > 100_000
    random, ends = Random(3), set()
    for _ in range(DAMAGES // 10):
        shutil.copy(path, copy)
        Path(f"{copy}-wal").write_bytes(torn[: random.randrange(len(torn) // 4, len(torn))])
        Path(f"{copy}-shm").unlink(missing_ok=True)
        other = ServiceStore(f"sqlite:///{copy}")
        assert verify(other) == []
        ends.add(other.read(queries.experiment, EXPERIMENT).decisions)
        other.close()
    assert len(ends) > 2
    assert all(end % len(PLAYERS) == 0 for end in ends)
    store.close()


# ---------------------------------------------------------------- clocks


class Unsteady:
    """A clock that jumps by up to a year, ahead and back."""

    def __init__(self, seed: int) -> None:
        self._random, self._now = Random(seed), 1.7e9

    def __call__(self) -> float:
        self._now += self._random.choice([0.01, 0.01, 1.0, 3600.0, -3600.0, 3.2e7, -3.2e7])
        return self._now


@pytest.mark.parametrize("backend", BACKENDS)
def test_clocks_that_jump_and_disagree_do_no_harm(backend, tmp_path):
    """Two workers whose clocks have nothing to do with each other; times in the log never go back."""
    random = Random(11)
    with database(backend, tmp_path) as url:
        workers = [ServiceStore(url, create=True, clock=Unsteady(1)), ServiceStore(url, clock=Unsteady(2))]
        commit(
            workers[0],
            Create(EXPERIMENT, posse.PosseTS(), ARMS, PLAYERS, seed=1, default_reward=0.0, patience=86_400.0),
        )
        answers = {"taken": 0, "known": 0, "conflict": 0}
        for _ in range(150):
            made = commit(random.choice(workers), Choose(EXPERIMENT, random.sample(PLAYERS, 3)))
            for outcome in commit(random.choice(workers), Observe(EXPERIMENT, [(each.id, 1.0) for each in made])):
                answers[outcome.status] += 1
        assert answers["taken"] > 0
        assert answers["conflict"] > 0  # the clock jumped, and the default was taken
        found = workers[0].read(queries.experiment, EXPERIMENT)
        assert found.decisions == 450
        assert found.rewards + found.waiting == 450
        times = [
            row["observed_at" if row["kind"] == "reward" else "decided_at"]
            for row in workers[0].read(queries.log, EXPERIMENT)
        ]
        assert times == sorted(times)
        assert verify(workers[0]) == []
        for worker in workers:
            worker.close()


@pytest.mark.parametrize("now", [math.nan, math.inf, -math.inf])
def test_a_clock_that_says_no_time_is_refused(tmp_path, now):
    store = ServiceStore(f"sqlite:///{tmp_path}/posse.db", create=True)
    commit(store, Create(EXPERIMENT, posse.PosseTS(), ARMS, PLAYERS))
    store.clock = lambda: now
    with pytest.raises(ValueError, match="the clock says"):
        commit(store, Choose(EXPERIMENT, [PLAYERS[0]]))
    store.clock = time.time
    assert store.read(queries.experiment, EXPERIMENT).decisions == 0
    assert verify(store) == []
    store.close()
