"""Pictures that the code of a page makes: its Python blocks are run, and where a picture stands it is drawn.

`of_pages.py diagnosis.md` makes those of one page.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DRAWN = {
    "diagnosis.md": {
        "diagnosis.png": "diagnosis.figure()",
        "diagnosis-effects.png": "diagnosis.effects_figure()",
        "diagnosis-attributes.png": "found.shares_figure()",
    },
}
"""For each page and picture, what draws it."""
STUDIES = {"contexts.png": "contexts.py"}
"""Pictures of scripts below `examples` that take --figure."""
PART = re.compile(r"```python\n(?P<code>.*?)```|\]\(images/(?P<image>[^)]+)\)", re.DOTALL)


def draw(page: str) -> None:
    """Run a page's code, and draw its pictures as it stands where they are shown."""
    scope: dict[str, Any] = {}
    left = dict(DRAWN[page])
    for part in PART.finditer((DOCS / page).read_text()):
        if part["code"]:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(part["code"], page, "exec"), scope)
        elif part["image"] in left:
            eval(left.pop(part["image"]), scope).savefig(DOCS / "images" / part["image"])
        if not left:
            return
    raise SystemExit(f"{page} does not show {', '.join(left)}")


def main(pages: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for page in pages or DRAWN:
            draw(page)
    for image, script in {} if pages else STUDIES.items():
        (path,) = (ROOT / "examples").rglob(script)
        subprocess.run([sys.executable, os.fspath(path), "--figure", os.fspath(DOCS / "images" / image)], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
