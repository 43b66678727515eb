"""An install without extras: whatever is missing is named, together with how to install it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from small_spec import SMALL

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_command_and_every_public_name_works_or_names_its_extra():
    script = [sys.executable, str(ROOT / "tests" / "bare_install.py"), "--hide"]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}  # nothing here is worth compiling
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_experiments_do_without_pyarrow(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    hidden = "import sys; sys.modules['pyarrow'] = None; from posse.cli import main; sys.exit(main(sys.argv[1:]))"
    out = str(tmp_path / "out")
    for words in (["run", str(tmp_path / "small.toml"), "--out", out], ["report", out], ["compare", out, out]):
        done = subprocess.run([sys.executable, "-c", hidden, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert "the same" in done.stdout


def test_the_extras_that_the_code_names_exist():
    code = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    named = {part.split('"')[0] for part in code.split('extra("')[1:]} | {"cuda"}
    assert named <= set(PROJECT["optional-dependencies"])
    assert {"arrow", "client", "cluster", "experiments", "service"} <= named


def test_every_text_installs_posse_by_its_own_name():
    texts = [path for folder in ("src", "docs", "examples") for path in (ROOT / folder).rglob("*.*")]
    texts = [path for path in [*texts, *ROOT.glob("*.md")] if path.suffix in (".py", ".md", ".toml", ".html")]
    said = {path: set(re.findall(r"pip install '?(posse[\w-]*)", path.read_text())) for path in texts}
    assert {path.name: names for path, names in said.items() if names - {PROJECT["name"]}} == {}
    assert sum(map(bool, said.values())) > 8
    assert PROJECT["name"] == "posse-bandits"
