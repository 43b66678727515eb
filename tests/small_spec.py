"""A small spec, and the same with something replaced, for the tests of specs."""

from __future__ import annotations

SMALL = """
title = "Small"
seed = 3

[[study]]
name = "one"
horizon = 40

[study.problems]
family = "subpar"
n_subpar = 2
count = 3
players = 4
arms = 3

[[study.policies]]
name = "RobustAggTS"
epsilon = "problem"

[[study.policies]]
name = "IndTS"
"""


ATTRIBUTES = 'family = "structured"\nattributes = { region = 2, age = [30] }\nspread = 0.3'
GROUPS = 'family = "structured"\ngroups = 2\nmajority = 0.75'


def small(old: str = "", new: str = "") -> str:
    assert old in SMALL
    return SMALL.replace(old, new) if old else SMALL
