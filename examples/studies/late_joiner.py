"""A player that joins late: does it do better from what the others know, or from nothing?

Nineteen players of the paper's problems play for a while under RobustAgg-TS; then a twentieth joins a learner that has
their data, once knowing it and once not, and plays alone. Its own mean regret is printed, with 95 % intervals.

    python examples/studies/late_joiner.py            # half a minute
    python examples/studies/late_joiner.py --quick    # seconds, rougher
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import posse

EPSILON = 0.15
LAST = 19  # the player that joins late


def history(problem: posse.Problem, rounds: int, seed: int) -> list[tuple[str, str, float]]:
    """What the others' run gives, as (player, arm, reward)."""
    others = posse.Problem(problem.means[:LAST])
    run = posse.simulation.trace(others, posse.RobustAggTS(EPSILON), rounds, seed=seed)
    return [
        (str(player), str(run.arms[t, player]), float(run.rewards[t, player]))
        for t in range(rounds)
        for player in range(LAST)
    ]


def regret_of_joiner(problem: posse.Problem, past: list[tuple[str, str, float]], knows: bool, seed: int) -> np.ndarray:
    """The late player's regret after each of its decisions."""
    arms = [str(arm) for arm in range(problem.arms)]
    learner = posse.Learner(posse.RobustAggTS(EPSILON), arms, [str(p) for p in range(LAST)], horizon=50_000, seed=seed)
    learner.record(past)
    learner.join("late", knows_others=knows)
    chance, gaps = np.random.default_rng(seed), problem.gaps[LAST]
    regret = np.zeros(DECISIONS)
    for t in range(DECISIONS):
        decision = learner.choose("late")
        arm = int(decision.arm)
        learner.observe(decision.id, float(chance.random() < problem.means[LAST, arm]))
        regret[t] = gaps[arm]
    return regret.cumsum()


def main() -> None:
    print(f"mean regret of the late player after {', '.join(map(str, SHOWN))} decisions of its own")
    for subpar in (8, 5, 0):
        problems = posse.generate.subpar(subpar, count=PROBLEMS, seed=3)
        pasts = [history(problem, ROUNDS, seed) for seed, problem in enumerate(problems)]
        for knows in (True, False):
            runs = [
                regret_of_joiner(problem, past, knows, seed)
                for seed, (problem, past) in enumerate(zip(problems, pasts, strict=True))
            ]
            table = np.array(runs)[:, np.array(SHOWN) - 1]
            half = 1.96 * table.std(axis=0, ddof=1) / math.sqrt(PROBLEMS)
            cells = "".join(f"{mean:>9.1f} ± {h:<5.1f}" for mean, h in zip(table.mean(axis=0), half, strict=True))
            print(f"{subpar} subpar arms, {'from what the others know' if knows else 'from nothing':<25}{cells}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller")
    QUICK = parser.parse_args().quick
    PROBLEMS, ROUNDS, DECISIONS = (3, 200, 100) if QUICK else (30, 2000, 2000)
    SHOWN = (20, 50, 100) if QUICK else (50, 200, 500, 2000)
    main()
