"""The policies, one file each. A file added to this folder is found by itself."""

import importlib
import pkgutil

from posse.policies.base import Law, Look, Policy, all_policies, several
from posse.policies.refresh import Refresh
from posse.policies.statistics import Statistic

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

_found = {cls.__name__: cls for cls in all_policies() if cls.__module__.startswith(__name__ + ".")}
globals().update(_found)

__all__ = ["Law", "Look", "Policy", "Refresh", "Statistic", "all_policies", "several", *_found]
