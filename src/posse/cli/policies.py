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
        found = [policy for policy in known if policy.label in meant or type(policy).__name__ == text]
        chosen |= dict.fromkeys(found or [read_policy(text)])
    return list(chosen)


def with_class_name(text: str) -> str:
    """The text of a policy with the name of its class in place of the name that its label has."""
    from posse.policies import all_policies

    name, bracket, rest = text.strip().partition("(")
    own = (cls for cls in all_policies() if cls.__module__.startswith("posse.policies."))
    classes = {cls.name: cls.__name__ for cls in own if cls.name}
    return classes.get(name.strip(), name) + bracket + rest


def read_policy(text: str) -> Policy:
    """A policy from its name and numbers, or from its label.

    >>> read_policy("RobustAggTS(0.1, c1=2)").label
    'RobustAgg-TS(0.1, c1=2)'
    >>> read_policy("RobustAgg-TS(0.1, c1=2)").label
    'RobustAgg-TS(0.1, c1=2)'
    >>> read_policy("KL-UCB++").label
    'KL-UCB++'
    """
    from posse import policies

    own = {cls.__name__: cls for cls in policies.all_policies() if cls.__module__.startswith("posse.policies.")}
    try:
        call = ast.parse(with_class_name(text), mode="eval").body
        call = call if isinstance(call, ast.Call) else ast.Call(call, [], [])
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        given = [ast.literal_eval(argument) for argument in call.args]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError):
        raise ValueError(f"--policy {text!r}, but expected a name and numbers, such as 'RobustAggTS(0.1)'") from None
    if name not in own:
        meant = did_you_mean(text.partition("(")[0], own)
        there = ", ".join(sorted(own))
        raise ValueError(f"--policy {text!r}{meant}, but expected one of {there}, such as 'RobustAggTS(0.1)'")
    try:
        return own[name](*given, **named)
    except TypeError as error:
        raise ValueError(f"--policy {text!r}: {error}") from None
