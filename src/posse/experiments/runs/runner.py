"""Run a spec: the units that the store does not have, on threads, processes or a cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import importlib
import json
import os
import pickle
import platform
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from importlib import metadata
from pathlib import Path

import pyarrow as pa

from posse.checks import whole
from posse.experiments.records import Records, from_result
from posse.experiments.runs.store import ResultStore
from posse.experiments.spec.study import Spec, Unit
from posse.policies.base import Policy
from posse.policies.statistics import STEPS
from posse.policies.user import import_file, imported_files
from posse.problem import Problem
from posse.simulation import simulate
from posse.simulation.backend import check_backend
from posse.simulation.progress import Bar
from posse.simulation.work import Progress
from posse.version import __version__

TOGETHER = 4e9  # player-rounds that a GPU simulates together: a few seconds, so that little is lost at an interrupt
Finished = Generator[tuple[Unit, pa.Table], None, None]
MEASURED = ("regret", "pulls", "late_pulls", "reward", "player_regret")  # of a result, by policy and problem
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

    Units that the folder has results of, computed by the same code, are not computed again. So an interrupted or killed
    run goes on where it stopped. The results are the same, bit for bit, wherever and in whatever order units run.

    Args:
        spec: what to run, from `load` or `parse`.
        out: the folder for the results.
        executor: where to run: any `concurrent.futures.Executor`, of processes for example. It is not shut down.
        on: "local", or the address of a Dask scheduler such as "tcp://10.0.0.1:8786".
        threads: how many units run at a time when run locally; as many as there are cores if omitted.
        progress: True for a bar on standard error, or a function that is called with the fraction done.
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
        store.check(units)
        todo = [unit for unit in units if not store.path(unit).exists()]
        before = store.manifest()
        versions = {name: metadata.version(name) for name in ("numpy", "numba", "pyarrow")}
        manifest = {
            "title": spec.title,
            "seed": str(spec.seed),
            "versions": {"posse": __version__, "python": platform.python_version(), **versions},
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "units": [unit.id for unit in units],
            "spec": spec.text,
            "runs": before.get("runs", []),
        }
        if todo:
            place = "GPU" if on_gpu else on if executor is None else type(executor).__name__
            this = {"started": _now(), "on": place, "units": len(todo), "finished": None, "seconds": None}
            manifest["runs"].append(this)
        if todo or any(before.get(name) != manifest[name] for name in ("spec", "units")):
            store.write_manifest(manifest)
        if todo:
            started = time.monotonic()
            shown = RunProgress(units, todo, progress)
            alike = _by_work(todo)
            once = [same[0] for same in alike.values()]
            if on_gpu:
                finished = _run_on_gpu(once, shown)
            elif executor is not None:
                finished = _run_on_executor(executor, once, shown)
            else:
                finished = _run_local(once, workers, shown) if on == "local" else _run_on_dask(on, once, shown)
            with contextlib.closing(finished):
                for unit, table in finished:
                    for same in alike[_work(unit)]:
                        names = pa.array([same.study] * len(table))
                        store.write(same, table.set_column(0, "study", names))
                        shown.note(same)
                    shown.show()
            shown.show(complete=True)
            this |= {"finished": _now(), "seconds": round(time.monotonic() - started, 3)}
            store.write_manifest(manifest)
    return store.read(spec)


def _by_work(units: Iterable[Unit]) -> dict[str, list[Unit]]:
    """The units by what they simulate: two studies may have problems, policies and horizon in common."""
    found: dict[str, list[Unit]] = {}
    for unit in units:
        found.setdefault(_work(unit), []).append(unit)
    return found


def _work(unit: Unit) -> str:
    return json.dumps(unit.describe() | {"study": None}, sort_keys=True)


class RunProgress:
    """How much of the work is done, including parts of units; `progress` is that of `posse.experiments.run`."""

    def __init__(self, units: Iterable[Unit], todo: Iterable[Unit], progress: Progress) -> None:
        self.done = {unit.id: unit.cost for unit in units}
        self.total = sum(self.done.values())
        self.done |= {unit.id: 0.0 for unit in todo}
        self.report = Bar() if progress is True else progress or None

    def note(self, unit: Unit, fraction: float = 1.0) -> None:
        """Note how much of a unit is done."""
        self.done[unit.id] = unit.cost * fraction

    def show(self, complete: bool = False) -> None:
        """Show how much of all is done."""
        if self.report is not None:
            self.report(1.0 if complete else min(sum(self.done.values()) / self.total, 0.999))


class Stopped(Exception):
    """Raised in units at work when the run is over, so that they stop."""


def _run_on_executor(executor: Executor, todo: list[Unit], progress: RunProgress) -> Finished:
    """On any executor, whose processes may have to import users' policies first."""
    _compile(_policies(todo))
    files = imported_files()
    if files:
        return _run_all(todo, lambda unit: executor.submit(_run_pickled, files, pickle.dumps(unit)), progress)
    return _run_all(todo, lambda unit: executor.submit(unit.run), progress)


def _run_pickled(files: list[Path], pickled: bytes) -> pa.Table:
    """Run a unit after the import of the files, whose classes unpickling needs."""
    for file in files:
        import_file(file)
    unit: Unit = pickle.loads(pickled)
    return unit.run()


def _run_local(todo: list[Unit], workers: int, progress: RunProgress) -> Finished:
    """On threads of this process; an interrupt stops units that are at work too."""
    stopped = False

    def work(unit: Unit) -> pa.Table:
        def watch(fraction: float) -> None:
            if stopped:
                raise Stopped
            progress.note(unit, fraction)

        return unit.run(threads=1, progress=watch)

    _compile(_policies(todo))
    with ThreadPoolExecutor(workers) as pool:
        try:
            yield from _run_all(todo, lambda unit: pool.submit(work, unit), progress)
        finally:
            stopped = True


def _run_on_dask(address: str, todo: list[Unit], progress: RunProgress) -> Finished:
    """On a Dask cluster whose workers have compiled the policies."""
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise ImportError(f"on={address!r} needs Dask: pip install distributed") from None
    with distributed.Client(address, set_as_default=False, timeout="10s") as client:
        for file in imported_files():
            client.upload_file(str(file))
        versions: dict[str, str] = client.run(_compile, _policies(todo))
        for worker, version in versions.items():
            if version != __version__:
                raise RunError(f"worker {worker} has posse {version}, but here is {__version__}; install the same")
        with client.get_executor(pure=False, retries=3) as pool:
            yield from _run_all(todo, lambda unit: pool.submit(unit.run), progress)


def _run_all(todo: list[Unit], submit: Callable[[Unit], Future[pa.Table]], progress: RunProgress) -> Finished:
    """Start every unit; each with its results as it is done."""
    waiting: dict[Future[pa.Table], Unit] = {}
    try:
        for unit in todo:
            waiting[submit(unit)] = unit
        while waiting:
            done, _ = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=lambda future: future.exception() is not None):  # failures after the rest
                unit = waiting.pop(future)
                if error := future.exception():
                    raise RunError(f"{unit} failed: {type(error).__name__}: {error}") from error
                yield unit, future.result()
            progress.show()
    finally:
        for future in waiting:
            future.cancel()


def _policies(units: Iterable[Unit]) -> list[Policy]:
    """One policy for each kernel of the units: of a class, with and without what changes over time."""
    found = {}
    for unit in units:
        for policy in unit.policies:
            timed = unit.timed or policy.forget is not None
            found[type(policy), timed] = dataclasses.replace(policy, forget=STEPS if timed else None)
    return list(found.values())


def _compile(policies: Iterable[Policy]) -> str:
    """Compile the policies, and keep the kernels on disk for other processes; return posse's version."""
    for policy in policies:
        simulate(Problem([[0.5, 0.5]]), policy, 1, threads=1)
    return __version__


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
            yield unit, from_result(mine, unit.study, unit.problems.numbers)
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
