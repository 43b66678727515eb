"""Simulations on an NVIDIA GPU: all problems and replications of a policy in one launch, policies side by side."""

from __future__ import annotations

import functools
import math
import time
from collections import deque
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError, device_memset

from posse.attributes import Coded
from posse.compile import bind_cuda, launching
from posse.compile.cuda import REGISTERS
from posse.policies.base import Law, Policy
from posse.policies.bindings import FLAT_CELL, bindings, class_of, used_statistics
from posse.policies.refresh import Refresh
from posse.policies.state import State, state_shapes
from posse.policies.statistics import COUNT, SUM
from posse.rewards import GRID
from posse.schedule import CONCURRENT, Participation
from posse.simulation import cuda_kernel
from posse.simulation.cuda_count import MOST_COUNTED
from posse.simulation.cuda_device import device_functions, team_functions
from posse.simulation.cuda_pick import PADDING
from posse.simulation.cuda_tables import (
    TUPLES,
    GpuClock,
    GpuProblems,
    RunTables,
    by_arm,
    by_segment,
    dealt_to_lane,
    of_run,
    pair_of,
)
from posse.simulation.engine import Shapes, check_scale, wrong_index
from posse.simulation.result import last_quarter
from posse.simulation.work import Measurements, Tracker, Work
from posse.streams import key as run_key

WARP = 32  # threads that run in step; a run with up to so many players has one warp
WARPS = 4  # warps of a block, each with a run of its own
MANY_RUNS = 8  # for each multiprocessor: beyond it, throughput counts more than how soon a round ends
SMALL_BLOCK = 128  # threads of a block for a run with few players
BLOCK = 256  # and with many
LARGE_BLOCK = 768  # and with more, where all threads share the work on a summary
LARGE_BLOCK_REGISTERS = 80  # of each of its threads, so that a multiprocessor of 65,536 registers holds it
SHARED_BYTES = 32768  # of shared memory that a block's counters may take
FIRST_PIECE = 100_000  # pairs of players and arms that the first launch has, over its rounds
PIECE_SECONDS = 0.1  # how long a launch is to take, so that Ctrl-C is heard
MEMORY_SHARE = 0.8  # of what is free
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY

Launches = list[tuple[Any, Any]]
Portion = tuple[int, range]  # some runs of one policy: its number, and those of their [problem, replication] pairs


def run_on_gpu(work: Work, into: Measurements, tracker: Tracker) -> Launches:
    """Do the work; return the events before and after each launch, by which a benchmark tells the time."""
    together = work.feedback.within(work.horizon)[1] * work.problems[0].players
    if together > MOST_COUNTED:
        raise ValueError(f"batches of {together} rewards, but a GPU adds up at most {MOST_COUNTED}; use the CPU")
    shared = _shared(work)
    todo = deque(_portions(work))
    at_work: deque[Batch] = deque()
    launches: Launches = []
    while todo or at_work:
        if todo and _start(work, shared, todo, at_work):
            continue
        batch = at_work.popleft()
        batch.launch()
        tracker.add(batch.wait())
        if batch.round < work.horizon:
            at_work.append(batch)
        else:
            batch.collect(into)
            launches += batch.launches
        tracker.show()
    return launches


def _portions(work: Work) -> list[Portion]:
    """All runs of each policy, or as many as fit into a part of the free memory."""
    free = cuda.current_context().get_memory_info().free * MEMORY_SHARE
    runs = range(math.prod(work.shape[1:]))
    portions: list[Portion] = []
    for number, policy in enumerate(work.policies):
        size = int(max(1, min(len(runs), free / (len(work.policies) * _bytes_of_run(work, policy)))))
        portions += [(number, runs[start : start + size]) for start in runs[::size]]
    return portions


def _start(work: Work, shared: Shared, todo: deque[Portion], at_work: deque[Batch]) -> bool:
    """Start the next portion if there is memory for it; what does not fit alone is halved."""
    policy, runs = portion = todo.popleft()
    try:
        batch = Batch(work, shared, portion)
    except MemoryError:
        if at_work:
            todo.appendleft(portion)
            return False
        if len(runs) == 1:
            raise
        half = len(runs) // 2
        todo.extendleft([(policy, runs[half:]), (policy, runs[:half])])
        return True
    batch.launch()
    at_work.append(batch)
    return True


class Shared(NamedTuple):
    """What all runs of a call read, on the GPU."""

    problems: GpuProblems
    participation: Participation
    checkpoints: Any


def _shared(work: Work) -> Shared:
    """What all runs read, copied there."""
    problems = work.problems
    starts, means, gaps = map(_to_gpu, by_segment(problems))
    kind, *tables = work.schedule.participation(problems[0].players, work.horizon)
    return Shared(
        GpuProblems(
            starts,
            means,
            gaps,
            _to_gpu(np.array([problem.rewards.code for problem in problems])),
            _to_gpu(np.array([problem.rewards.parameter for problem in problems])),
        ),
        Participation(kind, *map(_to_gpu, tables)),
        _to_gpu(work.checkpoints),
    )


def _attributes(work: Work) -> Coded:
    """The attributes of each problem's players, with the problem as first axis.

    A part too many has no weight, and a column too many is of no part.
    """
    coded = [problem.coded() for problem in work.problems]
    most = max(each.columns.shape[1] for each in coded)
    more = [most - each.columns.shape[1] for each in coded]
    wide = max(each.part_of.size + missing for each, missing in zip(coded, more, strict=True))
    columns = np.tile(np.arange(most), (len(coded), len(coded[0].columns), 1))
    weights, part_of = np.zeros(columns.shape), np.full((len(coded), wide), -1)
    for number, (each, missing) in enumerate(zip(coded, more, strict=True)):
        parts = most - missing
        columns[number, :, :parts] = each.columns + missing * (each.columns >= parts)
        weights[number, :, :parts] = each.weights
        part_of[number, :parts] = each.part_of[:parts]
        part_of[number, most : each.part_of.size + missing] = each.part_of[parts:]
    return Coded(columns, weights, part_of)


def _to_gpu(array: np.ndarray) -> Any:
    """The array on the GPU; an empty one, which is never read, as a single number."""
    return cuda.to_device(np.ascontiguousarray(array) if array.size else np.zeros((1,) * array.ndim, array.dtype))


class Batch:
    """The runs of a portion, on their way through the rounds, with up to two pieces of them under way."""

    def __init__(self, work: Work, shared: Shared, portion: Portion) -> None:
        self.work, self.shared, self.portion = work, shared, portion
        number, runs = portion
        self.policy = work.policies[number]
        self.runs = len(runs)
        self.players, self.arms = work.problems[0].means.shape
        self.layout = Layout.of(self.players, self.arms, self.runs, self.policy)
        everybody = shared.participation.kind == CONCURRENT
        self.timed = work.timed(self.policy)
        self.play = play_kernel(self.policy, self.layout, everybody, work.anytime, self.timed)
        self.stream = cuda.stream()
        arrays = _allocate(self.runs, _shapes(work, self.policy), self.stream)
        problems, replications = np.divmod(runs, len(work.replications))
        keys = [
            run_key(work.seed, work.problems[problem].stream, work.replications[replication])
            for problem, replication in zip(problems, replications, strict=True)
        ]
        arrays |= {"key": _to_gpu(np.array(keys, np.int64)), "problem": _to_gpu(problems.reshape(-1, 1))}
        arrays = {"indexed": arrays["statistics"]} | arrays
        arrays["summarised"] = tuple(map(self._by_arm, arrays["statistics"]))
        arrays["expecting"] = tuple(map(self._by_arm, arrays["of_pair"]))
        coded = _attributes(work)
        if self.policy.of_value and coded.columns.size:
            arrays |= {name: _to_gpu(table[problems]) for name, table in coded._asdict().items()}
        self.tables = RunTables(**{name: arrays[name] for name in RunTables._fields})
        self.state: Any = State(**{name: arrays[name] for name in State._fields})
        self.piece = max(1, FIRST_PIECE // (self.players * self.arms))
        self.launched = self.round = 0
        self.under_way: deque[tuple[int, Any]] = deque()
        self.clock = 0.0
        self.launches: Launches = []

    def _by_arm(self, pairs: Any) -> Any:
        """A flat table as [run, arm, player]."""
        return pairs.reshape(self.runs, self.arms, self.players)

    def launch(self) -> None:
        """Start the next rounds, if any are left and no two pieces are under way."""
        work, first = self.work, self.launched + 1
        if first > work.horizon or len(self.under_way) == 2:
            return
        last = min(self.launched + self.piece, work.horizon)
        number = int(np.searchsorted(work.checkpoints, first))
        early, log_horizon = last_quarter(work.horizon), math.log(work.told_horizon)
        over_time = self.policy.forget or 0, *work.feedback.within(work.horizon)
        clock = GpuClock(first, last, early, log_horizon, self.shared.checkpoints, number, *over_time)
        constants = (0.0, *self.policy.constants())  # at least one number: a kernel takes no empty tuple
        arguments = (self.state, self.tables, self.shared.problems, self.shared.participation, clock)
        before, after = cuda.event(), cuda.event()
        self.clock = self.clock if self.under_way else time.perf_counter()
        with launching():
            before.record(self.stream)
            layout = self.layout
            self.play[layout.blocks, layout.threads, self.stream, layout.shared](*arguments, self.players, constants)
            after.record(self.stream)
        self.launches.append((before, after))
        self.under_way.append((last, after))
        self.launched, self.piece = last, self.piece * 4

    def wait(self) -> int:
        """Wait for the older piece that is under way; return how many rounds it had, over all runs."""
        last, after = self.under_way.popleft()
        after.synchronize()
        now = time.perf_counter()
        rounds, self.round = last - self.round, last
        self.piece = max(1, min(16 * rounds, int(rounds * PIECE_SECONDS / max(now - self.clock, 1e-4))))
        self.clock = now
        return rounds * self.runs

    def collect(self, into: Measurements) -> None:
        """Copy what was measured to where it belongs."""
        state, tables = self.state, self.tables
        measured = (state.statistics[COUNT], state.totals[SUM], tables.early, tables.regret, tables.nan)
        pulls, sums, early, regret, nan = (array.copy_to_host(stream=self.stream) for array in measured)
        uncounted = [array.copy_to_host(stream=self.stream) for array in tables.uncounted]
        offset = tables.offset.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        if nan.any():
            run = int(np.flatnonzero(nan)[0])
            pairs = (*state.indexed, tables.center, tables.scale)
            *own, center, scale = (self._by_arm(array.copy_to_host())[run] for array in pairs)
            raise wrong_index(self.policy, own, center.T, scale.T)
        scales = self._by_arm(tables.scale.copy_to_host())
        if (wrong := (scales < 0) | np.isinf(scales)).any():
            run = int(np.argwhere(wrong)[0, 0])
            own = [self._by_arm(array.copy_to_host())[run] for array in state.indexed]
            check_scale(self.policy, own, scales[run].T)

        def rows(of: np.ndarray) -> np.ndarray:
            number, runs = self.portion
            return of[number].reshape(-1, *of.shape[3:])[runs.start : runs.stop]

        if self.timed:
            pulls += uncounted[COUNT]
            rows(into.offset)[:] = offset
        rows(into.pulls)[:] = self._by_arm(pulls).transpose(0, 2, 1)
        rows(into.late_pulls)[:] = self._by_arm(pulls - early).transpose(0, 2, 1)
        rows(into.reward)[:] = (sums.sum(axis=1) + uncounted[SUM].sum(axis=1)) / GRID
        rows(into.regret)[:] = regret


class Layout(NamedTuple):
    """How threads are arranged."""

    in_a_warp: bool  # whether a run has a thread for each player, and a block several runs; else a run has a block
    packed: bool  # whether these runs stand side by side in warps, and all runs of a block wait for each other
    threads: tuple[int, int]  # of a block: (those of a run, runs), or all of them and 1
    blocks: int
    shared: int  # bytes of a block's shared memory: a number of each thread, for sums, if a run has a block; counters
    counters_shared: bool  # whether counters lie there
    registers: int  # that a thread may have

    @classmethod
    def of(cls, players: int, arms: int, runs: int, policy: Policy) -> Layout:
        """A warp for each run of few players; if there are many such runs, no lane of a warp is left over.

        Where indices follow everybody's pulls and there are few runs, or for many players, a block, which shares work.
        For the summaries of very many players it is a large one.
        """
        simulated = numba.config.ENABLE_CUDASIM
        processors = 1 if simulated else cuda.get_current_device().MULTIPROCESSOR_COUNT
        few = simulated or runs <= 3 * processors
        in_a_warp = players <= WARP and not (few and policy.refresh is Refresh.ANY_PULL)
        packed = in_a_warp and runs > MANY_RUNS * processors and policy.refresh is not Refresh.SCHEDULE
        most = max(1, SHARED_BYTES // counter_bytes(arms))
        if packed:
            threads = (players, min(most, without_gaps(players)))
        elif in_a_warp:
            threads = (WARP, min(most, WARPS))
        else:
            large = players > BLOCK and policy.refresh is Refresh.SCHEDULE
            threads = (LARGE_BLOCK if large else BLOCK if players > WARP else SMALL_BLOCK, 1)
        if simulated:  # threads of Python: few, but enough to get into each other's way
            threads = (players, 2 if packed else 1) if in_a_warp else (min(2 * players + 1, 7), 1)
        counters = threads[1] * counter_bytes(arms) if counter_bytes(arms) <= SHARED_BYTES else 0
        shared = counters + (0 if in_a_warp else 8 * threads[0])
        registers = LARGE_BLOCK_REGISTERS if threads[0] == LARGE_BLOCK else REGISTERS
        return cls(in_a_warp, packed, threads, -(-runs // threads[1]), shared, counters > 0, registers)


def without_gaps(players: int) -> int:
    """The fewest runs of so many players that, side by side, fill nine tenths of their warps; 1 if no number does."""
    filled = {runs: runs * players / (-(-runs * players // WARP) * WARP) for runs in range(1, BLOCK // players + 1)}
    return next((runs for runs, share in filled.items() if share >= 0.9), 1)


def counter_bytes(arms: int) -> int:
    """What the counters of a round take."""
    return 3 * 4 * arms


def play_kernel(policy: Policy, layout: Layout, everybody: bool, anytime: bool, timed: bool) -> Any:
    """The kernel of a policy's class, compiled when it is first launched or taken from the disk cache."""
    statistics = used_statistics(type(policy))
    names = bindings(class_of(policy), statistics, FLAT_CELL) | {
        "state_of_run": of_run(State, len(statistics), max(len(policy.shared), 1), max(len(policy.of_pair), 1)),
        "tables_of_run": of_run(RunTables, len(statistics), 1, max(len(policy.of_pair), 1)),
        "state_by_arm": by_arm(State),
        "pair_of": pair_of,
        "IN_A_WARP": layout.in_a_warp,
        "COUNTERS_SHARED": layout.counters_shared,
        "EVERYBODY": everybody,
        "ANYTIME": anytime,
        "TIMED": timed,
        "dealt": dealt_to_lane,
        "dealt_to_teams": dealt_to_lane,
    }
    names |= device_functions(layout.in_a_warp and not layout.packed)
    names |= {} if layout.in_a_warp else team_functions()
    return _play_kernel(layout.registers, tuple(names), tuple(names.values()))


@functools.cache
def _play_kernel(registers: int, names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return bind_cuda(cuda_kernel.play, registers=registers, **dict(zip(names, values, strict=True)))


def _shapes(work: Work, policy: Policy) -> Shapes:
    """The arrays of one run. What the policy has no use for has size 1, because arrays on a GPU are not empty."""
    players, arms = work.problems[0].means.shape
    bounded = policy.randomised and policy.law is Law.NORMAL
    columns, _, part_of = _attributes(work)
    shapes = state_shapes(policy, used_statistics(type(policy)), players, arms, columns.shape[2], part_of.shape[1])
    if not policy.of_pair:
        shapes["of_pair"] = (np.float64, (1, arms, players))
    shapes["totals"] = (np.int64, (2, arms))  # everybody's, whatever the policy shares: the schedule asks for them
    if not work.anytime:
        shapes["seen"] = (np.float64, (len(policy.shared), 1, 1))
    shapes |= dict.fromkeys(("center", "scale"), (np.float64, (arms * players,)))
    shapes |= dict.fromkeys(("arms", "refreshed_at"), (np.int64, (players,)))
    shapes |= {
        "counters": (np.int32, (3 * arms if counter_bytes(arms) > SHARED_BYTES else 1,)),
        "rough": (np.float32, (2 * (arms + PADDING) * players if bounded else 1,)),
        "nan": (np.int64, (1,)),
        "early": (np.int64, (arms * players,)),
        "player_regret": (np.float64, (players,)),
        "regret": (np.float64, (len(work.checkpoints),)),
    }
    timed, late = work.timed(policy), sum(work.feedback.within(work.horizon)) * players
    shapes |= {
        "uncounted": (np.int64, (2, arms * players if timed else 1)),
        "offset": (np.float64, (players if timed else 1,)),
        "late_arms": (np.int64, (late if timed else 1,)),
        "late_rewards": (np.int64, (late if timed else 1,)),
    }
    return {name: (dtype, tuple(max(size, 1) for size in shape)) for name, (dtype, shape) in shapes.items()}


def _bytes_of_run(work: Work, policy: Policy) -> int:
    return sum(np.dtype(dtype).itemsize * math.prod(shape) for dtype, shape in _shapes(work, policy).values())


def _allocate(runs: int, shapes: Shapes, stream: Any) -> dict[str, Any]:
    """Arrays on the GPU with the run as first axis, all zero, in one piece of memory."""
    sizes = [runs * math.prod(shape) * np.dtype(dtype).itemsize for dtype, shape in shapes.values()]
    starts = np.cumsum([0, *(-(-size // 128) * 128 for size in sizes)]).tolist()
    try:
        memory = cuda.device_array(starts[-1], np.uint8)
    except CudaAPIError as error:
        if getattr(error, "code", OUT_OF_MEMORY) != OUT_OF_MEMORY:
            raise
        raise MemoryError(f"{starts[-1]:,} bytes for {runs} runs, but the GPU does not have them free") from error
    device_memset(memory, 0, starts[-1], stream)
    arrays = {}
    for (name, (dtype, shape)), start, size in zip(shapes.items(), starts, sizes, strict=False):
        array = memory[start : start + size].view(dtype)
        if name in TUPLES:
            tables = array.reshape(shape[0], runs, math.prod(shape[1:]))
            arrays[name] = tuple(tables[place] for place in range(shape[0]))
        else:
            arrays[name] = array.reshape(runs, *shape)
    return arrays
