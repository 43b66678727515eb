"""The progress bar."""

from __future__ import annotations

import io
import time

from posse.simulation.progress import Bar
from posse.simulation.work import Tracker


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_short_work_shows_nothing():
    out = Terminal()
    bar = Bar(out)
    bar(0.5)
    bar(1.0)
    assert out.getvalue() == ""


def test_a_terminal_sees_the_fraction_and_the_time_left_and_then_a_clean_line():
    out = Terminal()
    bar = Bar(out, quiet_seconds=0)
    bar(0.5)
    assert "50%" in out.getvalue()
    assert "s left" in out.getvalue()
    bar(1.0)
    assert out.getvalue().endswith("\r\033[K")


def test_a_log_gets_a_line_for_every_tenth():
    out = io.StringIO()
    bar = Bar(out, quiet_seconds=0)
    for step in range(101):
        bar(step / 100)
    assert [line.split(",")[0] for line in out.getvalue().splitlines()] == [
        f"{tenth} % done" for tenth in range(0, 101, 10)
    ]


def notebook():
    """A stream like that of a notebook's cells, which is no terminal."""
    return type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()


def shown(stream):
    """The lines that a reader sees in a notebook: what follows a carriage return is written over the line."""
    lines = []
    for line in stream.getvalue().split("\n"):
        seen = ""
        for part in line.split("\r"):
            seen = part + seen[len(part) :]
        lines.append(seen.rstrip())
    return lines


def test_a_notebook_sees_one_line_that_is_rewritten_and_at_last_how_long_it_took():
    out = notebook()
    bar = Bar(out, quiet_seconds=0)
    bar(0.0)
    bar(0.5)
    assert shown(out) == [f"[{'█' * 15}{'·' * 15}]  50%  0 s left"]
    bar(1.0)
    assert shown(out) == ["done in 0 s", ""]
    assert "\033" not in out.getvalue(), "notebooks do not know the codes of terminals"


def test_the_clock_starts_when_the_work_does_not_when_it_is_compiled():
    tracker = Tracker(10, progress=True)
    before = time.monotonic()  # compiling would be here
    tracker.show()
    assert tracker.report.start >= before
    assert Tracker(10, progress=None).report is None
    calls = []
    Tracker(10, progress=calls.append).show()
    assert calls == [0.0]
