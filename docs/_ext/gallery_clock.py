"""Counts the seconds on the terminal while the gallery's scripts run: one that compiles its policies says nothing."""

import sys
import threading
from typing import Any

COLUMN = 72  # right of Sphinx's line, which names the script and leaves the cursor at its beginning


def setup(app: Any) -> dict[str, bool]:
    """Start before sphinx-gallery, which has the usual priority of 500, and stop after it."""
    done = threading.Event()
    if sys.stderr.isatty():
        clock = threading.Thread(target=count, args=(done,), daemon=True)
        app.connect("builder-inited", lambda app: clock.start(), priority=400)
        app.connect("builder-inited", lambda app: done.set(), priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def count(done: threading.Event) -> None:
    """Write to the terminal itself: what a script's `sys.stderr` gets is put into its page."""
    out, seconds = sys.stderr, 0
    while not done.wait(1.0):
        seconds += 1
        out.write(f"\033[{COLUMN}G{seconds:5} s\r")
        out.flush()
