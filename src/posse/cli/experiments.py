"""posse paper, run, init, report, compare: experiments."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse.cli import call
from posse.simulation.backend import BACKENDS

if TYPE_CHECKING:
    from posse.experiments import Records, Spec

PLACE = 0


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands for experiments."""
    paper = commands.add_parser(
        "paper",
        help="reproduce the paper's whole evaluation",
        description="Run the paper's evaluation at full size or smaller. The report has every figure, and says of each "
        "claim of the paper whether the new data supports it. After an interrupt, the same command goes on.",
    )
    paper.add_argument("--quick", action="store_true", help="all of it, but small: 5,000 rounds, 6 problems each")
    paper.add_argument("--own-only", action="store_true", help="only the studies that the paper itself has")
    paper.add_argument("--horizon", type=int, metavar="T", help="rounds (default: 50000)")
    paper.add_argument("--instances", type=int, metavar="N", help="problems for each |I_5ε| (default: 30)")
    paper.add_argument("--subpar", metavar="V,V,…", help="which |I_5ε| (default: 0,1,…,9)")
    paper.add_argument("--seed", type=int, help="default: 0")
    add_place(paper, "results/paper, or results/paper-quick with --quick")
    _add_backend(paper)
    paper.set_defaults(run=_paper, resumes=True)

    run = commands.add_parser(
        "run",
        help="run the studies of a spec file",
        description="Run the experiment that a TOML file describes, and write its results, figures and a report. "
        "`posse init` writes a commented example. After an interrupt, the same command goes on.",
    )
    run.add_argument("spec", metavar="EXPERIMENT.toml")
    add_place(run, "results/NAME")
    add_import(run)
    _add_backend(run)
    run.set_defaults(run=_run, resumes=True)

    init = commands.add_parser("init", help="write a commented example of a spec")
    init.add_argument("file", nargs="?", default="experiment.toml", help="default: experiment.toml")
    init.set_defaults(run=_init)

    report = commands.add_parser("report", help="rebuild figures, tables and report from stored results")
    report.add_argument("folder", metavar="FOLDER", help="what `posse run` or `posse paper` wrote")
    add_import(report)
    report.set_defaults(run=_report)

    compare = commands.add_parser("compare", help="put two runs side by side")
    compare.add_argument("first", metavar="A", help="what `posse run` or `posse paper` wrote")
    compare.add_argument("second", metavar="B")
    compare.set_defaults(run=_compare)


def add_place(parser: argparse.ArgumentParser, folder: str) -> None:
    """Add the options that say where a run works and where its results go."""
    parser.add_argument("--out", metavar="FOLDER", help=f"where the results go (default: {folder})")
    parser.add_argument("--on", default="local", metavar="ADDRESS", help="local, or the address of a Dask scheduler")
    parser.add_argument("--threads", type=int, metavar="N", help="how many threads to use (default: all cores)")


def add_import(parser: argparse.ArgumentParser, what: str = "a Python file with policies of your own") -> None:
    """Add the option that imports users' own policies."""
    text = f"{what} (may be repeated)"
    parser.add_argument("--import", dest="imports", action="append", default=[], metavar="FILE.py", help=text)


def import_policies(options: argparse.Namespace) -> None:
    """Import the files that were named with --import."""
    from posse.policies.user import import_file

    for file in getattr(options, "imports", []):
        import_file(file)


def _add_backend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backend", choices=BACKENDS, default="cpu", help="cpu, cuda for a GPU, or auto (default: cpu)"
    )


def _paper(options: argparse.Namespace) -> None:
    from posse.experiments.spec.shipped_specs import paper_spec

    if options.subpar is not None:
        options.subpar = [_whole(part, "--subpar") for part in options.subpar.split(",")]
    out = Path(options.out or ("results/paper-quick" if options.quick else "results/paper"))
    _run_spec(call(paper_spec, options), out, options)


def _run(options: argparse.Namespace) -> None:
    from posse.experiments import load

    import_policies(options)
    spec = load(options.spec)
    _run_spec(spec, Path(options.out or Path("results") / Path(options.spec).stem), options)


def _run_spec(spec: Spec, out: Path, options: argparse.Namespace) -> None:
    records = simulate(spec, out, options, spec.title or "Experiment", backend=options.backend)
    print("drawing …", file=sys.stderr)
    _write_report(records, out)


def simulate(spec: Spec, out: Path, options: argparse.Namespace, title: str, **how: Any) -> Records:
    """Run a spec into a folder, and say on standard error what is done and how long it took."""
    from posse.experiments import ResultStore, run

    units = spec.units()
    print(f"{title}: {len(units)} units of work into {out}", file=sys.stderr)
    outdated = ResultStore(out / "results").check(units)
    if outdated:
        print(f"{outdated} of them have results by other code; they are computed again", file=sys.stderr)
    start = time.monotonic()
    records = run(spec, out / "results", on=options.on, threads=options.threads, progress=True, **how)
    print(f"simulated in {time.monotonic() - start:.1f} s", file=sys.stderr)
    return records


def _init(options: argparse.Namespace) -> None:
    from posse.experiments.spec.shipped_specs import shipped

    path = Path(options.file)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(shipped("example.toml"))
    except FileExistsError:
        raise FileExistsError(f"{path} exists and is left as it is; give another name: posse init NAME.toml") from None
    print(f"wrote {path}; run it with: posse run {path}")


def _report(options: argparse.Namespace) -> None:
    import_policies(options)
    out = Path(options.folder)
    _write_report(_stored(out), out)


def _stored(folder: Path) -> Records:
    from posse.experiments import ResultStore

    if not (folder / "results").is_dir():
        raise FileNotFoundError(f"{folder} has no results; give a folder that `posse run` or `posse paper` wrote")
    store = ResultStore(folder / "results")
    wanted = store.manifest().get("units", [])
    there = sum((store.folder / f"unit-{name}.parquet").exists() for name in wanted)
    if there < len(wanted):
        print(f"posse: {folder} has {there} of {len(wanted)} units; run it again to complete it", file=sys.stderr)
    return store.read()


def _write_report(records: Records, out: Path) -> None:
    from posse.experiments import ResultStore
    from posse.experiments.paper import claims
    from posse.experiments.report.run_report import write_report
    from posse.experiments.report.tables import regret_table

    manifest: dict[str, Any] = ResultStore(out / "results").manifest()
    findings = claims.judge(records)
    page = write_report(
        records,
        out,
        title=manifest.get("title") or "Experiment",
        findings=findings or None,
        manifest=manifest,
        processes=os.cpu_count() or 1,
    )
    print(regret_table(records))
    if findings:
        print()
        print(claims.to_text(findings))
    print(f"\nreport: {page}")


def _compare(options: argparse.Namespace) -> None:
    from posse.experiments.report.tables import compare, comparison_text

    rows = compare(_stored(Path(options.first)), _stored(Path(options.second)))
    print(comparison_text(rows, options.first, options.second))


def _whole(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{option} {text!r}, but expected whole numbers with commas between them") from None
