"""Compilation for the CPU."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numba

from posse.compile.cache import cached, compiler_digest
from posse.compile.errors import watched
from posse.compile.pipeline import CalleeCompiler, EntryCompiler, make_lean
from posse.compile.walk import Walk

OPTIONS: dict[str, Any] = {
    "error_model": "numpy",  # division by zero follows IEEE
    # The one fast-math flag that is safe where infinities decide, sums keep their order and NaN must be noticed: the
    # sign of zero never matters. A dict, because the order of a set changes from process to process.
    "fastmath": {"nsz": True},
    "nogil": True,
    "_nrt": False,  # kernels allocate nothing; without the runtime there are no reference counts, atomic and slow
    "no_cfunc_wrapper": True,  # nobody calls them from C
}


def compiled_mode() -> bool:
    """Whether kernels are compiled. `NUMBA_DISABLE_JIT=1` turns it off."""
    return not numba.config.DISABLE_JIT


def bind(kernel: Callable[..., Any], *, what: str = "", **names: Any) -> Callable[..., Any]:
    """`kernel` compiled for the CPU, as by `bind_all`."""
    return bind_all([kernel], what=what, **names)[0]


def bind_all(kernels: Sequence[Callable[..., Any]], *, what: str = "", **names: Any) -> tuple[Callable[..., Any], ...]:
    """Kernels compiled for the CPU, with `names` bound in their modules and those that say BOUND_FOR_EACH_POLICY.

    Each is compiled at its first call and cached between processes. Functions that several kernels call are compiled
    once. `what` is the name that progress and errors show, such as that of a policy.
    """
    if not compiled_mode():
        return Walk(kernels, names).entries
    leave_scipy_alone("numba.np")
    made_by = {"numba": numba.__version__, "posse": compiler_digest()}  # others do not overwrite each other's kernels
    walk = Walk(kernels, names, _compile_callee, OPTIONS | made_by)
    jit = functools.partial(numba.njit, pipeline_class=EntryCompiler, **OPTIONS)
    return tuple(watched(cached(jit, walk.entries, walk.digest), "_compile_for_args", walk, what))


@functools.cache
def leave_scipy_alone(numba_np: str) -> None:
    """Import numba's functions of arrays, of this package, without SciPy's linear algebra, which takes 0.17 s.

    numba imports it only to know whether it is there. Whoever compiles `np.dot` in the same process still gets it then.
    """
    linalg: Any = importlib.import_module(f"{numba_np}.linalg")
    check = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        arraymath = importlib.import_module(f"{numba_np}.arraymath")
    finally:
        linalg.ensure_blas = check
    vars(arraymath)["_HAVE_BLAS"] = importlib.util.find_spec("scipy") is not None


def _compile_callee(function: Callable[..., Any]) -> Any:
    inline, options = not hasattr(function, "out_of_line"), dict(OPTIONS)
    if hasattr(function, "fused"):
        options["fastmath"] = options["fastmath"] | {"contract": True}
    jit = numba.njit(forceinline=inline, no_cpython_wrapper=True, pipeline_class=CalleeCompiler, **options)
    dispatcher = jit(function)
    return make_lean(dispatcher) if (function.__module__ or "").startswith("posse.") else dispatcher
