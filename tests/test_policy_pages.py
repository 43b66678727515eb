"""Every policy has a page and a picture, and the pictures' scripts run."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from sizes import FULL

import posse
from posse.policies import all_policies

DOCS = Path(__file__).parents[1] / "docs"
SHIPPED = sorted(
    {cls for cls in all_policies() if cls.__module__.startswith("posse.policies.")}, key=lambda cls: cls.__name__
)


def name_of(policy: type[posse.Policy]) -> str:
    return policy.name or policy.__name__


def page_of(policy: type[posse.Policy]) -> str:
    return policy.__module__.rpartition(".")[2].replace("_", "-")


@pytest.mark.parametrize("policy", SHIPPED, ids=lambda policy: policy.__name__)
def test_a_policy_has_a_page_with_its_call_a_formula_and_a_picture(policy):
    page = (DOCS / "policies" / f"{page_of(policy)}.md").read_text()
    assert page.startswith(f"# {name_of(policy)}\n`posse.{policy.__name__}(")
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    assert headings == ["Formula", "When to use it", "When not"]
    assert f"(../images/policies/{page_of(policy)}.png)" in page
    assert (DOCS / "images" / "policies" / f"{page_of(policy)}.png").exists()
    assert f"[{name_of(policy)}]({page_of(policy)}.md)" in (DOCS / "policies" / "README.md").read_text()


def test_there_is_no_page_without_a_policy():
    assert {path.stem for path in (DOCS / "policies").glob("*.md")} == {"README", *map(page_of, SHIPPED)}


def test_the_pages_call_has_the_defaults_of_the_policy():
    for policy in SHIPPED:
        call = re.search(r"`posse\.(\w+\(.*?\))`", (DOCS / "policies" / f"{page_of(policy)}.md").read_text())[1]
        named = dict(part.split("=") for part in call.partition("(")[2].rstrip(")").split(", ") if "=" in part)
        made = policy(*(0.1 for part in call.partition("(")[2].rstrip(")").split(", ") if part and "=" not in part))
        assert {name: float(value) for name, value in named.items()} == {name: getattr(made, name) for name in named}


def test_the_pictures_show_every_policy():
    script = runpy.run_path(str(DOCS / "pictures" / "policies.py"))
    drawn = {*script["POLICIES"], *script["WITH_ATTRIBUTES"], *script["EXPLAINED"].values()}
    assert {type(policy) for policy in drawn} == set(SHIPPED)
    assert all(script["file_of"](policy) == page_of(type(policy)) for policy in drawn)


@pytest.mark.parametrize("script", ["policies.py", "readme.py"] if FULL else ["readme.py"])  # all policies take long
def test_the_pictures_are_drawn(script):
    command = [sys.executable, str(DOCS / "pictures" / script), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "PosseTS" in done.stdout
