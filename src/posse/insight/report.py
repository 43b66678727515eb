"""Reports as HTML: one file, which needs nothing beside it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse.extras import extra
from posse.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ReportSection:
    """A part of a report: paragraphs, then pictures with what they show, then tables that begin with their headings."""

    title: str
    texts: Sequence[str] = ()
    pictures: "Sequence[tuple[str, Figure]]" = ()
    tables: Sequence[Sequence[Sequence[str]]] = ()


def templates(*folders: Path) -> "Environment":
    """The templates in some folders: what is put into them is escaped, and nothing that they name may be missing."""
    with extra("experiments", "a report"):
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

    style: dict[str, Any] = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    return Environment(loader=FileSystemLoader(folders), undefined=StrictUndefined, **style)


def to_html(title: str, sections: Sequence[ReportSection]) -> str:
    """A page with these sections; pictures are in it as SVG."""
    filled = [
        {**vars(section), "pictures": [(shown, _svg(figure)) for shown, figure in section.pictures]}
        for section in sections
    ]
    template = templates(Path(__file__).parent).get_template("report.html")
    return template.render(title=title, sections=filled, version=__version__)


def _svg(figure: "Figure") -> str:
    """The figure as an element of a page: without the lines that only a file of its own has."""
    from posse.figures.canvas import to_bytes

    return re.sub(r"^.*?(?=<svg)", "", to_bytes(figure, "svg").decode(), flags=re.DOTALL)
