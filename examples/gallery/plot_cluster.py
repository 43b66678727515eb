"""
On a cluster
============

A study runs wherever you like: on the cores of this machine, on any ``concurrent.futures`` executor, or on a Dask
cluster. The results are the same, bit for bit.
"""

import tempfile

from distributed import LocalCluster

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
# A cluster is an address. Here it is two workers in this process; on Slurm or Kubernetes, Dask's own tools give you
# one, and ``posse run study.toml --on tcp://…`` takes it. Units of work that a folder already has are not run again.
where = {"processes": False, "dashboard_address": None}
with LocalCluster(n_workers=2, threads_per_worker=1, **where) as cluster:
    records = experiments.run(spec, tempfile.mkdtemp(), on=cluster.scheduler_address)
here = experiments.run(spec, tempfile.mkdtemp())
print("the same on this machine:", records.table.equals(here.table))

# %%
# The order of the policies is the same under every schedule. Where one of the twenty players acts in a round, a round
# has a twentieth of the decisions, so regret grows more slowly.
study_sheet(records, "schedules")
