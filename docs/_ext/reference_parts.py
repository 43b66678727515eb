"""The reference, made from the code: modules, commands, the fields of a spec, settings and routes, as Markdown."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
import re
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MODULES = {
    "posse": "Everything that most programs need, under one name",
    "posse.policies": "The policies, and what a policy of your own is made of",
    "posse.generate": "Families of problems",
    "posse.rewards": "How rewards vary",
    "posse.schedule": "Who is active in which round",
    "posse.simulation": "Policies on problems: the simulator",
    "posse.learner": "Policies on real players: the learner",
    "posse.insight": "What a log says: diagnosis, evaluation, watching, conclusion, planning, theory",
    "posse.experiments": "Studies as data",
    "posse.service.client": "Clients of the service",
    "posse.testing": "The contract that every policy must pass",
}
"""The public modules. What they list in `__all__` is public."""
SINGLE = {
    "posse": ("Problem", "Attributes", "Outcome"),
    "posse.policies": ("propensity.propensities",),
    "posse.service.client": ("~posse.service.process.supervisor.background",),
}
"""What is documented with a module beside its `__all__`; after ~ under its own name."""


# ---------------------------------------------------------------- modules, as reStructuredText for autodoc


def public_names() -> dict[str, list[str]]:
    """For each public module the full names that its page documents, each name under the shortest path to it."""
    pages: dict[str, list[str]] = {}
    facade = importlib.import_module("posse")
    for module in MODULES:
        found = importlib.import_module(module)
        names = [] if found is facade else [name for name in found.__all__ if not inspect.ismodule(vars(found)[name])]
        full = [
            f"posse.{name}" if getattr(facade, name, 0) is getattr(found, name) else f"{module}.{name}"
            for name in names
        ]
        full += [name[1:] if name[0] == "~" else f"{module}.{name}" for name in SINGLE.get(module, ())]
        pages[module] = sorted(dict.fromkeys(full), key=_order)
    return pages


def write_modules(app: Any) -> None:
    """A page for each public module, in the folder `reference/api`."""
    folder = Path(app.srcdir) / "reference" / "api"
    folder.mkdir(exist_ok=True, parents=True)
    for module, names in public_names().items():
        lines = [module, "=" * len(module), "", f".. automodule:: {module}", "   :no-members:", ""]
        lines += _facade() if module == "posse" else _overview(names)
        for name in names:
            lines += [f".. auto{_kind(name)}:: {name}", *_without_declarations(_found(name)), ""]
        text = "\n".join(lines)
        path = folder / f"{module}.rst"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def _found(name: str) -> Any:
    path, _, last = name.rpartition(".")
    return getattr(importlib.import_module(path), last)


def _without_declarations(found: Any) -> list[str]:
    """What every policy declares is described once, with `Policy`."""
    base = importlib.import_module("posse.policies").Policy
    if not (inspect.isclass(found) and issubclass(found, base)) or found is base:
        return []
    return [f"   :exclude-members: {', '.join(name for name in dir(base) if not name.startswith('_'))}"]


def _order(name: str) -> tuple[bool, bool, str]:
    """What most programs use first, and errors last."""
    return _kind(name) == "exception", name.count(".") > 1, name.rpartition(".")[2].lower()


def _kind(name: str) -> str:
    found = _found(name)
    if inspect.isclass(found):
        return "exception" if issubclass(found, BaseException) else "class"
    return "function" if callable(found) else "data"


def _facade() -> list[str]:
    """What `posse` has from other modules, with links."""
    lines = [".. list-table::", "   :widths: 30 70", ""]
    for module, names in public_names().items():
        short = [f":py:obj:`{name} <{name}>`" for name in names if name.count(".") == 1 and module != "posse"]
        if short:
            lines += [f"   * - :doc:`{module}`", f"     - {', '.join(short)}"]
    return [*lines, ""]


def _overview(names: list[str]) -> list[str]:
    """What there is on a page, with links, each with the first sentence about it."""
    lines = [".. list-table::", "   :widths: 30 70", ""]
    for name in names:
        found, last = _found(name), name.rpartition(".")[2]
        said = (inspect.getdoc(found) or "").partition("\n\n")[0] if callable(found) else ""
        sentence = re.sub(r"\|(?=\w[^|]*\|)|(?<=\w)\|", r"\\|", re.split(r"(?<=\.)\s", said)[0])
        lines += [f"   * - :py:obj:`{last} <{name}>`", f"     - {' '.join(sentence.split())}"]
    return [*lines, ""]


def modules() -> str:
    """The table of the public modules."""
    rows = [[f"[{module}](reference/api/{module}.rst)", _escaped(text)] for module, text in MODULES.items()]
    return "\n".join(_table(["module", "what it is for"], rows))


def to_restructured_text(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Indented formulas stay as they are written, and the names of pages become links."""
    text = "\n".join(lines)
    text = re.sub(r"(?m)^(?=\S)(?!- |>>>|\.\. )(.*[^\s:])\n\n(?=    (?! *>>>))", r"\1\n\n::\n\n", text)
    text = re.sub(r"(?<!`)docs/([\w-]+)\.md(?:#[\w-]+)?", r":doc:`/\1`", text)
    lines[:] = [
        re.sub(r"\|(?=\w[^|]*\|)|(?<=\w)\|", r"\\|", line) if line[:1].isalpha() else line for line in text.split("\n")
    ]
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # napoleon would take what stands before a colon in the first line for a type


# ---------------------------------------------------------------- commands


def commands() -> str:
    """Every command with its options, as its own help has them."""
    cli = importlib.import_module("posse.cli")
    parser = cli._parser()
    (subparsers,) = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    lines = []
    for command in subparsers.choices.values():
        lines += _command(command, 2)
    return "\n".join(lines)


def _command(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    yield from ("", f"{'#' * level} {parser.prog}", "", _escaped(parser.description or ""), "")
    below = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not below:
        usage = re.sub(r"\s+", " ", parser.format_usage().removeprefix("usage: "))
        yield from ("```text", *textwrap.wrap(usage, 66, subsequent_indent="    "), "```", "")
    formatter: Any = parser._get_formatter()
    rows = [
        [_code(formatter._format_action_invocation(each)), _escaped(formatter._expand_help(each))]
        for each in sorted(parser._actions, key=lambda each: bool(each.option_strings))
        if each not in below and each.help != argparse.SUPPRESS and "--help" not in each.option_strings
    ]
    if rows:
        yield from _table(["argument", "what it is"], rows)
    for each in below:
        for command in each.choices.values():
            yield from _command(command, level + 1)


# ---------------------------------------------------------------- the fields of a spec


WORDS = {
    "title": "what the report is called",
    "defaults": "a table `[defaults]` with fields for all studies, any but `name`; a study may override them",
    "study": "the studies, each a table `[[study]]`; at least one",
    "name": "the study's own name",
    "turns": "in place of `horizon`: as many rounds as let a player act that often, on average",
    "problems": "a table `[study.problems]`, see below",
    "policies": "tables `[[study.policies]]`, see below; at least one",
    "extra_policies": "tables `[[study.extra_policies]]`: more for one study, where `[defaults]` has the policies",
    "kind": 'how means change: "swap", "drift" or "season"',
    "every": "after how many rounds means change",
    "times": "how often they change",
    "step": "how far a mean drifts at most",
}
"""Of fields that neither the commented example nor a docstring describes."""


def spec_fields() -> str:
    """Every field of a spec, with the words of the commented example that `posse init` writes."""
    reader = importlib.import_module("posse.experiments.spec.reader")
    generate = importlib.import_module("posse.generate")
    said = _comments((Path(reader.__file__).parent / "shipped" / "example.toml").read_text())
    words = {**_arguments(generate.structured), **said, **WORDS}
    lines = ["## The file", "", *_fields(reader.TOP_FIELDS, words)]
    lines += ["## A study: `[[study]]`", "", *_fields(reader.STUDY_FIELDS, words)]
    lines += [
        "## Given problems: `[study.problems]`",
        "",
        "`means` is a table, or a list of tables; or `file` names one.",
    ]
    lines += [
        "",
        *_fields(
            reader.GIVEN_FIELDS,
            words | {"epsilon": "how much players may differ on an arm; omitted: the smallest that holds"},
        ),
    ]
    for family in generate.FAMILIES:
        lines += [f'## Drawn problems: `family = "{family}"`', "", f"See {{py:obj}}`posse.generate.{family}`.", ""]
        lines += _fields(reader._family_fields(family), words)
    lines += ["## A policy: `[[study.policies]]`", "", "Every policy takes these:"]
    rows = [[f"`{name}`", _escaped(said[name])] for name in ("name", "label", "forget")]
    lines += ["", *_table(["field", "what it is"], rows), "and its constants, each of which may be a list:", ""]
    policies = importlib.import_module("posse.policies")
    for name in sorted(policies.__all__):
        cls = getattr(policies, name)
        if inspect.isclass(cls) and issubclass(cls, policies.Policy) and cls is not policies.Policy:
            constants = ", ".join(_constant(each) for each in cls._constant_fields())
            lines.append(f"- {{py:obj}}`{name} <posse.{name}>`: {constants or 'none'}")
    return "\n".join(lines)


def _constant(field: Any) -> str:
    return f"`{field.name}`" + ("" if field.default is dataclasses.MISSING else f" ({field.default})")


def _fields(fields: dict[str, Any], words: dict[str, str]) -> list[str]:
    required = importlib.import_module("posse.experiments.spec.fields").REQUIRED
    rows = []
    for name, field in fields.items():
        default = (
            field.default[0] if field.grid and isinstance(field.default, tuple) and field.default else field.default
        )
        shown = "required" if default is required else "" if default in (None, (), {}, "") else _code(_in_toml(default))
        rows.append([f"`{name}`", shown, "yes" if field.grid else "", _escaped(words[name])])
    return _table(["field", "default", "a list is a grid", "what it is"], rows)


def _in_toml(value: Any) -> str:
    """A default as a spec would have it: a class without arguments is a word there."""
    return (
        str(value).lower()
        if isinstance(value, bool | float | int)
        else f'"{str(value).lower()}"'.replace("()", "").replace(" ", "-")
    )


def _arguments(function: Any) -> dict[str, str]:
    """What the docstring of a function says about each argument."""
    text = (inspect.getdoc(function) or "").partition("Args:\n")[2].partition("\n\n")[0]
    found = re.findall(r"(?m)^    (\w+): (.*(?:\n        .*)*)", text)
    return {name: " ".join(words.split()) for name, words in found}


def _comments(toml: str) -> dict[str, str]:
    """What the comment beside the first use of each key says."""
    found: dict[str, str] = {}
    key = ""
    for line in toml.splitlines():
        if begins := re.match(r"(\w+) = .*?  +# (.*)", line):
            key = begins[1] if begins[1] not in found else ""
            if key:
                found[key] = begins[2]
        elif key and (goes_on := re.match(r" {20,}# (.*)", line)):
            found[key] += " " + goes_on[1]
        else:
            key = ""
    return found


# ---------------------------------------------------------------- settings


def service_settings() -> str:
    """The settings and limits of the service, with the comments and strings beside them."""
    settings = importlib.import_module("posse.service.settings")
    source = Path(settings.__file__).read_text()
    (cls,) = [each for each in ast.parse(source).body if isinstance(each, ast.ClassDef)]
    said: dict[str, str] = {}
    for first, second in zip(cls.body, [*cls.body[1:], None], strict=True):
        if isinstance(first, ast.AnnAssign) and isinstance(first.target, ast.Name):
            text = second.value.value if isinstance(second, ast.Expr) and isinstance(second.value, ast.Constant) else ""
            said[first.target.id] = str(text)
    rows = []
    for field in dataclasses.fields(settings.Settings):
        default = "" if field.default is dataclasses.MISSING else _code(str(field.default))
        rows.append([f"`{field.name}`", default, _escaped(said[field.name])])
    limits = re.findall(r"^([A-Z_]+) = .*  # (.+)$", source, re.MULTILINE)
    shown = [[f"`{name}`", f"{getattr(settings, name):,}", _escaped(text)] for name, text in limits]
    lines = _table(["setting", "default", "what it is"], rows)
    return "\n".join([*lines, "Limits of one request:", "", *_table(["limit", "value", "of what"], shown)])


# ---------------------------------------------------------------- routes


def routes() -> str:
    """Every route of the service with its parameters, bodies and answers, from its OpenAPI description."""
    described, pages = described_service()
    lines = [described["info"]["description"], ""]
    operations = [(m.upper(), p, each) for p, methods in described["paths"].items() for m, each in methods.items()]
    for tag in described["tags"]:
        lines += [f"## {tag['name'].capitalize()}", "", tag["description"], ""]
        for method, path, operation in operations:
            if tag["name"] in operation["tags"]:
                lines += _operation(method, path, operation)
    lines += ["## Pages for people", "", "The dashboard, and what has no description of its own:", ""]
    lines += _table(["route", "what it is"], [[f"`{each}`", _escaped(text)] for each, text in pages])
    lines += ["## Bodies and answers", ""]
    for name, schema in sorted(described["components"]["schemas"].items()):
        lines += [f"({_anchor(name)})=", f"### {name}", "", _escaped(schema.get("description", "")), ""]
        rows = [
            [f"`{field}`", _type(each), _escaped(each.get("description", ""))]
            for field, each in schema.get("properties", {}).items()
        ]
        required = ", ".join(f"`{field}`" for field in schema.get("required", []))
        lines += _table(["field", "type", "what it is"], rows) if rows else []
        lines += [f"Required: {required}.", ""] if required else []
    return "\n".join(lines)


def described_service() -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The service's OpenAPI description, and its other routes, each with its first words."""
    api = importlib.import_module("posse.service.api.app")
    settings = importlib.import_module("posse.service.settings")
    store = importlib.import_module("posse.service.storage.store")
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/posse.db"
        store.ServiceStore(database, create=True).close()
        app = api.create_app(settings.Settings(database))
        described = importlib.import_module("posse.service.api.description").describe(app)
        app.state.store.close()
    known = {(method.upper(), path) for path, methods in described["paths"].items() for method in methods}
    others = []
    for route in app.routes:
        for method in sorted(getattr(route, "methods", None) or {"GET"}):
            if (method, route.path) not in known and method != "HEAD":
                text = inspect.getdoc(getattr(route, "endpoint", None)) or ""
                others.append((f"{method} {route.path}", text.partition("\n\n")[0].replace("\n", " ")))
    return described, others


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield from (f"### `{method} {path}`", "", operation.get("description", ""), "")
    scopes = [scope for each in operation.get("security", []) for scope in each.get("token", [])]
    yield from (f"Scope: {' or '.join(f'`{scope}`' for scope in scopes)}." if scopes else "No token is needed.", "")
    rows = [
        [f"`{each['name']}`", each["in"], _type(each["schema"]), _escaped(each.get("description", ""))]
        for each in operation.get("parameters", [])
    ]
    if rows:
        yield from _table(["parameter", "in", "type", "what it is"], rows)
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield from (f"Body: {_type(content['schema'])}.", "")
    answers = []
    for status, answer in sorted(operation["responses"].items()):
        kinds = ", ".join(_type(each["schema"]) for each in answer.get("content", {}).values() if each.get("schema"))
        said = "" if answer["description"] == "Successful Response" else _escaped(answer["description"])
        answers.append([status, kinds or ("a problem" if "$ref" in answer else ""), said])
    yield from _table(["status", "answer", "when"], answers)


def _type(schema: dict[str, Any]) -> str:
    """A schema in a few words, with links to the schemas that it names."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{_anchor(name)})"
    forms = schema.get("anyOf") or schema.get("oneOf")
    if forms:
        return " or ".join(dict.fromkeys(map(_type, forms)))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    kinds = schema.get("type", "anything")
    return " or ".join(kinds) if isinstance(kinds, list) else kinds


def _anchor(name: str) -> str:
    return f"schema-{name.lower()}"


# ---------------------------------------------------------------- Markdown


def _table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    shown = [head, ["---"] * len(head), *rows]
    return ["", *(f"| {' | '.join(' '.join(cell.split()) for cell in row)} |" for row in shown), ""]


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _escaped(text: str) -> str:
    """Plain text, so that Markdown changes nothing but the code in backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_|<>\[\]{}$])", r"\\\1", part) for part in parts)
