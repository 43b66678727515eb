"""All figures for which some records have data, and their files."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from posse.experiments.paper.figures import (
    VARIANT,
    figure_1,
    overview,
    panel,
)
from posse.experiments.paper.theory import theory_over, theory_over_time
from posse.experiments.records import Records
from posse.experiments.report.study_figures import SHEET, participation, regret_by_players, study_sheet
from posse.experiments.summary import by_subpar, settings
from posse.figures.canvas import to_bytes
from posse.figures.looks import algorithm
from posse.policies.user import import_file, imported_files
from posse.text import plural


@dataclasses.dataclass(frozen=True)
class GalleryEntry:
    """A figure that some records have data for."""

    name: str
    """The file's name, without ending."""
    section: str
    """Where it belongs: "paper", "studies", "theory", or "details" (one panel each, and what is of less interest)."""
    title: str
    caption: str
    draw: Callable[[], Figure]


SECTIONS = ("paper", "studies", "theory", "details")
BAND = "Lines are means over problems, bands one standard deviation."
WHISKERS = "Bars are means over problems, whiskers one standard deviation."
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
            entries += _study_entries(rows, study, apart=study in TITLES)
            if study == "participation" and varied <= {"n_subpar", "schedule"}:
                first = entries.index(next(entry for entry in entries if entry.name == "participation"))
                entries[first] = dataclasses.replace(entries[first], draw=partial(participation, records))
        if study == "small-epsilon" and varied <= {"n_subpar"}:
            entries.append(_small_epsilon_entry(rows))
    return sorted(_told_apart(entries), key=lambda entry: SECTIONS.index(entry.section))


def _told_apart(entries: list[GalleryEntry]) -> list[GalleryEntry]:
    """The entries, with numbers added where file names would be the same; a file name drops signs of a study's name."""
    names: set[str] = set()
    apart = []
    for entry in entries:
        name, number = entry.name, 1
        while name in names:
            number += 1
            name = f"{entry.name}_{number}"
        names.add(name)
        apart.append(dataclasses.replace(entry, name=name))
    return apart


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


# The paper's figures: file name, kind of panel, whether RobustAgg-TS-V is shown, the title of one panel; then title and
# caption of the sheet with all panels, and what is drawn.
PAPER_FIGURES = (
    (
        *("regret", "regret", False, "Regret", "Regret for every number of subpar arms"),
        *("Cumulative regret, from many subpar arms to few.", BAND),
    ),
    (
        *("pulls", "pulls", False, "Which arms were pulled", "Which arms were pulled"),
        *("Percentage of all pulls, by how good the arm is for the player who pulled it.", WHISKERS),
    ),
    (
        *("regret-by-kind", "regret by kind", False, "Where the regret came from", "Where the regret came from"),
        *("Regret from near-optimal and from subpar arms; optimal arms cost nothing.", WHISKERS),
    ),
    (
        *("with-v", "regret", True, "With RobustAgg-TS-V", "The comparison with RobustAgg-TS-V"),
        "RobustAgg-TS refreshes the posteriors of what was pulled, which its analysis needs; RobustAgg-TS-V refreshes "
        "all of them in every round.",
        BAND,
    ),
)


def _paper_entries(rows: Records) -> list[GalleryEntry]:
    values = sorted(rows.distinct("n_subpar"), reverse=True)
    facts = f"{_facts(rows)} for each number of subpar arms."
    with_v = any(algorithm(label) == VARIANT for label in rows.distinct("policy"))
    entries = []
    if {8, 5} <= set(values):
        text = (
            "Eight of the arms subpar (above), and five (below). Left: cumulative regret over the rounds. Middle: "
            "which arms were pulled. Right: where the regret came from; optimal arms cost nothing. Means over "
            f"problems; bands and whiskers are one standard deviation. {facts}"
        )
        entries.append(GalleryEntry("figure-1", "paper", "Figure 1 of the paper", text, partial(figure_1, rows)))
    if len(values) > 1:
        text = f"{LEADING} For each number of subpar arms at 5ε; {_ten_epsilon(rows)}."
        title = "Theory and practice over subpar arms"
        entries.append(GalleryEntry("theory-subpar", "theory", title, text, partial(theory_over, rows, "n_subpar")))
    for name, kind, shows_v, title, title_of_all, text, marks in PAPER_FIGURES:
        if shows_v and not with_v:
            continue
        if len(values) > 1:
            draw = partial(overview, rows, kind, with_v=shows_v)
            entries.append(GalleryEntry(f"overview-{name}", "paper", title_of_all, f"{text} {marks} {facts}", draw))
        for v in values:
            draw = partial(panel, rows, kind, v, with_v=shows_v)
            section = "details" if len(values) > 1 else "paper"
            entries.append(GalleryEntry(f"{name}-v{v}", section, f"{title}, |I_5ε| = {v}", f"{marks} {facts}", draw))
    for v in values if len(values) == 1 else [v for v in values if v in (8, 5)]:
        title = f"Theory and practice over time, |I_5ε| = {v}"
        text = f"{LEADING} Regret so far, beside the bounds for a horizon of that length."
        entries.append(GalleryEntry(f"theory-time-v{v}", "theory", title, text, partial(theory_over_time, rows, v)))
    return entries


def _players_entries(rows: Records) -> list[GalleryEntry]:
    caption = (
        "Final regret against the number of players: in total, and for one player. Means over problems, whiskers one "
        f"standard deviation; points are set apart a little so that whiskers show. {_facts(rows)} a point."
    )
    entries = [GalleryEntry("players", "studies", "More players", caption, lambda: regret_by_players(rows))]
    for v in by_subpar(rows) if len(rows.distinct("players")) > 1 else {}:
        title = "Theory and practice over the number of players" + ("" if v is None else f", |I_5ε| = {v}")
        name = "theory-players" + ("" if v is None else f"-v{v}")
        entries.append(
            GalleryEntry(name, "theory", title, LEADING, partial(theory_over, rows, "players", v, study="players"))
        )
    return entries


def _small_epsilon_entry(rows: Records) -> GalleryEntry:
    caption = (
        f"{LEADING} Players so alike (ε = {rows['epsilon'][0]:g}) that the two notions differ: {_ten_epsilon(rows)}."
    )
    several = any(setting for setting, _ in settings(rows))

    draw = partial(theory_over, rows, "n_subpar") if several else partial(theory_over_time, rows, None)
    draw = partial(draw, study="small-epsilon")
    return GalleryEntry("theory-small-epsilon", "theory", "Theory and practice for a small ε", caption, draw)


TITLES = {
    "participation": (
        "Who takes part",
        "The comparison when not everyone is active in every round: the protocol that the paper's theory covers and "
        "its experiments do not.",
    ),
    "small-epsilon": ("A small ε", "Players that are more alike than in the paper's problems."),
}


def _study_entries(rows: Records, study: str, *, apart: bool) -> list[GalleryEntry]:
    """The sheets of a study. With `apart`, all but those of the regret go to the details."""
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", study).strip("-") or "study"
    title, words = TITLES.get(study, (study, ""))
    pages = math.ceil(len(settings(rows)) / SHEET)
    entries = []
    for kind, text in (("regret", BAND), ("pulls", WHISKERS), ("regret by kind", WHISKERS)):
        for page in range(pages):
            name = slug + ("" if kind == "regret" else f"-{kind.replace(' ', '-')}") + (f"-{page + 1}" if page else "")
            shown = f"{title}: {kind}" + (f", {page + 1} of {pages}" if pages > 1 else "")
            caption = f"{words} {text} {_facts(rows)} a panel.".strip()
            section = "details" if apart and kind != "regret" else "studies"
            entries.append(
                GalleryEntry(name, section, shown, caption, partial(study_sheet, rows, study, kind, page=page))
            )
    return entries


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
