"""What the learner costs: a decision with its exact propensity and its reward, beside other libraries."""

import importlib.util
import itertools
import json
import pickle
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posse.bench.report import BenchFigure, BenchTable
from posse.bench.setting import ARMS, PLAYERS, is_shipped, printed_and_peak, worked
from posse.generate import subpar
from posse.learner import Learner
from posse.policies.base import Policy
from posse.policies.posse_ts import PosseTS
from posse.policies.propensity import propensities

BLOCK = 40  # pairs that are timed together
PAIR_BAR = 35.0  # µs for a choose and an observe
MANY, MANY_BAR = 1000, 10.0  # players that are chosen for at once, and the most µs for each
BUSY = 1000  # players that act, among many more,
CROWD_BAR, CROWD_MEMORY_BAR = 100.0, 3000.0  # the most µs for a pair, and MB
CROWD_PAIRS = 3 * BUSY
ATTRIBUTE_BAR = 1.3  # times as long as by name may a choose by attributes take
ATTRIBUTES = {"region": "category", "device": ["phone", "desktop"], "age": [30, 50]}
PROPENSITY_BARS = {100: 50.0, 1_000_000: 200.0}  # µs, by the factor between the scales
RIVALS = {"MABWiser": "mabwiser", "river": "river"}

Pair = Callable[[], None]
"""Choose an arm for the next player, and observe its reward."""


def measure_learner(
    blocks: int, past: int, crowd: int, policies: list[Policy], few: list[Policy]
) -> Iterator[BenchTable]:
    """Measure a choose and an observe over blocks, all contenders in turns.

    The posse learners have `past` decisions behind them; one has none, to show that this does not matter. Those of
    `few` also choose for many players at once, and from `crowd` players, if another process knows them.
    """
    pairs = {policy.label: _posse_pair(policy, past) for policy in policies}
    pairs[f"{few[0].label}, new"] = _posse_pair(few[0], 0)
    there = [name for name, module in RIVALS.items() if importlib.util.find_spec(module)]
    pairs |= {name: {"MABWiser": _mabwiser_pair, "river": _river_pair}[name]() for name in there}
    times: dict[str, list[float]] = {name: [] for name in pairs}
    for _ in range(blocks):
        for name, pair in pairs.items():
            times[name].append(worked(_block, pair) / BLOCK * 1e6)
    rows = {
        name: {
            "median": BenchFigure(statistics.median(found), most=None if name in RIVALS else PAIR_BAR),
            "99 %": BenchFigure(float(np.percentile(found, 99))),
        }
        for name, found in times.items()
    }
    rows |= {f"{name} (not installed; make bench installs it)": {} for name in sorted(set(RIVALS) - set(there))}
    yield BenchTable(
        "learner",
        f"The learner, after {past:,} decisions (none where new): µs for a choose, with exact propensities, and an "
        "observe. MABWiser and river give no propensities.",
        rows,
    )
    yield _measure_many(blocks, few)
    if known := list(filter(is_shipped, few)):
        yield _measure_crowd(crowd, known)
    yield _measure_attributes(blocks)
    yield BenchTable(
        "propensities",
        f"Exact propensities of {ARMS} arms: µs, by the factor between their scales",
        {
            f"a factor of {factor:,}": {"median": BenchFigure(_measure_propensities(factor, 50 * blocks), most=bar)}
            for factor, bar in PROPENSITY_BARS.items()
        },
    )


def _block(pair: Pair) -> None:
    for _ in range(BLOCK):
        pair()


def _world() -> Callable[[int, int], float]:
    """Bernoulli rewards of the paper's problem with five subpar arms."""
    means, chance = subpar(5, seed=1)[0].means, random.Random(0)
    return lambda player, arm: 1.0 if chance.random() < means[player, arm] else 0.0


def _posse_pair(policy: Policy, past: int) -> Pair:
    """posse's learner, after so many decisions."""
    players, arms = [str(player) for player in range(PLAYERS)], [str(arm) for arm in range(ARMS)]
    learner, reward, turns = Learner(policy, arms, players), _world(), itertools.cycle(range(PLAYERS))

    def pair() -> None:
        player = next(turns)
        decision = learner.choose(players[player])
        learner.observe(decision.id, reward(player, int(decision.arm)))

    for _ in range(past + 1):
        pair()
    return pair


def _measure_many(blocks: int, policies: list[Policy]) -> BenchTable:
    """One choose for many players."""
    rows = {}
    for policy in policies:
        players = [str(player) for player in range(MANY)]
        learner = Learner(policy, [str(arm) for arm in range(ARMS)], players)
        learner.observe([(decision, 0.5) for decision in learner.choose(players)])
        median = statistics.median(worked(learner.choose, players) for _ in range(blocks)) / MANY * 1e6
        rows[policy.label] = {"median": BenchFigure(median, most=MANY_BAR)}
    return BenchTable("many", f"A choose for {MANY:,} players at once: µs for each", rows)


def _measure_crowd(players: int, policies: list[Policy]) -> BenchTable:
    """A learner with a great many players of whom few act, in a process of its own."""
    code = "import sys; from posse.bench.learner import print_crowd; print_crowd(sys.argv[1], int(sys.argv[2]))"
    rows = {}
    for policy in policies:
        printed, peak = printed_and_peak(code, pickle.dumps(policy).hex(), str(players))
        made, median, late, whole = json.loads(printed)
        rows[policy.label] = {
            "made, s": BenchFigure(made),
            "median": BenchFigure(median, most=CROWD_BAR),
            "99 %": BenchFigure(late),
            "all, s": BenchFigure(whole),
            "MB": BenchFigure(peak, most=CROWD_MEMORY_BAR),
        }
    title = f"A new learner with {players:,} players of whom {BUSY:,} act: µs for a choose and an observe"
    return BenchTable("crowd", f"{title}, and what its first {CROWD_PAIRS:,} take together", rows)


def print_crowd(pickled: str, crowd: int) -> None:
    """Print, as JSON, what it takes to make such a learner; then the median, the 99th percentile and the sum."""
    policy = pickle.loads(bytes.fromhex(pickled))
    players, arms = [str(player) for player in range(crowd)], [str(arm) for arm in range(ARMS)]
    Learner(policy, arms, players[:MANY]).choose(players[0])  # compiled by now
    start = time.process_time()
    learner = Learner(policy, arms, players, keep_log=False, player_limit=crowd)
    making = time.process_time() - start
    chance = random.Random(0)
    busy, times = chance.sample(players, BUSY), []

    def pair(player: str) -> None:
        decision = learner.choose(player)
        learner.observe(decision.id, float(chance.random() < 0.05 * (int(decision.arm) + 1)))

    for number in range(CROWD_PAIRS):
        times.append(worked(pair, busy[number % BUSY]))
    median, late = np.percentile(times, [50, 99]) * 1e6
    print(json.dumps([making, float(median), float(late), sum(times)]))


def _measure_attributes(blocks: int) -> BenchTable:
    """A choose by name and by a combination of attributes, in turns, of one learner that knows all of them."""
    choices = itertools.product(("north", "south", "east", "west"), ("phone", "desktop"), (20, 40, 60))
    players = [dict(zip(ATTRIBUTES, each, strict=True)) for each in choices]
    learner = Learner(arms=[str(arm) for arm in range(ARMS)], attributes=ATTRIBUTES)
    learner.observe([(decision, 0.5) for decision in learner.choose(players)])
    names = list(learner.players)
    times = np.array([[worked(_choose_all, learner, each) for each in (names, players)] for _ in range(blocks)])
    by_name, by_attributes = np.median(times[1:], axis=0) / len(players) * 1e6  # the first is to warm up
    ratio = BenchFigure(float(by_attributes / by_name), most=ATTRIBUTE_BAR)
    row = {"by name": BenchFigure(float(by_name)), "by attributes": BenchFigure(float(by_attributes)), "ratio": ratio}
    return BenchTable("attributes", "A choose by name and by three attributes: µs", {PosseTS().label: row})


def _choose_all(learner: Learner, players: list[Any]) -> None:
    for player in players:
        learner.choose(player)


def _mabwiser_pair() -> Pair:
    """A Thompson sampling model of MABWiser for each player."""
    from mabwiser.mab import MAB, LearningPolicy

    arms = list(range(ARMS))
    models = [MAB(arms, LearningPolicy.ThompsonSampling(), seed=player) for player in range(PLAYERS)]
    for model in models:
        model.fit(arms, [0] * ARMS)
    reward, turns = _world(), itertools.cycle(range(PLAYERS))

    def pair() -> None:
        player = next(turns)
        arm = models[player].predict()
        models[player].partial_fit([arm], [int(reward(player, arm))])

    return pair


def _river_pair() -> Pair:
    """A Thompson sampling policy of river for each player."""
    from river import bandit, proba

    arms = list(range(ARMS))
    models = [bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=player) for player in range(PLAYERS)]
    reward, turns = _world(), itertools.cycle(range(PLAYERS))

    def pair() -> None:
        player = next(turns)
        arm = models[player].pull(arms)
        models[player].update(arm, reward(player, arm) == 1.0)

    return pair


def _measure_propensities(factor: float, count: int) -> float:
    """Median µs for the exact propensities of ten arms whose scales differ by up to `factor`."""
    chance = np.random.default_rng(0)
    cases = [(chance.normal(size=ARMS), factor ** -chance.random(ARMS)) for _ in range(count)]
    propensities(*cases[0])
    return statistics.median(worked(propensities, center, scale) for center, scale in cases) * 1e6
