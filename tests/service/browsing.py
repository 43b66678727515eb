"""A real browser, where there is one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = "needs playwright and Chromium; `make test-service` gives a browser"

REFUSED = "Failed to load resource: the server responded with a status of 4"  # said of every page that is refused


@contextmanager
def chromium() -> Iterator[Any]:
    """Chromium, or the test is skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason=MISSING)
    pytest.importorskip("axe_playwright_python", reason=MISSING)
    with playwright.sync_playwright() as driver:
        paths = [os.environ.get("POSSE_CHROMIUM", ""), driver.chromium.executable_path, *map(shutil.which, NAMES)]
        path = next((path for path in paths if path and os.path.exists(path)), None)
        if path is None:
            pytest.skip(MISSING)
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])  # tests may run as root
        yield browser
        browser.close()


class Visit:
    """A page somebody looks at, and whatever the browser complained about."""

    def __init__(self, browser: Any, url: str, width: int = 1200, height: int = 900, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": height}, base_url=url, **options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        here = urlsplit(url).netloc
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append("a dialog"), dialog.dismiss()))
        self.page.on("request", lambda asked: urlsplit(asked.url).netloc != here and self.elsewhere.append(asked.url))

    def _hear(self, said: Any) -> None:
        if said.type in ("error", "warning") and not said.text.startswith(REFUSED):
            self.complaints.append(said.text)

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, kind: Any, error: Any, at: Any) -> None:
        self.context.close()
        if error is None:
            assert not self.complaints
            assert not self.elsewhere


def faults(page: Any) -> list[str]:
    """What axe finds wrong with a page for people with disabilities."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page)
    return [f"{each['id']}: {[node['html'] for node in each['nodes']][:3]}" for each in found.response["violations"]]
