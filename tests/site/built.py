"""The pages of the site that `make docs` built."""

from __future__ import annotations

import html.parser
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urldefrag

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"


LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""Which attribute of an element says what is loaded for it."""


class Page(html.parser.HTMLParser):
    """What a page has: its words, the places that it can be entered at, and what it links to or loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.places |= {found[name] or "" for name in ("id", "name") if name in found}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"] or "")
        if found.get(LOADED.get(tag, "")):
            self.loads.append(found[LOADED[tag]] or "")

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def paths() -> list[Path]:
    """Every page."""
    found = sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)
    assert found, "there is no site: make docs"
    return found


@cache
def page(path: Path) -> Page:
    return Page(path.read_text())


def text_of(name: str) -> str:
    """The words of a page."""
    return page(SITE / f"{name}.html").text


def codes_of(name: str) -> set[str]:
    """What stands as code on a page."""
    found = re.findall(r"<code[^>]*>(.*?)</code>", (SITE / f"{name}.html").read_text(), re.DOTALL)
    return {" ".join(html.unescape(re.sub(r"<[^>]+>", "", each)).split()) for each in found}


def broken(path: Path) -> list[str]:
    """The links of a page, and what it loads, that lead to no file of the site or to no place in it."""
    found = []
    for link in (*page(path).links, *page(path).loads):
        target, place = urldefrag(link)
        if re.match(r"[a-z]+:", target):
            continue
        file = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
        if not file.exists() or (place and file.suffix == ".html" and unquote(place) not in page(file).places):
            found.append(link)
    return found
