"""Records to draw, and what a figure has drawn."""

import numpy as np
import pyarrow as pa
from matplotlib.container import BarContainer

import posse
from posse.experiments.records import from_result

FIVE = ["Ind-UCB", "Ind-TS", "RobustAgg(0.15)", "RobustAgg-TS(0.15)", "RobustAgg-TS-V(0.15)"]  # as they are written
FOUR = [label for label in FIVE if "-V" not in label]


def policies(epsilon=0.15):
    sharing = [posse.RobustAgg(epsilon), posse.RobustAggTS(epsilon), posse.RobustAggTSV(epsilon)]
    return [posse.IndUCB(), posse.IndTS(), *sharing]


def study(name, n_subpar, *, players=4, epsilon=0.15, count=3, schedule=posse.schedule.Concurrent(), horizon=60):
    problems = posse.generate.subpar(n_subpar, count=count, players=players, epsilon=epsilon, seed=n_subpar)
    result = posse.simulate(
        problems, policies(epsilon), horizon, replications=2, checkpoints=12, schedule=schedule, threads=1
    )
    return from_result(result, name)


def by_problem(records, column, **conditions):
    """The oracle: a column by problem, its replications averaged, row by row in plain Python."""
    groups = {}
    for row in pa.table(records).to_pylist():
        if all(row[name] == value for name, value in conditions.items()):
            groups.setdefault(row["problem"], []).append(np.array(row[column], float))
    return np.array([np.mean(rows, axis=0) for rows in groups.values()])


def lines(axes):
    return {line.get_gid(): line for line in axes.get_lines() if line.get_gid() not in (None, "leader")}


def bars(axes):
    return {box.patches[0].get_gid(): box for box in axes.containers if isinstance(box, BarContainer)}


def whiskers(bar):
    (segments,) = bar.errorbar.lines[2]
    return np.array([(high[1] - low[1]) / 2 for low, high in segments.get_segments()])
