"""The map in docs/design.md, drawn from the import graph: `python tests/draw_map.py --write` brings it up to date.

A test compares the map with the graph, so it cannot go stale. Layers are those of the import-linter contract.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "design.md"
OPENED = ("experiments", "insight", "service")  # packages whose parts are shown too
BEGIN, END = "<!-- map:begin -->", "<!-- map:end -->"
WIDTH = 116

Imports = dict[str, set[str]]


def drawn() -> str:
    """The map: one line for each package or module, highest layer first, with what it imports directly."""
    graph = grimp.build_graph("posse", cache_dir=None)
    outer = imports_between(graph, "posse")
    lines = []
    for number, layer in enumerate(layers()):
        if number:
            lines.append("")
        for name in layer:
            lines += line(name, outer[name], 0)
            if name in OPENED:
                inner = imports_between(graph, f"posse.{name}")
                for part in downwards(inner):
                    lines += line(part, inner[part], 1)
    return "\n".join(lines) + "\n"


def layers() -> list[list[str]]:
    """The layers of the package as the contract lists them, highest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    found = next(each for each in contracts if each["type"] == "layers" and each.get("containers") == ["posse"])
    return [re.findall(r"\w+", layer) for layer in found["layers"]]


def imports_between(graph: grimp.ImportGraph, package: str) -> Imports:
    """What each child of the package imports from the other children."""
    children = graph.find_children(package)
    owner = {module: child for child in children for module in (child, *graph.find_descendants(child))}
    found: Imports = {child.removeprefix(f"{package}."): set() for child in children}
    for module, child in owner.items():
        for imported in graph.find_modules_directly_imported_by(module):
            other = owner.get(imported, child)
            if other != child:
                found[child.removeprefix(f"{package}.")].add(other.removeprefix(f"{package}."))
    return found


def downwards(imports: Imports) -> list[str]:
    """The names in an order in which importers come before what they import; in a cycle by name."""
    importers = defaultdict(set)
    for name, others in imports.items():
        for other in others:
            importers[other].add(name)
    order: list[str] = []
    left = set(imports)
    while left:
        free = sorted(name for name in left if not importers[name] & left) or [min(left)]
        order += free
        left -= set(free)
    return order


def line(name: str, imports: set[str], depth: int) -> list[str]:
    """`name → imports`, wrapped."""
    start = f"{'    ' * depth}{name:<{18 - 4 * depth}}"
    found = [start + "→" if imports else start.rstrip()]
    for number, other in enumerate(sorted(imports)):
        piece = f" {other}" + ("," if number < len(imports) - 1 else "")
        if len(found[-1]) + len(piece) > WIDTH:
            found.append(" " * 19)
        found[-1] += piece
    return found


def with_map(page: str) -> str:
    """The page with the map between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{PAGE.name} has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n```text\n{drawn()}```\n{END}{after}"


if __name__ == "__main__":
    page = PAGE.read_text()
    new = with_map(page)
    if "--write" in sys.argv:
        PAGE.write_text(new)
    elif new != page:
        sys.exit("The map is out of date: python tests/draw_map.py --write")
