"""A spec of many small units, its files, and a process that can be killed, for the tests of runs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from posse.experiments import run
from posse.experiments.runs import runner

TEXT = """
title = "Many small units"
seed = 5

[[study]]
name = "one"
horizon = [{horizons}]
schedule = ["concurrent", {{ random = 0.5 }}]

[study.problems]
family = "subpar"
n_subpar = [0, 1, 2]
count = 2
players = 3
arms = 4

[[study.policies]]
name = ["RobustAggTS", "RobustAgg"]
epsilon = "problem"

[[study.policies]]
name = "IndTS"
"""


SMALL = TEXT.format(horizons="300, 500")


LARGE = TEXT.format(horizons=", ".join(str(5_000 + 10 * k) for k in range(10)))  # 60 units of some 10 ms


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="needs Dask: pip install distributed"
)


def start(script: str, *arguments: object) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(runner.__file__).parents[3])},
    )


def undisturbed(spec, folder: Path) -> dict[str, bytes]:
    """The files of an undisturbed run on one thread."""
    run(spec, folder, threads=1)
    assert len(files(folder)) == 12
    return files(folder)
