"""What a user reads when a policy cannot be compiled: a few lines, with the place in the user's own file."""

from __future__ import annotations

import ast
import functools
import gc
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from numba.core import event

from posse.compile.progress import CompileProgress
from posse.compile.walk import Walk


class CompileError(TypeError):
    """A function that cannot be compiled. `original` is the compiler's own error."""

    original: BaseException


class Failures(event.Listener):  # type: ignore[misc]
    """Remembers the first function of a walk whose compilation failed, which is the innermost, and its error."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.first: tuple[FunctionType, BaseException] | None = None

    def on_start(self, event: Any) -> None:
        """Nothing has failed yet."""

    def on_end(self, event: Any) -> None:
        """Remember it if it failed."""
        function = self.walk.origin.get(event.data["dispatcher"].py_func)
        failed = event._exc_details  # `is_failed` is wrong in some versions of numba
        if self.first is None and function is not None and failed is not None:
            self.first = function, failed[1]


def watched(dispatchers: Iterable[Any], method: str, walk: Walk, what: str) -> list[Any]:
    """The dispatchers of a walk, whose `method`, called to compile, shows progress and raises errors of ours.

    numba calls it only for argument types that it has not met, so a call of a compiled kernel costs nothing more.
    """
    progress = CompileProgress(what, walk.origin)
    found = list(dispatchers)
    for dispatcher in found:
        compile_ = functools.partial(_compile, getattr(dispatcher, method), walk, what, progress)
        setattr(dispatcher, method, compile_)
    return found


def _compile(method: Callable[..., Any], walk: Walk, what: str, progress: CompileProgress, *args: Any) -> Any:
    failures = Failures(walk)
    collects = gc.isenabled()
    gc.disable()  # the compiler makes millions of objects and keeps most of them
    progress.open()
    try:
        with event.install_listener("numba:compile", progress), event.install_listener("numba:compile", failures):
            return method(*args)
    except Exception as error:
        if failures.first is None and not _is_about_the_code(error):
            raise
        function, inner = failures.first or (None, error)
        told = CompileError(explanation(walk, what, function, inner))
        told.original = error
        raise told from None
    finally:
        progress.close()
        if collects:
            gc.enable()


def _is_about_the_code(error: Exception) -> bool:
    """Whether the compiler objects to the code; numba lets some plain Python errors through."""
    names = {cls.__name__ for cls in type(error).__mro__}
    unknown = isinstance(error, AttributeError) and "has no attribute" in str(error)
    return bool({"NumbaError", "UnsupportedBytecodeError"} & names) or unknown or isinstance(error, NotImplementedError)


@dataclass(frozen=True)
class CodePlace:
    """A line of a function."""

    function: FunctionType
    line: int

    @property
    def first(self) -> int:
        """The line where the function begins, its decorators included."""
        return self.function.__code__.co_firstlineno


def explanation(walk: Walk, what: str, function: FunctionType | None, error: BaseException) -> str:
    """The message: which function, why, and where."""
    text = str(error)
    place = _place(walk, function, text)
    if place is None:
        return f"{what or 'the kernel'} cannot be compiled: {_first_line(text)}"
    reason, place = _reason(walk, place, text)
    name = place.function.__qualname__.rpartition("<locals>.")[2]
    of = f"{what}: " if what and what not in name else ""
    lines = _source_lines(place.function)
    number = place.line - place.first
    line = f"\n    {lines[number].strip()}" if 0 <= number < len(lines) else ""
    file = place.function.__code__.co_filename
    return f'{of}{name} cannot be compiled: {reason}\n  File "{file}", line {place.line}{line}'


def _place(walk: Walk, function: FunctionType | None, text: str) -> CodePlace | None:
    """Where the error is: the first line of the function that the compiler's text names, or its first line."""
    functions = [function] if function else list(walk.origin.values())
    for path, line in re.findall(r"(?:at|from) (\S[^\n]*?) \((\d+)\)", text):
        for candidate in functions:
            lines = _source_lines(candidate)
            first = candidate.__code__.co_firstlineno
            if candidate.__code__.co_filename == path and first <= int(line) < first + max(len(lines), 1):
                return CodePlace(candidate, int(line))
    return _beginning(function) if function else None


def _beginning(function: FunctionType) -> CodePlace:
    """The line with the function's `def`, below its decorators."""
    place = CodePlace(function, function.__code__.co_firstlineno)
    return _find(place, lambda node: isinstance(node, ast.FunctionDef))


UNSUPPORTED: dict[type[ast.AST], str] = {
    ast.JoinedStr: "an f-string",
    ast.Dict: "a dict",
    ast.DictComp: "a dict",
    ast.Set: "a set",
    ast.SetComp: "a set",
    ast.Try: "try and except",
    ast.With: "a with statement",
    ast.Import: "an import",
    ast.ImportFrom: "an import",
    ast.GeneratorExp: "a generator",
    ast.Yield: "a generator",
    ast.ListComp: "a list",
    ast.List: "a list",
    ast.ClassDef: "a class",
    ast.Await: "await",
    ast.Global: "a global statement",
}
ONLY_NUMBERS = "compiled code works with numbers, tuples, arrays, `math` and other such functions"


def _reason(walk: Walk, place: CodePlace, text: str) -> tuple[str, CodePlace]:
    """Why it failed in plain words, and the place of that."""
    first = _first_line(text)
    if found := re.search(r"name '(\w+)' is not defined|[Vv]ariable '(\w+)' referenced before assignment", text):
        name = found[1] or found[2]
        return f"the name '{name}' is not defined", _find(place, lambda node: getattr(node, "id", "") == name)
    if found := re.search(r"module '([\w.]+)' has no attribute '(\w+)'", text):
        module, name = found[1], found[2]
        return f"{module} has no '{name}'", _find(place, lambda node: getattr(node, "attr", "") == name)
    if returned := _wrong_return(walk, place, text):
        return returned
    for node in _nodes(place, around_line=True) + _nodes(place, around_line=False):
        if type(node) in UNSUPPORTED:
            line = place.first + getattr(node, "lineno", 1) - 1
            return f"it uses {UNSUPPORTED[type(node)]}; {ONLY_NUMBERS}", CodePlace(place.function, line)
    if found := re.search(r"Unknown attribute '(\w+)' of type (.*)", text):
        return f"{_kind(found[2])} has no attribute '{found[1]}'", place
    if found := re.search(r"Untyped global name '(\w+)'", text):
        name = found[1]
        where = _find(place, lambda node: getattr(node, "id", "") == name)
        return f"'{name}' stands for something that compiled code cannot use; {ONLY_NUMBERS}", where
    if found := re.search(r">>> (\w+)\((.*)\)", text):
        kinds = ", ".join(_kind(part) for part in _split(found[2]))
        return f"'{found[1]}' cannot be applied to ({kinds})", place
    if "Can't unify return type" in text:
        return "its return statements give values of different types", place
    if re.search(r"too many positional arguments|missing a required argument|to signature '.*' due to", text):
        return "it calls a function with other arguments than that takes", place
    if found := re.search(r"Cannot unify (.*) and (.*) for '([\w.]+)'", text):
        name = found[3].partition(".")[0]
        return f"'{name}' is {_kind(found[1])} on one way and {_kind(found[2])} on another", place
    if "NRT required" in text:
        return f"it makes a list, a string, an array or another object; {ONLY_NUMBERS}", place
    return first, place


def _wrong_return(walk: Walk, place: CodePlace, text: str) -> tuple[str, CodePlace] | None:
    """A bound function that returns other than what the line at this place unpacks, with its `return` as the place."""
    unpacked = re.search(r"failed to unpack (.*)|wrong tuple length.*expected \d+, got (\d+)", text)
    stored = re.search(r">>> setitem\((.*)\)", text)
    for node in _nodes(place, around_line=True) if unpacked or stored else ():
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)):
            continue
        called = walk.names.get(getattr(getattr(node.value, "func", None), "id", ""))
        if isinstance(called, FunctionType):
            gives = (
                unpacked[2] or _kind(unpacked[1]) if unpacked else _kind(list(_split(stored[1] if stored else ""))[-1])
            )
            wanted = len(node.targets[0].elts)
            returned = _find(_beginning(called), lambda node: isinstance(node, ast.Return))
            return f"it must return {wanted} numbers, but returns {gives}", returned
    return None


def _first_line(text: str) -> str:
    """The first line of the compiler's text that says something."""
    lines = (line.strip() for line in text.splitlines())
    return next((line for line in lines if line and not line.startswith("Failed in nopython")), "unknown reason")


def _source_lines(function: FunctionType) -> list[str]:
    try:
        return inspect.getsourcelines(function)[0]
    except (OSError, TypeError):
        return []


def _nodes(place: CodePlace, around_line: bool) -> list[ast.AST]:
    """The parts of a function's source, or those that begin on the line of the place."""
    try:
        tree = ast.parse(textwrap.dedent("".join(_source_lines(place.function))))
    except SyntaxError:
        return []
    number = place.line - place.first + 1
    nodes = [node for node in ast.walk(tree) if hasattr(node, "lineno")]
    return [node for node in nodes if not around_line or getattr(node, "lineno", 0) == number]


def _find(place: CodePlace, matches: Callable[[ast.AST], bool]) -> CodePlace:
    """The first line of the function with such a part, or the place itself."""
    lines = sorted(getattr(node, "lineno", 1) for node in _nodes(place, around_line=False) if matches(node))
    return CodePlace(place.function, place.first + lines[0] - 1) if lines else place


def _split(types: str) -> Iterator[str]:
    """The types of a list that commas part, without parting what is in brackets."""
    yield from (part.strip() for part in re.split(r",\s*(?![^(\[]*[)\]])", types) if part.strip())


def _kind(name: str) -> str:
    """A type of the compiler's in plain words."""
    name = name.strip().rstrip(":,")
    for start, kind in (
        ("float", "a number"),
        ("int", "a number"),
        ("uint", "a number"),
        ("Literal[int]", "a number"),
        ("complex", "a complex number"),
        ("bool", "a truth value"),
        ("unicode", "a string"),
        ("Literal[str]", "a string"),
        ("array", "an array"),
        ("none", "None"),
        ("Tuple", "a tuple"),
        ("UniTuple", "a tuple"),
        ("reflected list", "a list"),
    ):
        if name.startswith(start):
            return kind
    return name
