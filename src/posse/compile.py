"""Plain functions in, compiled functions out: the one place that knows how posse's code is compiled.

Kernels and the scalar functions that they call are written as ordinary undecorated Python. `bind` walks from a
kernel through every plain function that it names, replaces the names that a policy provides (its index function,
its flags), and compiles the lot. Without compilation (`NUMBA_DISABLE_JIT=1`) the same walk gives plain Python.

The compiled kernel is cached on disk in a folder named by a digest of all code and constants reached in the walk,
so an edited policy, in whatever file or notebook, can never meet a stale kernel.

`bind_cuda` does the same for NVIDIA GPUs, from the same functions.
"""

from __future__ import annotations

import contextlib
import dis
import enum
import functools
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
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

CUDA_OPTIONS: dict[str, Any] = {
    "lto": False,  # optimised at link time, products would be fused into sums after all
    "max_registers": 168,  # so that a multiprocessor of 65,536 registers holds twelve warps
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
    """`kernel` compiled for the CPU, cached between processes, with `names` bound in its module's functions."""
    if not compiled_mode():
        return Walk(kernel, names, lambda function: function).entry
    walk = Walk(kernel, names, _compile_callee)
    with _lock, _cached_in(_cache_folder(walk.digest.hexdigest()[:16])) as cached:
        try:
            return _forgiving(numba.njit(cache=cached, **OPTIONS)(walk.entry))
        except RuntimeError:  # numba has no place for it, as for a function typed in at the prompt
            return numba.njit(**OPTIONS)(walk.entry)


def bind_cuda(kernel: Callable[..., Any], **names: Any) -> Any:
    """`kernel` compiled for an NVIDIA GPU, cached between processes, with `names` bound in its module's functions.

    It is compiled when it is first launched, which is to happen while `launching`. In numba's CUDA simulator it stays
    Python.
    """
    from numba import cuda

    if numba.config.ENABLE_CUDASIM:
        return cuda.jit(Walk(kernel, names, lambda function: function).entry)
    options = CUDA_OPTIONS | {"numba-cuda": metadata.version("numba-cuda")}
    walk = Walk(kernel, names, _compile_cuda_callee, options)
    with _lock, _cached_in(_cache_folder(walk.digest.hexdigest()[:16])) as cached:
        try:
            return _forgiving(cuda.jit(walk.entry, cache=cached, **CUDA_OPTIONS))
        except RuntimeError:
            return cuda.jit(walk.entry, **CUDA_OPTIONS)


def _compile_cuda_callee(function: Callable[..., Any]) -> Any:
    from numba import cuda

    return cuda.jit(function, device=True, forceinline=not hasattr(function, "out_of_line"), **CUDA_OPTIONS)


@contextlib.contextmanager
def launching() -> Iterator[None]:
    """While this is open, GPU kernels are compiled to round like the CPU's, and small grids are no reason for warnings.

    To round like the CPU's, no product is fused into a sum, which would round once in place of twice. numba-cuda has
    no option for it, so the compiler's own is given to the function that calls the compiler.
    """
    if numba.config.ENABLE_CUDASIM:
        yield
        return
    from numba.cuda.cudadrv import nvvm

    with _lock:
        compile_ir, warns = nvvm.compile_ir, numba.config.CUDA_LOW_OCCUPANCY_WARNINGS
        nvvm.compile_ir = functools.partial(compile_ir, fma=False)
        numba.config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
        try:
            yield
        finally:
            nvvm.compile_ir, numba.config.CUDA_LOW_OCCUPANCY_WARNINGS = compile_ir, warns


def _compile_callee(function: Callable[..., Any]) -> Any:
    return numba.njit(forceinline=not hasattr(function, "out_of_line"), **OPTIONS)(function)


def code_digest(function: Callable[..., Any] | None) -> str:
    """A digest of a function and of all that it reaches, the same until any of it is edited."""
    return "" if function is None else Walk(function, {}, lambda plain: plain).digest.hexdigest()[:16]


class Walk:
    """A walk over the functions that a kernel reaches, each rebuilt with its names bound and compiled by `jit`.

    The kernel itself, `entry`, is rebuilt but not compiled. `digest` covers all code and every constant reached.
    """

    def __init__(
        self,
        kernel: Any,
        names: dict[str, Any],
        jit: Callable[[Any], Any],
        options: dict[str, Any] = OPTIONS,
    ) -> None:
        self.names = names
        self.home = kernel.__globals__
        self.jit = jit
        self.digest = hashlib.sha256(repr([(name, str(options[name])) for name in sorted(options)]).encode())
        for name in sorted(names):  # also those that are not reached: policies with other constants share no folder
            self._note(name, names[name])
        self.done: dict[FunctionType, Any] = {}
        self.numbers: dict[FunctionType, int] = {}
        self.rebuilt: list[FunctionType] = []
        self.entry = self._rebuild(kernel)
        self._name_apart()

    def _name_apart(self) -> None:
        """Give each rebuilt function a name that only the same code bears.

        The compiler numbers functions of one name as a process meets them, so kernels that two processes cached may
        bring different functions under one name and number; a third process that loads both would run the wrong one.
        """
        tag = self.digest.hexdigest()[:16]
        for function in self.rebuilt:
            function.__qualname__ = f"{function.__qualname__}_{tag}"

    def _rebuild(self, function: Any) -> Any:
        """`function` with every plain function that it names rebuilt and compiled."""
        code = function.__code__
        self._note_code(code)
        self._note("out of line", hasattr(function, "out_of_line"))
        self._note("module", function.__module__)  # cached kernels look for it when they are loaded
        scope = dict(function.__globals__)
        bound = self.names if function.__globals__ is self.home else {}
        used = _all_names(code)
        for name in sorted(_global_names(code) & (scope.keys() | bound.keys())):
            scope[name] = self._take(name, bound.get(name, scope.get(name)), used)
        cells = [
            CellType(self._take(name, cell.cell_contents, used))
            for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)
        ]
        self._take("defaults", function.__defaults__, used)
        self._take("keyword defaults", tuple(sorted((function.__kwdefaults__ or {}).items())), used)
        rebuilt = FunctionType(code, scope, function.__name__, function.__defaults__, tuple(cells) or None)
        rebuilt.__kwdefaults__ = function.__kwdefaults__
        rebuilt.__dict__.update(function.__dict__)
        rebuilt.__module__ = function.__module__
        rebuilt.__qualname__ = function.__qualname__
        self.rebuilt.append(rebuilt)
        return rebuilt

    def _take(self, name: str, value: Any, used: list[str]) -> Any:
        """What a name stands for in the rebuilt function; noted in the digest."""
        value = getattr(value, "py_func", value)  # compiled already: compile it anew, with our options
        if isinstance(value, FunctionType):
            if value not in self.done:
                self.numbers[value] = len(self.numbers)
                self.done[value] = None
                self.done[value] = self.jit(self._rebuild(value))
            self._note(name, self.numbers[value])
            if self.done[value] is None:
                raise TypeError(f"{value.__qualname__} calls itself, which cannot be compiled; use a loop")
            return self.done[value]
        self._note(name, value)
        self._note_attributes(name, value, used, depth=3)
        return value

    def _note_attributes(self, name: str, value: Any, used: list[str], depth: int) -> None:
        """Note what a module's attributes stand for, as the compiler freezes them too."""
        if isinstance(value, ModuleType) and depth:
            for attribute in used:
                found = getattr(value, attribute, None)
                self._note(f"{name}.{attribute}", found)
                self._note_attributes(f"{name}.{attribute}", found, used, depth - 1)

    def _note_code(self, code: CodeType) -> None:
        constants = [const for const in code.co_consts if not isinstance(const, CodeType)]
        arguments = code.co_argcount + code.co_kwonlyargcount
        called = code.co_argcount, code.co_posonlyargcount, code.co_flags, code.co_varnames[:arguments]
        self.digest.update(code.co_code)
        self.digest.update(repr((constants, code.co_names, called)).encode())
        for const in code.co_consts:
            if isinstance(const, CodeType):
                self._note_code(const)

    def _note(self, name: str, value: Any) -> None:
        compiled = getattr(getattr(value, "_dispatcher", value), "py_func", None)  # by numba's jit or vectorize
        if isinstance(value, np.ndarray):
            self.digest.update(f"{name}: {value.dtype} {value.shape}".encode() + value.tobytes())
        elif isinstance(value, tuple):
            self.digest.update(f"{name}: {type(value).__qualname__} of {len(value)}".encode())
            for place, part in enumerate(value):
                self._note(f"{name}[{place}]", part)
        elif isinstance(value, (bool, int, float, complex, str, np.generic, enum.Enum)):
            self.digest.update(f"{name}: {type(value).__qualname__} {value!r}".encode())
        elif isinstance(value, enum.EnumMeta):
            self._note(name, tuple(value.__members__.values()))
        elif compiled is not None:
            self.digest.update(f"{name}: {code_digest(compiled)}".encode())
        elif callable(value):
            called = getattr(value, "__module__", ""), getattr(value, "__qualname__", getattr(value, "__name__", ""))
            self.digest.update(f"{name} is {called} {getattr(value, '_fields', '')}".encode())


def _all_names(code: CodeType) -> list[str]:
    """The names of globals and of attributes, of functions inside too."""
    names = list(code.co_names)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names += _all_names(const)
    return names


def _global_names(code: CodeType) -> set[str]:
    """The names that are looked up as globals, of functions inside too; `sqrt` in `math.sqrt` is none."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names |= _global_names(const)
    return names


class _Forgiving:
    """numba's cache of one function, but what cannot be read is not there, and what cannot be written is left out."""

    def __init__(self, cache: Any) -> None:
        self._inner = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled function, or None; a damaged cache is begun anew."""
        try:
            return self._inner.load_overload(signature, context)
        except Exception:  # whatever unpickling half a file may raise
            with contextlib.suppress(OSError):
                self._inner.flush()
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        """Keep it, if there is room."""
        with contextlib.suppress(OSError):
            self._inner.save_overload(signature, data)


def _forgiving(dispatcher: Any) -> Any:
    dispatcher._cache = _Forgiving(dispatcher._cache)
    return dispatcher


@contextlib.contextmanager
def _cached_in(folder: Path | None) -> Iterator[bool]:
    """While this is open, numba caches in this folder; gives whether there is one."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder) if folder else before
    try:
        yield folder is not None
    finally:
        numba.config.CACHE_DIR = before


def _cache_folder(digest: str) -> Path | None:
    """Where this kernel is cached, or None where nothing can be written."""
    try:
        base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(base) / "posse" / digest
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK) else None
