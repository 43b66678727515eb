"""What a user sees of compilation: its progress, and the kernels that it leaves on disk."""

from __future__ import annotations

import ast
import os
import re
import sys

import numba
import pytest

from posse.cli import main
from posse.compile.cache import make_room
from posse.compile.progress import CompileProgress
from test_compile import python

PROGRESS = """
import sys
from posse.compile import bind, progress
import posse.compile.progress
from slow import kernel
progress = posse.compile.progress
progress.TERMINAL = progress.LOG = ({first}, 0.01)
sys.stderr.isatty = lambda: {terminal}
bind(kernel, what="Mine")(1.0)
"""
SLOW_FILE = "def f(x):\n    return x + 1.0\n\n\ndef kernel(x):\n    return f(x)\n"


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
class TestProgress:
    def errors(self, folder, first=0.0, terminal=False, stream="io.StringIO", to="stderr", **environment):
        """What a process that compiles writes to standard error, or to standard output."""
        if not (folder / "slow.py").exists():  # numba compiles anew what was written since
            (folder / "slow.py").write_text(SLOW_FILE)
        code = PROGRESS.format(first=first, terminal=terminal) + "\nsys.stderr.flush()"
        code = f"import io, sys\nout = sys.stdout\nsys.stdout, sys.stderr = {stream}(), {stream}()\n" + code
        code += f"\nprint(ascii(sys.{to}.getvalue()), file=out)"
        return ast.literal_eval(python(code, folder, **{"POSSE_QUIET": ""} | environment))

    def test_on_a_terminal_one_line_is_rewritten_and_removed(self, tmp_path):
        shown = self.errors(tmp_path, terminal=True)
        assert shown.startswith("\rcompiling Mine: function 1 of 2, 0 s\033[K")
        assert "\n" not in shown
        assert shown.endswith("\033[K\r\033[K")
        assert self.errors(tmp_path, terminal=True) == "", "it comes from the cache now"

    def test_in_a_notebook_one_line_is_rewritten_and_says_at_last_how_long_it_took(self, tmp_path):
        stream = "type('OutStream', (io.StringIO,), {'__module__': 'ipykernel.iostream'})"
        shown = self.errors(tmp_path, stream=stream, to="stdout")  # what is on standard error looks like an error there
        assert shown.startswith("\rcompiling Mine: function 1 of 2, 0 s\r")
        assert re.search(r"\rcompiled Mine in \d+ s *\n$", shown)
        assert shown.count("\n") == 1
        assert "\033" not in shown

    def test_in_a_file_lines_follow_one_another(self, tmp_path):
        first, *others = self.errors(tmp_path).splitlines()
        assert first == "compiling Mine: function 1 of 2, 0 s; only the first time"
        assert others, "the compiler says nothing for long, so lines must come by themselves"
        assert all(re.fullmatch(r"compiling Mine: function [12] of 2, \d+ s", line) for line in others)

    @pytest.mark.parametrize("setting", [{"first": 600.0}, {"POSSE_QUIET": "1"}])
    def test_it_is_silent_where_it_is_short_or_unwanted(self, setting, tmp_path):
        assert self.errors(tmp_path, **setting) == ""

    def test_it_is_silent_in_worker_processes(self, monkeypatch):
        monkeypatch.delenv("POSSE_QUIET", raising=False)
        progress = CompileProgress("Mine", {})
        progress.open()
        assert progress.out is sys.stderr
        monkeypatch.setattr("multiprocessing.parent_process", lambda: "a process")
        progress.open()
        assert progress.out is None


class TestCacheSize:
    def kernels(self, folder, **ages):
        """Make kernels of 100 bytes each, last used so many seconds ago."""
        for name, age in ages.items():
            kernel = folder / (name * 16) / "inner"
            kernel.mkdir(parents=True)
            (kernel / "code.nbc").write_bytes(bytes(100))
            os.utime(kernel.parent, (1e9 - age, 1e9 - age))

    def test_what_was_used_least_recently_makes_room(self, tmp_path):
        self.kernels(tmp_path, a=10, b=30, c=20, d=40)
        (tmp_path / "not ours").mkdir()
        make_room(tmp_path / ("d" * 16), most_bytes=250)
        assert sorted(path.name[0] for path in tmp_path.iterdir()) == ["a", "d", "n"], "the new one is kept"

    def test_the_command_shows_and_clears_it(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
        self.kernels(tmp_path / "posse", a=10, b=20)
        assert main(["cache"]) == 0
        assert main(["cache", "--clear"]) == 0
        assert main(["cache"]) == 0
        folder = tmp_path / "posse"
        lines = capsys.readouterr().out.splitlines()
        assert lines == [
            f"2 kernels, 0.0 MB, in {folder}",
            f"Removed 2 kernels, 0.0 MB, from {folder}",
            f"0 kernels, 0.0 MB, in {folder}",
        ]
