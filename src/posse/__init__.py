"""posse: multi-task bandits that share data robustly.

>>> import posse
>>> problems = posse.generate.subpar(8, count=2, seed=1)
>>> result = posse.simulate(problems, [posse.RobustAggTS(0.15), posse.IndTS()], horizon=500)
>>> result.final_regret.shape
(2, 2, 1)
"""

from posse import generate, policies, rewards, schedule, simulation
from posse.policies import *  # noqa: F403  (every policy file, found by itself)
from posse.policies import Policy
from posse.problem import Problem
from posse.simulation import Result, simulate
from posse.version import __version__

__all__ = [
    "Policy",
    "Problem",
    "Result",
    "__version__",
    "generate",
    "policies",
    "rewards",
    "schedule",
    "simulate",
    "simulation",
    *policies.__all__,
]
