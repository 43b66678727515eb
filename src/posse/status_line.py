"""A line of text that is rewritten while work goes on, on a terminal and in a notebook."""

import sys
from typing import TextIO


class StatusLine:
    """One line on a stream. In a file nothing can be rewritten, which `rewrites` says."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.terminal = out.isatty()
        self.rewrites = self.terminal or _is_notebook(out)  # a notebook is no terminal
        self._text = ""

    def write(self, text: str, end: str = "") -> None:
        """Write the text in place of the last one, unless it is the same."""
        if text != self._text:
            rest = "\033[K" if self.terminal else " " * (len(self._text) - len(text))  # a notebook has no such code
            self._text = text
            self.out.write(f"\r{text}{rest}{end}")
            self.out.flush()

    def end(self, text: str) -> None:
        """Remove the line from a terminal; in a notebook, where an empty line would stay, leave a last text."""
        if self.terminal:
            self.write("")
        else:
            self.write(text, "\n")


def status_stream() -> TextIO:
    """Where to say how far work is: standard error; in a notebook, where that looks like an error, standard output."""
    return sys.stdout if _is_notebook(sys.stderr) else sys.stderr


def _is_notebook(out: TextIO) -> bool:
    return type(out).__module__.startswith("ipykernel.")
