"""Compilation: an edited policy is never answered by a stale kernel, and an unedited one is never compiled twice."""

from __future__ import annotations

import ast
import importlib.util
import math
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numba
import numpy as np
import pytest
from bindable import FACTOR, bind_me, closure, twice

from posse.compile import Walk, bind, bind_all, compiled_mode, cpu, fused
from posse.compile.cache import cache_use, compiler_digest

MINE = """
from posse.policies import Policy


def urge(n):
    return {formula}


class Mine(Policy):
    randomised = False

    @staticmethod
    def index(n, s, N, S, M, log_T):
        return urge(n), 0.0
"""

RUN_MINE = """
import posse
from mine import Mine
from posse.policies.bindings import class_of
from posse.simulation.engine import kernels

result = posse.simulate(posse.Problem([[0.5, 0.5]]), Mine(), 20)
print(result.pulls.ravel().tolist(), sum(kernels(class_of(Mine()), False).advance.stats.cache_hits.values()))
"""


def python(code, folder, **environment):
    """What a script prints that runs in a process of its own."""
    path = os.pathsep.join([str(folder), *sys.path])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "NUMBA_CACHE_DIR": str(folder / "cache")} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def files(folder):
    """Every file below a folder, with when it was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_the_cache_serves_the_same_policy_and_never_an_edited_one(tmp_path):
    """Three processes: run, run again, edit a function that the policy calls and run."""
    source, cache = tmp_path / "mine.py", tmp_path / "cache"
    source.write_text(MINE.format(formula="-n"))
    assert python(RUN_MINE, tmp_path, PYTHONHASHSEED="0") == "[10, 10] 0\n"
    after_first = files(cache)
    assert after_first

    assert python(RUN_MINE, tmp_path, PYTHONHASHSEED="3") == "[10, 10] 1\n"
    assert files(cache) == after_first, "the second process compiled again"

    source.write_text(MINE.format(formula="n + 0"))
    assert python(RUN_MINE, tmp_path) == "[20, 0] 0\n"
    after_edit = files(cache)
    assert after_edit.keys() > after_first.keys()
    assert {path.parent.parent for path in after_edit} > {path.parent.parent for path in after_first}


@pytest.mark.skipif(not compiled_mode(), reason="nothing is compiled")
def test_what_other_steps_of_the_compiler_made_is_not_used(tmp_path, monkeypatch):
    """As if a version of posse with another `posse.compile` had used the same cache."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert len(compiler_digest()) == 64
    for digest, kernels in (("these", 1), ("others", 2), ("these", 2)):
        monkeypatch.setattr(cpu, "compiler_digest", lambda digest=digest: digest)
        bind(twice)(1.0)
        assert cache_use().kernels == kernels


SMALL_RUN = """
import posse
problems = posse.generate.subpar(2, count=2, players=3, arms=4, epsilon=0.1)
for family in ("uniform", posse.rewards.Beta(2.0)):
    problems += [posse.Problem(problem.means, 0.1, family) for problem in problems[:1]]
policies = [posse.RobustAggTS(0.1), posse.IndUCB()]
for schedule in (posse.schedule.Concurrent(), posse.schedule.Random(0.6)):
    result = posse.simulate(problems, policies, 30, seed=2, schedule=schedule)
    print([result.regret.tolist(), result.pulls.tolist(), result.reward.tolist()])
"""


NAMESAKES = """
from posse.compile import out_of_line

CHANGE = 0


@out_of_line
def changed(x):
{long}
    return CHANGE if x < 1e9 else -CHANGE


def kernel(x):
    return changed(x) + changed(x + 1.0) - changed(x + 2.0)
"""

BIND_NAMESAKES = """
from namesakes import kernel
from posse.compile import bind

print([bind(kernel, CHANGE=change)(1.0) for change in {changes}])
"""


def test_kernels_cached_by_two_processes_stay_apart_in_a_third(tmp_path):
    """Each of the two numbers its functions from one on, so that without names of their own they would be mixed up."""
    long = "\n".join(f"    x = x / (x * x + {k}.5)" for k in range(200))  # so that it is not inlined
    (tmp_path / "namesakes.py").write_text(NAMESAKES.format(long=long))
    for changes in ([1], [2], [1, 2], [2, 1]):
        assert ast.literal_eval(python(BIND_NAMESAKES.format(changes=changes), tmp_path, PYTHONHASHSEED="0")) == changes


def test_plain_python_gives_the_same_results_as_compiled_code(tmp_path):
    own_cache = os.environ.get("NUMBA_CACHE_DIR", "")  # these kernels other tests compile too
    compiled = python(SMALL_RUN, tmp_path, NUMBA_CACHE_DIR=own_cache)
    assert python(SMALL_RUN, tmp_path, NUMBA_DISABLE_JIT="1") == compiled
    regret, pulls, reward = ast.literal_eval(compiled.splitlines()[0])
    assert np.sum(pulls) == 2 * 4 * 3 * 30
    assert np.min(reward) > 0
    assert np.max(regret) > 0


KERNEL_FILE = """
def kernel(x):
    return x + 1.0
"""


def test_without_a_folder_to_write_to_it_still_works(tmp_path):
    """A file stands where the cache should be, so that no user, not even root, can write there."""
    (tmp_path / "small.py").write_text(KERNEL_FILE)
    (tmp_path / "cache").write_text("a file, not a folder")
    code = """
        from posse.compile import bind
        from small import kernel
        compiled = bind(kernel)
        print(compiled(1.0), compiled.stats.cache_path)
    """
    assert python(code, tmp_path) == "2.0 None\n"
    assert (tmp_path / "cache").read_text() == "a file, not a folder"


def test_without_a_home_it_still_works(tmp_path):
    (tmp_path / "small.py").write_text(KERNEL_FILE)
    code = """
        import pathlib
        def no_home():
            raise RuntimeError("Could not determine home directory.")
        pathlib.Path.home = no_home
        from posse.compile import bind
        from small import kernel
        print(bind(kernel)(1.0))
    """
    assert python(code, tmp_path, NUMBA_CACHE_DIR="", XDG_CACHE_HOME="") == "2.0\n"


def test_a_damaged_cache_is_begun_anew(tmp_path):
    """As after a power cut: index and compiled code are cut off, one after the other."""
    (tmp_path / "small.py").write_text(KERNEL_FILE)
    code = """
        from posse.compile import bind
        from small import kernel
        bound = bind(kernel)
        print(bound(1.0), sum(bound.stats.cache_hits.values()))
    """
    assert python(code, tmp_path) == "2.0 0\n"
    for kind in ("nbi", "nbc"):
        for path in (tmp_path / "cache").rglob(f"*.{kind}"):
            path.write_bytes(path.read_bytes()[:20])
        assert python(code, tmp_path) == "2.0 0\n"
        assert python(code, tmp_path) == "2.0 1\n", "it was not mended"


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path):
    (tmp_path / "small.py").write_text(KERNEL_FILE)
    code = """
        import errno
        from numba.core.caching import IndexDataCacheFile
        from posse.compile import bind
        from small import kernel

        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        IndexDataCacheFile.save = full
        print(bind(kernel)(1.0))
    """
    assert python(code, tmp_path) == "2.0\n"


def test_a_function_that_was_typed_in_can_be_bound(tmp_path):
    """As `posse.testing.check_policy` does with a policy from the prompt."""
    code = """
        from posse.compile import bind
        def typed_in(x):
            return x + 1.0
        print(bind(typed_in)(1.0))
    """
    assert python(code, tmp_path) == "2.0\n"


@pytest.mark.skipif(importlib.util.find_spec("scipy") is None, reason="SciPy is not installed")
def test_scipys_linear_algebra_is_imported_only_by_those_who_use_it(tmp_path):
    """It takes 0.17 s. A function of somebody else's in the same process still finds it."""
    (tmp_path / "small.py").write_text(KERNEL_FILE)
    code = """
        import sys
        import numba, numpy
        from posse.compile import bind
        from small import kernel
        print(bind(kernel)(1.0), "scipy.linalg" in sys.modules)
        dot = numba.njit(lambda a: numpy.dot(a, a))
        print(dot(numpy.array([3.0, 4.0])), "scipy.linalg" in sys.modules)
    """
    assert python(code, tmp_path) == "2.0 False\n25.0 True\n"


def test_numbas_own_cache_setting_is_left_as_it_was():
    before = numba.config.CACHE_DIR
    bind(bind_me)
    assert before == numba.config.CACHE_DIR


def sqrt(x):
    return math.sqrt(x)


def uses_sqrt(x):
    return sqrt(x) + 1.0


class TestBind:
    def test_functions_constants_and_tables_are_reached(self):
        assert bind(bind_me)(1.0) == bind_me(1.0) == 11.0

    def test_names_are_replaced_wherever_they_are_used(self):
        assert bind(bind_me, twice=closure(10.0), FACTOR=0.0)(1.0) == 16.0
        assert bind_me(1.0) == 11.0, "the original is left alone"

    def test_closures_over_numbers_and_functions_work(self):
        def add(f, x):
            def added(y):
                return f(y) + x

            return added

        assert [bind(closure(number))(2.0) for number in (3.0, 4.0)] == [6.0, 8.0]
        assert bind(add(closure(5.0), 1.0))(2.0) == 11.0

    def test_an_inner_function_beside_an_argument_that_nothing_reads(self):
        def square_and_add(x, unread):
            def square(y):
                return y * y + x

            return square(0.5)

        def use(x):
            return square_and_add(x, x)

        assert bind(use)(2.0) == 2.25

    def test_a_helper_may_have_the_name_of_an_attribute_that_it_uses(self):
        assert bind(sqrt)(9.0) == 3.0
        assert bind(uses_sqrt)(9.0) == 4.0

    def test_infinities_and_division_by_zero_follow_ieee(self):
        def divide(a, b):
            return a / b

        assert bind(divide)(1.0, 0.0) == np.inf
        assert bind(divide)(-1.0, 0.0) == -np.inf

    def test_sums_are_neither_reordered_nor_contracted(self):
        """Flags that would let the compiler do so would make these differ from plain Python."""

        def cancel(a, b):
            return (a + b) - a

        def multiply_add(a, b, c):
            return a * b + c

        assert bind(cancel)(1e16, 1.0) == cancel(1e16, 1.0) == 0.0
        x = 1 + 2.0**-30
        assert bind(multiply_add)(x, x, -(1 + 2.0**-29)) == multiply_add(x, x, -(1 + 2.0**-29)) == 0.0

    def test_defaults_of_keywords_are_kept(self):
        def scaled(x, *, factor=2.0):
            return factor * x

        def kernel(x):
            return scaled(x)

        assert Walk([kernel], {}).entries[0](3.0) == 6.0

    def test_a_policys_helper_may_have_the_name_of_something_bound(self):
        """A policy file with a function `contribution` of its own, which its index calls."""
        scope: dict = {}
        exec("def contribution(n, s):\n    return 100.0 * n\n\ndef index(n, s):\n    return contribution(n, s)", scope)

        def kernel(n, s):
            return index(n, s)  # noqa: F821

        def default(n, s):
            return n

        names = {"index": scope["index"], "contribution": default}
        rebuilt = Walk([kernel], names).entries[0]
        assert rebuilt(1.0, 2.0) == 100.0


class TestBindAll:
    def test_kernels_share_the_functions_that_they_call(self, tmp_path, monkeypatch):
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # so that both are compiled
        plain, more = bind_all([bind_me, bind_me_more], FACTOR=1.0)
        assert (plain(1.0), more(1.0)) == (9.0, 3.0)
        if not numba.config.DISABLE_JIT:
            shared = [entry.py_func.__globals__["twice"] for entry in (plain, more)]
            assert shared[0] is shared[1]
            assert len(shared[0].overloads) == 1

    def test_a_kernel_may_call_another(self):
        outer, inner = bind_all([uses_sqrt, sqrt])
        assert (outer(9.0), inner(9.0)) == (4.0, 3.0)

    def test_names_are_bound_in_the_modules_of_all_kernels(self):
        scope: dict = {"__name__": "elsewhere"}
        exec("FACTOR = 5.0\n\ndef kernel(x):\n    return FACTOR * x", scope)
        here, elsewhere = bind_all([bind_me, scope["kernel"]], FACTOR=1.0)
        assert (here(1.0), elsewhere(2.0)) == (9.0, 2.0)

    def test_environments_of_callees_are_connected(self, capfd):
        """`print` finds Python through the environment of the function that it is in."""
        bind(prints)(2.0)
        assert capfd.readouterr().out == "2.0\n"


def bind_me_more(x):
    return twice(x) + FACTOR


def print_it(x):
    print(x)


def prints(x):
    print_it(x)


def test_collecting_the_tests_compiles_nothing(tmp_path):
    """What is compiled while tests are collected is waited for by everybody who runs a single one."""
    here = Path(__file__).parent
    names = [here / f"test_{name}.py" for name in ("agreement", "contract", "normal", "posse_ts", "rewards")]
    collect = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *map(str, names)]
    done = subprocess.run(
        collect, env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "tests collected" in done.stdout
    assert not files(tmp_path)


def test_only_what_is_marked_is_fused():
    """A product and a sum, rounded once or twice; where a processor cannot fuse them, both results are the same."""

    def apart(x, y, z):
        return x * y + z

    def together(x, y, z):
        return x * y + z

    fused(together)

    def entry(x, y, z):
        return apart(x, y, z), together(x, y, z)

    x = 1.0 + 2.0**-30
    once, twice = 2.0**-60, 0.0
    found = bind(entry)(x, x, -(1.0 + 2.0**-29))
    assert found[0] == twice
    assert found[1] in (once, twice)
    assert Walk([apart], {}).digest != Walk([together], {}).digest
