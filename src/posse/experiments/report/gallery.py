"""All figures for which some records have data, and their files."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from posse.experiments.paper.figures import VARIANT, figure_1, overview, panel
from posse.experiments.paper.theory import theory_over, theory_over_time
from posse.experiments.records import Records
from posse.experiments.report.study_figures import SHEET, participation, regret_by_players, study_sheet
from posse.experiments.summary import by_subpar, settings
from posse.figures.canvas import to_bytes
from posse.figures.policy_looks import algorithm
from posse.policies.user import import_file, imported_files
from posse.text import plural


@dataclasses.dataclass(frozen=True)
class GalleryEntry:
    """A figure that some records have data for."""

    name: str  # the file's name, without ending
    section: str  # one of SECTIONS; the details are single panels and what is of less interest
    title: str
    caption: str
    draw: Callable[[], Figure]


SECTIONS = ("paper", "studies", "theory", "details")
WITH_V = "with-v"
WHISKERS = "Bars are means over problems, whiskers one standard deviation."
MARKS = {  # what the marks of each kind of panel mean
    "regret": "Lines are means over problems, bands one standard deviation.",
    "pulls": WHISKERS,
    "regret by kind": WHISKERS,
}
LEADING = (
    "Regret measured, in colour, beside the leading terms of the paper's bounds, in black and grey: without their "
    "unknown constants, as medians over problems. Compare the shapes, not the heights."
)


def catalogue(records: Records) -> list[GalleryEntry]:
    """Every figure for which the records have data, with a caption in plain words."""
    entries: list[GalleryEntry] = []
    for study in records.distinct("study"):
        rows = records.where(study=study)
        varied = {column for setting, _ in settings(rows) for column in setting}
        if study == "subpar" and varied <= {"n_subpar"}:
            entries += _paper_entries(rows)
        elif study == "players" and varied <= {"players", "n_subpar"}:
            entries += _players_entries(rows)
        else:
            entries += _study_entries(rows, study)
            if study == "participation" and varied <= {"n_subpar", "schedule"}:
                place = [entry.name for entry in entries].index(study)
                entries[place] = dataclasses.replace(entries[place], draw=partial(participation, records))
        if study == "small-epsilon" and varied <= {"n_subpar"}:
            entries.append(_small_epsilon_entry(rows))
    return sorted(_told_apart(entries), key=lambda entry: SECTIONS.index(entry.section))


def _told_apart(entries: list[GalleryEntry]) -> list[GalleryEntry]:
    """The entries, with numbers added where file names would be the same; a file name drops signs of a study's name."""
    found: dict[str, GalleryEntry] = {}
    for entry in entries:
        names = itertools.chain([entry.name], (f"{entry.name}_{number}" for number in itertools.count(2)))
        name = next(name for name in names if name not in found)
        found[name] = dataclasses.replace(entry, name=name)
    return list(found.values())


def _facts(rows: Records) -> str:
    count = len(set(rows.rows("problem", "seed")))
    horizons = sorted(rows.distinct("horizon"))
    rounds = f"{horizons[0]:,}" if len(horizons) == 1 else f"{horizons[0]:,} to {horizons[-1]:,}"
    return f"{plural(count, 'problem')}, {rounds} rounds"


def _ten_epsilon(rows: Records) -> str:
    counts = [len(problem.subpar_10) for problem in rows.problems()]
    if max(counts) == 0:
        return "at 10ε, as the theorems have it, no arm here is subpar, and they promise no more than each player alone"
    return f"at 10ε, as the theorems have it, {np.mean(counts):.1f} arms a problem are subpar on average"


# The paper's figures by file name: the title of one panel, and title and caption of all panels together.
PAPER_FIGURES = {
    "regret": ("Regret", "Regret for every number of subpar arms", "Cumulative regret, from many subpar arms to few."),
    "pulls": (
        "Which arms were pulled",
        "Which arms were pulled",
        "Percentage of all pulls, by how good the arm is for the player who pulled it.",
    ),
    "regret-by-kind": (
        "Where the regret came from",
        "Where the regret came from",
        "Regret from near-optimal and from subpar arms; optimal arms cost nothing.",
    ),
    WITH_V: (
        "With RobustAgg-TS-V",
        "The comparison with RobustAgg-TS-V",
        "RobustAgg-TS refreshes the posteriors of what was pulled, which its analysis needs; RobustAgg-TS-V refreshes "
        "all of them in every round.",
    ),
}


def _paper_entries(rows: Records) -> Iterator[GalleryEntry]:
    values = sorted(rows.distinct("n_subpar"), reverse=True)
    several = len(values) > 1
    facts = f"{_facts(rows)} for each number of subpar arms."
    has_v = any(algorithm(label) == VARIANT for label in rows.distinct("policy"))
    if {8, 5} <= set(values):
        text = (
            "Eight of the arms subpar (above), and five (below). Left: cumulative regret over the rounds. Middle: "
            "which arms were pulled. Right: where the regret came from; optimal arms cost nothing. Means over "
            f"problems; bands and whiskers are one standard deviation. {facts}"
        )
        yield GalleryEntry("figure-1", "paper", "Figure 1 of the paper", text, partial(figure_1, rows))
    if several:
        text = f"{LEADING} For each number of subpar arms at 5ε; {_ten_epsilon(rows)}."
        title = "Theory and practice over subpar arms"
        yield GalleryEntry("theory-subpar", "theory", title, text, partial(theory_over, rows, "n_subpar"))
    for name, (title, title_of_all, text) in PAPER_FIGURES.items():
        with_v = name == WITH_V
        kind = "regret" if with_v else name.replace("-", " ")
        if with_v and not has_v:
            continue
        marks = f"{MARKS[kind]} {facts}"
        if several:
            draw = partial(overview, rows, kind, with_v=with_v)
            yield GalleryEntry(f"overview-{name}", "paper", title_of_all, f"{text} {marks}", draw)
        for v in values:
            draw = partial(panel, rows, kind, v, with_v=with_v)
            section = "details" if several else "paper"
            yield GalleryEntry(f"{name}-v{v}", section, f"{title}, |I_5ε| = {v}", marks, draw)
    for v in [v for v in values if v in (8, 5) or not several]:
        title = f"Theory and practice over time, |I_5ε| = {v}"
        text = f"{LEADING} Regret so far, beside the bounds for a horizon of that length."
        yield GalleryEntry(f"theory-time-v{v}", "theory", title, text, partial(theory_over_time, rows, v))


def _players_entries(rows: Records) -> Iterator[GalleryEntry]:
    caption = (
        "Final regret against the number of players: in total, and for one player. Means over problems, whiskers one "
        f"standard deviation; points are set apart a little so that whiskers show. {_facts(rows)} a point."
    )
    yield GalleryEntry("players", "studies", "More players", caption, partial(regret_by_players, rows))
    for v in by_subpar(rows) if len(rows.distinct("players")) > 1 else {}:
        title = "Theory and practice over the number of players" + ("" if v is None else f", |I_5ε| = {v}")
        name = "theory-players" + ("" if v is None else f"-v{v}")
        yield GalleryEntry(name, "theory", title, LEADING, partial(theory_over, rows, "players", v, study="players"))


def _small_epsilon_entry(rows: Records) -> GalleryEntry:
    alike = f"Players so alike (ε = {rows['epsilon'][0]:g}) that the two notions differ: {_ten_epsilon(rows)}."
    several = any(setting for setting, _ in settings(rows))
    draw = partial(theory_over, rows, "n_subpar") if several else partial(theory_over_time, rows, None)
    draw = partial(draw, study="small-epsilon")
    title = "Theory and practice for a small ε"
    return GalleryEntry("theory-small-epsilon", "theory", title, f"{LEADING} {alike}", draw)


TITLES = {
    "participation": (
        "Who takes part",
        "The comparison when not everyone is active in every round: the protocol that the paper's theory covers and "
        "its experiments do not.",
    ),
    "small-epsilon": ("A small ε", "Players that are more alike than in the paper's problems."),
}


def _study_entries(rows: Records, study: str) -> Iterator[GalleryEntry]:
    """The sheets of a study. Of one in TITLES, all but those of the regret go to the details."""
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", study).strip("-") or "study"
    title, words = TITLES.get(study, (study, ""))
    pages = math.ceil(len(settings(rows)) / SHEET)
    for kind, marks in MARKS.items():
        section = "details" if study in TITLES and kind != "regret" else "studies"
        caption = f"{words} {marks} {_facts(rows)} a panel.".strip()
        for page in range(pages):
            name = slug + ("" if kind == "regret" else f"-{kind.replace(' ', '-')}") + (f"-{page + 1}" if page else "")
            shown = f"{title}: {kind}" + (f", {page + 1} of {pages}" if pages > 1 else "")
            yield GalleryEntry(name, section, shown, caption, partial(study_sheet, rows, study, kind, page=page))


def save_all(records: Records, folder: str | Path, *, processes: int = 1) -> list[Path]:
    """Write every figure for which the records have data, as PNG and SVG; returns the files.

    Several processes are faster; a script that asks for them needs `if __name__ == "__main__"`.
    """
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    names = [entry.name for entry in catalogue(records)]
    if processes == 1:
        _save(records, out, names)
    else:
        files = imported_files()  # users' policies say how they look
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            for part in [pool.submit(_save, records, out, names[k::processes], files) for k in range(processes)]:
                part.result()
    return [out / f"{name}.{ending}" for name in names for ending in ("png", "svg")]


def _save(records: Records, folder: Path, names: Sequence[str], files: Sequence[Path] = ()) -> None:
    for file in files:
        import_file(file)
    for entry in catalogue(records):
        if entry.name in names:
            figure = entry.draw()
            for ending in ("png", "svg"):
                (folder / f"{entry.name}.{ending}").write_bytes(to_bytes(figure, ending))
