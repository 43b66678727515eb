"""The digest of a function's source and of all that it reaches: the same on every Python, until any of it is edited."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from posse.compile.walk import CodeDigest, bytecode

DIGITS = 12  # significant digits of numbers in tables, which libraries may compute a little differently


def source_digest(function: Callable[..., Any], **names: Any) -> str:
    """A digest of the source of a function and of everything that it reaches, with `names` bound in its module.

    Layout, comments, docstrings and annotations do not change it. A function whose source is not there, as one typed
    in at a prompt, counts by its bytecode, which differs between versions of Python.
    """
    return CodeDigest([function], names, spell=_spell, spell_table=_rounded).short


def _rounded(table: np.ndarray) -> list[str]:
    return [f"{float(x):.{DIGITS - 1}e}" if table.dtype.kind == "f" else repr(x) for x in table.ravel().tolist()]


def _spell(function: FunctionType) -> str:
    """A function's source, or its bytecode if the lines are not there or hold more, such as a lambda among others."""
    try:
        (found,) = ast.parse(textwrap.dedent("".join(inspect.getsourcelines(function)[0]))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return f"bytecode {bytecode(function)}"
    name = function.__code__.co_name
    if isinstance(found, ast.FunctionDef) and found.name == name:
        found.decorator_list = []  # `staticmethod` and marks; what they do to the function shows in what it is
        return _spelled(found)
    lambdas = [node for node in ast.walk(found) if isinstance(node, ast.Lambda)]
    return _spelled(lambdas[0]) if len(lambdas) == 1 and name == "<lambda>" else f"bytecode {bytecode(function)}"


def _spelled(node: Any) -> str:
    """A part of a syntax tree, written out without docstrings and annotations.

    `ast.unparse` and `ast.dump` write differently from version to version.
    """
    if isinstance(node, list):
        return f"[{', '.join(map(_spelled, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.AnnAssign):
        node = ast.Pass() if node.value is None else ast.Assign([node.target], node.value)
    fields = {name: value for name, value in ast.iter_fields(node) if name not in ("ctx", "annotation", "returns")}
    if isinstance(node, ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:] or [ast.Pass()]
    if isinstance(node, ast.JoinedStr):  # Python 3.12 adds empty parts
        fields["values"] = [part for part in node.values if getattr(part, "value", None) != ""]
    parts = [f"{name}={_spelled(value)}" for name, value in sorted(fields.items()) if value not in (None, [])]
    return f"{type(node).__name__}({', '.join(parts)})"
