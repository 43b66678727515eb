"""A progress bar for people, on standard error."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

from posse.status_line import StatusLine

Progress = bool | Callable[[float], None] | None
"""True for a bar on standard error, a function that is called with the fraction done, or None."""


class Bar:
    """Called with the fraction done, draws a bar with the time left; silent for work under two seconds.

    Where nobody watches a terminal or a notebook (a log file), it writes a line for every tenth instead.
    """

    def __init__(self, out: TextIO | None = None, quiet_seconds: float = 2.0, width: int = 30) -> None:
        self.line = StatusLine(out or sys.stderr)
        self.quiet_seconds = quiet_seconds
        self.width = width
        self.start = time.monotonic()
        self.shown = ""

    def __call__(self, fraction: float) -> None:
        """Draw the bar."""
        spent = time.monotonic() - self.start
        if spent < self.quiet_seconds and not self.shown:
            return
        filled = int(fraction * self.width)
        left = f"{spent * (1 - fraction) / fraction:,.0f} s left" if fraction > 0 else "…"
        text = f"[{'█' * filled}{'·' * (self.width - filled)}] {fraction:4.0%}  {left}"
        if not self.line.rewrites:
            text = f"{int(fraction * 10) * 10} % done\n"
        if text == self.shown:
            return
        self.shown = text
        if not self.line.rewrites:
            self.line.out.write(text)
            self.line.out.flush()
        elif fraction < 1:
            self.line.write(text)
        else:
            self.line.end(f"done in {spent:,.0f} s")


def reporter(progress: Progress) -> Callable[[float], None] | None:
    """What to call with the fraction done, if anything."""
    return Bar() if progress is True else progress or None
