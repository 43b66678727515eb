"""Beta-TS: its propensities against quadrature and closed forms, and its draws against the Beta law."""

from __future__ import annotations

import math
from dataclasses import dataclass

import mpmath
import numpy as np
import pytest
from scipy import special, stats
from slow_races import beta_race

import posse
from posse.compile import bind
from posse.normal import normal
from posse.policies.beta_draw import BLOCKS, beta_draw
from posse.policies.beta_propensity import BETA_SCRATCH, fill_beta_propensities, stirling_error
from posse.simulation import trace
from posse.simulation.pick_beta import bound_gamma, bound_odds
from posse.streams import SAMPLE, block
from posse.streams import key as run_key


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

    @pytest.mark.parametrize("law", [(0.0, 1.0), (-1.0, 2.0), (1.0, 0.3), (math.inf, 1.0), (1.0, math.nan)], ids=str)
    def test_no_law_is_drawn_from_for_ever(self, law):
        assert np.isnan(draws(*law, count=20)).all()

    def test_a_floor_changes_nothing_above_it(self):
        free, bounded = draws(2.0, 3.0, 3000), draws(2.0, 3.0, 3000, 0.5)
        assert np.array_equal(free[free > 0.5], bounded[free > 0.5])
        assert (bounded[free <= 0.5] <= 0.5).all()


def single(number):
    return np.float32(number)


ROOTS = [math.sqrt(shape - 1 / 3) for shape in (1, 1.01, 1.5, 2, 3, 7, 30, 500, 1e5, 9e7)]
SHAPES = [1.0, 1.25, 2.0, 5.0, 40.0, 3000.0, 1e6, 9e7, 1e9, 1e18]


class TestBounds:
    """Those by which most picks are made."""

    @pytest.mark.parametrize("root", ROOTS, ids=lambda root: f"{root:.4g}")
    def test_a_draw_that_is_surely_accepted_is(self, root):
        """For the largest uniform number of which the bounds say so, at both ends of what the first bits leave open."""
        bound, accepted, halves = bind(bound_gamma), 0, [0, 1, 65534, 65535, *range(7, 65536, 97)]
        for half in halves:

            def is_sure(uniform, half=half):
                return bound(single(root), single(1 / root), np.uint32(half), np.uint32(uniform))[2]

            below, above = -1, 65536
            while above - below > 1:
                middle = (below + above) // 2
                below, above = (middle, above) if is_sure(middle) else (below, middle)
            accepted += below + 1
            for word in (0, 2**32 - 1):
                w = normal(half, word, word) / (3 * root)
                assert below < 0 or w > -1
                if below >= 0:
                    exponent = root**2 * (3 * math.log1p(w) - 3 * w + 1.5 * w**2 - w**3)
                    assert (below + 1) / 65536 < math.exp(exponent), (half, below)
        share = accepted / 65536 / len(halves)
        assert share > (0.9 if root < 1 else 0.95), "few draws are sure"

    def test_what_is_rejected_is_at_most_so_much(self):
        """The series of the module, and one that is a hundredth smaller, which is too small."""
        t = np.concatenate([-(10.0 ** np.arange(-3, 3)), np.linspace(0.01, 0.8, 80)])  # of negative w = −t
        with mpmath.workdps(40):
            w = [mpmath.mpf(-float(each)) for each in t]
            exact = np.array([float((x**3 - 1.5 * x**2 + 3 * x - 3 * mpmath.log1p(x)) / x**4) for x in w])
        t = np.maximum(t, 0)
        series = 0.75 * (1 + 4 / 5 * t + 4 / 6 * t**2 + 2.05 * t**3)
        assert (exact <= series * (1 + 1e-12)).all()
        assert (exact > 0.99 * series).any()

    @pytest.mark.parametrize("a", SHAPES)
    def test_bounds_hold_both_draws(self, a):
        bound, draw, chance = bind(bound_odds), bind(beta_draw), np.random.default_rng(int(a) % 1000)
        closed = 0
        for t in range(3000):
            b = SHAPES[t % len(SHAPES)]
            words = block(BLOCKS, 2, t, SAMPLE, (5, 7))
            if t % 3 == 0:  # far out in the tails
                tail = int(chance.integers(0, 40)) ^ (0xFFFF if t % 2 else 0)
                words = (tail << 16 | words[0] & 0xFFFF, *words[1:])
            roots = [single(math.sqrt(shape - 1 / 3)) for shape in (a, b)]
            lower, upper = bound(*roots, np.uint32(words[0]), np.uint32(words[3]))
            value = draw(a, b, -math.inf, words, 1, 2, t, (5, 7))
            if upper < 1e38:
                closed += 1
                lower = lower if lower < 1e38 else 1e9
                assert lower / (1 + lower) <= value <= upper / (1 + upper), (b, words)
            else:
                assert lower == 0
        assert closed > 900 if a < 1e8 else closed == 0

    @pytest.mark.parametrize("factor", [1.0, 1e4, 1e9])
    def test_picks_are_those_of_all_draws(self, factor):
        """Where laws are narrow and alike, and where bounds hold nothing."""

        @dataclass(frozen=True)
        class NarrowTS(posse.BetaTS):
            factor: float = 1.0

            @staticmethod
            def index(n, s, factor):
                return 1.0 + factor * s, 1.0 + factor * (n - s)

        problem, horizon = posse.Problem(np.full((5, 7), 0.9)), 60
        run = trace(problem, NarrowTS(factor=factor), horizon, seed=3)
        key, wrong = run_key(3, problem.stream, 0), 0
        for t in range(1, horizon + 1):
            for player in range(5):
                laws = zip(run.centers[t - 1, player], run.scales[t - 1, player], strict=True)
                values = [
                    beta_draw(a, b, -math.inf, block(arm * BLOCKS, player, t, SAMPLE, key), arm, player, t, key)
                    for arm, (a, b) in enumerate(laws)
                ]
                wrong += values[run.arms[t - 1, player]] < max(values)
        assert wrong == 0
