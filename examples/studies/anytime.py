"""What it costs not to know the horizon: ln t in place of ln T, for every policy on the paper's problems.

python examples/studies/anytime.py            # half a minute on two cores
python examples/studies/anytime.py --quick    # seconds, rougher
"""

from __future__ import annotations

import argparse
import math

import posse

EPSILON = 0.15
POLICIES = [
    posse.RobustAggTS(EPSILON),
    posse.RobustAggTSV(EPSILON),
    posse.RobustAgg(EPSILON),
    posse.IndTS(),
    posse.IndUCB(),
    posse.NaiveAgg(),
    posse.HierTS(EPSILON / math.sqrt(12)),
    posse.PosseTS(),
    posse.IndTSV(),
]


def main(count: int, horizon: int) -> None:
    print(f"mean regret after {horizon:,} rounds, {count} problems: known horizon, anytime")
    print(f"{'policy':<24}" + "".join(f"{f'{subpar} subpar arms':>20}" for subpar in (8, 5, 0)))
    cells: dict[str, str] = {policy.label: "" for policy in POLICIES}
    for subpar in (8, 5, 0):
        problems = posse.generate.subpar(subpar, count=count, seed=3)
        known = posse.simulate(problems, POLICIES, horizon, checkpoints=1).final_regret.mean(axis=(1, 2))
        anytime = posse.simulate(problems, POLICIES, horizon, checkpoints=1, anytime=True).final_regret.mean(
            axis=(1, 2)
        )
        for policy, first, second in zip(POLICIES, known, anytime, strict=True):
            cells[policy.label] += f"{first:>11,.0f} {second:>8,.0f}"
    for label, row in cells.items():
        print(f"{label:<24}{row}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller")
    main(*((2, 500) if parser.parse_args().quick else (10, 50_000)))
