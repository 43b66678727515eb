"""The walk over the functions that kernels reach, and the digest of all that it meets."""

from __future__ import annotations

import dis
import enum
import functools
import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np


def out_of_line(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that is called rarely.

    It is compiled as a real call instead of being inlined, so that the hot loop keeps its registers. Its loops are
    vectorized, but neither unrolled nor interleaved, which would take longer to compile than it saves.
    """
    vars(function)["out_of_line"] = True
    return function


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that computes bounds: a product and a sum in it may become one instruction.

    That rounds once where others round twice, and so only where the last bit does not matter.
    """
    vars(function)["fused"] = True
    return function


def independent(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function with loops in which no iteration reads what another one writes, so that vectors take several.

    Two iterations may write the same element only if they write the same number.
    """
    vars(function)["independent"] = True
    return function


def masked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function as `independent`, with loops of few and slow iterations.

    The last of them, too few for a whole vector, then run as one vector in which the rest is masked. Otherwise they
    run one by one, which may take as long as all others.
    """
    vars(function)["masked"] = True
    return independent(function)


class Walk:
    """A walk over the functions that kernels reach. Each is rebuilt once, with its names bound, and compiled by `jit`.

    The kernels themselves, `entries`, are rebuilt but not compiled. `digest` covers all code and every constant
    reached. `origin` gives the user's function for each rebuilt one.
    """

    def __init__(
        self,
        kernels: Sequence[Any],
        names: Mapping[str, Any],
        jit: Callable[[Any], Any] = lambda function: function,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.names = names
        self.homes = [kernel.__globals__ for kernel in kernels]
        self.jit = jit
        self.digest = CodeDigest(kernels, names, str(sorted((options or {}).items()))).short
        self.done: dict[FunctionType, Any] = {}
        self.origin: dict[FunctionType, FunctionType] = {}
        self.entries = tuple(self._rebuild(kernel) for kernel in kernels)
        # Name each rebuilt function after its code. The compiler numbers functions that have the same name, in the
        # order in which a process meets them. Two processes could therefore cache different functions under the same
        # name and number, and a third process that loads both would run the wrong one.
        for number, function in enumerate(self.origin):
            function.__qualname__ = f"{function.__qualname__}_{self.digest}_{number}"

    def _rebuild(self, function: Any) -> Any:
        """`function` with every plain function that it names rebuilt and compiled."""
        found, closed = named_values(function, self.names, self.homes)
        scope = function.__globals__ | {name: self._compiled(value) for name, value in found.items()}
        cells = tuple(CellType(self._compiled(value)) for value in closed.values())
        rebuilt = FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells or None)
        rebuilt.__kwdefaults__ = function.__kwdefaults__
        rebuilt.__dict__.update(function.__dict__)
        rebuilt.__module__ = function.__module__
        rebuilt.__qualname__ = function.__qualname__
        self.origin[rebuilt] = function
        return rebuilt

    def _compiled(self, value: Any) -> Any:
        """What a name stands for in a rebuilt function."""
        value = getattr(value, "py_func", value)  # compiled already: compile it anew, with our options
        if not isinstance(value, FunctionType):
            return value
        if value not in self.done:
            self.done[value] = None
            self.done[value] = self.jit(self._rebuild(value))
        if self.done[value] is None:
            raise TypeError(f"{value.__qualname__} calls itself, which cannot be compiled; use a loop")
        return self.done[value]


def bytecode(function: FunctionType) -> str:
    """A function's own code, and its module, in which cached kernels look for it when they are loaded."""
    return f"{function.__module__} {_code_parts(function.__code__)}"


def _code_parts(code: CodeType) -> list[Any]:
    constants = [_code_parts(const) if isinstance(const, CodeType) else const for const in code.co_consts]
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    called = code.co_argcount, code.co_posonlyargcount, code.co_flags, arguments
    return [code.co_code, constants, code.co_names, called]


class CodeDigest:
    """A digest of the code and the constants that functions reach, with `names` bound as in a `Walk`.

    `spell` writes out the code of one function, and `spell_table` the numbers of an array.
    """

    def __init__(
        self,
        functions: Sequence[Any],
        names: Mapping[str, Any],
        options: str = "",
        spell: Callable[[FunctionType], str] = bytecode,
        spell_table: Callable[[np.ndarray], object] = lambda table: table.tobytes(),
    ) -> None:
        self.names = names
        self.homes = [function.__globals__ for function in functions]
        self.spell = spell
        self.spell_table = spell_table
        self.digest = hashlib.sha256(options.encode())
        self.numbers: dict[FunctionType, int] = {}
        for name in sorted(names):  # also those that are not reached: policies with other constants share no folder
            self._note(name, names[name], [])
        for function in functions:
            self._note("function", function, [])

    @property
    def short(self) -> str:
        """The digest as 16 hexadecimal digits."""
        return self.digest.hexdigest()[:16]

    def _note_function(self, function: FunctionType) -> None:
        """Note a function's code, and what its names stand for."""
        used = sorted({name for code in with_inner(function.__code__) for name in code.co_names})
        self._add(self.spell(function))
        marks = ("out_of_line", "fused", "independent", "masked")
        self._add(", ".join(f"{mark} {hasattr(function, mark)}" for mark in marks))
        for values in named_values(function, self.names, self.homes):
            for name, value in values.items():
                self._note(name, value, used)
        self._note("defaults", function.__defaults__, used)
        self._note("keyword defaults", tuple(sorted((function.__kwdefaults__ or {}).items())), used)

    def _note(self, name: str, value: Any, used: list[str], depth: int = 3) -> None:
        """Note what a name stands for. In modules, the attributes that are `used` count: the compiler freezes them."""
        value = getattr(getattr(value, "_dispatcher", value), "py_func", value)  # compiled by numba: its Python
        if isinstance(value, FunctionType):
            known = value in self.numbers
            number = self.numbers.setdefault(value, len(self.numbers))
            self._add(f"{name}: function {number}")
            if not known:
                self._note_function(value)
        elif isinstance(value, ModuleType):
            for attribute in used if depth else ():
                found = vars(value).get(attribute)  # asked for, an old name of NumPy's would warn
                if found is not None:
                    self._note(f"{name}.{attribute}", found, used, depth - 1)
        elif isinstance(value, np.ndarray):
            self._add(f"{name}: {value.dtype} {value.shape} {self.spell_table(value)}")
        elif isinstance(value, tuple):
            self._add(f"{name}: {type(value).__qualname__} {getattr(value, '_fields', '')} of {len(value)}")
            for place, part in enumerate(value):
                self._note(f"{name}[{place}]", part, used)
        elif isinstance(value, enum.Enum):
            self._add(f"{name}: {type(value).__qualname__}.{value.name}")
            self._note(name, value.value, used)
        elif isinstance(value, enum.EnumMeta):
            self._note(name, tuple(value.__members__.values()), used)
        elif isinstance(value, np.generic):
            self._add(f"{name}: {value.dtype} {value.item()!r}")
        elif value is None or isinstance(value, (bool, int, float, complex, str)):
            self._add(f"{name}: {type(value).__qualname__} {value!r}")
        elif callable(value):
            called = getattr(value, "__module__", ""), getattr(value, "__qualname__", getattr(value, "__name__", ""))
            self._add(f"{name} is {called} {getattr(value, '_fields', '')}")

    def _add(self, text: str) -> None:
        self.digest.update(text.encode() + b"\0")


def named_values(
    function: FunctionType, names: Mapping[str, Any], homes: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a function's global names stand for, sorted by name, and what its closure holds.

    `names` are bound in the kernels' own modules, `homes`, and in modules that say BOUND_FOR_EACH_POLICY.
    """
    scope, code = function.__globals__, function.__code__
    takes_names = "BOUND_FOR_EACH_POLICY" in scope or any(scope is home for home in homes)
    known = {**scope, **names} if takes_names else scope
    found = {name: known[name] for name in sorted(_global_names(code)) if name in known}
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    return found, {name: cell.cell_contents for name, cell in cells}


def with_inner(code: CodeType) -> list[CodeType]:
    """The code of a function and of those inside it."""
    inner = [with_inner(const) for const in code.co_consts if isinstance(const, CodeType)]
    return [code, *itertools.chain.from_iterable(inner)]


@functools.cache
def _global_names(code: CodeType) -> set[str]:
    """The names that are looked up as globals, of functions inside too. `sqrt` in `math.sqrt` is not one."""
    steps = itertools.chain.from_iterable(map(dis.get_instructions, with_inner(code)))
    return {step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
