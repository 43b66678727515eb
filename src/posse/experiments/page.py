"""What all reports are made of: a page that needs nothing beside it, its style, tables and lists of facts."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any


def html_page(title: str, lede: str, parts: Sequence[tuple[str, str, str]]) -> str:
    """A page of sections, each with its anchor, its heading (text) and its body (HTML, like the lede)."""
    contents = "".join(f'<li><a href="#{name}">{escape(heading)}</a></li>' for name, heading, _ in parts)
    sections = "".join(
        f'<section id="{name}"><h2>{escape(heading)}</h2>{body}</section>' for name, heading, body in parts
    )
    return PAGE.format(title=escape(title), style=STYLE, lede=lede, contents=contents, sections=sections)


def html_facts(facts: Sequence[tuple[str, str]]) -> str:
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return f"<dl>{listed}</dl>"


def manifest_facts(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    facts = []
    if "seed" in manifest:
        facts.append(("seed", str(manifest["seed"])))
    versions = manifest.get("versions")
    if isinstance(versions, Mapping):
        facts.append(("run with", ", ".join(f"{name} {version}" for name, version in versions.items())))
    if "machine" in manifest:
        facts.append(("machine", str(manifest["machine"])))
    runs = manifest.get("runs")
    if isinstance(runs, Sequence) and not isinstance(runs, str):
        for run in (run for run in runs if isinstance(run, Mapping)):
            took = f", {run['seconds']:,.0f} s" if isinstance(run.get("seconds"), (int, float)) else ", not finished"
            facts.append(
                ("run", f"{run.get('started', '?')}, {run.get('units', '?')} units on {run.get('on', '?')}{took}")
            )
    return facts


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "", kind: str = "") -> str:
    """A table; the head is text, the cells are HTML. It scrolls by itself where the screen is narrow."""
    columns = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    lines = "".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>" for row in rows
    )
    note = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = f"{note}<thead><tr>{columns}</tr></thead><tbody>{lines}</tbody>"
    return f'<div class="scroll"><table class="{kind}">{body}</table></div>'


STYLE = textwrap.dedent(
    """
    :root { color-scheme: light dark; --ink: #1c1f23; --soft: #5b6470; --paper: #ffffff; --line: #d9dee4;
      --tint: #f4f6f8; --good: #00694b; --bad: #a63d00; --best: #e3f1ea; --link: #005a91; }
    @media (prefers-color-scheme: dark) { :root { --ink: #e7eaee; --soft: #a3adb8; --paper: #15181c; --line: #363d45;
      --tint: #1f242a; --good: #5fd0a8; --bad: #ff9d66; --best: #1d3a30; --link: #7cc4f5; } }
    * { box-sizing: border-box; }
    body { margin: 0; background: var(--paper); color: var(--ink);
      font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
    main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
    h1 { font-size: 1.75rem; line-height: 1.2; margin: .5rem 0 1rem; overflow-wrap: anywhere; }
    h2 { font-size: 1.3rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line); }
    h3 { font-size: 1.05rem; margin: 1.5rem 0 .4rem; }
    p { max-width: 46rem; } a { color: var(--link); }
    nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; }
    .scroll { overflow-x: auto; margin: .5rem 0 1rem; }
    table { border-collapse: collapse; font-size: .875rem; min-width: 100%; font-variant-numeric: tabular-nums; }
    caption { caption-side: bottom; text-align: left; color: var(--soft); padding-top: .3rem; }
    th, td { padding: .35rem .5rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
    thead th { border-bottom: 2px solid var(--line); color: var(--soft); font-weight: 600; }
    tbody th { font-weight: 500; } tbody tr:hover { background: var(--tint); }
    .numbers td, .numbers thead th:not(:first-child) { text-align: right; white-space: nowrap; }
    .numbers tbody th { min-width: 7rem; } .cases td, .cases tbody th, .claims td { white-space: nowrap; }
    .claims tbody th { min-width: 15rem; }
    .numbers strong { background: var(--best); border-radius: .25rem; padding: .05rem .3rem; }
    .numbers strong::before { content: "▾ "; font-size: .8em; }
    .deviation, .source, .note, figcaption { color: var(--soft); } .source { display: block; font-size: .8rem; }
    .verdict { white-space: nowrap; } .holds { color: var(--good); } .does-not-hold { color: var(--bad); }
    dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; font-size: .9rem; }
    dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
    figure { margin: 1.5rem 0 2rem; }
    figure img { display: block; width: 100%; min-width: 34rem; max-width: 54rem; height: auto;
      background: #fff; border-radius: .4rem; border: 1px solid var(--line); padding: .6rem; }
    figcaption { font-size: .9rem; margin-top: .5rem; max-width: 46rem; } figcaption strong { color: var(--ink); }
    details { margin: .4rem 0; } summary { cursor: pointer; }
    pre { background: var(--tint); padding: .8rem; overflow-x: auto; font-size: .8rem; line-height: 1.4; }
    @media print { :root { color-scheme: light; --ink: #000; --soft: #444; --paper: #fff; --line: #bbb; --tint: #fff;
      --good: #00694b; --bad: #a63d00; --best: #fff; }
      body { font-size: 10pt; } main { max-width: none; padding: 0; } nav { display: none; }
      figure, tr { break-inside: avoid; } h2, h3, summary { break-after: avoid; }
      figure img { border: 0; padding: 0; min-width: 0; } .scroll { overflow: visible; }
      table { font-size: 7.5pt; } th, td { padding: .15rem .3rem; }
      details::details-content { content-visibility: visible; display: block; height: auto; } }
    """
).strip()

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p>{lede}</p>
<nav aria-label="Contents"><ul>{contents}</ul></nav>
{sections}
</main>
</body>
</html>
"""
