"""A line of text that is rewritten while work goes on, on a terminal and in a notebook."""

from __future__ import annotations

from typing import TextIO


class StatusLine:
    """One line on a stream. In a file nothing can be rewritten, which `rewrites` says."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.terminal = out.isatty()
        self.rewrites = self.terminal or type(out).__module__.startswith("ipykernel.")  # a notebook is no terminal
        self._length = 0

    def write(self, text: str) -> None:
        """Write the text in place of the last one."""
        rest = "\033[K" if self.terminal else " " * (self._length - len(text))  # a notebook does not know the code
        self._length = len(text)
        self.out.write(f"\r{text}{rest}")
        self.out.flush()

    def end(self, text: str) -> None:
        """Remove the line from a terminal; in a notebook, where an empty line would stay, leave a last text."""
        self.write("" if self.terminal else text)
        self.out.write("" if self.terminal else "\n")
