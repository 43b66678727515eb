"""Compilation for NVIDIA GPUs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

import numba

from posse.compile.cache import cached, compiler_digest, lock
from posse.compile.errors import watched
from posse.compile.pipeline import take_any_number
from posse.compile.walk import Walk

CUDA_OPTIONS: dict[str, Any] = {"lto": False}  # optimized at link time, products would be fused into sums after all
REGISTERS = 168  # of a thread, so that a multiprocessor of 65,536 registers holds twelve warps


def bind_cuda(kernel: Callable[..., Any], *, what: str = "", registers: int = REGISTERS, **names: Any) -> Any:
    """`kernel` compiled for an NVIDIA GPU, cached between processes, with `names` bound in its module's functions.

    It is compiled when it is first launched, which must happen while `launching`. In numba's CUDA simulator it stays
    Python. `what` is the name that errors show, and `registers` how many a thread may have.
    """
    from numba import cuda

    if numba.config.ENABLE_CUDASIM:
        return cuda.jit(Walk([kernel], names).entries[0])
    made_by = {"numba-cuda": metadata.version("numba-cuda"), "posse": compiler_digest(), "registers": registers}
    walk = Walk([kernel], names, _compile_callee, CUDA_OPTIONS | made_by)
    entry = functools.partial(_compile_entry, registers)
    return watched(cached(entry, walk.entries, walk.digest), "compile", walk, what)[0]


def _compile_entry(registers: int, function: Callable[..., Any], cache: bool = False) -> Any:
    from numba import cuda

    dispatcher = cuda.jit(function, cache=cache, max_registers=registers, **CUDA_OPTIONS)
    if cache:  # numba would first import all that it can compile, which takes longer than to load a kernel
        dispatcher._cache.load_overload = dispatcher._cache._load_overload
    return dispatcher


def _compile_callee(function: Callable[..., Any]) -> Any:
    from numba import cuda

    inline = not hasattr(function, "out_of_line")
    dispatcher = cuda.jit(function, device=True, forceinline=inline, **CUDA_OPTIONS)
    if (function.__module__ or "").startswith("posse."):
        take_any_number(dispatcher)
    return dispatcher


@contextlib.contextmanager
def launching() -> Iterator[None]:
    """While this is open, `cuda_pipeline` compiles GPU kernels, to round like the CPU's, and small grids do not warn.

    To round like the CPU's, no product is fused into a sum, which would round once in place of twice. In single
    precision, which decides nothing, numbers below 1e-38 count as zero, because it is faster. numba-cuda has no options
    for these, so the compiler's own are given to the function that calls the compiler.
    """
    if numba.config.ENABLE_CUDASIM:
        yield
        return
    from numba.cuda import compiler
    from numba.cuda.cudadrv import nvvm

    from posse.compile.cuda_pipeline import compile_kernel

    with lock:
        compile_extra, compile_ir = compiler.compile_extra, nvvm.compile_ir
        warns = numba.config.CUDA_LOW_OCCUPANCY_WARNINGS
        compiler.compile_extra = compile_kernel
        nvvm.compile_ir = functools.partial(compile_ir, fma=False, ftz=True)
        numba.config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
        try:
            yield
        finally:
            compiler.compile_extra, nvvm.compile_ir = compile_extra, compile_ir
            numba.config.CUDA_LOW_OCCUPANCY_WARNINGS = warns
