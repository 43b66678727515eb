"""What only a GPU can do, and what stands for it in numba's CUDA simulator."""

import math
import threading
from typing import Any

import numba
import numpy as np
from numba import cuda, float64

from posse.compile import out_of_line
from posse.streams import HALF, MULTIPLIER_0, MULTIPLIER_1, WEYL_0, WEYL_1


def wait_for_warp(lane):
    """The barrier of runs that have a warp each."""
    cuda.syncwarp(lane.mask)


def wait_for_block(lane):
    """The barrier of runs that have a block each."""
    cuda.syncthreads()


TEAM = 32  # threads of a warp


def warps_of_block(lane, count):
    """`dealt_to_teams` for runs that have a block each: a team is a warp."""
    return range(np.int64(cuda.threadIdx.x) // TEAM, count, np.int64(cuda.blockDim.x) // TEAM)


def by_warp(lane, players):
    """`by_team` for warps."""
    return range(0, players, TEAM)


def member_of_warp(lane, first):
    """`member` for warps; the last player stands in for those beyond it."""
    return min(first + cuda.laneid, lane.players - 1)


@out_of_line
def add_in_warp(total, value, lane, first):
    """`in_order` for warps: every thread adds up what all of them show."""
    shown = cuda.shared.array(0, float64)  # the block's shared memory begins with a number of each thread
    thread = np.uint32(cuda.threadIdx.x)
    begin = thread - thread % np.uint32(TEAM)
    cuda.syncwarp(EVERYBODY)  # all have read what was shown before
    shown[thread] = value
    cuda.syncwarp(EVERYBODY)
    left = lane.players - first
    if left >= TEAM:
        for place in range(TEAM):
            total += shown[begin + np.uint32(place)]
    else:
        for place in range(left):
            total += shown[begin + np.uint32(place)]
    return total


@out_of_line
def add_whole_in_warp(total, value, lane, first):
    """`in_any_order` for warps: threads whose numbers differ in one bit exchange their sums, bit by bit."""
    if first + cuda.laneid >= lane.players:
        value = 0
    distance = TEAM // 2
    while distance > 0:
        value += cuda.shfl_xor_sync(EVERYBODY, value, distance)
        distance //= 2
    return total + value


EVERYBODY = 0xFFFFFFFF  # all threads of a warp


def add_atomically(numbers, place, amount):
    """Add to a number that other threads add to."""
    cuda.atomic.add(numbers, place, np.int32(amount))


def fma(x, y, z):
    """x y + z, rounded once."""
    return cuda.fma(x, y, z)


def log_2(x):
    """A logarithm to base 2 in single precision, within 2⁻²² of it or of 1."""
    return cuda.libdevice.fast_log2f(x)


def divide(x, y):
    """A quotient in single precision, within 2⁻²² of it."""
    return cuda.libdevice.fast_fdividef(x, y)


def philox_in_32_bits(c0, c1, c2, c3, k0, k1):
    """`posse.streams.philox` on numbers of 32 bits, which are all that a GPU multiplies at once."""
    a, b, c, d = np.uint32(c0), np.uint32(c1), np.uint32(c2), np.uint32(c3)
    u, v = np.uint32(k0), np.uint32(k1)
    for _ in range(10):
        p, q = MULTIPLIER_0 * np.uint64(a), MULTIPLIER_1 * np.uint64(c)
        a, b = np.uint32((q >> HALF) ^ b ^ u), np.uint32(q)
        c, d = np.uint32((p >> HALF) ^ d ^ v), np.uint32(p)
        u, v = np.uint32(u + WEYL_0), np.uint32(v + WEYL_1)
    return np.int64(a), np.int64(b), np.int64(c), np.int64(d)


def device_functions(in_a_warp: bool) -> dict[str, Any]:
    """What kernels call by these names, for runs that have a warp each or a block."""
    if numba.config.ENABLE_CUDASIM:
        return {"barrier": _wait, "add_to": _add, "fma": _fma, "log_2": _log_2, "divide": _divide}
    return {
        "barrier": wait_for_warp if in_a_warp else wait_for_block,
        "add_to": add_atomically,
        "fma": fma,
        "log_2": log_2,
        "divide": divide,
        "philox": philox_in_32_bits,
    }


def team_functions() -> dict[str, Any]:
    """How the threads of a block form teams. In the simulator each thread is one."""
    if numba.config.ENABLE_CUDASIM:
        return {}
    sums = {"in_order": add_in_warp, "plus": add_in_warp, "in_any_order": add_whole_in_warp}
    return sums | {"dealt_to_teams": warps_of_block, "by_team": by_warp, "member": member_of_warp}


def _wait(lane: Any) -> None:
    thread: Any = threading.current_thread()  # one of the simulator's own, which have barriers
    thread.syncthreads()


def _add(numbers: Any, place: int, amount: int) -> None:
    with _adding:
        numbers[place] += amount


_adding = threading.Lock()


def _fma(x: Any, y: Any, z: Any) -> Any:
    return x * y + z


def _log_2(x: Any) -> Any:
    return np.float32(math.log2(x))


def _divide(x: Any, y: Any) -> Any:
    return np.float32(x / y)
