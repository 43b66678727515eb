"""Pictures of the gallery: those of pyplot, and a figure that is the last line of a block, as in a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from weakref import WeakSet

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst, matplotlib_scraper

_DRAWN: WeakSet[Figure] = WeakSet()  # what a block shows stays there until another block shows something


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Write the pictures of a block, and return them as reStructuredText."""
    found = matplotlib_scraper(block, block_vars, gallery_conf)
    shown = block_vars["example_globals"].get("___")  # the value of the last line
    if not isinstance(shown, Figure) or shown in _DRAWN:
        return found
    _DRAWN.add(shown)
    path = next(block_vars["image_path_iterator"])
    shown.savefig(path)
    title = Path(block_vars["src_file"]).read_text().splitlines()[1]
    return found + figure_rst([path], gallery_conf["src_dir"], fig_titles=title)


def _get_sg_image_scraper() -> Any:
    """Where sphinx-gallery looks for it, if this module's name is one of its `image_scrapers`."""
    return scrape
