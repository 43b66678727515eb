"""Reward families: each draws from the law that it says, on the grid, inside [0, 1]."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import posse
from posse import rewards, streams
from posse.compile import bind
from posse.rewards import (
    GRID,
    Bernoulli,
    Beta,
    Deterministic,
    Family,
    Jackpot,
    OneNoisy,
    Uniform,
    draw_reward,
    log_gamma_draw,
)
from posse.streams import DRAW, block

COUNT = 20_000


def draw_many(code, parameter, mean, player, key, out):
    """A reward for each of many rounds, as the simulator draws them."""
    for t in range(out.size):
        first, _, _, _ = block(0, player, t + 1, DRAW, key)
        out[t] = draw_reward(code, parameter, mean, first, player, t + 1, key)


COMPILED = bind(draw_many)
COMPILED_GAMMA = bind(log_gamma_draw)


def sample(family, mean, seed=0, count=COUNT, player=3):
    """Rewards in grid steps."""
    out = np.empty(count, np.int64)
    COMPILED(family.code, family.parameter, mean, player, streams.key(seed), out)
    return out


def mean_agrees(steps, mean, sd):
    """Whether the average reward is within four standard errors of `mean`, and half a grid step."""
    return abs(steps.mean() / GRID - mean) <= 4 * sd / math.sqrt(len(steps)) + 0.5 / GRID


def variance_agrees(steps, variance):
    """Whether the rewards' variance is within four of its standard errors of `variance`."""
    squares = (steps / GRID - steps.mean() / GRID) ** 2
    return abs(squares.mean() - variance) <= 4 * squares.std() / math.sqrt(len(steps)) + 1 / GRID**2


def uniform_variance(mean, width):
    return min(width, 2 * mean, 2 * (1 - mean)) ** 2 / 12


LAWS = [
    *[(Bernoulli(), mean, mean * (1 - mean)) for mean in (0.02, 0.5, 0.97)],
    *[
        (Beta(concentration), mean, mean * (1 - mean) / (concentration + 1))
        for concentration in (0.05, 1.0, 4.0, 300.0)
        for mean in (0.03, 0.5, 0.9)
    ],
    *[(Uniform(width), mean, uniform_variance(mean, width)) for width in (0.0, 0.3, 1.0) for mean in (0.05, 0.5, 0.8)],
    *[(Deterministic(), mean, 0.0) for mean in (0.05, 1 / 3, 0.8)],
    *[(OneNoisy(20.0), mean, mean * (1 - mean) / 21) for mean in (0.05, 0.8)],
    *[(Jackpot(usual), mean, (mean - usual) * (1 - mean)) for usual in (0.0, 0.02) for mean in (0.03, 0.5)],
]
every_law = pytest.mark.parametrize(("family", "mean", "variance"), LAWS, ids=lambda value: f"{value}")


class TestMoments:
    @every_law
    def test_the_mean_and_variance_are_what_they_should_be(self, family, mean, variance):
        steps = sample(family, mean)
        assert mean_agrees(steps, mean, math.sqrt(variance))
        assert variance_agrees(steps, variance)

    @every_law
    def test_every_reward_is_on_the_grid_in_the_unit_interval(self, family, mean, variance):
        steps = sample(family, mean)
        assert steps.min() >= 0
        assert steps.max() <= GRID
        assert family != Bernoulli() or set(steps) == {0, GRID}

    def test_wrong_means_and_variances_are_noticed(self):
        """Negative control of the two checks above."""
        steps = sample(Beta(4.0), 0.5)
        assert not mean_agrees(steps, 0.51, math.sqrt(0.05))
        assert not variance_agrees(steps, 0.25 / 5.3)
        assert not mean_agrees(sample(Deterministic(), 0.3), 0.3 + 1 / GRID, 0.0)
        assert not variance_agrees(sample(Uniform(0.3), 0.5), 0.31**2 / 12)

    @pytest.mark.parametrize(
        "family", [Bernoulli(), Beta(2.0), Beta(1e-3), Uniform(), Deterministic(), OneNoisy(9.0), Jackpot(0.1)], ids=str
    )
    def test_means_0_and_1_are_exact(self, family):
        assert set(sample(family, 0.0)) == {0}
        assert set(sample(family, 1.0)) == {GRID}

    def test_of_one_noisy_player_and_the_others(self):
        """Player 0 has the very rewards of a Bernoulli family, and the others those of a Beta family."""
        for player, like in ((0, Bernoulli()), (1, Beta(4.0)), (7, Beta(4.0))):
            assert np.array_equal(sample(OneNoisy(4.0), 0.3, player=player), sample(like, 0.3, player=player))

    def test_a_jackpot_is_rare_and_1_and_all_else_is_as_usual(self):
        steps = sample(Jackpot(0.02), 0.03)
        assert set(steps) == {round(0.02 * GRID), GRID}
        assert 0 < (steps == GRID).mean() < 0.02
        assert set(sample(Jackpot(0.02), 0.01)) == {round(0.01 * GRID)}

    def test_a_bernoulli_mean_is_exact_at_the_extreme_words(self):
        def reward(mean, first):
            return draw_reward(rewards.BERNOULLI, 0.0, mean, first, 0, 1, (0, 0))

        assert reward(0.0, 0) == 0
        assert reward(2.0**-32, 0) == GRID
        assert reward(1.0, 2**32 - 1) == GRID
        assert reward(1 - 2.0**-32, 2**32 - 1) == 0


def distance(steps, cdf):
    """Kolmogorov's distance, in units of 1/√n, between rewards and a law on [0, 1] that is rounded to the grid."""
    values, counts = np.unique(steps, return_counts=True)
    observed = np.cumsum(counts) / len(steps)
    expected = cdf((values + 0.5) / GRID)
    before = np.concatenate([[0.0], observed[:-1]])
    expected_before = cdf((values - 0.5) / GRID)
    gaps = np.maximum(abs(observed - expected), abs(before - expected_before))
    return gaps.max() * math.sqrt(len(steps))


def gamma_distance(logarithms, shape):
    """Kolmogorov's distance, in units of 1/√n, between logarithms of draws and the law of Gamma(shape, 1).

    Far below 1 the distribution function is x^shape / Γ(shape + 1), which needs the logarithm of x alone.
    """
    tiny = logarithms < -20
    draws = np.exp(np.where(tiny, 0.0, logarithms))
    places = np.where(tiny, np.exp(shape * logarithms - math.lgamma(shape + 1)), stats.gamma(shape).cdf(draws))
    return stats.kstest(places, "uniform").statistic * math.sqrt(len(places))


CRITICAL = 1.95  # exceeded by chance once in a thousand


class TestLaw:
    @pytest.mark.parametrize("concentration", [0.01, 0.3, 1.0, 2.0, 50.0, 1e4])
    @pytest.mark.parametrize("mean", [0.001, 0.2, 0.5, 0.999])
    def test_beta_rewards_have_the_beta_law(self, concentration, mean):
        law = stats.beta(mean * concentration, (1 - mean) * concentration)
        assert distance(sample(Beta(concentration), mean), law.cdf) < CRITICAL

    @pytest.mark.parametrize("concentration", [0.01, 0.3, 2.0, 50.0])
    def test_another_beta_law_is_noticed(self, concentration):
        """Negative control: another concentration, or a mean that is off by little."""
        steps = sample(Beta(concentration), 0.2)
        factor, mean = 1.25 if concentration > 0.1 else 3.0, 0.22
        other = stats.beta(0.2 * concentration * factor, 0.8 * concentration * factor)
        moved = stats.beta(mean * concentration, (1 - mean) * concentration)
        assert distance(steps, other.cdf) > CRITICAL
        assert distance(steps, moved.cdf) > CRITICAL

    @pytest.mark.parametrize("shape", [1e-3, 0.3, 1.0, 5.0])
    def test_the_gamma_draws_behind_them_have_the_gamma_law(self, shape):
        """Compared as probabilities, for the draws of a tiny shape are too small for a float."""
        logarithms = np.array([COMPILED_GAMMA(shape, 0, 0, t, streams.key(1)) for t in range(1, 100_001)])
        assert gamma_distance(logarithms, shape) < CRITICAL
        assert gamma_distance(logarithms, 1.03 * shape) > CRITICAL

    @pytest.mark.parametrize(("mean", "width"), [(0.5, 1.0), (0.5, 0.2), (0.1, 1.0), (0.97, 0.5)])
    def test_uniform_rewards_are_uniform_as_wide_as_they_may(self, mean, width):
        wide = min(width, 2 * mean, 2 * (1 - mean))
        steps = sample(Uniform(width), mean)
        assert distance(steps, stats.uniform(mean - wide / 2, wide).cdf) < CRITICAL
        assert distance(steps, stats.uniform(mean - wide / 2, 1.1 * wide).cdf) > CRITICAL

    def test_a_reward_does_not_hang_on_the_rewards_of_other_rounds_and_players(self):
        steps = sample(Beta(2.0), 0.4)
        other = sample(Beta(2.0), 0.4, seed=1)
        assert abs(np.corrcoef(steps[1:], steps[:-1])[0, 1]) < 4 / math.sqrt(COUNT)
        assert abs(np.corrcoef(steps, other)[0, 1]) < 4 / math.sqrt(COUNT)
        assert np.corrcoef(steps, steps)[0, 1] > 4 / math.sqrt(COUNT)


class TestExtremeWords:
    """Random words that come once in four thousand million draws come, in large simulations."""

    def reward(self, monkeypatch, family, mean, words):
        """A reward whose first attempts meet these words."""

        def extreme(number, *place):
            return words if number % (1 << 20) < 2 else block(number, *place)

        monkeypatch.setattr(rewards, "block", extreme)
        return draw_reward(family.code, family.parameter, mean, words[0], 0, 1, (1, 2))

    @pytest.mark.parametrize("concentration", [0.01, 1.0, 100.0])
    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (0, 0),
            (0xFFFF, 0xFFFFFFFF),
            (0x7FFFFFFF, 0xFFFFFFFF),
            (0x80000000, 0),
            (0xFFFFFFFF, 0),
            (0xFFFF0000, 0xFFFFFFFF),
            (0xFFFFFFFF, 0xFFFFFFFF),
        ],
    )
    def test_they_give_rewards_too(self, monkeypatch, first, second, concentration):
        for third in (0, 0xFFFFFFFF):
            steps = self.reward(monkeypatch, Beta(concentration), 0.3, (first, second, third, third))
            assert 0 <= steps <= GRID

    @pytest.mark.parametrize("concentration", [1e-300, 1e-12])
    def test_a_tiny_concentration_gives_0_and_1_only(self, concentration):
        assert set(sample(Beta(concentration), 0.5, count=200)) == {0, GRID}

    @pytest.mark.parametrize("concentration", [1e12, 1e300])
    def test_a_huge_concentration_gives_the_mean(self, concentration):
        assert abs(sample(Beta(concentration), 0.5, count=200) - GRID // 2).max() < 100


class TestFamilies:
    @pytest.mark.parametrize(
        ("name", "family"),
        [("bernoulli", Bernoulli()), ("uniform", Uniform(1.0)), ("deterministic", Deterministic())],
    )
    def test_a_name_stands_for_a_family(self, name, family):
        assert rewards.family(name) == rewards.family(name.upper()) == rewards.family(family) == family

    @pytest.mark.parametrize("name", ["gaussian", "beta", "", None, 3, Beta])
    def test_other_names_are_refused_with_what_there_is(self, name):
        with pytest.raises(ValueError, match=r"^rewards=.*'bernoulli', 'uniform', 'deterministic'.*Beta"):
            rewards.family(name)

    @pytest.mark.parametrize("bad", [0, -1.0, 1e-310, math.nan, math.inf])
    def test_a_concentration_is_a_positive_number(self, bad):
        with pytest.raises(ValueError, match=r"^concentration=.*at least 1e-300"):
            Beta(bad)

    @pytest.mark.parametrize("bad", [-0.1, 1.01, math.nan, math.inf])
    def test_a_width_is_a_number_from_0_to_1(self, bad):
        with pytest.raises(ValueError, match=r"^width=.*\[0, 1\]"):
            Uniform(bad)

    @pytest.mark.parametrize("bad", ["1", None, True, [1.0], 1j])
    def test_a_parameter_is_a_number(self, bad):
        with pytest.raises(TypeError, match=r"^concentration="):
            Beta(bad)
        with pytest.raises(TypeError, match=r"^width="):
            Uniform(bad)

    def test_families_are_values(self):
        assert Beta(2) == Beta(2.0) != Beta(3.0)
        assert len({Bernoulli(), Bernoulli(), Uniform(), Uniform(1)}) == 2
        assert all(isinstance(family, Family) for family in (Bernoulli(), Beta(1), Uniform(), Deterministic()))

    def test_families_have_different_codes(self):
        assert len({family.code for family in (Bernoulli, Beta, Uniform, Deterministic)}) == 4


@pytest.mark.parametrize("family", [Bernoulli(), Beta(3.0), Uniform(0.3), Deterministic(), Jackpot(0.1)], ids=str)
def test_compiled_rewards_are_the_plain_ones(family):
    out = np.empty(60, np.int64)
    draw_many(family.code, family.parameter, 0.4, 3, streams.key(0), out)
    assert np.array_equal(out, sample(family, 0.4, count=60))


def test_the_simulator_draws_from_the_family_of_its_problem():
    problem = posse.Problem([[0.3]], rewards=Beta(4.0))
    run = posse.simulation.trace(problem, posse.IndUCB(), 3000)
    law = stats.beta(1.2, 2.8)
    assert distance((run.rewards[:, 0] * GRID).astype(int), law.cdf) < CRITICAL
    assert distance((run.rewards[:, 0] * GRID).astype(int), stats.beta(2.4, 5.6).cdf) > CRITICAL
