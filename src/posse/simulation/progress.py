"""A progress bar for people, on standard error."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Bar:
    """Called with the fraction done, draws a bar with the time left; silent for work under two seconds."""

    def __init__(self, out: TextIO | None = None, quiet_seconds: float = 2.0, width: int = 30) -> None:
        self.out = out or sys.stderr
        self.quiet_seconds = quiet_seconds
        self.width = width
        self.start = time.monotonic()
        self.shown = False

    def __call__(self, fraction: float) -> None:
        """Draw the bar."""
        spent = time.monotonic() - self.start
        if spent < self.quiet_seconds and not self.shown:
            return
        if fraction >= 1:
            if self.shown:
                self.out.write("\r" + " " * (self.width + 40) + "\r")
                self.out.flush()
            self.shown = False
            return
        self.shown = True
        filled = int(fraction * self.width)
        left = f"{spent * (1 - fraction) / fraction:,.0f} s left" if fraction > 0 else "…"
        self.out.write(f"\r[{'█' * filled}{'·' * (self.width - filled)}] {fraction:4.0%}  {left}   ")
        self.out.flush()
