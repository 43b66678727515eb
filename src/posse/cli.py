"""The command line: parse, call, print."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from posse.version import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = _parser()
    options = parser.parse_args(argv)
    if not hasattr(options, "run"):
        parser.print_help()
        return 2
    try:
        status: int = options.run(options)
    except (ValueError, TypeError, OSError) as error:
        print(f"posse: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("posse: interrupted", file=sys.stderr)
        return 130
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="posse", description="Multi-task bandits that share data robustly.")
    parser.add_argument("--version", action="version", version=f"posse {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    bench = commands.add_parser(
        "bench",
        help="measure the simulator on this machine",
        description="Measure the simulator: ns a player-round for each policy beside NumPy's normal draws and the bare "
        "random words, speed-up over plain Python, threads, growth, memory and start-up. About two minutes.",
    )
    bench.add_argument("--quick", action="store_true", help="shorter runs: rougher figures in a fraction of the time")
    bench.add_argument("--policy", action="append", metavar="NAME", help="only this policy (may be repeated)")
    bench.add_argument("--json", metavar="FILE", help="also write the figures as JSON to FILE; - prints only JSON")
    bench.set_defaults(run=_bench)
    return parser


def _bench(options: argparse.Namespace) -> int:
    from posse.bench import render, run

    def note(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[Kmeasuring {text} …", end="", file=sys.stderr, flush=True)

    report = run(quick=options.quick, names=options.policy, note=note)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    if options.json == "-":
        print(report.to_json())
        return 0
    print(render(report))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            out.write(report.to_json() + "\n")
    return 0
