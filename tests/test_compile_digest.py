"""The digest under which kernels are cached changes with everything that they compute, and with nothing else."""

from __future__ import annotations

import textwrap

import numba
import numpy as np
import pytest
from bindable import bind_me, closure

from posse.compile import Walk


def digest(source):
    """What names the cache folder of the function `kernel` in a piece of source."""
    scope: dict = {"np": np, "numba": numba, "settings": type(np)("settings")}
    exec(textwrap.dedent(source), scope)
    return Walk([scope["kernel"]], {}).digest


FORMULA = "def kernel(x):\n    return {}"


HELPER = "def helper(x{}):\n    return {}\n\ndef kernel(x):\n    return helper(x)"


CLOSURE = "def make(number):\n    def kernel(x):\n        return number * x\n    return kernel\n\nkernel = make({})"


GLOBAL = "NUMBER = {}\n\ndef kernel(x):\n    return NUMBER * x"


SETTING = "settings.NUMBER = {}\n\ndef kernel(x):\n    return settings.NUMBER * x"


JITTED = "@numba.njit\ndef helper(x):\n    return {} * x\n\ndef kernel(x):\n    return helper(x)"


FOREIGN = (
    "@numba.{}\ndef scaled(x):\n    return {} * x\n\nsettings.helper = scaled\n\n"
    "def kernel(x):\n    return settings.helper(x)"
)


KEYWORDS = "def ratio({}):\n    return {}\n\ndef kernel(x):\n    return ratio(top=x, bottom=2.0)"


KINDS = "import enum\n\nclass Kind(enum.{}):\n    WIDE = {}\n\ndef kernel(x):\n    return x if x == Kind.WIDE else 0"


FIELDS = (
    "from collections import namedtuple\n\nPair = namedtuple('Pair', '{}')\n\ndef kernel(x):\n    return Pair(x, 1).a"
)


NAMED = "from math import tanh, expm1\nsquash = {}\n\ndef kernel(x):\n    return squash(x)"


HELPERS = "def up(x):\n    return x\n\ndef down(x):\n    return -x\n\n"


SWAPPED = HELPERS + "f, g, h = down, up, {}\n\ndef kernel(x):\n    return f(x) + g(x) + h(x)"


EDITS = {
    "which builtin a name is": (NAMED, ["tanh"], ["expm1"]),
    "which of two helpers a name is": (SWAPPED, ["up"], ["down"]),
    "a number": (FORMULA, ["2 * x"], ["3 * x"]),
    "the sign of a zero": (FORMULA, ["x * 0.0"], ["x * -0.0"]),
    "an operation": (FORMULA, ["2 * x"], ["2 + x"]),
    "a function of the library": (FORMULA, ["np.sin(x)"], ["np.cos(x)"]),
    "a helper": (HELPER, ["", "2 * x"], ["", "3 * x"]),
    "a global number": (GLOBAL, ["2.0"], ["3.0"]),
    "the type of a global number": (GLOBAL, ["2"], ["2.0"]),
    "a global table": (GLOBAL, ["np.array([1.0, 2.0])"], ["np.array([1.0, 3.0])"]),
    "a closed-over number": (CLOSURE, ["2.0"], ["3.0"]),
    "a default": (HELPER, [", k=2.0", "k * x"], [", k=3.0", "k * x"]),
    "a number in another module": (SETTING, ["2.0"], ["3.0"]),
    "a helper that is compiled already": (JITTED, ["2.0"], ["3.0"]),
    "a compiled helper in another module": (FOREIGN, ["njit", "2.0"], ["njit", "3.0"]),
    "a vectorised helper in another module": (FOREIGN, ["vectorize", "2.0"], ["vectorize", "3.0"]),
    "the order of arguments that are named": (
        KEYWORDS,
        ["top, bottom", "top / bottom"],
        ["bottom, top", "bottom / top"],
    ),
    "a member of an enumeration": (KINDS, ["IntEnum", "2"], ["IntEnum", "3"]),
    "a member that is no number": (KINDS, ["Enum", "2"], ["Enum", "3"]),
    "the order of fields": (FIELDS, ["a b"], ["b a"]),
    "a long table in a tuple": (GLOBAL, ["(np.zeros(2000), 1)"], ["(np.eye(1, 2000, 1000)[0], 1)"]),
    "a complex number": (GLOBAL, ["2j"], ["3j"]),
    "how wide a number is": (GLOBAL, ["np.float32(2.0)"], ["np.float64(2.0)"]),
    "the shape of a table": (GLOBAL, ["np.zeros(4)"], ["np.zeros((2, 2))"]),
    "the type of a table": (GLOBAL, ["np.zeros(4)"], ["np.zeros(4, np.int64)"]),
}


class TestDigest:
    @pytest.mark.parametrize("name", EDITS)
    def test_an_edit_changes_it(self, name):
        template, before, after = EDITS[name]
        assert digest(template.format(*before)) == digest(template.format(*before))
        assert digest(template.format(*before)) != digest(template.format(*after))

    def test_comments_and_lines_do_not(self):
        plain = "def kernel(x):\n    return 2 * x"
        commented = "# a comment\n\n\ndef kernel(x):\n\n    # why\n    return 2 * x"
        assert digest(plain) == digest(commented)

    def test_bound_names_are_part_of_it(self):
        def with_names(**names):
            return Walk([bind_me], names).digest

        assert len({with_names(), with_names(FACTOR=4.0), with_names(twice=closure(2.5))}) == 3
