"""Loops, calls, tables and whole numbers are what Python makes of them, though few instructions are made of them."""

from __future__ import annotations

import gc
import math
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from numba.core import cgutils
from numba.cpython.unsafe.tuple import tuple_setitem

from posse.compile import CompileError, bind, compiled_mode, independent, masked, out_of_line
from posse.compile.cpu_lowering import KernelLower
from test_compile import python

FLOATS = (0.25, -1.5, 4.0, 1e300)
WHOLE = (3, -7, 2**40)


def count_all(places, first, last, step):
    number = 0
    for up in range(last):
        for _ in range(up, first):
            places[number % places.size] += up
            number += 1
    for down in range(first, last, step):
        number = 3 * number + down
        for up in range(down):
            number ^= up
            if up == 5:
                break
    for index in range(first, last):
        number += index
    for place, index in enumerate(range(first, first + 3)):
        number += place * index
    return number + sum_of(range(first), 2) + sum_of(range(first, last, step), 1)


def sum_of(numbers, times):
    total = 0
    for number in numbers:
        total += number * times
    return total


@pytest.mark.parametrize(
    ("first", "last", "step"), [(0, 0, 1), (2, 9, 3), (9, 2, -2), (5, 4, 1), (-4, 3, 2), (1, -6, -1)]
)
def test_loops_count_as_in_python(first, last, step):
    compiled, plain = np.zeros(7, np.int64), np.zeros(7, np.int64)
    assert bind(count_all)(compiled, first, last, step) == count_all(plain, first, last, step)
    assert compiled.tolist() == plain.tolist()


@pytest.mark.skipif(not compiled_mode(), reason="Python has no whole numbers without a sign")
def test_loops_over_numbers_without_a_sign_end():
    numbers = np.zeros(1, np.int64)
    assert bind(count_all)(numbers, np.uint64(2), np.uint64(5), np.uint64(2)) == count_all(numbers, 2, 5, 2)


def look_up(index):
    return FLOATS[index] + WHOLE[-1 - index]


def look_up_in_own(index):
    return FLOATS[index] + WHOLE[-1 - index]


look_up_in_own.__module__ = "posse.made"


def look_up_both(index):
    return look_up(index) + look_up_in_own(index)


def test_constants_are_found_from_both_ends(monkeypatch, tmp_path):
    made = []
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "posse.made", types.ModuleType("posse.made"))
    keep = cgutils.global_constant
    monkeypatch.setattr(cgutils, "global_constant", lambda *args: made.append(args[1]) or keep(*args))
    for index in (0, 1, 2, -1, -2, -3):
        assert bind(look_up_both)(index) == look_up_both(index)
    assert "table" in made or not compiled_mode()


def in_order(numbers):
    for place in range(1, numbers.size):
        numbers[place] += numbers[place - 1]


@independent
def in_any_order(numbers):
    for place in range(numbers.size):
        numbers[place] = 2.0 * numbers[place]


@masked
def few(numbers):
    for place in range(numbers.size):
        numbers[place] = 1.0 / numbers[place]


@out_of_line
def rarely(numbers):
    for place in range(numbers.size):
        numbers[place] += 1.0


def all_loops(numbers):
    in_order(numbers)
    in_any_order(numbers)
    few(numbers)
    rarely(numbers)


MARKS = {  # what LLVM is told of the loops
    "in_order": set(),
    "in_any_order": {"interleave.count", "parallel_accesses"},
    "few": {"interleave.count", "parallel_accesses", "vectorize.predicate.enable"},
    "rarely": {"interleave.count", "unroll.disable"},
    "all_loops": set(),
}


@pytest.mark.skipif(not compiled_mode(), reason="nothing is compiled")
def test_each_mark_says_what_may_be_made_of_a_loop(monkeypatch, tmp_path):
    found, in_any_order = {}, []
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    keep = KernelLower.lower_function_body

    def lower(self):
        entry, name, code = keep(self), self.func_ir.func_id.func.__name__, str(self.module)
        found[name] = set(re.findall(r"llvm\.loop\.([a-z._]+)", code))
        accesses = re.findall(r"^ *(?:%\S+ = load|store) .*", code, re.MULTILINE)
        in_any_order.extend([name] if all("!llvm.access.group" in each for each in accesses) else [])
        return entry

    monkeypatch.setattr(KernelLower, "lower_function_body", lower)
    bind(all_loops)(np.ones(3))
    assert found == MARKS
    assert sorted(in_any_order) == ["few", "in_any_order"]


def changed_at(first, position):
    numbers = tuple_setitem((first, first + 1.0, first + 2.0, first + 3.0), position & 3, 0.25)
    return numbers[0] + 2.0 * numbers[1] + 3.0 * numbers[2] + 5.0 * numbers[3]


def root_of_changed(first, position):
    return math.sqrt(changed_at(first / max(position * 1.0, 1.0), position))


@independent
def fill_with_changed(given, positions, found):
    for number in range(given.size):
        found[number] = root_of_changed(given[number], positions[number])


def fill_and_change(given, positions, found):
    fill_with_changed(given, positions, found)
    return changed_at(given[0], positions[0])


@pytest.mark.skipif(not compiled_mode(), reason="plain Python cannot change a tuple")
def test_iterations_in_vectors_do_not_share_a_functions_own_table():
    given, positions, found = np.linspace(0.0, 1.0, 40), np.arange(40)[::-1] // 3, np.zeros(40)
    bind(fill_and_change)(given, positions, found)
    for first, position, root in zip(given.tolist(), positions.tolist(), found.tolist(), strict=True):
        scaled = first / max(position, 1.0)
        numbers = [scaled, scaled + 1.0, scaled + 2.0, scaled + 3.0]
        numbers[position & 3] = 0.25
        assert root == math.sqrt(numbers[0] + 2.0 * numbers[1] + 3.0 * numbers[2] + 5.0 * numbers[3])


def test_a_processor_that_numba_knows_nothing_of(tmp_path):
    """For the one that it calls generic, it names no features."""
    run = "from test_compile_lowering import few; import numpy as np; from posse.compile import bind\n"
    run += "numbers = np.full(3, 4.0); bind(few)(numbers); print(numbers)"
    assert python(run, Path(__file__).parent, NUMBA_CPU_NAME="generic", NUMBA_CACHE_DIR=str(tmp_path)) == (
        "[0.25 0.25 0.25]\n"
    )


def half(x):
    return 0.5 * x


def at_once(numbers):
    total = 0.0
    for number in map(half, numbers):
        total += number
    return total


def test_numba_itself_may_call_a_function():
    assert bind(at_once)((1.0, 2.0, 4.0)) == 3.5


@pytest.mark.parametrize("small", [np.int64(2), np.float32(2.5), np.float64(-0.0), np.bool_(True)])
@pytest.mark.parametrize("large", [np.int64(-3), np.float64(2.25), np.float32(0.0), np.float64("nan")])
def test_the_least_the_greatest_and_whole_numbers_are_those_of_python(small, large):
    def choose(one, other, numbers):
        numbers[0], numbers[1], numbers[2] = min(one, other), max(one, other), min(other, one)
        numbers[3], numbers[4], numbers[5] = max(one, 1), max(2.5, other), int(one)
        numbers[6], numbers[7] = min(other, 4, 1), max(numbers[:3].size, 2)

    compiled, plain = np.zeros(8), np.zeros(8)
    bind(choose)(small, large, compiled)
    choose(small, large, plain)
    assert [repr(float(x)) for x in compiled] == [repr(float(x)) for x in plain]


@out_of_line
def root(x):
    if x < 0.0:
        raise ValueError("no root")
    return math.sqrt(x)


def twice(x):
    return 2.0 * half_of(x)


def half_of(x):
    return 0.5 * root(x)


def never(x):
    return 0.25 * x


def roots(values, wrong):
    total = 0.0
    for place in range(values.size):
        total += twice(values[place]) + never(values[place])
        wrong[0] = place
    return total


def test_an_error_reaches_python_through_every_call():
    values, wrong = np.array([4.0, 1.0, -1.0, 9.0]), np.zeros(1, np.int64)
    assert bind(roots)(values[:2], wrong) == 3.0 + 1.25
    with pytest.raises(ValueError, match="no root"):
        bind(roots)(values, wrong)
    assert wrong[0] == 1


def first_or_none(values):
    return values[0] if values.size else None


def with_nothing(values):
    found = first_or_none(values)
    return -1.0 if found is None else found


def test_a_function_may_return_nothing():
    assert [bind(with_nothing)(np.arange(3.0)[start:]) for start in (1, 3)] == [1.0, -1.0]


def no_kernel(values):
    return values.no_such_name


@pytest.mark.skipif(not compiled_mode(), reason="nothing is compiled")
@pytest.mark.parametrize(("kernel", "argument"), [(never, 1.0), (no_kernel, np.zeros(1))])
@pytest.mark.parametrize("looked", [True, False])
def test_garbage_is_looked_for_after_compiling_if_it_was_before(kernel, argument, looked, monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    before = gc.isenabled()
    try:
        (gc.enable if looked else gc.disable)()
        try:
            bind(kernel)(argument)
        except CompileError:
            assert kernel is no_kernel
        assert gc.isenabled() == looked
    finally:
        (gc.enable if before else gc.disable)()
