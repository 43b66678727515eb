"""Counts the seconds of a build on the terminal: Sphinx is silent while a script compiles, or many pages are read."""

import os
import sys
import threading
import time
from typing import Any

COLUMN = 73  # right of what Sphinx writes


def setup(app: Any) -> dict[str, bool]:
    done = threading.Event()
    if sys.stderr.isatty():
        terminal = sys.stderr.fileno()  # a script's `sys.stderr` is another: what it gets is put into its page
        threading.Thread(target=count, args=(terminal, done), daemon=True).start()
        app.connect("build-finished", lambda app, error: done.set())
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def count(terminal: int, done: threading.Event) -> None:
    """Write, and put the cursor back. Without Python's streams, whose locks a process that is forked would inherit."""
    start = time.monotonic()
    while not done.wait(1.0):
        os.write(terminal, f"\0337\033[{COLUMN}G{time.monotonic() - start:5.0f} s\0338".encode())
