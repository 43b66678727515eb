"""posse battery: every policy on families in which sharing helps, does nothing, or harms."""

from __future__ import annotations

import argparse
from pathlib import Path

from posse.cli.experiments import add_import, add_place, import_policies, simulate

PLACE = 10


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the battery."""
    battery = commands.add_parser(
        "battery",
        help="compare all policies on families of problems, easy and hard to share in",
        description="Run every policy on families of problems in which sharing helps, does nothing, or harms. The "
        "report compares posse's own policy with the best others in regret, tails and lock-ins, and says which bars "
        "it meets. About 45 minutes on two cores. After an interrupt, the same command goes on.",
    )
    battery.add_argument("--quick", action="store_true", help="all families, but small: about a minute")
    battery.add_argument("--family", action="append", metavar="NAME", help="only this family (may be repeated)")
    battery.add_argument("--spec", metavar="FILE.toml", help="families of your own, in place of the shipped ones")
    battery.add_argument("--seed", type=int, help="in place of the spec's, 0")
    add_place(battery, "results/battery…")
    add_import(battery)
    battery.set_defaults(run=_battery, resumes=True)


def _battery(options: argparse.Namespace) -> None:
    from posse.experiments import ResultStore
    from posse.experiments.battery.report import to_text, write_battery
    from posse.experiments.battery.score import score
    from posse.experiments.spec.shipped_specs import battery_spec

    import_policies(options)
    spec = battery_spec(options.spec, families=options.family, seed=options.seed, quick=options.quick)
    out = Path(options.out or _folder(options))
    records = simulate(spec, out, options, f"{spec.title}: {len(spec.studies)} families")
    families = score(records, spec.studies)
    title = f"{spec.title}, small" if options.quick else spec.title
    page = write_battery(families, out, title=title, manifest=ResultStore(out / "results").manifest())
    print(to_text(families))
    print(f"\nreport: {page}")


def _folder(options: argparse.Namespace) -> str:
    """A folder of its own for what is asked, since a folder holds the results of one spec."""
    name = "battery" if options.spec is None else Path(options.spec).stem
    parts = [name, *(["quick"] if options.quick else []), *(options.family or [])]
    parts += [] if options.seed is None else [f"seed{options.seed}"]
    return "results/" + "-".join(parts)
