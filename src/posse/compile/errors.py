"""What a user reads when a policy cannot be compiled: a few lines, with the place in the user's own file."""

from __future__ import annotations

import ast
import dis
import functools
import gc
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from numba.core import event

from posse.compile.progress import CompileProgress
from posse.compile.walk import Walk, named_values, with_inner


class CompileError(TypeError):
    """A function that cannot be compiled. `original` is the compiler's own error, if it was the compiler's."""

    original: BaseException | None = None


def watched(dispatchers: list[Any], method: str, walk: Walk, what: str) -> list[Any]:
    """The dispatchers of a walk, whose `method`, called to compile, shows progress and raises errors of ours.

    A walk that meets a function which draws random numbers is refused. numba calls the method only for argument types
    that it has not met, so a call of a compiled kernel costs nothing more.
    """
    for function in walk.origin.values():
        if place := _draw(function, walk):
            raise CompileError(_message(what, DRAWS, place))
    progress = CompileProgress(what, walk.origin)
    for dispatcher in dispatchers:
        compile_ = functools.partial(_compile, getattr(dispatcher, method), walk, what, progress)
        setattr(dispatcher, method, compile_)
    return dispatchers


def _compile(method: Callable[..., Any], walk: Walk, what: str, progress: CompileProgress, *args: Any) -> Any:
    collects = gc.isenabled()
    gc.disable()  # the compiler makes millions of objects and keeps most of them
    progress.open()
    try:
        with event.install_listener("numba:compile", progress), event.install_recorder("numba:compile") as recorder:
            return method(*args)
    except Exception as error:
        # The function of the walk that failed first is the innermost. `is_failed` is wrong in some versions of numba.
        ended = [(each.data["dispatcher"].py_func, each._exc_details) for _, each in recorder.buffer]
        known = ((walk.origin.get(made), details) for made, details in ended)
        failed: list[Any] = [(function, details[1]) for function, details in known if function and details]
        if not failed and not _is_about_the_code(error):
            raise
        told = CompileError(explanation(walk, what, *(failed or [(None, error)])[0]))
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
    return unknown or bool({"NumbaError", "UnsupportedBytecodeError", "NotImplementedError"} & names)


class CodePlace(NamedTuple):
    """A line of a function."""

    function: FunctionType
    line: int

    @property
    def first(self) -> int:
        """The line where the function begins, its decorators included."""
        return self.function.__code__.co_firstlineno

    def source(self) -> list[str]:
        """The lines of the function; none if its source is not there."""
        try:
            return inspect.getsourcelines(self.function)[0]
        except (OSError, TypeError):
            return []

    def nodes(self) -> list[tuple[int, Any]]:
        """The parts of the function's source, each with the line where it begins, those of this line first."""
        try:
            tree = ast.parse(textwrap.dedent("".join(self.source())))
        except SyntaxError:
            return []
        found = [(self.first + node.lineno - 1, node) for node in ast.walk(tree) if hasattr(node, "lineno")]
        return sorted(found, key=lambda each: each[0] != self.line)

    def find(self, matches: Callable[[Any], bool]) -> CodePlace:
        """The first line of the function with such a part, or the place itself."""
        return self._replace(line=min((line for line, node in self.nodes() if matches(node)), default=self.line))

    def find_name(self, name: str) -> CodePlace:
        """The first line with a name or an attribute of this name."""
        return self.find(lambda node: name in (getattr(node, "id", ""), getattr(node, "attr", "")))


def explanation(walk: Walk, what: str, function: FunctionType | None, error: BaseException) -> str:
    """The message: which function, why, and where."""
    text = str(error)
    place = _place(walk, function, text)
    if place is None:
        return f"{what or 'the kernel'} cannot be compiled: {_first_line(text)}"
    return _message(what, *_reason(walk, place, text))


def _message(what: str, reason: str, place: CodePlace) -> str:
    name = place.function.__qualname__.rpartition("<locals>.")[2]
    of = f"{what}: " if what and what not in name else ""
    line = "".join(f"\n    {line.strip()}" for line in place.source()[place.line - place.first :][:1])
    file = place.function.__code__.co_filename
    return f'{of}{name} cannot be compiled: {reason}\n  File "{file}", line {place.line}{line}'


DRAWS = (
    "it draws random numbers, which no seed would repeat; all chance must come from the center and the scale that "
    "`index` returns (CONTRIBUTING.md says what an index cannot be)"
)


def _draw(function: FunctionType, walk: Walk) -> CodePlace | None:
    """Where a function, or one that it calls by a module's name, draws random numbers."""
    found, closed = named_values(function, walk.names, walk.homes)
    known, codes, value = found | closed, with_inner(function.__code__), None
    harmless = {"math"} if any("random" in code.co_names for code in codes) else {"math", "numpy"}
    if not any(
        _draws(each) or (isinstance(each, ModuleType) and each.__name__ not in harmless) for each in known.values()
    ):
        return None  # as most are, and told without a look at each instruction
    for step in (step for code in codes for step in dis.get_instructions(code)):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
            value = known.get(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, ModuleType):
            value = getattr(value, step.argval, None)
            called = getattr(value, "py_func", None)  # compiled by numba; by a name of its own it is in the walk
            if place := called and _draw(called, walk):
                return place
        else:
            value = None
        if _draws(value):
            return CodePlace(function, (step.positions and step.positions.lineno) or function.__code__.co_firstlineno)
    return None


def _draws(value: Any) -> bool:
    """Whether a value is one of the modules that draw random numbers, Python's or NumPy's, or a function of theirs."""
    module = value.__name__ if isinstance(value, ModuleType) else type(getattr(value, "__self__", None)).__module__
    return module.partition(".mtrand")[0] in ("random", "numpy.random")


def _place(walk: Walk, function: FunctionType | None, text: str) -> CodePlace | None:
    """Where the error is: the first line of the function that the compiler's text names, or its first line."""
    for path, line in re.findall(r"(?:at|from) (\S[^\n]*?) \((\d+)\)", text):
        for candidate in [function] if function else walk.origin.values():
            place = CodePlace(candidate, int(line))
            if candidate.__code__.co_filename == path and 0 <= place.line - place.first < max(len(place.source()), 1):
                return place
    return _beginning(function) if function else None


def _beginning(function: FunctionType) -> CodePlace:
    """The line with the function's `def`, below its decorators."""
    place = CodePlace(function, function.__code__.co_firstlineno)
    return place.find(lambda node: isinstance(node, ast.FunctionDef))


UNSUPPORTED: dict[str, Any] = {
    "an f-string": ast.JoinedStr,
    "a dict": ast.Dict | ast.DictComp,
    "a set": ast.Set | ast.SetComp,
    "try and except": ast.Try,
    "a with statement": ast.With,
    "an import": ast.Import | ast.ImportFrom,
    "a generator": ast.GeneratorExp | ast.Yield,
    "a list": ast.ListComp | ast.List,
    "a class": ast.ClassDef,
    "await": ast.Await,
    "a global statement": ast.Global,
}
ONLY_NUMBERS = "compiled code works with numbers, tuples, arrays, `math` and other such functions"

# What the compiler says, and the same in plain words. The place is the first line with the `name`, if there is one.
# Groups called `type` hold types of the compiler's.
UNKNOWN_NAMES = {
    r"name '(?P<name>\w+)' is not defined": "the name '{name}' is not defined",
    r"[Vv]ariable '(?P<name>\w+)' referenced before assignment": "the name '{name}' is not defined",
    r"module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'": "{module} has no '{name}'",
}
OTHER_REASONS = {
    r"Unknown attribute '(?P<word>\w+)' of type (?P<type>.*)": "{type} has no attribute '{word}'",
    r"Untyped global name '(?P<name>\w+)'": (
        f"'{{name}}' stands for something that compiled code cannot use; {ONLY_NUMBERS}"
    ),
    r">>> (?P<word>\w+)\((?P<types>.*)\)": "'{word}' cannot be applied to ({types})",
    "Can't unify return type": "its return statements give values of different types",
    "too many positional arguments|missing a required argument|to signature '.*' due to": (
        "it calls a function with other arguments than that takes"
    ),
    r"Cannot unify (?P<type>.*) and (?P<type2>.*) for '(?P<word>\w+)[\w.]*'": (
        "'{word}' is {type} on one way and {type2} on another"
    ),
    "NRT required": f"it makes a list, a string, an array or another object; {ONLY_NUMBERS}",
}
WRONG_RETURN = r"failed to unpack (.*)|wrong tuple length.*expected \d+, got (\d+)|>>> setitem\((.*)\)"


def _reason(walk: Walk, place: CodePlace, text: str) -> tuple[str, CodePlace]:
    """Why it failed in plain words, and the place of that."""
    return (
        _match(UNKNOWN_NAMES, place, text)
        or _wrong_return(walk, place, text)
        or _unsupported(place)
        or _match(OTHER_REASONS, place, text)
        or (_first_line(text), place)
    )


def _match(reasons: dict[str, str], place: CodePlace, text: str) -> tuple[str, CodePlace] | None:
    """The first of these reasons that is in the compiler's text."""
    for pattern, words in reasons.items():
        if found := re.search(pattern, text):
            groups = found.groupdict()
            kinds = {name: _kind(part) for name, part in groups.items() if name.startswith("type")}
            if "types" in groups:
                kinds["types"] = ", ".join(map(_kind, _split(groups["types"])))
            where = place.find_name(groups["name"]) if "name" in groups else place
            return words.format_map(groups | kinds), where
    return None


def _unsupported(place: CodePlace) -> tuple[str, CodePlace] | None:
    """A part of the source that compiled code cannot have, on the line of the place if there is one."""
    for line, node in place.nodes():
        for words, kind in UNSUPPORTED.items():
            if isinstance(node, kind):
                return f"it uses {words}; {ONLY_NUMBERS}", place._replace(line=line)
    return None


def _wrong_return(walk: Walk, place: CodePlace, text: str) -> tuple[str, CodePlace] | None:
    """A bound function that returns other than what the line at this place unpacks, with its `return` as the place."""
    found = re.search(WRONG_RETURN, text)
    for line, node in place.nodes():
        if line == place.line and isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            function: Any = place.function
            called = _called(node, {**function.__globals__, **walk.names}, walk.names)
            if found and called:
                gives = found[2] or _kind(found[1] or _split(found[3])[-1])
                returned = _beginning(called).find(lambda node: isinstance(node, ast.Return))
                return f"it must return {len(node.targets[0].elts)} numbers, but returns {gives}", returned
    return None


def _called(node: Any, scope: Mapping[str, Any], names: Mapping[str, Any]) -> FunctionType | None:
    """The function whose result an assignment or a `return` takes. One of posse's stands for the one it calls."""
    called = scope.get(getattr(getattr(node.value, "func", None), "id", ""))
    if not isinstance(called, FunctionType):
        return None
    own = (called.__module__ or "").startswith("posse.")
    returns = [each for _, each in _beginning(called).nodes() if isinstance(each, ast.Return)] if own else []
    return _called(returns[0], {**called.__globals__, **names}, names) or called if returns else called


def _first_line(text: str) -> str:
    """The first line of the compiler's text that says something."""
    said = re.search(r"^\s*(?!Failed in nopython)(\S.*?)\s*$", text, re.MULTILINE)
    return said[1] if said else "unknown reason"


def _split(types: str) -> list[str]:
    """The types of a list that commas part, without parting what is in brackets."""
    return [part.strip() for part in re.split(r",\s*(?![^(\[]*[)\]])", types) if part.strip()]


KINDS = {
    r"float|u?int|Literal\[int\]": "a number",
    "complex": "a complex number",
    "bool": "a truth value",
    r"unicode|Literal\[str\]": "a string",
    "array": "an array",
    "none": "None",
    "Tuple|UniTuple": "a tuple",
    "reflected list": "a list",
}


def _kind(name: str) -> str:
    """A type of the compiler's in plain words."""
    name = name.strip().rstrip(":,")
    return next((kind for start, kind in KINDS.items() if re.match(start, name)), name)
