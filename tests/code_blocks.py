"""The Python blocks of documents: each page's are run from top to bottom, and must print what the page shows.

In an environment that has nothing to test with, this file runs the pages that it is given.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path

BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", re.DOTALL)


def run_blocks(document: Path) -> int:
    """Run every block of a page in one scope, and return how many there are."""
    scope: dict[str, object] = {}
    blocks = BLOCK.findall(document.read_text(encoding="utf-8"))
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(document), "exec"), scope)
        if shown:
            assert printed.getvalue() == shown, f"{document} shows\n{shown}\nbut its code prints\n{printed.getvalue()}"
    return len(blocks)


if __name__ == "__main__":
    for page in sys.argv[1:]:
        print(f"{page}: {run_blocks(Path(page))} blocks ran as they are shown")
