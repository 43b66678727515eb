"""Evaluations whose numbers are made, so that their verdicts are known."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

import posse
from posse.experiments.paper.claims import judge
from posse.experiments.records import SCHEMA, Records

LABELS = {
    "RobustAgg-TS": posse.RobustAggTS(0.15).label,
    "RobustAgg-TS-V": posse.RobustAggTSV(0.15).label,
    "RobustAgg": posse.RobustAgg(0.15).label,
    "Ind-TS": posse.IndTS().label,
    "Ind-UCB": posse.IndUCB().label,
}


COUNTS = (0, 1, 5, 8, 9)


PROBLEMS = 8


# Zero on average and different for each algorithm: a mean over the eight problems is exactly the level asked for.
ANGLES = 2 * math.pi * np.arange(PROBLEMS) / PROBLEMS


WOBBLES = (np.cos(ANGLES), np.sin(ANGLES), np.cos(2 * ANGLES), np.sin(2 * ANGLES), np.cos(3 * ANGLES))


def row(policy, v, problem, final=100.0, pulls=(0, 1000, 100), regret=(0.0, 50.0, 50.0), **other):
    """A row of the records; what no claim looks at is filled in."""
    return {
        "study": "subpar",
        "policy": policy,
        "problem": problem,
        "replication": 0,
        "n_subpar": v,
        "players": 2,
        "arms": 2,
        "epsilon": 0.15,
        "horizon": 10,
        "schedule": "concurrent",
        "anytime": False,
        "seed": "0",
        "rounds": [10],
        "regret": [final],
        "final_regret": final,
        "reward": 0.0,
        "pulls_by_kind": list(pulls),
        "regret_by_kind": list(regret),
        "means": [0.9, 0.1, 0.9, 0.1],
        **other,
    }


def table(rows):
    return Records(pa.Table.from_pylist(rows, schema=pa.schema(SCHEMA)))


def evaluation(levels=None, wobble=0.01, counts=COUNTS, algorithms=tuple(LABELS), **other):
    """An evaluation in which all algorithms are equal on average, but for the given levels.

    `levels` maps (algorithm, measure) or (algorithm, measure, v) to a factor. As in real ones there is no subpar arm
    at v = 0 and no near-optimal one at v = 9.
    """
    levels = levels or {}
    rows = []
    for name, noise in zip(LABELS, WOBBLES, strict=True):
        if name not in algorithms:
            continue
        for v in counts:
            for problem in range(PROBLEMS):

                def value(measure, scale, name=name, noise=noise, v=v, problem=problem):
                    factor = levels.get((name, measure, v), levels.get((name, measure), 1.0))
                    return scale * factor * (1 + wobble * noise[problem])

                pulls = (0, round(value("near pulls", 1e9)) * (v < 9), round(value("subpar pulls", 1e9)) * (v > 0))
                regret = (0.0, value("near regret", 50.0) * (v < 9), value("subpar regret", 50.0) * (v > 0))
                rows.append(row(LABELS[name], v, problem, value("final", 100.0), pulls, regret, **other))
    return table(rows)


def about(records, claim):
    return [finding for finding in judge(records) if finding.claim.id == claim]


def both(measure, factor, *algorithms):
    return {(name, measure): factor for name in algorithms}
