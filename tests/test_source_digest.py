"""The digest of the source: what changes it, what does not, and that every Python agrees."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap

import pytest

from posse.compile import source_digest

FILES = {
    "far.py": "import math\n\nRATE = 2.0\n\ndef deep(x):\n    return RATE * math.sqrt(x)\n",
    "near.py": "from far import deep\n\ndef helper(x):\n    return deep(x) + 1.0\n",
    "kernel.py": textwrap.dedent('''
        import enum
        from typing import NamedTuple
        import numpy as np
        from near import helper

        TABLE = np.linspace(0.0, 1.0, 7)

        class Kind(enum.Enum):
            WIDE = 1

        class Pair(NamedTuple):
            a: float
            b: float

        def kernel(x: float, k: float = 2.0) -> float:
            """What it does."""
            # and why
            y: float = x * k
            print(f"{'a'} {y:.3f}")
            return Pair(helper(y), TABLE[1]).a if x != Kind.WIDE else 0.0
    '''),
}
RUN = "import kernel; from posse.compile.source import source_digest; print(source_digest(kernel.kernel))"


def digest(folder, edits=(), python=sys.executable, **environment):
    """The digest of the kernel after edits, from a process of its own."""
    for name, text in FILES.items():
        for before, after in edits:
            text = text.replace(before, after)
        (folder / name).write_text(text)
    done = subprocess.run(
        [python, "-B", "-c", RUN],
        cwd=folder,
        env={"PYTHONPATH": ":".join([str(folder), *sys.path])} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    return digest(tmp_path_factory.mktemp("before"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# and why", "# and another reason\n"),
        ("What it does.", "What it does now."),
        ("x * k", "(x  *  k)"),
        ("y: float", "y"),
        (" -> float", ""),
        ("x: float, k: float = 2.0", "x, k=2.0"),
    ],
)
def test_what_says_the_same_does_not_change_it(old, new, before, tmp_path):
    assert digest(tmp_path, [(old, new)]) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("RATE = 2.0", "RATE = 3.0"),
        ("+ 1.0", "+ 2.0"),
        ("math.sqrt(x)", "math.log(x)"),
        ("0.0, 1.0, 7", "0.0, 2.0, 7"),
        ("WIDE = 1", "WIDE = 2"),
        ("k: float = 2.0", "k: float = 3.0"),
        ("    a: float\n    b: float", "    b: float\n    a: float"),
    ],
)
def test_what_makes_other_numbers_changes_it(old, new, before, tmp_path):
    assert digest(tmp_path, [(old, new)]) != before


def test_functions_that_share_a_line_are_told_apart():
    up, down = lambda x: x + 1.0, lambda x: x - 1.0
    assert source_digest(up) != source_digest(down)


def test_a_function_without_source_counts_by_its_bytecode():
    scope: dict = {}
    exec("def f(x):\n    return x + 1\n\ndef g(x):\n    return x + 2", scope)
    assert source_digest(scope["f"]) == source_digest(scope["f"]) != source_digest(scope["g"])


def helper(x):
    return x + 1.0


def kernel(x):
    return helper(x)


def test_names_that_are_bound_are_part_of_it():
    def other(x):
        return x + 2.0

    assert source_digest(kernel) == source_digest(kernel)
    assert source_digest(kernel) != source_digest(kernel, helper=other)


def test_a_function_that_calls_itself_is_walked_once():
    assert source_digest(countdown)


def countdown(n):
    return countdown(n - 1) if n > 0 else 0


STAND_ALONE = """
import importlib.util, sys, types
for name in ("posse", "posse.compile"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["posse"].__path__ = sys.modules["posse.compile"].__path__ = []
numpy = types.ModuleType("numpy")
numpy.ndarray = numpy.generic = type("none", (), {})
sys.modules["numpy"] = numpy
for name in ("walk", "source"):
    spec = importlib.util.spec_from_file_location(f"posse.compile.{name}", f"FOLDER/{name}.py")
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
import near
print(module.source_digest(near.helper), module.source_digest(near.odd))
"""


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_every_python_gives_the_same(version, tmp_path):
    """Other Pythons have no numpy here, so the two modules are loaded without the package."""
    other = shutil.which(f"python{version}")
    if other is None or subprocess.run([other, "-c", ""], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"no Python {version} here")
    digest(tmp_path)  # writes the files
    (tmp_path / "near.py").write_text(FILES["near.py"] + "\n\ndef odd(x):\n    return f\"{'a'} {x!r:>{3}}\"\n")
    folder = str(__import__("posse.compile").compile.__path__[0])
    answers = [
        subprocess.run(
            [python, "-B", "-I", "-c", f"import sys; sys.path[:0] = [{str(tmp_path)!r}]\n" + code],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for code in [STAND_ALONE.replace("FOLDER", folder)]
        for python in (sys.executable, other)
    ]
    assert answers[0] == answers[1] != ""
