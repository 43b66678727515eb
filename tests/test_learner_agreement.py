"""The learner runs the simulator's policies: same numbers after every round, same choices from every state."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import posse
from by_name import call
from posse.compile import bind
from posse.policies import Law, Refresh, all_policies
from posse.policies.statistics import COUNT, SUM
from posse.schedule import Concurrent, Fixed, Random, Sequential
from posse.simulation import kernel
from posse.simulation.engine import PolicyRun
from posse.simulation.pick import put_rough, rough_at
from posse.simulation.pick_beta import root_of_shape
from posse.testing import example

PLAYERS, ARMS, HORIZON = 4, 5, 40
POLICIES = [example(cls) for cls in all_policies() if cls.__module__.startswith("posse.policies.")]
MASK = np.random.default_rng(4).random((HORIZON, PLAYERS)) < 0.6
MASK[7] = False
SCHEDULES = [Concurrent(), Sequential(), Sequential("random"), Random(0.5), Fixed(MASK)]
PROBLEM = posse.generate.uniform(players=PLAYERS, arms=ARMS, epsilon=0.2, seed=8)[0]
NAMES = [f"player {number}" for number in range(PLAYERS)]
OPTIONS = [f"arm {number}" for number in range(ARMS)]


def each_policy(function):
    return pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)(function)


def feed(policy, run, rounds, horizon, start=0, learner=None):
    """A learner that was told the rounds of a trace."""
    learner = learner or posse.Learner(policy, OPTIONS, NAMES, horizon)
    for t in range(start, rounds):
        active = np.flatnonzero(run.active[t])
        learner.record([(NAMES[p], OPTIONS[run.arms[t, p]], run.rewards[t, p]) for p in active])
    return learner


def indices(learner):
    """Centers and scales, [player, arm]."""
    table = np.array([list(learner.indices(name).values()) for name in NAMES])
    return table[..., 0], table[..., 1]


@each_policy
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("anytime", [False, True], ids=["horizon", "anytime"])
def test_centers_and_scales_are_the_simulators_after_every_round(policy, schedule, anytime):
    run = posse.simulation.trace(PROBLEM, policy, HORIZON, seed=6, schedule=schedule, anytime=anytime)
    learner = feed(policy, run, 0, None if anytime else HORIZON)
    for t in range(HORIZON):
        centers, scales = indices(learner)
        np.testing.assert_allclose(centers, run.centers[t], rtol=1e-12, atol=0)
        np.testing.assert_allclose(scales, run.scales[t], rtol=1e-12, atol=0)
        feed(policy, run, t + 1, None, t, learner)


def test_a_batch_is_one_round_and_not_several():
    """The negative control: the same rewards one by one leave RobustAgg-TS with other numbers."""
    policy = posse.RobustAggTS(0.2)
    run = posse.simulation.trace(PROBLEM, policy, HORIZON, seed=6)
    learner = posse.Learner(policy, OPTIONS, NAMES, HORIZON)
    for t in range(HORIZON):
        for p in range(PLAYERS):
            learner.record([(NAMES[p], OPTIONS[run.arms[t, p]], run.rewards[t, p])])
    assert not np.allclose(indices(learner)[0], run.centers[HORIZON], rtol=1e-12)


def choices_of_the_simulator(policy, centers, scales, draws):
    """How often the simulator's own code pulls each arm in a state, [player, arm]."""
    made, is_beta = PolicyRun(PROBLEM, policy, Concurrent(), HORIZON, seed=0), policy.law is Law.BETA
    state, run = made.state, made.run
    run.center[:], run.scale[:], run.active[:PLAYERS] = centers.T, scales.T, np.arange(PLAYERS)
    for arm, player in np.ndindex(run.center.shape) if run.rough.size else ():
        numbers = run.center[arm, player], run.scale[arm, player]
        put_rough(run.rough, rough_at(arm, player, ARMS), *map(root_of_shape, numbers) if is_beta else numbers)
    law = {"RANDOMISED": policy.randomised, "IMED": policy.law is Law.IMED, "BETA": is_beta}
    choose = bind(kernel.choose, **law)
    counts = np.zeros((PLAYERS, ARMS))
    for t in range(1, draws + 1):
        run.rounds[:PLAYERS] = t
        choose(state, run, 0, PLAYERS, PLAYERS, t, (5, 7))
        counts[np.arange(PLAYERS), run.arms] += 1
    return counts


def p_value(counts, probabilities):
    """χ² of counts against probabilities, arms expected less than five times taken together."""
    expected = counts.sum() * probabilities
    rare = expected < 5
    observed, expected = np.append(counts[~rare], counts[rare].sum()), np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 5:
        assert observed[-1] <= 30
        observed, expected = observed[:-1], expected[:-1]
    statistic = ((observed - expected) ** 2 / expected).sum()
    return stats.chi2.sf(statistic, max(len(expected) - 1, 1))


@each_policy
@pytest.mark.parametrize("rounds", [0, 3, 39])
def test_propensities_are_the_frequencies_of_the_simulators_choices(policy, rounds):
    run = posse.simulation.trace(PROBLEM, policy, HORIZON, seed=2)
    learner = feed(policy, run, rounds, HORIZON)
    counts = choices_of_the_simulator(policy, run.centers[rounds], run.scales[rounds], 4000)
    for player, name in enumerate(NAMES):
        probabilities = np.array(list(learner.probabilities(name).values()))
        assert probabilities.sum() == pytest.approx(1, abs=1e-12)
        if not policy.randomised:
            assert counts[player].argmax() == probabilities.argmax()
            assert probabilities.max() == 1
        else:
            assert p_value(counts[player], probabilities) > 1e-4


def test_frequencies_do_not_match_the_propensities_of_another_state():
    """The negative control."""
    policy = posse.IndTS()
    run = posse.simulation.trace(PROBLEM, policy, HORIZON, seed=2)
    counts = choices_of_the_simulator(policy, run.centers[39], run.scales[39], 4000)
    other = np.array(list(feed(policy, run, 20, HORIZON).probabilities(NAMES[0]).values()))
    assert p_value(counts[0], other) < 1e-6


@each_policy
def test_decisions_come_from_the_logged_probabilities(policy):
    run = posse.simulation.trace(PROBLEM, policy, HORIZON, seed=2)
    learner = feed(policy, run, 25, 10**6)
    probabilities = None
    counts = dict.fromkeys(OPTIONS, 0)
    for _ in range(3000):
        decision = learner.choose(NAMES[1])
        if not policy.randomised:
            break  # pending pulls count there, so the state moves on
        assert probabilities in (None, decision.probabilities)
        probabilities = decision.probabilities
        assert decision.propensity == probabilities[decision.arm]
        counts[decision.arm] += 1
    if policy.randomised:
        assert p_value(np.array(list(counts.values())), np.array(list(probabilities.values()))) > 1e-4
    else:
        assert decision.propensity == 1


@each_policy
def test_the_shared_weight_is_how_far_a_center_follows_the_others(policy):
    """Against moving every reward of the others by hand."""
    if policy.summary is not None:
        pytest.skip("a summary has no sums of the others to move: test_summary.py")
    run = posse.simulation.trace(PROBLEM, policy, HORIZON, seed=3)
    learner = feed(policy, run, HORIZON, HORIZON)
    weights = learner.state.evaluate(0)[2]
    if not policy.shares:
        assert not weights.any()
        return
    assert weights.any()
    known = learner.state.known
    n, s = known.statistics[COUNT] * 1.0, known.statistics[SUM] / 2.0**24
    for arm in range(ARMS):

        def center(others, own, arm=arm):
            """The center of player 0 if all pulls of the others, and its own, had earned so much more."""
            more = s[arm] + n[arm] * np.where(np.arange(PLAYERS) == 0, own, others)
            N, S = n[arm].sum(), more.sum()
            if policy.contribution is not None:
                each = [call(policy, "contribution", n=a, s=b) for a, b in zip(n[arm], more, strict=True)]
                N, S = np.sum(each, axis=0)
            elif policy.refresh is Refresh.OWN_PULL:  # what it has seen: all of it is moved by as much a pull
                N, S = known.seen[:, arm, 0]
                S = S + others * (N - n[arm, 0]) + own * n[arm, 0]
            return call(policy, n=n[arm, 0], s=more[0], N=N, S=S, M=PLAYERS, log_T=math.log(HORIZON + 1))[0]

        here, by_others, by_all = center(0, 0), center(1e-3, 0), center(1e-3, 1e-3)
        assert 0 <= weights[arm] <= 1
        if here < math.inf:
            assert weights[arm] == pytest.approx((by_others - here) / (by_all - here), abs=1e-9)


@pytest.mark.parametrize("policy", [posse.PosseTS(), posse.PosseTS(0.2)], ids=str)
def test_posse_ts_rests_on_others_the_less_the_more_it_has_seen_itself(policy):
    """Alone it rests on nobody; one that comes later rests on the others alone, arm by arm until it pulls the arm."""
    rng = np.random.default_rng(1)
    pulls = [(name, arm, mean) for name in "abcd" for arm, mean in enumerate((0.3, 0.6)) for _ in range(30)]
    rewards = [(name, arm, float(rng.random() < mean)) for name, arm, mean in pulls]
    alone = posse.Learner(policy, [0, 1], ["a"], horizon=HORIZON)
    alone.record([entry for entry in rewards if entry[0] == "a"])
    assert not alone.state.evaluate(0)[2].any()
    assert alone.choose("a").shared == 0
    learner = posse.Learner(policy, [0, 1], list("abcd"), horizon=HORIZON)
    learner.record(rewards)
    learner.join("e")
    found = [learner.state.evaluate(4)[2]]
    assert found[0].tolist() == [1, 1]
    for times in (1, 3, 10, 30, 100, 300):
        learner.record([("e", 1, float(rng.random() < 0.6)) for _ in range(times)])
        found.append(learner.state.evaluate(4)[2])
    weights = np.array(found)
    assert (weights[:, 0] == 1).all()
    assert (np.diff(weights[:, 1]) < 0).all()
    assert 0 < weights[-1, 1] < 0.6
    assert learner.choose("e").shared in weights[-1]
