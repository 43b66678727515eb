"""Simulations on an NVIDIA GPU: all problems and replications of a policy in one launch, policies side by side."""

from __future__ import annotations

import functools
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError, device_memset

from posse.compile import as_on_the_cpu, bind_cuda
from posse.policies.base import Policy
from posse.rewards import GRID
from posse.schedule import CONCURRENT, Participation
from posse.simulation import cuda_kernel, kernel
from posse.simulation.cuda_kernel import Clock, Problems, Runs
from posse.simulation.engine import bindings, state_shapes
from posse.simulation.result import last_quarter
from posse.simulation.work import Measurements, Tracker, Work
from posse.streams import key as run_key

WARP = 32  # threads that run in step; a run with up to so many players has one warp
WARPS = 4  # warps of a block, each with a run of its own
BLOCK = 256  # threads of a block where a run has it to itself
PIECE_SECONDS = 0.1  # how long a launch is to take, so that Ctrl-C is heard
MEMORY_SHARE = 0.8  # of what is free
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY

Launches = list[tuple[Any, Any]]


def run_on_gpu(work: Work, into: Measurements, tracker: Tracker) -> Launches:
    """Do the work; return the events before and after each launch, by which a benchmark tells the time."""
    shared = Shared.of(work)
    todo = deque(_portions(work))
    at_work: deque[Batch] = deque()
    launches: Launches = []
    while todo or at_work:
        if todo and _start(work, shared, todo, at_work):
            continue
        batch = at_work.popleft()
        tracker.add(batch.wait())
        if batch.round < work.horizon:
            batch.launch()
            at_work.append(batch)
        else:
            batch.collect(into)
            launches += batch.launches
        tracker.show()
    return launches


@dataclass(frozen=True)
class Portion:
    """Some runs of one policy: numbers `start` … `stop` − 1 of its [problem, replication] pairs."""

    policy: int
    start: int
    stop: int

    def halves(self) -> tuple[Portion, Portion]:
        """The same in two."""
        middle = (self.start + self.stop) // 2
        return Portion(self.policy, self.start, middle), Portion(self.policy, middle, self.stop)


def _portions(work: Work) -> list[Portion]:
    """All runs of each policy, or as many as fit into a part of the free memory."""
    free = cuda.current_context().get_memory_info().free * MEMORY_SHARE
    _, problems, replications = work.shape
    portions = []
    for number, policy in enumerate(work.policies):
        fit = free / (len(work.policies) * _bytes_of_run(work, policy))
        size = int(max(1, min(problems * replications, fit)))
        starts = range(0, problems * replications, size)
        portions += [Portion(number, start, min(start + size, problems * replications)) for start in starts]
    return portions


def _start(work: Work, shared: Shared, todo: deque[Portion], at_work: deque[Batch]) -> bool:
    """Start the next portion if there is memory for it; what does not fit alone is halved."""
    portion = todo.popleft()
    try:
        batch = Batch(work, shared, portion)
    except MemoryError:
        if at_work:
            todo.appendleft(portion)
            return False
        if portion.stop - portion.start == 1:
            raise
        todo.extendleft(reversed(portion.halves()))
        return True
    batch.launch()
    at_work.append(batch)
    return True


@dataclass(frozen=True)
class Shared:
    """What all runs of a call read, on the GPU."""

    problems: Problems
    participation: Participation
    checkpoints: Any

    @classmethod
    def of(cls, work: Work) -> Shared:
        """Copied there."""
        problems = work.problems
        participation = work.schedule.participation(problems[0].players, work.horizon)
        return cls(
            Problems(
                _to_gpu(np.array([problem.means.T for problem in problems])),
                _to_gpu(np.array([problem.gaps.T for problem in problems])),
                _to_gpu(np.array([problem.rewards.code for problem in problems])),
                _to_gpu(np.array([problem.rewards.parameter for problem in problems])),
            ),
            Participation(participation.kind, *(_to_gpu(table) for table in participation[1:])),
            _to_gpu(work.checkpoints),
        )


def _to_gpu(array: np.ndarray) -> Any:
    """The array on the GPU; an empty one, which is never read, as a single number."""
    return cuda.to_device(np.ascontiguousarray(array) if array.size else np.zeros((1,) * array.ndim, array.dtype))


class Batch:
    """The runs of a portion, on their way through the rounds."""

    def __init__(self, work: Work, shared: Shared, portion: Portion) -> None:
        self.work, self.shared, self.portion = work, shared, portion
        self.policy = work.policies[portion.policy]
        self.runs = portion.stop - portion.start
        self.players, self.arms = work.problems[0].means.shape
        self.lanes = group_size(self.players)
        everybody = shared.participation.kind == CONCURRENT
        self.play = play_kernel(self.policy, self.lanes <= WARP, EVERYBODY=everybody, ANYTIME=work.anytime)
        self.stream = cuda.stream()
        arrays = _allocate(self.runs, _shapes(work, self.policy), self.stream)
        self.states = kernel.State(**{name: arrays[name] for name in kernel.State._fields})
        numbers = np.arange(portion.start, portion.stop)
        problems, replications = np.divmod(numbers, len(work.replications))
        keys = [
            run_key(work.seed, work.problems[problem].stream, work.replications[replication])
            for problem, replication in zip(problems, replications, strict=True)
        ]
        own = {name: arrays[name] for name in ("early", "regret", "player_regret")}
        self.of_runs = Runs(_to_gpu(problems), _to_gpu(np.array(keys, np.int64)), **own)
        self.round = self.before = 0
        self.piece = max(1, 100_000 // (self.players * self.arms))
        self.launches: Launches = []

    def launch(self) -> None:
        """Start the next rounds."""
        work, last = self.work, min(self.round + self.piece, self.work.horizon)
        number = int(np.searchsorted(work.checkpoints, self.round + 1))
        early, log_horizon = last_quarter(work.horizon), math.log(work.horizon)
        clock = Clock(self.round + 1, last, early, log_horizon, self.shared.checkpoints, number)
        runs_a_block = WARPS if self.lanes <= WARP and not numba.config.ENABLE_CUDASIM else 1
        grid = -(-self.runs // runs_a_block)
        constants = (0.0, *self.policy.constants())  # at least one number: a kernel takes no empty tuple
        events = cuda.event(), cuda.event()
        self.started = time.perf_counter()
        with as_on_the_cpu():
            events[0].record(self.stream)
            self.play[grid, (self.lanes, runs_a_block), self.stream](
                self.states, self.of_runs, self.shared.problems, self.shared.participation, clock, constants
            )
            events[1].record(self.stream)
        self.launches.append(events)
        self.before, self.round = self.round, last

    def wait(self) -> int:
        """Wait for the rounds that were started; return how many they were, over all runs."""
        self.stream.synchronize()
        seconds = time.perf_counter() - self.started
        rounds = self.round - self.before
        self.piece = max(1, min(16 * rounds, int(rounds * PIECE_SECONDS / max(seconds, 1e-4))))
        return rounds * self.runs

    def collect(self, into: Measurements) -> None:
        """Copy what was measured to where it belongs."""
        _, problems, replications = self.work.shape
        where = slice(self.portion.start, self.portion.stop)

        def table(of: np.ndarray) -> np.ndarray:
            return of[self.portion.policy].reshape(problems * replications, *of.shape[3:])[where]

        pulls = self.states.pulls.copy_to_host(stream=self.stream)
        early = self.of_runs.early.copy_to_host(stream=self.stream)
        sums = self.states.all_sums.copy_to_host(stream=self.stream)
        regret = self.of_runs.regret.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        table(into.pulls)[:] = pulls.transpose(0, 2, 1)
        table(into.late_pulls)[:] = (pulls - early).transpose(0, 2, 1)
        table(into.reward)[:] = sums.sum(axis=1) / GRID
        table(into.regret)[:] = regret


def group_size(players: int) -> int:
    """How many threads a run has: a warp, or a block for more players."""
    if numba.config.ENABLE_CUDASIM:
        return min(players, 4)  # threads of Python: few, but enough to get into each other's way
    return WARP if players <= WARP else min(-(-players // WARP) * WARP, BLOCK)


def play_kernel(policy: Policy, in_a_warp: bool, **more: bool) -> Any:
    """The kernel of a policy's class, compiled when it is first launched or taken from the disk cache."""
    names = bindings(policy) | more
    return _play_kernel(tuple(names), tuple(names.values()), in_a_warp)


@functools.cache
def _play_kernel(names: tuple[str, ...], values: tuple[Any, ...], in_a_warp: bool) -> Any:
    barrier: Callable[[], None] = cuda_kernel.wait_for_warp if in_a_warp else cuda_kernel.wait_for_block
    if numba.config.ENABLE_CUDASIM:
        barrier = _simulated_barrier
    return bind_cuda(cuda_kernel.play, kernel, barrier=barrier, **dict(zip(names, values, strict=True)))


def _simulated_barrier() -> None:
    threading.current_thread().syncthreads()  # type: ignore[attr-defined]


def _shapes(work: Work, policy: Policy) -> dict[str, tuple[type, tuple[int, ...]]]:
    """The arrays of one run: those of its state, laid out for the GPU, and what is measured."""
    players, arms = work.problems[0].means.shape
    shapes = dict(state_shapes(policy, players, arms))
    for name in ("center", "scale"):
        shapes[name] = (np.float64, (arms, players))
    for name in ("active", "halves", "work", "words"):  # scratch of the CPU
        shapes[name] = (np.int64, (0,) * len(shapes[name][1]))
    shapes["early"] = shapes["pulls"]
    shapes["player_regret"] = (np.float64, (players,))
    shapes["regret"] = (np.float64, (len(work.checkpoints),))
    return {name: (dtype, shape if 0 not in shape else (1,) * len(shape)) for name, (dtype, shape) in shapes.items()}


def _bytes_of_run(work: Work, policy: Policy) -> int:
    return 8 * sum(math.prod(shape) for _, shape in _shapes(work, policy).values())


def _allocate(runs: int, shapes: dict[str, tuple[type, tuple[int, ...]]], stream: Any) -> dict[str, Any]:
    """Arrays on the GPU with the run as first axis, all zero, in one piece of memory."""
    sizes = [runs * math.prod(shape) for _, shape in shapes.values()]
    starts = np.cumsum([0, *(-(-size // 16) * 16 for size in sizes)]).tolist()
    try:
        memory = cuda.device_array(starts[-1], np.int64)
    except CudaAPIError as error:
        if getattr(error, "code", OUT_OF_MEMORY) != OUT_OF_MEMORY:
            raise
        raise MemoryError(f"{8 * starts[-1]:,} bytes for {runs} runs, but the GPU does not have them free") from error
    device_memset(memory, 0, 8 * starts[-1], stream)
    return {
        name: memory[start : start + size].view(dtype).reshape(runs, *shape)
        for (name, (dtype, shape)), start, size in zip(shapes.items(), starts, sizes, strict=False)
    }
