"""posse bench: what posse costs on this machine."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from posse.cli.experiments import add_import

if TYPE_CHECKING:
    from posse.bench.report import BenchReport

PLACE = 90


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the benchmark."""
    bench = commands.add_parser(
        "bench",
        help="measure the simulator on this machine",
        description="Measure the simulator and the learner: ns a player-round for each policy beside NumPy's normal "
        "draws and the bare random words, speed-up over plain Python, threads, growth, memory and start-up. This takes "
        "about a minute.",
    )
    bench.add_argument("--quick", action="store_true", help="shorter runs: rougher figures in a fraction of the time")
    bench.add_argument("--paper", action="store_true", help="also time the paper's whole evaluation at full size")
    bench.add_argument("--policy", action="append", metavar="NAME", help="only this policy (may be repeated)")
    add_import(
        bench, "also measure the policies of this Python file: those in its list POLICIES, or an example of each class"
    )
    bench.add_argument("--json", metavar="FILE", help="also write the figures as JSON to FILE; - prints only JSON")
    bench.add_argument(
        "--backend", choices=("cpu", "cuda"), default="cpu", help="cuda: measure a GPU, beside all cores (default: cpu)"
    )
    service = bench.add_argument_group("the service")
    service.add_argument("--service", action="store_true", help="measure the decision service instead of the simulator")
    service.add_argument(
        "--past", type=int, default=1_000_000, metavar="N", help="events in the long log (default: 10⁶)"
    )
    service.add_argument(
        "--minutes", type=float, default=0.0, metavar="N", help="also watch its memory for so many minutes"
    )
    service.add_argument(
        "--postgres",
        default=os.environ.get("POSSE_POSTGRES_URL"),
        metavar="URL",
        help="also measure on this PostgreSQL database, which it fills (default: POSSE_POSTGRES_URL)",
    )
    bench.set_defaults(run=_bench)


def _bench(options: argparse.Namespace) -> None:
    def note(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[Kmeasuring {text} …", end="", file=sys.stderr, flush=True)

    report = _measure(options, note)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    if options.json == "-":
        print(report.to_json())
        return
    print(report.to_text())
    if options.json:
        Path(options.json).write_text(report.to_json() + "\n", encoding="utf-8")


def _measure(options: argparse.Namespace, note: Callable[[str], None]) -> BenchReport:
    if options.service:
        options.extra = "service"
        from posse.bench import service

        if options.imports:
            raise ValueError("--service measures the service with PosseTS, so --import does not go with it")
        return service.run(options.quick, options.past, options.minutes, options.postgres, note)
    if options.backend == "cuda":
        from posse.bench import gpu

        if options.paper or options.policy or options.imports:
            raise ValueError(
                "--backend cuda measures the paper's five policies, so --paper, --policy and --import do not go with it"
            )
        return gpu.run(options.quick, note)
    from posse.bench import simulator

    return simulator.run(options.quick, options.policy, options.paper, options.imports, note)
