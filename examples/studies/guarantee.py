"""What the guarantee of RobustPosseTS costs: its regret beside that of PosseTS and of the policies whose bound it has.

python examples/studies/guarantee.py            # a minute on two cores
python examples/studies/guarantee.py --quick    # one family, small
"""

from __future__ import annotations

import argparse

import numpy as np

import posse
from posse.experiments.spec.shipped_specs import battery_spec

FAMILIES = [
    *("paper-8", "paper-2", "uniform", "few-rounds", "low-rates", "one-odd", "reversed", "favourites"),
    *("nothing-shared", "nothing-shared-2-arms", "beta-low-variance"),
]


def one_of_many(players: int = 200) -> posse.Problem:
    """All players alike, but for one whose best arm is the worst of all others."""
    means = np.tile([0.5, 0.3, 0.3], (players, 1))
    means[0, 1] = 0.7
    return posse.Problem(means, epsilon=0.4)


def main(count: int, longest: int, families: list[str]) -> None:
    settings = [("one of 200", [one_of_many()], 20_000)]
    for study in battery_spec(families=families).studies:
        settings.append((study.name, study.problems[0].part(0, count).make(0), study.horizons[0]))
    print("| family | ε | PosseTS(ε) | RobustPosseTS(ε) | | Ind-TS-V | RobustAgg-TS(ε) | Ind-UCB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, problems, horizon in settings:
        epsilon, rounds = max(problem.epsilon for problem in problems), min(horizon, longest)
        policies = [
            posse.PosseTS(epsilon),
            posse.RobustPosseTS(epsilon, rounds=rounds),
            posse.IndTSV(),
            posse.RobustAggTS(epsilon),
            posse.IndUCB(),
        ]
        replications = max(2, 2 * count // len(problems))
        result = posse.simulate(problems, policies, rounds, replications=replications, checkpoints=1)
        regret, lock_ins = result.final_regret.mean(axis=(1, 2)), result.lock_ins().sum(axis=(1, 2))
        shown = [f"{mean:,.0f} ({locked})" for mean, locked in zip(regret, lock_ins, strict=True)]
        shown.insert(2, f"× {regret[1] / regret[0]:.2f}")
        print(f"| {name} | {epsilon:g} | " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller")
    main(*((2, 300, FAMILIES[:1]) if parser.parse_args().quick else (20, 10**6, FAMILIES)))
