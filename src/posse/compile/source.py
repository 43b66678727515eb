"""The digest of a function's source and of all that it reaches: the same on every Python, until any of it is edited."""

from __future__ import annotations

import ast
import enum
import hashlib
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from posse.compile.walk import code_digest, global_names, takes_names

DIGITS = 12  # significant digits of numbers in tables, which libraries may compute a little differently


def source_digest(function: Callable[..., Any], **names: Any) -> str:
    """A digest of the source of a function and of everything that it reaches, with `names` bound in its module.

    Layout, comments, docstrings and annotations do not change it. A function whose source is not there, as one typed
    in at a prompt, counts by its bytecode, which differs between versions of Python.
    """
    walk = SourceWalk(function, names)
    return walk.digest.hexdigest()[:16]


class SourceWalk:
    """A walk over the source that a function reaches; `digest` covers all of it."""

    def __init__(self, function: Any, names: dict[str, Any]) -> None:
        self.names = names
        self.homes = [function.__globals__]
        self.digest = hashlib.sha256()
        self.numbers: dict[Any, int] = {}
        for name in sorted(names):
            self._note(name, names[name], frozenset())
        self._note("function", function, frozenset())

    def _note_function(self, function: FunctionType) -> None:
        """Note a function's source, and what its names stand for."""
        used = frozenset(_attributes(function))
        source = normal_source(function)
        self._add(source if source is not None else f"bytecode {code_digest(function)}")
        self._add(f"out of line {hasattr(function, 'out_of_line')}")
        scope = function.__globals__
        bound = self.names if takes_names(function, self.homes) else {}
        for name in sorted(global_names(function.__code__) & (scope.keys() | bound.keys())):
            self._note(name, bound.get(name, scope.get(name)), used)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self._note(name, cell.cell_contents, used)
        self._note("defaults", function.__defaults__, used)
        self._note("keyword defaults", tuple(sorted((function.__kwdefaults__ or {}).items())), used)

    def _note(self, name: str, value: Any, used: frozenset[str], depth: int = 3) -> None:
        value = getattr(getattr(value, "_dispatcher", value), "py_func", value)  # compiled by numba: its Python
        if isinstance(value, FunctionType):
            known = value in self.numbers
            number = self.numbers.setdefault(value, len(self.numbers))
            self._add(f"{name}: function {number}")
            if not known:
                self._note_function(value)
        elif isinstance(value, ModuleType):
            for attribute in sorted(used) if depth else ():
                found = getattr(value, attribute, None)
                if found is not None:
                    self._note(f"{name}.{attribute}", found, used, depth - 1)
        elif isinstance(value, np.ndarray):
            self._add(f"{name}: {value.dtype} {value.shape} {_rounded(value)}")
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


def _rounded(table: np.ndarray) -> list[str]:
    return [f"{float(x):.{DIGITS - 1}e}" if table.dtype.kind == "f" else repr(x) for x in table.ravel().tolist()]


def _attributes(function: FunctionType) -> set[str]:
    """The attribute names in a function, by which parts of modules are looked up."""
    found: set[str] = set()
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        found.update(code.co_names)
        codes += [const for const in code.co_consts if isinstance(const, type(code))]
    return found


def normal_source(function: FunctionType) -> str | None:
    """The function's source without layout, comments, docstrings and annotations, or None if it is not there.

    None too where the lines hold more than this function, such as a lambda among others: then they do not tell which
    one it is.
    """
    try:
        lines, _ = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return None
    if len(tree.body) != 1:
        return None
    (found,) = tree.body
    if not isinstance(found, ast.FunctionDef) or found.name != function.__code__.co_name:
        return _only_lambda(found, function)
    found.decorator_list = []  # `staticmethod` and marks; what they do to the function shows in what it is
    return _spelled(_Bare().visit(found))


def _only_lambda(statement: ast.stmt, function: FunctionType) -> str | None:
    lambdas = [node for node in ast.walk(statement) if isinstance(node, ast.Lambda)]
    return _spelled(lambdas[0]) if len(lambdas) == 1 and function.__code__.co_name == "<lambda>" else None


def _spelled(node: Any) -> str:
    """A part of a syntax tree, written out. `ast.unparse` and `ast.dump` write differently from version to version."""
    if isinstance(node, list):
        return f"[{', '.join(map(_spelled, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = ((name, value) for name, value in ast.iter_fields(node) if name != "ctx" and value not in (None, []))
    return f"{type(node).__name__}({', '.join(f'{name}={_spelled(value)}' for name, value in sorted(fields))})"


class _Bare(ast.NodeTransformer):
    """Takes out docstrings, annotations and what only some versions of Python put in."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.returns = None
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.generic_visit(node)
        node.values = [
            part for part in node.values if getattr(part, "value", None) != ""
        ]  # Python 3.12 adds empty ones
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is None:
            return ast.Pass()
        return ast.copy_location(ast.Assign([node.target], node.value), node)
