"""How often the intervals of `posse evaluate` hold for skewed rewards in randomised logs: a table, by simulation.

python examples/studies/evaluation_coverage.py --runs 100
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from posse.insight import Evaluation, evaluate
from posse.text import align

SIZES = (100, 200, 800, 3000, 10_000)
HEADINGS = ["setting", "rows", "betting", "value", "difference", "normal", "width / normal"]
_NORMAL = NormalDist()


@dataclass(frozen=True)
class CoverageSetting:
    """Rewards of two arms that are drawn alike, with how they are drawn, their mean, and the rows of each arm."""

    name: str
    draw: Callable[[np.random.Generator, int], np.ndarray]
    mean: float
    rows: int


@dataclass(frozen=True)
class CoverageResult:
    """How often the 95 % intervals held in one setting."""

    setting: str
    rows: int
    betting: float  # how many of the values' intervals came from betting
    value: float  # coverage of an arm's value
    difference: float  # coverage of the difference of the two arms
    normal: float  # coverage of the plain normal interval, mean ± z s/√n, for comparison
    ratio: float  # the median of the width over that of the plain normal interval, where that one has any

    def cells(self) -> list[str]:
        """The line of a table."""
        shares = (f"{share:.3f}" for share in (self.value, self.difference, self.normal))
        return [self.setting, f"{self.rows:,}", f"{self.betting:.0%}", *shares, f"{self.ratio:.2f}"]


def _lottery(low: float, high: float, chance: float) -> tuple[Callable[[np.random.Generator, int], np.ndarray], float]:
    return lambda rng, n: np.where(rng.random(n) < chance, high, low), low + (high - low) * chance


def _capped_lognormal(mean: float, deviation: float, cap: float) -> float:
    """The mean of min(X, cap) for X = exp(N(mean, deviation²))."""
    far = (math.log(cap) - mean) / deviation
    return math.exp(mean + deviation**2 / 2) * _NORMAL.cdf(far - deviation) + cap * (1 - _NORMAL.cdf(far))


def _families() -> dict[str, tuple[Callable[[np.random.Generator, int], np.ndarray], float]]:
    def spend(rng: np.random.Generator, n: int) -> np.ndarray:
        return np.where(rng.random(n) < 0.01, 50 + np.minimum(rng.lognormal(4.3, 0.8, n), 499), 50) / 549

    return {
        "0.2, or 1 with probability 0.005": _lottery(0.2, 1, 0.005),
        "0.05, or 1 with probability 0.002": _lottery(0.05, 1, 0.002),
        "0.8, or 0 with probability 0.005": _lottery(0.8, 0, 0.005),
        "rate of 0.3 %": _lottery(0, 1, 0.003),
        "rate of 3 %": _lottery(0, 1, 0.03),
        "spend of 1 % in (−50, 499)": (spend, (50 + 0.01 * _capped_lognormal(4.3, 0.8, 499)) / 549),
        "Beta(0.05, 1)": (lambda rng, n: rng.beta(0.05, 1, n), 0.05 / 1.05),
        "Beta(0.1, 5)": (lambda rng, n: rng.beta(0.1, 5, n), 0.1 / 5.1),
        "exponential, mean 0.03": (
            lambda rng, n: np.minimum(rng.exponential(0.03, n), 1),
            0.03 * -math.expm1(-1 / 0.03),
        ),
        "Pareto of index 1.5": (lambda rng, n: np.minimum(0.01 / rng.random(n) ** (2 / 3), 1), 0.028),
        "lognormal of σ 1.5": (
            lambda rng, n: np.minimum(rng.lognormal(0, 1.5, n) / 200, 1),
            _capped_lognormal(0, 1.5, 200) / 200,
        ),
        "small, and 1 % up to 1": (
            lambda rng, n: np.where(rng.random(n) < 0.01, 1.0, 0.1) * rng.random(n),
            0.01 * 0.5 + 0.99 * 0.05,
        ),
    }


def coverage_settings(sizes: Sequence[int] = SIZES) -> list[CoverageSetting]:
    """Two lotteries and ten skewed families of rewards, each with several numbers of rows."""
    families = _families()
    return [CoverageSetting(name, *families[name], size) for name in families for size in sizes]


def measure(setting: CoverageSetting, runs: int = 100, seed: int = 0) -> CoverageResult:
    """Judge an arm, and its difference to another like it, in many randomised logs."""
    hits = np.zeros((4, runs))
    ratios = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        reward = setting.draw(rng, 2 * setting.rows)
        x = rng.random(reward.size) < 0.5
        log = {"player": ["a"] * reward.size, "arm": x, "propensity": [0.5] * reward.size, "reward": reward}
        evaluation: Evaluation = evaluate(log, True, against=False)
        found = evaluation.of("True")
        difference: Any = found.difference
        half = 1.959964 * reward[x].std(ddof=1) / math.sqrt(x.sum())
        hits[:, run] = (
            found.interval == "betting",
            found.low - 1e-12 <= setting.mean <= found.high + 1e-12,
            difference.low <= 0 <= difference.high,
            abs(reward[x].mean() - setting.mean) <= half,
        )
        if half > 1e-9:
            ratios.append((found.high - found.low) / (2 * half))
    betting, value, between, normal = hits.mean(axis=1).tolist()
    ratio = float(np.median(ratios or [np.nan]))
    return CoverageResult(setting.name, setting.rows, betting, value, between, normal, ratio)


def main() -> None:
    """Print the table, line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="logs for each setting (default: 100)")
    parser.add_argument("--quick", action="store_true", help="two small logs of each kind, to see that it works")
    options = parser.parse_args()
    settings = coverage_settings([100] if options.quick else SIZES)
    rows = [measure(each, 2 if options.quick else options.runs).cells() for each in settings]
    print("\n".join(align([HEADINGS, *rows])))


if __name__ == "__main__":
    main()
