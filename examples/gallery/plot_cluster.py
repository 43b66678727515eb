"""
On a cluster
============

A study runs wherever you like: on the cores of this machine, on any ``concurrent.futures`` executor, or on a Dask
cluster. The results are the same, bit for bit.
"""

import tempfile
from concurrent.futures import ThreadPoolExecutor

from posse import experiments
from posse.experiments.report.figures import study_sheet

# %%
# A study as data: the same problems under three schedules, that is, ways in which players take part.
spec = experiments.parse("""
[[study]]
name = "schedules"
horizon = 3000
schedule = ["concurrent", "sequential", { random = 0.3 }]
problems = { family = "subpar", n_subpar = 8, count = 5 }
policies = [{ name = "PosseTS" }, { name = "RobustAggTS", epsilon = "problem" }, { name = "IndTS" }]
""")

# %%
# The study is cut into units of work, and an executor does them. Here it has two threads; a pool of processes or of
# MPI ranks works alike. A folder keeps the results, and units that it already has are not computed again.
with ThreadPoolExecutor(2) as executor:
    records = experiments.run(spec, tempfile.mkdtemp(), executor=executor)
here = experiments.run(spec, tempfile.mkdtemp())
print("the same without it:", records == here)

# %%
# A Dask cluster is an address, after ``pip install 'posse-bandits[experiments,cluster]'``. On Slurm or Kubernetes,
# Dask's own tools start one; from a terminal it is ``posse run study.toml --on tcp://…``::
#
#     with distributed.LocalCluster() as cluster:
#         records = experiments.run(spec, "results", on=cluster.scheduler_address)
#
# The order of the policies is the same under every schedule. Where one of the twenty players acts in a round, a round
# has a twentieth of the decisions, so regret grows more slowly.
study_sheet(records)
