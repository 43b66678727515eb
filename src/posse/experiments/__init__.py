"""Experiments as data: read a spec, run it anywhere, keep its results.

>>> import tempfile
>>> spec = parse('''
... [[study]]
... name = "small"
... horizon = 500
... problems = { family = "subpar", n_subpar = 8, count = 2 }
... policies = [{ name = "RobustAggTS", epsilon = "problem" }, { name = "IndTS" }]
... ''')
>>> records = run(spec, tempfile.mkdtemp())
>>> records.distinct("policy")
['RobustAgg-TS(0.15)', 'Ind-TS']
"""

from posse.experiments.reading import load, parse
from posse.experiments.records import Records
from posse.experiments.runner import RunError, run
from posse.experiments.spec import Spec, SpecError
from posse.experiments.store import Store, StoreError

__all__ = ["Records", "RunError", "Spec", "SpecError", "Store", "StoreError", "load", "parse", "run"]
