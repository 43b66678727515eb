"""posse: multi-task bandits that share data robustly.

>>> import posse
>>> problems = posse.generate.subpar(8, count=2, seed=1)
>>> result = posse.simulate(problems, [posse.RobustAggTS(0.15), posse.IndTS()], horizon=500)
>>> result.final_regret.shape
(2, 2, 1)
"""

import importlib
from typing import TYPE_CHECKING, Any

from posse import generate, learner, policies, rewards, schedule, simulation
from posse.attributes import Attributes
from posse.learner import Decision, Learner
from posse.policies import *  # noqa: F403  (every policy file, found by itself)
from posse.policies import Policy
from posse.problem import Problem
from posse.simulation import Result, simulate
from posse.version import __version__

if TYPE_CHECKING:
    from posse.service.client import AsyncClient as AsyncClient
    from posse.service.client import Client as Client


def __getattr__(name: str) -> Any:
    """The parts that are imported when first used, because they need more or cost time."""
    if name in ("bench", "experiments", "insight", "service", "testing"):
        return importlib.import_module(f"posse.{name}")
    if name in ("AsyncClient", "Client"):
        return getattr(importlib.import_module("posse.service.client"), name)
    raise AttributeError(f"module 'posse' has no attribute {name!r}")


__all__ = [
    "Attributes",
    "Decision",
    "Learner",
    "Policy",
    "Problem",
    "Result",
    "__version__",
    "generate",
    "learner",
    "policies",
    "rewards",
    "schedule",
    "simulate",
    "simulation",
    *policies.__all__,
]
