"""What a server counts, for Prometheus; over all its workers where there are several.

What is counted of experiments is in the database: it is read when Prometheus asks, and costs a decision nothing.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
MOST_NAMED = 100  # experiments that have their own label
OTHERS = "others"  # the label of all further ones, and of one that is called so
ROOM = {"counter": 1 << 18, "gauge_sum": 1 << 12, "histogram": 1 << 19}
"""Bytes of each file of counts; all routes take less than half of it."""
LATELY = 3600.0  # seconds for which the verdict of a diagnosis is shown


def share(folder: str, worker: int) -> None:
    """Keep this worker's counts in a folder that all workers share; to be called before anything is counted.

    A file is named by the worker's number, so that a worker that replaces another goes on with its counts. It takes its
    room on the disk now: the system kills a process that counts where a full disk has no room.
    """
    os.environ[FOLDER] = folder
    for kind, size in ROOM.items():
        path = Path(folder, f"{kind}_{worker}.db")
        if not path.exists():
            path.write_bytes(bytes(size))
    values.ValueClass = values.MultiProcessValue(lambda: worker)


class ExperimentCounts(NamedTuple):
    """What is counted of an experiment, or of all others together."""

    experiment: str
    decisions: int
    rewards: int
    waiting: int
    alarms: int


class Metrics:
    """The counters of one worker, and the way to those of all."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        route = ["method", "route"]
        self.requests = Counter("posse_requests", "Requests answered", [*route, "status"], registry=registry)
        self.seconds = Histogram("posse_request_seconds", "Time to answer", route, registry=registry, buckets=SECONDS)
        waiting = "Requests that wait to be written"
        self.depth = Gauge("posse_queue_depth", waiting, registry=registry, multiprocess_mode="sum")
        written = "Requests written in one transaction"
        self.group = Histogram("posse_group_size", written, registry=registry, buckets=SIZES)
        Counter("posse_worker_starts", "Starts of worker processes", registry=registry).inc()
        self._verdicts: dict[str, tuple[float, bool]] = {}  # of experiments' newest diagnoses: when, and the alarm

    def note_verdict(self, experiment: str, alarm: bool) -> None:
        """Remember what a diagnosis of an experiment said. The process that diagnoses is the one that is asked."""
        self._verdicts = {name: (at, alarm) for name, (at, alarm) in self._verdicts.items() if not _is_old(at)}
        self._verdicts[experiment] = time.monotonic(), alarm

    def text(self, experiments: Sequence[ExperimentCounts] = (), size: int | None = None) -> bytes:
        """Everything, in Prometheus's format. `experiments` are those that are named, then the others if there are.

        `size` is the database's, in bytes, if it is known.
        """
        registry = self._registry
        if FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        alarms = {name: alarm for name, (at, alarm) in self._verdicts.items() if not _is_old(at)}
        return generate_latest(_Collected(registry, experiments, alarms, size))


def _is_old(at: float) -> bool:
    return time.monotonic() - at > LATELY


class _Collected(NamedTuple):
    """What is counted by workers, and what is known of experiments."""

    registry: CollectorRegistry
    experiments: Sequence[ExperimentCounts]
    alarms: Mapping[str, bool]  # of experiments that were diagnosed lately
    size: int | None

    def collect(self) -> Iterator[Any]:
        yield from self.registry.collect()
        if self.size is not None:
            yield GaugeMetricFamily("posse_database_bytes", "Size of the database", value=self.size)
        named = {each.experiment for each in self.experiments} - {OTHERS}
        about = "Diagnoses of the last hour that raised an alarm"
        alarm = GaugeMetricFamily("posse_experiment_alarm", about, labels=["experiment"])
        for name in named.intersection(self.alarms):
            alarm.add_metric([name], self.alarms[name])
        if len(named) < len(self.experiments):
            alarm.add_metric([OTHERS], sum(raised for name, raised in self.alarms.items() if name not in named))
        yield alarm
        for field, kind, about in (
            ("decisions", CounterMetricFamily, "Decisions made"),
            ("rewards", CounterMetricFamily, "Rewards observed, those of the past included"),
            ("waiting", GaugeMetricFamily, "Decisions that wait for a reward"),
            ("alarms", GaugeMetricFamily, "Arms that were shown to cross the bound of an outcome"),
        ):
            name = "posse_alarms" if field == "alarms" else f"posse_experiment_{field}"
            family = kind(name, about, labels=["experiment"])
            for each in self.experiments:
                family.add_metric([each.experiment], getattr(each, field))
            yield family
