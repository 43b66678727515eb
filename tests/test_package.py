"""The package: one version everywhere, locks that follow from pyproject.toml, an SBOM of what the wheel carries."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import posse

ROOT = Path(__file__).parent.parent
VENDOR = ROOT / "src/posse/service/dashboard/static/vendor"
LOCKED = {
    "requirements.lock": "experiments",
    "requirements-service.lock": "service",
    "requirements-dev.lock": "dev",
}


def test_the_version_is_the_same_everywhere():
    said = subprocess.run([sys.executable, "-m", "posse", "--version"], capture_output=True, text=True, check=True)
    component = json.loads((ROOT / "sbom.cdx.json").read_text())["metadata"]["component"]
    citation = (ROOT / "CITATION.cff").read_text()
    assert said.stdout == f"posse {posse.__version__}\n"
    assert re.findall(r"^version: (.*)$", citation, re.MULTILINE) == [posse.__version__]
    assert component["version"] == posse.__version__
    assert component["purl"] == f"pkg:pypi/posse-bandits@{posse.__version__}"


def test_the_sbom_has_every_file_of_others_that_the_wheel_carries():
    components = json.loads((ROOT / "sbom.cdx.json").read_text())["components"]
    files = {one["name"]: one["hashes"][0]["content"] for each in components for one in each["components"]}
    there = [path for path in VENDOR.iterdir() if path.suffix in (".js", ".css")]
    digests = {str(path.relative_to(ROOT / "src")): hashlib.sha256(path.read_bytes()).hexdigest() for path in there}
    assert files == digests
    versions = {f"{each['name']} {each['version']}" for each in components}
    assert versions == set(re.findall(r"  (\S+ [\d.]+),", (VENDOR / "VERSIONS").read_text()))


def needed(extra: str) -> dict[str, str]:
    """The packages that an extra needs here, with those that these need, each with the version that is installed."""
    own = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {
        canonicalize_name(name): [*map(Requirement, texts)] for name, texts in own["optional-dependencies"].items()
    }
    found: dict[str, str] = {}
    done: set[tuple[str, str]] = set()
    todo = [(one, extra) for one in [*map(Requirement, own["dependencies"]), *extras[extra]]]
    while todo:
        requirement, asked = todo.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate({"extra": asked}):
            continue
        if name == own["name"]:
            todo += [(one, each) for each in requirement.extras for one in extras[each]]
            continue
        found[name] = importlib.metadata.version(name)
        for each in {"", *requirement.extras}:
            if (name, each) not in done:
                done.add((name, each))
                todo += [(Requirement(text), each) for text in importlib.metadata.requires(name) or []]
    return found


@pytest.mark.parametrize(("file", "extra"), LOCKED.items())
def test_a_lock_has_what_its_extra_needs_and_nothing_else(file, extra):
    check_lock(file, extra)


def check_lock(file, extra):
    """Check a lock against what is installed."""
    text = (ROOT / file).read_text()
    entries = [Requirement(line.split(" \\")[0]) for line in re.findall(r"^[a-z].*$", text, re.MULTILINE)]
    locked = {
        canonicalize_name(entry.name): str(entry.specifier).removeprefix("==")
        for entry in entries
        if entry.marker is None or entry.marker.evaluate()
    }
    there = needed(extra)
    assert {name: version for name, version in locked.items() if there.get(name) != version} == {}
    assert set(there) <= set(locked)
    assert "://" not in text
    assert all("--hash=sha256:" in part for part in re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:])


def test_the_pip_that_installs_the_rest_is_locked():
    (wanted,) = map(Requirement, tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["set-up"])
    entry, *hashes = (ROOT / "requirements-pip.lock").read_text().split(" \\\n")
    name, version = entry.split("==")
    assert name == wanted.name == "pip"
    assert wanted.specifier.contains(version)
    assert hashes
    assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}\n?", each) for each in hashes)


def test_the_image_is_built_from_exact_versions():
    text = (ROOT / "deploy/Dockerfile").read_text()
    assert re.findall(r"^FROM \S+", text, re.MULTILINE) == re.findall(
        r"^FROM python:\d+\.\d+\.\d+-\S+", text, re.MULTILINE
    )
    assert re.findall(r"pip install .*", text) == [
        "pip install --no-cache-dir --require-hashes -r /opt/posse/requirements-service.lock"
    ]
