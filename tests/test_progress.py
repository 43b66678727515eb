"""The progress bar."""

from __future__ import annotations

import io

from posse.simulation.progress import Bar


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
    assert out.getvalue().splitlines() == [f"{tenth} % done" for tenth in range(0, 101, 10)]
