"""posse bench: what it costs on this machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

PLACE = 90


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the benchmark."""
    bench = commands.add_parser(
        "bench",
        help="measure the simulator on this machine",
        description="Measure the simulator: ns a player-round for each policy beside NumPy's normal draws and the bare "
        "random words, speed-up over plain Python, threads, growth, memory and start-up. About half a minute.",
    )
    bench.add_argument("--quick", action="store_true", help="shorter runs: rougher figures in a fraction of the time")
    bench.add_argument("--paper", action="store_true", help="also time the paper's whole evaluation at full size")
    bench.add_argument("--policy", action="append", metavar="NAME", help="only this policy (may be repeated)")
    bench.add_argument("--json", metavar="FILE", help="also write the figures as JSON to FILE; - prints only JSON")
    bench.add_argument(
        "--backend", choices=("cpu", "cuda"), default="cpu", help="cuda: measure a GPU, beside all cores (default: cpu)"
    )
    bench.set_defaults(run=_bench)


def _bench(options: argparse.Namespace) -> None:
    from posse import bench

    if options.backend == "cuda" and (options.paper or options.policy):
        raise ValueError("--backend cuda measures the paper's five policies, so --paper and --policy do not go with it")

    def note(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[Kmeasuring {text} …", end="", file=sys.stderr, flush=True)

    report: bench.Report | bench.GpuReport
    if options.backend == "cuda":
        report = bench.run_gpu(quick=options.quick, note=note)
    else:
        report = bench.run(quick=options.quick, names=options.policy, paper=options.paper, note=note)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    if options.json == "-":
        print(report.to_json())
        return
    print(bench.render_gpu(report) if isinstance(report, bench.GpuReport) else bench.render(report))
    if options.json:
        Path(options.json).write_text(report.to_json() + "\n", encoding="utf-8")
