"""The walk over the functions that kernels reach, and the digest of all that it meets."""

from __future__ import annotations

import dis
import enum
import hashlib
from collections.abc import Callable, Mapping, Sequence
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np


def out_of_line(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that is called rarely: compiled as a real call, it leaves the hot loop its registers."""
    function.out_of_line = True  # type: ignore[attr-defined]
    return function


def unchanged(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, for a walk that compiles nothing."""
    return function


def takes_names(function: FunctionType, homes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether names are bound in a function: in the kernels' own modules, and in modules that say so."""
    scope = function.__globals__
    return "BOUND_FOR_EACH_POLICY" in scope or any(scope is home for home in homes)


def code_digest(function: Callable[..., Any] | None) -> str:
    """A digest of the bytecode of a function and of all that it reaches. It changes when any of that is edited."""
    return "" if function is None else Walk([function], {}).digest.hexdigest()[:16]


class Walk:
    """A walk over the functions that kernels reach. Each is rebuilt once, with its names bound, and compiled by `jit`.

    The kernels themselves, `entries`, are rebuilt but not compiled. `digest` covers all code and every constant
    reached. `origin` gives the user's function for each rebuilt one.
    """

    def __init__(
        self,
        kernels: Sequence[Any],
        names: Mapping[str, Any],
        jit: Callable[[Any], Any] = unchanged,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.names = names
        self.homes = [kernel.__globals__ for kernel in kernels]
        self.jit = jit
        options = options or {}
        self.digest = hashlib.sha256(repr([(name, str(options[name])) for name in sorted(options)]).encode())
        for name in sorted(names):  # also those that are not reached: policies with other constants share no folder
            self._note(name, names[name])
        self.done: dict[FunctionType, Any] = {}
        self.numbers: dict[FunctionType, int] = {}
        self.origin: dict[FunctionType, FunctionType] = {}
        self.entries = tuple(self._rebuild(kernel) for kernel in kernels)
        self._name_apart()

    def _name_apart(self) -> None:
        """Give each rebuilt function a name that only the same code bears.

        The compiler numbers functions of one name in the order in which a process meets them. So kernels cached by
        two processes may hold different functions under one name and number, and a third process that loads both
        would run the wrong one.
        """
        tag = self.digest.hexdigest()[:16]
        for number, function in enumerate(self.origin):
            function.__qualname__ = f"{function.__qualname__}_{tag}_{number}"

    def _rebuild(self, function: Any) -> Any:
        """`function` with every plain function that it names rebuilt and compiled."""
        code = function.__code__
        self._note_code(code)
        self._note("out of line", hasattr(function, "out_of_line"))
        self._note("module", function.__module__)  # cached kernels look for it when they are loaded
        scope = dict(function.__globals__)
        bound = self.names if takes_names(function, self.homes) else {}
        used = _all_names(code)
        for name in sorted(global_names(code) & (scope.keys() | bound.keys())):
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
        self.origin[rebuilt] = function
        return rebuilt

    def _take(self, name: str, value: Any, used: list[str]) -> Any:
        """What a name stands for in the rebuilt function. It is noted in the digest."""
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


def global_names(code: CodeType) -> set[str]:
    """The names that are looked up as globals, of functions inside too. `sqrt` in `math.sqrt` is not one."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names |= global_names(const)
    return names
