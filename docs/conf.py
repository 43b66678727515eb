"""How `make docs` builds the site. The pages are plain Markdown, which also reads well where the code is kept."""

import importlib
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]

project = "posse"
author = "the posse authors"
version = release = importlib.import_module("posse.version").__version__
html_show_copyright = False

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "build_clock",
    "markdown_pages",
    "mathml",
]
exclude_patterns = ["_build", "_ext", "_static", "pictures", "gallery/sg_execution_times.rst"]
suppress_warnings = ["misc.highlighting_failure"]  # a JSON body over several lines in a shell command
default_role = "py:obj"  # `posse.Problem` in a docstring becomes a link, and anything else becomes code

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_dmath_double_inline = True
myst_heading_anchors = 4

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_use_param = False  # parameters that are described together stay together
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": "/plot_",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "plot_gallery": not os.environ.get("DRAFT"),
    "abort_on_example_error": True,
    "image_scrapers": ("figure_scraper.scrape",),
    "ignore_repr_types": r"matplotlib|Figure",
    "within_subsection_order": "reading_order.ReadingOrder",
    "reset_modules": (),
}

html_theme = "pydata_sphinx_theme"
html_title = "posse"
html_logo = html_favicon = "../src/posse/service/dashboard/static/icon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
smartquotes = False  # --quick is two hyphens
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"index": [], "search": [], "start": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "posse"},
    "navigation_with_keys": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "footer_start": [],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
