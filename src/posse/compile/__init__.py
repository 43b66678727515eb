"""Plain functions in, compiled functions out: the one place that knows how posse's code is compiled.

Kernels and the scalar functions that they call are written as ordinary undecorated Python. `bind_all` walks from
kernels through every plain function that they name, replaces the names that a policy provides (its index function, its
flags), and compiles the result; `bind_cuda` does so for NVIDIA GPUs. Compiled kernels are cached on disk under a digest
of all code and constants reached, so an edited policy, in any file or notebook, never runs a stale kernel.

- `walk`: which functions a kernel reaches, and the digest of their bytecode
- `source`: the digest of their source, which is the same on every Python
- `cpu`, `cuda`: how they are compiled
- `pipeline`, `cpu_lowering`: numba's compiler for the CPU, without what kernels do not need; `cuda_pipeline`: for GPUs;
  `lowering`: what both share
- `cache`: the folder on disk
- `errors`: what a user reads when a policy cannot be compiled
- `progress`: what a user sees while it compiles

numba is imported when something is first compiled: commands that only look after a database never wait for it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from posse.compile.source import source_digest
from posse.compile.walk import Walk, fused, independent, masked, out_of_line

if TYPE_CHECKING:
    from posse.compile.cpu import bind, bind_all, compiled_mode
    from posse.compile.cuda import bind_cuda, launching
    from posse.compile.errors import CompileError

_HOMES = {
    **dict.fromkeys(("bind", "bind_all", "compiled_mode"), "cpu"),
    **dict.fromkeys(("bind_cuda", "launching"), "cuda"),
    "CompileError": "errors",
}

__all__ = [
    "CompileError",
    "Walk",
    "bind",
    "bind_all",
    "bind_cuda",
    "compiled_mode",
    "fused",
    "independent",
    "launching",
    "masked",
    "out_of_line",
    "source_digest",
]


def __getattr__(name: str) -> Any:
    """What needs numba."""
    if name not in _HOMES:
        raise AttributeError(f"module 'posse.compile' has no attribute {name!r}")
    return getattr(importlib.import_module(f"posse.compile.{_HOMES[name]}"), name)
