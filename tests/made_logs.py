"""Logs whose truth is known."""

from __future__ import annotations

import json

import numpy as np
import pyarrow
import pyarrow.csv

from posse.insight.evaluation.rows import usable
from posse.insight.logs import read_log

MEANS = np.array([[0.3, 0.5, 0.7], [0.35, 0.6, 0.5]])
CHANCES = np.array([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]])


def table(player, arm, propensity, reward, **about):
    columns = {"player": player, "arm": arm, "propensity": propensity, "reward": reward}
    made = pyarrow.table({name: pyarrow.array(values) for name, values in columns.items()})
    return made.replace_schema_metadata({"posse": json.dumps(about)}) if about else made


def randomised(rng, rows, means=MEANS, chances=CHANCES):
    """A log of a randomised experiment, and its parts."""
    player = rng.integers(means.shape[0], size=rows)
    arm = (rng.random(rows)[:, None] > chances.cumsum(axis=1)[player]).sum(axis=1)
    reward = (rng.random(rows) < means[player, arm]) * 1.0
    return table([f"p{i}" for i in player], [f"a{i}" for i in arm], chances[player, arm], reward), player


def rows_of(log):
    return usable(read_log(log, also=["propensity"]), None)
