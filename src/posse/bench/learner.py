"""The learner's figures: a decision with its exact propensity and its reward, beside other libraries' same work."""

from __future__ import annotations

import importlib.util
import math
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from posse.bench.setting import ARMS, EPSILON, PLAYERS
from posse.generate import subpar
from posse.learner import Learner
from posse.policies.base import Policy
from posse.policies.hier_ts import HierTS
from posse.policies.ind_ts import IndTS
from posse.policies.propensity import propensities
from posse.policies.robustagg import RobustAgg
from posse.policies.robustagg_ts import RobustAggTS

BLOCK = 40  # pairs timed in one go
RIVALS = {"MABWiser": "mabwiser", "river": "river"}

Pair = Callable[[], None]
"""Choose an arm for the next player, and tell its reward."""


def measure_learner(blocks: int, past: int) -> dict[str, Any]:
    """µs for a choose and an observe: median and 99th percentile over blocks, for all contenders in turns.

    The posse learners have `past` decisions behind them; one has none, to show that this does not matter.
    """
    pairs: dict[str, Pair] = {}
    for policy in (RobustAggTS(EPSILON), HierTS(EPSILON / math.sqrt(12)), RobustAgg(EPSILON), IndTS()):
        pairs[policy.label] = posse_pair(policy, past)
    pairs[f"{RobustAggTS(EPSILON).label}, new"] = posse_pair(RobustAggTS(EPSILON), 0)
    there = [name for name, module in RIVALS.items() if importlib.util.find_spec(module)]
    pairs |= {name: {"MABWiser": mabwiser_pair, "river": river_pair}[name]() for name in there}
    times: dict[str, list[float]] = {name: [] for name in pairs}
    for _ in range(blocks):
        for name, pair in pairs.items():
            start = time.perf_counter()
            for _ in range(BLOCK):
                pair()
            times[name].append((time.perf_counter() - start) / BLOCK * 1e6)
    return {
        "past_decisions": past,
        "pair_us": {name: statistics.median(found) for name, found in times.items()},
        "pair_us_99": {name: float(np.percentile(found, 99)) for name, found in times.items()},
        "not_installed": sorted(set(RIVALS) - set(there)),
        "propensity_us": {f"{factor:g}": measure_propensities(factor, 50 * blocks) for factor in (1e2, 1e6)},
    }


def world() -> Callable[[int, int], float]:
    """Bernoulli rewards of the paper's problem with five subpar arms."""
    means, chance = subpar(5, seed=1)[0].means, random.Random(0)
    return lambda player, arm: 1.0 if chance.random() < means[player, arm] else 0.0


def posse_pair(policy: Policy, past: int) -> Pair:
    """posse's learner, after so many decisions."""
    players, arms = [str(player) for player in range(PLAYERS)], [str(arm) for arm in range(ARMS)]
    learner, reward, turn = Learner(policy, arms, players), world(), Turn()

    def pair() -> None:
        player = turn()
        decision = learner.choose(players[player])
        learner.observe(decision.id, reward(player, int(decision.arm)))

    for _ in range(past + 1):
        pair()
    return pair


def mabwiser_pair() -> Pair:
    """A Thompson sampling model of MABWiser for each player; it gives no propensities."""
    from mabwiser.mab import MAB, LearningPolicy

    arms = list(range(ARMS))
    models = [MAB(arms, LearningPolicy.ThompsonSampling(), seed=player) for player in range(PLAYERS)]
    for model in models:
        model.fit(arms, [0] * ARMS)
    reward, turn = world(), Turn()

    def pair() -> None:
        player = turn()
        arm = models[player].predict()
        models[player].partial_fit([arm], [int(reward(player, arm))])

    return pair


def river_pair() -> Pair:
    """A Thompson sampling policy of river for each player; it gives no propensities."""
    from river import bandit, proba

    arms = list(range(ARMS))
    models = [bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=player) for player in range(PLAYERS)]
    reward, turn = world(), Turn()

    def pair() -> None:
        player = turn()
        arm = models[player].pull(arms)
        models[player].update(arm, reward(player, arm) == 1.0)

    return pair


class Turn:
    """Players, one after another."""

    def __init__(self) -> None:
        self.count = -1

    def __call__(self) -> int:
        self.count += 1
        return self.count % PLAYERS


def measure_propensities(factor: float, count: int) -> float:
    """Median µs for the exact propensities of ten arms whose scales differ by up to `factor`."""
    chance = np.random.default_rng(0)
    cases = [(chance.normal(size=ARMS), factor ** -chance.random(ARMS)) for _ in range(count)]
    propensities(*cases[0])
    times = []
    for center, scale in cases:
        start = time.perf_counter()
        propensities(center, scale)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6
