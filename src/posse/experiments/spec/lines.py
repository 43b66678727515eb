"""Where each table and key of a TOML file stands."""

from __future__ import annotations

import re
from typing import Any


def find_lines(text: str, document: dict[str, Any]) -> dict[tuple[str | int, ...], int]:
    """The line of every table header and key, by path; a look at each line's beginning is enough."""
    part = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
    dotted = rf"{part}(?:\s*\.\s*{part})*"
    header = re.compile(rf"\s*(\[\[?)\s*({dotted})\s*\]\]?\s*(?:#.*)?$")
    assignment = re.compile(rf"\s*({dotted})\s*=")
    latest: dict[tuple[str | int, ...], int] = {}
    lines: dict[tuple[str | int, ...], int] = {}
    current: list[str] = []

    def resolve(parts: list[str], opens: bool, is_header: bool) -> tuple[str | int, ...]:
        path: tuple[str | int, ...] = ()
        node: Any = document
        for depth, name in enumerate(parts, 1):
            if not isinstance(node, dict) or name not in node:
                return ()
            node = node[name]
            path += (name,)
            if isinstance(node, list) and (is_header or depth < len(parts)):
                if opens and depth == len(parts):
                    latest[path] = latest.get(path, -1) + 1
                index = latest.get(path, 0)
                if index >= len(node):
                    return ()
                node = node[index]
                path += (index,)
        return path

    for line_number, line in enumerate(text.split("\n"), 1):
        if found := header.match(line.rstrip("\r")):
            parts = [name.strip("\"'") for name in re.findall(part, found[2])]
            if path := resolve(parts, found[1] == "[[", True):
                current = parts
                lines.setdefault(path, line_number)
        elif found := assignment.match(line):
            parts = current + [name.strip("\"'") for name in re.findall(part, found[1])]
            for end in range(len(current) + 1, len(parts) + 1):
                if path := resolve(parts[:end], False, False):
                    lines.setdefault(path, line_number)
    return lines
