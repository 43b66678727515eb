"""Run a spec: the units that the store does not have, on threads, processes or a cluster."""

import contextlib
import dataclasses
import datetime
import importlib
import itertools
import json
import os
import pickle
import platform
import queue
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from posse.checks import whole
from posse.experiments.records import Records
from posse.experiments.runs.remaining import Remaining, Task
from posse.experiments.runs.store import ResultStore, file_content
from posse.experiments.spec.study import Spec, Unit, unit_id
from posse.extras import extra
from posse.policies.base import Policy
from posse.policies.statistics import STEPS
from posse.policies.user import import_file, imported_files
from posse.problem import Problem
from posse.simulation import simulate
from posse.simulation.backend import check_backend
from posse.simulation.progress import Progress, reporter
from posse.simulation.result import MEASURED
from posse.version import __version__

TOGETHER = 4e9  # player-rounds that a GPU simulates together: a few seconds, so that little is lost at an interrupt
AHEAD = 10_000  # units that are submitted and not done: enough for any cluster, and little for a scheduler
Finished = Generator[tuple[Unit, bytes], None, None]  # units with the content of their files
Batch = list[tuple[Unit, list[Problem]]]


class RunError(RuntimeError):
    """A unit of work failed; the message says which one."""


def run(
    spec: Spec,
    out: str | Path,
    *,
    executor: Executor | None = None,
    on: str = "local",
    threads: int | None = None,
    progress: Progress = None,
    backend: str = "cpu",
) -> Records:
    """Run a spec into a folder and return all of its results.

    Runs that the folder has results of, computed by the same code, are not simulated again. So an interrupted or killed
    run goes on where it stopped, and a spec that was changed goes on with what the change leaves valid. The results are
    the same, bit for bit, wherever and in whatever order units run.

    Args:
        spec: what to run, from `load` or `parse`.
        out: the folder for the results.
        executor: where to run: any `concurrent.futures.Executor`, of processes for example. It is not shut down.
        on: "local", or the address of a Dask scheduler such as "tcp://10.0.0.1:8786".
        threads: how many units run at a time when run locally; as many as there are cores if omitted.
        progress: True to say on standard error what is computed, why and how far it is, or a function that is called
            with the fraction done.
        backend: "cpu", "cuda" for this machine's GPU, or "auto" for a GPU where there is one: see `simulate`.
    """
    if not isinstance(spec, Spec):
        raise TypeError(f"spec={spec!r}, but expected a Spec; `posse.experiments.load` reads one from a file")
    if on != "local" and "://" not in on:
        raise ValueError(
            f'on={on!r}, but expected "local" or a Dask scheduler\'s address such as "tcp://10.0.0.1:8786"'
        )
    if (executor is not None) + (on != "local") + (threads is not None) > 1:
        raise ValueError("executor, on and threads each say where to run; give one of them")
    on_gpu = check_backend(backend) == "cuda"
    if on_gpu and (executor is not None or on != "local"):
        raise ValueError(f"backend={backend!r} is this machine's GPU, so it goes with neither executor nor on")
    workers = (os.cpu_count() or 1) if threads is None else whole("threads", threads, least=1)
    store = ResultStore(out)
    units = spec.units()
    with store.lock():
        remaining = Remaining(store, units)
        remaining.make_room()
        if progress is True and str(remaining):
            print(remaining, file=sys.stderr)
        tasks = [task for task in remaining.tasks if task.parts]
        versions = {name: metadata.version(name) for name in ("numpy", "numba", "arro3-io")}
        manifest = {
            "title": spec.title,
            "seed": str(spec.seed),
            "versions": {"posse": __version__, "python": platform.python_version(), **versions},
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "units": [unit.id for unit in units],
            "spec": spec.text,
            "files": dict(spec.files),
            "imports": _imported_by(units),
            "runs": remaining.manifest.get("runs", []),
        }
        if tasks:
            place = "GPU" if on_gpu else on if executor is None else type(executor).__name__
            this = {"started": _now(), "on": place, "units": len(tasks), "finished": None, "seconds": None}
            manifest["runs"].append(this)
        told = ("spec", "units", "files", "imports")
        if tasks or any(remaining.manifest.get(name, {}) != manifest[name] for name in told):
            store.write_manifest(manifest)
        for task in remaining.tasks:
            if not task.parts:
                store.write(task.unit, task.content())
        if tasks:
            started = time.monotonic()
            alike: dict[str, tuple[Unit, list[Task]]] = {}  # two studies may have parts in common
            for task in tasks:
                for part in task.parts:
                    alike.setdefault(_work(part), (part, []))[1].append(task)
            once = [part for part, _ in alike.values()]
            if not on_gpu and on == "local":
                _compile(_policies(once))  # before the progress begins, which tells the time left from the time spent
            shown = RunProgress((part for part, same in alike.values() for _ in same), progress)
            if on_gpu:
                finished = _run_on_gpu(once, shown)
            elif executor is not None:
                finished = _run_on_executor(executor, once, shown)
            else:
                finished = _run_local(once, workers, shown) if on == "local" else _run_on_dask(on, once, shown)
            with contextlib.closing(finished):
                for unit, content in finished:
                    for task in alike[_work(unit)][1]:
                        if task.unit.id == unit.id:
                            store.write(unit, content)
                        elif task.add(unit, content):
                            store.write(task.unit, task.content())
                        shown.note_done(unit)
                    shown.show()
            shown.show(complete=True)
            this |= {"finished": _now(), "seconds": round(time.monotonic() - started, 3)}
            store.write_manifest(manifest)
    return store.read(spec)


def _imported_by(units: Iterable[Unit]) -> dict[str, str]:
    """The users' files that policies of these units are from, as texts, by name."""
    classes = {type(policy) for unit in units for policy in unit.policies}
    modules = {base.__module__ for cls in classes for base in cls.__mro__}
    return {file.name: file.read_text(encoding="utf-8") for file in imported_files() if file.stem in modules}


def _work(unit: Unit) -> str:
    """What a unit computes, whatever its study is called."""
    return json.dumps(unit.describe() | {"study": None}, sort_keys=True)


class RunProgress:
    """How much of what this run simulates is done, including parts of units, so that a bar can tell the time left.

    `progress` is that of `posse.experiments.run`.
    """

    def __init__(self, todo: Iterable[Unit], progress: Progress) -> None:
        self.total = sum(unit.cost for unit in todo)
        self.done = 0.0
        self.parts: dict[str, float] = {}  # of units at work
        self.report = reporter(progress)

    def note(self, unit: Unit, fraction: float) -> None:
        """Note how much of a unit is done."""
        self.parts[unit.id] = unit.cost * fraction

    def note_done(self, unit: Unit) -> None:
        """Note that a unit is done."""
        self.parts.pop(unit.id, None)
        self.done += unit.cost

    def show(self, complete: bool = False) -> None:
        """Show how much of all is done."""
        if self.report is not None:
            done = self.done + sum(list(self.parts.values()))
            self.report(1.0 if complete else min(done / self.total, 0.999))


class Stopped(Exception):
    """Raised in units at work when the run is over, so that they stop."""


def _run_on_executor(executor: Executor, todo: list[Unit], progress: RunProgress) -> Finished:
    """On any executor, whose processes may have to import users' policies before they unpickle a unit."""
    files = imported_files()
    return _run_all(todo, lambda unit: executor.submit(_run_pickled, files, pickle.dumps(unit)), progress)


def _run_pickled(files: list[Path], pickled: bytes) -> bytes:
    for file in files:
        import_file(file)
    return _run_unit(pickle.loads(pickled))


def _run_unit(unit: Unit) -> bytes:
    """Run a unit in another process; the content of its file. Its id, by the code that sent it, comes with it."""
    if unit_id(unit.describe()) != unit.id:
        raise RunError(f"{platform.node()} has posse {__version__} with other code; install the same everywhere")
    return file_content(unit, unit.run())


def _run_local(todo: list[Unit], workers: int, progress: RunProgress) -> Finished:
    """On threads of this process; an interrupt stops units that are at work too."""
    stopped = False

    def work(unit: Unit) -> bytes:
        def watch(fraction: float) -> None:
            if stopped:
                raise Stopped
            progress.note(unit, fraction)

        return file_content(unit, unit.run(threads=1, progress=watch))

    with ThreadPoolExecutor(workers) as pool:
        try:
            yield from _run_all(todo, lambda unit: pool.submit(work, unit), progress)
        finally:
            stopped = True


def _run_on_dask(address: str, todo: list[Unit], progress: RunProgress) -> Finished:
    """On a Dask cluster whose workers have compiled the policies."""
    with extra("cluster", f"on={address!r}"):
        distributed = importlib.import_module("distributed")
    with distributed.Client(address, set_as_default=False, timeout="10s") as client:
        for file in imported_files():
            client.upload_file(str(file))
        client.run(_compile, _policies(todo))
        with client.get_executor(pure=False, retries=3) as pool:
            yield from _run_all(todo, lambda unit: pool.submit(_run_unit, unit), progress)


def _run_all(todo: list[Unit], submit: Callable[[Unit], Future[bytes]], progress: RunProgress) -> Finished:
    """Run every unit, a bounded number of them ahead; each with its results as it is done."""
    waiting: dict[Future[bytes], Unit] = {}
    ended: queue.SimpleQueue[Future[bytes]] = queue.SimpleQueue()
    left = iter(todo)
    try:
        while True:
            for unit in itertools.islice(left, AHEAD - len(waiting)):
                future = submit(unit)
                waiting[future] = unit
                future.add_done_callback(ended.put)
            if not waiting:
                return
            for future in _taken(ended):
                unit = waiting.pop(future)
                if error := future.exception():
                    raise RunError(f"{unit} failed: {type(error).__name__}: {error}") from error
                yield unit, future.result()
            progress.show()
    finally:
        for future in waiting:
            future.cancel()


def _taken(ended: queue.SimpleQueue[Future[bytes]]) -> list[Future[bytes]]:
    """What has ended by now, or is the first to end within a moment; failures after the rest."""
    taken = []
    with contextlib.suppress(queue.Empty):
        taken.append(ended.get(timeout=0.2))
        while True:
            taken.append(ended.get_nowait())
    return sorted(taken, key=lambda future: future.exception() is not None)


def _policies(units: Iterable[Unit]) -> list[Policy]:
    """One policy for each kernel of the units: of a class, with and without what changes over time."""
    found = {}
    for unit in units:
        for policy in unit.policies:
            timed = unit.timed or policy.forget is not None
            found[type(policy), timed] = dataclasses.replace(policy, forget=STEPS if timed else None)
    return list(found.values())


def _compile(policies: Iterable[Policy]) -> None:
    """Compile the policies, and keep the kernels on disk for other processes."""
    for policy in policies:
        simulate(Problem([[0.5, 0.5]]), policy, 1, threads=1)


def _run_on_gpu(todo: list[Unit], progress: RunProgress) -> Finished:
    """On a GPU: many units at a time, because a unit alone would leave most of it idle."""
    for batch in _batches(todo):

        def watch(fraction: float, batch: Batch = batch) -> None:
            for unit, _ in batch:
                progress.note(unit, fraction)
            progress.show()

        unit, _ = batch[0]
        together = [problem for _, problems in batch for problem in problems]
        result = unit.simulate(together, progress=watch, backend="cuda")
        start = 0
        for unit, problems in batch:
            part = slice(start, start + len(problems))
            values = {name: getattr(result, name)[:, part] for name in MEASURED}
            mine = dataclasses.replace(result, problems=result.problems[part], **values)
            yield unit, file_content(unit, unit.records(mine))
            start = part.stop


def _batches(todo: list[Unit]) -> Iterator[Batch]:
    """Batches of units that differ only in their problems."""
    by_setting: dict[object, list[Unit]] = {}
    for unit in todo:
        shape = unit.problems.players, unit.problems.arms
        setting = unit.policies, unit.horizon, unit.schedule, unit.replications, unit.checkpoints, unit.anytime
        by_setting.setdefault((unit.study, shape, setting, unit.seed, unit.feedback), []).append(unit)
    for alike in by_setting.values():
        batch: Batch = []
        met: set[Problem] = set()
        for unit in alike:
            problems = unit.problems.make(unit.seed)
            full = sum(other.cost for other, _ in batch) + unit.cost > TOGETHER
            if batch and (full or met.intersection(problems)):
                yield batch
                batch, met = [], set()
            batch.append((unit, problems))
            met.update(problems)
        yield batch


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
