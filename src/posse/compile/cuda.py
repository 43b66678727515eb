"""Compilation for NVIDIA GPUs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

import numba

from posse.compile.cache import cached, lock
from posse.compile.errors import watched
from posse.compile.walk import Walk

CUDA_OPTIONS: dict[str, Any] = {
    "lto": False,  # optimized at link time, products would be fused into sums after all
    "max_registers": 168,  # so that a multiprocessor of 65,536 registers holds twelve warps
}


def bind_cuda(kernel: Callable[..., Any], *, what: str = "", **names: Any) -> Any:
    """`kernel` compiled for an NVIDIA GPU, cached between processes, with `names` bound in its module's functions.

    It is compiled when it is first launched, which must happen while `launching`. In numba's CUDA simulator it stays
    Python. `what` is the name that errors show.
    """
    from numba import cuda

    if numba.config.ENABLE_CUDASIM:
        return cuda.jit(Walk([kernel], names).entries[0])
    options = CUDA_OPTIONS | {"numba-cuda": metadata.version("numba-cuda")}
    walk = Walk([kernel], names, _compile_callee, options)
    jit = functools.partial(cuda.jit, **CUDA_OPTIONS)
    return watched(cached(jit, walk.entries, walk.digest), "compile", walk, what)[0]


def _compile_callee(function: Callable[..., Any]) -> Any:
    from numba import cuda

    inline = not hasattr(function, "out_of_line")
    dispatcher = cuda.jit(function, device=True, forceinline=inline, **CUDA_OPTIONS)
    if not inline:
        dispatcher.compile_device = functools.partial(_compile_out_of_line, dispatcher.compile_device)
    return dispatcher


def _compile_out_of_line(compile_device: Callable[..., Any], *signature: Any) -> Any:
    """Compile a function that stays a call, where the compiler would inline it at every place that calls it."""
    result = compile_device(*signature)
    result.library.get_function(result.fndesc.llvm_func_name).attributes.add("noinline")
    return result


@contextlib.contextmanager
def launching() -> Iterator[None]:
    """While this is open, GPU kernels are compiled to round like the CPU's, and small grids cause no warnings.

    To round like the CPU's, no product is fused into a sum, which would round once in place of twice. In single
    precision, which decides nothing, numbers below 1e-38 count as zero, because it is faster. numba-cuda has no options
    for these, so the compiler's own are given to the function that calls the compiler.
    """
    if numba.config.ENABLE_CUDASIM:
        yield
        return
    from numba.cuda.cudadrv import nvvm

    with lock:
        compile_ir, warns = nvvm.compile_ir, numba.config.CUDA_LOW_OCCUPANCY_WARNINGS
        nvvm.compile_ir = functools.partial(compile_ir, fma=False, ftz=True)
        numba.config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
        try:
            yield
        finally:
            nvvm.compile_ir, numba.config.CUDA_LOW_OCCUPANCY_WARNINGS = compile_ir, warns
