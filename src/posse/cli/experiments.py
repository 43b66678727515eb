"""posse paper, run, init, report, compare, battery: experiments."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse.cli import IMPORT, Commands, add_command, call
from posse.text import plural

if TYPE_CHECKING:
    from posse.experiments import Records, Spec


def add(commands: Commands) -> None:
    paper = add_command(commands, _paper, "reproduce the paper's whole evaluation", resumes=True)
    paper.add_argument("--quick", action="store_true", help="all of it, but small: 5,000 rounds, 6 problems each")
    paper.add_argument("--own-only", action="store_true", help="only the studies that the paper itself has")
    paper.add_argument("--horizon", type=int, metavar="T", help="rounds (default: 50000)")
    paper.add_argument("--instances", type=int, metavar="N", help="problems for each |I_5ε| (default: 30)")
    paper.add_argument("--subpar", metavar="V,V,…", help="which |I_5ε| (default: 0,1,…,9)")
    paper.add_argument("--seed", type=int, help="default: 0")
    _add_place(paper, "results/paper, or results/paper-quick with --quick")

    run = add_command(commands, _run, "run the studies of a spec file", resumes=True)
    run.add_argument("spec", metavar="EXPERIMENT.toml", help="a spec; `posse init` writes an example")
    _add_place(run, "results/NAME")
    run.add_argument("--import", **IMPORT)
    backend = "cpu, cuda for a GPU, or auto (default: cpu)"
    for one in (paper, run):
        one.add_argument("--backend", choices=("cpu", "cuda", "auto"), default="cpu", help=backend)

    init = add_command(commands, _init, "write a commented example of a spec")
    init.add_argument("file", nargs="?", default="experiment.toml", help="default: experiment.toml")

    report = add_command(commands, _report, "rebuild figures, tables and report from stored results")
    report.add_argument("folder", metavar="FOLDER", type=Path, help="what `posse run` or `posse paper` wrote")
    text = "the policy that others are compared with: a label or a class (default: the first of each row)"
    report.add_argument("--reference", default="", metavar="POLICY", help=text)
    report.add_argument("--import", **IMPORT)

    compare = add_command(commands, _compare, "put two runs side by side")
    compare.add_argument("first", metavar="A", type=Path, help="what `posse run` or `posse paper` wrote")
    compare.add_argument("second", metavar="B", type=Path, help="another such folder")

    text = "compare all policies on families of problems, easy and hard to share in"
    battery = add_command(commands, _battery, text, resumes=True)
    battery.add_argument("--quick", action="store_true", help="all families, but small: a minute or two")
    battery.add_argument("--family", action="append", metavar="NAME", help="only this family (may be repeated)")
    battery.add_argument("--spec", metavar="FILE.toml", help="families of your own, in place of the shipped ones")
    battery.add_argument("--seed", type=int, help="in place of the spec's, 0")
    _add_place(battery, "results/battery…")
    battery.add_argument("--import", **IMPORT)


def _add_place(parser: argparse.ArgumentParser, folder: str) -> None:
    """Add the options that say where a run works and where its results go."""
    parser.add_argument("--out", metavar="FOLDER", help=f"where the results go (default: {folder})")
    parser.add_argument("--on", default="local", metavar="ADDRESS", help="local, or the address of a Dask scheduler")
    parser.add_argument("--threads", type=int, metavar="N", help="how many threads to use (default: all cores)")


def _paper(options: argparse.Namespace) -> None:
    """Run the paper's evaluation at full size or smaller.

    The report has every figure, and says of each claim of the paper whether the new data supports it. After an
    interrupt, the same command goes on.
    """
    from posse.experiments.spec.shipped_specs import paper_spec

    try:
        options.subpar = None if options.subpar is None else [int(part) for part in options.subpar.split(",")]
    except ValueError:
        raise ValueError(f"--subpar {options.subpar!r}, but expected whole numbers with commas between them") from None
    out = Path(options.out or ("results/paper-quick" if options.quick else "results/paper"))
    _run_spec(call(paper_spec, options), out, options)


def _run(options: argparse.Namespace) -> None:
    """Run the experiment that a TOML file describes, and write its results, figures and a report.

    `posse init` writes a commented example. After an interrupt, the same command goes on.
    """
    from posse.experiments import load

    _run_spec(load(options.spec), Path(options.out or f"results/{Path(options.spec).stem}"), options)


def _run_spec(spec: Spec, out: Path, options: argparse.Namespace) -> None:
    _announce(spec, out, spec.title or "Experiment")
    importlib.import_module("posse.experiments.report.run_report")  # what is missing is said before the simulation
    _write_report(_simulate(spec, out, options, backend=options.backend), out)


def _announce(spec: Spec, out: Path, title: str) -> None:
    """Say on standard error what is about to be done."""
    print(f"{title}: {plural(len(spec.units()), 'unit')} of work into {out}", file=sys.stderr, flush=True)


def _simulate(spec: Spec, out: Path, options: argparse.Namespace, **how: Any) -> Records:
    """Run a spec into a folder, and say on standard error how far it is and how long it took."""
    from posse.experiments import run

    start = time.monotonic()
    records = run(spec, out / "results", on=options.on, threads=options.threads, progress=True, **how)
    print(f"simulated in {time.monotonic() - start:.1f} s", file=sys.stderr)
    return records


def _init(options: argparse.Namespace) -> None:
    path, example = Path(options.file), resources.files("posse") / "experiments/spec/shipped/example.toml"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(example.read_text(encoding="utf-8"))
    except FileExistsError:
        raise FileExistsError(f"{path} exists and is left as it is; give another name: posse init NAME.toml") from None
    print(f"wrote {path}; run it with: posse run {path}")


def _report(options: argparse.Namespace) -> None:
    print(f"reading {options.folder} …", file=sys.stderr, flush=True)
    _write_report(_stored(options.folder), options.folder, options.reference)


def _stored(folder: Path) -> Records:
    from posse.experiments.runs.store import open_store

    if not (folder / "results").is_dir():
        raise FileNotFoundError(f"{folder} has no results; give a folder that `posse run` or `posse paper` wrote")
    store = open_store(folder)
    if unfinished := store.unfinished():
        print(f"posse: {unfinished}", file=sys.stderr)
    return store.read()


def _write_report(records: Records, out: Path, reference: str = "") -> None:
    from posse.experiments import ResultStore
    from posse.experiments.paper import claims
    from posse.experiments.report.run_report import write_report
    from posse.experiments.report.tables import regret_table
    from posse.policies.labels import algorithm
    from posse.simulation.progress import Bar

    print("drawing …", file=sys.stderr, flush=True)
    manifest: dict[str, Any] = ResultStore(out / "results").manifest()
    names = [algorithm(label) for label in records.matching(study=claims.STUDY).distinct("policy")]
    findings = claims.judge(records) if len(names) == len(set(names)) else []  # the paper has each algorithm once
    page = write_report(
        records,
        out,
        title=manifest.get("title") or "Experiment",
        findings=findings or None,
        manifest=manifest,
        reference=reference,
        processes=os.cpu_count() or 1,
        progress=Bar(quiet_seconds=0.0),
    )
    print(regret_table(records, reference))
    if findings:
        print()
        print(claims.to_text(findings, claims.small_form(records)))
    print(f"\nreport: {page}")


def _compare(options: argparse.Namespace) -> None:
    from posse.experiments.report.comparison import compare, comparison_text

    rows = compare(_stored(options.first), _stored(options.second))
    print(comparison_text(rows, str(options.first), str(options.second)))


def _battery(options: argparse.Namespace) -> None:
    """Run every policy on families of problems in which sharing helps, does nothing, or harms.

    The report compares posse's own policy with the best others in regret, tails and lock-ins, and says which bars it
    meets. About 45 minutes on two cores. After an interrupt, the same command goes on.
    """
    from posse.experiments import ResultStore
    from posse.experiments.battery.report import to_text, write_battery
    from posse.experiments.battery.score import score
    from posse.experiments.spec.shipped_specs import battery_spec

    spec = battery_spec(options.spec, families=options.family, seed=options.seed, quick=options.quick)
    out = Path(options.out or _folder(options))
    _announce(spec, out, f"{spec.title}: {len(spec.studies)} families")
    records = _simulate(spec, out, options)
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
