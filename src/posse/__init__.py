"""posse: multi-task bandits that share data robustly.

>>> import posse
>>> problems = posse.generate.subpar(8, count=2, seed=1)
>>> result = posse.simulate(problems, [posse.PosseTS(), posse.IndTSV()], horizon=500)
>>> result.final_regret.shape
(2, 2, 1)

Everything is imported when it is first used, so that a client of the service loads neither NumPy nor Numba.
"""

import importlib
from typing import TYPE_CHECKING, Any

from posse.version import __version__ as __version__

if TYPE_CHECKING:
    from posse import generate as generate
    from posse import learner as learner
    from posse import policies as policies
    from posse import rewards as rewards
    from posse import schedule as schedule
    from posse import simulation as simulation
    from posse.attributes import Attributes as Attributes
    from posse.decision import Decision as Decision
    from posse.learner import Learner as Learner
    from posse.outcomes import Outcome as Outcome
    from posse.policies import Policy as Policy
    from posse.problem import Problem as Problem
    from posse.service.client import AsyncClient as AsyncClient
    from posse.service.client import Client as Client
    from posse.simulation import Result as Result
    from posse.simulation import simulate as simulate

_MODULES = ("generate", "learner", "policies", "rewards", "schedule", "simulation")
_OPTIONAL = ("bench", "experiments", "insight", "service", "testing")  # not part of `from posse import *`
_HOMES = {
    **{"Attributes": "attributes", "Decision": "decision", "Learner": "learner", "Outcome": "outcomes"},
    **{"Problem": "problem", "Result": "simulation", "simulate": "simulation"},
    **{"Client": "service.client", "AsyncClient": "service.client"},
}


def __getattr__(name: str) -> Any:
    """A module, a name of one, or a policy."""
    if name in (*_MODULES, *_OPTIONAL):
        return importlib.import_module(f"posse.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"posse.{_HOMES[name]}"), name)
    if name == "__all__":
        own = [each for each in _HOMES if "Client" not in each]  # those need httpx
        return sorted({"__version__", *_MODULES, *own, *__getattr__("policies").__all__})
    if not name.startswith("_") and name in __getattr__("policies").__all__:
        return getattr(__getattr__("policies"), name)
    raise AttributeError(f"module 'posse' has no attribute {name!r}{_elsewhere(name)}")


def _elsewhere(name: str) -> str:
    """Where a public name is that is not here."""
    modules = () if name.startswith("_") else (*_MODULES, "insight", "testing")
    found = [f"posse.{module}.{name}" for module in modules if name in vars(__getattr__(module)).get("__all__", ())]
    return f"; did you mean {found[0]}?" if found else ""


def __dir__() -> list[str]:
    return sorted({*globals(), *_OPTIONAL, *_HOMES, *__getattr__("__all__")})
