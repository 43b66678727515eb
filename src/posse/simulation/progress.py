"""A progress bar for people, on standard error."""

import time
from collections.abc import Callable
from typing import TextIO

from posse.status_line import StatusLine, status_stream

Progress = bool | Callable[[float], None] | None
"""True for a bar on standard error, a function that is called with the fraction done, or None."""


class Bar:
    """Called with the fraction done, draws a bar with the time left; silent for work under a second.

    Where nobody watches a terminal or a notebook (a log file), it writes a line for every tenth instead.
    """

    def __init__(self, out: TextIO | None = None, quiet_seconds: float = 1.0, width: int = 30) -> None:
        self.line = StatusLine(out or status_stream())
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
        left = f"{for_people(spent * (1 - fraction) / fraction)} left" if fraction > 0 else "…"
        text = f"[{'█' * filled}{'·' * (self.width - filled)}] {fraction:4.0%}  {left}"
        if not self.line.rewrites:
            text = f"{int(fraction * 10) * 10} % done"
        if text == self.shown:
            return
        self.shown = text
        if not self.line.rewrites:
            print(text if fraction == 1 else f"{text}, {left}", file=self.line.out, flush=True)
        elif fraction < 1:
            self.line.write(text)
        else:
            self.line.end(f"done in {for_people(spent)}")


def for_people(seconds: float) -> str:
    """A time, in the unit that people would take.

    >>> for_people(95.3), for_people(1_000), for_people(20_000)
    ('95 s', '17 min', '5.6 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def reporter(progress: Progress) -> Callable[[float], None] | None:
    """What to call with the fraction done, if anything."""
    return Bar() if progress is True else progress or None
