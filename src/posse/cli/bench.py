"""posse bench, cache: what posse costs on this machine, and the compiled kernels that it keeps there."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from posse.checks import whole
from posse.cli import IMPORT, Commands, add_command, add_outputs, answer
from posse.cli.policies import named_policies
from posse.extras import extra
from posse.text import plural, to_json

if TYPE_CHECKING:
    from posse.bench.report import BarReport, BenchReport


def add(commands: Commands) -> None:
    bench = add_command(commands, _bench, "measure what posse costs on this machine")
    text = "show only figures that have a bar, and which of them miss it: of one run, or of several side by side"
    bench.add_argument("--bars", type=int, nargs="?", const=1, metavar="RUNS", help=text)
    bench.add_argument("--quick", action="store_true", help="shorter runs: rougher figures in a fraction of the time")
    bench.add_argument("--paper", action="store_true", help="also time the paper's whole evaluation at full size")
    text = "only this policy, such as IndTSV, Ind-TS-V or 'RobustAggTS(0.1)' (may be repeated)"
    bench.add_argument("--policy", action="append", metavar="NAME", help=text)
    text = "also measure the policies of this Python file: those in its list POLICIES, or an example of each class"
    bench.add_argument("--import", **{**IMPORT, "dest": "policy_files", "help": f"{text} (may be repeated)"})
    add_outputs(bench, figure=False)
    text = "cuda: measure a GPU, beside all cores (default: cpu)"
    bench.add_argument("--backend", choices=("cpu", "cuda"), default="cpu", help=text)
    service = bench.add_argument_group("the service")
    service.add_argument("--service", action="store_true", help="measure the decision service instead of the simulator")
    text = "events in the long log (default: 10⁶)"
    service.add_argument("--past", type=int, default=1_000_000, metavar="N", help=text)
    text = "also watch its memory for so many minutes"
    service.add_argument("--minutes", type=float, default=0.0, metavar="N", help=text)
    text = "also measure on this PostgreSQL database, which it fills (default: POSSE_POSTGRES_URL)"
    service.add_argument("--postgres", default=os.environ.get("POSSE_POSTGRES_URL"), metavar="URL", help=text)

    cache = add_command(commands, _cache, "show or clear the compiled kernels on disk")
    cache.add_argument("--clear", action="store_true", help="remove them all; they are compiled anew when needed")


def _bench(options: argparse.Namespace) -> None:
    """Measure the simulator and the learner.

    For each policy: ns a player-round beside NumPy's normal draws and the bare random words, and its first use with an
    empty cache; speed-up over plain Python, threads, growth, memory and start-up. This takes a few minutes.
    """

    def note(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def measure() -> BenchReport | BarReport:
        from posse.bench.report import BarReport

        count = 1 if options.bars is None else whole("--bars", options.bars, least=1)
        runs = [_measure(options, lambda what: note(f"measuring {what} …")) for _ in range(count)]
        note("")
        return runs[0] if options.bars is None else BarReport(runs)

    answer(measure, options, json_of=to_json)


def _measure(options: argparse.Namespace, note: Callable[[str], None]) -> BenchReport:
    if options.service:
        with extra("service", "--service"):
            from posse.bench import service

        if options.policy_files:
            raise ValueError("--service measures the service with PosseTS, so --import does not go with it")
        return service.run(options.quick, options.past, options.minutes, options.postgres, note)
    if options.backend == "cuda":
        from posse.bench import gpu

        if options.paper or options.policy or options.policy_files:
            raise ValueError(
                "--backend cuda measures a set of its own, so --paper, --policy and --import do not go with it"
            )
        return gpu.run(options.quick, note)
    from posse.bench import setting, simulator

    own = [policy for file in options.policy_files for policy in setting.from_file(file)]
    named = named_policies(options.policy or (), [*setting.shipped().values(), *own])
    return simulator.run(options.quick, named, options.paper, own, note)


def _cache(options: argparse.Namespace) -> None:
    """Show where compiled kernels are kept, how many there are and how large they are."""
    from posse.compile.cache import cache_use, clear_cache

    use = clear_cache() if options.clear else cache_use()
    kernels = f"{plural(use.kernels, 'kernel')}, {use.bytes / 1e6:,.1f} MB"
    print(f"Removed {kernels}, from {use.folder}" if options.clear else f"{kernels}, in {use.folder}")
