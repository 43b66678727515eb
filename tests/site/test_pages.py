"""The built pages: links lead somewhere, nothing comes from elsewhere, and they work in a browser, also on a phone."""

from __future__ import annotations

import http.server
import re
import threading

import pytest
from browsing import Visit, chromium, faults
from built import ROOT, SITE, Page, broken, page, paths

LOOKED_AT = [
    *("index", "start", "tutorials", "how-to", "explanation", "reference", "development", "glossary", "theory"),
    *("one-idea", "randomness", "lazy-pick", "log", "dashboard", "gallery/index", "gallery/plot_plan"),
    *("reference/commands", "reference/spec", "reference/settings", "reference/http", "reference/api/posse.learner"),
]
"""Pages of every kind, which axe looks at."""


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def site():
    """The address of the site, served as files are."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, directory=str(SITE), **kwargs)

    def log_message(self, *args):
        """Say nothing."""


def test_every_link_leads_somewhere():
    assert {str(path.relative_to(SITE)): found for path in paths() if (found := broken(path))} == {}


def test_a_broken_link_is_noticed(tmp_path):
    path = tmp_path / "page.html"
    path.write_text('<a href="gone.html">a</a><a href="#gone">b</a><a href="#here" id="here">c</a><img src="gone.png">')
    assert broken(path) == ["gone.html", "#gone", "gone.png"]


def test_no_page_loads_anything_from_elsewhere():
    loaded = {link for path in paths() for link in page(path).loads if re.match(r"[a-z]+:|//", link)}
    assert {link for link in loaded if not link.startswith("data:")} == set()
    assert Page('<script src="https://elsewhere/x.js"></script>').loads == ["https://elsewhere/x.js"]
    styles = "".join(path.read_text() for path in (SITE / "_static").rglob("*.css"))
    assert re.findall(r"@import[^;]*//[^;]*|url\([\"']?(?:https?:)?//[^)]*\)", styles) == []


def test_every_page_of_the_repository_is_a_page_of_the_site():
    written = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert written - {path.relative_to(SITE) for path in paths()} == set()


@pytest.mark.parametrize("name", LOOKED_AT)
def test_axe_finds_nothing(browser, site, name):
    for scheme in ("light", "dark"):
        with Visit(browser, site, color_scheme=scheme) as tab:
            tab.goto(f"{name}.html")
            assert faults(tab) == []


def test_every_page_fits_a_phone_and_asks_nobody_else(browser, site):
    wide = {}
    with Visit(browser, site, width=400) as tab:
        for path in paths():
            name = str(path.relative_to(SITE))
            tab.goto(name)
            width = tab.evaluate("document.documentElement.scrollWidth")
            if width > 400:
                wide[name] = width
    assert wide == {}


def test_search_finds_a_page(browser, site):
    with Visit(browser, site) as tab:
        tab.goto("search.html?q=propensity")
        tab.get_by_role("link", name="Exact propensities").first.wait_for()
