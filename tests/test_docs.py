"""The documents are checked: their examples run and print what they say, and every command is described."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import posse.testing
from posse.cli import _parser
from posse.policies import Policy

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", re.DOTALL)


@pytest.mark.parametrize(
    "document", [path for path in DOCUMENTS if BLOCK.search(path.read_text())], ids=lambda p: p.name
)
def test_examples_run_and_print_what_they_say(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for code, shown in BLOCK.findall(document.read_text()):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(document), "exec"), scope)
        if shown:
            assert printed.getvalue() == shown


def test_the_policy_of_the_contributors_guide_keeps_the_contract():
    code = BLOCK.search((ROOT / "CONTRIBUTING.md").read_text()).group(1)
    module = sys.modules.setdefault("blend_ts", types.ModuleType("blend_ts"))
    exec(compile(code, "CONTRIBUTING.md", "exec"), module.__dict__)
    assert issubclass(module.BlendTS, Policy)
    posse.testing.check_policy(module.BlendTS(5.0))


def test_every_command_is_in_the_readme():
    commands = next(action for action in _parser()._actions if hasattr(action, "choices") and action.choices).choices
    readme = (ROOT / "README.md").read_text()
    assert commands
    assert [name for name in commands if f"posse {name}" not in readme] == []


def test_documents_name_only_files_that_exist():
    for document in [*DOCUMENTS, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} points to {target}"


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_in_files_run(example):
    done = subprocess.run([sys.executable, str(example), "--quick"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 2
