"""Beta-TS: the simulator against an oracle, and its draws against the Beta law."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats

import naive
import posse
from posse import streams
from posse.compile import bind
from posse.policies.beta import BLOCKS, beta_draw
from posse.rewards import Beta
from posse.schedule import Arrivals, Concurrent, Random
from posse.simulation import trace

KEY = streams.key(7)


@functools.cache
def compiled_draw():
    return bind(beta_draw)


def words(arm, player, t, key=KEY):
    return tuple(int(word) for word in streams.block(arm * BLOCKS, player, t, streams.SAMPLE, key))


def draws(a, b, count, floor=-math.inf, arm=3):
    draw = compiled_draw()
    return np.array([draw(a, b, floor, words(arm, 1, t), arm, 1, t, KEY) for t in range(1, count + 1)])


def quantile(bits, of):
    """The normal quantile of (bits + ½) / 2^of, the upper half by symmetry."""
    if bits < 2 ** (of - 1):
        return NormalDist().inv_cdf((bits + 0.5) / 2**of)
    return -NormalDist().inv_cdf((2**of - bits - 0.5) / 2**of)


def slow_gamma(shape, normals, uniforms):
    """Marsaglia and Tsang, without the squeeze."""
    d = shape - 1 / 3
    for x, u in zip(normals, uniforms, strict=True):
        v = (1 + x / math.sqrt(9 * d)) ** 3
        if v > 0 and math.log(u) < x * x / 2 + d - d * v + d * math.log(v):
            return d * v
    raise AssertionError("eight attempts in vain")


def slow_beta(chance, a, b, arm, player, t):
    """The draw from the words as they are laid out: the first attempts at both Gammas in one block, the rest apart."""
    halves, first, second, last = chance.words(arm * BLOCKS, player, t, streams.SAMPLE)
    gammas = []
    for which, (shape, half, rest, uniform) in enumerate(
        [(a, halves >> 16, first, last >> 16), (b, halves % 2**16, second, last % 2**16)]
    ):
        start = arm * BLOCKS + 1 + which * BLOCKS // 2
        more, much_more, _, _ = chance.words(start, player, t, streams.SAMPLE)
        normals = [quantile((half * 2**32 + rest) * 2**16, 64)]
        uniforms = [(uniform * 2**48 + more * 2**16 + (much_more >> 16) + 0.5) / 2**64]
        for attempt in range(1, 8):
            w = chance.words(start + attempt, player, t, streams.SAMPLE)
            normals.append(quantile((w[0] >> 16) * 2**48 + w[1] * 2**16 + w[0] % 2**16, 64))
            uniforms.append((w[2] * 2**32 + w[3] + 0.5) / 2**64)
        gammas.append(slow_gamma(shape, normals, uniforms))
    return gammas[0] / (gammas[0] + gammas[1])


def oracle(problem, horizon, active, seed):
    """The algorithm for each player, one line at a time; yields {player: (arm, reward)}."""
    chance = naive.Chance(problem, Concurrent(), horizon, seed)
    M, K = problem.means.shape
    wins, losses = np.zeros((M, K)), np.zeros((M, K))
    for t in range(1, horizon + 1):
        pulled = {}
        for p in np.flatnonzero(active[t - 1]).tolist():
            theta = [slow_beta(chance, 1 + wins[p, i], 1 + losses[p, i], i, p, t) for i in range(K)]
            i = naive.argmax(theta)
            reward = chance.reward(t, p, i)
            wins[p, i] += reward
            losses[p, i] += 1 - reward
            pulled[p] = (i, reward)
        yield pulled


@pytest.mark.parametrize("rewards", [posse.rewards.Bernoulli(), Beta(2.0)], ids=str)
@pytest.mark.parametrize("who", [Concurrent(), Random(0.5), Arrivals()], ids=str)
def test_beta_ts_agrees_with_the_oracle(rewards, who):
    problem = posse.generate.uniform(players=3, arms=4, seed=2, rewards=rewards)[0]
    run = trace(problem, posse.BetaTS(), 60, seed=5, schedule=who)
    for t, pulled in enumerate(oracle(problem, 60, run.active, 5)):
        for player, (arm, reward) in pulled.items():
            assert run.arms[t, player] == arm, f"player {player} in round {t + 1}"
            assert run.rewards[t, player] == reward


@pytest.mark.parametrize(("a", "b"), [(1, 1), (1, 9), (40, 3), (700, 500), (1, 5000)])
def test_its_draws_have_the_beta_law(a, b):
    found = draws(float(a), float(b), 4000)
    assert stats.kstest(found, stats.beta(a, b).cdf).pvalue > 0.001
    assert stats.kstest(found, stats.beta(a * 1.1 + 0.2, b).cdf).pvalue < 0.001, "the check could not see another law"


def test_draws_of_different_arms_are_independent():
    one, other = draws(2.0, 3.0, 2000, arm=0), draws(2.0, 3.0, 2000, arm=1)
    assert abs(np.corrcoef(one, other)[0, 1]) < 4.5 / math.sqrt(2000)
    assert np.corrcoef(one, one + 0.5 * other)[0, 1] > 4.5 / math.sqrt(2000)


@pytest.mark.parametrize(
    ("a", "b", "floor"), [(1.0, 1.0, 0.5), (30.0, 70.0, 0.33), (900.0, 100.0, 0.9), (1.0, 50.0, 0.3)]
)
def test_a_floor_changes_nothing_above_it(a, b, floor):
    exact, cut = draws(a, b, 1500), draws(a, b, 1500, floor)
    assert np.array_equal(cut > floor, exact > floor)
    assert np.array_equal(cut[cut > floor], exact[exact > floor])
