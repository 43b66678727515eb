"""Functions of a kernel that processes compile: which ones, and what happens when a process fails. Needs no GPU."""

from __future__ import annotations

import os
import time

import pytest

pytest.importorskip("cuda.bindings.nvjitlink", exc_type=ImportError)
cuda_pipeline = pytest.importorskip("posse.compile.cuda_pipeline", exc_type=ImportError)

HERE = os.getpid()


def unit(name):
    return cuda_pipeline.KernelUnit(name, f"made by {'this process' if os.getpid() == HERE else 'another'}", b"code")


def nothing(x):
    x[0] = 1


def nothing_early(x):
    if x[0]:
        return
    for i in range(3):
        x[i] = i
        if x[1]:
            return None


def a_value(x):
    return x[0]


def a_constant(x):
    x[0] = 1
    return 0


def a_value_at_times(x):
    if x[0]:
        return x[1]


@pytest.mark.parametrize("function", [nothing, nothing_early])
def test_a_function_without_a_value_is_known_before_it_is_compiled(function):
    assert cuda_pipeline.returns_nothing(function.__code__)


@pytest.mark.parametrize("function", [a_value, a_constant, a_value_at_times])
def test_a_function_with_a_value_is_compiled_here(function):
    assert not cuda_pipeline.returns_nothing(function.__code__)


def process_of(make):
    return cuda_pipeline.UnitProcess(None, "f", make, (9, 0))


def test_another_process_makes_the_units():
    assert process_of(lambda: [unit("f")]).units == [("f", "made by another", b"code")]


def test_units_are_made_here_if_the_process_dies():
    def make():
        if os.getpid() != HERE:
            os._exit(1)
        return [unit("f")]

    assert process_of(make).units == [("f", "made by this process", b"code")]


def test_units_are_made_here_if_the_process_hangs(monkeypatch):
    def make():
        if os.getpid() != HERE:
            time.sleep(600)
        return [unit("f")]

    monkeypatch.setattr(cuda_pipeline, "MOST_SECONDS", 0.1)
    process = process_of(make)
    assert process.units == [("f", "made by this process", b"code")]
    assert not process.process.is_alive()


def test_an_error_is_raised_here(capfd):
    def make():
        raise ValueError("no such type")

    with pytest.raises(ValueError, match="no such type"):
        _ = process_of(make).units
    assert capfd.readouterr().err == ""
