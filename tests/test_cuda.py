"""The GPU backend without a GPU: its kernels in numba's CUDA simulator, its bounds, and what it says without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import posse
from posse.cli import main
from posse.compile import Walk
from posse.experiments.spec.shipped_specs import shipped
from posse.normal import lower_quantile, normal
from posse.simulation import backend
from posse.simulation.cuda_device import philox_in_32_bits
from posse.simulation.cuda_pick import rough_draw
from posse.streams import philox

PROBLEM = posse.Problem([[0.9, 0.5], [0.8, 0.6]])
GPU = not backend.what_cuda_misses()


def run_on_cuda(**environment):
    """The tests of on_cuda.py in a process of their own."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "on_cuda.py"]
    here = Path(__file__).parent
    done = subprocess.run(command, cwd=here, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_kernels_agree_with_the_cpu_in_the_simulator():
    """Both as plain Python: that the CPU's kernels are the same compiled is tested elsewhere."""
    run_on_cuda(NUMBA_ENABLE_CUDASIM="1", NUMBA_DISABLE_JIT="1")


@pytest.mark.skipif(not GPU, reason="needs an NVIDIA GPU, and pip install 'posse-bandits[cuda]'")
def test_kernels_agree_with_the_cpu_on_a_gpu():
    run_on_cuda(NUMBA_ENABLE_CUDASIM="0")


HALVES = np.arange(65536)
INNER = np.array([lower_quantile(k / 65536) for k in range(1, 32769)])
EDGES = np.concatenate([[normal(0, 0, 0)], INNER, -INNER[-2::-1], [-normal(0, 0, 0)]])  # of draws, by their first bits


def rough_draws(error):
    """`rough_draw` of every 16 bits, if logarithms are off by so many times what a GPU promises."""
    names = {
        "fma": lambda x, y, z: x * y + z,
        "log_2": lambda x: np.log2(x) * np.float32(1 + error * 2.0**-22) + np.float32(error * 2.0**-22),
        "divide": lambda x, y: x / y,
    }
    draws, widths = Walk([rough_draw], names).entries[0](HALVES)
    assert draws.dtype == widths.dtype == np.float32
    return draws.astype(float), widths.astype(float)


@pytest.mark.parametrize("error", [-1, 0, 1])
def test_bounds_in_single_precision_hold_for_every_16_bits(error):
    """All of them, with the edges computed in double precision, and room for rounding a scale."""
    draws, widths = rough_draws(error)
    assert (draws - widths + 2.0**-18 < EDGES[:-1]).all()
    assert (draws + widths - 2.0**-18 > EDGES[1:]).all()
    assert (widths[4096:-4096] < 2e-4).all(), "and they are narrow where most draws are"


def test_bounds_that_are_too_narrow_would_be_noticed():
    """Negative control: draws do reach most of the way from the lower bound to the upper one."""
    draws, widths = rough_draws(0)
    assert (draws - 0.7 * widths > EDGES[:-1]).any()
    assert (draws + 0.7 * widths < EDGES[1:]).any()


def test_random_words_in_32_bits_are_the_same():
    rng = np.random.default_rng(1)
    counters = [*rng.integers(0, 2**32, (50, 6)).tolist(), [0] * 6, [2**32 - 1] * 6]
    in_32_bits = numba.njit(philox_in_32_bits)
    for words in counters:
        assert in_32_bits(*words) == tuple(int(word) for word in philox(*words))


@pytest.mark.skipif(GPU, reason="there is a GPU")
class TestWithoutGpu:
    def test_it_says_what_is_missing(self):
        with pytest.raises(RuntimeError, match=r'backend="cuda", but .*; backend="auto" takes the CPU'):
            posse.simulate(PROBLEM, posse.IndUCB(), 5, backend="cuda")

    def test_auto_takes_the_cpu(self):
        result = posse.simulate(PROBLEM, posse.IndUCB(), 5, backend="auto")
        assert np.array_equal(result.pulls, posse.simulate(PROBLEM, posse.IndUCB(), 5).pulls)

    @pytest.mark.parametrize("command", [["paper", "--quick"], ["bench"]], ids=lambda command: command[0])
    def test_the_command_line_says_it_too(self, command, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert main([*command, "--backend", "cuda"]) == 1
        assert 'backend="cuda", but' in capsys.readouterr().err


def test_an_unknown_backend_is_refused():
    with pytest.raises(ValueError, match="backend='gpu', but expected one of 'cpu', 'cuda', 'auto'"):
        posse.simulate(PROBLEM, posse.IndUCB(), 5, backend="gpu")


def test_without_numba_cuda_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(backend.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"pip install 'posse-bandits\[cuda\]'"):
        posse.simulate(PROBLEM, posse.IndUCB(), 5, backend="cuda")


def test_a_gpu_is_this_machines_and_goes_with_no_executor(monkeypatch, tmp_path):
    monkeypatch.setattr("posse.experiments.runs.runner.check_backend", lambda name: "cuda")
    spec = posse.experiments.parse(shipped("example.toml"))
    with pytest.raises(ValueError, match="goes with neither executor nor on"):
        posse.experiments.run(spec, tmp_path, on="tcp://127.0.0.1:1", backend="cuda")


def test_bench_on_a_gpu_takes_no_other_choices(capsys):
    assert main(["bench", "--backend", "cuda", "--paper"]) == 2
    assert "do not go with it" in capsys.readouterr().err
