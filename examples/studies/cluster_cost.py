"""What a Dask cluster adds to an experiment: the same units in this process, on one worker and on four.

Processor time counts, as far as the machine has as many idle cores as there are workers. What is more than in this
process is what a unit costs beside its work: the scheduler, the network, and reading and writing files.

python examples/studies/cluster_cost.py            # a minute on four idle cores
python examples/studies/cluster_cost.py --quick    # seconds, rougher
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from typing import Any

import psutil
from distributed import Client, LocalCluster

from posse import experiments
from posse.experiments.runs.runner import _compile, _policies

SPEC = """
[[study]]
name = "cluster"
horizon = {horizon}
replications = 1000
problems = {{ family = "subpar", n_subpar = 5 }}
policies = [{{ name = "RobustAggTS", epsilon = "problem" }}, {{ name = "IndTS" }}]
"""


def main(horizon: int, count: int) -> None:
    full = experiments.parse(SPEC.format(horizon=horizon))
    per_unit = full.units()[0].replications[1]
    study = dataclasses.replace(full.studies[0], replications=count * per_unit)
    spec = dataclasses.replace(full, studies=(study,))
    _compile(_policies(spec.units()))
    print(f"{count} units of {per_unit} runs; wall time, and ms of processor time for each unit")
    print(f"{'where':<16}{'wall s':>10}{'at work':>10}{'beside it':>11}")
    show("this process", count, spec, [], threads=1)
    for workers in (1, 4):
        with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as cluster:
            with Client(cluster.scheduler_address, set_as_default=False) as client:
                client.run(_compile, _policies(spec.units()))
            processes = [psutil.Process(worker.pid) for worker in cluster.workers.values()]
            show(f"{workers} worker{'s'[: workers > 1]}", count, spec, processes, on=cluster.scheduler_address)


def show(where: str, count: int, spec: experiments.Spec, workers: list[psutil.Process], **how: Any) -> None:
    def used() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in workers)

    with tempfile.TemporaryDirectory() as folder:
        before, own, wall = used(), time.process_time(), time.perf_counter()
        experiments.run(spec, folder, **how)
        worked, own, wall = used() - before, time.process_time() - own, time.perf_counter() - wall
    at_work, beside = (worked, own) if workers else (own, 0.0)
    print(f"{where:<16}{wall:>10.1f}{1000 * at_work / count:>10.1f}{1000 * beside / count:>11.1f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller")
    main(*((500, 3) if parser.parse_args().quick else (50_000, 60)))
