"""Studies as data: read a spec, run it anywhere, keep its results.

>>> import tempfile
>>> spec = parse('''
... [[study]]
... name = "small"
... horizon = 500
... problems = { family = "subpar", n_subpar = 8, count = 2 }
... policies = [{ name = "RobustAggTS", epsilon = "problem" }, { name = "IndTS" }]
... ''')
>>> folder = tempfile.mkdtemp()
>>> records = run(spec, folder)
>>> records.distinct("policy")
['RobustAgg-TS(0.15)', 'Ind-TS']
>>> len(read(folder))  # later, or of a folder that `posse run` wrote
4
"""

from posse.extras import extra

with extra("experiments", "posse.experiments"):
    from posse.experiments.records import Records
    from posse.experiments.runs.runner import RunError, run
    from posse.experiments.runs.store import ResultStore, StoreError, read
    from posse.experiments.spec.fields import SpecError
    from posse.experiments.spec.reader import load, parse
    from posse.experiments.spec.study import Spec

__all__ = ["Records", "ResultStore", "RunError", "Spec", "SpecError", "StoreError", "load", "parse", "read", "run"]
