"""How often the intervals of what attributes explain hold, by simulation.

    python examples/studies/attribute_coverage.py  # the table of docs/diagnosis.md: some minutes on two cores
    python examples/studies/attribute_coverage.py --runs 20 --only small

Each setting draws players with attributes. On the logit scale a value of an attribute adds to every arm and to the
level, and each player has deviations of its own. The columns are the shares of 95 % intervals that hold, for an
attribute that explains something, for one that explains nothing and for what is the players' own, of contrasts and of
levels; the mean widths for contrasts; and how often an attribute is claimed to explain contrasts, rightly and wrongly.
"""

from __future__ import annotations

import argparse
import multiprocessing
from typing import NamedTuple

import numpy as np

import posse
from posse.insight.hierarchy.model import fit
from posse.insight.hierarchy.shares import attribute_shares, sum_of_squares
from posse.learner import Counts
from posse.simulation import trace


class Setting(NamedTuple):
    """What attributes do, and the players, the arms and the rewards for each of both."""

    name: str
    values: tuple[int, int]  # of the attribute that explains something, and of the one that explains nothing
    effect: float  # standard deviations on the logit scale: of what a value does, and of what is a player's own
    own: float
    size: tuple[int, int, int]  # players, arms, rewards for each
    base: float = 0.2
    policy: posse.Policy | None = None


SETTINGS = (
    Setting("half", (4, 3), 0.3, 0.3, (30, 3, 200)),
    Setting("half, two values", (2, 2), 0.3, 0.3, (20, 3, 200), 0.3),
    Setting("half, three values", (3, 2), 0.3, 0.3, (60, 4, 100), 0.1),
    Setting("most", (4, 3), 0.5, 0.2, (40, 3, 200)),
    Setting("all", (4, 2), 0.4, 0.0, (40, 3, 300)),
    Setting("little", (5, 3), 0.1, 0.3, (60, 3, 300)),
    Setting("nothing", (4, 2), 0.0, 0.4, (40, 3, 300)),
    Setting("small: 30 rewards", (3, 2), 0.5, 0.2, (20, 3, 30), 0.3),
    Setting("rare: 2 %", (4, 3), 0.4, 0.3, (60, 3, 500), 0.02),
    Setting("twelve values", (12, 6), 0.3, 0.3, (60, 3, 200)),
    Setting("adaptive: Ind-TS", (3, 2), 0.4, 0.2, (30, 3, 200), 0.3, posse.IndTS()),
    Setting("adaptive: PosseTS", (3, 2), 0.4, 0.2, (30, 3, 200), 0.3, posse.PosseTS()),
)


def run_once(task: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Which intervals hold, of contrasts and of levels; the widths of the first, and which of them are above 0."""
    setting, run = SETTINGS[task[0]], task[1]
    random, (players, arms, each) = np.random.default_rng(task), setting.size
    codes = [random.permutation(players) % values for values in setting.values]
    parts = []
    for columns in (arms, 1):  # contrasts, levels
        known = [
            random.standard_normal((values, columns))[code] for values, code in zip(setting.values, codes, strict=True)
        ]
        parts.append(
            [setting.effect * known[0], 0 * known[1], setting.own * random.standard_normal((players, columns))]
        )
    centers = np.log(setting.base / (1 - setting.base)) + 0.2 * random.standard_normal(arms)
    means = 1 / (1 + np.exp(-centers - sum(parts[0]) - sum(parts[1])))
    pulls = np.full((players, arms), each)
    sums = random.binomial(pulls, means)
    if setting.policy is not None:
        played = trace(posse.Problem(means), setting.policy, each * arms, replication=run)
        chosen = played.arms[:, :, None] == np.arange(arms)
        pulls, sums = chosen.sum(axis=0), (chosen * played.rewards[:, :, None]).sum(axis=0)
    names = [tuple(f"{kind}{n}" for n in range(count)) for kind, count in zip("pa", pulls.shape, strict=True)]
    attributes = {f"k{n}": tuple(f"v{each}" for each in code) for n, code in enumerate(codes)}
    counts = Counts(names[0], names[1], pulls, sums.astype(float), attributes=attributes)
    shares = attribute_shares(counts, fit(counts))
    assert shares.contrasts is not None
    found = [draws.interval() for draws in (shares.contrasts, shares.levels)]
    parts[1] = [level + effect.mean(axis=1, keepdims=True) for effect, level in zip(*parts, strict=True)]
    holds = []
    for part, ends in zip(parts, found, strict=True):
        squares = np.array([sum_of_squares(effects, np.ones(players)) for effects in part])
        true = squares / squares.sum()
        holds.append((ends.low <= true + 1e-9) & (true <= ends.high + 1e-9))
    return holds[0], holds[1], found[0].high - found[0].low, found[0].low[:-1] > 0


def main() -> None:
    """Print the table as Markdown, line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="runs for each setting (default: 100)")
    parser.add_argument("--only", default="", help="only settings whose names contain this")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--quick", action="store_true", help="two runs of the first setting, to see that it works")
    options = parser.parse_args()
    print(
        "| the attribute explains | players × arms | rewards a cell | values | contrasts | levels | widths | claimed |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    with multiprocessing.Pool(options.processes) as pool:
        for place, setting in enumerate(SETTINGS[:1] if options.quick else SETTINGS):
            if options.only not in setting.name:
                continue
            done = pool.map(run_once, [(place, run) for run in range(2 if options.quick else options.runs)], 1)
            columns = [", ".join(f"{share:.2f}" for share in np.mean(each, axis=0)) for each in zip(*done, strict=True)]
            (players, arms, each), values = setting.size, "{}, {}".format(*setting.values)
            print(f"| {' | '.join([setting.name, f'{players} × {arms}', str(each), values, *columns])} |", flush=True)


if __name__ == "__main__":
    main()
