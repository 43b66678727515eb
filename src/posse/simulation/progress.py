"""A progress bar for people, on standard error."""

import sys
import time
from typing import TextIO


class Bar:
    """Called with the fraction done, draws a bar with the time left; silent for work under two seconds.

    Where nobody watches a terminal (a log file), it writes a line for every tenth instead.
    """

    def __init__(self, out: TextIO | None = None, quiet_seconds: float = 2.0, width: int = 30) -> None:
        self.out = out or sys.stderr
        self.quiet_seconds = quiet_seconds
        self.width = width
        self.start = time.monotonic()
        self.shown = ""

    def __call__(self, fraction: float) -> None:
        """Draw the bar."""
        spent = time.monotonic() - self.start
        if spent < self.quiet_seconds and not self.shown:
            return
        left = f"{spent * (1 - fraction) / fraction:,.0f} s left" if fraction > 0 else "…"
        if self.out.isatty():
            filled = int(fraction * self.width)
            text = f"\r[{'█' * filled}{'·' * (self.width - filled)}] {fraction:4.0%}  {left}\033[K"
            if fraction >= 1:
                text = "\r\033[K"
        else:
            text = f"{int(fraction * 10) * 10} % done\n"
        if text != self.shown:
            self.out.write(text)
            self.out.flush()
            self.shown = text
