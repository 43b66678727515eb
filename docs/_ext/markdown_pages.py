"""The pages of the site from the Markdown of this folder, with what only the site has.

- `<!-- made: commands -->` is replaced, with its paragraph, by what `reference_parts` makes from the code.
- A page that begins with `<!-- page: CONTRIBUTING.md -->` is that file of the repository, with its links changed and
  with the page's own heading.
- A page with `<!-- contents -->`, and a README, gets a table of contents: the pages that its lists and tables begin
  their lines with.
- A link that reads as the name of a file, `[log.md](log.md)`, reads as that page's heading.
- A diagram (docs/pictures/diagrams.py) becomes a part of the page, so that it has the page's colors.
- Tables get what a screen reader needs.
"""

from __future__ import annotations

import os
import re
from html import escape
from pathlib import Path
from typing import Any

import reference_parts
from docutils import nodes

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
NAMED = re.compile(r"\[[\w./-]+\.md\]\(([^)#\s]+\.md)(#[^)\s]+)?\)")
MADE = re.compile(r"<!-- made: (\w+) -->(?:\n[^\n]+)*")
PAGES = {
    "README.md": "start.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "examples/gallery": "gallery/index.rst",
}
"""What is outside of this folder and is a page, too."""


def fill(app: Any, name: str, source: list[str]) -> None:
    """Make a page complete before it is read."""
    if Path(app.env.doc2path(name)).suffix != ".md":
        return
    here = (DOCS / name).parent
    page = re.match(r"<!-- page: (\S+) -->\n(# .+)", source[0])
    text = page_of(page[1], here, page[2]) if page else source[0]
    text = MADE.sub(lambda found: getattr(reference_parts, found[1])(), text)
    text = LINK.sub(lambda found: to_page(found[1], here), text)
    if "<!-- contents -->" in text or (here != DOCS and name.endswith("README")):
        children = re.findall(r"^(?:- |\| )\[[^]]*\]\(([^)#:]+)\.(?:md|rst)\)", text, re.MULTILINE)
        text += "\n".join(["", "", "```{toctree}", ":hidden:", "", *dict.fromkeys(children), "```", ""])
    source[0] = NAMED.sub(lambda found: with_heading(here, found[1], found[2] or ""), text)


def with_heading(here: Path, page: str, part: str) -> str:
    """A link to a page that reads as its heading."""
    heading = re.search(r"^# (.+)$", (here / page).read_text(), re.MULTILINE)
    assert heading is not None, page
    return f"*[{heading[1]}]({page}{part})*"


def page_of(file: str, here: Path, heading: str) -> str:
    """A file of the repository as a part of a page in another folder."""
    whole = re.sub(r"^# .+$", heading, (ROOT / file).read_text(), count=1, flags=re.MULTILINE)
    return LINK.sub(lambda found: os.path.relpath((ROOT / file).parent / found[1], here), whole)


def to_page(target: str, here: Path) -> str:
    """A link as the site has it: to the page that a file outside of this folder has there."""
    path = (here / target).resolve()
    known = PAGES.get(os.path.relpath(path, ROOT))
    return os.path.relpath(DOCS / known, here) if known else target


def inline_diagrams(app: Any, document: nodes.document) -> None:
    """Put diagrams into the page in place of links to them."""
    for image in list(document.findall(nodes.image)):
        path = Path(app.env.doc2path(app.env.docname)).parent / image["uri"]
        drawing = path.read_text() if path.suffix == ".svg" else ""
        if 'class="diagram"' in drawing:
            said = f'<svg role="img" aria-label="{escape(image["alt"])}" '
            box = f'<div class="diagram-box" tabindex="0">{drawing.replace("<svg ", said, 1)}</div>'
            image.replace_self(nodes.raw("", box, format="html"))


def name_columns(app: Any, document: nodes.document) -> None:
    """A table without headings has no row for them, and an empty heading is named for those who hear the page."""
    for head in list(document.findall(nodes.thead)):
        entries = list(head.findall(nodes.entry))
        if not any(entry.astext().strip() for entry in entries):
            head.parent.remove(head)
            continue
        for entry in entries:
            if not entry.astext().strip():
                entry.children = [nodes.paragraph("", "", nodes.inline("", "row", classes=["visually-hidden"]))]


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", reference_parts.write_modules)
    app.connect("autodoc-process-docstring", reference_parts.to_restructured_text, priority=400)  # before napoleon
    app.connect("source-read", fill)
    app.connect("doctree-read", inline_diagrams)
    app.connect("doctree-read", name_columns)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
