"""Everything that has a name stands in the reference: names, commands, options, fields, settings and routes."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator

import pytest
from built import ROOT, SITE, codes_of, text_of
from sphinx.util.inventory import InventoryFile
from test_docs import commands_below

import posse
from posse.cli import _parser
from posse.experiments.spec import reader
from posse.service.api.app import create_app
from posse.service.settings import Settings
from posse.service.storage.store import ServiceStore

INSIDE = {"posse.bench", "posse.compile", "posse.service.process", "posse.simulation.simulate"}
"""Modules with `__all__` that are not for users, or whose package has the names for them."""


@pytest.fixture(scope="module")
def documented() -> set[str]:
    found = InventoryFile.loads((SITE / "objects.inv").read_bytes(), uri="").data
    return {name for kind, names in found.items() if kind.startswith("py:") for name in names}


def public() -> Iterator[tuple[str, object]]:
    """Every public name with what it stands for."""
    source = ROOT / "src"
    listing = [path for path in source.rglob("*.py") if re.search(r"^__all__ =", path.read_text(), re.MULTILINE)]
    modules = {".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__") for path in listing}
    for module in ("posse", *sorted(modules - INSIDE)):
        found = importlib.import_module(module)
        yield from ((f"{module}.{name}", getattr(found, name)) for name in found.__all__ if not name.startswith("_"))
    yield from ((f"posse.{name}", getattr(posse, name)) for name in ("Client", "AsyncClient"))


def test_every_public_name_is_documented(documented):
    names = dict(public())
    assert "posse.simulate" in names
    assert "posse.insight.watch" in names

    def known(name: str, found: object) -> bool:
        full = f"{getattr(found, '__module__', '')}.{getattr(found, '__qualname__', '')}"
        return bool({name, full, f"posse.{name.rpartition('.')[2]}"} & documented)

    assert [name for name, found in names.items() if not inspect.ismodule(found) and not known(name, found)] == []


def test_a_page_of_names_begins_with_all_of_them_and_says_once_what_every_policy_declares(documented):
    page = text_of("reference/api/posse.policies")
    said = "Thompson sampling from the aggregate posterior while own data is scarce, then from the individual one."
    assert page.count(said) == 2  # in the table, and with the class
    assert "posse.Policy.randomised" in documented
    assert "posse.IndUCB.randomised" not in documented
    assert "False promises that nothing is drawn: scale 0 always" in page  # and not as a type


def silent(name: str, cls: type) -> Iterator[str]:
    """What of a public class says nothing about itself. What `Policy` declares is described there."""
    if not (cls.__doc__ or "").strip():
        yield name
    for member, value in vars(cls).items():
        plain = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        told = isinstance(plain, property) or inspect.isfunction(plain)
        declared = issubclass(cls, posse.Policy) and member in posse.Policy.__annotations__
        if told and not declared and not member.startswith("_") and not inspect.getdoc(getattr(cls, member)):
            yield f"{name}.{member}"


def test_every_public_class_method_and_property_says_what_it_does():
    assert [each for name, found in public() if inspect.isclass(found) for each in silent(name, found)] == []
    assert [*silent("int", type("Silent", (), {"act": lambda self: 1}))] == ["int", "int.act"]


def test_every_command_and_argument_is_there_and_has_a_help_text():
    text, codes = text_of("reference/commands"), " ".join(codes_of("reference/commands"))
    for command in commands_below(_parser()):
        assert command.prog in text
        for action in command._actions:
            if action.help != argparse.SUPPRESS and not isinstance(action, argparse._SubParsersAction):
                assert action.help, f"{command.prog}: {action.dest} has no help text"
                shown = [
                    *action.option_strings,
                    *([] if action.option_strings else [str(action.metavar or action.dest)]),
                ]
                assert [name for name in shown if name not in codes and name not in ("-h", "--help")] == []


def test_every_field_of_a_spec_is_there():
    codes = codes_of("reference/spec")
    tables = [reader.TOP_FIELDS, reader.STUDY_FIELDS, reader.GIVEN_FIELDS]
    tables += [reader._family_fields(family) for family in posse.generate.FAMILIES]
    fields = {name for table in tables for name in table} | {"label", "forget", "means", "file"}
    fields |= {
        field.name
        for policy in posse.all_policies()
        if policy.__module__.startswith("posse.")
        for field in policy._constant_fields()
    }
    assert {"n_subpar", "epsilon", "c2"} <= fields
    assert sorted(fields - codes) == []


def test_every_setting_is_there():
    codes = codes_of("reference/settings")
    sources = [*(ROOT / "src").rglob("*.py"), *(path for path in (ROOT / "deploy").iterdir() if path.is_file())]
    variables = {name for path in sources for name in re.findall(r"POSSE_[A-Z_]+\b", path.read_text())}
    assert "POSSE_TOKEN" in variables
    assert sorted(variables - codes) == []
    assert sorted({field.name for field in dataclasses.fields(Settings)} - codes) == []


def test_every_route_is_there(tmp_path):
    database = f"sqlite:///{tmp_path}/posse.db"
    ServiceStore(database, create=True).close()
    app, codes = create_app(Settings(database)), codes_of("reference/http")
    app.state.store.close()
    routes = {f"{method} {route.path}" for route in app.routes for method in getattr(route, "methods", None) or ["GET"]}
    assert "POST /v1/experiments/{name}/decisions" in routes
    assert sorted(route for route in routes - codes if not route.startswith("HEAD ")) == []
