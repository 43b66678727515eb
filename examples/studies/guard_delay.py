"""How soon the guard finds an arm that crosses its bound, and how often it finds one that does not.

Refunds of one arm of three, with the bound 0.05, looked at after each: `python examples/studies/guard_delay.py`.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from posse.confidence import evidence_above
from posse.outcomes import ALARM_LEVEL

ARMS, BOUND = 3, 0.05
AT_ONCE = 100  # experiments


def first_alarms(mean: float, experiments: int, values: int, rng: np.random.Generator) -> np.ndarray:
    """After how many values each experiment raises the alarm; ∞ if it does not."""
    found, counts = [], np.arange(1, values + 1)
    for _ in range(0, experiments, AT_ONCE):
        sums = (rng.random((min(AT_ONCE, experiments), values)) < mean).cumsum(axis=1)
        crossed = evidence_above(counts, sums, BOUND) >= math.log(ARMS / ALARM_LEVEL)
        found.append(np.where(crossed.any(axis=1), crossed.argmax(axis=1) + 1.0, math.inf))
    return np.concatenate(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few experiments, to try it out")
    experiments, values = (20, 600) if parser.parse_args().quick else (2000, 5000)
    rng = np.random.default_rng(1)
    print(f"| mean | median of values until the alarm | alarms within 500 | within {values:,} |")
    print("| --- | --- | --- | --- |")
    for mean in (0.04, 0.05, 0.06, 0.075, 0.1, 0.15, 0.3):
        first = first_alarms(mean, experiments, values, rng)
        median, within = np.median(first), [(first <= most).mean() for most in (500, values)]
        shown = f"{median:,.0f}" if math.isfinite(median) else f"over {values:,}"
        print(f"| {mean:g} | {shown} | {within[0]:.1%} | {within[1]:.1%} |")


if __name__ == "__main__":
    main()
