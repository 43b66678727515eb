"""Where the time of a simulated round goes: each step of the round loop alone, beside the whole round.

A step is repeated on its own, on a run that is under way. So it never waits for what another step has just written, and
nothing runs beside it. What the steps leave of the whole is such waiting, and the loop itself.

python examples/studies/round_parts.py            # half a minute
python examples/studies/round_parts.py --quick    # seconds, rougher
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import posse
from posse.compile import bind_all
from posse.policies.bindings import bindings, used_statistics
from posse.policies.bound import AT_OWN_PULL, SCHEDULED
from posse.simulation.engine import PolicyRun
from posse.simulation.kernel import activate_ahead, choose, count_rewards, draw, earn, learn, refresh_active

POLICIES = posse.RobustAggTS(0.15), posse.IndTSV(), posse.HierTS(0.0433), posse.PosseTS(), posse.BetaTS()
PLAYERS, HORIZON, REPETITIONS = 20, 50_000, 20
AHEAD = 128 // PLAYERS  # rounds that are drawn together


def main(rounds: int) -> None:
    """Print the table."""
    problem = posse.generate.subpar(5, seed=1)[0]
    columns = []
    for policy in POLICIES:
        run = PolicyRun(problem, policy, posse.schedule.Concurrent(), HORIZON, seed=0)
        run.advance(HORIZON // 2)
        whole = quickest(lambda run=run: run.advance(run.round + rounds), rounds)
        names = bindings(type(policy), used_statistics(type(policy)))
        compiled = bind_all(list(STEPS.values()), what=policy.label, **names, TIMED=False)
        steps = [
            quickest(lambda run=run, step=step: step(*run.arguments, run.round + 1, rounds // AHEAD), rounds)
            for step in compiled
        ]
        columns.append([*steps, whole - sum(steps), whole])
    print("ns a player-round on one thread, M = 20, K = 10, |I_5ε| = 5")
    print(f"{'':<38}" + "".join(f"{policy.label.split('(')[0]:>14}" for policy in POLICIES))
    for name, costs in zip([*STEPS, "the rest", "a round"], zip(*columns, strict=True), strict=True):
        print(f"{name:<38}" + "".join(f"{cost:>14.2f}" for cost in costs))


def quickest(work: Callable[[], Any], rounds: int) -> float:
    """ns a player-round of work for so many rounds, at its quickest."""
    costs = []
    for _ in range(REPETITIONS):
        start = time.process_time()
        work()
        costs.append(time.process_time() - start)
    return min(costs) / rounds / PLAYERS * 1e9


# Compiled with the policy's functions. Each repeats a step for so many times AHEAD rounds, of which t is the first.


def repeat_activate(state, run, environment, participation, constants, key, clock, t, times):
    for _ in range(times):
        activate_ahead(run, participation, t, t + AHEAD - 1, key)


def repeat_draw(state, run, environment, participation, constants, key, clock, t, times):
    for _ in range(times):
        draw(run, 0, AHEAD * PLAYERS, key)


def repeat_refresh(state, run, environment, participation, constants, key, clock, t, times):
    for _ in range(0 if AT_OWN_PULL or SCHEDULED else times * AHEAD):
        refresh_active(state, run, run.active[:PLAYERS], True, t, False, clock.log_horizon, constants)


def repeat_choose(state, run, environment, participation, constants, key, clock, t, times):
    for _ in range(times):
        for ahead in range(AHEAD):  # the first round is left out, for which it would draw
            begin = max(ahead, 1) * PLAYERS
            choose(state, run, begin, begin + PLAYERS, AHEAD * PLAYERS, t + ahead, key)


def repeat_earn(state, run, environment, participation, constants, key, clock, t, times):
    for _ in range(times * AHEAD):
        earn(run, environment, run.active[:PLAYERS], run.reward_words[:PLAYERS], t, key)


def repeat_count(state, run, environment, participation, constants, key, clock, t, times):
    for _ in range(times * AHEAD):
        count_rewards(state, run, run.active[:PLAYERS], t)


def repeat_learn(state, run, environment, participation, constants, key, clock, t, times):
    for _ in range(times * AHEAD):
        learn(state, run, run.active[:PLAYERS], run.arms, PLAYERS, t, False, clock.log_horizon, constants)


STEPS = {
    "who is active": repeat_activate,
    "random words, bounds on draws": repeat_draw,
    "centers and scales after others' pulls": repeat_refresh,
    "the pick": repeat_choose,
    "rewards": repeat_earn,
    "counts": repeat_count,
    "what is shared, centers and scales": repeat_learn,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    main(2_400 if parser.parse_args().quick else 6_000)
