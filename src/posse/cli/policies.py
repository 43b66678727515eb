"""Policies that are named on the command line, as --policy."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from posse.checks import did_you_mean

if TYPE_CHECKING:
    from posse.policies import Policy


def named_policies(texts: Iterable[str], known: list[Policy]) -> list[Policy]:
    """The policies that are named: each a class, an algorithm or a label of those known, or one with other numbers."""
    from posse.policies.labels import matching_labels

    labels = [policy.label for policy in known]
    chosen: dict[Policy, None] = {}
    for text in texts:
        meant = matching_labels(text, labels)
        chosen |= dict.fromkeys([policy for policy in known if policy.label in meant] or [read_policy(text)])
    return list(chosen)


def policy_classes() -> dict[str, type[Policy]]:
    """posse's policies and those of imported files, by the name of the class and by the name that labels have."""
    from posse.policies import all_policies
    from posse.policies.user import imported_files

    modules = ("posse.policies.", *(file.stem for file in imported_files()))
    own = [cls for cls in all_policies() if cls.__module__.startswith(modules) and not cls.__name__.startswith("_")]
    return {cls.name: cls for cls in own if cls.name} | {cls.__name__: cls for cls in own}


def read_policy(text: str) -> Policy:
    """A policy from its name and numbers, or from its label.

    >>> read_policy("RobustAggTS(0.1, c1=2)").label
    'RobustAgg-TS(0.1, c1=2)'
    >>> read_policy("RobustAgg-TS(0.1, c1=2)").label
    'RobustAgg-TS(0.1, c1=2)'
    >>> read_policy("KL-UCB++").label
    'KL-UCB++'
    """
    name, bracket, rest = text.strip().partition("(")
    known = policy_classes()
    try:
        call = ast.parse(f"policy({rest}" if bracket else "policy()", mode="eval").body
        if not isinstance(call, ast.Call):
            raise SyntaxError
        given = [ast.literal_eval(argument) for argument in call.args]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError):
        raise ValueError(f"--policy {text!r}, but expected a name and numbers, such as 'RobustAggTS(0.1)'") from None
    if name.strip() not in known:
        meant, there = did_you_mean(name, known), ", ".join(sorted({cls.__name__ for cls in known.values()}))
        raise ValueError(f"--policy {text!r}{meant}, but expected one of {there}, such as 'RobustAggTS(0.1)'")
    try:
        return known[name.strip()](*given, **named)
    except TypeError as error:
        raise ValueError(f"--policy {text!r}: {error}") from None
