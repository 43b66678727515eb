"""How often the intervals of `posse diagnose` hold: a table over many settings, by simulation.

    python examples/studies/diagnosis_coverage.py  # the table of docs/diagnosis.md: some minutes on two cores
    python examples/studies/diagnosis_coverage.py --runs 10 --only adaptive

Each setting draws players with levels and contrasts, gathers rewards, and fits the model. The columns are the shares of
95 % intervals that hold: for the standard deviation of the levels, that of the contrasts, and the difference between
two players on an arm; then the share of runs in which the guaranteed bound holds, and the widths of the first three
beside those of an oracle that knows the true standard deviations on the logit scale.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import posse
from posse.insight.diagnosis.api import diagnose
from posse.insight.hierarchy.model import contrast_deviation, level_deviation
from posse.insight.hierarchy.propagation import Cells
from posse.learner import Counts
from posse.simulation import trace

PAIRS = 20
DRAWS = 600


class Setting(NamedTuple):
    """Players, arms, rewards for each player and arm, and how the true means are drawn."""

    name: str
    players: int
    arms: int
    pulls: int
    base: float
    level: float = 0.0
    contrast: float = 0.0
    traffic: str = "equal"
    window: float = 0.0
    policy: posse.Policy | None = None

    def means(self, random: np.random.Generator) -> np.ndarray:
        """True means, [player, arm]: normal on the logit scale, or uniform in a window."""
        shape = self.players, self.arms
        if self.window:
            return np.clip(self.base + self.window * random.uniform(-0.5, 0.5, shape), 0, 1)
        arms = np.log(self.base / (1 - self.base)) + 0.2 * random.standard_normal(self.arms)
        levels = self.level * random.standard_normal((self.players, 1))
        return 1 / (1 + np.exp(-arms - levels - self.contrast * random.standard_normal(shape)))

    def counts(self, means: np.ndarray, run: int, random: np.random.Generator) -> Counts:
        """Pulls and sums, fixed in advance or gathered by a policy."""
        if self.policy is not None:
            played = trace(posse.Problem(means), self.policy, self.pulls * self.arms, replication=run)
            chosen = played.arms[:, :, None] == np.arange(self.arms)
            pulls, sums = chosen.sum(axis=0), (chosen * played.rewards[:, :, None]).sum(axis=0)
        else:
            share = {"equal": 1.0, "unequal": np.geomspace(0.05, 3, self.players)[:, None]}[self.traffic]
            pulls = np.maximum(np.round(self.pulls * share * np.ones(means.shape)), 1).astype(int)
            sums = random.binomial(pulls, means)
        names = [tuple(f"{kind}{n}" for n in range(count)) for kind, count in zip("pa", means.shape, strict=True)]
        return Counts(names[0], names[1], pulls, sums.astype(float))


def settings() -> Iterator[Setting]:
    """Rates from 0.1 % to 50 %, 2 to 500 players, 10 to 10,000 rewards a cell, equal and unequal traffic."""
    yield Setting("two players", 2, 3, 50, 0.2, 0.3, 0.3)
    yield Setting("two players, much data", 2, 2, 1000, 0.5, 0.3, 0.3)
    yield Setting("five players, 10 rewards", 5, 3, 10, 0.5, 0.5, 0.2)
    yield Setting("twenty players", 20, 3, 50, 0.2, 0.3, 0.3)
    yield Setting("twenty, all alike", 20, 3, 50, 0.2)
    yield Setting("twenty, levels only", 20, 3, 50, 0.2, 0.5)
    yield Setting("twenty, contrasts only", 20, 3, 50, 0.2, 0.0, 0.4)
    yield Setting("twenty, 10 rewards", 20, 4, 10, 0.3, 0.5, 0.3)
    yield Setting("twenty, 10,000 rewards, close", 20, 3, 10_000, 0.05, 0.05, 0.03)
    yield Setting("fifty, 10,000 rewards", 50, 3, 10_000, 0.5, 0.3, 0.1)
    yield Setting("a hundred, 10 rewards", 100, 5, 10, 0.5, 0.5, 0.5)
    yield Setting("1 %", 50, 3, 300, 0.01, 0.5, 0.3)
    yield Setting("0.1 %, 1,000 rewards", 200, 3, 1000, 0.001, 0.5, 0.3)
    yield Setting("0.1 %, 10,000 rewards", 50, 2, 10_000, 0.001, 0.4, 0.2)
    yield Setting("0.1 %, 10 rewards", 300, 2, 10, 0.001, 0.5, 0.3)
    yield Setting("500 players", 500, 2, 100, 0.1, 0.4, 0.2)
    yield Setting("500 players, 10 rewards", 500, 2, 10, 0.3, 0.5, 0.2)
    yield Setting("unequal traffic", 20, 3, 200, 0.2, 0.3, 0.3, "unequal")
    yield Setting("unequal traffic, 2 %", 60, 3, 500, 0.02, 0.5, 0.2, "unequal")
    yield Setting("unequal traffic, all alike", 20, 3, 200, 0.2, 0.0, 0.0, "unequal")
    yield Setting("ten arms", 12, 10, 100, 0.3, 0.3, 0.2)
    yield Setting("uniform in 0.2 ± 0.05", 20, 3, 300, 0.2, window=0.1)
    yield Setting("uniform in 0 to 2 %, 50 players", 50, 3, 300, 0.01, window=0.02)
    yield Setting("uniform in 0 to 2 %, 200 players", 200, 3, 300, 0.01, window=0.02)
    yield Setting("uniform in 2 to 8 %, 200 players", 200, 3, 200, 0.05, window=0.06)
    policies = posse.IndTS(), posse.IndUCB(), posse.RobustAggTS(0.1), posse.RobustAgg(0.1), posse.NaiveAgg()
    for policy in (
        *policies,
        posse.HierTS(0.05),
        posse.RobustAggTSV(0.1),
        posse.IndTSV(),
        posse.BetaTS(),
        posse.PosseTS(),
    ):
        yield Setting(f"adaptive: {policy.label}", 10, 3, 150, 0.3, 0.3, 0.2, policy=policy)


def run_once(setting: Setting, run: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """Which shares of the intervals hold, their widths beside the oracle's, and whether the bound holds."""
    random = np.random.default_rng([abs(hash_of(setting.name)), run])
    means = setting.means(random)
    counts = setting.counts(means, run, random)
    diagnosis = diagnose(counts)
    pairs = min(setting.players // 2, PAIRS)
    order, arm = random.permutation(setting.players), random.integers(setting.arms, size=pairs)

    def quantities(draws: np.ndarray) -> list[np.ndarray]:
        apart = draws[:, order[:pairs], arm] - draws[:, order[-pairs:], arm]
        return [level_deviation(draws), contrast_deviation(draws), apart]

    logits = np.log(np.clip(means, 1e-4, None) / (1 - means))
    scales = setting.level, setting.contrast
    if setting.window:
        levels = logits.mean(axis=1)
        rest = logits - levels[:, None] - logits.mean(axis=0)
        scales = 0.0 if setting.arms > 1 else float(levels.std()), float(rest.std())
    cells = Cells(counts.pulls.astype(float), counts.sums)
    _, sites = cells.converged(*scales, cells.first_sites())
    known = quantities(cells.draw(sites, *scales, DRAWS, random))
    holds, widths = [], []
    for true, draws, oracle in zip(quantities(means[None]), quantities(diagnosis.model.draws), known, strict=True):
        found = diagnosis.model.interval(draws)
        holds.append(np.mean((found.low - 1e-12 <= true[0]) & (true[0] <= found.high + 1e-12)))
        narrow = np.subtract(*np.quantile(oracle, (0.975, 0.025), axis=0))
        widths.append(np.mean(found.high - found.low) / max(np.mean(narrow), 1e-12))
    return np.array(holds), np.array(widths), diagnosis.bound <= np.ptp(means, axis=0).max() + 1e-12


def hash_of(name: str) -> int:
    """A number that depends on the name alone, in every process."""
    return int.from_bytes(name.encode()[-6:], "big")


def _one(task: tuple[Setting, int]) -> tuple[np.ndarray, np.ndarray, bool]:
    return run_once(*task)


def main() -> None:
    """Print the table as Markdown, line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="runs for each setting (default: 100)")
    parser.add_argument("--only", default="", help="only settings whose names contain this")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--quick", action="store_true", help="two runs of the first settings, to see that it works")
    options = parser.parse_args()
    runs = 2 if options.quick else options.runs
    print("| setting | players × arms | rewards a cell | rate | level | contrast | pairs | bound | widths |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    with multiprocessing.Pool(options.processes) as pool:
        chosen = [setting for setting in settings() if options.only in setting.name]
        for setting in chosen[:4] if options.quick else chosen:
            done: list[tuple[np.ndarray, np.ndarray, bool]] = []
            for result in pool.imap_unordered(_one, [(setting, run) for run in range(runs)]):
                done.append(result)
                if sys.stderr.isatty():
                    print(f"\r{setting.name}: {len(done)} of {runs}", end="\r", file=sys.stderr)
            holds = [f"{share:.2f}" for share in np.mean([each[0] for each in done], axis=0)]
            ratios = np.median([each[1] for each in done], axis=0)
            widths = ", ".join("–" if ratio > 1e6 else f"{ratio:.2f}" for ratio in ratios)  # – where the oracle is sure
            bound = f"{np.mean([each[2] for each in done]):.2f}"
            size = f"{setting.players} × {setting.arms}"
            cells = [setting.name, size, f"{setting.pulls:,}", f"{setting.base:.3g}", *holds, bound, widths]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
