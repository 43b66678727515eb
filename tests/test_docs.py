"""The documents are checked: examples run, links lead somewhere, commands are described, the map is current."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import draw_map
import first_minute
import pytest
from code_blocks import BLOCK, run_blocks
from sizes import FULL

import posse.testing
from posse.cli import _parser
from posse.policies import Policy

ROOT = Path(__file__).parents[1]
LONG_STUDIES = ("ablation.py", "cluster_cost.py")  # they run in the full form
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [*DOCUMENTS, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


@pytest.mark.parametrize(
    "document", [path for path in DOCUMENTS if BLOCK.search(path.read_text())], ids=lambda p: p.name
)
def test_examples_run_and_print_what_they_say(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_blocks(document)


def test_the_policy_of_the_contributors_guide_keeps_the_contract():
    code = BLOCK.search((ROOT / "CONTRIBUTING.md").read_text()).group(1)
    module = sys.modules.setdefault("blend_ts", types.ModuleType("blend_ts"))
    exec(compile(code, "CONTRIBUTING.md", "exec"), module.__dict__)
    assert issubclass(module.BlendTS, Policy)
    posse.testing.check_policy(module.BlendTS(5.0))


def commands_below(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Every command and sub-command, such as `posse db` and `posse db verify`."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield below
                yield from commands_below(below)


def test_every_command_and_option_is_described():
    readme, everything = DOCUMENTS[0].read_text(), " ".join(" ".join(page.read_text() for page in DOCUMENTS).split())
    commands = list(commands_below(_parser()))
    names = [command.prog for command in commands]
    options = {name for command in commands for action in command._actions for name in action.option_strings}
    assert "posse db verify" in names
    assert "--workers" in options
    assert [name for name in names if name not in everything] == []
    assert [name for name in names if name.count(" ") == 1 and name not in readme] == []
    assert sorted(name for name in options - {"--help"} if name.startswith("--") and name not in everything) == []


def test_every_command_of_the_readme_is_timed():
    readme = DOCUMENTS[0].read_text()
    shell = "".join(re.findall(r"```sh\n(.*?)```", readme, re.DOTALL))
    code = [*shell.splitlines(), *re.findall(r"`([^`\n]+)`", readme)]
    found = (re.match(r"posse [a-z-]+|make [a-z]+|pip install \.", line) for line in code)
    commands = [match[0] for match in found if match]
    timed = set(first_minute.COMMANDS) | set(first_minute.CLONE)
    headings = re.findall(r"^## (.+)\n```python", readme, re.MULTILINE)
    assert len(headings) == len(BLOCK.findall(readme)) == 2
    assert sorted(timed - {"git clone", "make venv"}) == sorted({*commands, *headings})


def anchors_of(page: str) -> set[str]:
    """The anchors that a forge gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """The relative links of a page that lead to no file, or to no heading of it."""
    broken = []
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
        path = page.parent / target if target else page
        if not path.exists() or (anchor and anchor not in anchors_of(path.read_text())):
            broken.append(f"{target}#{anchor}" if anchor else target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    assert broken_links(page) == []


def test_a_broken_link_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A page\n[there](page.md) [too](#a-page) [no file](gone.md) [no heading](page.md#gone)")
    assert broken_links(page) == ["gone.md", "page.md#gone"]


def test_the_glossary_has_each_word_once_and_in_order():
    words = re.findall(r"^\| \*\*(.+?)\*\* \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert len(words) > 50
    assert [word for word, count in Counter(words).items() if count > 1] == []
    assert words == sorted(words, key=lambda word: word.replace("-", " "))


def test_every_page_is_reached_from_the_readme():
    reached, todo = set(), [DOCUMENTS[0]]
    while todo:
        page = todo.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", page.read_text())
        todo += [(page.parent / target).resolve() for target in targets]
    assert sorted(set(DOCUMENTS) - reached) == []


def test_what_may_be_touched_where_names_paths_that_exist():
    section = draw_map.PAGE.read_text().partition("## What may be touched where")[2].partition("## How to check")[0]
    rows = [line.split("|")[2:4] for line in section.splitlines() if line.startswith("| ")]
    named = {path for row in rows for cell in row for path in re.findall(r"`([\w./]+(?:/|\.py))`", cell)}
    assert len(named) > 30
    assert {path for path in named if not any((base / path).exists() for base in (ROOT, ROOT / "src/posse"))} == set()


def test_the_map_is_the_import_graph():
    page = draw_map.PAGE.read_text()
    assert page == draw_map.with_map(page), "bring the map up to date: python tests/draw_map.py --write"


STUDIES = sorted(path for path in (ROOT / "examples" / "studies").glob("*.py") if FULL or path.name not in LONG_STUDIES)


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.name)
def test_studies_run_in_their_quick_form(study):
    done = subprocess.run([sys.executable, str(study), "--quick"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 2


def test_no_class_name_stands_for_two_things():
    found = [
        name for path in (ROOT / "src").rglob("*.py") for name in re.findall(r"^class (\w+)", path.read_text(), re.M)
    ]
    assert [name for name in set(found) if found.count(name) > 1] == []


def test_every_picture_is_made_by_a_script_and_shown_by_a_page():
    scripts = " ".join(path.read_text() for path in (ROOT / "docs" / "pictures").glob("*.py"))
    pages = " ".join(page.read_text() for page in DOCUMENTS)
    pictures = [path for path in (ROOT / "docs" / "images").rglob("*") if path.is_file()]
    assert len(pictures) > 10
    alone = [path for path in pictures if path.parent.name == "images"]  # those in a folder are named by a rule
    assert [path.name for path in alone if path.stem not in scripts] == []
    assert [path.name for path in pictures if f"/{path.name})" not in pages] == []
