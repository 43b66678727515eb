"""A policy that cannot be compiled: a few lines that name the function, the reason, the file and the line."""

from __future__ import annotations

import importlib.util
import sys
import textwrap

import numba
import pytest

import posse
from posse.compile import CompileError, bind

POLICY = """
import math
from posse.policies import Policy


def helper(x):
    return math.lg(x)


class Mine(Policy):
    @staticmethod
    def index(n, s, N, S, M, log_T):
{body}
"""

WRONG = {
    "a name that does not exist": ("return n + unknwon, 0.0", "the name 'unknwon' is not defined"),
    "a function of math that does not exist": ("return math.sqroot(n), 0.0", "math has no 'sqroot'"),
    "one number": ("return n", "it must return 2 numbers, but returns a number"),
    "three numbers": ("return n, s, 0.0", "it must return 2 numbers, but returns 3"),
    "a string": ("return 'high', 0.0", "it must return 2 numbers, but returns a string"),
    "an f-string": ("return len(f'{n:.2f}'), 0.0", "it uses an f-string"),
    "a dict": ("return {'a': n}['a'], 0.0", "it uses a dict"),
    "an import": ("import random; return n, 0.0", "it uses an import"),
    "a number and a string": ("return n + 'a', 0.0", "'add' cannot be applied to (a number, a string)"),
    "an attribute of a number": ("return n.mean, 0.0", "a number has no attribute 'mean'"),
}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A function that makes the policy with this body in a file of its own."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))

    def make(body, below=""):
        path = tmp_path / "mine.py"
        path.write_text(POLICY.format(body=textwrap.indent(body, " " * 8)) + below)
        spec = importlib.util.spec_from_file_location("mine", path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "mine", module)
        spec.loader.exec_module(module)
        return module.Mine()

    return make


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
class TestCompileError:
    @pytest.mark.parametrize("name", WRONG)
    def test_it_says_why_and_where_in_a_few_lines(self, name, mine, tmp_path):
        body, reason = WRONG[name]
        with pytest.raises(CompileError) as caught:
            posse.simulate(posse.Problem([[0.5, 0.5]]), mine(body), 5)
        first, place, line = str(caught.value).splitlines()
        assert first.startswith(f"Mine.index cannot be compiled: {reason}")
        assert place == f'  File "{tmp_path / "mine.py"}", line 13'
        assert line == f"    {body}"
        assert caught.value.__suppress_context__
        assert type(caught.value.original).__module__.startswith(("numba", "builtins"))

    @pytest.mark.parametrize("name", ["one number", "three numbers"])
    def test_a_learner_says_the_same(self, name, mine, tmp_path):
        body, reason = WRONG[name]
        with pytest.raises(CompileError) as caught:
            posse.Learner(mine(body), players=["a", "b"], arms=["x", "y"], seed=1).choose("a")
        place = f'  File "{tmp_path / "mine.py"}", line 13'
        assert str(caught.value).splitlines() == [f"Mine.index cannot be compiled: {reason}", place, f"    {body}"]

    def test_a_helper_is_named_with_its_own_line(self, mine):
        with pytest.raises(CompileError, match=r"helper cannot be compiled: math has no 'lg'\n.*line 7\n"):
            posse.Learner(mine("return helper(n), 0.0"), players=["a"], arms=["x", "y"], seed=1).choose("a")

    def test_a_call_with_too_many_arguments_is_named(self, mine):
        with pytest.raises(CompileError, match=r"^Mine.index cannot be compiled: it calls a function with other arg"):
            posse.simulate(posse.Problem([[0.5, 0.5]]), mine("return helper(n, s), 0.0"), 5)

    def test_a_body_without_a_return_is_refused_when_the_policy_is_made(self, mine):
        with pytest.raises(TypeError, match=r"Mine.index returns None where n=0, but expected \(center, scale\)"):
            mine("n + 1")


DRAWS = "it draws random numbers, which no seed would repeat; all chance must come from the center and the scale"
LUCKY = (
    "import numba, random\nimport numpy as np\nfrom random import gauss\nfrom numpy.random import normal\nimport mine\n"
)
LUCKY += "@numba.njit\ndef lucky(x):\n    return x + np.random.normal()\n"


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
class TestDraws:
    @pytest.mark.parametrize("drawn", ["np.random.random()", "random.random()", "gauss(0.0, 1.0)", "normal()"])
    def test_an_index_that_draws_is_refused_where_it_draws(self, drawn, mine, tmp_path):
        policy = mine(f"x = n + {drawn}\nreturn x, 0.0", LUCKY)
        for use in (
            lambda: posse.simulate(posse.Problem([[0.5, 0.5]]), policy, 5),
            lambda: posse.Learner(policy, players=["a"], arms=["x", "y"], seed=1).choose("a"),
        ):
            with pytest.raises(CompileError) as caught:
                use()
            first, place, line = str(caught.value).splitlines()
            assert first.startswith(f"Mine.index cannot be compiled: {DRAWS}")
            assert place == f'  File "{tmp_path / "mine.py"}", line 13'
            assert line == f"    x = n + {drawn}"

    @pytest.mark.parametrize("called", ["lucky(n)", "mine.lucky(n)"])
    def test_what_it_calls_may_not_draw_either(self, called, mine):
        with pytest.raises(CompileError, match=rf"lucky cannot be compiled: {DRAWS}[^\n]*\n.*\n    return x \+ np"):
            posse.simulate(posse.Problem([[0.5, 0.5]]), mine(f"return {called}, 0.0", LUCKY), 5)

    def test_names_of_its_own_are_no_draws(self, mine):
        policy = mine("return math.sqrt(n) + np.float64(random_number), 1.0", f"{LUCKY}random_number = 3.0\n")
        assert posse.simulate(posse.Problem([[0.5, 0.5]]), policy, 5).regret.shape[0] == 1


def divide_whole(a, b):
    if b == 0:
        raise ValueError("b is zero")
    return a // b


def test_errors_of_the_run_itself_are_left_alone():
    with pytest.raises(ValueError, match="b is zero"):
        bind(divide_whole)(1, 0)
