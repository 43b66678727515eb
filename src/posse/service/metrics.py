"""What a server counts, for Prometheus; over all its workers where there are several."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def share(folder: str, worker: int) -> None:
    """Keep this worker's counts in a folder that all workers share; to be called before anything is counted.

    A file is named by the worker's number, so that a worker that replaces another goes on with its counts.
    """
    os.environ[FOLDER] = folder
    values.ValueClass = values.MultiProcessValue(lambda: worker)


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

    def text(self) -> bytes:
        """Everything, in Prometheus's format."""
        if FOLDER not in os.environ:
            return generate_latest(self._registry)
        everybody = CollectorRegistry()
        MultiProcessCollector(everybody)
        return generate_latest(everybody)
