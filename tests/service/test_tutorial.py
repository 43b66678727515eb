"""The operator's tutorial: its commands, run from top to bottom in one shell, print what the page shows."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from fleet import FULL

PAGE = Path(__file__).parents[2] / "docs" / "tutorial-operator.md"
BLOCK = re.compile(r"```sh\n(.*?)```(?:\n\n```\n(.*?)```)?", re.DOTALL)
END = "--- the end of a block"


def looks_like(shown: str) -> str:
    """A pattern for what a block prints, in which … stands for what differs from run to run."""
    return ".*?".join(re.escape(part) for part in shown.split("…"))


@pytest.mark.skipif(not FULL, reason="kills and restarts a service on its clients' clock: make test-service FULL=1")
def test_the_commands_of_operators_print_what_they_say(tmp_path):
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) > 8
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = "".join(f"{commands}echo '{END}'\n" for commands, _ in blocks).replace("8080", str(port))
    settings = {name: value for name, value in os.environ.items() if not name.startswith("POSSE_")}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env={**settings, "PATH": path},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout.replace(str(port), "8080").split(f"{END}\n")
    for (commands, shown), found in zip(blocks, printed, strict=False):
        if shown:
            assert re.fullmatch(looks_like(shown.rstrip()), found.rstrip(), re.DOTALL), f"{commands}\n{found}"
