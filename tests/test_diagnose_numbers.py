"""Is ε right? Intervals against their definition."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posse.confidence import interval, shares
from posse.simulation import trace

LEVEL = 0.05


def played(problem, policy, horizon, replication) -> tuple[np.ndarray, np.ndarray]:
    """Pulls and sums after each round of a simulated run, [round, player, arm]."""
    run = trace(problem, policy, horizon, replication=replication)
    pulled = run.arms[:, :, None] == np.arange(problem.arms)
    return pulled.cumsum(axis=0), (pulled * run.rewards[:, :, None]).cumsum(axis=0)


class TestShares:
    def test_they_never_sum_to_more_than_one_and_use_it_up(self):
        total = np.cumsum(shares(1_000_000))
        assert (total < 1).all()
        assert total[-1] > 0.9999

    def test_later_ones_take_nothing_from_earlier_ones(self):
        assert (shares(50)[:7] == shares(7)).all()


class TestInterval:
    @pytest.mark.parametrize(("n", "s"), [(1, 0.3), (7, 7.0), (40, 3.25), (1000, 612.0)])
    def test_its_ends_are_where_the_mixture_reaches_one_over_the_level(self, n, s):
        low, high = (float(end) for end in interval(np.array(n), np.array(s), 0.01))
        for end in (low, high):
            if 0 < end < 1:
                assert self.wealth(n, s, mpmath.mpf(end)) == pytest.approx(100, rel=1e-4)
        assert low < s / n or s == 0
        assert s / n < high or s == n

    def wealth(self, n, s, mean):
        """The likelihood ratio averaged over Beta(½, ½), by numerical integration."""

        def integrand(t):
            ratio = (t / mean) ** s * ((1 - t) / (1 - mean)) ** (n - s)
            return ratio / (mpmath.pi * mpmath.sqrt(t * (1 - t)))

        return float(mpmath.quad(integrand, [0, max(s / n - 0.05, 0.01), min(s / n + 0.05, 0.99), 1]))

    def test_no_rewards_exclude_nothing(self):
        low, high = interval(np.array([0]), np.array([0.0]), 0.05)
        assert (low[0], high[0]) == (0, 1)

    def test_only_zeros_or_only_ones_leave_their_end_possible(self):
        low, high = interval(np.array([50, 50]), np.array([0.0, 50.0]), 0.05)
        assert low[0] == 0
        assert high[1] == 1
        assert high[0] == pytest.approx(1 - low[1])

    def test_it_narrows_with_pulls_and_near_the_ends(self):
        n = np.array([10, 100, 1000, 100_000])
        low, high = interval(n, n * 0.5, 0.05)
        assert (np.diff(high - low) < 0).all()
        edge_low, edge_high = interval(n, n * 0.02, 0.05)
        assert (edge_high - edge_low < high - low).all()

    @given(
        n=st.integers(0, 60),
        share=st.floats(0, 1),
        values=st.lists(st.floats(0, 1), min_size=2, max_size=5),
        weights=st.lists(st.floats(0.05, 1), min_size=5, max_size=5),
    )
    def test_its_process_is_a_supermartingale_for_any_rewards_in_the_unit_interval(self, n, share, values, weights):
        probability = np.array(weights[: len(values)]) / sum(weights[: len(values)])
        x = np.array(values)
        mean = float(probability @ x)
        if not 0.01 < mean < 0.99:
            return
        s = share * n

        def log_wealth(n, s):
            beta = math.lgamma(s + 0.5) + math.lgamma(n - s + 0.5) - math.lgamma(n + 1) - math.log(math.pi)
            return beta - s * math.log(mean) - (n - s) * math.log1p(-mean)

        growth = probability @ np.array([math.exp(log_wealth(n + 1, s + part) - log_wealth(n, s)) for part in x])
        assert growth <= 1 + 1e-9

    def test_it_is_wrong_at_any_time_no_more_often_than_the_level_where_a_fixed_time_interval_is(self):
        runs, rounds = 400, 2000
        random = np.random.default_rng(5)
        looks = np.arange(20, rounds + 1, 20)
        sums = (random.random((runs, rounds)) < 0.3).cumsum(axis=1)[:, looks - 1].astype(float)
        low, high = interval(looks, sums, LEVEL)
        ever = ((low > 0.3) | (high < 0.3)).any(axis=1).mean()
        assert 0 < ever <= LEVEL
        naive = (np.abs(sums / looks - 0.3) > 1.96 * np.sqrt(0.3 * 0.7 / looks)).any(axis=1).mean()
        assert naive > 4 * LEVEL
