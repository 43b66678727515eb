"""Beta-TS: its propensities against quadrature and closed forms, and its draws against the Beta law."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import special, stats
from slow_races import beta_race

from posse.compile import bind
from posse.policies.beta_draw import BLOCKS, beta_draw
from posse.policies.beta_propensity import BETA_SCRATCH, fill_beta_propensities, stirling_error
from posse.streams import SAMPLE, block


def propensities(a, b):
    a, b = np.array(a, float), np.array(b, float)
    out = np.empty(a.size)
    bind(fill_beta_propensities)(a, b, out, np.empty((a.size, BETA_SCRATCH)))
    return out


class TestPropensities:
    @pytest.mark.parametrize("arms", [2, 5, 20, 200])
    @pytest.mark.parametrize("most", [1, 30, 1000, 10**6])
    def test_powers_of_uniforms_win_in_proportion_to_their_powers(self, arms, most):
        """Beta(a, 1) is U^(1/a), so the chances are a / Σa; whole a here."""
        a = np.floor(most ** np.random.default_rng(arms).random(arms)) + 1
        np.testing.assert_allclose(propensities(a, np.ones(arms)), a / a.sum(), rtol=0, atol=1e-13)

    @pytest.mark.parametrize("law", [(1, 1), (3, 7), (1, 10**6), (10**6, 1), (10**6, 10**6)], ids=str)
    @pytest.mark.parametrize("arms", [2, 7, 20])
    def test_like_arms_are_equally_likely(self, law, arms):
        np.testing.assert_allclose(propensities(*np.tile(law, (arms, 1)).T), 1 / arms, rtol=0, atol=1e-13)

    @pytest.mark.parametrize("arms", [2, 3, 20])
    @pytest.mark.parametrize("most", [5, 200, 3000])
    def test_whole_counts_against_quadrature(self, arms, most):
        chance = np.random.default_rng(most + arms)
        laws = 1 + chance.integers(0, most, (arms, 2))
        expected = beta_race(laws.tolist(), step=0.002)
        np.testing.assert_allclose(propensities(*laws.T), expected, rtol=0, atol=1e-10)

    def test_another_law_is_noticed(self):
        """Negative control: one success more among a thousand."""
        assert (
            np.abs(propensities([601, 590], [401, 402]) - beta_race([(600, 401), (590, 402)], step=0.002)).max() > 1e-3
        )

    @pytest.mark.parametrize(
        "laws",
        [
            [(1.125, 1.0), (1.125, 1.875), (1.0, 1.0)],
            [(1.125, 20.0), (1.5, 30.0)],
            [(20.0, 1.125), (30.0, 1.5)],
            [(6.0, 1.0), (1.125, 1.875)],  # a node is rounded to 1 itself
            [(1.125, 1.5), (1.375, 1.25)],
            [(2.0, 1.001), (1.5, 1.0005)],  # nearly no room between 1 and where next to nothing is left
            [(1.001, 2.0), (30.5, 1.3), (4.25, 9.5)],
        ],
        ids=str,
    )
    def test_parts_of_a_success(self, laws):
        np.testing.assert_allclose(propensities(*np.transpose(laws)), beta_race(laws), rtol=0, atol=1e-10)

    @pytest.mark.parametrize(("b", "law"), [(1000, (5, 3)), (1000, (300, 10_000)), (10**6, (3, 50))], ids=str)
    def test_small_chances_of_a_long_tail(self, b, law):
        """Beta(1, b) is above Beta(c, d) with chance B(c, d + b) / B(c, d), which is 1e-13 and more here."""
        c, d = law
        chance = math.exp(special.betaln(c, d + b) - special.betaln(c, d))
        assert propensities([1, c], [b, d])[0] == pytest.approx(chance, rel=0, abs=1e-14)
        assert propensities([b, d], [1, c])[1] == pytest.approx(chance, rel=0, abs=1e-14)

    @pytest.mark.parametrize("x", [1.0, 1.5, 7.0, 14.9, 15.0, 15.5, 16.0, 40.0, 1e3, 1e6])
    def test_the_error_of_stirlings_formula(self, x):
        with mpmath.workdps(40):
            formula = (x - mpmath.mpf(0.5)) * mpmath.log(x) - x + mpmath.log(2 * mpmath.pi) / 2
            assert stirling_error(x) == pytest.approx(float(mpmath.loggamma(x) - formula), rel=0, abs=1e-14)


def draws(a, b, count=20_000, floor=-math.inf):
    draw, arm, player, key = bind(beta_draw), 1, 2, (5, 7)
    words = (block(arm * BLOCKS, player, t, SAMPLE, key) for t in range(1, count + 1))
    return np.array([draw(a, b, floor, word, arm, player, t, key) for t, word in enumerate(words, 1)])


class TestDraws:
    @pytest.mark.parametrize("law", [(1, 1), (1, 2), (2, 1), (1.5, 40), (900, 3), (10**6, 10**6)], ids=str)
    def test_they_have_the_law(self, law):
        assert stats.kstest(draws(*map(float, law)), stats.beta(*law).cdf).pvalue > 1e-4

    def test_another_law_is_noticed(self):
        """Negative control."""
        assert stats.kstest(draws(2.0, 3.0), stats.beta(2.1, 3).cdf).pvalue < 1e-6

    def test_a_floor_changes_nothing_above_it(self):
        free, bounded = draws(2.0, 3.0, 3000), draws(2.0, 3.0, 3000, 0.5)
        assert np.array_equal(free[free > 0.5], bounded[free > 0.5])
        assert (bounded[free <= 0.5] <= 0.5).all()
