"""Policies from a user's own file."""

import gc
import importlib
import multiprocessing
import sys
from pathlib import Path

import pytest

from posse.policies.user import import_file

GREEDY = """
from dataclasses import dataclass

from posse.policies import Policy


@dataclass(frozen=True)
class {name}(Policy):
    bonus: float = 0.5

    @staticmethod
    def index(n, s, N, S, M, log_T, bonus):
        return s / max(n, 1.0) + bonus / max(n, 1.0), 0.0
"""


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    """No test leaves a folder on the search path, or a module behind."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("users_"):
            del sys.modules[name]
    importlib.invalidate_caches()
    gc.collect()  # the classes go too, so that no later test finds them among all policies


def _write(folder: Path, stem: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / f"{stem}.py"
    file.write_text(text)
    return file


def test_the_policies_of_a_file_are_known_by_the_name_of_the_file(tmp_path):
    file = _write(tmp_path, "users_one", GREEDY.format(name="UsersOne"))
    (found,) = import_file(file)
    assert (found.__module__, found.__name__, found(0.25).constants()) == ("users_one", "UsersOne", (0.25,))


def test_importing_the_same_file_twice_gives_the_same_classes(tmp_path, monkeypatch):
    file = _write(tmp_path, "users_twice", GREEDY.format(name="UsersTwice"))
    first = import_file(file)
    monkeypatch.chdir(tmp_path)
    assert import_file("users_twice.py") == first


def test_another_file_of_the_same_name_is_refused(tmp_path):
    import_file(_write(tmp_path / "a", "users_same", GREEDY.format(name="UsersSame")))
    with pytest.raises(ValueError, match=r"b/users_same.py needs another name: .*'users_same' is taken by .*a/users_s"):
        import_file(_write(tmp_path / "b", "users_same", GREEDY.format(name="UsersOther")))


@pytest.mark.parametrize("stem", ["sys", "json", "numpy", "colorsys"])
def test_a_file_named_as_a_module_there_is_already_is_refused(tmp_path, stem):
    with pytest.raises(ValueError, match=f"{stem}.py needs another name: the module '{stem}' is taken by"):
        import_file(_write(tmp_path, stem, GREEDY.format(name="UsersNever")))


def test_a_policy_named_as_one_of_ours_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"defines PosseTS, but posse.policies.posse_ts has a policy of that name"):
        import_file(_write(tmp_path, "users_ours", GREEDY.format(name="PosseTS")))


@pytest.mark.parametrize(
    ("stem", "text", "says"),
    [
        (
            "users_syntax",
            "x = 1\ny = (2\n",
            r"users_syntax.py, line 2: SyntaxError: '\(' was never closed\n    y = \(2",
        ),
        ("users_wrong", "x = 1\n\n\ny = x / 0\n", r"users_wrong.py, line 4: ZeroDivisionError: .*\n    y = x / 0"),
        ("users_lacks", "import no_such_thing\n", r"users_lacks.py, line 1: ModuleNotFoundError: .*no_such_thing"),
        ("users_none", "from posse.policies import IndTS\n", r"users_none.py defines no policy"),
        ("my-policies", "", r"my-policies.py cannot be imported; expected a Python file with a name such as"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_a_few_lines(tmp_path, stem, text, says):
    with pytest.raises(ValueError, match=says) as raised:
        import_file(_write(tmp_path, stem, text))
    assert len(str(raised.value).splitlines()) <= 3


def test_the_error_is_about_the_users_file_not_about_what_it_calls(tmp_path):
    text = "import json\n\ndef load():\n    return json.loads('{')\n\nload()\n"
    with pytest.raises(ValueError, match=r"users_calls.py, line 4: JSONDecodeError"):
        import_file(_write(tmp_path, "users_calls", text))


def test_a_file_that_is_not_there_or_is_no_python_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"there is no file .*nowhere.py"):
        import_file(tmp_path / "nowhere.py")
    (tmp_path / "policies.txt").write_text("")
    with pytest.raises(ValueError, match=r"policies.txt cannot be imported"):
        import_file(tmp_path / "policies.txt")


def test_other_processes_find_the_policies(tmp_path):
    (found,) = import_file(_write(tmp_path, "users_sent", GREEDY.format(name="UsersSent")))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(found.constants, (found(0.75),)) == (0.75,)
