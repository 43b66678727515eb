"""Pictures for the gallery: the figure that is the last value of a block, also if pyplot does not know it."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst, matplotlib_scraper


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save what pyplot has open, and a figure that a function of posse returned."""
    shown = matplotlib_scraper(block, block_vars, gallery_conf)
    found = block_vars["example_globals"].get("___")
    if shown or not isinstance(found, Figure):
        return shown
    path = next(block_vars["image_path_iterator"])
    found.savefig(path)
    title = found.get_suptitle() or found.axes[0].get_title(loc="left") or found.axes[0].get_title()
    return figure_rst([path], gallery_conf["src_dir"], title)
