"""Plain functions in, compiled functions out: the one place that knows how posse's code is compiled.

Kernels and the scalar functions that they call are written as ordinary undecorated Python. `bind` walks from a
kernel through every plain function that it names, replaces the names that a policy provides (its index function,
its flags), and compiles the lot. Without compilation (`NUMBA_DISABLE_JIT=1`) the same walk gives plain Python.

The compiled kernel is cached on disk in a folder named by a digest of all code and constants reached in the walk,
so an edited policy, in whatever file or notebook, can never meet a stale kernel.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

import numba
import numpy as np

OPTIONS: dict[str, Any] = {
    "error_model": "numpy",  # division by zero follows IEEE
    # The two fast-math flags that are safe where infinities decide and sums must not be reordered: there are no
    # NaNs, and the sign of zero never matters. A dict, because the order of a set changes from process to process.
    "fastmath": {"nnan": True, "nsz": True},
    "nogil": True,
    "_nrt": False,  # kernels allocate nothing; without the runtime there are no reference counts, atomic and dear
}

_lock = threading.RLock()


def out_of_line(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that is called rarely: compiled as a real call, it leaves the hot loop its registers."""
    function.out_of_line = True  # type: ignore[attr-defined]
    return function


def compiled_mode() -> bool:
    """Whether kernels are compiled; `NUMBA_DISABLE_JIT=1` turns it off."""
    return not numba.config.DISABLE_JIT


def bind(kernel: Callable[..., Any], **names: Any) -> Callable[..., Any]:
    """`kernel` compiled for the CPU, with the given names bound inside it and cached between processes."""
    if not compiled_mode():
        return Walk(names, lambda function: function).rebuild(kernel)
    walk = Walk(names, _compile_callee)
    plain = walk.rebuild(kernel, compile_it=False)
    with _lock:
        folder = _cache_folder(walk.digest.hexdigest()[:16])
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder) if folder else before
        try:
            return numba.njit(cache=folder is not None, **OPTIONS)(plain)
        finally:
            numba.config.CACHE_DIR = before


def _compile_callee(function: Callable[..., Any]) -> Any:
    return numba.njit(forceinline=not hasattr(function, "out_of_line"), **OPTIONS)(function)


class Walk:
    """One walk over the functions that a kernel reaches, rebuilding each with its names bound."""

    def __init__(self, names: dict[str, Any], jit: Callable[[Any], Any]) -> None:
        self.names = names
        self.jit = jit
        self.digest = hashlib.sha256(repr([(name, str(OPTIONS[name])) for name in sorted(OPTIONS)]).encode())
        self.done: dict[FunctionType, Any] = {}

    def rebuild(self, function: Any, compile_it: bool = True) -> Any:
        """`function` with every plain function that it names rebuilt, then compiled."""
        if function in self.done:
            return self.done[function]
        code = function.__code__
        self._note(code)
        scope = dict(function.__globals__)
        for name in sorted(set(_global_names(code)) & (scope.keys() | self.names.keys())):
            value = self.names.get(name, scope.get(name))
            scope[name] = self.rebuild(value) if isinstance(value, FunctionType) else value
            self._note_value(name, value)
        cells = []
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            value = cell.cell_contents
            cells.append(CellType(self.rebuild(value) if isinstance(value, FunctionType) else value))
            self._note_value(name, value)
        rebuilt = FunctionType(code, scope, function.__name__, function.__defaults__, tuple(cells) or None)
        rebuilt.__dict__.update(function.__dict__)
        rebuilt.__module__ = function.__module__
        rebuilt.__qualname__ = function.__qualname__
        self.done[function] = self.jit(rebuilt) if compile_it else rebuilt
        return self.done[function]

    def _note(self, code: CodeType) -> None:
        constants = [const for const in code.co_consts if not isinstance(const, CodeType)]
        for part in (code.co_code, repr(constants).encode(), repr(code.co_names).encode()):
            self.digest.update(part)
        for const in code.co_consts:
            if isinstance(const, CodeType):
                self._note(const)

    def _note_value(self, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            self.digest.update(name.encode() + value.tobytes())
        elif isinstance(value, (bool, int, float, tuple, str, np.generic)):
            self.digest.update(f"{name}={value!r}".encode())


def _global_names(code: CodeType) -> list[str]:
    names = list(code.co_names)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names += _global_names(const)
    return names


def _cache_folder(digest: str) -> Path | None:
    """Where this kernel is cached, or None where nothing can be written."""
    try:
        base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(base) / "posse" / digest
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK) else None
