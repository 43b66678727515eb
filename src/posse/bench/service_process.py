"""Services that run in processes of their own while they are measured: posse's, and one that does nothing."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POSSE = "import sys; from posse.cli import main; sys.exit(main())"
EMPTY = "from posse.bench.service_process import serve_nothing; serve_nothing()"


@dataclass(frozen=True)
class ServiceProcess:
    """A service that runs in processes of its own."""

    url: str
    process: int

    def _rows(self) -> Iterator[tuple[int, int]]:
        """The id and the kilobytes of each of its processes."""
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,rss="], check=True, capture_output=True, text=True)
        family = {self.process}
        for process, parent, size in sorted(tuple(map(int, line.split())) for line in listed.stdout.splitlines()):
            if parent in family or process == self.process:
                family.add(process)
                yield process, size

    def megabytes(self) -> float:
        """The memory of all its processes. Memory that they share counts for each of them."""
        return sum(size for _, size in self._rows()) / 1024

    def processor_seconds(self) -> float:
        """The processor time of all its processes so far."""
        ticks = 0
        for process, _ in self._rows():
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def service(database: str, workers: int = 1) -> Iterator[ServiceProcess]:
    """`posse serve` on a free port."""
    with started(POSSE, "serve", "--open", "--port", "0", "--workers", str(workers), "--database", database) as server:
        yield server


def serve_nothing() -> None:
    """Serve the same routes, which FastAPI answers with a constant, with the same settings of the server."""
    from fastapi import FastAPI

    from posse.service.api.middleware import RunningRequests
    from posse.service.process.server import WorkerServer
    from posse.service.process.supervisor import bind, url_of
    from posse.service.settings import Settings

    app = FastAPI()
    app.state.running = RunningRequests()

    @app.post("/v1/experiments/{name}/{part}")
    async def answer(name: str, part: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"decisions": [{"id": "0-00000000", "arm": "arm 0"}]}

    with bind("127.0.0.1", 0) as listener:
        WorkerServer(app, Settings(), lambda: print(url_of(listener), flush=True)).run(sockets=[listener])


@contextmanager
def started(code: str, *options: str) -> Iterator[ServiceProcess]:
    """Python code that prints the address at which it serves, until it is told to end."""
    process = subprocess.Popen([sys.executable, "-c", code, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = re.search(r"http://[^/\s]+", process.stdout.readline())
        if found is None:
            raise RuntimeError("the service did not start; the lines above say why")
        yield ServiceProcess(found[0], process.pid)
    finally:
        process.terminate()
        process.communicate()
