"""What is measured: the setting of the paper's experiments, posse's policies, and users' own."""

from __future__ import annotations

import dataclasses
import math
import sys
from pathlib import Path
from typing import Any

from posse.policies import Policy, all_policies

EPSILON = 0.15
PLAYERS = 20
ARMS = 10
HORIZON = 50_000
PAPER_POLICIES = ("RobustAggTS", "RobustAggTSV", "RobustAgg", "IndTS", "IndUCB")


def shipped() -> dict[str, type[Policy]]:
    """posse's own policies by class name."""
    return {cls.__name__: cls for cls in all_policies() if cls.__module__.startswith("posse.policies.")}


def example(cls: type[Policy]) -> Policy:
    """The policy as it is measured. Where it needs them, it gets ε = 0.15 or the spread that goes with it."""
    needed = {field.name for field in dataclasses.fields(cls) if field.default is dataclasses.MISSING}
    given: dict[str, Any] = {"epsilon": EPSILON, "spread": EPSILON / math.sqrt(12)}
    missing = needed - set(given)
    if missing:
        raise ValueError(
            f"{cls.__name__} needs {' and '.join(sorted(missing))}; give each a default, or list what is to be "
            f"measured in the file that defines it: POLICIES = [{cls.__name__}({', '.join(sorted(missing))}=…)]"
        )
    return cls(**{name: given[name] for name in needed})


def from_file(path: str | Path) -> list[Policy]:
    """The policies of a user's file: those in its list POLICIES if it has one, otherwise an example of each class."""
    from posse.policies.user import import_file

    classes = import_file(path)
    listed = getattr(sys.modules[Path(path).stem], "POLICIES", None)
    if listed is None:
        return [example(cls) for cls in classes]
    for each in listed:
        if not isinstance(each, Policy):
            raise ValueError(f"{path}: POLICIES has {each!r}, but expected policies, such as MyTS(0.1)")
    return list(listed)
