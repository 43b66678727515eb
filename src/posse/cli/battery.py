"""posse battery: every policy on families in which sharing helps, does nothing, or harms."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

PLACE = 10


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the battery."""
    battery = commands.add_parser(
        "battery",
        help="compare all policies on families of problems, fair and foul",
        description="Run every policy on families of problems in which sharing helps, does nothing, or harms, and "
        "write what it says of posse's own policy: regret, tails and lock-ins beside the best others, and the bars "
        "that it is to meet. About 45 minutes on two cores. Interrupted, the same command goes on.",
    )
    battery.add_argument("--quick", action="store_true", help="all families, but small: about a minute")
    battery.add_argument("--family", action="append", metavar="NAME", help="only this family (may be repeated)")
    battery.add_argument("--spec", metavar="FILE.toml", help="families of your own, in place of the shipped ones")
    battery.add_argument("--seed", type=int, help="in place of the spec's, 0")
    battery.add_argument("--out", metavar="FOLDER", help="where the results go (default: results/battery…)")
    battery.add_argument("--on", default="local", metavar="ADDRESS", help="local, or the address of a Dask scheduler")
    battery.add_argument("--threads", type=int, metavar="N", help="how many threads to use (default: all cores)")
    battery.set_defaults(run=_battery)


def _battery(options: argparse.Namespace) -> None:
    from posse.experiments import Store, run
    from posse.experiments.battery import battery_spec, score, write_battery
    from posse.experiments.battery.report import to_text

    spec = battery_spec(options.spec, families=options.family, seed=options.seed, quick=options.quick)
    out = Path(options.out or _folder(options))
    print(f"{spec.title}: {len(spec.studies)} families, {len(spec.units())} units of work into {out}", file=sys.stderr)
    start = time.monotonic()
    records = run(spec, out / "results", on=options.on, threads=options.threads, progress=True)
    print(f"simulated in {time.monotonic() - start:.1f} s", file=sys.stderr)
    families = score(records, spec.studies)
    title = f"{spec.title}, small" if options.quick else spec.title
    page = write_battery(families, out, title=title, manifest=Store(out / "results").manifest())
    print(to_text(families))
    print(f"\nreport: {page}")


def _folder(options: argparse.Namespace) -> str:
    """A folder of its own for what is asked, since a folder holds the results of one spec."""
    name = "battery" if options.spec is None else Path(options.spec).stem
    parts = [name, *(["quick"] if options.quick else []), *(options.family or [])]
    parts += [] if options.seed is None else [f"seed{options.seed}"]
    return "results/" + "-".join(parts)
