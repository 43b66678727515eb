"""The report on a run: every figure that its records have data for, and one HTML page that needs nothing beside it."""

import base64
import dataclasses
import gc
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from posse.experiments.paper import claims
from posse.experiments.records import Records, check_records
from posse.experiments.report import figures
from posse.experiments.report.tables import WORDS, write_tables
from posse.experiments.report.theory import theory_over, theory_over_time
from posse.experiments.settings import describe, schedule_words, settings
from posse.experiments.summary import by_subpar, spread_over
from posse.figures.canvas import to_bytes
from posse.figures.policy_looks import looks
from posse.insight.report import templates
from posse.policies.labels import algorithm
from posse.policies.user import import_file, imported_files
from posse.simulation.progress import Progress, reporter
from posse.text import plural, shorten
from posse.version import __version__

TEMPLATES = Path(__file__).parent / "templates"
LEVEL = 0.95  # of the intervals in figures
FEW = 9  # figures that this process has drawn before others could begin, which takes a second


@dataclasses.dataclass(frozen=True)
class ReportFigure:
    """A figure that some records have data for."""

    name: str  # the file's name, without ending
    section: str  # one of SECTIONS; the details are single panels and what is of less interest
    title: str
    caption: str
    draw: Callable[[], Figure]


HEADINGS = {"paper": "The paper's figures", "studies": "Further studies", "theory": "Theory beside practice"}
SECTIONS = (*HEADINGS, "details")
SHIPPED = {  # the studies with figures of their own, and which columns may vary in these
    "subpar": {"n_subpar"},
    "players": {"n_subpar", "players"},
    "small-epsilon": {"n_subpar"},
}


def catalogue(records: Records) -> list[ReportFigure]:
    """Every figure for which the records have data, with a caption in plain words."""
    entries: list[ReportFigure] = []
    for study in records.distinct("study"):
        rows = records.where(study=study)
        varied = {column for setting, _ in settings(rows) for column in setting}
        kind = study if varied <= SHIPPED.get(study, set()) else ""
        if kind == "subpar":
            entries += _paper_entries(rows)
        elif kind == "players":
            entries.append(_entry("players", rows, partial(figures.regret_by_players, rows)))
            for v, part in by_subpar(rows).items() if len(rows.distinct("players")) > 1 else ():
                entries.append(_entry("theory-players", part, partial(theory_over, rows, "players", v), v))
        else:
            entries += _study_entries(rows, study)
        if kind == "small-epsilon":
            several = any(setting for setting, _ in settings(rows))
            draw = partial(theory_over, rows, "n_subpar") if several else partial(theory_over_time, rows, None)
            entries.append(_entry("theory-small-epsilon", rows, draw))
    return sorted(_told_apart(entries), key=lambda entry: SECTIONS.index(entry.section))


def _told_apart(entries: list[ReportFigure]) -> list[ReportFigure]:
    """The entries, with numbers added where file names would be the same; a file name drops signs of a study's name."""
    found: dict[str, ReportFigure] = {}
    for entry in entries:
        names = itertools.chain([entry.name], (f"{entry.name}_{number}" for number in itertools.count(2)))
        name = next(name for name in names if name not in found)
        found[name] = dataclasses.replace(entry, name=name)
    return list(found.values())


def _entry(figure: str, rows: Records, draw: Callable[[], Figure], v: int | None = None) -> ReportFigure:
    """A figure with the words of words.toml; `v` if it is about one number of subpar arms only."""
    words = WORDS["figure"][figure]
    filled = WORDS["words"] | {"facts": _facts(rows), "over": spread_over(rows), "epsilon": rows["epsilon"][0]}
    if "{ten_epsilon}" in words["caption"]:
        counts = [len(problem.subpar_10) for problem in rows.problems()]
        at_ten = filled["some_at_ten_epsilon" if max(counts) else "none_at_ten_epsilon"]
        filled["ten_epsilon"] = at_ten.format(arms=np.mean(counts))
    if "{fewest}" in words["caption"]:
        for which, players in (("fewest", min(rows["players"])), ("most", max(rows["players"]))):
            problems = rows.where(players=players).problems()
            free = [np.sum(problem.smallest_gaps[problem.subpar(problem.epsilon / 4)] == 0) for problem in problems]
            filled |= {which: players, f"free_with_{which}": np.mean(free)}
    caption = words["caption"].format(**filled)
    name, title = (figure, "") if v is None else (f"{figure}-v{v}", f", {figures.subpar_title(v)}")
    return ReportFigure(name, words["section"], words["title"] + title, caption, draw)


def _facts(rows: Records) -> str:
    problems = plural(len(set(rows.rows("problem", "seed"))), "problem")
    runs = len(rows.distinct("replication"))
    horizons = sorted(rows.distinct("horizon"))
    rounds = f"{horizons[0]:,}" if len(horizons) == 1 else f"{horizons[0]:,} to {horizons[-1]:,}"
    return f"{problems}, {f'{runs:,} replications, ' if runs > 1 else ''}{rounds} rounds"


def _paper_entries(rows: Records) -> Iterator[ReportFigure]:
    values = sorted(rows.distinct("n_subpar"), reverse=True)
    several = len(values) > 1
    has_v = any(algorithm(label) == figures.VARIANT for label in rows.distinct("policy"))
    if {8, 5} <= set(values):
        yield _entry("figure-1", rows, partial(figures.figure_1, rows))
    if several:
        yield _entry("theory-subpar", rows, partial(theory_over, rows, "n_subpar"))
    for name, words in WORDS["paper"].items():
        with_v = name == "with-v"
        if with_v and not has_v:
            continue
        kind = "regret" if with_v else name.replace("-", " ")
        marks = f"{WORDS['marks'][kind].format(over=spread_over(rows))} {_facts(rows)} for each number of subpar arms."
        if several:
            draw = partial(figures.overview, rows, kind, with_v=with_v)
            yield ReportFigure(f"overview-{name}", "paper", words["title_of_all"], f"{words['caption']} {marks}", draw)
        for v in values:
            draw = partial(figures.panel, rows, kind, v, with_v=with_v)
            section = "details" if several else "paper"
            yield ReportFigure(f"{name}-v{v}", section, f"{words['title']}, {figures.subpar_title(v)}", marks, draw)
    for v in [v for v in values if v in (8, 5) or not several]:
        yield _entry("theory-time", rows, partial(theory_over_time, rows, v), v)


def _study_entries(rows: Records, study: str) -> Iterator[ReportFigure]:
    """The sheets of a study. A shipped study's pulls and kinds are details.

    Bands of regret are standard deviations in a shipped study, as in the paper, and intervals in a user's own.
    """
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", study).strip("-") or "study"
    shipped = study in WORDS["captions"]
    name_of_study = WORDS["studies"][study] if shipped else study
    pages = math.ceil(len(settings(rows)) / figures.SHEET)
    for kind in figures.DRAWS:
        if kind == "regret by kind" and np.isnan(rows["regret_by_kind"]).all():
            continue  # means change, and kinds with them
        how = {} if shipped or kind != "regret" else {"level": LEVEL}
        marks = WORDS["marks"]["intervals" if how else kind]
        section = "details" if shipped and kind != "regret" else "studies"
        words = f"{WORDS['captions'].get(study, '')}{marks.format(over=spread_over(rows))}"
        caption = f"{words} {_facts(rows)} a panel."
        for page in range(pages):
            name = slug + ("" if kind == "regret" else f"-{kind.replace(' ', '-')}") + (f"-{page + 1}" if page else "")
            title = f"{name_of_study}: {kind}" + (f", {page + 1} of {pages}" if pages > 1 else "")
            draw = partial(figures.study_sheet, rows, kind, page=page, **how)
            yield ReportFigure(name, section, title, caption, draw)


@contextmanager
def drawing(
    entries: Sequence[ReportFigure], folder: str | Path, *, processes: int = 1, progress: Progress = None
) -> Iterator[None]:
    """Draw the figures of a catalogue into a folder, each as PNG and SVG; they are there at the end of the block.

    Several processes draw while the block runs. A script that asks for them needs `if __name__ == "__main__"`.
    """
    report = reporter(progress) or (lambda fraction: None)
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    save = partial(_save, folder=out)
    with ExitStack() as ends:
        drawn: Iterable[None] = map(save, entries)
        if processes > 1 and len(entries) > FEW:
            files = imported_files()  # users' policies say how they look
            pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_begin, initargs=(files,))
            ends.callback(pool.shutdown, cancel_futures=True)
            drawn = pool.map(save, entries)
        yield
        report(0.0)
        for number, _ in enumerate(drawn, 1):
            report(number / len(entries))
        report(1.0)


def _begin(files: Sequence[Path]) -> None:
    """What a process does before it draws."""
    for file in files:
        import_file(file)
    gc.freeze()  # a figure is soon garbage, and the search for it need not go through everything else each time


def _save(entry: ReportFigure, folder: Path) -> None:
    figure = entry.draw()
    for ending in ("png", "svg"):
        (folder / f"{entry.name}.{ending}").write_bytes(to_bytes(figure, ending))


def write_report(
    records: Records,
    folder: str | Path,
    *,
    title: str,
    findings: Sequence[claims.ClaimFinding] | None = None,
    manifest: Mapping[str, Any] | None = None,
    reference: str = "",
    processes: int = 1,
    progress: Progress = None,
) -> Path:
    """Write `report.html`, which needs nothing beside it, and its `figures/` (PNG, SVG) and `tables/` (CSV).

    Args:
        records: the results to report on.
        folder: where the files go.
        title: the heading of the page.
        findings: those of `claims.judge`; without them the page says nothing about claims.
        manifest: that of the store, for versions, times and the spec.
        reference: the policy that others are compared with, by its label or class; the first one if omitted.
        processes: how many processes draw.
        progress: True for a bar, or a function that is called with the part that is drawn.
    """
    check_records("records", records)
    if not len(records):
        raise ValueError("there are no records to report on")
    out = Path(folder)
    entries = catalogue(records)
    with drawing(entries, out / "figures", processes=processes, progress=progress):
        tables = write_tables(records, out / "tables", findings, reference)
    pictures: dict[str, list[tuple[ReportFigure, bytes]]] = {}
    for entry in entries:
        if entry.section in HEADINGS:
            picture = (out / "figures" / f"{entry.name}.svg").read_bytes()
            pictures.setdefault(entry.section, []).append((entry, picture))
    sections = {"words": "Words used here", "run": "What was run", "regret": "Final regret"}
    if findings is not None:
        sections["claims"] = "What the paper claims, and what the data says"
    sections |= {section: HEADINGS[section] for section in pictures}
    if "paper" not in pictures and "studies" in pictures:
        sections["studies"] = "Figures"
    sections["reproduce"] = "How to reproduce this"
    studies = records.distinct("study")
    decisions = sum(horizon * players for horizon, players in records.rows("horizon", "players"))
    page = render(
        "report.html",
        manifest or {},
        title=title,
        sections=sections,
        runs=plural(len(records), "run"),
        algorithms=plural(len({algorithm(label) for label in records.distinct("policy")}), "algorithm"),
        decisions=f"{decisions:,}",
        studies=[(WORDS["studies"].get(name, name), records.where(study=name)) for name in studies],
        span=_span,
        looks=looks,
        schedule_words=schedule_words,
        tables=tables,
        describe=describe,
        judged=claims,
        findings=findings or [],
        small_form=claims.small_form(records),
        own_studies=[name for study, name in WORDS["studies"].items() if study in set(studies) - {claims.STUDY}],
        intros=WORDS["sections"],
        figures=pictures,
        seeds=shorten(", ".join(map(str, records.distinct("seed"))), 200),
    )
    (out / "report.html").write_text(page, encoding="utf-8")
    return out / "report.html"


def _span(values: Sequence[Any]) -> str:
    """A few values in words: a list, or the smallest and the largest."""
    ordered = sorted(values)
    shown = [f"{value:,}" if isinstance(value, int) else f"{value:g}" for value in ordered]
    consecutive = len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1))
    return f"{shown[0]}–{shown[-1]}" if consecutive or len(shown) > 6 else ", ".join(shown)


def render(template: str, manifest: Mapping[str, Any], folder: Path = TEMPLATES, **values: Any) -> str:
    """A page about the runs of a manifest, from a template in a folder, which may build on the templates here."""
    environment = templates(folder, TEMPLATES)
    environment.filters["base64"] = lambda content: base64.b64encode(content).decode()
    shared = {"plural": plural, "version": __version__, "manifest": manifest, "spec": manifest.get("spec")}
    return environment.get_template(template).render(shared | values)
