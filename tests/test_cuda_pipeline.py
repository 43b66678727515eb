"""What the compiler makes of records and arrays on a GPU is what Python makes of them, whatever way they take."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from test_compile_pipeline import pass_records, read_and_write

from posse.compile import bind_cuda, launching
from posse.simulation import backend
from posse.simulation.kernel import Measures

pytestmark = pytest.mark.skipif(
    bool(backend.what_cuda_misses() or numba.config.ENABLE_CUDASIM), reason="needs an NVIDIA GPU"
)


def take_records(one, other, count, total):
    total[0] = pass_records(one, other, count)


def take_numbers(table, row, rows, small, total):
    total[0] = read_and_write(table, row, rows, small)


def on_gpu(value):
    from numba import cuda

    if isinstance(value, tuple):
        return type(value)(*map(on_gpu, value))
    return cuda.to_device(value) if isinstance(value, np.ndarray) else value


def arrays_of(values):
    """All arrays among some values and in records, as NumPy's."""
    parts = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
    return [part.copy_to_host() if hasattr(part, "copy_to_host") else part for part in parts if hasattr(part, "shape")]


def both(kernel, arguments):
    """All arrays after one thread of a GPU has run a kernel, and after Python has."""
    there = [on_gpu(value) for value in arguments]
    with launching():
        bind_cuda(kernel)[1, 1](*there)
    kernel(*arguments)
    return arrays_of(there), arrays_of(arguments)


def test_records_arrive_whatever_way_they_take():
    one, other = Measures(np.arange(1, 6), np.linspace(0.0, 1.0, 5)), Measures(np.arange(7, 10), np.ones(3))
    there, here = both(take_records, (one, other, 3, np.zeros(1)))
    assert len(here) == 5
    for mine, theirs in zip(there, here, strict=True):
        assert mine.tolist() == theirs.tolist()


@pytest.mark.parametrize("rows", [np.array([2, 0, 1]), np.array([2, 0, 1], np.uint64), np.array([-1, -3, 1], np.int8)])
@pytest.mark.parametrize("small", [np.float32, np.float64])
def test_numbers_in_arrays_are_found_by_any_index(rows, small):
    table = np.random.default_rng(1).random((3, 3))
    there, here = both(take_numbers, (table, 1, rows, np.zeros((3, 1 if rows[0] < 0 else 3, 3), small), np.zeros(1)))
    for mine, theirs in zip(there, here, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
